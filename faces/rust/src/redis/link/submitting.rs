//! From a call to a request of the engine, or to a place in line for its queue.

use onetrip_engine::{Ticket, Time, Token};

use super::{Core, Landed};
use onetrip_redis::client::cache::Writes;

use crate::config::WhenFull;
use crate::redis::call::{Body, Call, Item};
use crate::transport;
use crate::{Error, Kind, Outcome};

impl Core {
    /// The time for a call. The clock is read only if a deadline begins, or if bytes begin to wait
    /// for the peer.
    pub(super) fn time_of_call(&mut self) -> Time {
        if self.engine.transmit().is_empty() {
            self.set_clock(self.context.now());
        }
        self.clock
    }

    /// Sets the time, which never goes backwards.
    pub(crate) fn set_clock(&mut self, now: Time) -> Time {
        self.clock = self.clock.max(now);
        self.clock
    }

    pub(crate) fn clock(&self) -> Time {
        self.clock
    }

    pub(super) fn submit(
        &mut self,
        now: Time,
        call: Call,
        always_waits: bool,
    ) -> Result<Token, (Call, Error)> {
        if matches!(call.body, Body::Confirmed(..)) && !self.subscribes {
            return Err((call, lost_resp3()));
        }
        let idle = transport::is_idle(&self.engine);
        let len = call.len_max();
        let writes = self.context.cached.as_ref().map_or(Writes::Nothing, |cached| {
            let writes = call.writes();
            cached.wrote(&writes);
            writes
        });
        if self.engine.has_room(1, len) {
            let token = self.replies.add();
            self.concerns_cache(token, &call, writes);
            self.submit_reserved(now, token, &call);
            let Core { transport, engine, .. } = self;
            transport.wrote(engine, now, idle, false);
            return Ok(token);
        }
        if let Some(error) = self.refusal() {
            return Err((call, error));
        }
        match always_waits || self.may_park(len) {
            true => self.await_room(call, writes),
            false => Err((call, queue_full())),
        }
    }

    /// There is room for a call that waited: submits it.
    pub(super) fn submit_reserved(&mut self, now: Time, token: Token, call: &Call) {
        if call.flight.is_some()
            && let Some(entry) = self.replies.entry(token)
        {
            entry.flight = call.flight;
            entry.asks = matches!(call.body, Body::Asking(_));
        }
        let request = call.request(token, &self.scripts);
        let scripts = &self.scripts;
        let submitted = self.engine.submit(now, request, |out| call.encode(scripts, out));
        match submitted {
            Ok(Ticket::Sent) => {}
            Ok(ticket) => {
                if let Some(entry) = self.replies.entry(token) {
                    entry.ticket = Some(ticket);
                }
            }
            Err(_) => {
                let error = self.refusal().unwrap_or_else(queue_full);
                self.tell_cache(token, false);
                if let Some(flight) = call.flight {
                    self.replies.remove(token);
                    return self.landed.flights.push((flight, Landed::Failed(error)));
                }
                let waker = self.replies.end(token, Err(error));
                self.wakers.extend(waker);
                return;
            }
        }
        if let Body::One(Item { script: None, .. }) = call.body {
            return;
        }
        call.scripts().for_each(|script| self.scripts.sent(script.sha.as_bytes()));
        let reply_max = self.context.limits.reply_bytes_max;
        if let Some(entry) = self.replies.entry(token) {
            (entry.has_scripts, entry.lists_scripts) = call.calls_scripts();
            entry.bytes_max = call.bytes_max(reply_max);
        }
    }

    /// Notes what the cache is told when this has ended.
    fn concerns_cache(&mut self, token: Token, call: &Call, writes: Writes) {
        if (call.fetch.is_some() || writes != Writes::Nothing)
            && let Some(entry) = self.replies.entry(token)
        {
            (entry.fetch, entry.writes) = (call.fetch, writes);
        }
    }

    /// Whether a call of this length may wait for room in the queue.
    fn may_park(&self, len: usize) -> bool {
        let limits = &self.context.limits;
        // If no bytes wait, a call of any size may.
        let awaiting = self.replies.awaiting_bytes();
        let too_much = awaiting > 0 && awaiting + len > limits.waiting_bytes_max;
        limits.when_full != WhenFull::Refuse && !too_much
    }

    /// Lets a call wait for room in the queue.
    fn await_room(&mut self, call: Call, writes: Writes) -> Result<Token, (Call, Error)> {
        let token = self.replies.add();
        let Some(ticket) = self.engine.wait(token, call.deadline) else {
            self.replies.remove(token);
            return Err((call, queue_full()));
        };
        if let Some(entry) = self.replies.entry(token) {
            entry.ticket = Some(ticket);
            entry.flight = call.flight;
        }
        self.concerns_cache(token, &call, writes);
        self.replies.await_room(token, call);
        Ok(token)
    }
}

/// The subscription was made when the server spoke RESP3.
fn lost_resp3() -> Error {
    let message = "the server that was connected to meanwhile has no RESP3: subscribe once more";
    Error::new(Kind::Transport, Outcome::NotSent, "resp3_lost", message)
}

fn queue_full() -> Error {
    Error::new(
        Kind::Misuse,
        Outcome::NotSent,
        "queue_full",
        "the queue of the connection is full: wait for replies before sending more, or raise queue_max \
         or waiting_bytes_max",
    )
}
