//! Carries faults out, and waits until the cluster is well again.

use std::time::{Duration, Instant, SystemTime};

use onetrip_lab::postgres::patroni::{Cluster, NODES};

use super::Takeover;
use super::probe::Probe;
use super::stage::Stage;
use crate::check::Window;
use crate::drive::{FaultWindow, until};
use crate::ledger::Ledger;
use crate::plan::Kind;

/// One fault. Its window ends when the new primary takes writes, and the client has let go of each
/// connection that it had to the former one.
pub(crate) async fn strike(
    stage: &mut Stage,
    ledger: &Ledger,
    kind: Kind,
) -> (Takeover, FaultWindow) {
    let former = stage.cluster().primary().unwrap();
    let url = |node: usize| (node, stage.cluster().nodes()[node].direct_url());
    let probe = Probe::start((0..NODES).filter(|node| *node != former).map(url).collect());
    let (present, accepted) = (stage.line(former).len() as u64, stage.accepted());
    let (from, began, struck) = (ledger.now(), SystemTime::now(), Instant::now());
    stage.with(move |cluster| inflict(cluster, kind, former).unwrap()).await;
    if kind == Kind::NodeCut {
        // Until then the client's kernel would have waited for the network.
        tokio::time::sleep_until((struck + USER_TIMEOUT).into()).await;
        stage.cluster().reset_cut(former);
    }
    let (node, takes_writes) = probe.first().await;
    if kind == Kind::NodeCut {
        stage.cluster().heal(former);
    }
    let stale = stage.line(former);
    let are_gone = until(PATIENCE, async || {
        let line = stage.line(former);
        stale.iter().all(|connection| !line.contains(connection))
    });
    assert!(are_gone.await, "a connection to the former primary is kept");
    let window = Some(Window { from, to: ledger.now() });
    let broken = present + stage.accepted() - accepted;
    stage.with(move |cluster| recover(cluster, kind, former)).await;
    let port = stage.cluster().nodes()[node].port();
    let takeover = Takeover { kind, from: began, takes_writes, port };
    (takeover, FaultWindow { kind, window, broken })
}

fn inflict(cluster: &mut Cluster, kind: Kind, primary: usize) -> Result<(), impl std::fmt::Debug> {
    match kind {
        Kind::NodeKilled => cluster.kill_node(primary),
        Kind::PostmasterKilled => cluster.kill_postgres(primary),
        Kind::SwitchedOver => cluster.switch_over(),
        Kind::NodeCut => {
            cluster.cut(primary);
            Ok(())
        }
        _ => unreachable!("{kind:?} is no fault of a cluster"),
    }
}

fn recover(cluster: &mut Cluster, kind: Kind, former: usize) {
    if kind == Kind::NodeKilled {
        cluster.restart_node(former).unwrap();
    }
    cluster.wait_ok().unwrap_or_else(|error| panic!("after {kind:?}: {error}"));
}

/// When a kernel gives a connection up whose bytes nobody acknowledges, as `TCP_USER_TIMEOUT` of
/// each client under test would have it.
pub(crate) const USER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the client may keep a connection to a server that is gone.
const PATIENCE: Duration = Duration::from_secs(600);
