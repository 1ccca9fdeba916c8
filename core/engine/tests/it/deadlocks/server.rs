//! A model of a server with locks: one statement at a time on each backend, exclusive locks with a
//! line each, transactions that keep theirs, and a look for cycles among its own backends.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use onetrip_engine::{Outcome, Time};

use crate::toy::{cancelled, complete, failed, parse, settled};

/// After this time a backend that waits for a lock looks whether it is part of a cycle.
pub(super) const DEADLOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// What a statement does, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Begin,
    Read,
    /// What must not be sent twice, such as a DO or a pipeline. It takes no lock.
    Once,
    /// Takes this lock: of a row, or an advisory one.
    Write(usize),
    /// The same, and must not be sent twice.
    Call(usize),
    /// Ends the transaction; it undoes one that has failed.
    Commit,
}

impl Work {
    /// The lock that it takes.
    pub(super) fn lock(self) -> Option<usize> {
        match self {
            Work::Write(lock) | Work::Call(lock) => Some(lock),
            Work::Begin | Work::Read | Work::Once | Work::Commit => None,
        }
    }
}

pub(super) enum Wake {
    Finish(usize, u64),
    Deadlock(usize, u64),
}

#[derive(Default)]
pub(super) struct Backend {
    input: Vec<u8>,
    /// The statement that runs, and those behind it that have arrived.
    pub(super) queue: VecDeque<u32>,
    /// The number of the statement that runs, if one does.
    running: Option<u64>,
    /// The lock that it waits for.
    pub(super) waits: Option<usize>,
    pub(super) in_transaction: bool,
    aborted: bool,
    locks: Vec<usize>,
    written: Vec<u32>,
}

#[derive(Default)]
pub(super) struct Lock {
    pub(super) holder: Option<usize>,
    pub(super) line: VecDeque<usize>,
}

#[derive(Default)]
pub(super) struct Server {
    pub(super) works: HashMap<u32, (Work, Duration)>,
    pub(super) backends: Vec<Backend>,
    pub(super) locks: Vec<Lock>,
    /// How often each statement took effect.
    pub(super) effects: HashMap<u32, usize>,
    pub(super) replies: Vec<(usize, Vec<u8>)>,
    pub(super) wakes: Vec<(Time, Wake)>,
    numbers: u64,
    pub(super) deadlocks: usize,
    pub(super) cancelled: usize,
}

impl Server {
    pub(super) fn feed(&mut self, now: Time, at: usize, bytes: &[u8]) {
        let backend = &mut self.backends[at];
        backend.input.extend_from_slice(bytes);
        let mut taken = 0;
        while let Ok(message) = parse(&backend.input[taken..]) {
            taken += message.len;
            assert!(message.tag == b'Q' || message.tag == b'X');
            if message.tag == b'Q' {
                backend.queue.push_back(message.id);
            }
        }
        backend.input.drain(..taken);
        self.start(now, at);
    }

    /// A signal reaches the backend. One that runs nothing forgets it.
    pub(super) fn signal(&mut self, now: Time, at: usize) {
        if self.backends[at].running.is_some() {
            self.cancelled += 1;
            self.fail(now, at, cancelled);
        }
    }

    pub(super) fn wake(&mut self, now: Time, wake: &Wake) {
        match *wake {
            Wake::Finish(at, number) if self.backends[at].running == Some(number) => {
                self.finish(now, at);
            }
            Wake::Deadlock(at, number)
                if self.backends[at].running == Some(number) && self.is_in_cycle(at) =>
            {
                self.deadlocks += 1;
                self.fail(now, at, |id| failed(id, Outcome::Rejected, false));
            }
            _ => {}
        }
    }

    /// Those that a backend waits for: who has the lock, and who is in line in front of it.
    pub(super) fn blockers(&self, at: usize, lock: usize) -> impl Iterator<Item = usize> {
        let Lock { holder, line } = &self.locks[lock];
        let ahead = line.iter().copied().take_while(move |other| *other != at);
        holder.iter().copied().filter(move |other| *other != at).chain(ahead)
    }

    fn is_in_cycle(&self, at: usize) -> bool {
        let mut seen = vec![false; self.backends.len()];
        let mut open = vec![at];
        while let Some(next) = open.pop() {
            let Some(lock) = self.backends[next].waits else { continue };
            for blocker in self.blockers(next, lock) {
                if blocker == at {
                    return true;
                }
                if !std::mem::replace(&mut seen[blocker], true) {
                    open.push(blocker);
                }
            }
        }
        false
    }

    fn start(&mut self, now: Time, at: usize) {
        self.numbers += 1;
        let backend = &mut self.backends[at];
        if backend.running.is_some() {
            return;
        }
        let Some(id) = backend.queue.front() else { return };
        backend.running = Some(self.numbers);
        match self.works[id].0.lock() {
            Some(_) if backend.aborted => {
                self.fail(now, at, |id| failed(id, Outcome::Rejected, false));
            }
            Some(lock) if self.locks[lock].holder.is_some_and(|holder| holder != at) => {
                self.locks[lock].line.push_back(at);
                self.backends[at].waits = Some(lock);
                let wake = Wake::Deadlock(at, self.numbers);
                self.wakes.push((now.after(DEADLOCK_TIMEOUT), wake));
            }
            Some(lock) => self.take(now, at, lock),
            None => self.run(now, at),
        }
    }

    fn take(&mut self, now: Time, at: usize, lock: usize) {
        self.locks[lock].holder = Some(at);
        let backend = &mut self.backends[at];
        backend.waits = None;
        if !backend.locks.contains(&lock) {
            backend.locks.push(lock);
        }
        self.run(now, at);
    }

    fn run(&mut self, now: Time, at: usize) {
        let backend = &self.backends[at];
        let takes = self.works[&backend.queue[0]].1;
        let wake = Wake::Finish(at, backend.running.unwrap());
        self.wakes.push((now.after(takes), wake));
    }

    fn finish(&mut self, now: Time, at: usize) {
        let backend = &mut self.backends[at];
        let id = backend.queue[0];
        match self.works[&id].0 {
            Work::Begin => backend.in_transaction = true,
            Work::Write(_) | Work::Call(_) => backend.written.push(id),
            Work::Commit => backend.in_transaction = false,
            Work::Read | Work::Once => {}
        }
        if !backend.in_transaction {
            for id in backend.written.drain(..) {
                *self.effects.entry(id).or_default() += 1;
            }
            backend.aborted = false;
            self.release(now, at);
        }
        self.reply(now, at, [complete(id), settled(id)].concat());
    }

    /// The statement that runs fails, and with it its transaction.
    fn fail(&mut self, now: Time, at: usize, error: fn(u32) -> Vec<u8>) {
        let backend = &mut self.backends[at];
        let id = backend.queue[0];
        backend.aborted = backend.in_transaction;
        backend.written.clear();
        if let Some(lock) = backend.waits.take() {
            self.locks[lock].line.retain(|other| *other != at);
        }
        self.release(now, at);
        self.reply(now, at, [error(id), settled(id)].concat());
    }

    fn release(&mut self, now: Time, at: usize) {
        for lock in std::mem::take(&mut self.backends[at].locks) {
            self.locks[lock].holder = None;
            if let Some(next) = self.locks[lock].line.pop_front() {
                self.take(now, next, lock);
            }
        }
    }

    fn reply(&mut self, now: Time, at: usize, bytes: Vec<u8>) {
        self.backends[at].queue.pop_front();
        self.backends[at].running = None;
        self.replies.push((at, bytes));
        self.start(now, at);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.backends.iter().all(|backend| backend.queue.is_empty() && backend.locks.is_empty())
            && self.locks.iter().all(|lock| lock.holder.is_none() && lock.line.is_empty())
    }
}
