//! What became of commands at their nodes, as the router is told of it.

use bytes::Bytes;
use onetrip_engine::{Outcome, Time, Token};
use onetrip_redis::router::FlightId;

use super::super::call::Body;
use super::super::frames::Frames;
use super::super::link::{Landed, Landing};
use super::Cluster;
use super::state::{Caller, State};
use crate::Kind;

impl Landing for Cluster {
    fn landed(&self, landed: Vec<(FlightId, Landed)>) {
        self.with(|state, now| {
            for (flight, landed) in landed {
                report(state, now, flight, landed);
            }
        });
    }
}

pub(super) fn report(state: &mut State, now: Time, flight: FlightId, landed: Landed) {
    note_landing(state, flight, &landed);
    match landed {
        Landed::Reply(block) => {
            let block = match state.router.token(flight) {
                Some(token) => of_list(state, token, block),
                None => block,
            };
            state.router.handle_reply(now, flight, block);
        }
        Landed::Failed(error) if error.kind() == Kind::Timeout => {
            // Its time is over, so it is not sent again.
            let caller =
                state.router.token(flight).and_then(|token| state.callers.remove(&token.0));
            let ended = |caller: Caller| {
                let known = if caller.may_have_run { Outcome::Unknown } else { error.outcome() };
                caller.cell.settle(Err(error.with_outcome(known)))
            };
            state.wakers.extend(caller.and_then(ended));
            state.router.handle_reply(now, flight, Bytes::from_static(GONE));
        }
        Landed::Failed(error) => {
            let outcome = error.outcome();
            state.last_error = Some(error);
            state.router.handle_failed(now, flight, outcome);
        }
    }
}

/// A part of a command is no longer on its way. It may have to wait here before it is sent again.
fn note_landing(state: &mut State, flight: FlightId, landed: &Landed) {
    let caller = state.router.token(flight).and_then(|token| state.callers.get_mut(&token.0));
    let Some(caller) = caller else { return };
    caller.on_the_way = caller.on_the_way.saturating_sub(1);
    caller.may_have_run |= match landed {
        Landed::Reply(block) => !block.starts_with(b"-"),
        Landed::Failed(error) => matches!(error.outcome(), Outcome::Unknown | Outcome::Applied),
    };
    if caller.on_the_way == 0 {
        state.earliest = state.earliest.min(caller.deadline);
    }
}

/// Ends what nobody waits for.
pub(super) const GONE: &[u8] = b"-ERR nobody waits for it\r\n";

/// Of the replies to a list that was refused because of where it went, the one that says so.
fn of_list(state: &State, token: Token, block: Bytes) -> Bytes {
    let is_list = |caller: &Caller| matches!(caller.body, Some(Body::Atomic(_)));
    if !state.callers.get(&token.0).is_some_and(is_list) {
        return block;
    }
    const ELSEWHERE: [&[u8]; 6] =
        [b"-MOVED ", b"-ASK ", b"-TRYAGAIN", b"-CLUSTERDOWN", b"-LOADING", b"-MASTERDOWN"];
    let elsewhere = |frame: &Bytes| ELSEWHERE.iter().any(|word| frame.starts_with(word));
    Frames::new(block.clone()).find(elsewhere).unwrap_or(block)
}
