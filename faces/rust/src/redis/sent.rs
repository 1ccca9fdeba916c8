//! A call that was sent, for readers that take its reply as bytes.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use onetrip_engine::Token;

use super::cluster::cell;
use super::error::too_large;
use super::link::Link;
use super::node::{Lease, Sent};
use super::place::{Cell, Placed};
use super::replies::Taken;
use crate::Error;

/// A call that was sent.
pub(crate) enum Pending {
    Refused(Error),
    Here(Arc<Link>, Token),
    Later(Arc<Cell>),
    /// It waits for a connection of its own.
    Borrowing(Arc<Cell>),
    Lent(Lease, Token),
    Cluster(Arc<cell::Cell>),
    Taken,
}

impl Pending {
    pub(crate) fn of(sent: Sent) -> Pending {
        match sent {
            Sent::Refused(error) => Pending::Refused(error),
            Sent::Here(link, token) => Pending::Here(link, token),
            Sent::Later(cell) => Pending::Later(cell),
            Sent::Cluster(cell) => Pending::Cluster(cell),
        }
    }

    /// The bytes of the reply, and its result.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<(Bytes, Result<(), Error>)> {
        loop {
            let next = match self {
                Pending::Refused(error) => {
                    let error = error.clone();
                    *self = Pending::Taken;
                    return Poll::Ready((Bytes::new(), Err(error)));
                }
                Pending::Here(link, token) => {
                    let taken = std::task::ready!(link.poll_reply(*token, cx));
                    *self = Pending::Taken;
                    return Poll::Ready(block_of(taken));
                }
                Pending::Lent(lease, token) => {
                    let taken = std::task::ready!(lease.link.poll_reply(*token, cx));
                    // The call may have ended by its deadline, and block its connection for ever.
                    lease.has_blocked();
                    *self = Pending::Taken;
                    return Poll::Ready(block_of(taken));
                }
                Pending::Borrowing(cell) => match std::task::ready!(cell.poll(cx)) {
                    Ok(placed) => lent(placed),
                    Err(error) => Pending::Refused(error),
                },
                Pending::Later(cell) => match std::task::ready!(cell.poll(cx)) {
                    Ok(placed) => match placed.token {
                        Some(token) => Pending::Here(placed.link, token),
                        None => Pending::Taken,
                    },
                    Err(error) => Pending::Refused(error),
                },
                Pending::Cluster(cell) => {
                    let result = std::task::ready!(cell.poll(cx));
                    *self = Pending::Taken;
                    return Poll::Ready(match result {
                        Ok(block) => (block, Ok(())),
                        Err(error) => (Bytes::new(), Err(error)),
                    });
                }
                Pending::Taken => panic!("a reply was polled after it had resolved"),
            };
            *self = next;
        }
    }
}

fn block_of(taken: Taken) -> (Bytes, Result<(), Error>) {
    let result = if taken.too_large { Err(too_large()) } else { taken.result };
    (taken.block, result)
}

fn lent(placed: Placed) -> Pending {
    match placed.token {
        Some(token) => Pending::Lent(Lease::new(placed.link), token),
        None => Pending::Taken,
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        match self {
            Pending::Here(link, token) => link.abandon(*token),
            Pending::Later(cell) => {
                if let Some(placed) = cell.give_up()
                    && let Some(token) = placed.token
                {
                    placed.link.abandon(token);
                }
            }
            Pending::Borrowing(cell) => drop(cell.give_up().map(lent)),
            Pending::Lent(lease, token) => {
                lease.link.abandon(*token);
                // The call runs on, and nobody else is behind it.
                lease.is_spoiled |= !lease.link.lock().engine.is_idle();
            }
            // It ends by itself, and nobody is told.
            Pending::Cluster(_) | Pending::Refused(_) | Pending::Taken => {}
        }
    }
}
