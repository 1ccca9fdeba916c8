//! Who waits for whom: callers for statements, statements for connections, connections for locks,
//! locks for their holders, and holders for what they await. Whoever can't go on by that is part of
//! a cycle, or behind one.

use super::host::Conn;
use super::server::Server;
use super::tasks::Task;
use super::{Place, Sim, Use};

/// What can be known at one moment. `lives`: which tasks go on by themselves.
struct Moment<'a> {
    sim: &'a Sim,
    lives: Vec<bool>,
}

/// The tasks that go on only if a cycle is broken.
pub(super) fn stuck(sim: &Sim) -> Vec<usize> {
    let mut moment = Moment { sim, lives: vec![false; sim.tasks.len()] };
    loop {
        let next: Vec<_> = sim.tasks.iter().map(|task| moment.goes_on(task)).collect();
        if next == moment.lives {
            break;
        }
        moment.lives = next;
    }
    (0..sim.tasks.len()).filter(|at| !moment.lives[*at]).collect()
}

impl Moment<'_> {
    fn goes_on(&self, task: &Task) -> bool {
        if task.enters {
            return self.sim.inside.is_none_or(|other| self.lives[other]);
        }
        if task.checks_out {
            return self.somewhere();
        }
        task.awaits.iter().all(|id| self.is_answered(*id))
    }

    fn is_answered(&self, id: u32) -> bool {
        match self.sim.statements[&id].place {
            Place::Line => self.somewhere(),
            Place::On(at) => self.moves(at, id),
        }
    }

    /// Whether a connection will be free for one who is in line.
    fn somewhere(&self) -> bool {
        let pool = &self.sim.pool;
        let comes = pool.opening() > 0 || pool.connections() < pool.limits().connections_max;
        let frees = |(at, conn): (usize, &Conn)| match conn.used {
            Use::Gone => false,
            Use::Exclusive(task) => self.lives[task],
            // Those whose callers have gone count, too.
            Use::Shared | Use::Draining => self.moves(at, u32::MAX),
        };
        comes || self.sim.conns.iter().enumerate().any(frees)
    }

    /// Whether the server comes to the end of this statement. One that it does not have yet comes
    /// behind those that it has.
    fn moves(&self, at: usize, id: u32) -> bool {
        let queue = &self.sim.server.backends[at].queue;
        let end = queue.iter().position(|other| *other == id).map_or(queue.len(), |end| end + 1);
        queue.iter().take(end).all(|id| self.runs(at, *id))
    }

    fn runs(&self, at: usize, id: u32) -> bool {
        let server: &Server = &self.sim.server;
        let Some(lock) = server.works[&id].0.lock() else { return true };
        server.blockers(at, lock).all(|backend| match server.backends[backend].in_transaction {
            // It ends with its caller's next steps.
            true => match self.sim.conns[backend].used {
                Use::Exclusive(task) => self.lives[task],
                _ => true,
            },
            false => true,
        })
    }
}
