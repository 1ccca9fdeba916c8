//! What the commands of this client change.

use crate::{Command, Spec};

/// What some commands may change of the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// Nothing that is read.
    #[default]
    Nothing,
    /// The values of these keys.
    Keys(Vec<Box<[u8]>>),
    /// Anything, as far as is known.
    Anything,
}

/// More keys than this are not remembered: then it may be anything.
const KEYS_MAX: usize = 1024;

impl Writes {
    /// What one command may change.
    #[must_use]
    pub fn of(command: &Command) -> Writes {
        let mut writes = Writes::Nothing;
        writes.add(command);
        writes
    }

    /// What a script may change: it may use keys that it does not name.
    #[must_use]
    pub fn of_script() -> Writes {
        Writes::Anything
    }

    /// Adds what another command may change.
    pub fn add(&mut self, command: &Command) {
        let spec = Spec::of(command);
        if *self == Writes::Anything || spec.is_some_and(changes_nothing) {
            return;
        }
        let mut keys = match std::mem::take(self) {
            Writes::Keys(keys) => keys,
            Writes::Nothing | Writes::Anything => Vec::new(),
        };
        let before = keys.len();
        if let Some(spec) = spec.filter(|spec| names_what_it_changes(spec)) {
            keys.extend(spec.keys(command).take(KEYS_MAX + 1).map(Box::from));
        }
        *self = match keys.len() {
            len if len == before || len > KEYS_MAX => Writes::Anything,
            _ => Writes::Keys(keys),
        };
    }

    /// Adds what other commands may change.
    pub fn extend(&mut self, other: Writes) {
        *self = match (std::mem::take(self), other) {
            (Writes::Nothing, writes) | (writes, Writes::Nothing) => writes,
            (Writes::Keys(mut keys), Writes::Keys(others))
                if keys.len() + others.len() <= KEYS_MAX =>
            {
                keys.extend(others);
                Writes::Keys(keys)
            }
            _ => Writes::Anything,
        };
    }
}

/// Whether all that it changes is among its keys. EVAL and the like name keys and may use others.
/// PFCOUNT only reads, but stores the count that it has found.
fn names_what_it_changes(spec: &Spec) -> bool {
    (spec.is_write() && spec.keys_known()) || spec.name() == "PFCOUNT"
}

/// Whether it is known to change no data. EXEC is not among these: it runs what was queued.
fn changes_nothing(spec: &Spec) -> bool {
    let name = spec.name();
    (spec.is_readonly() && name != "PFCOUNT")
        || HARMLESS.contains(&name)
        || HARMLESS_SUBCOMMANDS.iter().any(|container| name.starts_with(container))
}

const HARMLESS: [&str; 24] = [
    "PING",
    "ECHO",
    "TIME",
    "INFO",
    "ROLE",
    "LASTSAVE",
    "AUTH",
    "HELLO",
    "SELECT",
    "WATCH",
    "UNWATCH",
    "MULTI",
    "DISCARD",
    "WAIT",
    "WAITAOF",
    "PUBLISH",
    "SPUBLISH",
    "SUBSCRIBE",
    "PSUBSCRIBE",
    "SSUBSCRIBE",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
    "CONFIG GET",
];

const HARMLESS_SUBCOMMANDS: [&str; 8] = [
    "SCRIPT LOAD",
    "SCRIPT EXISTS",
    "CLIENT ",
    "COMMAND ",
    "PUBSUB ",
    "LATENCY ",
    "SLOWLOG ",
    "MEMORY ",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &str) -> Writes {
        Writes::of(&Command::new(words))
    }

    fn keys(names: &[&str]) -> Writes {
        Writes::Keys(names.iter().map(|name| name.as_bytes().into()).collect())
    }

    #[test]
    fn a_write_changes_the_keys_that_it_names() {
        assert_eq!(of("SET a 1"), keys(&["a"]));
        assert_eq!(of("MSET a 1 b 2"), keys(&["a", "b"]));
        assert_eq!(of("RENAME a b"), keys(&["a", "b"]));
        assert_eq!(of("SORT a STORE b"), keys(&["a", "b"]));
        assert_eq!(of("BLPOP a b 0"), keys(&["a", "b"]));
        assert_eq!(of("GETEX a EX 1"), keys(&["a"]));
        assert_eq!(of("PFCOUNT a b"), keys(&["a", "b"]));
    }

    #[test]
    fn what_is_not_known_to_be_harmless_changes_anything() {
        for words in [
            "FLUSHALL",
            "FLUSHDB",
            "SWAPDB 0 1",
            "EVAL text 1 a",
            "EVALSHA sha 1 a",
            "FCALL f 1 a",
            "EXEC",
            "NOSUCH a",
            "JSON.SET a $ 1",
            "DEBUG RELOAD",
            "REPLICAOF a 1",
            "SET",
            "CLIENT",
            "CONFIG SET a b",
            "FUNCTION LOAD x",
            "CLUSTER RESET",
        ] {
            assert_eq!(of(words), Writes::Anything, "{words}");
        }
        assert_eq!(Writes::of_script(), Writes::Anything);
    }

    #[test]
    fn what_reads_or_concerns_the_connection_changes_nothing() {
        for words in [
            "GET a",
            "MGET a b",
            "KEYS *",
            "EVAL_RO text 1 a",
            "XREAD STREAMS a 0",
            "PING",
            "PUBLISH a b",
            "MULTI",
            "WATCH a",
            "SUBSCRIBE a",
            "CLIENT GETNAME",
            "WAIT 1 0",
        ] {
            assert_eq!(of(words), Writes::Nothing, "{words}");
        }
    }

    #[test]
    fn lists_change_what_their_commands_change_together() {
        let mut writes = Writes::Nothing;
        for words in ["GET x", "SET a 1", "PING", "DEL b c"] {
            writes.add(&Command::new(words));
        }
        assert_eq!(writes, keys(&["a", "b", "c"]));
        let mut more = writes.clone();
        more.extend(of("SET d 1"));
        assert_eq!(more, keys(&["a", "b", "c", "d"]));
        more.extend(Writes::Anything);
        assert_eq!(more, Writes::Anything);
        writes.add(&Command::new("NOSUCH"));
        writes.add(&Command::new("SET z 1"));
        assert_eq!(writes, Writes::Anything);
    }

    #[test]
    fn the_keys_that_are_remembered_are_bounded() {
        let many = Command::new("DEL").args(0..=KEYS_MAX);
        assert_eq!(Writes::of(&many), Writes::Anything);
        let half = Command::new("DEL").args(0..KEYS_MAX);
        let mut writes = Writes::of(&half);
        assert!(matches!(writes, Writes::Keys(_)));
        writes.extend(of("SET a 1"));
        assert_eq!(writes, Writes::Anything);
    }
}
