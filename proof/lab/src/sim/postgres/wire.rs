//! The bytes that were written: finds the requests, and checks what is between them.

use bytes::Bytes;
use onetrip_engine::{Cause, Outcome, SyncPoint};
use onetrip_postgres::message::{FLUSH, SYNC, TERMINATE};

use super::{Record, World};
use crate::sim::book::failed;
use crate::sim::side::Written;

impl World {
    /// Where a request begins, after possible Flushes and messages of the protocol itself. Its sync
    /// point may have been left out.
    pub(super) fn find_among_own<'a>(
        &self,
        rest: &'a [u8],
        record: &'a Record,
        next: Option<&Record>,
    ) -> Option<Written<'a>> {
        let own = &record.plan.own;
        let rest = behind_flushes(rest);
        let protocol = self.driven.protocol();
        let (rest, _) = strip(rest, &protocol.own)?;
        let rest = behind_flushes(rest);
        let (rest, guarded) = strip(rest, &protocol.guards)?;
        let shares = own.joins && next.is_some_and(|next| next.plan.own.joins);
        let bytes = match record.plan.bytes.strip_suffix(&SYNC) {
            // It is not followed by a sync point, so that was left out.
            Some(bytes) if shares && rest.len() > bytes.len() && rest[bytes.len()] != SYNC[0] => {
                bytes
            }
            _ => &record.plan.bytes[..],
        };
        // The host is not told that a member was sent again if its deadline had passed.
        let late = record.end() == Some(failed(Outcome::Unknown, Cause::Deadline));
        let may_be_missing = late && own.sync == SyncPoint::Member;
        Some(Written { rest, bytes, is_untouched: !guarded && is_cut_flush(rest), may_be_missing })
    }

    /// Whether these bytes may come after all requests.
    pub(super) fn is_end(&self, rest: &[u8]) -> bool {
        let Some((rest, _)) = strip(behind_flushes(rest), &self.driven.protocol().own) else {
            return true;
        };
        is_cut_flush(rest) || self.terminated && TERMINATE.starts_with(rest)
    }

    /// Whether requests may have been sent more than once, as far as the host knows.
    pub(super) fn sent_again(&self) -> bool {
        let hit = self.book.report.of("cancel sent") > 0;
        let again = |record: &Record| record.own.restarts > 0 || hit && record.may_be_restarted();
        let reset_again =
            self.book.own.guards_fail || self.side.owners.is_some() && self.driven.healed() > 0;
        self.side.healing || reset_again || self.book.records.values().any(again)
    }
}

/// The bytes after the protocol's own messages, and whether there were such messages. `None` if the
/// bytes end within one.
fn strip<'a>(mut rest: &'a [u8], own: &[Bytes]) -> Option<(&'a [u8], bool)> {
    let mut found = false;
    while let Some(own) = own.iter().find(|own| rest.starts_with(own)) {
        (rest, found) = (&rest[own.len()..], true);
    }
    let is_cut = !rest.is_empty() && own.iter().any(|own| own.starts_with(rest));
    (!is_cut).then_some((rest, found))
}

fn behind_flushes(mut rest: &[u8]) -> &[u8] {
    while let Some(behind) = rest.strip_prefix(&FLUSH[..]) {
        rest = behind;
    }
    rest
}

/// Whether there is no more than the beginning of a Flush, or nothing.
fn is_cut_flush(rest: &[u8]) -> bool {
    rest.len() < FLUSH.len() && FLUSH.starts_with(rest)
}
