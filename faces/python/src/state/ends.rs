//! How connections open, end, and are asked to cancel.

use std::collections::VecDeque;

use bytes::Bytes;
use onetrip_client::completion::{close, outcome};
use onetrip_client::postgres::Holder;
use onetrip_engine::{CancelEnd, Time};
use pyo3::prelude::*;

use super::{APART, State};
use crate::call::unsent;
use crate::deed::Said;
use crate::failure::{Failure, Loss};

/// The reasons of so many lost connections are kept.
const LOSSES_KEPT: usize = 64;

impl State {
    // --- ends of connections ---

    pub(crate) fn opened(&mut self, py: Python<'_>, now: Time, number: u32) -> bool {
        let Some(link) = self.links.get_mut(&number).filter(|link| !link.is_over) else {
            return false;
        };
        link.is_ready = true;
        self.counts.opened += 1;
        if number >= APART {
            link.is_forgotten = true;
            link.lend();
            return true;
        }
        self.last_error = None;
        // Whoever prepared it for the others had it alone.
        (link.is_lent, link.is_left) = (false, false);
        let connection = link.connection.clone();
        connection.borrow_mut().hold(Holder::All);
        if let Some((replicas, None)) = &self.replicas {
            connection.borrow_mut().watch_positions();
            connection.borrow_mut().mark_positions(replicas.get().losses());
        }
        self.pool.opened(now, number, connection);
        self.generation.goes_with(self.pool.generation());
        self.walk_pool(py, now);
        true
    }

    pub(crate) fn open_failed(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        error: (Py<PyAny>, String),
        (permanent, may_pass): (bool, bool),
    ) {
        self.last_error = Some(error);
        self.counts.open_failed += 1;
        self.links.remove(&number);
        self.pool.open_failed(now, number, permanent, may_pass);
        self.walk_pool(py, now);
    }

    pub(crate) fn destroy(&mut self, py: Python<'_>, now: Time, number: u32, message: &str) {
        if let Some(link) = self.links.get_mut(&number) {
            link.why = Loss::lost(message);
        }
        self.peer_closed(py, now, number, None);
        self.tell("leave", number, Some(Said::Flag(true)));
    }

    /// The socket is closed.
    pub(crate) fn peer_closed(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        message: Option<&str>,
    ) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if let Some(message) = message.filter(|_| !link.is_over) {
            link.why = Loss::lost(message);
        }
        link.connection.borrow_mut().peer_closed();
        self.gone(py, now, number);
        self.walk(py, now, number);
        match self.links.get_mut(&number) {
            Some(link) if link.is_walked => link.is_gone = true,
            _ => self.forget_link(number),
        }
    }

    /// The engine has ended a connection.
    pub(super) fn lost(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        (reason, is_final): (u32, bool),
        block: &Bytes,
    ) {
        self.cache.iter().for_each(|cache| cache.get().closed(number));
        let Some(link) = self.links.get_mut(&number) else { return };
        let text = String::from_utf8_lossy(block);
        match reason {
            close::HOST => {}
            close::SERVER => link.why = Loss::told(block),
            close::STALLED if block.is_empty() => {
                link.why = Loss::lost("the server took no bytes for too long");
            }
            _ => link.why = Loss::lost(&text),
        }
        let is_login = !link.is_ready;
        // Its login may have succeeded, of which the pool is told later: not of this one.
        link.is_over |= is_login;
        if is_login && reason == close::OTHER_ROLE {
            return self.tell("unfit", number, Some(Said::Bytes(block.clone())));
        }
        if is_login {
            let message = (reason == close::SERVER).then(|| block.clone());
            let said = Said::Refusal(text.into_owned(), message, is_final);
            self.tell("refused", number, Some(said));
            return;
        }
        let is_broken = reason != close::HOST;
        if is_broken {
            self.gone(py, now, number);
        }
        self.tell("leave", number, Some(Said::Flag(is_broken)));
    }

    /// A connection takes nothing more: the pool hears of it first, so that nothing that is sent
    /// again meets this one.
    pub(super) fn gone(&mut self, py: Python<'_>, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if std::mem::replace(&mut link.is_over, true) {
            return;
        }
        let (was_ready, why) = (link.is_ready, link.why.clone());
        let line: VecDeque<_> = std::mem::take(&mut link.line);
        if was_ready && !link.is_forgotten {
            self.counts.lost += 1;
            self.losses.truncate(LOSSES_KEPT - 1);
            self.losses.push_front((number, why.clone()));
            let why = Bytes::copy_from_slice(why.message().as_bytes());
            self.tell("lost", number, Some(Said::Bytes(why)));
            self.pool.lost(now, number);
        }
        for call in line {
            let failure = why.failure(outcome::NOT_SENT);
            self.fail_behind(py, now, number, &call.into_bound(py), failure);
        }
        self.walk_pool(py, now);
    }

    /// The failure of a call on a connection that is gone.
    pub(super) fn lost_before(&self, number: u32) -> Failure {
        let loss = self.losses.iter().find(|(lost, _)| *lost == number);
        match loss {
            Some((_, why)) => why.failure(outcome::NOT_SENT),
            None => unsent("connection_lost", "the connection was lost"),
        }
    }

    // --- cancels ---

    pub(crate) fn begin_cancel(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
    ) -> Option<Vec<u8>> {
        let link = self.links.get(&number)?;
        let message = link.connection.borrow_mut().begin_cancel(now).to_vec();
        // Where none is sent any more, what it held back goes on.
        self.walk(py, now, number);
        self.write(py, now, number);
        Some(message).filter(|message| !message.is_empty())
    }

    pub(crate) fn cancel_ended(&mut self, py: Python<'_>, now: Time, number: u32, end: CancelEnd) {
        let Some(link) = self.links.get_mut(&number) else { return };
        link.connection.borrow_mut().cancel_ended(now, end);
        self.walk(py, now, number);
        self.write(py, now, number);
    }
}
