//! Programs with and without N+1, held against what the profiler finds, and what the rules of
//! others do.

use std::collections::BTreeMap;

use onetrip_profile::Profiler;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus as Random;

use crate::dependence::{Score, print, seeds};
use crate::programs::below;
use crate::rivals::{self, Span};
use crate::speaker::{Found, Speaker};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    // One statement for each row.
    Rows,
    /// With other statements between the rounds.
    Interleaved,
    /// Of some rows only, between other statements, as an ORM loads what is looked at.
    Lazy,
    /// Two statements for each row, of which the second takes a value of the first.
    Nested,
    InTransaction,
    OfArray,
    OfRedis,
    // And none of that.
    Constants,
    Given,
    Batches,
    PagesByLast,
    PagesByOffset,
    Retries,
    Polling,
    Chain,
    Pipelined,
    Plain,
}

const KINDS: [Kind; 17] = [
    Kind::Rows,
    Kind::Interleaved,
    Kind::Lazy,
    Kind::Nested,
    Kind::InTransaction,
    Kind::OfArray,
    Kind::OfRedis,
    Kind::Constants,
    Kind::Given,
    Kind::Batches,
    Kind::PagesByLast,
    Kind::PagesByOffset,
    Kind::Retries,
    Kind::Polling,
    Kind::Chain,
    Kind::Pipelined,
    Kind::Plain,
];

impl Kind {
    fn is_n_plus_one(self) -> bool {
        self <= Kind::OfRedis
    }
}

/// A program while it runs.
struct Run<'a> {
    random: Random,
    it: Speaker,
    to: &'a mut Profiler,
    domain: u64,
    spans: Vec<Span>,
}

const SOURCE: &str = "select id from orders where day = $1";
const BODY: &str = "select name from lines where order_id = $1";
const OTHER: &str = "select value from settings where name = $1";

impl Run<'_> {
    fn one(&mut self) -> String {
        below(&mut self.random, self.domain).to_string()
    }

    /// Different values: `least` of them, or a few more.
    fn some(&mut self, least: u64) -> Vec<String> {
        let len = least + below(&mut self.random, 6);
        let mut all = Vec::new();
        while all.len() < len as usize {
            let value = self.one();
            if !all.contains(&value) {
                all.push(value);
            }
        }
        all
    }

    fn send(&mut self, text: &str, with: &[String], rows: Vec<String>) {
        self.together(&[(text.to_owned(), with.to_vec(), Found::Rows(rows))]);
    }

    fn together(&mut self, all: &[(String, Vec<String>, Found)]) {
        let begin = self.it.at;
        let is_redis = all[0].0.starts_with(|it: char| it.is_ascii_uppercase());
        match is_redis {
            true => self.it.commands(self.to, all),
            false => self.it.statements(self.to, all),
        }
        let end = self.it.at - 50_000;
        let ms = |at: u64| at as f64 / 1e6;
        self.spans.extend(all.iter().map(|(text, with, _)| Span {
            text: text.clone(),
            with: with.join(","),
            begin_ms: ms(begin),
            end_ms: ms(end),
            is_redis,
        }));
    }

    /// A name of one or no row.
    fn name(&mut self) -> Vec<String> {
        let has = !below(&mut self.random, 3).is_multiple_of(3);
        if has { vec![format!("name {}", self.one())] } else { Vec::new() }
    }

    fn body(&mut self, id: &str) {
        let name = self.name();
        self.send(BODY, &[id.to_owned()], name);
    }

    fn other(&mut self) {
        let names = ["color", "size", "lang"];
        let name = names[below(&mut self.random, 3) as usize];
        self.send(OTHER, &[name.to_owned()], vec!["1".to_owned()]);
    }

    fn source(&mut self, rows: Vec<String>) {
        let day = format!("day {}", below(&mut self.random, 1 << 30));
        self.send(SOURCE, &[day], rows);
    }

    fn unit(&mut self, kind: Kind, number: u64) {
        let rows = self.some(if kind == Kind::Plain { 1 } else { 2 });
        match kind {
            Kind::Rows => {
                self.source(rows.clone());
                rows.iter().for_each(|id| self.body(id));
            }
            Kind::Interleaved => {
                self.source(rows.clone());
                for id in &rows {
                    self.body(id);
                    self.other();
                }
            }
            Kind::Lazy => {
                self.source(rows.clone());
                self.other();
                for id in &rows {
                    if below(&mut self.random, 4) > 0 {
                        self.body(id);
                    }
                    if below(&mut self.random, 2) == 0 {
                        self.other();
                    }
                }
            }
            Kind::Nested => {
                self.source(rows.clone());
                for id in &rows {
                    let owner = self.one();
                    self.send(BODY, std::slice::from_ref(id), vec![owner.clone()]);
                    self.send("select mail from owners where id = $1", &[owner], Vec::new());
                }
            }
            Kind::InTransaction => {
                self.it.simple(self.to, "begin", &Vec::new());
                self.source(rows.clone());
                for id in &rows {
                    self.send(
                        "update lines set seen = true where order_id = $1",
                        std::slice::from_ref(id),
                        vec![],
                    );
                }
                self.it.simple(self.to, "commit", &Vec::new());
            }
            Kind::OfArray => {
                let day = [format!("day {}", below(&mut self.random, 1 << 30))];
                let array = Found::Arrays(vec![format!("{{{}}}", rows.join(","))]);
                self.together(&[(SOURCE.to_owned(), day.to_vec(), array)]);
                rows.iter().for_each(|id| self.body(id));
            }
            Kind::OfRedis => {
                self.send("SMEMBERS orders", &[], rows.clone());
                for id in &rows {
                    let name = self.name();
                    self.send("GET order", std::slice::from_ref(id), name);
                }
            }
            Kind::Constants => {
                self.source(rows);
                (1..=3 + number % 5).for_each(|id| self.body(&id.to_string()));
            }
            Kind::Given => {
                self.source(rows);
                let given = self.some(3);
                given.iter().for_each(|id| self.body(id));
            }
            _ => self.without(kind, rows),
        }
    }

    fn without(&mut self, kind: Kind, rows: Vec<String>) {
        let day = below(&mut self.random, 1 << 30).to_string();
        match kind {
            Kind::Batches => {
                self.source(rows.clone());
                for batch in rows.chunks(3).filter(|it| it.len() > 1) {
                    let array = format!("{{{}}}", batch.join(","));
                    let text = "select name from lines where order_id = any($1)";
                    self.send(text, &[array], vec!["a".to_owned(), "b".to_owned()]);
                }
            }
            Kind::PagesByLast => {
                let mut last = "0".to_owned();
                for _ in 0..3 + below(&mut self.random, 4) {
                    let page = self.some(3);
                    let text = "select id from orders where id > $1 order by id limit 5";
                    self.send(text, &[std::mem::take(&mut last)], page.clone());
                    last.clone_from(&page[page.len() - 1]);
                }
            }
            Kind::PagesByOffset => {
                for page in 0..3 + below(&mut self.random, 4) {
                    let rows = self.some(3);
                    let text = "select id from orders order by id offset $1 limit 5";
                    self.send(text, &[(page * 5).to_string()], rows);
                }
            }
            Kind::Retries => {
                self.source(rows.clone());
                let text = "update lines set state = 1 where order_id = $1".to_owned();
                for _ in 0..1 + below(&mut self.random, 6) {
                    self.together(&[(text.clone(), vec![rows[0].clone()], Found::Failed)]);
                }
                self.send(&text, &[rows[0].clone()], Vec::new());
            }
            Kind::Polling => {
                for _ in 0..3 + below(&mut self.random, 5) {
                    self.send(
                        "select id from jobs where queue = $1 limit 1",
                        &["a".to_owned()],
                        vec![],
                    );
                }
                self.send("select id from jobs where queue = $1 limit 1", &["a".to_owned()], rows);
            }
            Kind::Chain => {
                self.source(vec![rows[0].clone()]);
                self.body(&rows[0]);
                self.send("select 1 from owners where id = $1", &[rows[1].clone()], vec![]);
                self.other();
            }
            Kind::Pipelined => {
                self.source(rows.clone());
                let one = |id: &String| (BODY.to_owned(), vec![id.clone()], Found::Rows(vec![]));
                let all: Vec<_> = rows.iter().map(one).collect();
                self.together(&all);
            }
            _ => {
                self.send(OTHER, &[day], rows.clone());
                self.body(&rows[0]);
                self.other();
            }
        }
    }
}

/// Units of each program.
const UNITS: u64 = 40;

#[derive(Default)]
struct Found3 {
    ours: Score,
    sentry: Score,
    sentinel: Score,
    wrong: Vec<String>,
}

fn judge(seed: u64, found: &mut Found3, by_kind: &mut BTreeMap<Kind, [u64; 4]>) {
    let mut random = Random::seed_from_u64(seed);
    let kind = KINDS[below(&mut random, KINDS.len() as u64) as usize];
    let domain = [50, 10_000, 1 << 40][below(&mut random, 3) as usize];
    let mut profiler = Profiler::new();
    let mut it = match kind {
        Kind::OfRedis => Speaker::redis(&mut profiler, 1, 0),
        _ => Speaker::new(&mut profiler, 1, 0),
    };
    // As slow as the rules of others need it to be, and as fast.
    it.rtt = 12_000_000;
    let (mut sentry, mut sentinel) = (false, false);
    let mut run = Run { random, it, to: &mut profiler, domain, spans: Vec::new() };
    for _ in 0..UNITS {
        run.unit(kind, seed);
        sentry |= !rivals::sentry_n_plus_one(&run.spans).is_empty();
        sentinel |= !rivals::sentinel_n_plus_one(&run.spans).is_empty();
        run.spans.clear();
        run.it.rest(2_000_000_000);
    }
    let profile = profiler.finish();
    let all: Vec<_> = profile.findings.iter().filter(|it| it.kind == "n+1").collect();
    // The statement whose rows they are of has to be named, too.
    let is_source = |it: &String| it == SOURCE || it.starts_with("SMEMBERS");
    let ours = all.iter().any(|it| it.statements.first().is_some_and(is_source));
    let is_true = kind.is_n_plus_one();
    found.ours.note(ours, is_true);
    found.sentry.note(sentry, is_true);
    found.sentinel.note(sentinel, is_true);
    if ours != is_true {
        found.wrong.push(format!("{seed}: {kind:?}, ids below {domain}, {all:?}"));
    }
    let of_kind = by_kind.entry(kind).or_default();
    for (count, is) in of_kind.iter_mut().zip([true, ours, sentry, sentinel]) {
        *count += u64::from(is);
    }
}

#[test]
fn n_plus_one_is_found_and_nothing_else_is_taken_for_it() {
    let (mut found, mut by_kind) = (Found3::default(), BTreeMap::new());
    for seed in seeds(0..200) {
        judge(seed, &mut found, &mut by_kind);
    }
    print(&[
        ("N+1", found.ours),
        ("Sentry's N+1", found.sentry),
        ("perf-sentinel's N+1", found.sentinel),
    ]);
    for (kind, [all, ours, sentry, sentinel]) in &by_kind {
        println!("| {kind:?} | {all} | {ours} | {sentry} | {sentinel} |");
    }
    assert_eq!(by_kind.len(), KINDS.len());
    assert!(found.ours.precision() >= 95.0, "{:#?}", found.wrong);
    assert!(found.ours.recall() >= 95.0, "{:#?}", found.wrong);
}
