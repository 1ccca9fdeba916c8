//! One server: its shared connection, and those that it lends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onetrip_engine::pool::Condition;
use onetrip_engine::{Time, Token};

use super::call::{Call, Item};
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
    /// It can't be used by anybody else, since its state was changed.
    pub(crate) is_spoiled: bool,
    /// A blocking command was sent, of which nobody knows when it ends.
    has_blocked: AtomicBool,
}

impl Lease {
    pub(crate) fn new(link: Arc<Link>) -> Lease {
        Lease { link, is_spoiled: false, has_blocked: AtomicBool::new(false) }
    }

    /// A blocking command is sent.
    pub(crate) fn has_blocked(&self) {
        self.has_blocked.store(true, Ordering::Relaxed);
    }

    /// Sends what nobody waits for, if nothing else is unanswered. Whether it did.
    pub(crate) fn send_unwaited(&self, item: Item) -> bool {
        if !self.link.lock().engine.is_idle() {
            return false;
        }
        match self.link.submit(Call::one(item, Time::NEVER)) {
            Ok(token) => {
                self.link.abandon(token);
                true
            }
            Err(_) => false,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(pool) = self.link.seat.pool() else { return };
        let has_blocked = self.has_blocked.load(Ordering::Relaxed);
        let at_rest = {
            let core = self.link.lock();
            core.engine.is_idle() || (!has_blocked && core.nobody_waits())
        };
        if at_rest && !self.is_spoiled {
            return pool.release(&self.link, Condition::Clean);
        }
        // It says goodbye when all is answered.
        pool.release(&self.link, Condition::Broken);
        if !at_rest && has_blocked {
            // What it waits for may never come.
            self.link.abort(super::link::closed());
        }
    }
}
