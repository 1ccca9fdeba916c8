//! A toy protocol, a server that speaks it, and a client and server that are connected in memory.
//!
//! Every message is `tag, length (u16, of the whole message), id (u32), rest`. The rest of a
//! request is its flags and its script, which tells the server what to do with it:
//!
//! | script | the server |
//! |---|---|
//! | `o` | answers with a Complete; `p` before it: a Part each |
//! | `e`, `u` | fails it, rejected or unknown |
//! | `n` | says that it never started, until it comes with a heal message |
//! | `E` | completes it and fails its sync point |
//!
//! Like PostgreSQL, the server keeps its replies back until a sync point or a Flush.
#![allow(unreachable_pub)]

pub mod pair;
pub mod server;

use bytes::{BufMut, BytesMut};
use onetrip_engine::{Outcome, Protocol, Step, SyncPoint, Violation};

pub const HEADER: usize = 7;
/// The sync point of a request that shares it.
pub const SYNC: &[u8] = b"S\0\x07\0\0\0\0";
pub const FLAG_SYNC: u8 = 1;
pub const FLAG_ONLY: u8 = 2;

/// A message of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub tag: u8,
    pub id: u32,
    pub rest: &'a [u8],
    pub len: usize,
}

/// The message at the start of the bytes, or how many bytes it needs.
pub fn parse(input: &[u8]) -> Result<Message<'_>, usize> {
    if input.len() < HEADER {
        return Err(HEADER);
    }
    let len = usize::from(u16::from_be_bytes([input[1], input[2]]));
    if input.len() < len {
        return Err(len);
    }
    let id = u32::from_be_bytes([input[3], input[4], input[5], input[6]]);
    Ok(Message { tag: input[0], id, rest: &input[HEADER..len], len })
}

pub fn put(out: &mut BytesMut, tag: u8, id: u32, rest: &[u8]) {
    out.put_u8(tag);
    out.put_u16((HEADER + rest.len()) as u16);
    out.put_u32(id);
    out.put_slice(rest);
}

pub fn message(tag: u8, id: u32, rest: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    put(&mut out, tag, id, rest);
    out.to_vec()
}

/// The bytes of a request.
pub fn put_request(out: &mut BytesMut, id: u32, sync: SyncPoint, script: &[u8]) {
    let flags = match sync {
        SyncPoint::Member => 0,
        SyncPoint::Own => FLAG_SYNC,
        SyncPoint::Only => FLAG_SYNC | FLAG_ONLY,
    };
    out.put_u8(b'Q');
    out.put_u16((HEADER + 1 + script.len()) as u16);
    out.put_u32(id);
    out.put_u8(flags);
    out.put_slice(script);
}

/// The bytes of a request whose sync point is its own message, which can be removed.
pub fn put_joining(out: &mut BytesMut, id: u32, script: &[u8]) {
    put_request(out, id, SyncPoint::Member, script);
    out.put_slice(SYNC);
}

pub fn part(id: u32) -> Vec<u8> {
    message(b'p', id, b"part")
}

pub fn complete(id: u32) -> Vec<u8> {
    message(b'c', id, b"")
}

pub fn settled(id: u32) -> Vec<u8> {
    message(b's', id, b"")
}

pub fn failed(id: u32, outcome: Outcome, never_started: bool) -> Vec<u8> {
    message(b'e', id, &[u8::from(outcome == Outcome::Unknown), u8::from(never_started)])
}

pub fn cancelled(id: u32) -> Vec<u8> {
    message(b'e', id, &[0, 0, 1])
}

pub fn notice(id: u32) -> Vec<u8> {
    message(b'n', id, b"")
}

pub fn fatal() -> Vec<u8> {
    message(b'f', 0, b"bye")
}

/// The id of the requests that fail in place of what was given up.
pub const FAILING: u32 = 0xffff;

/// The toy protocol.
#[derive(Default)]
pub struct Toy {
    /// How many requests were sent again.
    pub heals: usize,
    /// What goes in front of the next request on the wire, at this moment only.
    pub front: &'static [u8],
    /// A request that was undone must have something in front of it, once.
    pub renews: bool,
    /// The id of a request of the protocol's own, which goes behind the next flight.
    pub behind: Option<u32>,
}

/// What the toy protocol knows of a request.
#[derive(Debug, Clone, Copy)]
pub struct Expect {
    pub id: u32,
    /// Only the answer to its sync point is outstanding.
    done: bool,
    skipped: bool,
    renewed: bool,
}

impl Expect {
    pub fn new(id: u32, sync: SyncPoint) -> Expect {
        Expect { id, done: sync == SyncPoint::Only, skipped: false, renewed: false }
    }
}

impl Protocol for Toy {
    type Expect = Expect;
    type Event = u32;
    const SYNC: &'static [u8] = SYNC;
    const FLUSH: &'static [u8] = b"F\0\x07\0\0\0\0";
    const TERMINATE: &'static [u8] = b"X\0\x07\0\0\0\0";

    fn step(&mut self, input: &[u8], head: Option<&mut Expect>) -> Result<Step<u32>, Violation> {
        let message = match parse(input) {
            Ok(message) => message,
            Err(need) => return Ok(Step::Need(need)),
        };
        let len = message.len;
        match message.tag {
            b'n' => return Ok(Step::Event(len, message.id)),
            b'f' => return Ok(Step::Fatal(len)),
            _ => {}
        }
        let Some(head) = head else { return Err(Violation("a reply that answers nothing")) };
        if message.id != head.id {
            return Err(Violation("another request's reply"));
        }
        match message.tag {
            b's' if head.done || head.skipped => Ok(Step::Settled(len)),
            b's' => Err(Violation("a sync point answered before its request")),
            _ if head.skipped => Err(Violation("a reply to a request that was skipped")),
            b'p' => Ok(Step::Part(len)),
            b'c' => {
                head.done = true;
                Ok(Step::Complete(len))
            }
            b'e' => {
                head.done = true;
                let outcome = match message.rest[0] {
                    0 => Outcome::Rejected,
                    _ => Outcome::Unknown,
                };
                let (never_started, cancelled) = (message.rest[1] != 0, message.rest.len() > 2);
                Ok(Step::Failed { len, outcome, never_started, cancelled })
            }
            _ => Err(Violation("an unknown message")),
        }
    }

    fn skip(&mut self, expect: &mut Expect) {
        expect.skipped = true;
    }

    fn heal(&mut self, expect: &mut Expect, out: &mut BytesMut) {
        self.heals += 1;
        expect.done = false;
        put(out, b'H', expect.id, b"");
    }

    fn heal_len(&self, _: &Expect) -> usize {
        HEADER
    }

    fn restart(&mut self, expect: &mut Expect) {
        (expect.done, expect.skipped) = (false, false);
    }

    fn renew(&mut self, expect: &mut Expect, out: &mut BytesMut) {
        if self.renews && !std::mem::replace(&mut expect.renewed, true) {
            put(out, b'R', expect.id, b"");
        }
    }

    fn begin(&mut self, _: &mut Expect, _: bool, out: &mut BytesMut) {
        out.put_slice(std::mem::take(&mut self.front));
    }

    fn begin_len(&self) -> usize {
        HEADER
    }

    fn write_failing(&self, out: &mut BytesMut) -> Option<Expect> {
        put_request(out, FAILING, SyncPoint::Member, b"e");
        Some(Expect::new(FAILING, SyncPoint::Member))
    }

    fn owes_behind(&self, _: bool) -> bool {
        self.behind.is_some()
    }

    fn write_behind(&mut self, out: &mut BytesMut) -> Option<Expect> {
        let id = self.behind.take()?;
        put_request(out, id, SyncPoint::Own, b"o");
        Some(Expect::new(id, SyncPoint::Own))
    }
}
