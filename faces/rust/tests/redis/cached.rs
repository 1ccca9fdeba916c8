//! Client-side caching against a real server, with other clients that write.

use std::time::Duration;

use onetrip::redis::{Client, Command, Config, Protocol, Script, Value, commands::*};
use onetrip::{CacheMetrics, Kind, Outcome};
use onetrip_lab::redis::{Server, Settings};

use crate::support::{config, key, server};

const MIB: usize = 1 << 20;

/// A client with a cache, and one without.
async fn both() -> Option<(Client, Client)> {
    both_with(&config()?).await
}

async fn both_with(config: &Config) -> Option<(Client, Client)> {
    let cached = Client::connect_with(&config.clone().cache(MIB)).await.unwrap();
    assert!(of(&cached).is_on);
    Some((cached, Client::connect_with(config).await.unwrap()))
}

/// The same on a private server, whose counters and connections are of this test alone.
async fn both_alone() -> Option<(Server, Client, Client)> {
    let server = server(Settings::default())?;
    let (cached, other) = both_with(&server.url().parse().unwrap()).await?;
    Some((server, cached, other))
}

fn of(client: &Client) -> CacheMetrics {
    client.metrics().cache.unwrap()
}

/// Waits until this holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(600), async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    });
    assert!(waited.await.is_ok(), "it never came: {what}");
}

async fn get(client: &Client, key: &str) -> Option<String> {
    client.get(key).await.unwrap()
}

/// How often the server has run GET.
async fn gets(client: &Client) -> u64 {
    let info: String = client.cmd("INFO").arg("commandstats").send().await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn what_is_in_the_cache_costs_no_trip() {
    let Some((cached, other)) = both().await else { return };
    let (name, list) = (key("cached"), key("cached"));
    other.set(&name, "x").await.unwrap();
    other.rpush(&list, ["a", "b"]).await.unwrap();
    let read = async || {
        let name: Option<String> = cached.get(&name).await.unwrap();
        let list: Vec<String> = cached.lrange(&list, 0, -1).await.unwrap();
        let none: Option<String> = cached.get("cached:none").await.unwrap();
        (name.unwrap(), list, none)
    };
    let first = read().await;
    assert_eq!(first, ("x".into(), vec!["a".into(), "b".into()], None));
    let before = cached.metrics().counts;
    for _ in 0..100 {
        assert_eq!(read().await, first);
    }
    let after = cached.metrics().counts;
    assert_eq!((after.trips, after.bytes_sent), (before.trips, before.bytes_sent));
    assert_eq!((of(&cached).hits, of(&cached).misses), (300, 3));
}

#[tokio::test]
async fn what_another_client_writes_is_seen_once_the_server_says_so() {
    let Some((cached, other)) = both().await else { return };
    let key = key("cached");
    other.set(&key, 0).await.unwrap();
    for n in 1..=50 {
        assert_eq!(get(&cached, &key).await, Some((n - 1).to_string()));
        other.set(&key, n).await.unwrap();
        until("the new value", async || get(&cached, &key).await == Some(n.to_string())).await;
        // Once seen, the old one never comes back.
        assert_eq!(get(&cached, &key).await, Some(n.to_string()));
    }
    assert!(of(&cached).invalidations >= 50);
    other.del([&key]).await.unwrap();
    until("the end of the key", async || get(&cached, &key).await.is_none()).await;
}

#[tokio::test]
async fn a_caller_that_reads_nothing_but_the_cache_hears_of_changes() {
    let Some((cached, other)) = both().await else { return };
    let key = key("cached");
    other.set(&key, 0).await.unwrap();
    get(&cached, &key).await;
    other.set(&key, 1).await.unwrap();
    // Its runtime has one thread, and nothing else makes this task wait.
    let mut reads = 0;
    while get(&cached, &key).await.as_deref() == Some("0") {
        reads += 1;
        assert!(reads < 10_000_000, "it never hears");
    }
}

#[tokio::test]
async fn a_flush_by_another_client_empties_the_cache() {
    let Some((_server, cached, other)) = both_alone().await else { return };
    other.set("a", 1).await.unwrap();
    assert_eq!(get(&cached, "a").await.as_deref(), Some("1"));
    other.cmd("FLUSHALL").send::<()>().await.unwrap();
    until("the flush", async || get(&cached, "a").await.is_none()).await;
}

#[tokio::test]
async fn a_key_that_expires_leaves_the_cache() {
    let Some((cached, other)) = both().await else { return };
    let key = key("cached");
    other.cmd("SET").arg(&key).arg("x").arg("PX").arg(50).send::<()>().await.unwrap();
    assert_eq!(get(&cached, &key).await.as_deref(), Some("x"));
    until("the end of the key", async || get(&cached, &key).await.is_none()).await;
}

/// Writes a key in one way, and resolves when its caller has the reply.
async fn write(client: &Client, way: &str, key: &str, n: u32) {
    let set = || Command::new("SET").arg(key).arg(n);
    let script = Script::new("return redis.call('set', KEYS[1], ARGV[1])");
    match way {
        "shared" => client.set(key, n).await.unwrap(),
        "alone" => client.alone().set(key, n).await.unwrap(),
        "uncached" => client.uncached().set(key, n).await.unwrap(),
        "repeatable" => client.repeatable().set(key, n).await.unwrap(),
        "pipeline" => {
            let pipeline = client.pipeline();
            pipeline.get::<Option<String>>("cached:none");
            pipeline.set(key, n);
            pipeline.run().await.unwrap();
        }
        "atomic" => {
            let atomic = client.atomic();
            atomic.set(key, n);
            atomic.run().await.unwrap();
        }
        "script" => client.script::<()>(script.call([key], [n])).await.unwrap(),
        "EVAL" => {
            let text = "return redis.call('set', ARGV[1], ARGV[2])";
            let eval = client.cmd("EVAL").arg(text).arg(0).arg(key).arg(n);
            eval.send::<()>().await.unwrap();
        }
        "session" => client.session().await.unwrap().set(key, n).await.unwrap(),
        "session pipeline" => {
            let session = client.session().await.unwrap();
            let pipeline = session.pipeline();
            pipeline.set(key, n);
            pipeline.run().await.unwrap();
        }
        "session atomic" => {
            let session = client.session().await.unwrap();
            session.watch([key]).await.unwrap();
            let atomic = session.atomic();
            atomic.set(key, n);
            atomic.run().await.unwrap();
        }
        "MULTI by hand" => {
            let session = client.session().await.unwrap();
            session.cmd("MULTI").send::<()>().await.unwrap();
            session.cmd("SET").arg(key).arg(n).send::<Value>().await.unwrap();
            session.cmd("EXEC").send::<Value>().await.unwrap();
        }
        "stream" => {
            let mut stream = client.stream::<(), _>((0..3).map(|_| set()));
            // The first reply, while others are on their way.
            stream.next().await.unwrap().unwrap();
        }
        "rename" => {
            let from = format!("{key}:from");
            client.set(&from, n).await.unwrap();
            client.cmd("RENAME").arg(&from).arg(key).send::<()>().await.unwrap();
        }
        "blocking" => {
            let (from, to) = (format!("{key}:list"), format!("{key}:to"));
            client.rpush(&from, [n]).await.unwrap();
            let moved = client.cmd("BLMOVE").arg(&from).arg(&to).arg("LEFT").arg("LEFT").arg(1);
            moved.send::<String>().await.unwrap();
            let sort = client.cmd("SET").arg(key).arg(n);
            sort.send::<()>().await.unwrap();
        }
        other => panic!("{other}"),
    }
}

const WAYS: [&str; 15] = [
    "shared",
    "alone",
    "uncached",
    "repeatable",
    "pipeline",
    "atomic",
    "script",
    "EVAL",
    "session",
    "session pipeline",
    "session atomic",
    "MULTI by hand",
    "stream",
    "rename",
    "blocking",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_sees_what_it_wrote_whichever_way() {
    let Some((cached, _)) = both().await else { return };
    let key = key("cached");
    cached.set(&key, 0).await.unwrap();
    // Others read the same key all the time, so that it is cached, or asked for, at any moment.
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (cached, key) = (cached.clone(), key.clone());
            tokio::spawn(async move {
                loop {
                    get(&cached, &key).await;
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for n in 1..=40 * WAYS.len() as u32 {
        let way = WAYS[n as usize % WAYS.len()];
        write(&cached, way, &key, n).await;
        assert_eq!(get(&cached, &key).await, Some(n.to_string()), "{way}");
    }
    assert!(of(&cached).hits > 0);
    readers.iter().for_each(|reader| reader.abort());
}

#[tokio::test]
async fn a_read_behind_an_unanswered_write_sees_it() {
    let Some((cached, _)) = both().await else { return };
    let key = key("cached");
    for n in 0..100 {
        get(&cached, &key).await;
        let old = cached.uncached().get::<Option<String>>(&key);
        let joined = cached.get::<Option<String>>(&key);
        let written = cached.set(&key, n);
        let read = cached.get::<Option<String>>(&key);
        let again = cached.get::<Option<String>>(&key);
        assert_eq!(read.await.unwrap(), Some(n.to_string()));
        assert_eq!(again.await.unwrap(), Some(n.to_string()));
        written.await.unwrap();
        assert_eq!(old.await.unwrap(), joined.await.unwrap());
    }
}

#[tokio::test]
async fn what_many_ask_for_at_once_is_asked_for_once() {
    let Some((_server, cached, other)) = both_alone().await else { return };
    other.set("a", "x").await.unwrap();
    let replies: Vec<_> = (0..100).map(|_| cached.get::<String>("a")).collect();
    for reply in replies {
        assert_eq!(reply.await.unwrap(), "x");
    }
    assert_eq!(gets(&other).await, 1);
    assert_eq!((of(&cached).misses, of(&cached).joined), (1, 99));
}

#[tokio::test]
async fn callers_that_joined_are_served_although_the_first_is_gone() {
    let Some((_server, cached, other)) = both_alone().await else { return };
    other.set("a", "x").await.unwrap();
    for _ in 0..50 {
        let first = cached.get::<String>("a");
        let (second, third) = (cached.get::<String>("a"), cached.get::<String>("a"));
        drop((first, second));
        assert_eq!(third.await.unwrap(), "x");
        other.set("a", "x").await.unwrap();
        until("the push", async || of(&cached).entries == 0).await;
    }
}

#[tokio::test]
async fn each_caller_of_one_fetch_has_its_own_deadline() {
    let Some((_server, cached, other)) = both_alone().await else { return };
    let hurried = cached.timeout(Duration::from_millis(20));
    other.set("a", "x").await.unwrap();
    for first_is_hurried in [true, false] {
        other.set("a", "x").await.unwrap();
        until("the push", async || of(&cached).entries == 0).await;
        let pause = other.cmd("CLIENT PAUSE").arg(200);
        pause.send::<()>().await.unwrap();
        let (first, second) = match first_is_hurried {
            true => (hurried.get::<String>("a"), cached.get::<String>("a")),
            false => (cached.get::<String>("a"), hurried.get::<String>("a")),
        };
        let (late, patient) = if first_is_hurried { (first, second) } else { (second, first) };
        let late = late.await.unwrap_err();
        assert_eq!(late.kind(), Kind::Timeout, "{late}");
        assert_eq!(late.outcome() == Outcome::NotSent, !first_is_hurried);
        assert_eq!(patient.await.unwrap(), "x");
    }
}

#[tokio::test]
async fn an_error_is_for_its_caller_and_never_kept() {
    let Some((cached, other)) = both().await else { return };
    let key = key("cached");
    other.rpush(&key, ["x"]).await.unwrap();
    let replies: Vec<_> = (0..3).map(|_| cached.get::<String>(&key)).collect();
    for reply in replies {
        let error = reply.await.unwrap_err();
        assert_eq!(error.redis_code(), Some("WRONGTYPE"), "{error}");
    }
    assert_eq!(of(&cached).entries, 0);
    cached.del([&key]).await.unwrap();
    assert_eq!(get(&cached, &key).await, None);
}

#[tokio::test]
async fn a_lost_connection_empties_the_cache() {
    let Some((_server, cached, other)) = both_alone().await else { return };
    for n in 0..5 {
        cached.set("a", n).await.unwrap();
        assert_eq!(get(&cached, "a").await, Some(n.to_string()));
        let kill = other.cmd("CLIENT KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes");
        assert!(kill.send::<i64>().await.unwrap() > 0);
        // Nobody tells this client.
        other.set("a", n + 100).await.unwrap();
        let lost = n + 1;
        until("the loss", async || cached.metrics().lost == lost).await;
        assert_eq!(of(&cached).entries, 0);
        assert_eq!(get(&cached, "a").await, Some((n + 100).to_string()));
        until("the next connection", async || of(&cached).is_on).await;
    }
}

#[tokio::test]
async fn without_tracking_nothing_is_kept_and_metrics_say_so() {
    let Some(server) = server(Settings::default()) else { return };
    let config: Config = server.url().parse().unwrap();
    let admin = Client::connect_with(&config).await.unwrap();
    assert_eq!(admin.metrics().cache, None);
    let user = admin.cmd("ACL SETUSER").arg("till").arg("on").arg(">secret").arg("~*");
    user.arg("+@all").arg("-client|tracking").send::<()>().await.unwrap();
    let refused = config.clone().user("till").password("secret");
    let client = Client::connect_with(&refused.cache(MIB)).await.unwrap();
    for n in 0..3 {
        admin.set("a", n).await.unwrap();
        assert_eq!(get(&client, "a").await, Some(n.to_string()));
    }
    assert_eq!(of(&client), CacheMetrics::default());
    // Who asks for RESP2 can have none.
    let contradictory = config.protocol(Protocol::Resp2).cache(MIB);
    let error = Client::connect_with(&contradictory).await.unwrap_err();
    assert!(error.to_string().contains("cache needs RESP3"), "{error}");
}

#[tokio::test]
async fn uncached_asks_the_server() {
    let Some((_server, cached, other)) = both_alone().await else { return };
    cached.set("a", "x").await.unwrap();
    for _ in 0..3 {
        assert_eq!(get(&cached.uncached(), "a").await.as_deref(), Some("x"));
        assert_eq!(get(&cached.alone(), "a").await.as_deref(), Some("x"));
    }
    assert_eq!(gets(&other).await, 6);
    assert_eq!(of(&cached).entries, 0);
}

#[tokio::test]
async fn the_cache_has_no_more_bytes_than_it_may() {
    let Some(config) = config() else { return };
    let client = Client::connect_with(&config.cache(64 << 10)).await.unwrap();
    let prefix = key("cached");
    for n in 0..1_000 {
        let key = format!("{prefix}:{n}");
        client.set(&key, "x".repeat(n)).await.unwrap();
        assert_eq!(get(&client, &key).await.map(|it| it.len()), Some(n));
        assert!(of(&client).bytes <= 64 << 10);
    }
    let CacheMetrics { evicted, entries, .. } = of(&client);
    assert!(evicted > 0 && entries > 10);
}

#[tokio::test]
async fn a_closed_client_answers_nothing_from_its_cache() {
    let Some((cached, _)) = both().await else { return };
    let key = key("cached");
    cached.set(&key, "x").await.unwrap();
    get(&cached, &key).await;
    cached.close();
    let error = cached.get::<String>(&key).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
}

#[tokio::test]
async fn a_cache_is_refused_where_it_cannot_be() {
    let config: Config = "redis://localhost/?cluster=1&cache=64MiB".parse().unwrap();
    let error = Client::connect_with(&config).await.unwrap_err();
    assert_eq!(error.code(), "config");
    assert!(error.to_string().contains("cache is not for clusters"), "{error}");
    for size in ["64MB", "-1", "MiB", "1.5MiB", "99999999999GiB"] {
        let error = format!("redis://localhost/?cache={size}").parse::<Config>().unwrap_err();
        assert!(error.to_string().contains("64MiB"), "{error}");
    }
    for (size, bytes) in [("0", 0), ("1000", 1_000), ("2KiB", 2_048), ("1GiB", 1 << 30)] {
        let config: Config = format!("redis://127.0.0.1:6379/?cache={size}").parse().unwrap();
        assert_eq!(config, "redis://127.0.0.1:6379".parse::<Config>().unwrap().cache(bytes));
    }
}
