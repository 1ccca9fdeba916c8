//! Questions for types that are on their way over one connection.
//!
//! The answer is read by the connection, and not by a caller that may stop polling; so all who wait
//! for the same types on one connection share a question, and none waits for another caller.

use onetrip_engine::{Ticket, Time, Token};

use super::catalog::Kind;
use super::resolve::Resolved;

/// A question may have to be put again, behind a pipeline that got the right to send first. Each
/// time it is nearer to the front, and without an answer the types stay known by number.
const TRIES_MAX: u8 = 4;

/// How often one reply has asked on one connection.
#[derive(Debug, Default)]
pub struct Tries(u8);

/// The questions of one connection. Of those who wait the host's `W` is kept, to be handed back.
#[derive(Debug)]
pub struct LookUps<W> {
    on_their_way: Vec<LookUp<W>>,
}

#[derive(Debug)]
struct LookUp<W> {
    token: Token,
    oids: Vec<u32>,
    /// Who waits for the answer, and until when.
    waiting: Vec<(Time, W)>,
    /// How to take it back while it is queued.
    ticket: Option<Ticket>,
}

/// What is to be done for one who misses types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Wait: a question for some of them is on its way.
    Shared,
    /// Ask: send the question and say so with [`LookUps::asked`].
    Ask,
    /// Go on with what is known: nothing more is to be expected.
    Over,
}

impl<W> Default for LookUps<W> {
    fn default() -> LookUps<W> {
        LookUps { on_their_way: Vec::new() }
    }
}

impl<W> LookUps<W> {
    /// What is to be done for one who misses these types until a deadline. `is_same` says whether two
    /// of those who wait are one: it may wait for several replies, and is woken for the first that is
    /// late.
    pub fn wait(
        &mut self,
        missing: &[u32],
        tries: &mut Tries,
        deadline: Time,
        waiter: &W,
        is_same: impl Fn(&W, &W) -> bool,
    ) -> Wait
    where
        W: Clone,
    {
        let mut asked = self.on_their_way.iter_mut();
        if let Some(other) = asked.find(|it| it.oids.iter().any(|oid| missing.contains(oid))) {
            match other.waiting.iter_mut().find(|(_, other)| is_same(other, waiter)) {
                Some((first, _)) => *first = deadline.min(*first),
                None => other.waiting.push((deadline, waiter.clone())),
            }
            return Wait::Shared;
        }
        if tries.0 == TRIES_MAX || missing.is_empty() {
            return Wait::Over;
        }
        tries.0 += 1;
        Wait::Ask
    }

    /// The question was sent, by one who waits for its answer. With a ticket it may be taken back.
    pub fn asked(
        &mut self,
        (token, ticket): (Token, Option<Ticket>),
        missing: &[u32],
        deadline: Time,
        waiter: W,
    ) {
        let (oids, waiting) = (missing.to_vec(), vec![(deadline, waiter)]);
        self.on_their_way.push(LookUp { token, oids, waiting, ticket });
    }

    /// Those to take back when a pipeline was granted the right to send: while they are queued they
    /// would wait for its owner.
    pub fn queued(&self) -> Vec<Ticket> {
        self.on_their_way.iter().filter_map(|it| it.ticket).collect()
    }

    /// A request ended: if it was such a question, those who are to be woken once the answer is
    /// learned. Whether it failed makes no difference to them: they see what is known then.
    pub fn ended(&mut self, token: Token) -> Option<impl Iterator<Item = W> + use<W>> {
        let place = self.on_their_way.iter().position(|it| it.token == token)?;
        let look_up = self.on_their_way.swap_remove(place);
        Some(look_up.waiting.into_iter().map(|(_, waiter)| waiter))
    }

    /// When the first of those who wait is late. The question itself may have a later deadline, which
    /// is that of whoever put it.
    pub fn deadline(&self) -> Time {
        let waiting = self.on_their_way.iter().flat_map(|look_up| &look_up.waiting);
        waiting.map(|(deadline, _)| *deadline).min().unwrap_or(Time::NEVER)
    }

    /// Those who have waited long enough, and are to be woken.
    pub fn expire(&mut self, now: Time) -> impl Iterator<Item = W> {
        let all = self.on_their_way.iter_mut();
        all.flat_map(move |it| it.waiting.extract_if(.., move |(deadline, _)| *deadline <= now))
            .map(|(_, waiter)| waiter)
    }
}

/// What is learned of an answer on the way. A number that no type has may be that of a type which
/// this transaction can't see, so it is not remembered as none.
pub fn found(mut resolved: Vec<Resolved>) -> Vec<Resolved> {
    resolved.retain(|it| it.description.kind != Kind::Unknown);
    resolved
}
