//! Private clusters: the behaviour that tests rely on.

use std::time::Duration;

use onetrip_lab::redis::{Answer, Cluster, ClusterSettings, Plain, Settings, found_or_skipped};
use onetrip_redis::Command;

/// Keys of this tag have one hash slot, 5061: it is that of `bar` in the specification of Redis
/// Cluster.
const TAG: &str = "{bar}";
const SLOT: u16 = 5061;

fn start(masters: usize, replicas: usize) -> Option<Cluster> {
    let installation = Some(found_or_skipped()?);
    let node = Settings { installation, ..Settings::default() };
    // On a busy machine a node may be silent for a second.
    let node_timeout = Duration::from_secs(3);
    let settings = ClusterSettings { masters, replicas, node, node_timeout };
    Some(Cluster::start(&settings).unwrap())
}

fn plain(cluster: &Cluster, node: usize) -> Plain {
    cluster.nodes()[node].plain().unwrap()
}

fn get(plain: &mut Plain, key: &str) -> Answer {
    plain.ask(&Command::new("GET").arg(key)).unwrap()
}

fn ok() -> Answer {
    Answer::Text(b"OK".to_vec())
}

fn redirect(cluster: &Cluster, word: &str, node: usize) -> Answer {
    Answer::Error(format!("{word} {SLOT} 127.0.0.1:{}", cluster.nodes()[node].port()))
}

fn fill(plain: &mut Plain, count: usize) {
    for at in 0..count {
        let key = format!("{TAG}{at}");
        assert_eq!(plain.ask(&Command::new("SET").arg(key).arg(at)).unwrap(), ok());
    }
}

#[test]
fn six_nodes_share_the_slots_and_a_replica_takes_over() {
    let Some(mut cluster) = start(3, 3) else { return };
    assert_eq!(cluster.urls().len(), 6);
    let owners =
        [0, 5460, 5461, 10_922, 10_923, 16_383].map(|slot| cluster.master_of(slot).unwrap());
    assert_eq!(owners, [0, 0, 1, 1, 2, 2]);
    fill(&mut plain(&cluster, 0), 3);
    assert_eq!(get(&mut plain(&cluster, 1), "{bar}1"), redirect(&cluster, "MOVED", 0));
    let wait = Command::new("WAIT").arg(1).arg(10_000);
    let mut master = plain(&cluster, 0);
    master.tell(&Command::new("SET").arg("{bar}1").arg("replicated")).unwrap();
    assert_eq!(master.ask(&wait).unwrap(), Answer::Number(1));
    cluster.kill_node(0).unwrap();
    cluster.wait_ok().unwrap();
    // Its replica is the first of those behind the masters.
    assert_eq!(cluster.master_of(SLOT).unwrap(), 3);
    assert_eq!(get(&mut plain(&cluster, 3), "{bar}1"), Answer::Text(b"replicated".to_vec()));
    cluster.restart_node(0).unwrap();
    cluster.wait_ok().unwrap();
    assert_eq!(cluster.master_of(SLOT).unwrap(), 3);
    assert_eq!(get(&mut plain(&cluster, 0), "{bar}1"), redirect(&cluster, "MOVED", 3));
}

#[test]
fn a_slot_on_its_way_answers_with_ask_and_in_the_end_with_moved() {
    let Some(cluster) = start(2, 0) else { return };
    let (mut source, mut target) = (plain(&cluster, 0), plain(&cluster, 1));
    fill(&mut source, 10);
    let slot_move = cluster.begin_move(SLOT, 0, 1).unwrap();
    assert_eq!(slot_move.move_keys(4).unwrap(), 4);
    let answers: Vec<Answer> = (0..10).map(|at| get(&mut source, &format!("{TAG}{at}"))).collect();
    let ask = redirect(&cluster, "ASK", 1);
    assert_eq!(answers.iter().filter(|answer| **answer == ask).count(), 4, "{answers:?}");
    let moved = answers.iter().position(|answer| *answer == ask).unwrap();
    let key = format!("{TAG}{moved}");
    assert_eq!(get(&mut target, &key), redirect(&cluster, "MOVED", 0));
    assert_eq!(target.ask(&Command::new("ASKING")).unwrap(), ok());
    assert_eq!(get(&mut target, &key), Answer::Text(moved.to_string().into_bytes()));
    assert_eq!(cluster.master_of(SLOT).unwrap(), 0);
    // The same move is begun again, and done to its end.
    cluster.move_slot(SLOT, 0, 1).unwrap();
    cluster.wait_ok().unwrap();
    assert_eq!(cluster.master_of(SLOT).unwrap(), 1);
    for at in 0..10 {
        let key = format!("{TAG}{at}");
        assert_eq!(get(&mut target, &key), Answer::Text(at.to_string().into_bytes()));
        assert_eq!(get(&mut source, &key), redirect(&cluster, "MOVED", 1));
    }
}

#[test]
fn a_move_that_is_taken_back_leaves_the_slot_where_it_was() {
    let Some(cluster) = start(2, 0) else { return };
    let mut source = plain(&cluster, 0);
    cluster.begin_move(SLOT, 0, 1).unwrap().take_back().unwrap();
    assert_eq!(get(&mut source, "{bar}absent"), Answer::Nil);
    assert!(cluster.begin_move(SLOT, 1, 0).is_err(), "node 1 does not have it");
}
