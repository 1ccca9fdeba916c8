//! A cluster under Patroni recovers, and ends with its owner.

use std::net::{Ipv4Addr, TcpStream};

use onetrip_lab::postgres::patroni::{Cluster, found_or_skipped};

/// In one test, because a cluster takes ten seconds to start. What else befalls a primary is in the
/// chaos of failovers (proof/chaos).
#[test]
fn a_standby_takes_over_and_the_former_primary_follows_it() {
    if found_or_skipped().is_none() {
        return;
    }
    let mut cluster = Cluster::start().unwrap();
    let former = cluster.primary().unwrap();
    let follows = |cluster: &Cluster| (0..3).find(|node| cluster.nodes()[*node].is_synchronous());
    let standby = follows(&cluster).expect("a well cluster has a synchronous standby");

    cluster.kill_postgres(former).unwrap();
    assert_eq!(cluster.wait_for_another(former).unwrap(), standby);
    cluster.wait_ok().unwrap();
    assert!(cluster.nodes()[former].is_replica());

    let other = follows(&cluster).expect("a well cluster has a synchronous standby");
    cluster.shut_down_node(other).unwrap();
    assert!(!cluster.nodes()[other].is_replica());
    cluster.restart_node(other).unwrap();
    cluster.wait_ok().unwrap();

    let ports: Vec<u16> = cluster.nodes().iter().map(|node| node.port()).collect();
    drop(cluster);
    for port in ports {
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "{port} still answers");
    }
}
