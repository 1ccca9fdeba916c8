//! What a client decides that listens on a connection of its own: what is sent, when the connection
//! is opened again, and what its reader is told of that.
//!
//! The host has the socket, the clock, the notifications and the callers. Nothing ends a listener but
//! its host: whatever goes wrong is tried again, and what time alone does not mend is said, once per
//! outage.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::pool::{Limits, Pauses};

/// Notifications that are kept for a reader. One is up to 8 KiB long (NOTIFY_PAYLOAD_MAX_LENGTH in
/// async.c), so a reader that stops costs 8 MiB at most, and mostly far less.
pub const KEPT_MAX: usize = 1_024;

/// A connection that lasts so long did not fail.
const LASTS: Duration = Duration::from_secs(1);

/// Changes that wait; more are left with the host.
const PENDING_MAX: usize = 16;

/// NAMEDATALEN - 1 (src/include/pg_config_manual.h).
const NAME_MAX: usize = 63;

/// Why a channel can't have a name: the server would refuse it or cut it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// There is none.
    Empty,
    /// It has so many bytes.
    Long(usize),
    /// It has a zero byte in it.
    Nul,
}

/// Whether a channel can have this name.
///
/// # Errors
/// It can't.
pub fn check(channel: &str) -> Result<(), BadName> {
    match channel.len() {
        0 => Err(BadName::Empty),
        len if len > NAME_MAX => Err(BadName::Long(len)),
        _ if channel.contains('\0') => Err(BadName::Nul),
        _ => Ok(()),
    }
}

/// What the answer to the text that was sent comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The change that was asked for first is made, or refused: its caller is told.
    Change,
    /// All channels are listened to.
    Serves {
        /// The reader is told that notifications may be missing.
        gap: bool,
    },
    /// The server refuses them, so the connection is of no use.
    Refused {
        /// The reader is told why.
        says: bool,
    },
    /// Nothing was sent.
    Nothing,
}

/// When to try again, and whether the reader is told why it takes so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How long nothing is tried.
    pub pause: Duration,
    /// The reader is told.
    pub says: bool,
}

/// A listener without I/O.
pub struct Listener {
    /// What is listened to.
    channels: BTreeSet<String>,
    /// What is to be changed, in order. The first may be on its way.
    pending: VecDeque<Change>,
    /// What is on its way.
    sent: Option<Sent>,
    /// The channels are to be listened to anew.
    owes_all: bool,
    /// A gap is to be told of, in front of what comes next.
    owes_gap: bool,
    /// It has listened before, so that what it does not hear is missed.
    has_served: bool,
    /// Since when all is listened to on this connection.
    serves_since: Option<Time>,
    /// The reader was told why it takes so long.
    said: bool,
    pauses: Pauses,
}

struct Change {
    channel: String,
    listens: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// The channels, anew.
    All,
    /// The first of what is pending.
    Change,
}

impl Listener {
    /// One that listens to these channels as soon as a connection is open. The seed is random.
    pub fn new(channels: impl IntoIterator<Item = String>, seed: u64) -> Listener {
        Listener {
            channels: channels.into_iter().collect(),
            pending: VecDeque::new(),
            sent: None,
            owes_all: false,
            owes_gap: false,
            has_served: false,
            serves_since: None,
            said: false,
            pauses: Pauses::new(Limits::default(), seed),
        }
    }

    /// Whether another change is taken.
    pub fn has_room(&self) -> bool {
        self.pending.len() < PENDING_MAX
    }

    /// A channel is to be listened to, or no more.
    pub fn change(&mut self, channel: String, listens: bool) {
        self.pending.push_back(Change { channel, listens });
    }

    /// A connection is open. Without channels it serves at once, and nothing can have been missed.
    pub fn handle_opened(&mut self, now: Time) {
        self.owes_all = !self.channels.is_empty();
        if !self.owes_all {
            self.owes_gap = false;
            self.serves(now);
        }
    }

    /// What is to be sent now, as one text. One is on its way at a time: first all channels, then the
    /// changes in order.
    pub fn next_text(&mut self) -> Option<String> {
        if self.sent.is_some() {
            return None;
        }
        if std::mem::take(&mut self.owes_all) {
            self.sent = Some(Sent::All);
            let all: Vec<_> = self.channels.iter().map(|it| statement("listen", it)).collect();
            return Some(all.join(";"));
        }
        let change = self.pending.front()?;
        self.sent = Some(Sent::Change);
        Some(statement(if change.listens { "listen" } else { "unlisten" }, &change.channel))
    }

    /// Whether an answer is due, for whose sake reading goes on.
    pub fn awaits_answer(&self) -> bool {
        self.sent.is_some()
    }

    /// The server has answered what was sent. A change that it refuses is not made.
    pub fn handle_answered(&mut self, now: Time, is_ok: bool) -> Answered {
        match self.sent.take() {
            None => Answered::Nothing,
            Some(Sent::All) if is_ok => {
                self.serves(now);
                Answered::Serves { gap: self.take_gap() }
            }
            Some(Sent::All) => Answered::Refused { says: self.says() },
            Some(Sent::Change) => {
                if let Some(Change { channel, listens }) = self.pending.pop_front()
                    && is_ok
                {
                    match listens {
                        true => drop(self.channels.insert(channel)),
                        false => drop(self.channels.remove(&channel)),
                    }
                }
                Answered::Change
            }
        }
    }

    /// Whether a gap is told of in front of the notification that came. It shows that its channel is
    /// listened to again.
    pub fn take_gap(&mut self) -> bool {
        std::mem::take(&mut self.owes_gap)
    }

    /// The connection is gone: how long to wait before the next attempt. Not at all after one that
    /// lasted. One that did not counts as a failure: a server that takes connections and drops them
    /// must not be asked all the time.
    pub fn handle_lost(&mut self, now: Time) -> Duration {
        (self.sent, self.owes_all) = (None, false);
        self.owes_gap |= self.has_served;
        if self.serves_since.take().is_some_and(|since| now.since(since) >= LASTS) {
            self.pauses.succeeded();
            return Duration::ZERO;
        }
        self.pauses.failed()
    }

    /// A connection could not be opened. `is_final`: for a reason that time alone does not mend.
    pub fn handle_open_failed(&mut self, is_final: bool) -> Retry {
        Retry { says: is_final && self.says(), pause: self.pauses.failed() }
    }

    fn serves(&mut self, now: Time) {
        self.serves_since = Some(now);
        (self.has_served, self.said) = (true, false);
    }

    /// What is in the way is said once.
    fn says(&mut self) -> bool {
        !std::mem::replace(&mut self.said, true)
    }
}

/// The name is quoted, so that it is taken letter by letter.
fn statement(verb: &str, channel: &str) -> String {
    [verb, " \"", &channel.replace('"', "\"\""), "\""].concat()
}
