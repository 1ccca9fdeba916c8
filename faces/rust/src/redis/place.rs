//! A call that waits for a connection, and its result.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use onetrip_engine::pool::Ticket;
use onetrip_engine::{Time, Token};
use onetrip_redis::client::router::FlightId;

use super::call::Call;
use super::link::Link;
use crate::Error;

/// The line in which callers wait.
pub(crate) trait Line: std::fmt::Debug + Send + Sync {
    /// A caller no longer waits. A connection that it was granted meanwhile goes back.
    fn give_up(self: Arc<Self>, ticket: Ticket, token: u64);
}

/// A call that found no connection at once. Shared by its caller and the pool.
#[derive(Debug)]
pub(crate) struct Cell {
    deadline: Time,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    waker: Option<Waker>,
    line: Option<(Arc<dyn Line>, Ticket, u64)>,
}

#[derive(Debug)]
enum Stage {
    /// In line. The call is sent as soon as there is a connection; `None` if the caller wants the
    /// connection itself.
    Waiting(Option<Box<Call>>),
    Placed(Placed),
    Failed(Error),
    /// The caller has given up, or has taken the result.
    Over,
}

/// A connection, and what was sent on it.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) link: Arc<Link>,
    /// `None` if nothing was to be sent.
    pub(crate) token: Option<Token>,
}

/// What happened to a call when there was a connection for it.
pub(crate) enum Settled {
    /// The caller is told, by this waker if it sleeps.
    Told(Option<Waker>),
    /// The caller has given up.
    Unwanted,
    /// The connection has ended already: the call stays in line for the next one.
    Stays,
}

impl Cell {
    pub(crate) fn new(call: Option<Call>, deadline: Time) -> Arc<Cell> {
        let stage = Stage::Waiting(call.map(Box::new));
        let state = Mutex::new(State { stage, waker: None, line: None });
        Arc::new(Cell { deadline, state })
    }

    pub(crate) fn deadline(&self) -> Time {
        self.deadline
    }

    /// Sets its place in line, unless it was served already.
    pub(crate) fn stands_at(&self, pool: Arc<dyn Line>, ticket: Ticket, token: u64) {
        let mut state = self.lock();
        if let Stage::Waiting(_) = state.stage {
            state.line = Some((pool, ticket, token));
        }
    }

    /// There is a connection: sends the call on it.
    pub(crate) fn settle(&self, link: &Arc<Link>) -> Settled {
        let mut state = self.lock();
        let Stage::Waiting(call) = std::mem::replace(&mut state.stage, Stage::Over) else {
            return Settled::Unwanted;
        };
        match send_on(link, call) {
            Ok(stage) => state.stage = stage,
            Err(call) => {
                state.stage = Stage::Waiting(call);
                return Settled::Stays;
            }
        }
        state.line = None;
        Settled::Told(state.waker.take())
    }

    /// No connection came. Returns whom to wake, and the flight of a command of a cluster.
    pub(crate) fn fail(&self, error: Error) -> (Option<Waker>, Option<FlightId>) {
        let mut state = self.lock();
        let mut flight = None;
        if let Stage::Waiting(call) = &state.stage {
            flight = call.as_ref().and_then(|call| call.flight);
            state.stage = Stage::Failed(error);
        }
        state.line = None;
        (state.waker.take(), flight)
    }

    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Result<Placed, Error>> {
        let mut state = self.lock();
        match &state.stage {
            Stage::Waiting(_) => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
            Stage::Placed(placed) => {
                let placed = placed.clone();
                state.stage = Stage::Over;
                Poll::Ready(Ok(placed))
            }
            Stage::Failed(error) => Poll::Ready(Err(error.clone())),
            Stage::Over => unreachable!("the result of a call is taken once"),
        }
    }

    /// The caller gives up. Returns what it had been granted.
    pub(crate) fn give_up(&self) -> Option<Placed> {
        let mut state = self.lock();
        let stage = std::mem::replace(&mut state.stage, Stage::Over);
        let line = state.line.take();
        drop(state);
        if let Some((pool, ticket, token)) = line {
            pool.give_up(ticket, token);
        }
        match stage {
            Stage::Placed(placed) => Some(placed),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a call, if there is one. It comes back if the connection has ended.
fn send_on(link: &Arc<Link>, call: Option<Box<Call>>) -> Result<Stage, Option<Box<Call>>> {
    let placed = |token| Stage::Placed(Placed { link: link.clone(), token });
    let Some(call) = call else {
        return if link.is_open() { Ok(placed(None)) } else { Err(None) };
    };
    match link.submit(*call) {
        Ok(token) => Ok(placed(Some(token))),
        Err((call, error)) if error.is_connection_lost() => Err(Some(Box::new(call))),
        Err((call, error)) => {
            link.refused(&call, &error);
            Ok(Stage::Failed(error))
        }
    }
}
