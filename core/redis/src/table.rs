//! What is known of each command before it is sent: whether it writes, which of its arguments are
//! keys, which connection it needs, and to which nodes of a cluster it goes.
//!
//! The table is generated from the command description of Redis 7.0 (`scripts/redis-commands`). A
//! few commands of later versions are beside it (`table/later.rs`). For a command in neither, the
//! worst is assumed: it may have effects despite an error, its keys are not known, and it is
//! answered by one reply. For the commands of a module the server can be asked ([`Described`]).

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
/// Its effects before an error stand.
const LEAVES: u8 = 32;
/// Its reply may be cached.
const CACHEABLE: u8 = 64;

impl Spec {
    /// The entry of this command. Names are matched in any case of letters, and subcommands by
    /// their own names. Takes tens of nanoseconds and allocates nothing.
    ///
    /// `None` if nothing is known. For an unknown subcommand, the entry of the command itself is
    /// returned, which says little.
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

    /// All entries of the table, including subcommands.
    pub fn all() -> impl Iterator<Item = &'static Spec> {
        generated::ROWS.iter().chain(later::ROWS)
    }

    /// Its name in capitals. A subcommand follows after a space: `XGROUP CREATE`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of arguments, including its name (and that of the subcommand). If it is negative,
    /// at least that many.
    #[must_use]
    pub fn arity(&self) -> i16 {
        self.arity
    }

    /// Whether it reads data and never changes any, so that it may run twice and on a replica.
    #[must_use]
    pub fn is_readonly(&self) -> bool {
        self.has(READONLY)
    }

    /// Whether it may change data. Neither this nor [`is_readonly`](Self::is_readonly) is true for
    /// commands that concern no data (PING, CONFIG SET), and for scripts, about which the server
    /// does not say.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.has(WRITE)
    }

    /// Whether it can fail halfway, so that an error does not mean that nothing happened: scripts
    /// and functions, EXEC, MIGRATE, and commands that change the server itself in several steps.
    ///
    /// All other commands make their checks before they begin.
    #[must_use]
    pub fn may_leave_effects(&self) -> bool {
        self.has(LEAVES)
    }

    /// Whether its reply stays true until the server says that one of its keys was changed (`CLIENT
    /// TRACKING`): it only reads, has keys, never blocks, and its reply depends on nothing else.
    #[must_use]
    pub fn is_cacheable(&self) -> bool {
        self.has(CACHEABLE)
    }

    /// Whether the server refuses it between MULTI and EXEC.
    #[must_use]
    pub fn refused_in_multi(&self) -> bool {
        self.has(NO_MULTI)
    }

    /// Whether [`keys`](Self::keys) finds all keys.
    #[must_use]
    pub fn keys_known(&self) -> bool {
        !self.has(CONTAINER) && !self.keys.contains(&KeySpec::Unknown)
    }

    /// The arguments of the command that are keys, in the order of its description. The channels of
    /// SPUBLISH and SSUBSCRIBE are included, since they belong to hash slots like keys. Arguments
    /// that do not fit the description (such as a count that is not a number) are left out: the
    /// server will refuse the command.
    #[must_use]
    pub fn keys<'a>(&'a self, command: &'a Command) -> Keys<'a> {
        Keys::new(&self.keys, command)
    }

    /// The connection that it may be sent on.
    ///
    /// A command that keeps the server itself busy (SAVE, KEYS, DEBUG SLEEP) is [`Place::Shared`],
    /// since every connection waits for it.
    #[must_use]
    pub fn place(&self, command: &Command) -> Place {
        self.rule.place(command)
    }

    /// The nodes of a cluster that it goes to.
    #[must_use]
    pub fn request_policy(&self) -> RequestPolicy {
        self.request
    }

    /// How the replies are combined if it goes to several nodes.
    #[must_use]
    pub fn response_policy(&self) -> ResponsePolicy {
        self.response
    }

    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The name, in a form that a `const` function can read.
    const fn name_bytes(&self) -> &[u8] {
        match &self.name {
            Cow::Borrowed(name) => name.as_bytes(),
            // The table has literals only; names from the server are not looked up there.
            Cow::Owned(_) => b"",
        }
    }
}

/// Whether the reply to the command of this name, which only reads, depends on more than the values
/// of its keys: on chance, on the time, on how a value is stored, or on keys that are not among its
/// arguments. `trackingRememberKeys` in tracking.c remembers the arguments that are keys.
const fn depends_on_more(name: &[u8]) -> bool {
    matches!(
        name,
        b"EVAL_RO"
            | b"EVALSHA_RO"
            | b"FCALL_RO"
            | b"SORT_RO"
            | b"HRANDFIELD"
            | b"SRANDMEMBER"
            | b"ZRANDMEMBER"
            | b"HSCAN"
            | b"SSCAN"
            | b"ZSCAN"
            | b"TTL"
            | b"PTTL"
            | b"HTTL"
            | b"HPTTL"
            | b"DUMP"
            | b"MEMORY USAGE"
            | b"OBJECT ENCODING"
            | b"OBJECT FREQ"
            | b"OBJECT IDLETIME"
            | b"OBJECT REFCOUNT"
            | b"PFCOUNT"
            | b"TOUCH"
            | b"XINFO CONSUMERS"
            | b"XINFO GROUPS"
            | b"XINFO STREAM"
            | b"XPENDING"
    )
}

/// Whether the command of this name may have effects despite an error.
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
