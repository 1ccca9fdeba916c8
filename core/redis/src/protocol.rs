//! Whose reply is this: the engine's `Protocol` for RESP2 and RESP3.
//!
//! Redis answers each command with one reply, in order. There are three exceptions, and all are here: a
//! push belongs to no command; the confirmations of SUBSCRIBE and its like are pushes, one for each
//! channel, and no reply comes; and on a subscribed RESP2 connection pushes look like arrays.
//!
//! What a command that switches replies off would do to this (`CLIENT REPLY`, `MONITOR`) nothing here
//! can mend: such commands are refused before they are sent.

use bytes::BytesMut;
use onetrip_engine::{Outcome, Protocol, Step, Violation};
use std::sync::Arc;

use crate::refusal;
use crate::scan::{Scan, ScanLimits, Scanner};

/// The protocol's state of one connection.
#[derive(Debug)]
pub struct Redis {
    scanner: Scanner,
    /// The head has failed, and its place in the order is to be given up.
    failed: bool,
    /// On RESP2, arrays of certain kinds are pushes.
    arrays_push: bool,
    /// No reply is handed on in parts.
    whole_only: bool,
}

/// What has to be known of a request to recognise its replies.
#[derive(Debug)]
pub struct Expect {
    /// Replies, or confirmations, that are still to come.
    left: u32,
    kind: Kind,
    /// Which confirmations, if that was said.
    word: Option<&'static [u8]>,
    /// Whether an error may have left something behind.
    leaves: bool,
    /// The answer to what heals it comes first.
    healing: bool,
    /// The text of the script that it calls by its hash.
    script: Option<Arc<[u8]>>,
    multi: Multi,
    /// Its error ends the connection.
    resets: bool,
}

/// Whether the connection is between MULTI and EXEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Multi {
    Outside,
    /// MULTI's reply is the one behind which so many are left.
    Begins {
        left: u32,
    },
    /// MULTI was taken, and the last reply is that to EXEC.
    Within,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One command: an error in place of its reply is an error of the request.
    Command,
    /// Several: errors are replies.
    Commands,
    /// Confirmations, as pushes.
    Confirmations,
}

/// Something that belongs to no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A push: a published message, an invalidation.
    Push,
    /// A script was loaded, or not, to heal the request behind it.
    ScriptLoaded,
}

const UNASKED: Violation = Violation("the server answered a request that was not sent");

/// Replies are handed on in parts of at least so many bytes before they are whole: what is kept here is
/// looked up again with each read.
const PART_MIN: usize = 16 << 10;

impl Expect {
    /// The reply to one command. An error in its place ends the request as failed:
    /// [`Outcome::Rejected`], since Redis refuses before it begins.
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

    /// The replies to so many commands, at least one, which share a slot. Errors among them are replies
    /// like others.
    #[must_use]
    pub fn replies(count: u32) -> Expect {
        Expect { left: count.max(1), kind: Kind::Commands, ..Expect::reply() }
    }

    /// The replies to MULTI, so many commands, and EXEC. If the server takes MULTI and then refuses EXEC in a way that
    /// leaves the connection between them, whatever came behind would be queued for ever: that ends the connection.
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

    /// It ends what one user of the connection began, for the next one: if it is refused, nobody may use the
    /// connection any more.
    #[must_use]
    pub fn resetting(self) -> Expect {
        Expect { resets: true, ..self }
    }

    /// The confirmations of a command that subscribes to so many channels, or unsubscribes from them.
    #[must_use]
    pub fn confirmations(channels: u32) -> Expect {
        Expect { left: channels.max(1), kind: Kind::Confirmations, ..Expect::reply() }
    }

    /// Of confirmations: that they are those of this command, by its name in any case. Others that come
    /// between are pushes then, as when the server ends a subscription by itself since its hash slot
    /// moves; that looks like the confirmation of SUNSUBSCRIBE, and counts as one where that is due.
    #[must_use]
    pub fn of(self, command: &[u8]) -> Expect {
        let word = CONFIRMATIONS.into_iter().find(|word| word.eq_ignore_ascii_case(command));
        Expect { word, ..self }
    }

    /// What it did before its error stands: it runs a script, or what nobody here knows. An error ends it as
    /// [`Outcome::Unknown`] then, but for those that say that it did not begin.
    #[must_use]
    pub fn leaving(self) -> Expect {
        Expect { leaves: true, ..self }
    }

    /// It calls a script by its hash. If the server does not know it, `SCRIPT LOAD` with this text goes
    /// in front when it is sent again.
    #[must_use]
    pub fn script(self, text: Arc<[u8]>) -> Expect {
        Expect { script: Some(text), leaves: true, ..self }
    }
}

impl Expect {
    fn is_confirmed_by(&self, name: &[u8]) -> bool {
        self.kind == Kind::Confirmations && self.word.is_none_or(|word| word == name)
    }

    /// The next of several replies comes, with this error if it is one.
    fn follow_multi(&mut self, error: Option<&[u8]>) -> Result<(), Violation> {
        match self.multi {
            Multi::Begins { left } if left == self.left - 1 => {
                self.multi = if error.is_none() { Multi::Within } else { Multi::Outside };
            }
            Multi::Within
                if self.left == 1 && error.is_some_and(|it| !refusal::ended_multi(it)) =>
            {
                return Err(Violation("EXEC was refused, and MULTI goes on"));
            }
            Multi::Outside | Multi::Begins { .. } | Multi::Within => {}
        }
        Ok(())
    }
}

/// The names of pushes that confirm a command of the same name.
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

    /// The state of a RESP2 connection that is there for subscriptions only.
    #[must_use]
    pub fn subscriber(limits: ScanLimits) -> Redis {
        Redis { arrays_push: true, ..Redis::new(limits) }
    }

    /// Hands on no reply before it is whole, for a host that reads each in one go. Of each at most
    /// [`push_bytes_max`](ScanLimits::push_bytes_max) are kept; a longer one ends the connection.
    #[must_use]
    pub fn without_parts(self) -> Redis {
        Redis { whole_only: true, ..self }
    }

    /// Whether the reply that comes may be handed on before it is whole: neither a push nor an error.
    fn may_part(&self) -> bool {
        match self.scanner.kind() {
            None | Some(b'>' | b'-' | b'!') => false,
            Some(b'*') => !self.arrays_push,
            Some(_) => true,
        }
    }

    /// A reply that is not whole is handed on in parts. What can't be is kept, up to a limit; of what nobody
    /// asked for no more is read.
    fn unfinished(
        &mut self,
        need: usize,
        head: Option<&mut Expect>,
    ) -> Result<Step<Event>, Violation> {
        let may_part = self.may_part();
        match head {
            None if may_part => return Err(UNASKED),
            Some(_) if self.whole_only => {
                let too_long = |_| Violation("a reply is longer than is kept of one");
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
            return Err(Violation("what ends a session was refused"));
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
            (None, Kind::Confirmations) => Err(Violation("a reply came to a subscription")),
            _ => {
                expect.follow_multi(error)?;
                Ok(counted(expect, len))
            }
        }
    }
}

/// One more of the replies that were expected.
fn counted(expect: &mut Expect, len: usize) -> Step<Event> {
    expect.left -= 1;
    if expect.left == 0 { Step::Settled(len) } else { Step::Part(len) }
}

/// A push that the head may be waiting for, or, of those that look like replies, one that is known.
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

/// The first item of a push, without looking at the others.
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

/// The text of an error: its code, a space, a message.
fn error_text(frame: &[u8]) -> &[u8] {
    match frame {
        [b'!', ..] => behind_line(frame).unwrap_or_default(),
        _ => frame.get(1..).unwrap_or_default(),
    }
}

/// What the error in this frame says of the effect of its command; see [`Expect::leaving`].
#[must_use]
pub fn outcome_of_frame(frame: &[u8], leaves: bool) -> Outcome {
    outcome_of(error_text(frame), leaves)
}

/// What an error says of the effect of its command. Redis checks all it can before it begins
/// (`processCommand` in server.c), so an error mostly means that nothing happened. What a script wrote
/// before it failed stands, so of its errors only those mean that which come before it runs.
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

    // Each command is answered by itself, and at once.
    const SYNC: &'static [u8] = b"";
    const FLUSH: &'static [u8] = b"";
    // QUIT would be answered, and is deprecated since Redis 7.2: to close the connection says it all.
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

    // There are no segments: nothing is skipped.
    fn skip(&mut self, _: &mut Expect) {}

    fn heal(&mut self, expect: &mut Expect, out: &mut BytesMut) {
        if let Some(text) = &expect.script {
            // A command of its own would hold the text once more.
            let head = format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n", text.len());
            for part in [head.as_bytes(), text, b"\r\n"] {
                out.extend_from_slice(part);
            }
            expect.healing = true;
        }
    }

    fn heal_len(&self, expect: &Expect) -> usize {
        /// What stands around the text.
        const HEAD_MAX: usize = 64;
        expect.script.as_ref().map_or(0, |text| text.len() + HEAD_MAX)
    }

    // Nothing is cancelled at the server, and nothing shares a sync point.
    fn restart(&mut self, _: &mut Expect) {}
}
