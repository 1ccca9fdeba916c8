//! The callers as the simulation knows them: which ones wait, in which order, and how each ended.

use std::collections::HashMap;

use onetrip_engine::Time;
use onetrip_engine::pool::Ticket;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exclusive,
    Shared,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) token: u64,
    pub(crate) kind: Kind,
    pub(crate) since: Time,
    pub(crate) deadline: Time,
    /// It came to a pool that closes.
    pub(crate) is_late: bool,
}

#[derive(Default)]
pub(crate) struct Callers {
    next_token: u64,
    /// The callers that wait, in order of arrival.
    line: Vec<Caller>,
    pub(crate) tickets: Vec<(u64, Ticket)>,
    ended: HashMap<u64, &'static str>,
}

impl Callers {
    pub(crate) fn next_token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    pub(crate) fn came(&mut self, caller: Caller, ticket: Ticket) {
        self.line.push(caller);
        self.tickets.push((caller.token, ticket));
    }

    pub(crate) fn line(&self) -> &[Caller] {
        &self.line
    }

    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.line.iter().filter(|caller| caller.kind == kind).count()
    }

    pub(crate) fn waits(&self, token: u64) -> bool {
        self.line.iter().any(|caller| caller.token == token)
    }

    /// Removes a caller from the line, and returns the callers in front of it.
    pub(crate) fn end(&mut self, token: u64, how: &'static str) -> (Caller, Vec<Caller>) {
        let before = self.ended.insert(token, how);
        assert!(before.is_none(), "{token} ended as {before:?} and as {how}");
        let at = self.line.iter().position(|caller| caller.token == token);
        let at = at.unwrap_or_else(|| panic!("{token} never waited"));
        let front = self.line[..at].to_vec();
        (self.line.remove(at), front)
    }
}
