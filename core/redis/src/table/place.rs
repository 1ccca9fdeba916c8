//! Which connection a command may be sent on. Most may use the shared one; the exceptions are
//! listed here.

use crate::command::Command;

/// The connection that a command may be sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The connection that all share.
    Shared,
    /// A connection of its own, because the command may block, and later commands would wait, too.
    Own,
    /// A session, because the command changes the state of its connection or depends on it. The
    /// text says what to do instead; it follows "it can't go over the shared connection:".
    Session(&'static str),
    /// None, because the command is not answered by one reply. The text says what to do instead; it
    /// follows "it can't be sent as a command:".
    Refused(&'static str),
}

/// How the place of a command is determined.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    Always(Place),
    /// [`Place::Own`] if the option BLOCK comes before STREAMS, and [`Place::Shared`] otherwise.
    OwnIfBlock,
}

impl Rule {
    /// The rule for a command, by its name in capitals.
    pub(super) const fn of(name: &[u8], blocking: bool) -> Rule {
        match name {
            b"XREAD" | b"XREADGROUP" => return Rule::OwnIfBlock,
            // It waits for the replicas, and its connection ends with it.
            b"SHUTDOWN" => return Rule::Always(Place::Own),
            _ => {}
        }
        Rule::Always(match (refused(name), session(name)) {
            (Some(advice), _) => Place::Refused(advice),
            (_, Some(advice)) => Place::Session(advice),
            _ if blocking => Place::Own,
            _ => Place::Shared,
        })
    }

    pub(super) fn place(self, command: &Command) -> Place {
        match self {
            Rule::Always(place) => place,
            Rule::OwnIfBlock if blocks(command) => Place::Own,
            Rule::OwnIfBlock => Place::Shared,
        }
    }
}

/// Whether the option BLOCK is given before the names of the streams. Servers accept the options in
/// any order (`xreadCommand` in t_stream.c), and a group may be called BLOCK or STREAMS.
fn blocks(command: &Command) -> bool {
    let mut words = command.iter().skip(1);
    while let Some(word) = words.next() {
        let is = |option: &[u8]| word.eq_ignore_ascii_case(option);
        if is(b"BLOCK") || is(b"STREAMS") {
            return is(b"BLOCK");
        }
        // GROUP is followed by a group and its consumer, COUNT by a number.
        let values = if is(b"GROUP") { 2 } else { usize::from(is(b"COUNT")) };
        words.by_ref().take(values).for_each(drop);
    }
    false
}

/// Commands that are not answered by one reply each, and what to do instead.
const fn refused(name: &[u8]) -> Option<&'static str> {
    Some(match name {
        b"SUBSCRIBE" | b"PSUBSCRIBE" | b"SSUBSCRIBE" => "use subscribe()",
        b"UNSUBSCRIBE" | b"PUNSUBSCRIBE" | b"SUNSUBSCRIBE" => {
            "end the subscription that subscribe() gave"
        }
        b"MONITOR" => "its output never ends; redis-cli has it",
        b"SYNC" | b"PSYNC" | b"REPLCONF" => "it is for replicas",
        b"CLIENT REPLY" => "each command has its reply here; drop those that you don't want",
        b"SCRIPT DEBUG" => "it makes the connection a debugger's; redis-cli has it",
        // `securityWarningCommand` in server.c. Everybody who shares the connection would lose it.
        b"POST" | b"HOST:" => "the server takes it for HTTP, and ends the connection",
        b"QUIT" => "close the client",
        b"RESET" => "end the session, which is reset then",
        _ => return None,
    })
}

/// Commands that change the state of their connection or depend on it, and what to do instead.
const fn session(name: &[u8]) -> Option<&'static str> {
    Some(match name {
        b"WATCH" | b"UNWATCH" => "take a session()",
        b"MULTI" | b"EXEC" | b"DISCARD" => "use atomic(), or a session() with WATCH",
        b"SELECT" => "name the database in the URL, or take a session()",
        b"AUTH" => "name user and password in the URL",
        b"HELLO" => "the client says HELLO itself; its options choose the protocol",
        b"CLIENT SETNAME" | b"CLIENT SETINFO" => "name the connection in the client's options",
        b"CLIENT TRACKING" | b"CLIENT CACHING" | b"CLIENT NO-EVICT" | b"CLIENT NO-TOUCH"
        | b"CLIENT CAPA" => "it holds for one connection: take a session()",
        // Its other subcommands have rows of their own. What later ones change is not known.
        b"CLIENT" => "what it does to its connection is not known: take a session()",
        b"ASKING" => "the client says it itself where a slot is moved",
        b"READONLY" | b"READWRITE" => "the client's options say whether replicas are read",
        b"WAIT" | b"WAITAOF" => {
            "it counts the writes of its own connection: write in the same session()"
        }
        _ => return None,
    })
}
