//! Compares the table of commands with the descriptions of a server.

use onetrip_lab::redis::{Answer, Plain, Server, Settings, found_or_skipped, shared};
use onetrip_redis::client::topology::Topology;
use onetrip_redis::redirect::Address;
use onetrip_redis::slots::slot_of;
use onetrip_redis::table::Described;
use onetrip_redis::{Command, Reply, Spec, Value};

/// A command by its words, of which `""` is an empty one.
fn command(text: &str) -> Command {
    Command::new("").args(text.split(' ').map(|word| if word == "\"\"" { "" } else { word }))
}

/// The keys of a command, as the table has them and as the server has them, which may find none.
fn keys(plain: &mut Plain, command: &Command) -> (Vec<Answer>, Option<Vec<Answer>>) {
    let spec = Spec::of(command).unwrap();
    let known = spec.keys(command).map(|key| Answer::Text(key.to_vec())).collect();
    match plain.ask(&Command::new("COMMAND GETKEYS").args(command.iter())).unwrap() {
        Answer::Many(keys) => (known, Some(keys)),
        _ => (known, None),
    }
}

/// Commands that together have keys in every place where a command can have them.
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

/// Commands that have no keys according to a server.
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
    let Some(server) = shared() else { return };
    let mut plain = server.plain().unwrap();
    for text in WITH_KEYS {
        let (known, found) = keys(&mut plain, &command(text));
        assert_eq!(Some(&known), found.as_ref(), "{text}");
        assert!(!known.is_empty(), "{text}");
    }
    for text in WITHOUT_KEYS {
        let (known, found) = keys(&mut plain, &command(text));
        assert!(known.is_empty() && found.unwrap_or_default().is_empty(), "{text}");
    }
}

/// Every command, with some arguments that are also counts.
#[test]
fn keys_of_every_command_are_those_that_the_server_finds() {
    let Some(server) = shared() else { return };
    let mut plain = server.plain().unwrap();
    let mut asked = 0;
    for spec in Spec::all() {
        for more in 0..4 {
            let words = spec.name().split(' ').count();
            let args = usize::from(spec.arity().unsigned_abs()) + more - words;
            let command = Command::new(spec.name()).args((0..args).map(|_| "1"));
            let (known, Some(found)) = keys(&mut plain, &command) else { continue };
            assert_eq!(known, found, "{} with {args} arguments", spec.name());
            asked += usize::from(!found.is_empty());
        }
    }
    assert!(asked > 300, "only {asked} commands had keys");
}

#[test]
fn every_command_of_the_server_is_in_the_table() {
    let Some(server) = shared() else { return };
    if !server.version().starts_with("7.0.") {
        return println!("skipped: the table is that of 7.0, and this is {}", server.version());
    }
    let mut plain = server.plain().unwrap();
    let listed = plain.tell(&Command::new("COMMAND LIST")).unwrap();
    assert!(listed.items().len() > 300);
    for name in listed.items() {
        let name = name.text().unwrap().to_uppercase().replace('|', " ");
        let spec = Spec::of(&Command::new(&name)).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(spec.name(), name);
        let small = Command::new(&name.to_lowercase());
        assert_eq!(Spec::of(&small).unwrap().name(), name);
    }
}

/// The rules for the commands of a module give the right result for the commands of the table.
#[test]
fn what_the_server_describes_is_what_the_table_says() {
    let Some(server) = shared() else { return };
    if !server.version().starts_with("7.0.") {
        return println!("skipped: the table is that of 7.0, and this is {}", server.version());
    }
    let mut plain = server.plain().unwrap();
    let mut bytes = bytes::BytesMut::new();
    value(&plain.tell(&Command::new("COMMAND")).unwrap()).write_resp2(&mut bytes);
    let described = Described::read(&Reply::read(&bytes).unwrap().0);
    let mut compared = 0;
    for spec in Spec::all() {
        let command = Command::new(spec.name()).args(["1"; 7]);
        let Some(other) = described.find(&command).filter(|other| other.name() == spec.name())
        else {
            continue;
        };
        compared += 1;
        let facts = |spec: &Spec| {
            let policies = (spec.request_policy(), spec.response_policy());
            (spec.arity(), spec.is_readonly(), spec.is_write(), policies, spec.place(&command))
        };
        assert_eq!(facts(spec), facts(other), "{}", spec.name());
        let keys = |spec: &Spec| spec.keys(&command).map(<[u8]>::to_vec).collect::<Vec<_>>();
        // What the description leaves open.
        let open = matches!(spec.name(), "SORT" | "SORT_RO" | "MIGRATE");
        assert_eq!(other.keys_known(), spec.keys_known() && !open, "{}", spec.name());
        assert!(open || keys(spec) == keys(other), "{}", spec.name());
    }
    assert!(compared > 300, "only {compared} were compared");
}

fn cluster_of_one() -> Option<Server> {
    let installation = Some(found_or_skipped()?);
    let settings = Settings::default().setting("cluster-enabled", "yes");
    Some(Server::start(Settings { installation, ..settings }).unwrap())
}

/// Keys of all bytes, with braces more often than chance would have them.
fn random_keys(mut state: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize
    };
    std::iter::repeat_with(move || {
        let len = next() % 20;
        (0..len)
            .map(|_| if next().is_multiple_of(3) { b"{}"[next() % 2] } else { next() as u8 })
            .collect()
    })
}

#[test]
fn slots_are_those_that_a_cluster_computes() {
    let Some(server) = cluster_of_one() else { return };
    let mut plain = server.plain().unwrap();
    let seed = 20_261_121;
    println!("seed {seed}");
    for key in random_keys(seed).take(2_000) {
        let said = plain.tell(&Command::new("CLUSTER KEYSLOT").arg(&key)).unwrap();
        assert_eq!(said, Answer::Number(slot_of(&key).into()), "{}", key.escape_ascii());
    }
}

#[test]
fn topology_of_a_server_is_read_from_either_answer() {
    let Some(server) = cluster_of_one() else { return };
    let mut plain = server.plain().unwrap();
    plain.tell(&Command::new("CLUSTER ADDSLOTSRANGE").args([0, 100, 200, 16_383])).unwrap();
    let asked = Address::new("asked", 1).unwrap();
    let mut answer = |text: &str| {
        let value = value(&plain.tell(&Command::new(text)).unwrap());
        let mut bytes = bytes::BytesMut::new();
        value.write_resp2(&mut bytes);
        bytes.freeze()
    };
    let slots = answer("CLUSTER SLOTS");
    let slots = Topology::from_slots(&Reply::read(&slots).unwrap().0, &asked).unwrap();
    let shards = answer("CLUSTER SHARDS");
    let shards = Topology::from_shards(&Reply::read(&shards).unwrap().0, &asked, false).unwrap();
    assert_eq!(slots.unserved(), 99);
    assert_eq!(slots.shards().len(), 1);
    assert_eq!(slots.shard_of(200).unwrap().master.address.port, server.port());
    assert_eq!(slots, shards);
}

fn value(answer: &Answer) -> Value {
    match answer {
        Answer::Nil => Value::Nil,
        Answer::Number(number) => Value::Int(*number),
        Answer::Text(text) => Value::Bulk(text.clone().into()),
        Answer::Error(text) => panic!("{text}"),
        Answer::Many(items) => Value::Array(items.iter().map(value).collect()),
    }
}
