//! What the profiler says of programs whose dataflow is known, and what the rules of others do.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use onetrip_profile::{Profile, Statement};

use crate::programs::{Id, Log, Program, run};
use crate::rivals;

/// How often something was said and was right or wrong, and how often it should have been said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Score {
    pub(crate) right: u64,
    pub(crate) wrong: u64,
    pub(crate) missed: u64,
}

impl Score {
    pub(crate) fn note(&mut self, is_said: bool, is_true: bool) {
        match (is_said, is_true) {
            (true, true) => self.right += 1,
            (true, false) => self.wrong += 1,
            (false, true) => self.missed += 1,
            (false, false) => {}
        }
    }

    /// Percent of what was said.
    pub(crate) fn precision(&self) -> f64 {
        percent(self.right, self.right + self.wrong)
    }

    /// Percent of what should have been said.
    pub(crate) fn recall(&self) -> f64 {
        percent(self.right, self.right + self.missed)
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 100.0 } else { part as f64 * 100.0 / whole as f64 }
}

#[derive(Debug, Default)]
struct Scores {
    /// Statements one after another that are said to be independent: of those of which it could be
    /// seen, and of all.
    seen: Score,
    all: Score,
    /// Pairs that go in one trip with what is proven folded.
    folded: Score,
    /// Links by value, from whatever statement before: of values of 32 bits and more, and of all.
    wide: Score,
    links: Score,
    /// What others call independent, of all.
    sentry: Score,
    sentinel: Score,
    wrong: Vec<String>,
}

/// A statement of an example, and the round of its loop.
struct Place {
    id: Id,
    round: usize,
}

fn places(program: &Program, example: &[Statement]) -> Vec<Option<Place>> {
    let mut rounds: HashMap<Id, usize> = HashMap::new();
    let of = |it: &Statement| {
        let id = program.place(&it.text)?;
        let round = rounds.entry(id).or_default();
        *round += 1;
        Some(Place { id, round: *round - 1 })
    };
    example.iter().map(of).collect()
}

/// Whether one needs the answer of another that came before it.
fn needs(program: &Program, log: &Log, b: &Place, a: &Place) -> bool {
    let is_later_round = b.round > a.round && program.are_in_a_loop(a.id, b.id);
    match is_later_round {
        true => program.takes_before(b.id, a.id),
        false => program.takes(b.id, a.id) || program.is_decided(b.id, a.id, log),
    }
}

impl Scores {
    fn judge(&mut self, seed: u64, (program, log, profile): &(Program, Log, Profile)) {
        for shape in profile.shapes.iter().filter(|it| it.count >= 20) {
            let example = &shape.example;
            let places = places(program, example);
            let spans = rivals::spans(example, shape.is_redis);
            let sentry = rivals::sentry_consecutive(&spans);
            let sentinel = rivals::sentinel_serialized(&spans);
            for b in 1..example.len() {
                let (Some(from), Some(to)) = (&places[b - 1], &places[b]) else { continue };
                if example[b].label == "overlapped" {
                    continue;
                }
                let is_free = !needs(program, log, to, from);
                let is_said = example[b].label == "independent";
                let is_first = places[..b].iter().flatten().all(|it| it.id != to.id);
                if is_said && !is_free {
                    self.wrong.push(format!(
                        "{seed}: {} | {}",
                        example[b - 1].text,
                        example[b].text
                    ));
                }
                self.all.note(is_said, is_free);
                if is_said || (is_first && log.could_be_seen(&path(&places[..b]), to.id)) {
                    self.seen.note(is_said, is_free);
                }
                self.sentry.note(sentry.contains(&b), is_free);
                self.sentinel.note(sentinel.contains(&b), is_free);
            }
            self.judge_folds(seed, program, log, example, &places);
            self.judge_links(seed, program, example, &places);
        }
    }

    /// Of two that go in one trip the later one must not need the earlier.
    fn judge_folds(
        &mut self,
        seed: u64,
        program: &Program,
        log: &Log,
        example: &[Statement],
        places: &[Option<Place>],
    ) {
        for b in 1..example.len() {
            for a in (0..b).filter(|a| example[*a].trip[1] == example[b].trip[1]) {
                let (Some(from), Some(to)) = (&places[a], &places[b]) else { continue };
                if example[a].trip[0] == example[b].trip[0] {
                    continue;
                }
                let is_free = !needs(program, log, to, from);
                if !is_free {
                    let (a, b) = (&example[a].text, &example[b].text);
                    self.wrong.push(format!("{seed}, in one trip: {a} | {b}"));
                }
                self.folded.note(true, is_free);
            }
        }
    }

    fn judge_links(
        &mut self,
        seed: u64,
        program: &Program,
        example: &[Statement],
        places: &[Option<Place>],
    ) {
        let (mut said, mut true_ones) = (HashSet::new(), HashSet::new());
        for (b, place) in places.iter().enumerate() {
            let Some(to) = place else { continue };
            let of = example[b].values_of.iter().filter_map(|a| places[*a as usize].as_ref());
            said.extend(of.map(|from| (from.id, to.id)));
            let ran = |id: &Id| places[..b].iter().flatten().any(|it| it.id == *id);
            let sources = program.origins(to.id).into_iter().filter(ran);
            true_ones.extend(sources.map(|from| (from, to.id)));
            if program.takes_before(to.id, to.id) && to.round > 0 {
                true_ones.extend(program.origin(to.id).map(|from| (from, to.id)));
            }
        }
        for link in said.union(&true_ones) {
            let (is_said, is_true) = (said.contains(link), true_ones.contains(link));
            self.links.note(is_said, is_true);
            if program.is_wide() {
                self.wide.note(is_said, is_true);
                if is_said != is_true && std::env::var_os("ONETRIP_SHOW").is_some() {
                    let text = |id: Id| &program.statements[id].text;
                    println!("{seed}: said {is_said}: {} -> {}", text(link.0), text(link.1));
                }
            }
        }
    }

    fn of(seeds: Range<u64>) -> Scores {
        let mut scores = Scores::default();
        for seed in seeds {
            scores.judge(seed, &run(seed));
        }
        scores
    }

    fn rows(&self) -> [(&'static str, Score); 7] {
        [
            ("independent, where it could be seen", self.seen),
            ("independent, of all pairs", self.all),
            ("in one trip with what is proven", self.folded),
            ("value links of 32 bits and more", self.wide),
            ("value links of any width", self.links),
            ("Sentry's consecutive queries", self.sentry),
            ("perf-sentinel's serialized calls", self.sentinel),
        ]
    }
}

fn path(places: &[Option<Place>]) -> Vec<Id> {
    let mut path = Vec::new();
    for place in places.iter().flatten() {
        if !path.contains(&place.id) {
            path.push(place.id);
        }
    }
    path
}

/// The programs to judge: `ONETRIP_PROGRAMS=first..last`, or a few.
pub(crate) fn seeds(few: Range<u64>) -> Range<u64> {
    let wanted = std::env::var("ONETRIP_PROGRAMS").ok();
    let range = wanted.as_deref().and_then(|it| it.split_once(".."));
    range.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?)).unwrap_or(few)
}

/// Prints rows of a table: what was said, right, wrong, missed, precision, recall.
pub(crate) fn print(rows: &[(&str, Score)]) {
    for (name, it) in rows {
        let (precision, recall) = (it.precision(), it.recall());
        println!(
            "| {name} | {} | {} | {} | {precision:.2} % | {recall:.2} % |",
            it.right, it.wrong, it.missed
        );
    }
}

#[test]
fn what_is_said_of_dependence_is_true() {
    let scores = Scores::of(seeds(0..600));
    print(&scores.rows());
    let shown: Vec<_> = scores.wrong.iter().take(20).collect();
    assert!(scores.seen.precision() >= 99.9, "{shown:#?}");
    assert!(scores.folded.precision() >= 99.9, "{shown:#?}");
    assert!(scores.seen.recall() >= 80.0, "{:?}", scores.seen);
    assert!(scores.wide.precision() >= 98.0, "{:?}", scores.wide);
    assert!(scores.wide.recall() >= 95.0, "{:?}", scores.wide);
    // Enough was said for these numbers to mean something.
    assert!(scores.seen.right > 100 && scores.wide.right > 100, "{scores:?}");
}

/// A profiler that calls everything independent would be found out.
#[test]
fn programs_have_what_makes_it_hard() {
    let (mut needed, mut free) = (0, 0);
    for seed in 0..60 {
        let (program, log, profile) = run(seed);
        for shape in profile.shapes.iter().filter(|it| it.count >= 20) {
            let places = places(&program, &shape.example);
            for pair in places.windows(2) {
                let (Some(a), Some(b)) = (&pair[0], &pair[1]) else { continue };
                match needs(&program, &log, b, a) {
                    true => needed += 1,
                    false => free += 1,
                }
            }
        }
    }
    assert!(needed * 10 > free && free * 10 > needed, "{needed} {free}");
}
