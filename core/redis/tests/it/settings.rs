//! The rules of settings, and the table that is generated from them.

use onetrip_redis::client::settings::broken;

#[path = "../../examples/rules.rs"]
mod written;

#[test]
fn the_rules_of_the_node_package_are_those_that_are_written_from_these() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../faces/node/src/redis/rule-table.ts");
    let written = std::fs::read_to_string(path).unwrap();
    assert!(written == written::table(), "it is out of date: run scripts/keywords");
}

/// P51.
#[test]
fn settings_of_redis_that_say_nothing_where_they_stand_are_refused_by_name() {
    let says = |told: &str| {
        let said = |name: &str| {
            let mut pairs = told.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.find(|pair| pair.0 == name).map(|pair| pair.1)
        };
        broken(said)
    };
    for (told, names) in [
        ("cache=1 protocol=2", "protocol=2"),
        ("cache=1 cluster=1", "cache is not for clusters"),
        ("db=3 cluster=1", "database 0 alone"),
        ("replica_reads=1", "add cluster=1"),
        ("reads=replica", "redis+sentinel://"),
        ("sentinel_password=x", "redis+sentinel://"),
        ("master=m cluster=1", "Sentinels know no clusters"),
        ("path=/s host=h", "leave out one"),
        ("path=/s sslmode=require", "Unix socket has no TLS"),
        ("rediss=1 sslmode=disable", "rediss:// asks for TLS"),
        ("sslmode=disable sslrootcert=r", "rediss://"),
        ("sslmode=disable sslcert=c sslkey=k", "rediss://"),
        ("sslmode=require sslkey=k sslcertmode=allow", "sslcert"),
    ] {
        assert!(says(told).is_some_and(|says| says.contains(names)), "{told}");
    }
    for told in [
        "",
        "cache=1 protocol=3",
        "replica_reads=1 cluster=1",
        "master=m reads=replica sentinel_password=x",
        "sslmode=require sslrootcert=r sslcert=c sslkey=k sslcertmode=allow",
        "path=/s sslmode=disable",
        "rediss=1 sslmode=require",
    ] {
        assert_eq!(says(told), None, "{told}");
    }
}
