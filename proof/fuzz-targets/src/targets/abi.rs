//! A host that drives the ABI, and a peer. The input chooses what both do.
//!
//! For both protocols these must hold: an accepted request ends once, and no event for it comes
//! before it begins or after it ends; a connection ends once and accepts nothing afterwards; and
//! when a connection ends, all its requests end.

use std::collections::BTreeSet;

use onetrip_abi::completion::{end, kind, outcome};
use onetrip_abi::export::refused;
use onetrip_abi::fuzzing::{Asked, Host};

use crate::input::Input;

/// The most steps of an input: more show nothing new.
const STEPS_MAX: usize = 300;

/// The parts that differ between the protocols.
pub(super) struct Speech {
    /// Whole messages of an honest peer.
    pub(super) says: &'static [&'static [u8]],
    /// Makes the bytes of a request and its arguments.
    pub(super) ask: fn(&mut Input<'_>, &mut Asked) -> Vec<u8>,
    pub(super) submit: fn(&mut Host, f64, Asked, &[u8]) -> f64,
    /// The other steps of a host.
    pub(super) other: fn(&mut Test<'_>, &mut Input<'_>),
}

/// A host, and what it knows of its requests.
pub(super) struct Test<'a> {
    pub(super) host: Host,
    speech: &'a Speech,
    pub(super) now: f64,
    /// The tokens of requests that were accepted and have not ended.
    live: BTreeSet<u32>,
    closed: bool,
    wrote: bool,
}

impl Test<'_> {
    pub(super) fn new(host: Host, speech: &Speech) -> Test<'_> {
        Test { host, speech, now: 0.0, live: BTreeSet::new(), closed: false, wrote: false }
    }

    /// Does the steps of the input, and closes the connection.
    pub(super) fn run(mut self, input: &mut Input<'_>) {
        for _ in 0..STEPS_MAX {
            if input.is_empty() {
                break;
            }
            self.step(input);
            self.take();
        }
        self.host.peer_closed();
        self.take();
        assert!(self.closed, "its end was not told");
        assert!(self.live.is_empty(), "{:?} have not ended", self.live);
        assert_eq!(self.host.pending(), (0, 0));
        assert_eq!(self.host.deadline(), f64::INFINITY);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 16 {
            0..=4 => self.submit(input),
            5 | 6 => self.write(input.u8().into()),
            7 => self.write(usize::MAX),
            8 | 9 => self.receive(input.pick(self.speech.says), input),
            10 => {
                let bytes = input.piece();
                self.receive(bytes, input);
            }
            11 => self.cancel(input.u8()),
            12 => {
                self.now += f64::from(input.u16());
                self.host.time(self.now);
            }
            13 if input.below(16) == 0 => self.host.terminate(self.now),
            14 if input.below(32) == 0 => self.host.peer_closed(),
            _ => (self.speech.other)(self, input),
        }
    }

    fn submit(&mut self, input: &mut Input<'_>) {
        let number = input.u8();
        let mut asked = Asked {
            token: match number {
                // A token of no request, and one that is too large.
                254 => 0,
                255 => (1 << 20) + 1,
                _ => u32::from(number % 32) + 1,
            },
            flags: 0,
            replies: 0,
            lens: (0, 0),
            timeout: if number & 64 == 0 { 0.0 } else { f64::from(number) },
        };
        let bytes = (self.speech.ask)(input, &mut asked);
        let place = (self.speech.submit)(&mut self.host, self.now, asked, &bytes);
        self.began(asked.token, place);
    }

    /// Records whether the request under this token was accepted or refused.
    pub(super) fn began(&mut self, token: u32, place: f64) {
        if place < 0.0 {
            return assert!((refused::NAME_TAKEN..=refused::CLOSED).contains(&place), "{place}");
        }
        assert!(!self.closed, "{token} was taken by a connection that has ended");
        assert!(self.live.insert(token), "{token} is two requests");
    }

    fn write(&mut self, len: usize) {
        let unsent = self.host.transmit().len();
        self.wrote |= unsent > 0 && len > 0;
        self.host.written(self.now, len.min(unsent));
    }

    /// Claims that more bytes were written than there were.
    pub(super) fn write_too_much(&mut self) {
        self.wrote |= !self.host.transmit().is_empty();
        self.host.written(self.now, usize::MAX);
    }

    fn receive(&mut self, bytes: &[u8], input: &mut Input<'_>) {
        let more = input.below(4) * 16;
        self.host.receive(self.now, bytes, more);
    }

    /// Cancels the request at a place, which may be one that was never given out. If there is a
    /// request there, it ends.
    fn cancel(&mut self, number: u8) {
        let before = self.live.len();
        let done = self.host.cancel(self.now, number.into());
        self.take();
        assert!(!done || self.live.len() < before, "no request was at {number}");
    }

    /// Takes the records and checks them.
    fn take(&mut self) {
        for record in self.host.take() {
            let is_live = self.live.contains(&record.token);
            match record.kind {
                kind::DATA | kind::PIECE | kind::RESTARTED | kind::NOT_CANCELLED => {
                    assert!(is_live, "{record:?} is nobody's");
                }
                kind::END => {
                    assert!(self.live.remove(&record.token), "{record:?} is nobody's");
                    let (how, known) = (record.b & 0xff, record.b >> 8);
                    assert_eq!(how <= end::PROVISIONAL, known == outcome::NONE, "{record:?}");
                    // A request whose deadline passes in the queue may have been sent by then.
                    let sent = how == end::CLOSED && known != outcome::NOT_SENT;
                    assert!(self.wrote || !sent, "nothing was written: {record:?}");
                }
                kind::CLOSED => {
                    assert!(!self.closed, "it ended twice: {record:?}");
                    self.closed = true;
                }
                _ => assert_eq!(record.token, 0, "{record:?}"),
            }
        }
        if self.closed {
            assert!(self.live.is_empty(), "{:?} outlive their connection", self.live);
        }
    }
}
