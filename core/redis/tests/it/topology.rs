//! Topologies from replies of servers, and from replies that no server sends.

use onetrip_engine::Violation;
use onetrip_redis::Reply;
use onetrip_redis::client::topology::{NODES_MAX, Topology};
use onetrip_redis::redirect::Address;

fn asked() -> Address {
    Address::new("asked", 7000).unwrap()
}

/// A reply in short notation: `[1 2 'text' ~]` for an array, `{…}` for a map, `~` for null.
fn reply(text: &str) -> String {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (reply, rest) = value(&words);
    assert!(rest.is_empty(), "{rest:?}");
    reply
}

fn value<'a>(words: &'a [&'a str]) -> (String, &'a [&'a str]) {
    let (word, mut rest) = words.split_first().unwrap();
    match *word {
        "[" | "{" => {
            let (mut items, mut count) = (String::new(), 0);
            while !matches!(rest[0], "]" | "}") {
                let (item, behind) = value(rest);
                items.push_str(&item);
                (rest, count) = (behind, count + 1);
            }
            let (kind, count) = if *word == "[" { ('*', count) } else { ('%', count / 2) };
            (format!("{kind}{count}\r\n{items}"), &rest[1..])
        }
        "~" => ("_\r\n".into(), rest),
        number if number.parse::<i64>().is_ok() => (format!(":{number}\r\n"), rest),
        text => {
            let text = text.trim_matches('\'');
            (format!("${}\r\n{text}\r\n", text.len()), rest)
        }
    }
}

fn slots(text: &str) -> Result<Topology, Violation> {
    let bytes = reply(text);
    Topology::from_slots(&Reply::read(bytes.as_bytes()).unwrap().0, &asked())
}

fn shards(text: &str, tls: bool) -> Result<Topology, Violation> {
    let bytes = reply(text);
    Topology::from_shards(&Reply::read(bytes.as_bytes()).unwrap().0, &asked(), tls)
}

fn at(topology: &Topology, slot: u16) -> Option<String> {
    topology.shard_of(slot).map(|shard| shard.master.address.to_string())
}

#[test]
fn slots_are_read_and_those_of_one_master_are_one_shard() {
    let topology = slots(
        "[ [ 0 100 [ h1 7001 id1 [ ] ] [ h2 7002 id2 [ ] ] ]
           [ 200 300 [ h3 7003 id3 { hostname n3 } ] ]
           [ 400 400 [ h1 7001 id1 [ ] ] [ h2 7002 id2 [ ] ] ] ]",
    )
    .unwrap();
    assert_eq!(topology.shards().len(), 2);
    assert_eq!(at(&topology, 0), Some("h1:7001".into()));
    assert_eq!(at(&topology, 400), Some("h1:7001".into()));
    assert_eq!(at(&topology, 300), Some("h3:7003".into()));
    assert_eq!((at(&topology, 101), at(&topology, 16_384)), (None, None));
    assert_eq!(topology.unserved(), 16_384 - 101 - 101 - 1);
    let shard = topology.shard_of(0).unwrap();
    assert_eq!(&*shard.master.id, "id1");
    assert_eq!(shard.replicas[0].address, Address::new("h2", 7002).unwrap());
}

#[test]
fn node_without_a_host_has_that_of_the_node_that_answered() {
    for host in ["~", "''", "?"] {
        let topology = slots(&format!("[ [ 0 1 [ {host} 7001 id [ ] ] ] ]")).unwrap();
        assert_eq!(at(&topology, 0), Some("asked:7001".into()), "{host}");
    }
    let topology = slots("[ [ 0 1 [ ? 7001 id [ ip 10.0.0.1 ] ] ] ]").unwrap();
    assert_eq!(at(&topology, 0), Some("10.0.0.1:7001".into()));
    let topology = slots("[ [ 0 1 [ ::1 7001 ] ] ]").unwrap();
    assert_eq!(at(&topology, 0), Some("[::1]:7001".into()));
}

const SHARDS: &str = "[
    { slots [ 0 100 200 200 ] nodes [
        { id r1 port 7002 tls-port 8002 ip 10.0.0.2 endpoint h2 role replica health online }
        { id r2 port 7003 ip 10.0.0.3 endpoint ~ role replica health online }
        { id r3 port 7004 tls-port 8004 ip 10.0.0.4 endpoint h4 role replica health loading }
        { id m1 port 7001 tls-port 8001 ip 10.0.0.1 endpoint h1 role master health online } ] }
    { slots [ ] nodes [ { id m2 port 7005 ip 10.0.0.5 endpoint h5 role master health online } ] }
    { slots [ 300 301 ] nodes [ { id r9 port 7009 endpoint h9 role replica health online } ] } ]";

#[test]
fn shards_are_read_as_maps_and_as_lists() {
    for text in [SHARDS.to_owned(), SHARDS.replace('{', "[").replace('}', "]")] {
        let topology = shards(&text, false).unwrap();
        assert_eq!(at(&topology, 100), Some("h1:7001".into()));
        assert_eq!(at(&topology, 200), Some("h1:7001".into()));
        let replicas = &topology.shard_of(0).unwrap().replicas;
        let replicas: Vec<_> = replicas.iter().map(|node| node.address.to_string()).collect();
        assert_eq!(replicas, ["h2:7002", "asked:7003"]);
        // A shard without slots is kept; slots without a master are served by no node.
        assert_eq!(topology.shards().len(), 2);
        assert_eq!(at(&topology, 300), None);
    }
}

#[test]
fn with_tls_a_node_is_where_it_listens_for_it() {
    let topology = shards(SHARDS, true).unwrap();
    let shard = topology.shard_of(0).unwrap();
    assert_eq!(shard.master.address.to_string(), "h1:8001");
    assert_eq!(shard.replicas.len(), 1);
    assert_eq!(topology.shards().len(), 1);
}

#[test]
fn master_that_has_failed_gives_way_to_the_one_in_its_place() {
    let node =
        |id, health| format!("{{ id {id} port 1 endpoint {id} role master health {health} }}");
    let both =
        format!("[ {{ slots [ 0 1 ] nodes [ {} {} ] }} ]", node("a", "fail"), node("b", "online"));
    let topology = shards(&both, false).unwrap();
    assert_eq!(at(&topology, 0), Some("b:1".into()));
    assert!(topology.shard_of(0).unwrap().replicas.is_empty());
}

#[test]
fn hostile_answers_are_refused() {
    for text in [
        "7",
        "[ 7 ]",
        "[ [ 0 ] ]",
        "[ [ 0 1 ] ]",
        "[ [ 0 16384 [ h 1 id ] ] ]",
        "[ [ -1 1 [ h 1 id ] ] ]",
        "[ [ 0 1 [ h 0 id ] ] ]",
        "[ [ 0 1 [ h 65536 id ] ] ]",
        "[ [ 0 1 [ user@h 1 id ] ] ]",
        "[ [ 0 1 [ h/../x 1 id ] ] ]",
        "[ [ 0 1 [ h 1 '' ] ] ]",
        "[ [ 0 1 [ h text id ] ] ]",
        "[ [ 0 5 [ h 1 id ] ] [ 5 6 [ h 2 id2 ] ] ]",
        "[ [ 0 1 [ h 1 id ] [ h 0 id2 ] ] ]",
    ] {
        assert!(slots(text).is_err(), "{text}");
    }
    for text in [
        "{ }",
        "[ { } ]",
        "[ { slots [ 0 ] nodes [ ] } ]",
        "[ { slots [ 0 16384 ] nodes [ ] } ]",
        "[ { slots 7 nodes [ ] } ]",
        "[ { slots [ 0 1 ] nodes [ 7 ] } ]",
        "[ { slots [ 0 1 ] nodes [ { port 1 endpoint h role master } ] } ]",
        "[ { slots [ 0 1 ] nodes [ { id a port 1 endpoint h } ] } ]",
        "[ { slots [ 0 1 ] nodes [ { id a port 1 endpoint h@x role master } ] } ]",
    ] {
        let result = shards(text, false);
        let harmless = result.as_ref().is_ok_and(|topology| topology.shards().is_empty());
        assert!(result.is_err() || harmless, "{text}");
    }
    // A range that ends before it begins has no slots.
    assert!(slots("[ [ 9 3 [ h 1 id ] ] ]").is_err());
    assert!(slots("[ [ 4 3 [ h 1 id ] ] ]").is_err());
}

#[test]
fn a_cluster_has_no_more_nodes_than_it_can() {
    let with = |replicas: usize| {
        let replicas: String = (0..replicas).map(|i| format!("[ h{i} 1 id{i} ] ")).collect();
        slots(&format!("[ [ 0 16383 [ m 1 id ] {replicas}] ]"))
    };
    assert!(with(NODES_MAX - 1).is_ok());
    assert!(with(NODES_MAX).is_err());
}
