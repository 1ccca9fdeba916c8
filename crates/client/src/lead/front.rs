//! What goes in front of a request of a transaction, and is submitted in one go with it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use onetrip_engine::{Request, SyncPoint, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::message::SYNC;

use super::{Block, Lead, UNSENT, lock};
use crate::Error;
use crate::core::Core;
use crate::executor::plain_statement;

/// Requests that are submitted in one go; the last is the one that somebody waits for.
#[derive(Default)]
pub(super) struct Front {
    pub(super) block: Option<Arc<Block>>,
    pub(super) requests: Vec<(Request<Expect>, usize)>,
    pub(super) bytes: BytesMut,
    /// What begins with it, and the tokens of its replies.
    pub(super) leads: Vec<(Arc<Lead>, Token)>,
    /// The savepoint that it releases.
    pub(super) released: Option<String>,
}

impl Front {
    pub(super) fn add(&mut self, request: Request<Expect>, bytes: &[u8]) {
        self.requests.push((request, bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn command(
        &mut self,
        sql: &str,
        token: Token,
        sync: SyncPoint,
    ) -> Result<(), Error> {
        let mut bytes = plain_statement(sql)?;
        if sync == SyncPoint::Own {
            bytes.extend_from_slice(&SYNC);
        }
        self.add(Request { sync, ..pinned(token, command()) }, &bytes);
        Ok(())
    }

    pub(super) fn submit(self, core: &mut Core, now: Time, refuse: bool) -> Result<(), Error> {
        let submitted = core.submit(now, self.requests, &self.bytes, refuse);
        if submitted.is_ok() {
            // Nobody waits for these answers but those who were noted.
            for (_, token) in self.leads {
                core.replies.abandon(token);
            }
            return submitted;
        }
        for (lead, token) in self.leads {
            lead.state.store(UNSENT, Ordering::Release);
            core.replies.remove(token);
        }
        if let (Some(block), Some(name)) = (self.block, self.released) {
            *lock(&block.owed) = Some(name);
        }
        submitted
    }
}

/// The reply to a command without rows, whose tag tells of no change that outlives its transaction.
pub(super) fn command() -> Expect {
    Expect::sync().parse().bind().execute().transaction_local().leaves_nothing()
}

/// What comes behind depends on it.
pub(super) fn pinned(token: Token, expect: Expect) -> Request<Expect> {
    Request { pinned: true, ..Request::isolated(token, expect) }
}
