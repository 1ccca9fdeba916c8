//! The table of commands against a server.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashSet;

use onetrip_redis::table::{RequestPolicy, ResponsePolicy};
use onetrip_redis::{Command, Place, Spec};
use support::{Said, Server};

/// A command by its words, of which `""` is an empty one.
fn command(text: &str) -> Command {
    Command::new("").args(text.split(' ').map(|word| if word == "\"\"" { "" } else { word }))
}

fn keys(text: &str) -> Vec<String> {
    let command = command(text);
    let spec = Spec::of(&command).unwrap();
    spec.keys(&command).map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
}

/// Commands with keys in every place in which there are some.
const WITH_KEYS: &[&str] = &[
    "GET k",
    "get k",
    "SET k v EX 10",
    "MGET a b c",
    "MSET a 1 b 2 c 3",
    "MSETNX a 1 b 2",
    "DEL a b a",
    "RENAME a b",
    "COPY a b DB 1",
    "BITOP AND d a b c",
    "SUNIONSTORE d a b",
    "ZINTERSTORE d 2 a b WEIGHTS 1 2",
    "ZUNION 3 a b c WITHSCORES",
    "ZDIFFSTORE d 1 a",
    "ZRANGESTORE d s 0 -1",
    "SINTERCARD 2 a b LIMIT 1",
    "LMPOP 2 a b LEFT",
    "BLMPOP 0 2 a b LEFT",
    "BZMPOP 0.5 1 a MIN",
    "BLPOP a b 0",
    "BZPOPMIN a b c 1.5",
    "BLMOVE a b LEFT RIGHT 0",
    "EVAL return 2 a b x y",
    "EVALSHA ffffffffffffffffffffffffffffffffffffffff 1 a x",
    "EVAL_RO return 1 a",
    "FCALL f 2 a b x",
    "FCALL_RO f 1 a",
    "XADD s * f v",
    "XREAD STREAMS a b 0 0",
    "XREAD COUNT 2 BLOCK 10 STREAMS STREAMS BLOCK 0 0",
    "XREADGROUP GROUP STREAMS c COUNT 2 STREAMS a b > >",
    "XGROUP CREATE s g $ MKSTREAM",
    "XGROUP DELCONSUMER s g c",
    "XINFO STREAM s FULL",
    "OBJECT ENCODING k",
    "MEMORY USAGE k",
    "SORT k",
    "SORT k BY w_* LIMIT 0 5 GET # ALPHA STORE d",
    "SORT k BY store LIMIT store store GET store",
    "SORT k STORE a STORE b",
    "SORT_RO k BY w_*",
    "MIGRATE 127.0.0.1 6379 k 0 1000",
    "MIGRATE 127.0.0.1 6379 \"\" 0 1000 COPY REPLACE KEYS a b c",
    "MIGRATE 127.0.0.1 6379 \"\" 0 1000 KEYS a KEYS b",
    "GEORADIUS g 1 2 3 m",
    "GEORADIUS g 1 2 3 m STORE d",
    "GEORADIUSBYMEMBER g STORE 3 m COUNT 1 STOREDIST d",
    "GEOSEARCHSTORE d g FROMMEMBER m BYRADIUS 1 km",
    "PFMERGE d a b",
    "PFCOUNT a b",
    "LCS a b LEN",
    "SMOVE a b m",
    "WATCH a b",
    "TOUCH a b",
    "DUMP k",
    "RESTORE k 0 x",
];

/// What a server says has no keys.
const WITHOUT_KEYS: &[&str] = &[
    "PING",
    "EVAL return 0",
    "EVAL return 0 x y",
    "FCALL f 0",
    "CONFIG GET maxmemory",
    "PUBLISH c m",
    "SCRIPT LOAD x",
    "DBSIZE",
];

#[test]
fn keys_are_those_that_the_server_finds() {
    let Some(mut server) = Server::start("keys", &[]) else { return };
    for text in WITH_KEYS {
        let ask = Command::new("COMMAND GETKEYS").args(command(text).iter());
        let said = server.ask(ask);
        let expected: Vec<String> = said.list().into_iter().map(Said::text).collect();
        assert_eq!(keys(text), expected, "{text}");
        assert!(!expected.is_empty(), "{text}");
        assert!(Spec::of(&command(text)).unwrap().keys_known(), "{text}");
    }
    for text in WITHOUT_KEYS {
        let said = server.ask(Command::new("COMMAND GETKEYS").args(command(text).iter()));
        assert!(matches!(said, Said::Error(_)) || said == Said::List(vec![]), "{text}: {said:?}");
        assert_eq!(keys(text), Vec::<String>::new(), "{text}");
    }
}

/// Every command with keys in fixed places, filled with as many arguments as it takes.
#[test]
fn keys_of_every_command_are_those_that_the_server_finds() {
    let Some(mut server) = Server::start("every", &[]) else { return };
    let mut asked = 0;
    for spec in Spec::all() {
        for more in 0..4 {
            let args =
                usize::from(spec.arity().unsigned_abs()) + more - spec.name().split(' ').count();
            // A word that is also a count.
            let command = Command::new(spec.name()).args((0..args).map(|_| "1"));
            let said = server.ask(Command::new("COMMAND GETKEYS").args(command.iter()));
            let Said::List(expected) = said else { continue };
            let expected: Vec<Vec<u8>> = expected.into_iter().map(Said::bytes).collect();
            let found: Vec<&[u8]> = spec.keys(&command).collect();
            assert_eq!(found, expected, "{} with {args} arguments", spec.name());
            asked += usize::from(!expected.is_empty());
        }
    }
    assert!(asked > 300, "only {asked} commands had keys");
}

#[test]
fn every_command_of_the_server_is_in_the_table() {
    let Some(mut server) = Server::start("list", &[]) else { return };
    let listed = server.ask(Command::new("COMMAND LIST")).list();
    let names: Vec<_> =
        listed.into_iter().map(|name| name.text().to_uppercase().replace('|', " ")).collect();
    assert!(names.len() > 300);
    for name in names {
        let spec = Spec::of(&Command::new(&name)).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(spec.name(), name);
        let small = Command::new(&name.to_lowercase());
        assert_eq!(Spec::of(&small).unwrap().name(), name);
    }
}

#[test]
fn each_name_stands_once() {
    let mut names = HashSet::new();
    for spec in Spec::all() {
        assert!(names.insert(spec.name()), "{} stands twice", spec.name());
        assert_eq!(Spec::of(&Command::new(spec.name())).unwrap().name(), spec.name());
    }
}

#[test]
fn unknown_commands_are_not_found() {
    for name in ["", "GETT", "JSON.SET", "XGROUP|CREATE", &"G".repeat(1000)] {
        assert!(Spec::of(&command(name)).is_none(), "{name}");
    }
    assert!(Spec::of(&Command::new("")).is_none());
    let spec = Spec::of(&command("XGROUP SOMETHING k")).unwrap();
    assert_eq!(spec.name(), "XGROUP");
    assert!(!spec.keys_known());
}

/// They lie in a slot like keys, so a cluster has to find them; the server does not list them, since
/// they are none.
#[test]
fn channels_of_a_shard_count_as_keys() {
    assert_eq!(keys("SPUBLISH c m"), ["c"]);
    assert_eq!(keys("SSUBSCRIBE a b"), ["a", "b"]);
    assert_eq!(keys("PUBLISH c m"), Vec::<String>::new());
}

#[test]
fn garbage_has_no_keys() {
    for text in [
        "EVAL return x a",
        "EVAL return -1 a",
        "EVAL return 3 a",
        "EVAL return 99999999999999999999 a",
        "EVAL return",
        "EVAL",
        "GET",
        "XREAD COUNT 1",
        "ZUNION 18446744073709551615 a",
        "BLPOP",
        "MIGRATE h",
    ] {
        assert_eq!(keys(text), Vec::<String>::new(), "{text}");
    }
    assert_eq!(keys("MSET a"), ["a"]);
    // A password that looks like an option.
    let text = "MIGRATE h 1 \"\" 0 9 AUTH2 u KEYS AUTH KEYS KEYS a";
    assert_eq!(keys(text), ["a"]);
}

fn place(text: &str) -> Place {
    let command = command(text);
    Spec::of(&command).unwrap().place(&command)
}

#[test]
fn what_may_block_has_a_connection_of_its_own() {
    for text in [
        "BLPOP a 0",
        "BRPOP a 0",
        "BLMOVE a b LEFT LEFT 0",
        "BLMPOP 0 1 a LEFT",
        "BZPOPMIN a 0",
        "BZPOPMAX a 0",
        "BZMPOP 0 1 a MIN",
        "BRPOPLPUSH a b 0",
        "XREAD BLOCK 0 STREAMS s $",
        "xread count 1 block 0 streams s $",
        "XREADGROUP GROUP g c BLOCK 5 STREAMS s >",
        "SHUTDOWN",
    ] {
        assert_eq!(place(text), Place::Own, "{text}");
    }
    for text in [
        "XREAD STREAMS BLOCK 0",
        "XREADGROUP GROUP BLOCK BLOCK STREAMS s >",
        "LMPOP 1 a LEFT",
        "SAVE",
        "KEYS *",
        "CLIENT GETNAME",
    ] {
        assert_eq!(place(text), Place::Shared, "{text}");
    }
}

#[test]
fn state_of_a_connection_belongs_to_a_session() {
    for text in [
        "WATCH k",
        "UNWATCH",
        "MULTI",
        "EXEC",
        "DISCARD",
        "SELECT 1",
        "AUTH p",
        "HELLO 3",
        "CLIENT SETNAME x",
        "CLIENT TRACKING ON",
        "client caching yes",
        "CLIENT NO-EVICT ON",
        "CLIENT NO-TOUCH ON",
        "ASKING",
        "READONLY",
        "READWRITE",
        "WAIT 1 0",
        "WAITAOF 1 0 0",
    ] {
        assert!(matches!(place(text), Place::Session(_)), "{text}: {:?}", place(text));
    }
}

#[test]
fn what_has_not_one_reply_is_refused() {
    for text in [
        "CLIENT REPLY OFF",
        "MONITOR",
        "SYNC",
        "PSYNC ? -1",
        "SUBSCRIBE c",
        "PSUBSCRIBE c",
        "SSUBSCRIBE c",
        "UNSUBSCRIBE",
        "PUNSUBSCRIBE",
        "SUNSUBSCRIBE",
        "QUIT",
        "RESET",
        "REPLCONF x",
        "SCRIPT DEBUG YES",
    ] {
        assert!(matches!(place(text), Place::Refused(_)), "{text}: {:?}", place(text));
    }
}

#[test]
fn reading_writing_and_failing_halfway_are_told_apart() {
    let of = |text| Spec::of(&command(text)).unwrap();
    assert!(of("GET k").is_readonly() && !of("GET k").is_write());
    assert!(of("SET k v").is_write() && !of("SET k v").is_readonly());
    assert!(!of("PING").is_write() && !of("PING").is_readonly());
    for text in ["EVAL x 0", "EVALSHA x 0", "FCALL f 0", "EXEC", "MIGRATE h 1 k 0 1"] {
        assert!(of(text).may_leave_effects(), "{text}");
    }
    for text in ["EVAL_RO x 0", "FCALL_RO x 0", "SET k v", "MSET a 1", "RENAME a b"] {
        assert!(!of(text).may_leave_effects(), "{text}");
    }
    assert!(of("SAVE").refused_in_multi() && !of("GET k").refused_in_multi());
}

#[test]
fn policies_are_those_of_the_description() {
    let of = |text| {
        let spec = Spec::of(&command(text)).unwrap();
        (spec.request_policy(), spec.response_policy())
    };
    assert_eq!(of("GET k"), (RequestPolicy::Usual, ResponsePolicy::Usual));
    assert_eq!(of("MGET k"), (RequestPolicy::MultiShard, ResponsePolicy::Usual));
    assert_eq!(of("DEL k"), (RequestPolicy::MultiShard, ResponsePolicy::Sum));
    assert_eq!(of("MSET k v"), (RequestPolicy::MultiShard, ResponsePolicy::AllSucceeded));
    assert_eq!(of("DBSIZE"), (RequestPolicy::AllShards, ResponsePolicy::Sum));
    assert_eq!(of("SCRIPT KILL"), (RequestPolicy::AllShards, ResponsePolicy::OneSucceeded));
    assert_eq!(of("SCRIPT LOAD x"), (RequestPolicy::AllNodes, ResponsePolicy::AllSucceeded));
    assert_eq!(of("SCRIPT EXISTS x"), (RequestPolicy::AllShards, ResponsePolicy::And));
    assert_eq!(of("SCAN 0"), (RequestPolicy::Special, ResponsePolicy::Usual));
    assert_eq!(of("INFO"), (RequestPolicy::AllShards, ResponsePolicy::Special));
}
