//! `--fail-on`: limits that a profile is held against.

use std::fmt;

use onetrip_profile::{KINDS, Profile};

/// A limit that was not kept has this exit status.
pub(super) const STATUS: u8 = 3;

/// A limit, such as `trips>10`: it fails where it is true.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit {
    metric: Metric,
    relation: Relation,
    value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    /// The most trips of a unit.
    Trips,
    /// Trips of the run that would be saved by what is proven.
    Saved,
    /// The share of waits of which nothing is known, from 0 to 1.
    Unknown,
    /// Pieces of traffic that were not analysed.
    Lossy,
    /// Units of work.
    Units,
    /// Findings of a kind.
    Findings(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// The metrics that are no kind of findings.
const METRICS: [(&str, Metric); 5] = [
    ("trips", Metric::Trips),
    ("saved", Metric::Saved),
    ("unknown", Metric::Unknown),
    ("lossy", Metric::Lossy),
    ("units", Metric::Units),
];

const RELATIONS: [(&str, Relation); 4] = [
    (">=", Relation::AtLeast),
    ("<=", Relation::AtMost),
    (">", Relation::Above),
    ("<", Relation::Below),
];

/// Reads one of the limits of `--fail-on`.
///
/// # Errors
/// One line: an unknown name, or no comparison with a number.
pub(super) fn limit(text: &str) -> Result<Limit, String> {
    let text = text.trim();
    let at = text.find(['<', '>']).ok_or_else(|| EXPECTED.to_owned())?;
    let (name, rest) = text.split_at(at);
    let relation = RELATIONS.iter().find_map(|(sign, it)| Some((rest.strip_prefix(sign)?, *it)));
    let (number, relation) = relation.ok_or_else(|| EXPECTED.to_owned())?;
    let value: Option<f64> = number.trim().parse().ok();
    let value = value.filter(|it| it.is_finite()).ok_or_else(|| EXPECTED.to_owned())?;
    Ok(Limit { metric: metric(name.trim())?, relation, value })
}

const EXPECTED: &str = "expected a comparison with a number, such as trips>10";

fn metric(name: &str) -> Result<Metric, String> {
    let known = METRICS.iter().find(|it| it.0 == name).map(|it| it.1);
    let kind = || KINDS.iter().find(|it| **it == name).map(|it| Metric::Findings(it));
    known.or_else(kind).ok_or_else(|| {
        let names: Vec<&str> = METRICS.iter().map(|it| it.0).chain(KINDS).collect();
        format!("{name:?} is not known; known are {}", names.join(", "))
    })
}

impl Limit {
    /// Whether the profile breaks it, and with which value.
    pub(super) fn broken_by(&self, profile: &Profile) -> Option<f64> {
        self.is_broken_by(self.metric.of(profile))
    }

    /// Whether the change from one profile to another breaks it.
    pub(super) fn broken_by_change(&self, before: &Profile, after: &Profile) -> Option<f64> {
        self.is_broken_by(self.metric.of(after) - self.metric.of(before))
    }

    fn is_broken_by(&self, value: f64) -> Option<f64> {
        let is_broken = match self.relation {
            Relation::Above => value > self.value,
            Relation::AtLeast => value >= self.value,
            Relation::Below => value < self.value,
            Relation::AtMost => value <= self.value,
        };
        is_broken.then_some(value)
    }
}

impl Metric {
    fn of(self, profile: &Profile) -> f64 {
        match self {
            Metric::Trips => profile.shapes.iter().map(|it| it.trips_max).max().unwrap_or(0) as f64,
            Metric::Saved => profile.trips.now - profile.trips.proven,
            Metric::Unknown => profile.unknown,
            Metric::Lossy => profile.lossy as f64,
            Metric::Units => profile.units as f64,
            Metric::Findings(kind) => {
                profile.findings.iter().filter(|it| it.kind == kind).count() as f64
            }
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metric = METRICS.iter().find(|it| it.1 == self.metric).map(|it| it.0);
        let name = match self.metric {
            Metric::Findings(kind) => kind,
            _ => metric.unwrap_or_default(),
        };
        let sign = RELATIONS.iter().find(|it| it.1 == self.relation).map_or("", |it| it.0);
        write!(f, "{name}{sign}{}", self.value)
    }
}

/// A line for each limit that is broken.
pub(super) fn broken(limits: &[Limit], value: impl Fn(&Limit) -> Option<f64>) -> Vec<String> {
    let said = |it: &Limit| Some(format!("--fail-on {it}: it is {}", short(value(it)?)));
    limits.iter().filter_map(said).collect()
}

fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use onetrip_profile::{Finding, Shape, Trips};

    use super::*;

    fn profile() -> Profile {
        let finding = |kind: &str| Finding { kind: kind.to_owned(), ..Finding::default() };
        Profile {
            shapes: [3, 12].map(|trips_max| Shape { trips_max, ..Shape::default() }).into(),
            trips: Trips { now: 100.0, proven: 30.0, ..Trips::default() },
            unknown: 0.25,
            findings: vec![finding("n+1"), finding("parse"), finding("n+1")],
            ..Profile::default()
        }
    }

    #[test]
    fn limits_are_held_against_a_profile() {
        for (text, broken) in [
            ("trips>11", true),
            ("trips>12", false),
            ("trips >= 12", true),
            ("n+1>1", true),
            ("n+1>2", false),
            ("saved>69.5", true),
            ("unknown>0.25", false),
            ("units<1", true),
            ("lossy>0", false),
            ("read-then-write<=0", true),
        ] {
            let limit = limit(text).unwrap();
            assert_eq!(limit.broken_by(&profile()).is_some(), broken, "{text}");
        }
        let limits = [limit("trips>10").unwrap(), limit("unknown>1").unwrap()];
        let said = broken(&limits, |it| it.broken_by(&profile()));
        assert_eq!(said, ["--fail-on trips>10: it is 12"]);
    }

    #[test]
    fn a_change_is_held_against_limits_too() {
        let limit = limit("n+1>0").unwrap();
        assert_eq!(limit.broken_by_change(&Profile::default(), &profile()), Some(2.0));
        assert_eq!(limit.broken_by_change(&profile(), &profile()), None);
    }

    #[test]
    fn what_is_no_limit_is_refused_in_a_line() {
        for (text, word) in
            [("trip>1", "known are trips"), ("trips", "trips>10"), ("trips>x", "trips>10")]
        {
            let error = limit(text).unwrap_err();
            assert!(error.contains(word) && error.lines().count() == 1, "{error}");
        }
    }
}
