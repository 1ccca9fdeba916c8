//! Faults of the network, independent of the protocol.

use std::time::Duration;

use onetrip_lab::proxy::{Direction, Fault, Proxy, Scope};

use crate::drive::until;
use crate::plan::{Kind, PlannedFault};

/// Something with a line to its server.
pub(crate) trait OnLine {
    fn proxy(&self) -> &Proxy;

    /// The state at both ends, for a message that tells why a connection stays open.
    fn ends(&self) -> impl Future<Output = String>;

    /// How many connections there were so far.
    fn accepted(&self) -> u64 {
        self.proxy().stats().connections
    }

    /// The connections that pass through the proxy.
    fn line(&self) -> Vec<u64> {
        self.proxy().stats().open.iter().map(|connection| connection.id).collect()
    }
}

/// The connections that existed before a fault which hits all of them.
pub(crate) struct Present {
    pub(crate) line: Vec<u64>,
    accepted: u64,
}

impl Present {
    pub(crate) fn of(stage: &impl OnLine) -> Present {
        let accepted = stage.accepted();
        Present { line: stage.line(), accepted }
    }

    /// How many connections there were in all by the time the fault had struck: connections open
    /// and close all the time.
    pub(crate) fn and_since(&self, stage: &impl OnLine) -> u64 {
        self.line.len() as u64 + stage.accepted() - self.accepted
    }
}

/// Ends connections after some bytes, or after a short time if those bytes never pass. Returns how
/// many connections it ended.
pub(crate) async fn end_line(stage: &impl OnLine, fault: &PlannedFault) -> u64 {
    let victims = victims(stage, fault).await;
    let PlannedFault { direction, bytes, .. } = *fault;
    let fault = |direction, bytes| match fault.kind {
        Kind::Reset => Fault::ResetAfter { direction, bytes },
        _ => Fault::CutAfter { direction, bytes },
    };
    put(stage, &victims, fault(direction, bytes));
    if !gone(stage, &victims, BYTES_PATIENCE).await {
        put(stage, &victims, fault(direction, 0));
    }
    all_gone(stage, &victims).await
}

/// Stalls connections for a while, then releases or cuts them.
pub(crate) async fn stall(stage: &impl OnLine, fault: &PlannedFault) -> u64 {
    let victims = victims(stage, fault).await;
    let direction = fault.direction;
    put(stage, &victims, Fault::Stall { direction });
    tokio::time::sleep(fault.hold).await;
    let is_cut = fault.kind == Kind::StallCut;
    if is_cut {
        // The bytes held back are lost with the connection.
        put(stage, &victims, Fault::CutAfter { direction, bytes: 0 });
    }
    put(stage, &victims, Fault::Resume { direction });
    if is_cut { all_gone(stage, &victims).await } else { 0 }
}

/// Cuts the connections that remain: one that reached no session yet may outlive its server.
pub(crate) async fn cut_what_is_left(stage: &impl OnLine, mut victims: Vec<u64>) -> u64 {
    victims.sort_unstable();
    victims.dedup();
    cut(stage, &victims);
    all_gone(stage, &victims).await
}

pub(crate) fn cut(stage: &impl OnLine, victims: &[u64]) {
    put(stage, victims, Fault::CutAfter { direction: Direction::Up, bytes: 0 });
}

/// The connections that the fault hits: one or all, and never none. It waits until there is one;
/// the client opens one when there is work.
async fn victims(stage: &impl OnLine, fault: &PlannedFault) -> Vec<u64> {
    let mut line = Vec::new();
    let is_there = until(PATIENCE, async || {
        line = stage.line();
        !line.is_empty()
    });
    assert!(is_there.await, "the client opens no connection");
    match fault.victim {
        Some(number) => vec![line[(number % line.len() as u64) as usize]],
        None => line,
    }
}

fn put(stage: &impl OnLine, victims: &[u64], fault: Fault) {
    victims.iter().for_each(|id| stage.proxy().fault(fault, Scope::Connection(*id)));
}

/// Waits until both ends have closed each of these connections; false if that takes too long. The
/// proxy keeps a connection that was cut until then.
pub(crate) async fn gone(stage: &impl OnLine, victims: &[u64], patience: Duration) -> bool {
    until(patience, async || stage.line().iter().all(|id| !victims.contains(id))).await
}

async fn all_gone(stage: &impl OnLine, victims: &[u64]) -> u64 {
    if !gone(stage, victims, PATIENCE).await {
        let mut left = stage.proxy().stats().open;
        left.retain(|connection| victims.contains(&connection.id));
        let ends = stage.ends().await;
        panic!(
            "a connection that was cut is kept, by the client or by the server: {left:?}, {ends}"
        );
    }
    victims.len() as u64
}

/// How long a cut waits for its bytes to pass.
const BYTES_PATIENCE: Duration = Duration::from_millis(150);

/// How long each end may take to close a connection that has ended: a server first finishes the
/// statement that it is running.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
