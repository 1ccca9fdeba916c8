//! A host behind the ABI that does what the input says, and a peer that says what the input says.
//!
//! What has to hold for both protocols: a request that was taken ends once and nothing comes for it before it began
//! or after its end; a connection ends once and takes nothing afterwards; and when it ends, all end.

use std::collections::BTreeSet;

use onetrip_abi::completion::{end, kind, outcome};
use onetrip_abi::export::refused;
use onetrip_abi::fuzzing::{Asked, Host};

use crate::input::Input;

/// More steps than this show nothing new.
const STEPS_MAX: usize = 300;

/// What a protocol has of its own.
pub(super) struct Speech {
    /// Whole messages of a peer that is honest.
    pub(super) says: &'static [&'static [u8]],
    /// Bytes of a request, with the arguments beside it.
    pub(super) ask: fn(&mut Input<'_>, &mut Asked) -> Vec<u8>,
    pub(super) submit: fn(&mut Host, f64, Asked, &[u8]) -> f64,
    /// What else a host can do.
    pub(super) other: fn(&mut Test<'_>, &mut Input<'_>),
}

/// A host, and what it knows of its requests.
pub(super) struct Test<'a> {
    pub(super) host: Host,
    speech: &'a Speech,
    pub(super) now: f64,
    /// The tokens of requests that were taken and have not ended.
    live: BTreeSet<u32>,
    closed: bool,
    wrote: bool,
}

impl Test<'_> {
    pub(super) fn new(host: Host, speech: &Speech) -> Test<'_> {
        Test { host, speech, now: 0.0, live: BTreeSet::new(), closed: false, wrote: false }
    }

    /// Does what the input says, and ends.
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
                // Nobody's, and too large a one.
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

    /// What was asked under this token was taken, or refused.
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

    /// Says that more was written than there is.
    pub(super) fn write_too_much(&mut self) {
        self.wrote |= !self.host.transmit().is_empty();
        self.host.written(self.now, usize::MAX);
    }

    fn receive(&mut self, bytes: &[u8], input: &mut Input<'_>) {
        let more = input.below(4) * 16;
        self.host.receive(self.now, bytes, more);
    }

    /// Takes back what is at a place, whether or not that was ever said: whoever it is ends by it.
    fn cancel(&mut self, number: u8) {
        let before = self.live.len();
        let done = self.host.cancel(self.now, number.into());
        self.take();
        assert!(!done || self.live.len() < before, "nobody was at {number}");
    }

    /// Takes note of what happened.
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
                    // One whose time is over while it lies here may be sent yet.
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
