//! The bytes that were written: whose they are.

use std::collections::BTreeMap;

use bytes::Bytes;
use onetrip_engine::{Cause, Outcome, SyncPoint};
use onetrip_postgres::message::{FLUSH, SYNC, TERMINATE};

use super::book::{Record, failed};
use super::world::World;

impl World {
    /// What was written is the requests that were not taken back, in issue order, whole, with a
    /// Flush here and there; and what the end of the connection found unwritten is NotSent.
    pub(super) fn check_wire(&self, findings: &mut Vec<String>) {
        if self.sent_again() {
            return;
        }
        let mut by_place: BTreeMap<(u64, u64), &Record> = BTreeMap::new();
        for record in self.book.records.values().filter(|record| record.is_on_wire()) {
            by_place.insert(record.place, record);
        }
        let mut rest = &self.wrote[..];
        let mut following = by_place.values().skip(1);
        for record in by_place.values() {
            let next_joins = following.next().is_some_and(|next| next.plan.joins);
            let shares = record.plan.joins && next_joins;
            while rest.len() >= FLUSH.len()
                && rest.starts_with(&FLUSH)
                && !record.plan.bytes.starts_with(&FLUSH)
            {
                rest = &rest[FLUSH.len()..];
            }
            let protocol = self.engine.protocol();
            let Some((behind, guarded)) =
                strip(rest, &protocol.own).and_then(|(behind, _)| strip(behind, &protocol.guards))
            else {
                return;
            };
            rest = behind;
            let bytes = match record.plan.bytes.strip_suffix(&SYNC) {
                // What lies behind it is no sync point, so it was left out.
                Some(bytes)
                    if shares && rest.len() > bytes.len() && rest[bytes.len()] != SYNC[0] =>
                {
                    bytes
                }
                _ => &record.plan.bytes[..],
            };
            let cut_flush = rest.len() < FLUSH.len() && FLUSH.starts_with(rest);
            let len = rest.len().min(bytes.len());
            // Nobody heard that a member was spared after all, since its deadline had passed.
            let late = record.end() == Some(failed(Outcome::Unknown, Cause::Deadline));
            if rest[..len] != bytes[..len] && late && record.plan.sync == SyncPoint::Member {
                continue;
            }
            if rest[..len] != bytes[..len] && !cut_flush {
                return findings.push(format!("other bytes than those of {}", record.plan.id));
            }
            let untouched = !guarded && (rest.is_empty() || cut_flush);
            let not_sent = record.end() == Some(failed(Outcome::NotSent, Cause::Closed));
            let unknown = record.end() == Some(failed(Outcome::Unknown, Cause::Closed));
            if not_sent && !untouched || unknown && untouched && !bytes.is_empty() {
                let left = rest.len();
                findings.push(format!(
                    "{} ended as {:?}, and {left} bytes from its start on were written",
                    record.plan.id, record.state
                ));
            }
            rest = if untouched { &[] } else { &rest[len..] };
        }
        while let Some(behind) = rest.strip_prefix(&FLUSH[..]) {
            rest = behind;
        }
        let Some((rest, _)) = strip(rest, &self.engine.protocol().own) else { return };
        let goodbye: &[u8] = if self.terminated { &TERMINATE } else { &[] };
        if !FLUSH.starts_with(rest) && !goodbye.starts_with(rest) {
            findings.push(format!("{} bytes that belong to no request", rest.len()));
        }
    }

    /// Whether requests may have been sent more than once, as far as the host knows.
    fn sent_again(&self) -> bool {
        let hit = self.book.report.of("cancel sent") > 0;
        let again = |record: &Record| record.restarted || hit && record.may_be_restarted();
        let reset_again =
            self.book.guards_fail || self.owners.is_some() && self.engine.healed() > 0;
        self.healing || reset_again || self.book.records.values().any(again)
    }
}

/// What is behind that which the protocol wrote by itself, and whether there was any; none where it ends
/// within that.
fn strip<'a>(mut rest: &'a [u8], own: &[Bytes]) -> Option<(&'a [u8], bool)> {
    let mut found = false;
    while let Some(own) = own.iter().find(|own| rest.starts_with(own)) {
        (rest, found) = (&rest[own.len()..], true);
    }
    let is_cut = !rest.is_empty() && own.iter().any(|own| own.starts_with(rest));
    (!is_cut).then_some((rest, found))
}
