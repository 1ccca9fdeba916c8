//! Handles that cancel statements.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use onetrip_engine::{Time, Token};
use onetrip_postgres::client::pipeline::PipelineId;

use crate::cancelled::{Answer, Cancelled};
use crate::core::{Connection, Core};
use crate::pool::QueueEntry;

/// Cancels a statement, from any task. [`Reply::canceller`](crate::Reply::canceller),
/// [`Session::canceller`](crate::Session::canceller) and
/// [`Pipeline::canceller`](crate::Pipeline::canceller) return one. Dropping it cancels nothing.
///
/// # Example
/// ```no_run
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// use onetrip::Cancelled;
///
/// let report = client.query("select * from a_long_report()", &[]);
/// let canceller = report.canceller();
/// tokio::spawn(async move {
///     // Somebody lost patience.
///     if canceller.cancel().await == Cancelled::NotPossible {
///         eprintln!("it runs on");
///     }
/// });
/// let rows = report.await?; // Fails, `Rejected`, if it was cancelled.
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Canceller(Victim);

#[derive(Clone, Debug)]
enum Victim {
    /// The statement of a reply.
    Statement(Arc<CancelTarget>),
    /// Whatever runs on a connection, as long as the connection belongs to this owner epoch.
    Running(Arc<Connection>, u32),
    /// Whatever runs of a pipeline.
    Pipeline(Arc<Connection>, PipelineId),
    /// Nothing that can be cancelled.
    Nothing,
}

impl Canceller {
    pub(crate) fn of_statement(cancel_target: &Arc<CancelTarget>) -> Canceller {
        Canceller(Victim::Statement(cancel_target.clone()))
    }

    pub(crate) fn of_connection(connection: &Arc<Connection>) -> Canceller {
        let user = connection.lock().replies.owner_epoch();
        Canceller(Victim::Running(connection.clone(), user))
    }

    pub(crate) fn of_pipeline(home: Option<(&Arc<Connection>, PipelineId)>) -> Canceller {
        Canceller(match home {
            Some((connection, id)) => Victim::Pipeline(connection.clone(), id),
            None => Victim::Nothing,
        })
    }

    /// Cancels, when the call is made: a statement that was not sent is taken back; otherwise the
    /// server is asked to cancel it, as soon as it runs the statement. The future resolves when it
    /// is known what became of the statement. If the server runs it, that is when it has ended.
    /// Dropping the future changes nothing.
    ///
    /// A server forgets a cancel that comes too early. If the statement runs on, the server is
    /// asked again, 100 ms later and a second after that. `cancel` may also be called again.
    pub fn cancel(&self) -> impl Future<Output = Cancelled> + use<> {
        let answer = Arc::new(Answer::default());
        match &self.0 {
            Victim::Statement(cancel_target) => cancel_target.cancel(&answer),
            Victim::Running(connection, user) => {
                connection.with(|core, now| core.cancel_running(now, *user, &answer));
            }
            Victim::Pipeline(connection, id) => {
                connection.with(|core, now| core.cancel_pipeline(now, *id, &answer));
            }
            Victim::Nothing => drop(answer.give(Cancelled::NotPossible)),
        }
        async move { std::future::poll_fn(|cx| answer.poll(cx)).await }
    }
}

impl Core {
    fn cancel_pipeline(&mut self, now: Time, id: PipelineId, answer: &Arc<Answer>) {
        match self.pipelines.group(id) {
            Some(Some(group)) => {
                let wanted = self.engine.want_cancel_group(now, group);
                self.answer(wanted, answer);
            }
            Some(None) => drop(answer.give(Cancelled::NotPossible)),
            None => drop(answer.give(Cancelled::TooLate)),
        }
    }
}

/// Where the statement of a reply is, for its cancellers.
#[derive(Debug)]
pub(crate) struct CancelTarget(Mutex<At>);

#[derive(Debug)]
pub(crate) enum At {
    Later(Arc<QueueEntry>),
    Here(Arc<Connection>, Token),
    Over,
}

impl CancelTarget {
    pub(crate) fn new(at: At) -> Arc<CancelTarget> {
        Arc::new(CancelTarget(Mutex::new(at)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, At> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel(&self, answer: &Arc<Answer>) {
        let waiting = match &*self.lock() {
            At::Later(queue_entry) => Some(queue_entry.clone()),
            _ => None,
        };
        match waiting.map_or(Ok(None), |queue_entry| queue_entry.cancel()) {
            Ok(Some(cancelled)) => drop(answer.give(cancelled)),
            Ok(None) => match self.here() {
                Some(here) => cancel_reply(here, answer),
                None => drop(answer.give(Cancelled::TooLate)),
            },
            Err(here) => cancel_reply(here, answer),
        }
    }

    fn here(&self) -> Option<(Arc<Connection>, Token)> {
        match &*self.lock() {
            At::Here(connection, token) => Some((connection.clone(), *token)),
            At::Later(_) | At::Over => None,
        }
    }
}

fn cancel_reply((connection, token): (Arc<Connection>, Token), answer: &Arc<Answer>) {
    connection.with(|core, now| core.cancel_reply(now, token, answer));
}
