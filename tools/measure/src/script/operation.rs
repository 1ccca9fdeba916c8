//! Scripts as an operation: one call is one run of one script.

use std::sync::Arc;

use onetrip::{Client, Session};

use super::machine::{Machine, Statements};
use super::plan::Plan;
use crate::error::Result;
use crate::load::{Operation, Tally};

/// Runs scripts: each call chooses one by its weight and runs it from beginning to end, which is
/// what pgbench calls a transaction.
///
/// A run that fails by a conflict (40001, 40P01) is rolled back and repeated, with the same
/// variables and random numbers, until it succeeds or [`max_tries`](super::Settings::max_tries) is
/// reached. Each such attempt is counted by [`Tally::retried`]. Another error of the server is
/// counted by [`Tally::failed`], an open transaction is rolled back, and the next call begins a new
/// run. A failed pipeline counts once.
///
/// # Errors
/// A call fails if the error would repeat each time: the connection is gone, the statement is wrong
/// (classes 08, 26, 28, 3D, 3F, 42, 57P), an expression can't be computed, or the script ends
/// inside of a transaction or a pipeline. The error is one line with the script, the line and the
/// server's message.
///
/// Dropping the future of a call stops the run midway. Don't call the operation again after that.
#[derive(Debug)]
pub struct ScriptOperation {
    place: Place,
    machine: Machine,
}

#[derive(Debug)]
enum Place {
    Session(Session),
    Client(Client),
}

impl ScriptOperation {
    /// An operation that keeps this session, as pgbench does. It sends nothing before the first
    /// call; statements are prepared before their first use.
    ///
    /// `client_id` is the variable of that name. With the seed it decides the random numbers.
    pub fn on_session(session: Session, plan: &Arc<Plan>, client_id: u32) -> ScriptOperation {
        let statements = Arc::new(Statements::new(plan));
        let machine = Machine::new(plan.clone(), statements, client_id);
        ScriptOperation { place: Place::Session(session), machine }
    }

    /// This many operations, numbered from 0, each of which keeps a session of the client.
    /// Statements are prepared once for all of them.
    ///
    /// # Errors
    /// A session can't be had: see [`Client::session`]. The client needs as many connections.
    pub async fn on_sessions(
        client: &Client,
        plan: &Arc<Plan>,
        tasks: u32,
    ) -> Result<Vec<ScriptOperation>> {
        let statements = Arc::new(Statements::new(plan));
        let mut operations = Vec::new();
        for client_id in 0..tasks {
            let place = Place::Session(client.session().await?);
            let machine = Machine::new(plan.clone(), statements.clone(), client_id);
            operations.push(ScriptOperation { place, machine });
        }
        Ok(operations)
    }

    /// For more tasks than connections: this many operations, numbered from 0, each of which
    /// borrows a session of the client for each run. The wait for a session is part of the call.
    /// Statements are prepared once for all of them.
    pub fn on_client(client: &Client, plan: &Arc<Plan>, tasks: u32) -> Vec<ScriptOperation> {
        let statements = Arc::new(Statements::new(plan));
        let operation = |client_id| ScriptOperation {
            place: Place::Client(client.clone()),
            machine: Machine::new(plan.clone(), statements.clone(), client_id),
        };
        (0..tasks).map(operation).collect()
    }

    /// Goes on with other random numbers, which follow from those of the plan's seed and from this
    /// one. So a value that a script draws as a key does not come again in the next repetition.
    #[must_use]
    pub fn reseeded(mut self, seed: u64) -> ScriptOperation {
        self.machine.reseed(seed);
        self
    }

    /// Prepares the statements of the scripts now, so that no call has to: one trip for each
    /// different statement, for all operations that share them. A statement that can't be prepared
    /// yet, for example because the script creates its table, is prepared at its first use, which
    /// then reports errors. Does nothing unless the protocol is
    /// [`Prepared`](super::Protocol::Prepared).
    ///
    /// # Errors
    /// For operations of a client: no session is available.
    pub async fn prepare(&self) -> Result<()> {
        match &self.place {
            Place::Session(session) => self.machine.prepare(session).await,
            Place::Client(client) => self.machine.prepare(&client.session().await?).await,
        }
        Ok(())
    }
}

impl Operation for ScriptOperation {
    async fn run(&mut self, tally: &mut Tally) -> Result<()> {
        match &self.place {
            Place::Session(session) => self.machine.run(session, tally).await,
            Place::Client(client) => {
                let session = client.session().await?;
                self.machine.run(&session, tally).await
            }
        }
    }
}
