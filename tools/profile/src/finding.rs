//! What could be saved, from what was learned of each shape of unit.

mod mending;

use std::collections::BTreeMap;

use crate::exchange::{Kind, TextId, Texts};
use crate::learn::{Learner, Link};
use crate::least::{Label, Mode};
use crate::profile::{Finding, Trips};
use crate::round::Round;
use crate::shape::{Example, Shape};

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
    /// Of PostgreSQL, and of Redis.
    pub(crate) rounds: &'a [Round; 2],
}

/// The least rounds of a loop of which no source is known.
const ROUNDS_MIN: f64 = 5.0;

impl Known<'_> {
    /// Everything that was found, the most first.
    pub(crate) fn findings(
        &self,
        shapes: &[Measured<'_>],
        logins: u64,
        units: u64,
    ) -> Vec<Finding> {
        let mut found = Vec::new();
        for measured in shapes {
            self.loops(measured, &mut found);
            self.protocol(measured, &mut found);
            self.independent(measured, &mut found);
            self.duplicates(measured, &mut found);
            self.parsed(measured, &mut found);
            self.idle(measured, &mut found);
            self.runs_of_redis(measured, &mut found);
            self.reads_that_decide(measured, &mut found);
        }
        self.churn(shapes, logins, units, &mut found);
        found.sort_by(|a, b| b.saves_trips.total_cmp(&a.saves_trips));
        found
    }

    fn rtt_ms(&self, is_redis: bool) -> f64 {
        self.rounds[usize::from(is_redis)].estimate().unwrap_or(0) as f64 / 1e6
    }

    fn text(&self, id: TextId) -> String {
        self.texts.get(id).text.to_string()
    }

    /// A finding that saves this many trips in all.
    fn finding(&self, kind: &str, of: &Measured<'_>, saves: f64) -> Finding {
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

    /// N+1: a statement for each row of an earlier result.
    fn loops(&self, of: &Measured<'_>, found: &mut Vec<Finding>) {
        let mut rounds: BTreeMap<(u16, TextId), (f64, f64)> = BTreeMap::new();
        for example in &of.shape.examples {
            for (at, item) in example.items.iter().enumerate() {
                let Some((text, step)) = example.step(at).filter(|it| it.1.loop_len > 0) else {
                    continue;
                };
                let waited = at > 0
                    && self.label(of, example, at - 1, at) != Label::Overlapped
                    && step.round > 0;
                let entry = rounds.entry((step.place, text)).or_default();
                entry.0 += 1.0;
                entry.1 += f64::from(u8::from(waited && item.kind == Kind::Read));
            }
        }
        let examples = of.shape.examples.len() as f64;
        for ((place, text), (all, waited)) in rounds {
            let mut steps =
                of.shape.examples.iter().flat_map(|it| (0..it.items.len()).map(|at| it.step(at)));
            let Some(step) =
                steps.find_map(|it| it.filter(|it| it.1.place == place && it.0 == text))
            else {
                continue;
            };
            let driver = self.learner.driver_of(step);
            let mean = all / examples;
            if waited == 0.0 || (driver.is_none() && mean < ROUNDS_MIN) {
                continue;
            }
            let source = driver.and_then(|place| self.at_place(of, place));
            let saves = waited / examples * of.shape.count as f64;
            let kind = if driver.is_some() { "n+1" } else { "loop" };
            let mut finding = self.finding(kind, of, saves);
            finding.title = format!("one statement {mean:.1} times a unit, one trip each");
            finding.evidence = match &source {
                Some(_) => {
                    "it ran once for each row of an earlier result, with a value of that row"
                        .to_owned()
                }
                None => "the same statement ran in a row; where its values come from is not known"
                    .to_owned(),
            };
            finding.statements = source.into_iter().chain([text]).map(|it| self.text(it)).collect();
            found.push(finding);
        }
    }

    fn at_place(&self, of: &Measured<'_>, place: u16) -> Option<TextId> {
        let example = of.shape.examples.first()?;
        (0..example.items.len())
            .find_map(|at| example.step(at).filter(|it| it.1.place == place))
            .map(|it| it.0)
    }

    fn label(&self, of: &Measured<'_>, example: &Example, a: usize, b: usize) -> Label {
        example.label(self.learner, of.shape.is_redis, a, b)
    }

    /// Trips for BEGIN, COMMIT, SAVEPOINT, settings, pings, Parse and Describe.
    fn protocol(&self, of: &Measured<'_>, found: &mut Vec<Finding>) {
        let saves = (of.trips.now - of.trips.wire) * of.shape.count as f64;
        if saves < 1.0 {
            return;
        }
        let mut of_protocol: BTreeMap<TextId, u64> = BTreeMap::new();
        let items = of.shape.examples.iter().flat_map(|it| &it.items);
        for item in items.filter(|it| it.kind.is_protocol() && it.kind != Kind::Login) {
            *of_protocol.entry(item.text).or_default() += 1;
        }
        let mut texts: Vec<_> = of_protocol.into_iter().collect();
        texts.sort_by_key(|it| std::cmp::Reverse(it.1));
        let mut finding = self.finding("protocol", of, saves);
        finding.title = format!(
            "{:.1} of {:.1} trips of a unit are waits of the protocol",
            of.trips.now - of.trips.wire,
            of.trips.now
        );
        finding.evidence = "what follows these needs nothing of their answers: an error of them \
            fails what follows as well"
            .to_owned();
        finding.statements = texts.iter().take(5).map(|it| self.text(it.0)).collect();
        found.push(finding);
    }

    /// Statements that followed whatever those before them returned.
    fn independent(&self, of: &Measured<'_>, found: &mut Vec<Finding>) {
        let saves = (of.trips.wire - of.trips.proven) * of.shape.count as f64;
        if saves < 1.0 {
            return;
        }
        let (mut n_least, mut k_least, mut texts) = (u32::MAX, u32::MAX, Vec::new());
        for example in &of.shape.examples {
            for b in 1..example.items.len() {
                if let Label::Data(Link::Independent { n, k }) = self.label(of, example, b - 1, b) {
                    (n_least, k_least) = (n_least.min(n), k_least.min(k));
                    for text in [example.items[b - 1].text, example.items[b].text] {
                        if !texts.contains(&text) {
                            texts.push(text);
                        }
                    }
                }
            }
        }
        let mut finding = self.finding("independent", of, saves);
        finding.title = "statements wait for answers that they do not need".to_owned();
        finding.evidence = match n_least {
            u32::MAX => "each of them followed whatever those before it returned".to_owned(),
            n => format!(
                "each followed in {n} units or more over {k_least} classes of results or more, and \
                takes no value from them"
            ),
        };
        finding.statements = texts.iter().take(8).map(|it| self.text(*it)).collect();
        found.push(finding);
    }

    fn duplicates(&self, of: &Measured<'_>, found: &mut Vec<Finding>) {
        for (text, count) in &of.shape.duplicates {
            let mut finding = self.finding("duplicate", of, *count as f64);
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

    /// Commands of Redis one after another that need not wait.
    fn runs_of_redis(&self, of: &Measured<'_>, found: &mut Vec<Finding>) {
        if !of.shape.is_redis {
            return;
        }
        let (mut pairs, mut texts) = (0_u64, Vec::new());
        for example in &of.shape.examples {
            for b in 1..example.items.len() {
                let (a, item) = (&example.items[b - 1], &example.items[b]);
                let may_fold = matches!(
                    self.label(of, example, b - 1, b),
                    Label::Data(Link::Independent { .. } | Link::Unknown)
                );
                if may_fold && a.text == item.text && a.kind == item.kind {
                    pairs += 1;
                    if !texts.contains(&item.text) {
                        texts.push(item.text);
                    }
                }
            }
        }
        let saves = pairs as f64 / of.shape.examples.len().max(1) as f64 * of.shape.count as f64;
        if saves < 1.0 {
            return;
        }
        let mut finding = self.finding("redis-run", of, saves);
        finding.title = "the same command several times in a row, one trip each".to_owned();
        finding.evidence = "none of them takes a value of the one before; whether the program \
            decides by it is not known"
            .to_owned();
        finding.statements = texts.iter().take(5).map(|it| self.text(*it)).collect();
        found.push(finding);
    }

    /// A read that only decides whether a write follows.
    fn reads_that_decide(&self, of: &Measured<'_>, found: &mut Vec<Finding>) {
        let mut pairs: BTreeMap<(TextId, TextId), u64> = BTreeMap::new();
        for example in &of.shape.examples {
            for b in 1..example.items.len() {
                let (read, write) = (&example.items[b - 1], &example.items[b]);
                let decides = read.kind == Kind::Read
                    && write.kind == Kind::Write
                    && self.label(of, example, b - 1, b) == Label::Data(Link::Control);
                if decides {
                    *pairs.entry((read.text, write.text)).or_default() += 1;
                }
            }
        }
        for ((read, write), count) in pairs {
            let of_unit = count as f64 / of.shape.examples.len() as f64;
            let mut finding = self.finding("read-then-write", of, of_unit * of.shape.count as f64);
            finding.title = "a read only decides whether a write follows".to_owned();
            finding.evidence = "what followed varied with the class of the read's result, and the \
                write takes no value from it"
                .to_owned();
            finding.statements = vec![self.text(read), self.text(write)];
            found.push(finding);
        }
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

/// The numbers of a shape.
pub(crate) fn measured(shape: &Shape, learner: &Learner) -> Trips {
    let now = shape.trips as f64 / shape.count.max(1) as f64;
    let least = |mode| shape.least(learner, mode).min(now);
    let wire = least(Mode::Wire);
    let proven = least(Mode::Proven).min(wire);
    Trips { now, wire, proven, floor: least(Mode::Floor).min(proven) }
}
