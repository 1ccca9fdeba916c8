//! A list that was sent: splits blocks of replies into a reply or an error for each command.

use std::borrow::Cow;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::atomic::take_whole;
use super::replies::Replies;
use crate::error::RESULT_TOO_LARGE;
use crate::redis::error::from_frame;
use crate::redis::error::too_large;
use crate::redis::frames::Frames;
use crate::redis::sent::Pending;
use crate::{Error, Kind, Outcome};

/// A pipeline that was sent. Await it for the replies.
///
/// Dropping it disturbs nobody: commands that were sent run, and their replies are dropped.
#[must_use = "await it for the replies, or drop it where they don't matter"]
pub struct Running {
    pub(super) parts: Box<[Part]>,
    pub(super) at: usize,
    pub(super) replies: Vec<Result<Bytes, Error>>,
    pub(super) names: Vec<Cow<'static, str>>,
    pub(super) refused: Option<Error>,
    /// Set for an atomic list: for each command, whether its error may leave effects behind.
    pub(super) whole: Option<Vec<bool>>,
    /// The longest reply that is kept, in bytes.
    pub(super) reply_max: usize,
    /// Whether the client is one of a cluster.
    pub(super) in_cluster: bool,
}

/// Commands that share a slot.
pub(super) struct Part {
    pub(super) pending: Pending,
    /// For each command, whether its error may leave effects behind.
    pub(super) leaves: Vec<bool>,
}

impl Running {
    pub(super) fn refused(error: Error) -> Running {
        Running { refused: Some(error), ..Running::of_nothing() }
    }

    pub(super) fn of_nothing() -> Running {
        Running {
            parts: Box::default(),
            at: 0,
            replies: Vec::new(),
            names: Vec::new(),
            refused: None,
            whole: None,
            reply_max: usize::MAX,
            in_cluster: false,
        }
    }
}

impl Future for Running {
    type Output = Result<Replies, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.refused.take() {
            return Poll::Ready(Err(error));
        }
        let Running { parts, at, replies, whole, reply_max, in_cluster, .. } = &mut *self;
        let in_cluster = *in_cluster;
        while let Some(part) = parts.get_mut(*at) {
            let (block, result) = std::task::ready!(part.pending.poll(cx));
            *at += 1;
            match whole {
                None => {
                    take_each((&part.leaves, in_cluster), block, result, *reply_max, replies);
                }
                Some(leaves) => match take_whole((leaves, in_cluster), block, result) {
                    Ok(all) => *replies = all,
                    Err(error) => return Poll::Ready(Err(error)),
                },
            }
        }
        let replies = std::mem::take(&mut self.replies);
        let names = std::mem::take(&mut self.names);
        Poll::Ready(Ok(Replies { replies, names }))
    }
}

/// The replies of independent commands. Replies that came before the connection was lost count.
fn take_each(
    (leaves, in_cluster): (&[bool], bool),
    block: Bytes,
    mut result: Result<(), Error>,
    reply_max: usize,
    replies: &mut Vec<Result<Bytes, Error>>,
) {
    let mut frames = Frames::new(block);
    if let (Err(error), 2..) = (&mut result, leaves.len())
        && error.code() == RESULT_TOO_LARGE
    {
        // Commands that failed are among them.
        *error = error.clone().with_outcome(Outcome::Unknown);
    }
    for &leaves in leaves {
        replies.push(match (frames.next(), &result) {
            (Some(frame), _) if frame.len() > reply_max => Err(too_large()),
            (Some(frame), _) => checked(frame, leaves, in_cluster),
            (None, Err(error)) => Err(error.clone()),
            (None, Ok(())) => Err(incomplete()),
        });
    }
}

/// A reply, or the error that came in its place.
pub(crate) fn checked(frame: Bytes, leaves: bool, in_cluster: bool) -> Result<Bytes, Error> {
    match frame.first() {
        Some(b'-' | b'!') => Err(error_of(&frame, leaves, in_cluster)),
        _ => Ok(frame),
    }
}

pub(super) fn error_of(frame: &Bytes, leaves: bool, in_cluster: bool) -> Error {
    let outcome = onetrip_redis::protocol::outcome_of_frame(frame, leaves);
    from_frame(frame, outcome, in_cluster)
}

pub(super) fn incomplete() -> Error {
    let message = "the server answered fewer commands than there were";
    Error::new(Kind::Protocol, Outcome::Unknown, "malformed_reply", message)
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Running({} commands)", self.names.len())
    }
}
