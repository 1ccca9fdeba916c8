//! The queue of statements that wait for a connection.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use onetrip_engine::pool::Ticket;
use onetrip_engine::{Time, Token};

use crate::cancelled::Cancelled;
use crate::core::{Connection, Core};
use crate::{Error, Kind, Outcome};

/// The line in which statements wait.
pub(crate) trait Line: std::fmt::Debug + Send + Sync {
    fn now(&self) -> Time;
    /// Counts how long a statement was in the line.
    fn waited(&self, time: Duration);
    /// Takes a statement out of the line. Returns true if it was still in it.
    fn leave(self: Arc<Self>, token: Token, ticket: Ticket) -> bool;
}

/// The work on a connection once there is one: submits a request, and returns the token of its
/// reply.
pub(crate) struct Work {
    run: Box<Run>,
    /// Further work if no connection comes. Returns whom to wake.
    fail: Option<Box<Fail>>,
}

type Run = dyn FnOnce(&Arc<Connection>, &mut Core, Time) -> Result<Token, Error> + Send;
type Fail = dyn FnOnce(&Error) -> Vec<Waker> + Send;

impl Work {
    pub(crate) fn new(
        run: impl FnOnce(&Arc<Connection>, &mut Core, Time) -> Result<Token, Error> + Send + 'static,
    ) -> Work {
        Work { run: Box::new(run), fail: None }
    }

    pub(crate) fn or(self, fail: impl FnOnce(&Error) -> Vec<Waker> + Send + 'static) -> Work {
        Work { fail: Some(Box::new(fail)), ..self }
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Work")
    }
}

/// A statement that waits for a connection, as its reply sees it.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    line: Arc<dyn Line>,
    /// When it got in line, and how long it was there.
    since: OnceLock<Time>,
    waited: OnceLock<Duration>,
    state: Mutex<PlacementState>,
}

#[derive(Debug)]
enum PlacementState {
    Waiting { caller: Option<(Token, Ticket)>, waker: Option<Waker> },
    Placed(Arc<Connection>, Token),
    Failed(Error),
    Taken,
}

impl QueueEntry {
    /// An entry that somebody else settles.
    pub(crate) fn new(line: Arc<dyn Line>) -> Arc<QueueEntry> {
        let state = PlacementState::Waiting { caller: None, waker: None };
        let (since, waited) = (OnceLock::new(), OnceLock::new());
        Arc::new(QueueEntry { line, since, waited, state: Mutex::new(state) })
    }

    /// The statement gets in line now.
    pub(super) fn begin(&self, now: Time) {
        let _ = self.since.set(now);
    }

    /// The statement is in the line. Returns false if its caller has given up meanwhile.
    pub(super) fn enter(&self, token: Token, ticket: Ticket) -> bool {
        match &mut *self.lock() {
            PlacementState::Waiting { caller, .. } => {
                *caller = Some((token, ticket));
                true
            }
            _ => false,
        }
    }

    /// How long a settled statement was in line.
    pub(crate) fn waited(&self) -> Duration {
        self.waited.get().copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, PlacementState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the work of a statement on its connection. Returns whom to wake, and the work if the
    /// connection takes nothing any more.
    pub(super) fn run(
        &self,
        work: Work,
        connection: &Arc<Connection>,
    ) -> (Vec<Waker>, Option<Work>) {
        let (ran, mut wakers) = connection.with_quietly(|core, now| match core.engine.is_open() {
            true => Ok((work.run)(connection, core, now)),
            false => Err(work),
        });
        match ran {
            Ok(submitted) => {
                wakers.extend(self.settle(connection, submitted));
                (wakers, None)
            }
            Err(work) => (wakers, Some(work)),
        }
    }

    /// No connection came. Returns whom to wake.
    pub(super) fn give_back(&self, work: Work, error: Error) -> Vec<Waker> {
        let mut wakers = work.fail.map_or_else(Vec::new, |fail| fail(&error));
        wakers.extend(self.fail(error));
        wakers
    }

    /// The statement has its place. Returns whom to wake.
    pub(crate) fn settle(
        &self,
        connection: &Arc<Connection>,
        token: Result<Token, Error>,
    ) -> Option<Waker> {
        self.end(match token {
            Ok(token) => PlacementState::Placed(connection.clone(), token),
            Err(error) => PlacementState::Failed(error),
        })
    }

    pub(crate) fn fail(&self, error: Error) -> Option<Waker> {
        self.end(PlacementState::Failed(error))
    }

    fn end(&self, end: PlacementState) -> Option<Waker> {
        match std::mem::replace(&mut *self.lock(), end) {
            PlacementState::Waiting { caller, waker } => {
                if caller.is_some()
                    && let Some(since) = self.since.get()
                {
                    let waited = self.line.now().since(*since);
                    let _ = self.waited.set(waited);
                    self.line.waited(waited);
                }
                waker
            }
            _ => None,
        }
    }

    /// Resolves with the connection, and the token of the reply there.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Result<(Arc<Connection>, Token), Error>> {
        let mut state = self.lock();
        if let PlacementState::Waiting { waker, .. } = &mut *state {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, PlacementState::Taken) {
            PlacementState::Placed(connection, token) => Poll::Ready(Ok((connection, token))),
            PlacementState::Failed(error) => Poll::Ready(Err(error)),
            PlacementState::Waiting { .. } | PlacementState::Taken => {
                panic!("a queue entry was polled again after it had been taken")
            }
        }
    }

    /// Resolves when it is settled, and takes nothing.
    pub(crate) fn poll_settled(&self, cx: &Context<'_>) -> Poll<()> {
        match &mut *self.lock() {
            PlacementState::Waiting { waker, .. } => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Leaves the line. Returns true if it was still in it: then its work will not be done.
    pub(crate) fn leave(&self) -> bool {
        let caller = match &*self.lock() {
            PlacementState::Waiting { caller, .. } => *caller,
            _ => None,
        };
        caller.is_some_and(|caller| self.leave_as(caller))
    }

    fn leave_as(&self, (token, ticket): (Token, Ticket)) -> bool {
        self.line.clone().leave(token, ticket)
    }

    /// Ends the wait, or returns where the statement was placed; `None` if its reply knows that
    /// already.
    pub(crate) fn cancel(&self) -> Result<Option<Cancelled>, (Arc<Connection>, Token)> {
        if self.leave() {
            if let Some(waker) = self.fail(cancelled()) {
                waker.wake();
            }
            return Ok(Some(Cancelled::Yes));
        }
        match &*self.lock() {
            PlacementState::Placed(connection, token) => Err((connection.clone(), *token)),
            // A pipeline waits, together with its statements.
            PlacementState::Waiting { .. } => Ok(Some(Cancelled::NotPossible)),
            PlacementState::Failed(_) => Ok(Some(Cancelled::TooLate)),
            PlacementState::Taken => Ok(None),
        }
    }

    /// The caller has given up. If the statement was placed meanwhile, returns where.
    pub(crate) fn give_up(&self) -> Option<(Arc<Connection>, Token)> {
        self.leave();
        let mut left = self.take();
        if let PlacementState::Waiting { caller: Some(caller), .. } = left {
            // It got in line meanwhile.
            self.leave_as(caller);
            left = self.take();
        }
        match left {
            PlacementState::Placed(connection, token) => Some((connection, token)),
            _ => None,
        }
    }

    fn take(&self) -> PlacementState {
        std::mem::replace(&mut *self.lock(), PlacementState::Taken)
    }

    pub(crate) fn is_given_up(&self) -> bool {
        matches!(&*self.lock(), PlacementState::Taken)
    }
}

fn cancelled() -> Error {
    let message = "taken back before it was sent";
    Error::new(Kind::Cancelled, Outcome::NotSent, "cancelled", message)
}
