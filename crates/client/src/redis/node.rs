//! One server: its shared connection, and those that it lends.

use std::sync::Arc;

use onetrip_engine::Token;
use onetrip_engine::pool::Condition;

use super::call::Call;
use super::config::Config;
use super::connect::Target;
use super::link::{Link, Shared};
use super::place::Cell;
use super::pool::{Pool, Purpose};
use crate::Error;

/// One server.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) shared: Arc<Pool>,
    pub(crate) own: Arc<Pool>,
    pub(crate) context: Arc<Shared>,
}

/// Where a call is.
#[derive(Debug)]
pub(crate) enum Sent {
    /// Refused before anything was sent.
    Refused(Error),
    /// On its way on the shared connection.
    Here(Arc<Link>, Token),
    /// It waits for a connection.
    Later(Arc<Cell>),
}

impl Node {
    pub(crate) fn new(config: &Arc<Config>, target: &Target, seed: u64) -> Node {
        let context = Shared::new(config.limits.clone());
        let pool = |purpose, seed| Pool::new(config, target.clone(), &context, purpose, seed);
        Node {
            shared: pool(Purpose::Shared, seed),
            own: pool(Purpose::Own, seed.rotate_left(32)),
            context,
        }
    }

    /// Sends calls on the shared connection, one behind the other, or lets them wait until there is one.
    pub(crate) fn send(&self, call: Call) -> Sent {
        let Some(link) = self.shared.current() else { return self.wait(call) };
        match link.submit(call) {
            Ok(token) => Sent::Here(link, token),
            Err((call, error)) if error.is_connection_lost() => {
                let _ = error;
                self.wait(call)
            }
            Err((_, error)) => Sent::Refused(error),
        }
    }

    fn wait(&self, call: Call) -> Sent {
        let deadline = call.deadline;
        let cell = Cell::new(Some(call), deadline);
        self.shared.wait(&cell);
        Sent::Later(cell)
    }

    /// Waits for a connection of its own for a call.
    pub(crate) fn send_own(&self, call: Call) -> Arc<Cell> {
        let deadline = call.deadline;
        let cell = Cell::new(Some(call), deadline);
        self.own.wait(&cell);
        cell
    }

    /// A connection of one's own.
    pub(crate) async fn borrow(&self) -> Result<Lease, Error> {
        let deadline = self.context.deadline(self.context.limits.request_timeout);
        let waiting = Waiting(Cell::new(None, deadline), self.own.clone());
        self.own.wait(&waiting.0);
        let placed = std::future::poll_fn(|cx| waiting.0.poll(cx)).await?;
        Ok(Lease::new(placed.link))
    }

    /// No new calls come: what was submitted is still answered.
    pub(crate) fn close(&self) {
        self.shared.close();
        self.own.close();
    }
}

/// A place in line for a connection, which is given up when nobody waits any more.
struct Waiting(Arc<Cell>, Arc<Pool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(placed) = self.0.give_up() {
            self.1.release(&placed.link, Condition::Clean);
        }
    }
}

/// A connection that is lent, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) link: Arc<Link>,
    /// It can't be used by anybody else: its state was changed, or something on it is unanswered.
    pub(crate) is_spoiled: bool,
}

impl Lease {
    pub(crate) fn new(link: Arc<Link>) -> Lease {
        Lease { link, is_spoiled: false }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(pool) = self.link.seat.pool() else { return };
        let at_rest = self.link.lock().engine.is_idle();
        match at_rest && !self.is_spoiled {
            true => pool.release(&self.link, Condition::Clean),
            false => {
                pool.release(&self.link, Condition::Broken);
                // What it waits for may never come.
                self.link.abort(super::link::closed());
            }
        }
    }
}
