//! The typed commands on strings, keys, hashes, lists and sets, each against the server.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use onetrip::redis::Client;
use onetrip::redis::commands::*;

use crate::support::{client, key, lacks};

type Text = Option<String>;

fn set_of(members: &[&str]) -> BTreeSet<String> {
    members.iter().map(|member| (*member).to_owned()).collect()
}

#[tokio::test]
async fn strings_are_set_and_read() {
    let Some(c) = client().await else { return };
    let k = &key("s");
    c.set(k, "v").await.unwrap();
    assert_eq!(c.get::<Text>(k).await.unwrap(), Some("v".into()));
    assert_eq!(c.get::<Text>(key("none")).await.unwrap(), None);
    assert_eq!(c.append(k, "w").await.unwrap(), 2);
    assert_eq!(c.strlen(k).await.unwrap(), 2);
    assert_eq!(c.getrange::<String>(k, -1, -1).await.unwrap(), "w");
    assert_eq!(c.setrange(k, 1, "xyz").await.unwrap(), 4);
    assert_eq!(c.getset::<Text>(k, "new").await.unwrap(), Some("vxyz".into()));
    assert!(!c.setnx(k, "other").await.unwrap());
    assert_eq!(c.getdel::<Text>(k).await.unwrap(), Some("new".into()));
    assert!(c.setnx(k, "other").await.unwrap());
}

#[tokio::test]
async fn a_string_is_deleted_by_whoever_knows_it() {
    let Some(c) = client().await else { return };
    if lacks(&c, "DELIFEQ").await {
        return;
    }
    let k = &key("lock");
    c.set(k, "mine").await.unwrap();
    assert!(!c.delifeq(k, "yours").await.unwrap());
    assert!(c.delifeq(k, "mine").await.unwrap());
    assert!(!c.delifeq(k, "mine").await.unwrap());
}

#[tokio::test]
async fn numbers_are_added_to() {
    let Some(c) = client().await else { return };
    let (k, f) = (&key("n"), &key("f"));
    assert_eq!(c.incr(k).await.unwrap(), 1);
    assert_eq!(c.incrby(k, 41).await.unwrap(), 42);
    assert_eq!(c.decr(k).await.unwrap(), 41);
    assert_eq!(c.decrby(k, 51).await.unwrap(), -10);
    assert_eq!(c.incrbyfloat(f, 0.5).await.unwrap(), 0.5);
}

#[tokio::test]
async fn several_strings_are_set_and_read_at_once() {
    let Some(c) = client().await else { return };
    let (a, b, d) = (&key("a"), &key("b"), &key("d"));
    c.mset([(a, "1"), (b, "2")]).await.unwrap();
    assert!(!c.msetnx([(b, "3"), (d, "4")]).await.unwrap());
    let all: Vec<Text> = c.mget([a, b, d]).await.unwrap();
    assert_eq!(all, [Some("1".into()), Some("2".into()), None]);
    c.mset(HashMap::from([(d, 7)])).await.unwrap();
    assert_eq!(c.get::<i64>(d).await.unwrap(), 7);
}

#[tokio::test]
async fn options_of_set_are_those_of_the_command() {
    let Some(c) = client().await else { return };
    let k = &key("set");
    let set = |options: SetOptions| c.set_options::<Option<()>>(k, "v", options);
    assert_eq!(set(SetOptions::new().xx()).await.unwrap(), None);
    assert_eq!(set(SetOptions::new().nx().ex(100)).await.unwrap(), Some(()));
    assert_eq!(set(SetOptions::new().nx()).await.unwrap(), None);
    assert_eq!(set(SetOptions::new().keepttl()).await.unwrap(), Some(()));
    assert!((1..=100).contains(&c.ttl(k).await.unwrap()));
    set(SetOptions::new().px(200_000)).await.unwrap();
    assert!(c.pttl(k).await.unwrap() > 100_000);
    set(SetOptions::new().exat(4_000_000_000)).await.unwrap();
    set(SetOptions::new().pxat(4_000_000_000_000)).await.unwrap();
    // The later choice counts.
    set(SetOptions::new().nx().xx().keepttl().ex(50)).await.unwrap();
    assert!((1..=50).contains(&c.ttl(k).await.unwrap()));
    let before: Text = c.set_options(k, "w", SetOptions::new().get()).await.unwrap();
    assert_eq!(before, Some("v".into()));
    c.setex(k, 100, "x").await.unwrap();
    c.psetex(k, 100_000, "x").await.unwrap();
    let value: String = c.getex(k, Expiry::Never).await.unwrap();
    assert_eq!((value.as_str(), c.ttl(k).await.unwrap()), ("x", -1));
    for expiry in [
        Expiry::Seconds(100),
        Expiry::Milliseconds(100_000),
        Expiry::AtSeconds(4_000_000_000),
        Expiry::AtMilliseconds(4_000_000_000_000),
        Expiry::Keep,
    ] {
        c.getex::<String>(k, expiry).await.unwrap();
        assert!(c.ttl(k).await.unwrap() > 0, "{expiry:?}");
    }
}

#[tokio::test]
async fn keys_are_found_renamed_copied_and_deleted() {
    let Some(c) = client().await else { return };
    let (a, b) = (&key("k"), &key("k"));
    c.set(a, "v").await.unwrap();
    assert_eq!(c.exists([a, a, b]).await.unwrap(), 2);
    assert_eq!(c.key_type::<String>(a).await.unwrap(), "string");
    assert_eq!(c.key_type::<String>(b).await.unwrap(), "none");
    assert!(c.copy(a, b).await.unwrap());
    assert!(!c.copy(a, b).await.unwrap());
    assert!(c.copy_replace(a, b).await.unwrap());
    assert!(!c.renamenx(a, b).await.unwrap());
    c.rename(a, b).await.unwrap();
    assert_eq!(c.rename(a, b).await.unwrap_err().redis_code(), Some("ERR"));
    assert_eq!(c.touch([a, b]).await.unwrap(), 1);
    let dump: Option<Bytes> = c.dump(b).await.unwrap();
    c.restore(a, 0, dump.unwrap()).await.unwrap();
    assert_eq!(c.get::<Text>(a).await.unwrap(), Some("v".into()));
    assert_eq!(c.object_encoding::<Text>(a).await.unwrap(), Some("embstr".into()));
    assert_eq!(c.object_refcount::<Option<u64>>(a).await.unwrap(), Some(1));
    assert!(c.object_idletime::<Option<u64>>(a).await.unwrap().is_some());
    assert_eq!(c.object_freq::<i64>(a).await.unwrap_err().redis_code(), Some("ERR"));
    let found: Vec<String> = c.keys(a).await.unwrap();
    assert_eq!(found.iter().collect::<Vec<_>>(), [a]);
    assert!(c.randomkey::<Text>().await.unwrap().is_some());
    assert_eq!(c.del([a]).await.unwrap(), 1);
    assert_eq!(c.unlink([a, b]).await.unwrap(), 1);
    c.set(a, "v").await.unwrap();
    assert!(c.move_key(a, 1).await.unwrap());
    assert_eq!(c.exists([a]).await.unwrap(), 0);
}

#[tokio::test]
async fn keys_expire_when_they_should() {
    let Some(c) = client().await else { return };
    let k = &key("e");
    assert!(!c.expire(k, 10).await.unwrap());
    assert_eq!((c.ttl(k).await.unwrap(), c.pttl(k).await.unwrap()), (-2, -2));
    c.set(k, "v").await.unwrap();
    assert!(c.expire(k, 1_000).await.unwrap());
    assert!(!c.expire_if(k, 2_000, ExpireIf::None).await.unwrap());
    assert!(!c.expire_if(k, 2_000, ExpireIf::Earlier).await.unwrap());
    assert!(c.expire_if(k, 2_000, ExpireIf::Later).await.unwrap());
    assert!(c.expire_if(k, 3_000, ExpireIf::Some).await.unwrap());
    assert!(c.pexpire(k, 4_000_000).await.unwrap());
    assert!(c.pexpireat(k, 4_000_000_000_000).await.unwrap());
    assert!(c.expireat(k, 4_000_000_001).await.unwrap());
    assert!(!c.expireat_if(k, 4_000_000_000, ExpireIf::Later).await.unwrap());
    assert_eq!(c.expiretime(k).await.unwrap(), 4_000_000_001);
    assert_eq!(c.pexpiretime(k).await.unwrap(), 4_000_000_001_000);
    assert!(c.persist(k).await.unwrap());
    assert!(!c.persist(k).await.unwrap());
}

/// All keys of a complete scan.
async fn scanned(c: &Client, options: ScanOptions) -> BTreeSet<String> {
    let (mut cursor, mut found) = (0_u64, BTreeSet::new());
    for _ in 0..10_000 {
        let (next, keys): (u64, Vec<String>) = c.scan(cursor, options.clone()).await.unwrap();
        found.extend(keys);
        cursor = next;
        if cursor == 0 {
            return found;
        }
    }
    panic!("the cursor never came back to 0");
}

#[tokio::test]
async fn scans_see_all_that_is_asked_for() {
    let Some(c) = client().await else { return };
    let stem = key("scan");
    let (string, list) = (format!("{stem}:s"), format!("{stem}:l"));
    c.set(&string, "v").await.unwrap();
    c.rpush(&list, ["v"]).await.unwrap();
    let options = ScanOptions::new().pattern(format!("{stem}:*")).count(1_000);
    assert_eq!(scanned(&c, options.clone()).await, set_of(&[&string, &list]));
    assert_eq!(scanned(&c, options.of_type("list")).await, set_of(&[&list]));
}

#[tokio::test]
async fn sorted_items_are_limited_looked_up_and_stored() {
    let Some(c) = client().await else { return };
    let (k, to) = (&key("sort"), &key("sorted"));
    c.rpush(k, ["b", "c", "a"]).await.unwrap();
    c.set(format!("{k}-a"), "A").await.unwrap();
    let options = SortOptions::new().alpha().desc().limit(1, 2);
    assert_eq!(c.sort::<Vec<String>>(k, options.clone()).await.unwrap(), ["b", "a"]);
    let looked_up = options.clone().get("#").get(format!("{k}-*"));
    let found: Vec<Text> = c.sort_ro(k, looked_up).await.unwrap();
    assert_eq!(found, [Some("b".into()), None, Some("a".into()), Some("A".into())]);
    assert_eq!(c.sort_store(k, SortOptions::new().by("nosort"), to).await.unwrap(), 3);
    assert_eq!(c.llen(to).await.unwrap(), 3);
}

#[tokio::test]
async fn hashes_have_fields() {
    let Some(c) = client().await else { return };
    let k = &key("h");
    assert_eq!(c.hset(k, "a", 1).await.unwrap(), 1);
    assert_eq!(c.hset_multiple(k, [("a", 2), ("b", 3)]).await.unwrap(), 1);
    assert_eq!(c.hget::<Option<i64>>(k, "a").await.unwrap(), Some(2));
    let fields: Vec<Option<i64>> = c.hmget(k, ["b", "none"]).await.unwrap();
    assert_eq!(fields, [Some(3), None]);
    let all: HashMap<String, i64> = c.hgetall(k).await.unwrap();
    assert_eq!(all, HashMap::from([("a".into(), 2), ("b".into(), 3)]));
    assert_eq!(c.hincrby(k, "a", 5).await.unwrap(), 7);
    assert_eq!(c.hincrbyfloat(k, "a", 0.5).await.unwrap(), 7.5);
    assert_eq!(c.hkeys::<BTreeSet<String>>(k).await.unwrap(), set_of(&["a", "b"]));
    assert_eq!(c.hvals::<BTreeSet<String>>(k).await.unwrap(), set_of(&["7.5", "3"]));
    assert_eq!((c.hlen(k).await.unwrap(), c.hstrlen(k, "a").await.unwrap()), (2, 3));
    assert!(c.hexists(k, "a").await.unwrap() && !c.hexists(k, "none").await.unwrap());
    assert!(!c.hsetnx(k, "a", 0).await.unwrap());
    assert!(c.hrandfield::<Text>(k).await.unwrap().is_some());
    assert_eq!(c.hrandfield_count::<Vec<String>>(k, -5).await.unwrap().len(), 5);
    let with: HashMap<String, f64> = c.hrandfield_withvalues(k, 5).await.unwrap();
    assert_eq!(with, HashMap::from([("a".into(), 7.5), ("b".into(), 3.0)]));
    let (cursor, scanned): (u64, HashMap<String, f64>) =
        c.hscan(k, 0, ScanOptions::new()).await.unwrap();
    assert_eq!((cursor, scanned), (0, with));
    assert_eq!(c.hdel(k, ["a", "none"]).await.unwrap(), 1);
}

#[tokio::test]
async fn lists_have_two_ends_and_a_middle() {
    let Some(c) = client().await else { return };
    let (k, other) = (&key("l"), &key("l"));
    assert_eq!(c.lpushx(k, ["x"]).await.unwrap(), 0);
    assert_eq!(c.rpush(k, ["b", "c"]).await.unwrap(), 2);
    assert_eq!(c.lpush(k, ["a"]).await.unwrap(), 3);
    assert_eq!(c.rpushx(k, ["c"]).await.unwrap(), 4);
    assert_eq!(c.linsert_before(k, "b", "1").await.unwrap(), 5);
    assert_eq!(c.linsert_after(k, "b", "2").await.unwrap(), 6);
    assert_eq!(c.linsert_after(k, "none", "2").await.unwrap(), -1);
    let all: Vec<String> = c.lrange(k, 0, -1).await.unwrap();
    assert_eq!(all, ["a", "1", "b", "2", "c", "c"]);
    assert_eq!(c.lindex::<Text>(k, -1).await.unwrap(), Some("c".into()));
    assert_eq!(c.lpos(k, "c").await.unwrap(), Some(4));
    assert_eq!(c.lpos(k, "none").await.unwrap(), None);
    let options = LPosOptions::new().rank(-1).count(0).maxlen(100);
    assert_eq!(c.lpos_options::<Vec<u64>>(k, "c", options).await.unwrap(), [5, 4]);
    c.lset(k, 0, "A").await.unwrap();
    assert_eq!(c.lrem(k, 0, "c").await.unwrap(), 2);
    c.ltrim(k, 0, 2).await.unwrap();
    assert_eq!(c.llen(k).await.unwrap(), 3);
    let moved: Text = c.lmove(k, other, Side::Right, Side::Left).await.unwrap();
    assert_eq!(moved, Some("b".into()));
    assert_eq!(c.rpoplpush::<Text>(k, other).await.unwrap(), Some("1".into()));
    assert_eq!(c.lpop::<Text>(other).await.unwrap(), Some("1".into()));
    assert_eq!(c.rpop::<Text>(other).await.unwrap(), Some("b".into()));
    assert_eq!(c.lpop_count::<Option<Vec<String>>>(other, 2).await.unwrap(), None);
    assert_eq!(c.rpop_count::<Vec<String>>(k, 2).await.unwrap(), ["A"]);
    c.rpush(k, ["x", "y"]).await.unwrap();
    let popped: (String, Vec<String>) = c.lmpop([other, k], Side::Right, 5).await.unwrap();
    assert_eq!(popped, (k.clone(), vec!["y".into(), "x".into()]));
}

#[tokio::test]
async fn waiting_for_items_leaves_others_alone() {
    let Some(c) = client().await else { return };
    let (k, other) = (&key("b"), &key("b"));
    let waits = c.blpop::<(String, String)>([other, k], 30.0);
    c.rpush(k, ["1"]).await.unwrap();
    assert_eq!(waits.await.unwrap(), (k.clone(), "1".into()));
    let waits = c.brpop::<Option<(String, String)>>([k], 0.01);
    assert_eq!(waits.await.unwrap(), None);
    let waits = c.blmove::<String>(k, other, Side::Left, Side::Right, 30.0);
    c.rpush(k, ["2"]).await.unwrap();
    assert_eq!(waits.await.unwrap(), "2");
    let waits = c.blmpop::<(String, Vec<String>)>(30.0, [k], Side::Left, 9);
    c.rpush(k, ["3", "4"]).await.unwrap();
    assert_eq!(waits.await.unwrap().1, ["3", "4"]);
    let waits = c.brpoplpush::<String>(k, other, 30.0);
    c.rpush(k, ["5"]).await.unwrap();
    assert_eq!(waits.await.unwrap(), "5");
}

#[tokio::test]
async fn sets_are_combined() {
    let Some(c) = client().await else { return };
    let (a, b, to) = (&key("set"), &key("set"), &key("set"));
    assert_eq!(c.sadd(a, ["1", "2", "2"]).await.unwrap(), 2);
    c.sadd(b, ["2", "3"]).await.unwrap();
    assert_eq!(c.scard(a).await.unwrap(), 2);
    assert!(c.sismember(a, "1").await.unwrap());
    assert_eq!(c.smismember(a, ["1", "3"]).await.unwrap(), [true, false]);
    assert_eq!(c.smembers::<BTreeSet<String>>(a).await.unwrap(), set_of(&["1", "2"]));
    assert_eq!(c.sdiff::<Vec<String>>([a, b]).await.unwrap(), ["1"]);
    assert_eq!(c.sinter::<Vec<String>>([a, b]).await.unwrap(), ["2"]);
    assert_eq!(c.sunion::<BTreeSet<String>>([a, b]).await.unwrap().len(), 3);
    assert_eq!(c.sintercard([a, b]).await.unwrap(), 1);
    assert_eq!(c.sintercard_limit([a, a], 1).await.unwrap(), 1);
    assert_eq!(c.sdiffstore(to, [a, b]).await.unwrap(), 1);
    assert_eq!(c.sinterstore(to, [a, b]).await.unwrap(), 1);
    assert_eq!(c.sunionstore(to, [a, b]).await.unwrap(), 3);
    assert!(c.smove(a, b, "1").await.unwrap());
    assert_eq!(c.srem(b, ["1", "none"]).await.unwrap(), 1);
    assert!(c.srandmember::<Text>(to).await.unwrap().is_some());
    assert_eq!(c.srandmember_count::<Vec<String>>(to, -7).await.unwrap().len(), 7);
    let (cursor, scanned): (u64, BTreeSet<String>) =
        c.sscan(to, 0, ScanOptions::new().count(100)).await.unwrap();
    assert_eq!((cursor, scanned.len()), (0, 3));
    assert!(c.spop::<Text>(to).await.unwrap().is_some());
    assert_eq!(c.spop_count::<Vec<String>>(to, 9).await.unwrap().len(), 2);
}

#[tokio::test]
async fn bits_and_distinct_elements_are_counted() {
    let Some(c) = client().await else { return };
    let (a, b, to) = (&key("bits"), &key("bits"), &key("bits"));
    assert_eq!(c.setbit(a, 7, 1).await.unwrap(), 0);
    assert_eq!((c.getbit(a, 7).await.unwrap(), c.getbit(a, 100).await.unwrap()), (1, 0));
    c.set(b, [0xff_u8, 0x0f]).await.unwrap();
    assert_eq!(c.bitcount(b).await.unwrap(), 12);
    assert_eq!(c.bitcount_range(b, -1, -1).await.unwrap(), 4);
    assert_eq!(c.bitpos(b, 0).await.unwrap(), 8);
    assert_eq!(c.bitpos_range(b, 1, 1, 1).await.unwrap(), 12);
    assert_eq!(c.bitop(BitOp::Xor, to, [a, b]).await.unwrap(), 2);
    assert_eq!(c.get::<Vec<u8>>(to).await.unwrap(), [0xfe, 0x0f]);
    let operations = BitField::new().get("u8", "0").set("u8", "#1", 250);
    let operations = operations.overflow(Overflow::Fail).incrby("u8", "#1", 10);
    let replies: Vec<Option<i64>> = c.bitfield(b, operations).await.unwrap();
    assert_eq!(replies, [Some(0xff), Some(0x0f), None]);
    let reads = BitField::new().get("i8", "0");
    assert_eq!(c.bitfield_ro::<Vec<i64>>(b, reads).await.unwrap(), [-1]);

    let (x, y) = (&key("hll"), &key("hll"));
    assert!(c.pfadd(x, ["a", "b"]).await.unwrap());
    assert!(!c.pfadd(x, ["a"]).await.unwrap());
    c.pfadd(y, ["b", "c"]).await.unwrap();
    assert_eq!(c.pfcount([x, y]).await.unwrap(), 3);
    c.pfmerge(x, [y]).await.unwrap();
    assert_eq!(c.pfcount([x]).await.unwrap(), 3);
    c.set(a, "onetrip").await.unwrap();
    c.set(b, "oneship").await.unwrap();
    assert_eq!(c.lcs::<String>(a, b).await.unwrap(), "oneip");
    assert_eq!(c.lcs_len(a, b).await.unwrap(), 5);
}
