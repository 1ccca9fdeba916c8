//! What the table says of commands. `proof/lab/tests/it/redis_commands.rs` compares it with a
//! server.

use std::collections::HashSet;

use onetrip_redis::table::{Described, RequestPolicy, ResponsePolicy};
use onetrip_redis::{Command, Place, Reply, Spec};

/// A command from its words. `""` is an empty word.
fn command(text: &str) -> Command {
    Command::new("").args(text.split(' ').map(|word| if word == "\"\"" { "" } else { word }))
}

fn keys(text: &str) -> Vec<String> {
    let command = command(text);
    let spec = Spec::of(&command).unwrap();
    spec.keys(&command).map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
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

/// Each language has a call `atomic` of the client; not all have a `pipeline` that has one.
#[test]
fn what_is_refused_names_calls_that_every_language_has() {
    let advice = |name: &str| match Spec::of(&command(name)).unwrap().place(&command(name)) {
        Place::Session(advice) | Place::Refused(advice) => advice,
        other => panic!("{name}: {other:?}"),
    };
    for name in ["MULTI", "EXEC", "DISCARD"] {
        assert_eq!(advice(name), "use atomic(), or a session() with WATCH");
    }
}

#[test]
fn commands_of_later_servers_have_their_keys() {
    assert_eq!(keys("DELIFEQ k v"), ["k"]);
    assert_eq!(keys("HGETEX k FIELDS 1 f"), ["k"]);
    assert!(Spec::of(&command("DELIFEQ k v")).unwrap().is_write());
}

/// A cluster must find them, because they are in a slot like keys. The server does not list them,
/// because they are not keys.
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
        "XREADGROUP BLOCK 5 GROUP g c STREAMS s >",
        "XREADGROUP COUNT 1 block 5 GROUP g c NOACK STREAMS s >",
        "XREADGROUP GROUP STREAMS c BLOCK 5 STREAMS s >",
        "XREADGROUP COUNT 1 GROUP g STREAMS BLOCK 5 STREAMS s >",
        "SHUTDOWN",
    ] {
        assert_eq!(place(text), Place::Own, "{text}");
    }
    for text in [
        "XREAD STREAMS BLOCK 0",
        "XREADGROUP GROUP BLOCK BLOCK STREAMS s >",
        "XREADGROUP COUNT 1 GROUP BLOCK c STREAMS s >",
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
        "CLIENT IMPORT-SOURCE ON",
        "CLIENT",
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
        "post / HTTP/1.1",
        "Host: redis",
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

/// In the form in which servers before 7.0 describe them: by the positions of the first and the
/// last key.
#[test]
fn descriptions_of_old_servers_are_understood() {
    let entry = |name: &str, flag: &str, places: &str| {
        let len = name.len();
        format!("*6\r\n${len}\r\n{name}\r\n:-2\r\n*1\r\n+{flag}\r\n{places}")
    };
    let keys_of = |flag: &str, places: &str| {
        let reply = format!("*1\r\n{}", entry("mod.do", flag, places));
        let described = Described::read(&Reply::read(reply.as_bytes()).unwrap().0);
        let command = command("MOD.DO a b c d");
        let spec = described.of(&command).unwrap();
        let keys = spec.keys(&command).map(|key| String::from_utf8(key.to_vec()).unwrap());
        (spec.keys_known(), keys.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(keys_of("write", ":1\r\n:1\r\n:1\r\n"), (true, "a".into()));
    assert_eq!(keys_of("write", ":2\r\n:3\r\n:1\r\n"), (true, "b c".into()));
    assert_eq!(keys_of("write", ":1\r\n:-1\r\n:2\r\n"), (true, "a c".into()));
    assert_eq!(keys_of("write", ":0\r\n:0\r\n:0\r\n"), (true, String::new()));
    assert!(!keys_of("movablekeys", ":1\r\n:1\r\n:1\r\n").0);
    let hostile = ":9223372036854775807\r\n:-9223372036854775808\r\n:-1\r\n";
    assert_eq!(keys_of("write", hostile).1, "");
}

#[test]
fn descriptions_that_make_no_sense_are_left_out() {
    for reply in ["*1\r\n:1\r\n", "*1\r\n*-1\r\n", "*1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n", ":1\r\n"] {
        let described = Described::read(&Reply::read(reply.as_bytes()).unwrap().0);
        assert!(described.of(&command("A")).is_none(), "{reply}");
        assert_eq!(described.of(&command("get k")).unwrap().name(), "GET");
    }
}
