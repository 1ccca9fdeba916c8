//! What was found.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use onetrip::{Error, Outcome};

/// What a run found: see [`findings`](Report::findings).
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many uses of statements were compared.
    pub uses: u64,
    /// How many migrations there were.
    pub migrations: u64,
    /// The errors that migrations cost, by their texts.
    pub errors: BTreeMap<String, u64>,
    /// What could not run, and why.
    pub skipped: BTreeSet<String>,
    /// What was wrong.
    pub findings: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { uses, migrations, errors, skipped, findings } = self;
        writeln!(f, "{uses} uses, {migrations} migrations, {} findings", findings.len())?;
        errors.iter().try_for_each(|(text, count)| writeln!(f, "error, {count} times: {text}"))?;
        skipped.iter().try_for_each(|what| writeln!(f, "skipped: {what}"))
    }
}

#[derive(Debug, Default)]
pub(super) struct Book {
    /// The case under way.
    pub(super) place: String,
    pub(super) report: Report,
}

impl Book {
    pub(super) fn wrong(&mut self, what: &str) {
        self.report.findings.push(format!("{}: {what}", self.place));
    }

    /// Notes an error that a migration cost. It may have had no effect.
    pub(super) fn cost(&mut self, error: &Failure) {
        *self.report.errors.entry(error.said.clone()).or_default() += 1;
        if !matches!(error.outcome, Outcome::Rejected | Outcome::NotSent) {
            self.wrong(&format!("an error is {:?}: {}", error.outcome, error.said));
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) code: String,
    pub(super) said: String,
    pub(super) outcome: Outcome,
}

/// What became of uses that stand or fall together: their rows, or the error.
pub(super) type End = Result<Vec<String>, Failure>;

pub(super) fn failure(error: &Error) -> Failure {
    let code = error.sqlstate().unwrap_or(error.code()).to_owned();
    Failure { said: format!("{code} {error}"), code, outcome: error.outcome() }
}

pub(super) fn said(end: &End) -> String {
    match end {
        Ok(rows) => format!("[{}]", rows.join("] [")),
        Err(failure) => failure.said.clone(),
    }
}
