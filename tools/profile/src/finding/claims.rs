//! Which finding each trip belongs to, so that none is counted twice.
//!
//! A trip that could be saved begins with a statement that waited though it need not have. That
//! statement is claimed by one finding.

use std::collections::HashMap;

use crate::exchange::{Kind, TextId};
use crate::learn::Link;
use crate::least::{self, Item, Label, Mode};
use crate::shape::Example;

/// Why a trip could be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Claim {
    /// It was a wait of the protocol.
    Protocol,
    /// It was one more round for a row of the result of this statement.
    Row(TextId),
    /// It was one more of many rounds, of which no source is known.
    Loop,
    /// It was seen to be independent.
    Independent,
    /// The same command of Redis stood in front.
    RedisRun,
    /// It repeated a read.
    Repeat,
    /// It was decided by a read in front, and took nothing from it.
    Decides,
}

impl Claim {
    /// Whether the trip is saved by folding, and so is in what the least trips save.
    pub(super) fn folds(self) -> bool {
        !matches!(self, Claim::Repeat | Claim::Decides)
    }
}

/// The least rounds of a loop of which no source is known.
const ROUNDS_MIN: u32 = 5;

/// For each item the claim on the trip that it begins.
pub(super) fn claims(
    example: &Example,
    is_redis: bool,
    label: impl Fn(usize, usize) -> Label,
    is_confirmed: impl Fn(TextId, TextId) -> bool,
) -> Vec<Option<Claim>> {
    let items = &example.items;
    let trips = |mode| least::trips(items.len(), |a, b| least::waits(label(a, b), mode));
    let (wire, proven, floor) = (trips(Mode::Wire), trips(Mode::Proven), trips(Mode::Floor));
    let now = example.trips_now();
    let mut rounds: HashMap<TextId, u32> = HashMap::new();
    for item in items.iter().filter(|it| !it.kind.is_protocol() && !it.is_again) {
        *rounds.entry(item.text).or_default() += 1;
    }
    let claim = |b: usize| -> Option<Claim> {
        let (a, item) = (&items[b - 1], &items[b]);
        // Other statements may have left with it, and the trip is saved if none of them waits.
        let end = (b..items.len()).take_while(|at| now[*at] == now[b]).last().unwrap_or(b);
        let with_last = |trips: &[u32]| trips[end] == trips[b - 1];
        let of_row =
            item.row_of.filter(|(source, is_first)| !is_first && is_confirmed(*source, item.text));
        let is_same = a.text == item.text && !item.is_again && !item.kind.is_protocol();
        let label = label(b - 1, b);
        Some(match of_row {
            _ if with_last(&wire) => Claim::Protocol,
            Some((source, _)) => Claim::Row(source),
            None if item.is_repeat => Claim::Repeat,
            None if is_redis && is_same && with_last(&floor) => Claim::RedisRun,
            None if with_last(&proven) => Claim::Independent,
            None if label == Label::Data(Link::Control) && decides(a, item) => Claim::Decides,
            None if !with_last(&floor) || item.is_again => return None,
            None if rounds.get(&item.text).is_some_and(|it| *it >= ROUNDS_MIN) => Claim::Loop,
            None => return None,
        })
    };
    let waited = |b: usize| b > 0 && now[b] != now[b - 1];
    (0..items.len()).map(|b| if waited(b) { claim(b) } else { None }).collect()
}

fn decides(a: &Item, b: &Item) -> bool {
    a.kind == Kind::Read && b.kind == Kind::Write
}
