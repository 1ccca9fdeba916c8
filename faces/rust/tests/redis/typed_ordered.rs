//! The typed commands on sorted sets, streams and places, and those of scripts and the server.

use std::collections::HashMap;

use bytes::Bytes;
use onetrip::redis::Value;
use onetrip::redis::commands::*;
use onetrip_lab::redis::Settings;

use crate::support::{client, key, server};

type Scored = Vec<(String, f64)>;
type Entry = (String, HashMap<String, String>);

fn scored(members: &[(&str, f64)]) -> Scored {
    members.iter().map(|(member, score)| ((*member).to_owned(), *score)).collect()
}

#[tokio::test]
async fn sorted_sets_are_in_the_order_of_their_scores() {
    let Some(c) = client().await else { return };
    let (k, to) = (&key("z"), &key("z"));
    assert_eq!(c.zadd(k, 1.5, "a").await.unwrap(), 1);
    assert_eq!(c.zadd_multiple(k, [(2.0, "b"), (3.0, "c")]).await.unwrap(), 2);
    let higher = ZAddOptions::new().xx().gt().ch();
    assert_eq!(c.zadd_options(k, higher, [(1.0, "a"), (4.0, "c")]).await.unwrap(), 1);
    let lower = ZAddOptions::new().lt();
    assert_eq!(c.zadd_options(k, lower, [(3.0, "c")]).await.unwrap(), 0);
    assert_eq!(c.zadd_incr(k, ZAddOptions::new().nx(), 1.0, "a").await.unwrap(), None);
    assert_eq!(c.zadd_incr(k, ZAddOptions::new(), 0.5, "a").await.unwrap(), Some(2.0));
    assert_eq!(c.zincrby(k, -1.0, "a").await.unwrap(), 1.0);
    assert_eq!(c.zscore(k, "a").await.unwrap(), Some(1.0));
    assert_eq!(c.zmscore(k, ["c", "none"]).await.unwrap(), [Some(3.0), None]);
    assert_eq!((c.zcard(k).await.unwrap(), c.zcount(k, "(1", "+inf").await.unwrap()), (3, 2));
    assert_eq!(c.zrank(k, "c").await.unwrap(), Some(2));
    assert_eq!(c.zrevrank(k, "c").await.unwrap(), Some(0));
    assert_eq!(c.zrank(k, "none").await.unwrap(), None);

    assert_eq!(c.zrange::<Vec<String>>(k, 0, 1).await.unwrap(), ["a", "b"]);
    let all = scored(&[("a", 1.0), ("b", 2.0), ("c", 3.0)]);
    assert_eq!(c.zrange_withscores::<Scored>(k, 0, -1).await.unwrap(), all);
    assert_eq!(c.zrevrange::<Vec<String>>(k, 0, 0).await.unwrap(), ["c"]);
    let last = c.zrevrange_withscores::<Scored>(k, 0, 0).await.unwrap();
    assert_eq!(last, scored(&[("c", 3.0)]));
    assert_eq!(c.zrangebyscore::<Vec<String>>(k, 2, "inf").await.unwrap(), ["b", "c"]);
    assert_eq!(c.zrevrangebyscore::<Vec<String>>(k, 2, 1).await.unwrap(), ["b", "a"]);
    assert_eq!(c.zrangebyscore_withscores::<Scored>(k, 0, 9).await.unwrap(), all);
    let limited = c.zrangebyscore_limit::<Vec<String>>(k, 0, 9, 1, 1);
    assert_eq!(limited.await.unwrap(), ["b"]);
    let options = ZRangeOptions::new().byscore().rev().limit(0, 1).withscores();
    let found: Scored = c.zrange_options(k, "+inf", "-inf", options).await.unwrap();
    assert_eq!(found, scored(&[("c", 3.0)]));
    let options = ZRangeOptions::new().byscore();
    assert_eq!(c.zrangestore(to, k, 2, 3, options).await.unwrap(), 2);

    assert_eq!(c.zrandmember_count::<Vec<String>>(k, -5).await.unwrap().len(), 5);
    assert_eq!(c.zrandmember_withscores::<Scored>(k, 9).await.unwrap().len(), 3);
    assert!(c.zrandmember::<Option<String>>(k).await.unwrap().is_some());
    let (cursor, seen): (u64, Scored) = c.zscan(k, 0, ScanOptions::new()).await.unwrap();
    assert_eq!((cursor, seen), (0, all));
    assert_eq!(c.zrem(k, ["b", "none"]).await.unwrap(), 1);
    assert_eq!(c.zremrangebyscore(k, "-inf", "(3").await.unwrap(), 1);
    assert_eq!(c.zremrangebyrank(k, 0, -1).await.unwrap(), 1);
}

#[tokio::test]
async fn equal_scores_are_ordered_by_member() {
    let Some(c) = client().await else { return };
    let k = &key("lex");
    c.zadd_multiple(k, ["a", "b", "c", "d"].map(|member| (0.0, member))).await.unwrap();
    assert_eq!(c.zlexcount(k, "-", "(c").await.unwrap(), 2);
    assert_eq!(c.zrangebylex::<Vec<String>>(k, "[b", "+").await.unwrap(), ["b", "c", "d"]);
    let options = ZRangeOptions::new().bylex();
    assert_eq!(c.zrange_options::<Vec<String>>(k, "-", "[a", options).await.unwrap(), ["a"]);
    assert_eq!(c.zremrangebylex(k, "[a", "(d").await.unwrap(), 3);
}

#[tokio::test]
async fn sorted_sets_are_combined() {
    let Some(c) = client().await else { return };
    let (a, b, to) = (&key("z"), &key("z"), &key("z"));
    c.zadd_multiple(a, [(1.0, "x"), (2.0, "y")]).await.unwrap();
    c.zadd_multiple(b, [(10.0, "y"), (20.0, "z")]).await.unwrap();
    let sum = ZCombine::new;
    assert_eq!(c.zinter::<Vec<String>>([a, b], sum()).await.unwrap(), ["y"]);
    let weighed = ZCombine::new().weights([2.0, 1.0]).aggregate(Aggregate::Min);
    let found: Scored = c.zinter_withscores([a, b], weighed.clone()).await.unwrap();
    assert_eq!(found, scored(&[("y", 4.0)]));
    assert_eq!(c.zinterstore(to, [a, b], weighed).await.unwrap(), 1);
    assert_eq!(c.zintercard([a, b]).await.unwrap(), 1);
    assert_eq!(c.zunion::<Vec<String>>([a, b], sum()).await.unwrap(), ["x", "y", "z"]);
    let max = ZCombine::new().aggregate(Aggregate::Max);
    let found: Scored = c.zunion_withscores([a, b], max).await.unwrap();
    assert_eq!(found, scored(&[("x", 1.0), ("y", 10.0), ("z", 20.0)]));
    assert_eq!(c.zunionstore(to, [a, b], sum()).await.unwrap(), 3);
    assert_eq!(c.zdiff::<Vec<String>>([a, b]).await.unwrap(), ["x"]);
    let found: Scored = c.zdiff_withscores([a, b]).await.unwrap();
    assert_eq!(found, scored(&[("x", 1.0)]));
    assert_eq!(c.zdiffstore(to, [a, b]).await.unwrap(), 1);
}

#[tokio::test]
async fn lowest_and_highest_members_are_taken() {
    let Some(c) = client().await else { return };
    let (k, other) = (&key("pop"), &key("pop"));
    c.zadd_multiple(k, (1..=6).map(|n| (f64::from(n), n))).await.unwrap();
    assert_eq!(c.zpopmin::<Scored>(k, 1).await.unwrap(), scored(&[("1", 1.0)]));
    assert_eq!(c.zpopmax::<Scored>(k, 1).await.unwrap(), scored(&[("6", 6.0)]));
    let popped: (String, Scored) = c.zmpop([other, k], End::Min, 1).await.unwrap();
    assert_eq!(popped, (k.clone(), scored(&[("2", 2.0)])));
    let popped: (String, String, f64) = c.bzpopmin([other, k], 30.0).await.unwrap();
    assert_eq!(popped, (k.clone(), "3".into(), 3.0));
    let popped: (String, String, f64) = c.bzpopmax([k], 30.0).await.unwrap();
    assert_eq!(popped.1, "5");
    let popped: (String, Scored) = c.bzmpop(30.0, [k], End::Max, 9).await.unwrap();
    assert_eq!(popped.1, scored(&[("4", 4.0)]));
    let nothing: Option<(String, String, f64)> = c.bzpopmin([k], 0.01).await.unwrap();
    assert_eq!(nothing, None);
}

#[tokio::test]
async fn streams_are_written_read_and_trimmed() {
    let Some(c) = client().await else { return };
    let k = &key("x");
    let none = XAddOptions::new().nomkstream();
    let id: Option<String> = c.xadd_options(k, none, "*", [("f", "v")]).await.unwrap();
    assert_eq!(id, None);
    for n in 1..=5 {
        assert_eq!(
            c.xadd::<String>(k, format!("{n}-0"), [("n", n)]).await.unwrap(),
            format!("{n}-0")
        );
    }
    assert_eq!(c.xlen(k).await.unwrap(), 5);
    let entries: Vec<Entry> = c.xrange_count(k, "2", "+", 1).await.unwrap();
    assert_eq!(entries, [("2-0".into(), HashMap::from([("n".into(), "2".into())]))]);
    assert_eq!(c.xrange::<Vec<Entry>>(k, "-", "+").await.unwrap().len(), 5);
    assert_eq!(c.xrevrange::<Vec<Entry>>(k, "+", "-").await.unwrap()[0].0, "5-0");
    assert_eq!(c.xrevrange_count::<Vec<Entry>>(k, "+", "-", 2).await.unwrap().len(), 2);
    let read: Vec<(String, Vec<Entry>)> = c.xread([(k, "3")]).await.unwrap();
    assert_eq!((read[0].0.as_str(), read[0].1.len()), (k.as_str(), 2));
    let nothing: Option<Vec<(String, Vec<Entry>)>> = c.xread([(k, "$")]).await.unwrap();
    assert_eq!(nothing, None);
    let waits = XReadOptions::new().count(1).block(30_000);
    let waits = c.xread_options::<Vec<(String, Vec<Entry>)>>(waits, [(k, "5-0")]);
    let trim = XAddOptions::new().trim(Trim::maxlen(4));
    c.xadd_options::<String>(k, trim, "6-0", [("n", 6)]).await.unwrap();
    assert_eq!(waits.await.unwrap()[0].1[0].0, "6-0");
    assert_eq!(c.xdel(k, ["6-0", "9-9"]).await.unwrap(), 1);
    assert_eq!(c.xtrim(k, Trim::minid("4")).await.unwrap(), 1);
    assert_eq!(c.xtrim(k, Trim::maxlen_about(1).limit(10)).await.unwrap(), 0);
    assert_eq!(c.xtrim(k, Trim::minid_about("5")).await.unwrap(), 0);
    let info: HashMap<String, Value> = c.xinfo_stream(k).await.unwrap();
    assert_eq!(info["length"], Value::Int(2));
}

#[tokio::test]
async fn groups_share_a_stream() {
    let Some(c) = client().await else { return };
    let k = &key("g");
    assert!(c.xgroup_create(k, "g", "$").await.is_err());
    c.xgroup_create_mkstream(k, "g", "0").await.unwrap();
    assert!(c.xgroup_createconsumer(k, "g", "me").await.unwrap());
    assert!(!c.xgroup_createconsumer(k, "g", "me").await.unwrap());
    for n in 1..=3 {
        c.xadd::<()>(k, format!("{n}-0"), [("n", n)]).await.unwrap();
    }
    type Read = Vec<(String, Vec<Entry>)>;
    let two = XReadOptions::new().count(2);
    let read: Read = c.xreadgroup("g", "me", two, [(k, ">")]).await.unwrap();
    assert_eq!(read[0].1.len(), 2);
    let noack = XReadOptions::new().noack();
    let read: Read = c.xreadgroup("g", "me", noack, [(k, ">")]).await.unwrap();
    assert_eq!(read[0].1.len(), 1);
    let pending: (u64, String, String, Vec<(String, u64)>) = c.xpending(k, "g").await.unwrap();
    assert_eq!(pending, (2, "1-0".into(), "2-0".into(), vec![("me".into(), 2)]));
    let listed: Vec<(String, String, u64, u64)> =
        c.xpending_range(k, "g", "-", "+", 10).await.unwrap();
    assert_eq!((listed[0].0.as_str(), listed[0].3), ("1-0", 1));
    let claimed: Vec<Entry> = c.xclaim(k, "g", "you", 0, ["1-0"]).await.unwrap();
    assert_eq!(claimed[0].0, "1-0");
    let justid = XClaimOptions::new().count(10).justid();
    let claimed: (String, Vec<String>, Vec<String>) =
        c.xautoclaim(k, "g", "you", 0, "0", justid).await.unwrap();
    assert_eq!(claimed.1, ["1-0", "2-0"]);
    assert_eq!(c.xack(k, "g", ["1-0", "9-9"]).await.unwrap(), 1);
    assert_eq!(c.xinfo_groups::<Vec<HashMap<String, Value>>>(k).await.unwrap().len(), 1);
    let consumers: Vec<HashMap<String, Value>> = c.xinfo_consumers(k, "g").await.unwrap();
    assert_eq!(consumers.len(), 2);
    c.xgroup_setid(k, "g", "0").await.unwrap();
    assert_eq!(c.xgroup_delconsumer(k, "g", "you").await.unwrap(), 1);
    assert!(c.xgroup_destroy(k, "g").await.unwrap());
}

#[tokio::test]
async fn places_are_found_around_others() {
    let Some(c) = client().await else { return };
    let (k, to) = (&key("geo"), &key("geo"));
    let places = [(13.361_389, 38.115_556, "Palermo"), (15.087_269, 37.502_669, "Catania")];
    assert_eq!(c.geoadd(k, places).await.unwrap(), 2);
    let far = c.geodist(k, "Palermo", "Catania", Unit::Kilometres).await.unwrap();
    assert!((166.0..167.0).contains(&far.unwrap()), "{far:?}");
    assert_eq!(c.geodist(k, "Palermo", "none", Unit::Miles).await.unwrap(), None);
    let hashes: Vec<Option<String>> = c.geohash(k, ["Palermo", "none"]).await.unwrap();
    assert_eq!(hashes, [Some("sqc8b49rny0".into()), None]);
    let at = c.geopos(k, ["Catania", "none"]).await.unwrap();
    assert!((at[0].unwrap().0 - 15.087).abs() < 0.001 && at[1].is_none());
    let near = GeoArea::around("Palermo").radius(100.0, Unit::Kilometres);
    let found: Vec<String> = c.geosearch(k, near, GeoOptions::new()).await.unwrap();
    assert_eq!(found, ["Palermo"]);
    let area = GeoArea::around_place(15.0, 37.0).within(400_000.0, 400_000.0, Unit::Metres);
    let all = GeoOptions::new().asc().count(9).withdist().withhash().withcoord();
    let found: Vec<(String, f64, i64, (f64, f64))> =
        c.geosearch(k, area.clone(), all).await.unwrap();
    assert_eq!(found[0].0, "Catania");
    let stored = GeoOptions::new().desc().count_any(1).storedist();
    assert_eq!(c.geosearchstore(to, k, area, stored).await.unwrap(), 1);
}

#[tokio::test]
async fn scripts_and_functions_run_at_the_server() {
    let Some(server) = server(Settings::default()) else { return };
    let c = onetrip::redis::Client::connect(&server.url()).await.unwrap();
    let text = "return {KEYS[1], ARGV[1]}";
    let reply: (String, i64) = c.eval(text, ["k"], [7]).await.unwrap();
    assert_eq!(reply, ("k".into(), 7));
    let none: [&str; 0] = [];
    assert_eq!(c.eval_ro::<i64>("return 1", none, none).await.unwrap(), 1);
    let sha: String = c.script_load(text).await.unwrap();
    let reply: (String, i64) = c.evalsha(&sha, ["k"], [8]).await.unwrap();
    assert_eq!(reply.1, 8);
    c.evalsha_ro::<()>(&sha, ["k"], [8]).await.unwrap();
    assert_eq!(c.script_exists([sha.as_str(), "x"]).await.unwrap(), [true, false]);
    c.script_flush().await.unwrap();
    assert_eq!(c.script_kill().await.unwrap_err().redis_code(), Some("NOTBUSY"));

    let code = "#!lua name=lib\nredis.register_function{function_name='f', \
                callback=function(keys, args) return args[1] end, flags={'no-writes'}}";
    assert_eq!(c.function_load::<String>(code).await.unwrap(), "lib");
    assert_eq!(c.function_load_replace::<String>(code).await.unwrap(), "lib");
    assert_eq!(c.fcall::<i64>("f", ["k"], [5]).await.unwrap(), 5);
    assert_eq!(c.fcall_ro::<i64>("f", ["k"], [6]).await.unwrap(), 6);
    assert_eq!(c.function_list::<Vec<HashMap<String, Value>>>().await.unwrap().len(), 1);
    let dump: Bytes = c.function_dump().await.unwrap();
    c.function_delete("lib").await.unwrap();
    c.function_restore(dump).await.unwrap();
    c.function_flush().await.unwrap();
    assert_eq!(c.function_kill().await.unwrap_err().redis_code(), Some("NOTBUSY"));
}

#[tokio::test]
async fn servers_are_asked_and_told() {
    let Some(server) = server(Settings::default()) else { return };
    let c = onetrip::redis::Client::connect(&server.url()).await.unwrap();
    c.ping().await.unwrap();
    assert_eq!(c.echo::<String>("x").await.unwrap(), "x");
    c.set("k", "v").await.unwrap();
    assert_eq!(c.dbsize().await.unwrap(), 1);
    assert!(c.memory_usage("k").await.unwrap().is_some());
    assert_eq!(c.memory_usage("none").await.unwrap(), None);
    c.config_set("maxmemory", "100mb").await.unwrap();
    let settings: HashMap<String, String> = c.config_get("maxmemory").await.unwrap();
    assert_eq!(settings["maxmemory"], "104857600");
    c.config_resetstat().await.unwrap();
    let id = c.client_id().await.unwrap();
    assert!(c.client_list::<String>().await.unwrap().contains(&format!("id={id} ")));
    assert!(c.client_info::<String>().await.unwrap().contains(&format!("id={id} ")));
    c.client_getname::<Option<String>>().await.unwrap();
    assert!(!c.client_unblock(id).await.unwrap());
    assert_eq!(c.client_kill_id(i64::MAX).await.unwrap(), 0);
    c.client_pause(1).await.unwrap();
    c.client_unpause().await.unwrap();
    assert!(c.command_count().await.unwrap() > 200);
    assert!(c.info::<String>().await.unwrap().contains("redis_version"));
    assert!(c.info_section::<String>("memory").await.unwrap().contains("used_memory"));
    assert!(c.lastsave().await.unwrap() > 0);
    assert!(c.time().await.unwrap().0 > 1_700_000_000);
    assert!(matches!(c.role::<Value>().await.unwrap(), Value::Array(_)));
    c.memory_stats::<HashMap<String, Value>>().await.unwrap();
    c.memory_doctor::<String>().await.unwrap();
    c.latency_latest::<Vec<Value>>().await.unwrap();
    c.latency_reset().await.unwrap();
    c.slowlog_get::<Vec<Value>>(-1).await.unwrap();
    c.slowlog_len().await.unwrap();
    c.slowlog_reset().await.unwrap();
    assert!(!c.acl_list::<Vec<String>>().await.unwrap().is_empty());
    c.acl_whoami::<String>().await.unwrap();
    c.swapdb(0, 1).await.unwrap();
    assert_eq!(c.dbsize().await.unwrap(), 0);
    c.flushdb().await.unwrap();
    c.flushall().await.unwrap();
    c.save().await.unwrap();
    c.bgsave::<String>().await.unwrap();
    assert_eq!(c.randomkey::<Option<String>>().await.unwrap(), None);
}

#[tokio::test]
async fn publishing_tells_how_many_heard() {
    let Some(c) = client().await else { return };
    let channel = &key("channel");
    assert_eq!(c.publish(channel, "m").await.unwrap(), 0);
    assert_eq!(c.spublish(channel, "m").await.unwrap(), 0);
    let heard = c.subscribe([channel]).await.unwrap();
    assert_eq!(c.publish(channel, "m").await.unwrap(), 1);
    let channels: Vec<String> = c.pubsub_channels(channel).await.unwrap();
    assert_eq!(channels.iter().collect::<Vec<_>>(), [channel]);
    let counts: HashMap<String, u64> = c.pubsub_numsub([channel]).await.unwrap();
    assert_eq!(counts[channel], 1);
    c.pubsub_numpat().await.unwrap();
    assert!(c.pubsub_shardchannels::<Vec<String>>(channel).await.unwrap().is_empty());
    c.pubsub_shardnumsub::<HashMap<String, u64>>([channel]).await.unwrap();
    drop(heard);
}

#[tokio::test]
async fn typed_commands_are_the_same_in_pipelines() {
    let Some(c) = client().await else { return };
    let k = &key("p");
    let pipeline = c.pipeline();
    pipeline.rpush(k, ["a", "b"]);
    let len = pipeline.llen(k);
    let all = pipeline.lrange::<Vec<String>>(k, 0, -1);
    let replies = pipeline.run().await.unwrap();
    assert_eq!(replies.get(len).unwrap(), 2);
    assert_eq!(replies.get(all).unwrap(), ["a", "b"]);
}
