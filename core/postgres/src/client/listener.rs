//! The decisions of a listener on a connection of its own: what is sent, when the connection is
//! opened again, and what its reader is told about that.
//!
//! The host has the socket, the clock, the notifications and the callers. Only the host ends a
//! listener: every failure is followed by another attempt. If time alone does not mend the failure,
//! the reader is told, once per outage.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::pool::{Limits, Pauses};

/// Notifications that are kept for a reader. Each is up to 8 KiB long (NOTIFY_PAYLOAD_MAX_LENGTH in
/// async.c), so a reader that stops costs at most 8 MiB, and usually far less.
pub const KEPT_MAX: usize = 1_024;

/// A connection that lasts this long counts as a success.
const LASTS: Duration = Duration::from_secs(1);

/// Changes that may wait here; the host keeps further ones.
const PENDING_MAX: usize = 16;

/// NAMEDATALEN - 1 (src/include/pg_config_manual.h).
const NAME_MAX: usize = 63;

/// Why a channel can't have a name: the server would refuse it or cut it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// It is empty.
    Empty,
    /// It has this many bytes, which is too long.
    Long(usize),
    /// It contains a zero byte.
    Nul,
}

/// Whether a channel can have this name.
///
/// # Errors
/// Why it can't.
pub fn check(channel: &str) -> Result<(), BadName> {
    match channel.len() {
        0 => Err(BadName::Empty),
        len if len > NAME_MAX => Err(BadName::Long(len)),
        _ if channel.contains('\0') => Err(BadName::Nul),
        _ => Ok(()),
    }
}

/// What the answer to a text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The first change that was asked for is made, or refused. Its caller is told.
    Change,
    /// All channels are listened to.
    Serves {
        /// Whether the reader is told that notifications may be missing.
        gap: bool,
    },
    /// The server refuses to listen to them, so the connection can't be used.
    Refused {
        /// Whether the reader is told why.
        says: bool,
    },
    /// No text was sent, so there is nothing to answer.
    Nothing,
}

/// When to try again, and whether the reader is told why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How long to wait.
    pub pause: Duration,
    /// Whether the reader is told.
    pub says: bool,
}

/// A listener without I/O.
pub struct Listener {
    /// The channels that are listened to.
    channels: BTreeSet<String>,
    /// Changes still to be made, in order. The first may be in flight.
    pending: VecDeque<Change>,
    /// What is in flight.
    sent: Option<Sent>,
    /// Whether all channels must be listened to again.
    owes_all: bool,
    /// Whether a gap must be reported before the next notification.
    owes_gap: bool,
    /// Whether it has ever listened to its channels, so that notifications may be missed.
    has_served: bool,
    /// Since when all channels are listened to on this connection.
    serves_since: Option<Time>,
    /// Whether the reader was told about the present outage.
    said: bool,
    pauses: Pauses,
}

struct Change {
    channel: String,
    listens: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// All channels, again.
    All,
    /// The first pending change.
    Change,
}

impl Listener {
    /// A listener that listens to these channels as soon as a connection is open. `seed` is random.
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

    /// Whether it takes another change.
    pub fn has_room(&self) -> bool {
        self.pending.len() < PENDING_MAX
    }

    /// Asks to listen to a channel, or to stop that.
    pub fn change(&mut self, channel: String, listens: bool) {
        self.pending.push_back(Change { channel, listens });
    }

    /// A connection is open. If there are no channels, nothing must be sent, and nothing can have
    /// been missed.
    pub fn handle_opened(&mut self, now: Time) {
        self.owes_all = !self.channels.is_empty();
        if !self.owes_all {
            self.owes_gap = false;
            self.serves(now);
        }
    }

    /// The text to send now, if any. Only one is in flight at a time: first all channels, then the
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

    /// Whether an answer is due, so that the host must go on reading.
    pub fn awaits_answer(&self) -> bool {
        self.sent.is_some()
    }

    /// The server has answered the text. A change that it refuses is not made.
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

    /// Whether a gap must be reported before the notification that has come. (A notification shows
    /// that its channel is listened to again.)
    pub fn take_gap(&mut self) -> bool {
        std::mem::take(&mut self.owes_gap)
    }

    /// The connection is lost. Returns how long to wait before the next attempt: not at all if it
    /// had lasted. If it had not, that counts as a failure, so that a server that accepts
    /// connections and drops them is not asked all the time.
    pub fn handle_lost(&mut self, now: Time) -> Duration {
        (self.sent, self.owes_all) = (None, false);
        self.owes_gap |= self.has_served;
        if self.serves_since.take().is_some_and(|since| now.since(since) >= LASTS) {
            self.pauses.succeeded();
            return Duration::ZERO;
        }
        self.pauses.failed()
    }

    /// A connection could not be opened. `is_final`: time alone does not mend the reason.
    pub fn handle_open_failed(&mut self, is_final: bool) -> Retry {
        Retry { says: is_final && self.says(), pause: self.pauses.failed() }
    }

    fn serves(&mut self, now: Time) {
        self.serves_since = Some(now);
        (self.has_served, self.said) = (true, false);
    }

    /// Whether the reader must be told about the outage; true once per outage.
    fn says(&mut self) -> bool {
        !std::mem::replace(&mut self.said, true)
    }
}

/// The name is quoted, so that the server takes it literally.
fn statement(verb: &str, channel: &str) -> String {
    [verb, " \"", &channel.replace('"', "\"\""), "\""].concat()
}
