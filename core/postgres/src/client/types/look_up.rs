//! Queries for types that are in flight on one connection.
//!
//! The connection reads the answer, rather than a caller, which may stop polling. So all callers
//! that wait for the same types on one connection share a query, and none waits for another caller.

use std::collections::VecDeque;

use onetrip_engine::{Ticket, Time, Token};

use super::catalog::Kind;
use super::resolve::Resolved;

/// How often a query is sent. It may have to be sent again, behind a pipeline that got the right to
/// send first. Each time it is nearer to the front. Without an answer the types stay known by their
/// oids.
pub const TRIES_MAX: u8 = 4;

/// So many failures of queries are kept for those who wait. Who comes to look at one late, behind
/// so many others, finds the types known by their oids.
const FAILURES_KEPT: usize = 8;

/// How often one reply has caused a query on one connection.
#[derive(Debug, Default)]
pub struct Tries {
    asked: u8,
    /// How many queries had failed there when it began to wait.
    since: Option<u64>,
}

/// The queries of one connection. `W` wakes a caller; it is kept to be handed back. `E` is why the
/// server gave a query up.
#[derive(Debug)]
pub struct LookUps<W, E = ()> {
    on_their_way: Vec<LookUp<W>>,
    /// The latest that were lost, each with its number and the types that were asked for.
    failures: VecDeque<(u64, Vec<u32>, E)>,
    failed: u64,
}

#[derive(Debug)]
struct LookUp<W> {
    token: Token,
    oids: Vec<u32>,
    /// The callers that wait for the answer, with their deadlines.
    waiting: Vec<(Time, W)>,
    /// Takes the query back while it is queued.
    ticket: Option<Ticket>,
}

/// What a caller that misses types must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Wait: a query for some of them is in flight.
    Shared,
    /// Ask: send the query, and call [`LookUps::asked`].
    Ask,
    /// Go on with what is known; no more will come.
    Over,
}

impl<W, E> Default for LookUps<W, E> {
    fn default() -> LookUps<W, E> {
        LookUps { on_their_way: Vec::new(), failures: VecDeque::new(), failed: 0 }
    }
}

impl<W, E> LookUps<W, E> {
    /// What a caller must do that misses these types until its deadline. `is_same` says whether two
    /// waiters belong to the same caller, which may wait for several replies: it is then woken at
    /// the earliest deadline.
    pub fn wait(
        &mut self,
        missing: &[u32],
        tries: &mut Tries,
        deadline: Time,
        waiter: &W,
        is_same: impl Fn(&W, &W) -> bool,
    ) -> Wait
    where
        W: Clone,
    {
        tries.since.get_or_insert(self.failed);
        let mut asked = self.on_their_way.iter_mut();
        if let Some(other) = asked.find(|it| it.oids.iter().any(|oid| missing.contains(oid))) {
            match other.waiting.iter_mut().find(|(_, other)| is_same(other, waiter)) {
                Some((first, _)) => *first = deadline.min(*first),
                None => other.waiting.push((deadline, waiter.clone())),
            }
            return Wait::Shared;
        }
        if tries.asked == TRIES_MAX || missing.is_empty() {
            return Wait::Over;
        }
        tries.asked += 1;
        Wait::Ask
    }

    /// The query was sent by a caller that waits for its answer. With a ticket it may be taken
    /// back.
    pub fn asked(
        &mut self,
        (token, ticket): (Token, Option<Ticket>),
        missing: &[u32],
        deadline: Time,
        waiter: W,
    ) {
        let (oids, waiting) = (missing.to_vec(), vec![(deadline, waiter)]);
        self.on_their_way.push(LookUp { token, oids, waiting, ticket });
    }

    /// The queries to take back when a pipeline is granted the right to send. While queued, they
    /// would wait for the pipeline's owner.
    pub fn queued(&self) -> Vec<Ticket> {
        self.on_their_way.iter().filter_map(|it| it.ticket).collect()
    }

    /// A request ended. If it was such a query, returns the callers to wake once the answer was
    /// learned. They are woken even if it failed, and then use what is known.
    pub fn ended(&mut self, token: Token) -> Option<impl Iterator<Item = W> + use<W, E>> {
        let place = self.on_their_way.iter().position(|it| it.token == token)?;
        let look_up = self.on_their_way.swap_remove(place);
        Some(look_up.waiting.into_iter().map(|(_, waiter)| waiter))
    }

    /// Whether this is such a query.
    pub fn has(&self, token: Token) -> bool {
        self.on_their_way.iter().any(|it| it.token == token)
    }

    /// A query that has not [`ended`](LookUps::ended) yet was given up by the server, which says
    /// nothing of the types ([`Unanswered::Lost`]).
    pub fn failed(&mut self, token: Token, error: E) {
        let Some(look_up) = self.on_their_way.iter().find(|it| it.token == token) else { return };
        self.failures.truncate(FAILURES_KEPT - 1);
        self.failures.push_front((self.failed, look_up.oids.clone(), error));
        self.failed += 1;
    }

    /// Why a caller got no answer that still misses these types: the first such failure since it
    /// began to wait.
    pub fn failure(&self, missing: &[u32], tries: &Tries) -> Option<&E> {
        let since = tries.since?;
        let concerns = |oids: &[u32]| oids.iter().any(|oid| missing.contains(oid));
        let mut failures = self.failures.iter().rev();
        let first = failures.find(|(number, oids, _)| *number >= since && concerns(oids));
        first.map(|(.., error)| error)
    }

    /// The earliest deadline of the waiting callers. The query itself may have a later one, that of
    /// the caller that sent it.
    pub fn deadline(&self) -> Time {
        let waiting = self.on_their_way.iter().flat_map(|look_up| &look_up.waiting);
        waiting.map(|(deadline, _)| *deadline).min().unwrap_or(Time::NEVER)
    }

    /// The waiters whose deadline has passed, to be woken.
    pub fn expire(&mut self, now: Time) -> impl Iterator<Item = W> {
        let all = self.on_their_way.iter_mut();
        all.flat_map(move |it| it.waiting.extract_if(.., move |(deadline, _)| *deadline <= now))
            .map(|(_, waiter)| waiter)
    }
}

/// What is said of types by the failure of a query for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// Nothing: a cancel, a deadline, a lost connection ended this one query. Nothing is to be
    /// remembered by it, and what needs the types fails in the same way.
    Lost,
    /// They stay known by their numbers: the server refuses the query itself, to this role or
    /// since it has no such catalogue, and would refuse the next one.
    Refused,
    /// Nothing, and there is nothing to stop: something else has failed the transaction. What was
    /// answered in front of that is read by the numbers of its types, which is not remembered.
    Aborted,
}

/// Tells these apart by the SQLSTATE; `None` if the server did not answer.
#[must_use]
pub fn unanswered(sqlstate: Option<&str>) -> Unanswered {
    match sqlstate {
        Some("25P02") => Unanswered::Aborted,
        // Syntax error or access rule violation; feature not supported.
        Some(code) if code.starts_with("42") || code.starts_with("0A") => Unanswered::Refused,
        _ => Unanswered::Lost,
    }
}

/// The types of an answer that are learned. An oid without a type is left out, since it may belong
/// to a type that this transaction can't see.
pub fn found(mut resolved: Vec<Resolved>) -> Vec<Resolved> {
    resolved.retain(|it| it.description.kind != Kind::Unknown);
    resolved
}
