//! A session that is being made: requests, the answers to them, and what must be counted.

use onetrip_profile::{Nanos, Side};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus as Random;

/// Bytes of one side, and how long after those before them they pass.
#[derive(Clone, Debug)]
pub(crate) struct Act {
    pub(crate) after: Nanos,
    pub(crate) from: Side,
    pub(crate) bytes: Vec<u8>,
}

/// What a session must be counted as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) trips: u64,
    pub(crate) exchanges: u64,
    pub(crate) units: u64,
}

/// A request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) up: Vec<u8>,
    /// The answer; empty for what is not answered.
    pub(crate) down: Vec<u8>,
    /// It begins an exchange.
    pub(crate) begins: bool,
    /// It ends what an error skips, and belongs to the exchange before it, if that is open.
    pub(crate) syncs: bool,
    /// The server sends what it has when it has read this.
    pub(crate) flushes: bool,
    /// Its answer is an error, and what follows is skipped.
    pub(crate) fails: bool,
}

/// A connection.
pub(crate) struct Session {
    pub(crate) random: Random,
    pub(crate) acts: Vec<Act>,
    pub(crate) counts: Counts,
    /// What the server may send at any time between two messages.
    pub(crate) unasked: Vec<Vec<u8>>,
    after: Nanos,
}

impl Session {
    pub(crate) fn new(random: Random) -> Session {
        Session {
            random,
            acts: Vec::new(),
            counts: Counts { connections: 1, ..Counts::default() },
            unasked: Vec::new(),
            after: 0,
        }
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    pub(crate) fn chance(&mut self, one_of: u64) -> bool {
        self.below(one_of) == 0
    }

    /// The program rests, so that a new unit begins.
    pub(crate) fn rest(&mut self) {
        self.after = 200_000_000 + self.below(200_000_000);
        self.counts.units += 1;
    }

    pub(crate) fn say(&mut self, from: Side, bytes: &[u8]) {
        let after = std::mem::take(&mut self.after).max(20_000 + self.below(300_000));
        // Only what the client says begins after a rest.
        self.acts.push(Act { after, from, bytes: bytes.to_vec() });
    }

    fn answer(&mut self, bytes: &[u8]) {
        let mut all = Vec::new();
        if !self.unasked.is_empty() && self.chance(6) {
            let which = self.below(self.unasked.len() as u64) as usize;
            all.extend(&self.unasked[which]);
        }
        all.extend(bytes);
        self.say(Side::Server, &all);
    }

    /// A request that is awaited.
    pub(crate) fn step(&mut self, up: &[u8], down: &[u8]) {
        let down = down.to_vec();
        let request = Request { up: up.to_vec(), down, begins: true, ..Request::default() };
        self.fly(&[Request { flushes: true, ..request }]);
    }

    /// Requests that are sent without waiting, but for what the scheduler does: any answers that
    /// may have come may come before the next request.
    pub(crate) fn fly(&mut self, all: &[Request]) {
        let mut flight = Flight { answered: vec![false; all.len()], ..Flight::default() };
        while flight.sent < all.len() || flight.next(all).is_some() {
            let may_answer = flight.next(all).is_some();
            if flight.sent < all.len() && (!may_answer || !self.chance(3)) {
                self.send(all, &mut flight);
            } else {
                self.deliver(all, &mut flight);
            }
        }
    }

    fn send(&mut self, all: &[Request], flight: &mut Flight) {
        let (at, request) = (flight.sent, &all[flight.sent]);
        let is_skipped = flight.is_skipping && !request.syncs;
        let is_silent = is_skipped || (request.down.is_empty() && !request.fails);
        if flight.in_flight == 0 && !is_silent {
            self.counts.trips += 1;
        }
        flight.in_flight += u64::from(!is_silent);
        // An answer to what was sent before may come while this is not whole. An error waits, since
        // what it skips would depend on the place.
        let is_error = flight.next(all).is_some_and(|next| all[next].fails);
        if request.up.len() > 1 && !is_silent && !is_error && self.chance(6) {
            let cut = 1 + self.below(request.up.len() as u64 - 1) as usize;
            self.say(Side::Client, &request.up[..cut]);
            if flight.next(all).is_some() {
                self.deliver(all, flight);
            }
            self.say(Side::Client, &request.up[cut..]);
        } else {
            self.say(Side::Client, &request.up);
        }
        flight.sent += 1;
        flight.answered[at] = is_silent;
        if !is_skipped && request.begins {
            self.counts.exchanges += 1;
            flight.last = Some(at);
        }
        if request.syncs {
            flight.is_skipping = false;
            let is_open = flight.last.is_some_and(|last| !flight.answered[last]);
            self.counts.exchanges += u64::from(!is_open);
            flight.last = Some(at);
        }
        if !is_skipped && (request.flushes || request.syncs || request.fails) {
            flight.flushed = at + 1;
        }
    }

    fn deliver(&mut self, all: &[Request], flight: &mut Flight) {
        let Some(at) = flight.next(all) else { return };
        self.answer(&all[at].down);
        flight.answered[at] = true;
        flight.in_flight -= 1;
        if all[at].fails {
            let mut more = at + 1;
            while more < flight.sent && !all[more].syncs {
                flight.in_flight -= u64::from(!flight.answered[more]);
                flight.answered[more] = true;
                more += 1;
            }
            flight.is_skipping = more == flight.sent;
        }
    }
}

#[derive(Default)]
struct Flight {
    sent: usize,
    flushed: usize,
    answered: Vec<bool>,
    in_flight: u64,
    is_skipping: bool,
    /// The request that ends the last exchange.
    last: Option<usize>,
}

impl Flight {
    /// The next request that is answered, if its answer may come now.
    fn next(&self, _: &[Request]) -> Option<usize> {
        (0..self.flushed).find(|at| !self.answered[*at])
    }
}
