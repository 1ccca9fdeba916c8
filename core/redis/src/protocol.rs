//! Which request a reply belongs to: the engine's `Protocol` for RESP2 and RESP3.
//!
//! Redis answers each command with one reply, in order. There are three exceptions, which are all
//! handled here. A push belongs to no command. The confirmations of SUBSCRIBE and similar commands
//! are pushes, one for each channel, and no reply comes. On a subscribed RESP2 connection pushes
//! look like arrays.
//!
//! Commands that switch replies off (`CLIENT REPLY`, `MONITOR`) can't be handled here. They are
//! refused before they are sent.

use bytes::BytesMut;
use onetrip_engine::{Outcome, Protocol, Step, Violation};
use std::sync::Arc;

use crate::refusal;
use crate::scan::{Scan, ScanLimits, Scanner};

/// The protocol's state of one connection.
#[derive(Debug)]
pub struct Redis {
    scanner: Scanner,
    /// Whether the head has failed, so that its place in the order must be given up.
    failed: bool,
    /// Whether arrays of certain kinds are pushes, as on RESP2.
    arrays_push: bool,
    /// Whether every reply is handed on as a whole.
    whole_only: bool,
}

/// What the protocol remembers of a request to recognise its replies.
#[derive(Debug)]
pub struct Expect {
    /// How many replies, or confirmations, are still to come.
    left: u32,
    kind: Kind,
    /// The command whose confirmations are expected, if that was given.
    word: Option<&'static [u8]>,
    /// Whether it may have left something behind despite an error.
    leaves: bool,
    /// Whether the answer to its repair (`SCRIPT LOAD`) comes first.
    healing: bool,
    /// The text of the script that it calls by its hash, if any.
    script: Option<Arc<[u8]>>,
    multi: Multi,
    /// Whether its error ends the connection.
    resets: bool,
}

/// Whether the requests so far are between MULTI and EXEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Multi {
    Outside,
    /// MULTI was sent. This many replies follow its own.
    Begins {
        left: u32,
    },
    /// The server accepted MULTI; the last reply is that to EXEC.
    Within,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One command. An error in place of its reply is an error of the request.
    Command,
    /// Several commands. Errors are replies like others.
    Commands,
    /// Confirmations, which come as pushes.
    Confirmations,
}

/// Something that belongs to no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A push: a published message, an invalidation.
    Push,
    /// The answer to a `SCRIPT LOAD` that was sent to repair the request behind it, successful or
    /// not.
    ScriptLoaded,
}

const UNASKED: Violation = Violation("the server answered a request that was not sent");

/// Parts of a reply are handed on when they have at least this many bytes. Bytes that are kept here
/// are scanned again at each read.
const PART_MIN: usize = 16 << 10;

impl Expect {
    /// The reply to one command. An error in its place ends the request as [`Outcome::Rejected`],
    /// since Redis refuses a command before it begins.
    #[must_use]
    pub fn reply() -> Expect {
        Expect {
            left: 1,
            kind: Kind::Command,
            word: None,
            leaves: false,
            healing: false,
            script: None,
            multi: Multi::Outside,
            resets: false,
        }
    }

    /// The replies to this many commands, at least one, which share a slot of the engine. Errors
    /// among them are replies like others.
    #[must_use]
    pub fn replies(count: u32) -> Expect {
        Expect { left: count.max(1), kind: Kind::Commands, ..Expect::reply() }
    }

    /// The replies to MULTI, this many commands, and EXEC. If the server accepts MULTI and then
    /// refuses EXEC so that the connection stays between the two, later commands would be queued
    /// for ever. That ends the connection.
    #[must_use]
    pub fn atomic(commands: u32) -> Expect {
        let multi = Multi::Begins { left: commands.saturating_add(1) };
        Expect { multi, ..Expect::replies(commands.saturating_add(2)) }
    }

    /// The same behind ASKING, which has a reply of its own.
    #[must_use]
    pub fn behind_asking(self) -> Expect {
        Expect { left: self.left.saturating_add(1), kind: Kind::Commands, ..self }
    }

    /// Marks a command that ends the session of one user before the next. If it is refused, the
    /// connection must not be used any more.
    #[must_use]
    pub fn resetting(self) -> Expect {
        Expect { resets: true, ..self }
    }

    /// The confirmations of a command that subscribes to this many channels, or unsubscribes from
    /// them.
    #[must_use]
    pub fn confirmations(channels: u32) -> Expect {
        Expect { left: channels.max(1), kind: Kind::Confirmations, ..Expect::reply() }
    }

    /// Names the command whose confirmations are expected, in any case of letters. Other
    /// confirmations in between are then pushes. For example, the server ends a subscription by
    /// itself when its hash slot moves. That looks like a confirmation of SUNSUBSCRIBE, and counts
    /// as one if one is due.
    #[must_use]
    pub fn of(self, command: &[u8]) -> Expect {
        let word = CONFIRMATIONS.into_iter().find(|word| word.eq_ignore_ascii_case(command));
        Expect { word, ..self }
    }

    /// Marks a command whose effects before an error stand: it runs a script, or is not in the
    /// table. Its error means [`Outcome::Unknown`], unless the error says that it did not begin.
    #[must_use]
    pub fn leaving(self) -> Expect {
        Expect { leaves: true, ..self }
    }

    /// Marks a call of a script by its hash. If the server does not know the script, the call is
    /// sent again with a `SCRIPT LOAD` of this text in front.
    #[must_use]
    pub fn script(self, text: Arc<[u8]>) -> Expect {
        Expect { script: Some(text), leaves: true, ..self }
    }
}

impl Expect {
    fn is_confirmed_by(&self, name: &[u8]) -> bool {
        self.kind == Kind::Confirmations && self.word.is_none_or(|word| word == name)
    }

    /// The next of several replies has come. `error` is its text if it is an error.
    fn follow_multi(&mut self, error: Option<&[u8]>) -> Result<(), Violation> {
        match self.multi {
            Multi::Begins { left } if left == self.left - 1 => {
                self.multi = if error.is_none() { Multi::Within } else { Multi::Outside };
            }
            Multi::Within
                if self.left == 1 && error.is_some_and(|it| !refusal::ended_multi(it)) =>
            {
                return Err(Violation("EXEC was refused, but its MULTI is still open"));
            }
            Multi::Outside | Multi::Begins { .. } | Multi::Within => {}
        }
        Ok(())
    }
}

/// The names of pushes that confirm a command. They are those of the commands.
const CONFIRMATIONS: [&[u8]; 6] =
    [b"subscribe", b"unsubscribe", b"psubscribe", b"punsubscribe", b"ssubscribe", b"sunsubscribe"];

impl Redis {
    /// The state of a connection that has logged in.
    #[must_use]
    pub fn new(limits: ScanLimits) -> Redis {
        Redis {
            scanner: Scanner::new(limits),
            failed: false,
            arrays_push: false,
            whole_only: false,
        }
    }

    /// The state of a RESP2 connection that is used for subscriptions only.
    #[must_use]
    pub fn subscriber(limits: ScanLimits) -> Redis {
        Redis { arrays_push: true, ..Redis::new(limits) }
    }

    /// Hands on each reply only when it is whole, for a host that reads it in one go. At most
    /// [`push_bytes_max`](ScanLimits::push_bytes_max) bytes of a reply are kept; a longer one ends
    /// the connection.
    #[must_use]
    pub fn without_parts(self) -> Redis {
        Redis { whole_only: true, ..self }
    }

    /// Whether the reply may be handed on before it is whole, since it is neither a push nor an
    /// error.
    fn may_part(&self) -> bool {
        match self.scanner.kind() {
            None | Some(b'>' | b'-' | b'!') => false,
            Some(b'*') => !self.arrays_push,
            Some(_) => true,
        }
    }

    /// The reply is not whole. It is handed on in parts if possible. Otherwise it is kept, up to a
    /// limit. A reply that no request asked for is refused at once.
    fn unfinished(
        &mut self,
        need: usize,
        head: Option<&mut Expect>,
    ) -> Result<Step<Event>, Violation> {
        let may_part = self.may_part();
        match head {
            None if may_part => return Err(UNASKED),
            Some(_) if self.whole_only => {
                let too_long = |_| Violation("a reply exceeds push_bytes_max");
                return self.scanner.check_held(need).map(|()| Step::Need(need)).map_err(too_long);
            }
            Some(expect) if may_part && !expect.healing => {}
            _ => return self.scanner.check_held(need).map(|()| Step::Need(need)),
        }
        let seen = self.scanner.seen();
        if seen < PART_MIN {
            return Ok(Step::Need(need));
        }
        self.scanner.consumed(seen);
        Ok(Step::Part(seen))
    }

    fn whole(
        &mut self,
        frame: &[u8],
        len: usize,
        kind: u8,
        head: Option<&mut Expect>,
    ) -> Result<Step<Event>, Violation> {
        if kind == b'>' || (kind == b'*' && self.arrays_push) {
            if let Some(step) = pushed(frame, len, kind, head)? {
                return Ok(step);
            }
            return match kind {
                b'>' => Ok(Step::Event(len, Event::Push)),
                _ => Err(Violation("a reply came on a connection for subscriptions")),
            };
        }
        let error = matches!(kind, b'-' | b'!').then(|| error_text(frame));
        if error.is_some_and(|error| error.starts_with(b"ERR Protocol error")) {
            return Ok(Step::Fatal(len));
        }
        let Some(expect) = head else {
            return Err(UNASKED);
        };
        if std::mem::take(&mut expect.healing) {
            return Ok(Step::Event(len, Event::ScriptLoaded));
        }
        if error.is_some() && expect.resets {
            return Err(Violation("the command that ends a session was refused"));
        }
        match (error, expect.kind) {
            (Some(error), Kind::Command | Kind::Confirmations) => {
                self.failed = true;
                let never_started = expect.script.is_some() && refusal::is_no_script(error);
                Ok(Step::Failed {
                    len,
                    outcome: outcome_of(error, expect.leaves),
                    never_started,
                    cancelled: false,
                })
            }
            (None, Kind::Confirmations) => {
                Err(Violation("a subscription was answered by a reply, not a confirmation"))
            }
            _ => {
                expect.follow_multi(error)?;
                Ok(counted(expect, len))
            }
        }
    }
}

/// One of the expected replies has come.
fn counted(expect: &mut Expect, len: usize) -> Step<Event> {
    expect.left -= 1;
    if expect.left == 0 { Step::Settled(len) } else { Step::Part(len) }
}

/// Handles a push that the head may be waiting for. Among those that look like replies, only known
/// ones are pushes.
fn pushed(
    frame: &[u8],
    len: usize,
    kind: u8,
    head: Option<&mut Expect>,
) -> Result<Option<Step<Event>>, Violation> {
    let name = push_name(frame).ok_or(Violation("a push has no name"))?;
    if CONFIRMATIONS.contains(&name) {
        return Ok(Some(match head {
            Some(expect) if expect.is_confirmed_by(name) => counted(expect, len),
            // The server may end a subscription by itself, when a slot moves.
            _ => Step::Event(len, Event::Push),
        }));
    }
    let message = matches!(name, b"message" | b"pmessage" | b"smessage");
    Ok((kind == b'>' || message).then_some(Step::Event(len, Event::Push)))
}

/// The first item of a push.
fn push_name(frame: &[u8]) -> Option<&[u8]> {
    let first = behind_line(frame)?;
    let body = behind_line(first)?;
    let name = if first[0] == b'+' { &first[1..] } else { body };
    name.split(|&byte| byte == b'\r').next()
}

fn behind_line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    bytes.get(end + 2..).filter(|rest| !rest.is_empty())
}

/// The text of an error: a code, a space, and a message.
fn error_text(frame: &[u8]) -> &[u8] {
    match frame {
        [b'!', ..] => behind_line(frame).unwrap_or_default(),
        _ => frame.get(1..).unwrap_or_default(),
    }
}

/// The outcome of a command that was answered by the error in this frame; see [`Expect::leaving`].
#[must_use]
pub fn outcome_of_frame(frame: &[u8], leaves: bool) -> Outcome {
    outcome_of(error_text(frame), leaves)
}

/// The outcome of a command that was answered by this error. Redis makes its checks before it
/// begins (`processCommand` in server.c), so an error mostly means that nothing happened. But what
/// a script wrote before it failed stands. So for a script that holds only for errors that come
/// before it runs.
fn outcome_of(error: &[u8], leaves: bool) -> Outcome {
    let code = error.split(|&byte| byte == b' ' || byte == b'\r').next().unwrap_or_default();
    match leaves && !refusal::came_before(error) || code == b"IOERR" {
        true => Outcome::Unknown,
        false => Outcome::Rejected,
    }
}

impl Protocol for Redis {
    type Expect = Expect;
    type Event = Event;

    // Each command is answered on its own, and at once.
    const SYNC: &'static [u8] = b"";
    const FLUSH: &'static [u8] = b"";
    // QUIT would be answered, and is deprecated since Redis 7.2. Closing the connection is enough.
    const TERMINATE: &'static [u8] = b"";

    fn step(&mut self, input: &[u8], head: Option<&mut Expect>) -> Result<Step<Event>, Violation> {
        if std::mem::take(&mut self.failed) {
            return Ok(Step::Settled(0));
        }
        match self.scanner.scan(input)? {
            Scan::Whole { len, start, kind } => self.whole(&input[start..len], len, kind, head),
            Scan::Need(need) => self.unfinished(need, head),
        }
    }

    // There are no segments, so nothing is skipped.
    fn skip(&mut self, _: &mut Expect) {}

    fn heal(&mut self, expect: &mut Expect, out: &mut BytesMut) {
        if let Some(text) = &expect.script {
            // A [`Command`](crate::Command) would copy the text once more.
            let head = format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n", text.len());
            for part in [head.as_bytes(), text, b"\r\n"] {
                out.extend_from_slice(part);
            }
            expect.healing = true;
        }
    }

    fn heal_len(&self, expect: &Expect) -> usize {
        /// The bytes around the text.
        const HEAD_MAX: usize = 64;
        expect.script.as_ref().map_or(0, |text| text.len() + HEAD_MAX)
    }

    // Nothing is cancelled at the server, and nothing shares a sync point.
    fn restart(&mut self, _: &mut Expect) {}
}
