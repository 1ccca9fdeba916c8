//! Streams of TCP, put together from segments that may be lost, repeated or out of order.

mod flow;

use std::collections::HashMap;

use crate::Profiler;
use crate::piece::{Legs, Nanos, Piece, Side};
use flow::Flow;

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Address {
    /// An address of version 4 stands in the first four bytes.
    pub(super) host: [u8; 16],
    pub(super) port: u16,
}

/// A packet, as far as it concerns streams.
pub(super) struct Segment<'a> {
    pub(super) at: Nanos,
    pub(super) from: Address,
    pub(super) to: Address,
    pub(super) sequence: u32,
    pub(super) acknowledged: Option<u32>,
    pub(super) syn: bool,
    pub(super) fin: bool,
    pub(super) rst: bool,
    pub(super) payload: &'a [u8],
}

#[derive(Debug)]
struct Stream {
    number: u64,
    client: Address,
    /// Of client and server.
    flows: [Flow; 2],
    /// It has ended; segments that come late belong to it all the same.
    is_over: bool,
}

/// All streams of a capture.
pub(super) struct Streams {
    open: HashMap<(Address, Address), Stream>,
    ports: Vec<u16>,
    pub(super) numbers: u64,
    pub(super) holes: u64,
    /// Segments of connections beyond those that are followed.
    pub(super) ignored: u64,
    /// Bytes that came too early, of all streams.
    early: usize,
}

/// Connections that are followed at once.
const OPEN_MAX: usize = 100_000;

/// Bytes that are kept until those before them come: of a direction, and of all.
const EARLY_MAX: usize = 1 << 20;
const EARLY_ALL_MAX: usize = 24 << 20;

impl Streams {
    pub(super) fn new(ports: &[u16]) -> Streams {
        Streams {
            open: HashMap::new(),
            ports: ports.to_vec(),
            numbers: 0,
            holes: 0,
            ignored: 0,
            early: 0,
        }
    }

    pub(super) fn segment(&mut self, it: &Segment<'_>, profiler: &mut Profiler) {
        let key = if it.from < it.to { (it.from, it.to) } else { (it.to, it.from) };
        let begins = it.syn && it.acknowledged.is_none();
        let is_known = self.open.get(&key).is_some_and(|old| !begins || old.is_begun_by(it));
        if !is_known && !self.begin(key, it, profiler) {
            return;
        }
        let Some(stream) = self.open.get_mut(&key) else { return };
        if stream.is_over {
            return;
        }
        let before = stream.early();
        let allowed = EARLY_ALL_MAX.saturating_sub(self.early) + before;
        self.holes += stream.take(it, allowed.min(EARLY_MAX), profiler);
        if stream.is_over {
            stream.flows = Default::default();
            profiler.closed(stream.number);
        }
        self.early = self.early + stream.early() - before;
    }

    /// A new stream. False if it is not followed.
    fn begin(
        &mut self,
        key: (Address, Address),
        it: &Segment<'_>,
        profiler: &mut Profiler,
    ) -> bool {
        if it.payload.is_empty() && !it.syn {
            return false;
        }
        if let Some(old) = self.open.remove(&key) {
            // The ports are used again.
            self.early -= old.early();
            if !old.is_over {
                profiler.closed(old.number);
            }
        }
        if self.open.len() >= OPEN_MAX {
            self.open.retain(|_, it| !it.is_over);
        }
        if self.open.len() >= OPEN_MAX {
            self.ignored += 1;
            return false;
        }
        self.numbers += 1;
        if !it.syn {
            profiler.midway(self.numbers);
        }
        let stream = Stream {
            number: self.numbers,
            client: self.client_of(it),
            flows: Default::default(),
            is_over: false,
        };
        self.open.insert(key, stream);
        true
    }

    /// Who is the client: who begins, or whose port is not that of a server.
    fn client_of(&self, it: &Segment<'_>) -> Address {
        let is_server = |address: Address| self.ports.contains(&address.port);
        match (it.syn, it.acknowledged) {
            (true, None) => it.from,
            (true, Some(_)) => it.to,
            _ if is_server(it.to) => it.from,
            _ if is_server(it.from) => it.to,
            // Servers have the lower ports.
            _ if it.from.port > it.to.port => it.from,
            _ => it.to,
        }
    }
}

impl Stream {
    /// Whether this SYN is the one that it began with, sent again.
    fn is_begun_by(&self, syn: &Segment<'_>) -> bool {
        self.client == syn.from && self.flows[0].begins_at(syn.sequence)
    }

    fn early(&self) -> usize {
        self.flows[0].early_bytes + self.flows[1].early_bytes
    }

    /// Takes a segment, and returns how many holes were found.
    fn take(&mut self, it: &Segment<'_>, early_max: usize, profiler: &mut Profiler) -> u64 {
        let from = if it.from == self.client { Side::Client } else { Side::Server };
        let (own, other) = if from == Side::Client { (0, 1) } else { (1, 0) };
        if let Some(leg) = it.acknowledged.and_then(|number| self.flows[other].leg(it.at, number)) {
            let legs = match from {
                Side::Client => Legs { client: Some(leg), server: None },
                Side::Server => Legs { client: None, server: Some(leg) },
            };
            profiler.rtt(self.number, legs);
        }
        self.flows[own].time(it);
        self.is_over = it.rst;
        if it.syn {
            self.flows[own].begin(it.sequence);
            return 0;
        }
        let mut holes = 0;
        // What the other side has confirmed and was not captured will not come any more.
        if let Some(acknowledged) = it.acknowledged
            && self.flows[other].lacks(acknowledged)
        {
            holes += 1;
            self.flows[other].skip_to(acknowledged);
            profiler.missing(self.number);
        }
        let number = self.number;
        let give = |bytes: &[u8]| {
            profiler.piece(Piece { at: it.at, connection: number, from, bytes });
        };
        if !self.flows[own].add(it, early_max, give) {
            holes += 1;
            self.flows[own].skip_early();
            profiler.missing(self.number);
        }
        self.is_over |= self.flows.iter().all(Flow::is_over);
        holes
    }
}
