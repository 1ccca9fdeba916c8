//! What is known of each command before it is sent: whether it writes, which of its arguments are
//! keys, which connection it needs, and where it goes in a cluster.
//!
//! The table is generated from the command description of Redis 7.0 (`scripts/redis-commands`); a few
//! commands of later versions stand beside it (`table/later.rs`). Of a command that is in neither, nothing is
//! assumed: it may leave effects behind an error, its keys are not known, and it is taken for one that
//! is answered by one reply. What a module adds can be asked of the
//! server ([`Described`]).

mod described;
mod generated;
mod keys;
mod later;
mod lookup;
mod place;
mod policy;
mod rows;

use std::borrow::Cow;

use crate::command::Command;

pub use described::Described;
pub use keys::Keys;
pub use place::Place;
pub use policy::{RequestPolicy, ResponsePolicy};

use keys::KeySpec;
use place::Rule;

/// What is known of one command.
#[derive(Clone, Debug)]
pub struct Spec {
    name: Cow<'static, str>,
    arity: i16,
    flags: u8,
    keys: Cow<'static, [KeySpec]>,
    rule: Rule,
    request: RequestPolicy,
    response: ResponsePolicy,
}

const WRITE: u8 = 1;
const READONLY: u8 = 2;
const BLOCKING: u8 = 4;
const NO_MULTI: u8 = 8;
const CONTAINER: u8 = 16;
/// What it did before an error stands.
const LEAVES: u8 = 32;

impl Spec {
    /// What is known of this command: its name is looked up in any case, and that of a subcommand
    /// where there are some. Takes tens of nanoseconds and allocates nothing.
    ///
    /// `None` where nothing is known. For an unknown subcommand it is what is known of all of them,
    /// which is next to nothing.
    #[must_use]
    pub fn of(command: &Command) -> Option<&'static Spec> {
        let mut words = command.iter();
        let spec = lookup::named(words.next()?)?;
        if spec.has(CONTAINER)
            && let Some(sub) = words.next()
        {
            return Some(lookup::subcommand(spec, sub).unwrap_or(spec));
        }
        Some(spec)
    }

    /// Everything in the table, subcommands included.
    pub fn all() -> impl Iterator<Item = &'static Spec> {
        generated::ROWS.iter().chain(later::ROWS)
    }

    /// Its name in capitals; a subcommand's stands behind a space: `XGROUP CREATE`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many arguments it takes, its name (and that of the subcommand) included; where it is
    /// negative, at least so many.
    #[must_use]
    pub fn arity(&self) -> i16 {
        self.arity
    }

    /// Whether it reads data and never changes any, so that it may run twice and on a replica.
    #[must_use]
    pub fn is_readonly(&self) -> bool {
        self.has(READONLY)
    }

    /// Whether it may change data. Neither this nor [`is_readonly`](Self::is_readonly) holds for what
    /// concerns no data (PING, CONFIG SET), nor for scripts, of which the server does not say.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.has(WRITE)
    }

    /// Whether it can fail halfway, so that an error does not say that nothing happened: scripts and
    /// functions, EXEC, MIGRATE, and what changes the server itself in several steps.
    ///
    /// All others check what they need before they begin.
    #[must_use]
    pub fn may_leave_effects(&self) -> bool {
        self.has(LEAVES)
    }

    /// Whether the server refuses it between MULTI and EXEC.
    #[must_use]
    pub fn refused_in_multi(&self) -> bool {
        self.has(NO_MULTI)
    }

    /// Whether [`keys`](Self::keys) finds all of them.
    #[must_use]
    pub fn keys_known(&self) -> bool {
        !self.has(CONTAINER) && !self.keys.contains(&KeySpec::Unknown)
    }

    /// The arguments of the command that are keys, in the order of its description; the channels of
    /// SPUBLISH and SSUBSCRIBE too, which lie in hash slots as keys do. Where the
    /// arguments do not fit the description (a count that is no number) those in question are left
    /// out: the server will refuse the command.
    #[must_use]
    pub fn keys<'a>(&'a self, command: &'a Command) -> Keys<'a> {
        Keys::new(&self.keys, command)
    }

    /// Which connection it may go to.
    ///
    /// A command that keeps the server itself busy (SAVE, KEYS, DEBUG SLEEP) is [`Place::Shared`]:
    /// all wait for it, on whatever connection.
    #[must_use]
    pub fn place(&self, command: &Command) -> Place {
        self.rule.place(command)
    }

    /// To which nodes of a cluster it goes.
    #[must_use]
    pub fn request_policy(&self) -> RequestPolicy {
        self.request
    }

    /// What becomes of the replies where it goes to several nodes.
    #[must_use]
    pub fn response_policy(&self) -> ResponsePolicy {
        self.response
    }

    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// For the compiler, which knows no other way to look into one.
    const fn name_bytes(&self) -> &[u8] {
        match &self.name {
            Cow::Borrowed(name) => name.as_bytes(),
            // Names of the table are literals; those of the server are not looked up there.
            Cow::Owned(_) => b"",
        }
    }
}

/// Whether its error may come after effects, by its name.
const fn leaves(name: &[u8]) -> bool {
    matches!(
        name,
        b"EVAL"
            | b"EVALSHA"
            | b"FCALL"
            | b"EXEC"
            | b"MIGRATE"
            | b"DEBUG"
            | b"CONFIG SET"
            | b"MODULE LOAD"
            | b"MODULE LOADEX"
            | b"MODULE UNLOAD"
            | b"FAILOVER"
            | b"SHUTDOWN"
    )
}
