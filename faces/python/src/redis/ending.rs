//! How calls of Redis end. What that means for them is said below.

use std::sync::Arc;

use bytes::Bytes;
use onetrip_client::completion::outcome;
use onetrip_engine::Time;
use onetrip_redis::Reply;
use onetrip_redis::client::list;
use onetrip_redis::protocol::outcome_of_frame;
use pyo3::prelude::*;

use super::reply::joined;
use super::request::Request;
use crate::call::{Call, Want};
use crate::failure::{Failure, number};
use crate::state::State;

/// A request has ended on its connection: it is sent again, or its caller hears of it.
pub(crate) fn ended(
    state: &mut State,
    py: Python<'_>,
    now: Time,
    (call, request): (&Py<Call>, &Request),
    failure: Option<Failure>,
) {
    if let (Some(repeat), Some(failure)) = (&request.repeat, &failure)
        && failure.is_loss()
        && !state.is_closing
        && let Ok(Some(pause)) = repeat.with(|it| it.lost(failure.known()))
    {
        let pause = request.deadline.map_or(pause, |at| pause.min(at.since(now)));
        return state.pause(py, (now, pause), call);
    }
    settle(state, py, (call, request), failure);
}

/// It has ended for good. Each command of a list hears of its own reply.
pub(super) fn settle(
    state: &mut State,
    py: Python<'_>,
    (call, request): (&Py<Call>, &Request),
    failure: Option<Failure>,
) {
    if request.is_flight() || !request.packed.is_list() {
        return state.finish(py, call, failure);
    }
    let blocks = call.get().now.with(|it| std::mem::take(&mut it.blocks)).unwrap_or_default();
    let leaves: Vec<_> = request.parts.iter().map(|part| of(part).packed.leaves()).collect();
    let frames = match failure {
        Some(failure) => Err(failure),
        None => list::read(&joined(&blocks), &leaves).map_err(|why| {
            if let list::Failed::Refused { at: at @ 1.., outcome, .. } = why {
                for (_, part) in request.parts.iter().enumerate().filter(|it| it.0 + 1 != at) {
                    let failure = answer(&of(part).name, ABORTED, number(outcome));
                    state.finish(py, part, Some(failure));
                }
            }
            failure_of(request, why)
        }),
    };
    match frames {
        Ok(frames) => {
            for (part, frame) in request.parts.iter().zip(frames) {
                let failure = refusal(&frame, of(part).packed.leaves());
                let _ = part.get().now.with(|it| it.blocks = vec![frame]);
                state.finish(py, part, failure);
            }
            state.finish(py, call, None);
        }
        Err(failure) => state.fail(py, call.bind(py), failure),
    }
}

/// Of a command of a list of which another was refused.
const ABORTED: &[u8] = b"-EXECABORT it did not run, since its list was refused\r\n";

/// The request of a part of a list.
fn of(part: &Py<Call>) -> &Request {
    match &part.get().want {
        Want::Redis(request) => request,
        _ => unreachable!("a list has commands of Redis alone"),
    }
}

fn failure_of(request: &Request, why: list::Failed) -> Failure {
    let (code, outcome) = (why.code(), number(why.outcome()));
    match why {
        list::Failed::Refused { at, frame, .. } => {
            let part = at.checked_sub(1).and_then(|at| request.parts.get(at));
            answer(part.map_or(&request.name, |part| &of(part).name), &frame, outcome)
        }
        why => Failure::said(code, outcome, why.to_string()),
    }
}

/// The failure of a command, where its reply is an error.
pub(super) fn refusal(frame: &Bytes, leaves: bool) -> Option<Failure> {
    list::is_error(frame).then(|| {
        let outcome = number(outcome_of_frame(frame, leaves));
        Failure::Server { about: "".into(), block: frame.clone(), outcome }
    })
}

/// A failure, as the caller of this command hears of it.
pub(crate) fn told(py: Python<'_>, request: &Request, failure: Failure) -> Failure {
    if request.is_flight() {
        return failure;
    }
    let failure = match failure {
        Failure::Server { block, outcome, .. } => answer(&request.name, &block, outcome),
        failure => failure,
    };
    let Some(repeat) = &request.repeat else { return failure };
    let known = repeat.with(|it| it.outcome(failure.known()));
    known.map_or(failure.again(py, failure.outcome()), |it| failure.again(py, number(it)))
}

/// An error reply to the command of this name.
fn answer(name: &Arc<str>, frame: &[u8], outcome: u32) -> Failure {
    match Reply::read(frame) {
        Ok((Reply::Error(error), _)) => Failure::Answer {
            command: name.clone(),
            text: String::from_utf8_lossy(error.text()).into_owned(),
            outcome,
        },
        _ => Failure::said("protocol", outcome::UNKNOWN, "an error of the server can't be read"),
    }
}
