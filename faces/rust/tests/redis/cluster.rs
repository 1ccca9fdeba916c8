//! A cluster.

use onetrip::Outcome;
use onetrip::redis::{Client, Config, Script};
use onetrip_lab::redis::{Cluster, ClusterSettings, Settings, found_or_skipped};

pub(crate) fn start(masters: usize, replicas: usize) -> Option<Cluster> {
    let installation = Some(found_or_skipped()?);
    let node = Settings { installation, ..Settings::default() };
    let settings = ClusterSettings { masters, replicas, node, ..ClusterSettings::default() };
    Some(Cluster::start(&settings).unwrap())
}

pub(crate) async fn connect(cluster: &Cluster) -> Client {
    let config: Config = cluster.urls()[0].parse().unwrap();
    Client::connect_with(&config.cluster(true)).await.unwrap()
}

/// P50.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_a_password_is_that_user_at_each_node() {
    let Some(installation) = found_or_skipped() else { return };
    let node =
        Settings { installation: Some(installation), password: false, ..Settings::default() };
    let node = node.user("limited", "on nopass ~* &* +@all");
    let settings = ClusterSettings { masters: 3, replicas: 0, node, ..ClusterSettings::default() };
    let cluster = Cluster::start(&settings).unwrap();
    let config: Config = cluster.urls()[0].parse().unwrap();
    let client = Client::connect_with(&config.cluster(true).user("limited")).await.unwrap();
    for key in ["a", "b", "c", "d", "e", "f"] {
        let session = client.session_for(key).await.unwrap();
        assert_eq!(session.cmd("ACL WHOAMI").send::<String>().await.unwrap(), "limited");
        // What all share is another connection.
        client.cmd("SET").arg(key).arg(1).send::<()>().await.unwrap();
        let all: String = session.cmd("CLIENT LIST").send().await.unwrap();
        let is_theirs = |line: &str| line.contains("cmd=set ") && line.contains("user=limited ");
        assert!(all.lines().any(is_theirs), "{all}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_go_where_their_keys_are() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let replies: Vec<_> =
        (0..1_000).map(|n| client.cmd("SET").arg(format!("key:{n}")).arg(n).send::<()>()).collect();
    for reply in replies {
        reply.await.unwrap();
    }
    let pipeline = client.pipeline();
    let gets: Vec<_> =
        (0..1_000).map(|n| pipeline.cmd("GET").arg(format!("key:{n}")).send::<i64>()).collect();
    let replies = pipeline.run().await.unwrap();
    for (n, get) in gets.into_iter().enumerate() {
        assert_eq!(replies.get(get).unwrap(), n as i64);
    }
    // Split over all nodes, and put together again.
    assert_eq!(client.cmd("DBSIZE").send::<i64>().await.unwrap(), 1_000);
    let values: Vec<i64> =
        client.cmd("MGET").args((0..100).map(|n| format!("key:{n}"))).send().await.unwrap();
    assert_eq!(values, (0..100).collect::<Vec<i64>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_atomic_list_with_a_script_that_its_node_forgot_runs_as_a_whole() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    for n in 1..=5 {
        client.script::<i64>(script.call(["{a}n"], [0])).await.unwrap();
        client.cmd("SCRIPT FLUSH").send::<()>().await.unwrap();
        let list = client.atomic();
        let added = list.cmd("INCR").arg("{a}m").send::<i64>();
        let called = list.script::<i64>(script.call(["{a}n"], [1]));
        let replies = list.run().await.unwrap();
        assert_eq!((replies.get(added).unwrap(), replies.get(called).unwrap()), (n, n));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_two_slots_are_refused_by_name() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let error = client.cmd("SINTER").arg("left").arg("right").send::<()>().await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), ("cross_slot", Outcome::NotSent));
    assert!(error.to_string().contains("left") && error.to_string().contains("right"), "{error}");
    let list = client.atomic();
    let _ = list.cmd("SET").arg("left").arg(1).send::<()>();
    let _ = list.cmd("SET").arg("right").arg(1).send::<()>();
    assert_eq!(list.run().await.unwrap_err().code(), "cross_slot");
    let list = client.atomic();
    let _ = list.cmd("SET").arg("{a}left").arg(1).send::<()>();
    let get = list.cmd("GET").arg("{a}left").send::<i64>();
    assert_eq!(list.run().await.unwrap().get(get).unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_takes_its_commands_along_in_order() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let slot = 5061; // That of `bar`.
    let from = cluster.master_of(slot).unwrap();
    let to = (from + 1) % 3;
    for n in 1..=100 {
        assert_eq!(client.cmd("INCR").arg("{bar}n").send::<i64>().await.unwrap(), n);
    }
    let moving = cluster.begin_move(slot, from, to).unwrap();
    // Some keys are on the old node, and some on the new one: ASK.
    assert_eq!(client.cmd("INCR").arg("{bar}new").send::<i64>().await.unwrap(), 1);
    assert_eq!(client.cmd("INCR").arg("{bar}n").send::<i64>().await.unwrap(), 101);
    while moving.move_keys(10).unwrap() > 0 {}
    moving.finish().unwrap();
    let replies: Vec<_> =
        (0..100).map(|_| client.cmd("INCR").arg("{bar}n").send::<i64>()).collect();
    for (n, reply) in (102..).zip(replies) {
        assert_eq!(reply.await.unwrap(), n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_and_blocking_commands_find_their_node() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let script = onetrip::redis::Script::new("return redis.call('INCR', KEYS[1])");
    for n in 0..30 {
        let key = format!("n:{n}");
        assert_eq!(client.script::<i64>(script.call([&key], [0; 0])).await.unwrap(), 1);
        let popped = client.cmd("BLPOP").arg(format!("l:{n}")).arg(0).send::<(String, i64)>();
        client.cmd("RPUSH").arg(format!("l:{n}")).arg(n).send::<i64>().await.unwrap();
        assert_eq!(popped.await.unwrap().1, n);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_commands_is_split_by_node_and_answered_in_order() {
    use futures_core::Stream;
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let commands = (0..10_000)
        .map(|n| onetrip::redis::Command::new("INCRBY").arg(format!("n:{}", n % 1_000)).arg(1));
    let mut replies = client.stream::<i64, _>(commands).window(500);
    for n in 0..10_000 {
        let reply = std::future::poll_fn(|cx| std::pin::Pin::new(&mut replies).poll_next(cx)).await;
        assert_eq!(reply.unwrap().unwrap(), n / 1_000 + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_messages_reach_whoever_subscribes() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let mut subscription = client.subscribe(["news"]).await.unwrap();
    // PUBLISH counts the subscribers of one node.
    client.cmd("PUBLISH").arg("news").arg("x").send::<i64>().await.unwrap();
    assert_eq!(&subscription.next().await.unwrap().payload[..], b"x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_is_answered_when_the_client_is_gone() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    // Commands that wait for a connection when the client ends were not sent.
    client.cmd("DBSIZE").send::<i64>().await.unwrap();
    let replies: Vec<_> =
        (0..1_000).map(|n| client.cmd("INCR").arg(format!("n:{n}")).send::<i64>()).collect();
    drop(client);
    for reply in replies {
        assert_eq!(reply.await.unwrap(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_counted_stays_when_a_node_leaves() {
    let Some(mut cluster) = start(3, 3) else { return };
    let client = connect(&cluster).await;
    let slot = 5061; // That of `bar`.
    let master = cluster.master_of(slot).unwrap();
    client.cmd("INCR").arg("bar").send::<i64>().await.unwrap();
    let before = client.metrics();
    cluster.kill_node(master).unwrap();
    cluster.wait_ok().unwrap();
    while client.cmd("GET").arg("bar").send::<Option<i64>>().await.is_err() {}
    let after = client.metrics();
    assert!(after.opened >= before.opened && after.lost > before.lost, "{after:?}, {before:?}");
    assert!(after.counts.completed > before.counts.completed, "{after:?}, {before:?}");
}

/// A script that takes a while, and leaves a trace.
fn slow() -> onetrip::redis::Script {
    onetrip::redis::Script::new(
        "local function now() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end \
         local start = now() while now() - start < 200000 do end return redis.call('INCR', KEYS[1])",
    )
}

#[tokio::test]
async fn a_slow_answer_comes_though_the_client_is_gone() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    client.cmd("GET").arg("n").send::<()>().await.unwrap();
    let reply = client.script::<i64>(slow().call(["n"], [0; 0]));
    drop(client);
    let limited = tokio::time::timeout(std::time::Duration::from_secs(600), reply).await;
    assert_eq!(limited.expect("it ends").unwrap(), 1);
}

#[test]
fn a_runtime_that_is_gone_ends_what_was_sent() {
    let Some(cluster) = start(3, 0) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let client = runtime.block_on(connect(&cluster));
    // If there is a connection to the node of the key, the call itself writes.
    runtime.block_on(client.cmd("GET").arg("n").send::<()>()).unwrap();
    let reply = client.repeatable().script::<i64>(slow().call(["n"], [0; 0]));
    drop(runtime);
    let late = client.cmd("GET").arg("n").send::<()>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let limit = std::time::Duration::from_secs(600);
        let error = tokio::time::timeout(limit, reply).await.expect("it ends").unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        let error = tokio::time::timeout(limit, late).await.expect("it ends").unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
    });
}

#[tokio::test]
async fn a_stream_does_not_block_the_connection_of_a_node() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let block = onetrip::redis::Command::new("BLPOP").arg("list").arg(0);
    let mut replies = client.stream::<(), _>([block]);
    let limit = std::time::Duration::from_secs(600);
    let reply = tokio::time::timeout(limit, replies.next()).await.expect("it is refused at once");
    let error = reply.unwrap().unwrap_err();
    assert_eq!((error.code(), error.outcome()), ("wrong_place", Outcome::NotSent), "{error}");
}

#[tokio::test]
async fn a_script_that_a_node_forgot_is_sent_as_a_text_again() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let script = onetrip::redis::Script::new("return redis.call('INCR', KEYS[1])");
    client.script::<i64>(script.call(["n"], [0; 0])).await.unwrap();
    client.cmd("SCRIPT FLUSH").send::<()>().await.unwrap();
    let pair = || {
        let call = client.script::<i64>(script.call(["n"], [0; 0]));
        let behind = client.cmd("GET").arg("n").send::<i64>();
        async move { (call.await, behind.await.unwrap()) }
    };
    let (call, _) = pair().await;
    assert_eq!(call.unwrap_err().redis_code(), Some("NOSCRIPT"));
    let (call, _) = pair().await;
    assert_eq!(call.unwrap(), 2);
}

#[tokio::test]
async fn a_deadline_covers_the_time_in_which_no_node_takes_the_command() {
    let Some(mut cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    client.cmd("SET").arg("bar").arg(1).send::<()>().await.unwrap();
    let home = cluster.master_of(5061).unwrap();
    let direct = Client::connect(&cluster.urls()[home]).await.unwrap();
    cluster.kill_node((home + 1) % 3).unwrap();
    // The other nodes serve nothing while hash slots have no node.
    while direct.cmd("GET").arg("bar").send::<i64>().await.is_ok() {}
    let late = client.timeout(std::time::Duration::from_millis(300));
    let error = late.cmd("GET").arg("bar").send::<i64>().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (onetrip::Kind::Timeout, Outcome::Rejected));
}

#[tokio::test]
async fn a_script_that_answers_in_the_words_of_a_node_runs_once() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    // The second call uses the hash of the script.
    for (number, word) in
        ["LOADING", "LOADING", "NOSCRIPT", "NOSCRIPT", "TRYAGAIN"].iter().enumerate()
    {
        let text = format!("redis.call('INCR', KEYS[1]) return redis.error_reply('{word} mine')");
        let script = onetrip::redis::Script::new(text);
        let error = client.script::<()>(script.call(["n"], [0; 0])).await.unwrap_err();
        assert_eq!(
            (error.redis_code(), error.outcome()),
            (Some(*word), Outcome::Unknown),
            "{error}"
        );
        let runs = client.cmd("GET").arg("n").send::<usize>().await.unwrap();
        assert_eq!(runs, number + 1, "{word}");
    }
}

/// Keys of this node, each with another hash slot, and none with that of `bar`.
fn keys_at(cluster: &Cluster, node: usize) -> impl Iterator<Item = String> + '_ {
    let slot = |key: &String| onetrip_redis::slots::slot_of(key.as_bytes());
    let is_there = move |key: &String| cluster.master_of(slot(key)).unwrap() == node;
    (0..).map(|n| format!("k:{n}")).filter(is_there).filter(move |key| slot(key) != 5061)
}

#[tokio::test]
async fn a_script_whose_text_was_redirected_is_found_by_those_behind_it() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let slot = 5061; // That of `bar`.
    let from = cluster.master_of(slot).unwrap();
    let keys: Vec<String> = keys_at(&cluster, from).take(2).collect();
    client.cmd("GET").arg("bar").send::<()>().await.unwrap();
    cluster.begin_move(slot, from, (from + 1) % 3).unwrap().finish().unwrap();
    let script = onetrip::redis::Script::new("return redis.call('INCR', KEYS[1])");
    // The text goes with the first, which is refused; the node does not know the hash of the
    // second.
    let first = client.script::<i64>(script.call(["bar"], [0; 0]));
    let second = client.script::<i64>(script.call([&keys[0]], [0; 0]));
    let behind = client.cmd("GET").arg(&keys[1]).send::<()>();
    assert_eq!(first.await.unwrap(), 1);
    assert_eq!(second.await.unwrap(), 1);
    behind.await.unwrap();
}

#[tokio::test]
async fn a_script_that_is_asked_elsewhere_needs_not_be_known_there() {
    let Some(cluster) = start(3, 0) else { return };
    let client = connect(&cluster).await;
    let slot = 5061; // That of `bar`.
    let from = cluster.master_of(slot).unwrap();
    let to = (from + 1) % 3;
    let script = onetrip::redis::Script::new("return redis.call('INCR', KEYS[1])");
    let there = keys_at(&cluster, to).next().unwrap();
    // The client believes that the other node knows the script, which then forgets it.
    client.script::<i64>(script.call([&there], [0; 0])).await.unwrap();
    let other = Client::connect(&cluster.urls()[to]).await.unwrap();
    other.cmd("SCRIPT FLUSH").send::<()>().await.unwrap();
    let moving = cluster.begin_move(slot, from, to).unwrap();
    assert_eq!(client.script::<i64>(script.call(["{bar}new"], [0; 0])).await.unwrap(), 1);
    assert_eq!(client.script::<i64>(script.call(["{bar}new"], [0; 0])).await.unwrap(), 2);
    while moving.move_keys(10).unwrap() > 0 {}
    moving.finish().unwrap();
    assert_eq!(client.script::<i64>(script.call(["{bar}new"], [0; 0])).await.unwrap(), 3);
}

/// Returns when a client of this node is blocked.
async fn wait_until_blocked(cluster: &Cluster, node: usize) {
    let direct = Client::connect(&cluster.urls()[node]).await.unwrap();
    let blocked = async {
        loop {
            let info: String = direct.cmd("INFO").arg("clients").send().await.unwrap();
            if info.contains("blocked_clients:1") {
                return;
            }
        }
    };
    let limit = std::time::Duration::from_secs(600);
    tokio::time::timeout(limit, blocked).await.expect("it blocks there");
}

#[tokio::test]
async fn a_command_that_blocks_follows_its_slot() {
    let Some(cluster) = start(3, 0) else { return };
    let (client, pushing) = (connect(&cluster).await, connect(&cluster).await);
    let slot = 5061; // That of `bar`.
    let from = cluster.master_of(slot).unwrap();
    let (to, last) = ((from + 1) % 3, (from + 2) % 3);
    let pop = || client.cmd("BLPOP").arg("bar").arg(0).send::<(String, i64)>();
    let push = |n: i64| pushing.cmd("RPUSH").arg("bar").arg(n).send::<i64>();
    // It waits at the slot's old node: MOVED comes in place of its reply.
    let popped = tokio::spawn(pop());
    wait_until_blocked(&cluster, from).await;
    cluster.begin_move(slot, from, to).unwrap().finish().unwrap();
    wait_until_blocked(&cluster, to).await;
    push(1).await.unwrap();
    assert_eq!(popped.await.unwrap().unwrap().1, 1);
    // The slot is about to move, and the list is at its new node already: ASK.
    let moving = cluster.begin_move(slot, to, last).unwrap();
    let popped = tokio::spawn(pop());
    wait_until_blocked(&cluster, last).await;
    push(2).await.unwrap();
    assert_eq!(popped.await.unwrap().unwrap().1, 2);
    moving.finish().unwrap();
    // The client has not been told yet.
    let popped = tokio::spawn(pop());
    wait_until_blocked(&cluster, last).await;
    push(3).await.unwrap();
    assert_eq!(popped.await.unwrap().unwrap().1, 3);
}

#[tokio::test]
async fn a_command_that_blocks_follows_so_many_redirects() {
    let Some(cluster) = start(3, 0) else { return };
    let config: Config = cluster.urls()[0].parse().unwrap();
    let config = config.cluster(true).limits(|limits| limits.redirects_max = 0);
    let client = Client::connect_with(&config).await.unwrap();
    let slot = 5061; // That of `bar`.
    let from = cluster.master_of(slot).unwrap();
    cluster.begin_move(slot, from, (from + 1) % 3).unwrap().finish().unwrap();
    let pop = || client.cmd("BLPOP").arg("bar").arg(0).send::<(String, i64)>();
    let error = pop().await.unwrap_err();
    assert_eq!((error.redis_code(), error.outcome()), (Some("MOVED"), Outcome::Rejected));
    // But the client has learned where the slot is.
    client.cmd("RPUSH").arg("bar").arg(1).send::<i64>().await.unwrap();
    assert_eq!(pop().await.unwrap().1, 1);
}

#[tokio::test]
async fn a_session_whose_slot_has_moved_is_told_what_to_do_about_it() {
    let Some(cluster) = start(2, 0) else { return };
    let client = connect(&cluster).await;
    let slot = 5061; // That of `bar`.
    let session = client.session_for("bar").await.unwrap();
    let from = cluster.master_of(slot).unwrap();
    cluster.begin_move(slot, from, 1 - from).unwrap().finish().unwrap();
    let alone = session.cmd("GET").arg("bar").send::<Option<String>>().await.unwrap_err();
    let pipeline = session.pipeline();
    let get = pipeline.cmd("GET").arg("bar").send::<Option<String>>();
    let in_pipeline = pipeline.run().await.unwrap().get(get).unwrap_err();
    let atomic = session.atomic();
    let _ = atomic.cmd("GET").arg("bar").send::<Option<String>>();
    let in_atomic = atomic.run().await.unwrap_err();
    for error in [alone, in_pipeline, in_atomic] {
        let text = error.to_string();
        assert_eq!((error.redis_code(), error.outcome()), (Some("MOVED"), Outcome::Rejected));
        assert!(text.contains("session_for") && !text.contains("switch"), "{text}");
    }
    // A client that is not configured for a cluster is told to be.
    let other = Client::connect(&cluster.urls()[from]).await.unwrap();
    let text = other.cmd("GET").arg("bar").send::<Option<String>>().await.unwrap_err().to_string();
    assert!(text.contains("switch `cluster` on"), "{text}");
}
