//! What only Redis' hosts are told, and whether they may have been told so.

use bytes::Bytes;
use onetrip_engine::{Cause, End, Failure, Outcome, Output};
use onetrip_redis::Event;

use super::plan::Kind;
use super::{Record, Redis, reply};
use crate::redis::model::ATTRIBUTE;
use crate::sim::book::Book;

/// What is known of a request that was submitted.
#[derive(Default)]
pub struct Known {
    /// Identities of it that were answered with errors.
    pub(super) failed: Vec<u64>,
}

/// What a host was told, beside the ends of its requests.
#[derive(Default)]
pub struct Heard {
    /// What was pushed, in order.
    pub(super) pushes: Vec<Bytes>,
}

impl Book<Redis> {
    pub(super) fn note_push(&mut self, output: &Output<Event>) {
        match output {
            Output::Event { event: Event::Push, block } => {
                self.report.count("event push");
                let block =
                    block.strip_prefix(ATTRIBUTE).map_or(block.clone(), |it| block.slice_ref(it));
                self.own.pushes.push(block);
            }
            Output::Event { event: Event::ScriptLoaded, .. } => self.report.count("script loaded"),
            // A script that is sent again more than once; nothing of its reply has come.
            Output::Restarted { .. } => self.report.count("sent again once more"),
            output => self.complain(format!("nothing leads to {output:?}")),
        }
    }

    /// What is wrong with a reply, or an error.
    pub(super) fn judge(&mut self, token: u64, end: End) -> Vec<String> {
        let Some(record) = self.records.get_mut(&token) else { return Vec::new() };
        let mut findings = Vec::new();
        match reply::check(&record.reply, &record.plan, end == End::Complete) {
            Ok(failed) => record.own.failed = failed,
            Err(what) => findings.push(what),
        }
        findings.extend(misjudged(record, end).map(str::to_owned));
        if let Some(what) = kind(record, end) {
            self.report.count(what);
        }
        findings
    }
}

/// What is wrong with what an end says of the reply.
fn misjudged(record: &Record, end: End) -> Option<&'static str> {
    let one = !matches!(record.plan.own.kind, Kind::Commands | Kind::Atomic);
    match end {
        End::Complete if one && !record.own.failed.is_empty() => Some("its error is no reply"),
        End::Provisional => Some("nothing is provisional here"),
        End::Failed(Failure { cause: Cause::Server, outcome }) => {
            if !reply::is_own_error(&record.error, &record.plan) {
                return Some("its error is another one's");
            }
            (outcome != outcome_of(&record.error, record.plan.own.leaves))
                .then_some("its error says something else")
        }
        _ => None,
    }
}

/// What an error means: it was refused before it began, or it may have left something, or it did
/// not.
fn outcome_of(error: &[u8], leaves: bool) -> Outcome {
    let code = reply::code(error.strip_prefix(ATTRIBUTE).unwrap_or(error));
    match !reply::is_refusal(error) && (leaves || code == b"IOERR") {
        true => Outcome::Unknown,
        false => Outcome::Rejected,
    }
}

fn kind(record: &Record, end: End) -> Option<&'static str> {
    match (&record.plan.own.kind, end) {
        (_, End::Complete) if !record.own.failed.is_empty() => {
            Some("complete with errors among its replies")
        }
        (Kind::Script(_), End::Complete) => Some("script complete"),
        (Kind::Atomic, End::Complete) => Some("atomic complete"),
        (Kind::Confirmations(_), End::Complete) => Some("subscription confirmed"),
        _ => None,
    }
}
