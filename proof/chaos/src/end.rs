//! After the run: the findings and the counts.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Options;
use crate::check::{Kept, Table, Window, check};
use crate::drive::FaultWindow;
use crate::ledger::Ledger;
use crate::report::Report;

/// The state of the server and of the client at the end.
pub(crate) struct Rest {
    /// What is wrong with that state.
    pub(crate) findings: Vec<String>,
    pub(crate) table: Table,
    /// Connections that the client lost.
    pub(crate) lost: u64,
    /// Whether the client may lose only the connections that a fault broke.
    pub(crate) by_faults_alone: bool,
    pub(crate) kept: Kept,
    /// From the moment when another server takes writes until the client wrote there: the longest.
    pub(crate) pause_max: Option<Duration>,
}

impl Rest {
    /// The end of a client of which nobody knows which connections it lost.
    pub(crate) fn alone(findings: Vec<String>, table: Table) -> Rest {
        let kept = Kept::All;
        Rest { findings, table, lost: 0, by_faults_alone: false, kept, pause_max: None }
    }
}

/// Compares the ledger with the table.
pub(crate) fn judge(
    options: &Options,
    ledger: &Ledger,
    duration: Duration,
    injected: &[FaultWindow],
    in_time: bool,
    rest: Rest,
) -> Report {
    let mut findings = ledger.wrong_replies();
    if !in_time {
        findings.push("tasks hang, in the writes that never ended".to_owned());
    }
    findings.extend(rest.findings);
    let windows: Vec<Window> = injected.iter().filter_map(|fault| fault.window).collect();
    let verdict = check(&ledger.units(), &windows, &rest.table, &rest.kept);
    findings.extend(verdict.wrong);
    let broken: u64 = injected.iter().map(|fault| fault.broken).sum();
    let lost = rest.lost;
    if rest.by_faults_alone && lost > broken {
        findings.push(format!("{lost} connections were lost, and {broken} were broken"));
    }
    let mut faults = BTreeMap::new();
    injected.iter().for_each(|fault| *faults.entry(fault.kind).or_default() += 1);
    let (tally, pause_max) = (verdict.tally, rest.pause_max);
    Report { seed: options.seed, duration, tally, faults, lost, pause_max, findings }
}

/// How long the client and the server may take to come to rest.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
