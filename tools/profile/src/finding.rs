//! What could be saved, from what was learned of each shape of unit.

mod claims;
pub(crate) mod code;
mod mending;

use std::collections::BTreeMap;

use claims::{Claim, claims};

use crate::exchange::{Kind, TextId, Texts};
use crate::learn::{Learner, Link};
use crate::least::{Item, Label, Mode};
use crate::profile::{Finding, KINDS, Trips};
use crate::round::Round;
use crate::rows::Rows;
use crate::shape::Shape;

/// A shape and its numbers.
pub(crate) struct Measured<'a> {
    pub(crate) id: u32,
    pub(crate) shape: &'a Shape,
    pub(crate) trips: Trips,
}

/// What findings are made from.
pub(crate) struct Known<'a> {
    pub(crate) texts: &'a Texts,
    pub(crate) learner: &'a Learner,
    pub(crate) rows: &'a Rows,
    /// Of PostgreSQL, and of Redis.
    pub(crate) rounds: &'a [Round; 2],
}

/// What one kind of claim comes to in a shape, for all its units.
#[derive(Debug, Default)]
struct Claimed {
    trips: f64,
    /// The statements concerned and the trips that each began; and the units that had any.
    texts: Vec<(TextId, f64)>,
    units: f64,
    /// A write outside of a transaction was among them.
    needs_guard: bool,
    /// A COMMIT behind a write was among them.
    ends_a_write: bool,
}

/// Claims of a shape, and of N+1 by the two texts.
type Claims = BTreeMap<Claim, Claimed>;
type Loops = BTreeMap<(TextId, TextId), (Claimed, Option<u32>, f64)>;

impl Known<'_> {
    /// Everything that was found, the most first.
    pub(crate) fn findings(
        &self,
        shapes: &[Measured<'_>],
        logins: u64,
        units: u64,
    ) -> Vec<Finding> {
        let (mut found, mut loops) = (Vec::new(), Loops::new());
        for measured in shapes {
            let claims = self.claims(measured, &mut loops);
            for (claim, claimed) in &claims {
                found.extend(self.of_claim(measured, *claim, claimed));
            }
            self.duplicates(measured, claims.get(&Claim::Repeat), &mut found);
            self.parsed(measured, &mut found);
            self.idle(measured, &mut found);
        }
        self.loops(shapes, loops, &mut found);
        self.churn(shapes, logins, units, &mut found);
        found.sort_by(|a, b| b.saves_trips.total_cmp(&a.saves_trips));
        found
    }

    /// What could be saved in a shape. N+1 is put to that of other shapes.
    fn claims(&self, of: &Measured<'_>, loops: &mut Loops) -> Claims {
        let mut all: BTreeMap<(Claim, Option<TextId>), Claimed> = BTreeMap::new();
        for example in &of.shape.examples {
            let label = |a, b| example.label(self.learner, of.shape.is_redis, a, b);
            let is_confirmed = |source, text| self.rows.is_confirmed(source, text);
            let claims = claims(example, of.shape.is_redis, label, is_confirmed);
            let (mut seen, weight) = (Vec::new(), example.weight());
            for (b, claim) in claims.iter().enumerate() {
                let Some(claim) = *claim else { continue };
                let text = matches!(claim, Claim::Row(_)).then_some(example.items[b].text);
                let claimed = all.entry((claim, text)).or_default();
                if !seen.contains(&(claim, text)) {
                    seen.push((claim, text));
                    claimed.units += example.units as f64;
                }
                claimed.add(claim, &example.items[b - 1], &example.items[b], weight);
            }
        }
        // No more than the least trips save.
        let folded: f64 = all.iter().filter(|it| it.0.0.folds()).map(|it| it.1.trips).sum();
        let most = (of.trips.now - of.trips.floor) * of.shape.count as f64;
        let factor = if folded > most { most / folded } else { 1.0 };
        let mut claims = Claims::new();
        for ((claim, text), mut claimed) in all {
            claimed.trips *= if claim.folds() { factor } else { 1.0 };
            match (claim, text) {
                (Claim::Row(source), Some(text)) => {
                    let (sum, shape, most) = loops.entry((source, text)).or_default();
                    sum.trips += claimed.trips;
                    sum.units += claimed.units;
                    sum.needs_guard |= claimed.needs_guard;
                    if claimed.trips > *most {
                        (*shape, *most) = (Some(of.id), claimed.trips);
                    }
                }
                _ => {
                    claims.insert(claim, claimed);
                }
            }
        }
        claims
    }

    /// A finding of a claim; `None` of those that have one of their own.
    fn of_claim(&self, of: &Measured<'_>, claim: Claim, claimed: &Claimed) -> Option<Finding> {
        let (per_unit, now) = (claimed.trips / of.shape.count as f64, of.trips.now);
        let (kind, title, evidence) = match claim {
            Claim::Protocol => (
                "protocol",
                format!("{per_unit:.1} of {now:.1} trips of a unit are waits of the protocol"),
                "what follows these needs nothing of their answers: an error of them fails what \
                follows as well"
                    .to_owned(),
            ),
            Claim::Independent => (
                "independent",
                "statements wait for answers that they do not need".to_owned(),
                self.experiment(of),
            ),
            Claim::Loop => (
                "loop",
                format!("one statement many times in a unit: {per_unit:.1} trips"),
                "the same statement ran with other parameters each time; where its values come \
                from is not known"
                    .to_owned(),
            ),
            Claim::RedisRun => (
                "redis-run",
                "the same command several times in a row, one trip each".to_owned(),
                "none of them takes a value of the one before; whether the program decides by it \
                is not known"
                    .to_owned(),
            ),
            Claim::Decides => (
                "read-then-write",
                "a read only decides whether a write follows".to_owned(),
                "what followed varied with the class of the read's result, and the write takes no \
                value from it"
                    .to_owned(),
            ),
            Claim::Row(_) | Claim::Repeat => return None,
        };
        // Less than a trip may be left where the least trips are fewer than the claims.
        if claimed.trips < 0.5 {
            return None;
        }
        let mut finding = self.finding(kind, of, claimed.trips);
        (finding.title, finding.evidence) = (title, evidence);
        finding.count = claimed.units.round() as u64;
        finding.note = claimed.note(claim);
        finding.statements = claimed.texts.iter().take(8).map(|it| self.text(it.0)).collect();
        Some(finding)
    }

    /// The least evidence of all pairs that are called independent.
    fn experiment(&self, of: &Measured<'_>) -> String {
        let (mut n_least, mut k_least) = (u32::MAX, u32::MAX);
        for example in &of.shape.examples {
            for b in 1..example.items.len() {
                let label = example.label(self.learner, of.shape.is_redis, b - 1, b);
                if let Label::Data(Link::Independent { n, k }) = label {
                    (n_least, k_least) = (n_least.min(n), k_least.min(k));
                }
            }
        }
        match n_least {
            u32::MAX => "each of them followed whatever those before it returned".to_owned(),
            n => format!(
                "each followed in {n} units or more over {k_least} classes of results or more, and \
                takes no value from them"
            ),
        }
    }

    /// N+1: a statement for each row of an earlier result.
    fn loops(&self, shapes: &[Measured<'_>], loops: Loops, found: &mut Vec<Finding>) {
        for ((source, text), (claimed, shape, _)) in loops {
            let of = shape.and_then(|id| shapes.iter().find(|it| it.id == id));
            let Some(of) = of.filter(|_| claimed.trips >= 0.5) else { continue };
            let mut finding = self.finding("n+1", of, claimed.trips);
            let rounds = 1.0 + claimed.trips / claimed.units.max(1.0);
            finding.title = format!("one statement {rounds:.1} times a unit, one trip each");
            finding.evidence =
                "it ran once for each row of an earlier result, with a value of that row"
                    .to_owned();
            finding.count = claimed.units.round() as u64;
            finding.note = claimed.note(Claim::Row(source));
            finding.statements = vec![self.text(source), self.text(text)];
            found.push(finding);
        }
    }

    fn rtt_ms(&self, is_redis: bool) -> f64 {
        self.rounds[usize::from(is_redis)].estimate().unwrap_or(0) as f64 / 1e6
    }

    fn text(&self, id: TextId) -> String {
        self.texts.get(id).text.to_string()
    }

    /// A finding that saves this many trips in all.
    fn finding(&self, kind: &str, of: &Measured<'_>, saves: f64) -> Finding {
        debug_assert!(KINDS.contains(&kind), "{kind} stands among the kinds");
        let mending = mending::of(kind, of.shape.is_redis);
        Finding {
            kind: kind.to_owned(),
            shape: Some(of.id),
            count: of.shape.count,
            saves_trips: saves,
            saves_ms: saves * self.rtt_ms(of.shape.is_redis),
            with_any_driver: mending.0.to_owned(),
            with_onetrip: mending.1.to_owned(),
            ..Finding::default()
        }
    }

    fn duplicates(&self, of: &Measured<'_>, claimed: Option<&Claimed>, found: &mut Vec<Finding>) {
        for (text, count) in &of.shape.duplicates {
            let trips = claimed.and_then(|it| it.texts.iter().find(|it| it.0 == *text));
            let mut finding = self.finding("duplicate", of, trips.map_or(0.0, |it| it.1));
            finding.count = *count;
            finding.title = "a unit reads the same twice".to_owned();
            finding.evidence =
                "the same text with the same parameters, and no write between".to_owned();
            finding.statements = vec![self.text(*text)];
            found.push(finding);
        }
    }

    fn parsed(&self, of: &Measured<'_>, found: &mut Vec<Finding>) {
        for (text, count) in of.shape.parsed.iter().filter(|it| *it.1 >= 20) {
            let mut finding = self.finding("parse", of, 0.0);
            finding.count = *count;
            finding.title = "a statement is parsed and planned at each use".to_owned();
            finding.evidence =
                "each use sends its text in a Parse message without a name".to_owned();
            finding.statements = vec![self.text(*text)];
            found.push(finding);
        }
    }

    fn idle(&self, of: &Measured<'_>, found: &mut Vec<Finding>) {
        let ms = of.shape.idle_in_transaction as f64 / 1e6;
        let mean = ms / of.shape.count as f64;
        if mean < 1.0 {
            return;
        }
        let mut finding = self.finding("idle", of, 0.0);
        finding.title = format!("a transaction is open for {mean:.1} ms while the program works");
        finding.evidence = "the time between an answer and the next statement, while the server's \
            status was in a transaction"
            .to_owned();
        found.push(finding);
    }

    fn churn(&self, shapes: &[Measured<'_>], logins: u64, units: u64, found: &mut Vec<Finding>) {
        let work = units.saturating_sub(logins);
        if logins < 5 || logins * 4 < work {
            return;
        }
        let is_login = |it: &&Measured<'_>| {
            let first = it.shape.examples.first().and_then(|it| it.items.first());
            first.is_some_and(|it| it.kind == Kind::Login)
        };
        let logins_of: Vec<_> = shapes.iter().filter(is_login).collect();
        let trips: u64 = logins_of.iter().map(|it| it.shape.trips).sum();
        let Some(first) = logins_of.first() else { return };
        let mut finding = self.finding("connections", first, trips as f64);
        finding.shape = None;
        finding.count = logins;
        finding.title = format!("{logins} connections were opened for {work} units of work");
        finding.evidence = format!("the logins took {trips} trips");
        found.push(finding);
    }
}

impl Claimed {
    /// A trip of an example that stands for so many.
    fn add(&mut self, claim: Claim, a: &Item, b: &Item, weight: f64) {
        self.trips += weight;
        let is_write = |it: &Item| !matches!(it.kind, Kind::Read) && !it.kind.is_protocol();
        self.needs_guard |= claim != Claim::Protocol
            && claim.folds()
            && !a.in_transaction
            && (is_write(a) || is_write(b));
        self.ends_a_write |= claim == Claim::Protocol && b.kind == Kind::Commit && is_write(a);
        let texts = match claim {
            // What waited, or was waited for.
            Claim::Protocol if a.kind.is_protocol() => vec![(a.text, weight)],
            Claim::Independent | Claim::Decides => vec![(a.text, 0.0), (b.text, weight)],
            _ => vec![(b.text, weight)],
        };
        for (text, trips) in texts {
            match self.texts.iter_mut().find(|it| it.0 == text) {
                Some(known) => known.1 += trips,
                None => self.texts.push((text, trips)),
            }
        }
    }

    /// What to mind when it is mended.
    fn note(&self, claim: Claim) -> String {
        let mut note = String::new();
        if self.needs_guard {
            note.push_str(
                "Outside of a transaction a later statement would run even if one before it \
                failed. ",
            );
        }
        if self.ends_a_write {
            note.push_str(
                "A program that commits or rolls back by the number of changed rows, as with a \
                column for the version, needs that number in front of COMMIT. ",
            );
        }
        if matches!(claim, Claim::Loop | Claim::RedisRun) {
            note.push_str(
                "If an answer decides whether there is a next round, as in paging or polling, they \
                can't be asked for at once. ",
            );
        }
        note.trim_end().to_owned()
    }
}

/// The numbers of a shape.
pub(crate) fn measured(shape: &Shape, learner: &Learner) -> Trips {
    let now = shape.trips as f64 / shape.count.max(1) as f64;
    let least = |mode| shape.least(learner, mode).min(now);
    let wire = least(Mode::Wire);
    let proven = least(Mode::Proven).min(wire);
    Trips { now, wire, proven, floor: least(Mode::Floor).min(proven) }
}
