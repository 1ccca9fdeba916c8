//! Bytes in and out, and time.

use std::os::fd::AsFd;
use std::time::Duration;

use onetrip_engine::{CancelEnd, Time};
use rustix::event::Timespec;
use rustix::event::epoll;

use super::{State, Todo, clock};
use crate::wire::{KeepAlive, Wire};

/// Milliseconds that a cancel may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads of one connection in one turn.
const READS_MAX: usize = 16;

/// The key of a cancel's socket has this bit.
const OF_CANCEL: u64 = 1 << 32;

/// A cancel on its way, on a socket of its own.
#[derive(Debug)]
pub(crate) struct Cancel {
    wire: Wire,
    /// Whose statement is cancelled.
    of: u32,
    message: Vec<u8>,
    written: usize,
    is_begun: bool,
    until: Time,
}

impl State {
    /// Does what can be done without waiting for more than this.
    pub(crate) fn turn(&mut self, wait: Option<Duration>) {
        self.flush(clock());
        let timeout = wait.and_then(|wait| Timespec::try_from(wait).ok());
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        // A signal ends the wait, which is begun again by whoever waits for more.
        let room = rustix::buffer::spare_capacity(&mut events);
        let _ = epoll::wait(&self.poll, room, timeout.as_ref());
        let now = clock();
        for event in &events {
            // It is packed.
            let data = event.data;
            let key = data.u64();
            match key & OF_CANCEL {
                0 => self.ready_socket(now, key as u32),
                _ => self.cancel_goes_on(now, key as u32),
            }
            self.settle(now);
        }
        self.events = events;
        self.tick(now);
        self.flush(now);
    }

    fn ready_socket(&mut self, now: Time, number: u32) {
        if self.openings.contains_key(&number) && !self.links.contains_key(&number) {
            return self.go_on(now, number);
        }
        self.read(now, number);
        // What had waited for room goes on.
        self.soil(number);
    }

    fn read(&mut self, now: Time, number: u32) {
        for _ in 0..READS_MAX {
            let Some(link) = self.links.get_mut(&number).filter(|link| link.wire.reads) else {
                return;
            };
            match link.wire.read(&mut self.room) {
                Ok(None) => return,
                Ok(Some(0)) => return self.peer_closed(now, number),
                Ok(Some(len)) => {
                    link.connection.borrow_mut().receive(now, &self.room[..len]);
                    self.walk(now, number);
                    if self.pool.answered(now, number) {
                        self.does(Todo::Pool);
                    }
                    self.settle(now);
                    if len < self.room.len() && self.is_plain(number) {
                        return;
                    }
                }
                Err(error) => return self.destroy(now, number, &error.to_string()),
            }
        }
    }

    /// Whether what was read was all that there was.
    fn is_plain(&self, number: u32) -> bool {
        self.links.get(&number).is_none_or(|link| link.wire.tls.is_none())
    }

    /// Writes what is to be sent.
    pub(crate) fn flush(&mut self, now: Time) {
        while !self.dirty.is_empty() {
            for number in std::mem::take(&mut self.dirty) {
                if let Some(link) = self.links.get_mut(&number) {
                    link.is_dirty = false;
                }
                self.write(now, number);
                self.settle(now);
            }
        }
    }

    fn write(&mut self, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let connection = link.connection.clone();
        let mut connection = connection.borrow_mut();
        link.wire.begin_writing();
        loop {
            let bytes = connection.transmit();
            let taken = if bytes.is_empty() { Ok(0) } else { link.wire.write(bytes) };
            match taken {
                Ok(0) => break,
                Ok(taken) => connection.written(now, taken),
                Err(error) => {
                    drop(connection);
                    return self.destroy(now, number, &error.to_string());
                }
            }
        }
        let is_sent = connection.transmit().is_empty() && connection.pending() == (0, 0);
        let flushed = link.wire.flush();
        drop(connection);
        let is_done = is_sent && !matches!(flushed, Ok(false));
        if link.is_leaving && (is_done || flushed.is_err() || link.is_over) {
            link.wire.say_goodbye();
            self.walk(now, number);
            self.links.remove(&number);
            return;
        }
        link.wire.watch(self.poll.as_fd());
        self.does(Todo::Walk(number));
    }

    /// It is so late.
    fn tick(&mut self, now: Time) {
        if self.pool.deadline() <= now {
            self.pool.time(now);
            self.does(Todo::Pool);
        }
        self.resume(now);
        self.expire(now);
        let late: Vec<u32> =
            self.late(|state, number| state.links[&number].connection.borrow().deadline() <= now);
        for number in late {
            if let Some(link) = self.links.get(&number) {
                link.connection.borrow_mut().time(now);
            }
            self.does(Todo::Walk(number));
            self.soil(number);
        }
        self.openings_late(now);
        self.listeners_go_on(now);
        let cancels = self.cancels.iter().filter(|(_, it)| it.until <= now);
        for number in cancels.map(|it| *it.0).collect::<Vec<_>>() {
            self.end_cancel(now, number, CancelEnd::Lost);
        }
        self.settle(now);
    }

    fn late(&self, is_late: impl Fn(&State, u32) -> bool) -> Vec<u32> {
        self.links.keys().copied().filter(|number| is_late(self, *number)).collect()
    }

    /// When it must have another turn, whatever the sockets say.
    pub(crate) fn next_turn(&self) -> Time {
        let links = self.links.values().map(|link| link.connection.borrow().deadline());
        let openings = self.openings.values().map(|it| it.deadline());
        let pausing = self.pausing.iter().map(|it| it.0);
        let listeners = self.listeners.iter().map(|it| it.borrow().at);
        let cancels = self.cancels.values().map(|it| it.until);
        let timers = self.timers.peek().map(|it| it.0.0);
        let dirty = (!self.dirty.is_empty()).then_some(Time::ZERO);
        links
            .chain(openings)
            .chain(pausing)
            .chain(listeners)
            .chain(cancels)
            .chain(timers)
            .chain(dirty)
            .fold(self.pool.deadline(), Time::min)
    }

    // --- cancels ---

    /// The server shall be asked to cancel what it runs on this connection.
    pub(super) fn cancel(&mut self, now: Time, number: u32) {
        let Some(link) = self.links.get(&number) else { return };
        let id = self.apart & !super::APART;
        self.apart = self.apart.wrapping_add(1).max(super::APART);
        let key = OF_CANCEL | u64::from(id);
        match Wire::dial(self.poll.as_fd(), &link.place, KeepAlive::default(), key) {
            Ok(wire) => {
                let until = now.after(CANCEL_TIMEOUT);
                let (message, written) = (Vec::new(), 0);
                let cancel = Cancel { wire, of: number, message, written, is_begun: false, until };
                self.cancels.insert(id, cancel);
                self.cancel_goes_on(now, id);
            }
            Err(_) => self.cancel_ended(now, number, CancelEnd::NotSent),
        }
    }

    fn cancel_goes_on(&mut self, now: Time, id: u32) {
        let Some(cancel) = self.cancels.get_mut(&id) else { return };
        match cancel.wire.is_connected() {
            Ok(false) => return,
            Ok(true) => {}
            Err(_) => return self.end_cancel(now, id, CancelEnd::NotSent),
        }
        if !cancel.is_begun {
            let Some(link) = self.links.get(&cancel.of) else {
                self.cancels.remove(&id);
                return;
            };
            cancel.message = link.connection.borrow_mut().begin_cancel(now).to_vec();
            cancel.is_begun = true;
            let of = cancel.of;
            self.todo.push_back(Todo::Walk(of));
            if cancel.message.is_empty() {
                // What it held back goes on.
                self.cancels.remove(&id);
                return self.soil(of);
            }
        }
        match cancel.wire.write(&cancel.message[cancel.written..]) {
            Ok(len) => cancel.written += len,
            Err(_) => return self.end_cancel(now, id, CancelEnd::Lost),
        }
        let mut room = [0; 16];
        match cancel.wire.read_raw(&mut room) {
            Ok(None) => cancel.wire.watch(self.poll.as_fd()),
            // The server closes it once it has carried out the cancel.
            Ok(Some(0)) if cancel.written == cancel.message.len() => {
                self.end_cancel(now, id, CancelEnd::Closed);
            }
            Ok(Some(_)) | Err(_) => self.end_cancel(now, id, CancelEnd::Lost),
        }
    }

    fn end_cancel(&mut self, now: Time, id: u32, end: CancelEnd) {
        let Some(cancel) = self.cancels.remove(&id) else { return };
        let end = if cancel.is_begun { end } else { CancelEnd::NotSent };
        self.cancel_ended(now, cancel.of, end);
    }

    fn cancel_ended(&mut self, now: Time, number: u32, end: CancelEnd) {
        let Some(link) = self.links.get(&number) else { return };
        link.connection.borrow_mut().cancel_ended(now, end);
        self.does(Todo::Walk(number));
        self.soil(number);
    }
}
