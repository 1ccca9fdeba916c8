//! A connection and a model server, connected in memory, with a clock that the test moves.

use std::collections::HashMap;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{
    Cause, CloseReason, Connection, End, Failure, Group, Limits, Outcome, Output, Request,
    SubmitError, SyncPoint, Ticket, Time, Token,
};

use super::server::Server;
use super::{Expect, Toy, put_joining, put_request};

/// An output in a form that doesn't depend on how the bytes arrived: all parts of a reply are
/// joined with its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    Ended(u64, End),
    Event(u32),
    Granted(u64),
    Room(u64),
    Full,
    Drained,
    Restarted(u64),
    Cancel,
    NotCancelled(u64),
    Astray,
    Closed(CloseReason),
}

pub const fn failure(outcome: Outcome, cause: Cause) -> End {
    End::Failed(Failure { outcome, cause })
}

pub fn limits(in_flight_max: usize) -> Limits {
    Limits { in_flight_max, ..Limits::default() }
}

pub fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub struct Pair {
    pub client: Connection<Toy>,
    pub server: Server,
    pub now: Time,
    /// How many bytes of a reply arrive at once.
    pub chunk: usize,
    /// The whole reply of each request that ended.
    pub replies: HashMap<u64, Vec<u8>>,
    /// Bytes of blocks that the test still holds, by token.
    pub delivered: HashMap<u64, usize>,
    /// Requests that ended together with those of the same sync point.
    pub together: usize,
    input: BytesMut,
}

impl Pair {
    pub fn new(limits: Limits) -> Pair {
        Pair {
            client: Connection::new(Time::ZERO, Toy::default(), limits),
            server: Server::default(),
            now: Time::ZERO,
            chunk: usize::MAX,
            replies: HashMap::new(),
            delivered: HashMap::new(),
            together: 0,
            input: BytesMut::new(),
        }
    }

    pub fn later(&mut self, wait: Duration) {
        self.now = self.now.after(wait);
        self.client.handle_time(self.now);
    }

    // --- submitting: the token is the id ---

    pub fn request(&self, id: u32, sync: SyncPoint) -> Request<Expect> {
        let expect = Expect::new(id, sync);
        Request { sync, ..Request::isolated(Token(u64::from(id)), expect) }
    }

    pub fn submit(
        &mut self,
        request: Request<Expect>,
        script: &str,
    ) -> Result<Ticket, SubmitError<&'static str>> {
        let (id, sync) = (request.expect.id, request.sync);
        self.client.submit(self.now, request, |out| {
            put_request(out, id, sync, script.as_bytes());
            Ok(())
        })
    }

    pub fn own(&mut self, id: u32, script: &str) -> Ticket {
        self.submit(self.request(id, SyncPoint::Own), script).unwrap()
    }

    pub fn owns(&mut self, ids: std::ops::Range<u32>) -> Vec<Ticket> {
        ids.map(|id| self.own(id, "o")).collect()
    }

    /// Submits a request that shares its sync point.
    pub fn join(&mut self, id: u32, script: &str) -> Ticket {
        let request = Request { joins: true, ..self.request(id, SyncPoint::Own) };
        self.submit_joining(request, script)
    }

    pub fn joins(&mut self, ids: std::ops::Range<u32>) {
        for id in ids {
            self.join(id, "o");
        }
    }

    pub fn submit_joining(&mut self, request: Request<Expect>, script: &str) -> Ticket {
        let id = request.expect.id;
        let encoded = self.client.submit(self.now, request, |out| {
            put_joining(out, id, script.as_bytes());
            Ok::<(), ()>(())
        });
        encoded.unwrap()
    }

    pub fn member(&mut self, id: u32, script: &str) -> Ticket {
        self.submit(self.request(id, SyncPoint::Member), script).unwrap()
    }

    pub fn only(&mut self, id: u32) -> Ticket {
        self.submit(self.request(id, SyncPoint::Only), "").unwrap()
    }

    pub fn until(&mut self, id: u32, deadline: Time) -> Ticket {
        let request = Request { deadline, ..self.request(id, SyncPoint::Own) };
        self.submit(request, "o").unwrap()
    }

    pub fn again(&mut self, id: u32, script: &str) -> Ticket {
        let request = Request { again: true, ..self.request(id, SyncPoint::Own) };
        self.submit(request, script).unwrap()
    }

    /// Submits a request that may be sent again if a cancel hits it by mistake.
    pub fn resend(&mut self, id: u32, script: &str) -> Ticket {
        let request = Request { resend: true, ..self.request(id, SyncPoint::Own) };
        self.submit(request, script).unwrap()
    }

    pub fn refused(&mut self, id: u32) -> SubmitError<&'static str> {
        self.submit(self.request(id, SyncPoint::Own), "o").unwrap_err()
    }

    pub fn in_group(&mut self, group: Group, id: u32, sync: SyncPoint, script: &str) {
        let request = Request { group: Some(group), ..self.request(id, sync) };
        self.submit(request, script).unwrap();
    }

    /// Opens a group that gets the right to send at once.
    pub fn group(&mut self, token: u64) -> Group {
        let group = self.client.open_group(self.now, Token(token)).unwrap();
        assert_eq!(self.take(), [Out::Granted(token)]);
        group
    }

    // --- moving bytes ---

    /// Hands all bytes to send to the server.
    pub fn write(&mut self) {
        self.write_some(usize::MAX);
    }

    pub fn write_some(&mut self, max: usize) {
        let len = self.client.transmit().len().min(max);
        self.server.feed(&self.client.transmit()[..len]);
        self.client.handle_written(self.now, len);
    }

    /// Reports all bytes as written, without a server.
    pub fn lose(&mut self) {
        let len = self.client.transmit().len();
        self.client.handle_written(self.now, len);
    }

    /// Hands these bytes to the client, `chunk` at a time.
    pub fn reply(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(self.chunk.min(bytes.len()).max(1)) {
            self.input.extend_from_slice(chunk);
            let need = self.client.handle_bytes(self.now, &mut self.input);
            assert!(need > self.input.len(), "it could have gone on");
        }
    }

    /// Hands the server's replies to the client.
    pub fn read(&mut self) {
        let bytes = std::mem::take(&mut self.server.output);
        self.reply(&bytes);
    }

    /// Moves bytes in both directions until none are left, and returns what happened.
    pub fn run(&mut self) -> Vec<Out> {
        while !self.client.transmit().is_empty() || !self.server.output.is_empty() {
            self.write();
            self.read();
        }
        self.take()
    }

    /// The outputs so far.
    pub fn take(&mut self) -> Vec<Out> {
        let mut outs = Vec::new();
        while let Some(output) = self.client.poll_output() {
            outs.extend(self.note(output));
        }
        outs
    }

    fn note(&mut self, output: Output<u32>) -> Option<Out> {
        Some(match output {
            Output::Data { token, block } | Output::Piece { token, block, .. } => {
                assert!(!block.is_empty());
                *self.delivered.entry(token.0).or_default() += block.len();
                self.replies.entry(token.0).or_default().extend_from_slice(&block);
                return None;
            }
            Output::Ended { token, block, end, together } => {
                self.together += usize::from(together);
                *self.delivered.entry(token.0).or_default() += block.len();
                self.replies.entry(token.0).or_default().extend_from_slice(&block);
                Out::Ended(token.0, end)
            }
            Output::Event { event, .. } => Out::Event(event),
            Output::Granted { token } => Out::Granted(token.0),
            Output::Room { token } => Out::Room(token.0),
            Output::Full => Out::Full,
            Output::Drained => Out::Drained,
            Output::Restarted { token } => {
                self.replies.remove(&token.0);
                Out::Restarted(token.0)
            }
            Output::Cancel => Out::Cancel,
            Output::NotCancelled { token } => Out::NotCancelled(token.0),
            Output::Leaving => unreachable!("the toy's server stays what it is"),
            Output::Astray => Out::Astray,
            Output::Closed(reason) => Out::Closed(reason),
        })
    }
}

/// The tokens that ended as complete. No other output is allowed.
pub fn completed(outs: &[Out]) -> Vec<u64> {
    let ended = outs.iter().map(|out| match out {
        Out::Ended(token, End::Complete) => *token,
        other => panic!("unexpected {other:?}"),
    });
    ended.collect()
}

/// Without `Full` and `Drained`.
pub fn ends(outs: Vec<Out>) -> Vec<Out> {
    outs.into_iter().filter(|out| !matches!(out, Out::Full | Out::Drained)).collect()
}
