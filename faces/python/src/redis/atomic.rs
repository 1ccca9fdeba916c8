//! The replies to a list that runs as one: to MULTI, to each command, and to EXEC.

use bytes::Bytes;
use onetrip_abi::completion::outcome;
use onetrip_engine::Outcome;
use onetrip_redis::Reply;
use onetrip_redis::protocol::outcome_of_frame;
use pyo3::prelude::*;

use super::request::{Request, answer, answer_of};
use crate::call::{Call, Want};
use crate::failure::Failure;
use crate::state::State;

/// A list has ended: each of its commands hears of its own reply.
pub(crate) fn settle(
    state: &mut State,
    py: Python<'_>,
    call: &Py<Call>,
    request: &Request,
    failure: Option<Failure>,
) {
    let blocks = call.get().now.with(|it| std::mem::take(&mut it.blocks)).unwrap_or_default();
    let replies = match failure {
        Some(failure) => Err(failure),
        None => read(request, &super::reply::joined(&blocks)),
    };
    let failure = match replies {
        Ok(frames) => {
            for (part, frame) in request.parts.iter().zip(frames) {
                let failure = failure_of(part, &frame);
                let _ = part.get().now.with(|it| it.blocks = vec![frame]);
                state.finish(py, part, failure);
            }
            None
        }
        Err(failure) => {
            for part in &request.parts {
                let failure = failure.again(py, failure.outcome());
                state.finish(py, part, Some(failure));
            }
            Some(failure)
        }
    };
    state.finish(py, call, failure);
}

fn is_error(frame: &[u8]) -> bool {
    matches!(frame.first(), Some(b'-' | b'!'))
}

fn failure_of(part: &Py<Call>, frame: &Bytes) -> Option<Failure> {
    let Want::Redis(request) = &part.get().want else { return None };
    is_error(frame).then(|| answer_of(request, frame))
}

/// The replies of the commands, from EXEC's; or why there are none.
fn read(request: &Request, bytes: &Bytes) -> Result<Vec<Bytes>, Failure> {
    const MISFIT: &str = "the server's replies do not fit the commands that were sent";
    let misfit = || Failure::said("protocol", outcome::UNKNOWN, MISFIT);
    let count = request.parts.len();
    let frames = split(bytes.clone(), count + 2).ok_or_else(misfit)?;
    let (exec, fronts) = frames.split_last().ok_or_else(misfit)?;
    let name_at = |at: usize| match at.checked_sub(1).and_then(|at| request.parts.get(at)) {
        Some(part) => match &part.get().want {
            Want::Redis(request) => request.name.clone(),
            _ => request.name.clone(),
        },
        None => request.name.clone(),
    };
    let refused = fronts.iter().position(|frame| is_error(frame));
    // Where MULTI was refused, each command ran by itself.
    let ran_alone = refused == Some(0) && {
        let of = |frame: &Bytes| outcome_of_frame(frame, true) != Outcome::Rejected;
        fronts.iter().skip(1).any(|frame| !is_error(frame) || of(frame))
    };
    let failed = |outcome| match refused {
        Some(at) => answer(&name_at(at), &fronts[at], outcome),
        None if is_error(exec) => answer(&request.name, exec, outcome),
        None => misfit(),
    };
    if is_error(exec) {
        return Err(failed(if ran_alone { outcome::UNKNOWN } else { outcome::REJECTED }));
    }
    match Reply::read(exec) {
        Ok((Reply::Nil, _)) => {
            const CHANGED: &str = "a watched key was changed, so no command ran: read the key \
                                   again, and retry";
            Err(Failure::said("watched_key_changed", outcome::REJECTED, CHANGED))
        }
        Ok((Reply::Array(items), _)) if refused.is_none() && items.left() == Some(count as u64) => {
            let head = exec.iter().position(|byte| *byte == b'\n').map_or(exec.len(), |at| at + 1);
            split(exec.slice(head..), count).ok_or_else(misfit)
        }
        // MULTI was open already, so EXEC answers for other commands as well.
        _ => Err(failed(outcome::UNKNOWN)),
    }
}

/// So many replies, one by one.
fn split(mut bytes: Bytes, count: usize) -> Option<Vec<Bytes>> {
    let mut frames = Vec::with_capacity(count);
    for _ in 0..count {
        let rest = Reply::read(&bytes).ok()?.1.len();
        frames.push(bytes.split_to(bytes.len() - rest));
    }
    Some(frames)
}
