//! The results of commands at their nodes, as the router is told of them.

use bytes::Bytes;
use onetrip_engine::{Time, Token};
use onetrip_redis::client::router::{Failed, FlightId, Why, refusal_of_list};

use super::super::call::Body;
use super::super::link::Landed;
use super::errors::error_of;
use super::state::{Caller, State};
use crate::Kind;

pub(super) fn report(state: &mut State, now: Time, flight: FlightId, landed: Landed) {
    match landed {
        Landed::Reply(block) => {
            let block = match state.router.token(flight) {
                Some(token) => of_list(state, token, block),
                None => block,
            };
            state.router.handle_reply(now, flight, block);
        }
        Landed::Failed(error) => {
            let (outcome, is_late) = (error.outcome(), error.kind() == Kind::Timeout);
            let token = state.router.token(flight);
            if let Some(caller) = token.and_then(|token| state.callers.get_mut(&token.0)) {
                caller.last_error = Some(error);
            }
            match is_late {
                true => state.router.handle_expired(now, flight, outcome),
                false => state.router.handle_failed(now, flight, outcome),
            }
        }
    }
}

/// A command has ended.
pub(super) fn finish(state: &mut State, token: Token, result: Result<Bytes, Failed>) {
    let Some(caller) = state.callers.remove(&token.0) else { return };
    // If no node took the command, the cause may be that the topology can't be fetched.
    let last = caller.last_error.as_ref().or(state.no_topology.as_ref());
    let closed = state.closed_because.as_ref();
    let result = result.map_err(|failed| match closed {
        Some(closed) if failed.why == Why::Closed => closed.clone().with_outcome(failed.outcome),
        _ => error_of(failed, last),
    });
    state.wakers.extend(caller.cell.settle(result));
}

/// If a list was refused because it went to the wrong node, returns the reply that says so.
fn of_list(state: &State, token: Token, block: Bytes) -> Bytes {
    let is_list = |caller: &Caller| matches!(caller.body, Some(Body::Atomic(_)));
    if !state.callers.get(&token.0).is_some_and(is_list) {
        return block;
    }
    let refusal = refusal_of_list(&block).map(|refusal| block.slice_ref(refusal));
    refusal.unwrap_or(block)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use onetrip_engine::{Outcome, Time};
    use onetrip_redis::client::router::{How, Limits, Output};
    use onetrip_redis::client::topology::{Node, Shard, Topology};
    use onetrip_redis::redirect::Address;
    use onetrip_redis::{Command, slots::SLOTS};

    use super::super::cell::Cell;
    use super::*;
    use crate::Error;

    fn one_node() -> Topology {
        let address = Address::new("h", 1).unwrap();
        let shard = Shard { master: Node { id: "1".into(), address }, replicas: Vec::new() };
        Topology::new([(shard, vec![0..=SLOTS - 1])]).unwrap()
    }

    fn submit(state: &mut State, token: u64) -> (Arc<Cell>, FlightId) {
        let caller = Caller::new(Time::NEVER, None);
        let cell = caller.cell.clone();
        state.callers.insert(token, caller);
        let command = Command::new("INCR").arg("n");
        state.router.submit(Time::ZERO, Token(token), command, How::default()).unwrap();
        let flight = std::iter::from_fn(|| state.router.poll_output()).find_map(|output| {
            if let Output::Send { flight, .. } = output { Some(flight) } else { None }
        });
        (cell, flight.unwrap())
    }

    #[test]
    fn failures_that_come_together_stay_with_their_commands() {
        let mut state = State::new(Limits::default(), 7);
        state.router.handle_time(Time::ZERO);
        state.router.handle_topology(Time::ZERO, &one_node());
        let (first, second) = (submit(&mut state, 1), submit(&mut state, 2));
        for (flight, why) in [(first.1, "the first"), (second.1, "the second")] {
            let error = Error::new(Kind::Transport, Outcome::Unknown, "lost", why);
            report(&mut state, Time::ZERO, flight, Landed::Failed(error));
        }
        while let Some(output) = state.router.poll_output() {
            if let Output::Finish { token, result } = output {
                finish(&mut state, token, result);
            }
        }
        for (cell, why) in [(first.0, "the first"), (second.0, "the second")] {
            let Poll::Ready(Err(error)) = cell.poll(&Context::from_waker(Waker::noop())) else {
                panic!("it has failed");
            };
            assert!(error.to_string().contains(why), "{error} for {why}");
        }
    }
}
