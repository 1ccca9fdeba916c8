//! The report of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::plan::Kind;

/// Rows by what is known of them in the end.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Rows that the client acknowledged.
    pub acknowledged: u64,
    /// Those of the acknowledged rows that a replica had, too, as WAIT said.
    pub copied: u64,
    /// Those of the acknowledged rows that the server lost, as it may: no replica was known to have
    /// them when it crashed.
    pub lost_by_server: u64,
    /// Rows of which no byte was sent.
    pub not_sent: u64,
    /// Rows that the server rejected, alone or with the rest of their unit.
    pub rejected: u64,
    /// Rows that their writer undid.
    pub rolled_back: u64,
    /// Rows whose fate is unknown because of a fault.
    pub unknown: u64,
    /// Those of the unknown rows that are in the table.
    pub unknown_there: u64,
    /// Rows whose fate is unknown because their own deadline passed.
    pub late: u64,
    /// Rows whose reply was dropped.
    pub forgotten: u64,
    /// Rows that were in flight at a fault.
    pub in_flight: u64,
    /// The same counts for each way of writing.
    pub ways: BTreeMap<&'static str, BTreeMap<String, u64>>,
}

/// What a run came across and what it found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Repeats the faults and the choices of the writers.
    pub seed: u64,
    /// From the first write to the last.
    pub duration: Duration,
    /// Rows by what is known of them.
    pub tally: Tally,
    /// How often each kind of fault struck.
    pub faults: BTreeMap<Kind, u64>,
    /// Connections that the client lost, if that is known.
    pub lost: u64,
    /// From the moment when another server took over until the client wrote there: the longest.
    pub pause_max: Option<Duration>,
    /// What is wrong. Empty if the run is as it should be.
    pub findings: Vec<String>,
}

impl Report {
    /// Prints the report and judges it, for a test.
    ///
    /// # Panics
    /// If something is wrong. Also if one of these kinds of fault never came, or if no row was
    /// acknowledged, `Unknown`, `NotSent` or `Rejected`: such a run would prove nothing.
    pub fn judge(&self, kinds: &[Kind]) {
        println!("{self}");
        let findings = self.findings.join("\n");
        assert!(findings.is_empty(), "seed {}:\n{findings}", self.seed);
        assert!(kinds.iter().all(|kind| self.faults.contains_key(kind)), "{self}");
        let tally = &self.tally;
        let met = [tally.acknowledged, tally.unknown, tally.not_sent, tally.rejected, self.lost];
        assert!(met.iter().all(|count| *count > 0), "{self}");
        assert!(tally.unknown <= tally.in_flight, "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { acknowledged, not_sent, rejected, rolled_back, .. } = self.tally;
        let Tally { unknown, unknown_there, late, forgotten, in_flight, .. } = self.tally;
        let seconds = self.duration.as_secs_f64();
        write!(
            f,
            "seed {}, {seconds:.1} s: {acknowledged} rows acknowledged, {not_sent} NotSent, \
             {rejected} Rejected, {rolled_back} rolled back, {unknown} Unknown ({unknown_there} of \
             them are there, {in_flight} were in flight at faults), {late} late, {forgotten} \
             forgotten; ",
            self.seed
        )?;
        if self.lost > 0 {
            write!(f, "{} connections lost; ", self.lost)?;
        }
        f.write_str("faults: ")?;
        let faults = self.faults.iter().map(|(kind, count)| format!("{count} × {kind:?}"));
        f.write_str(&faults.collect::<Vec<_>>().join(", "))?;
        let Tally { copied, lost_by_server, .. } = self.tally;
        if copied > 0 {
            write!(
                f,
                "; {copied} rows were acknowledged after WAIT 1; of the others the servers lost \
                 {lost_by_server}"
            )?;
        }
        match self.pause_max {
            Some(pause) => {
                write!(f, "; a server took writes for {pause:.1?} before the client wrote, at most")
            }
            None => Ok(()),
        }
    }
}
