//! Faults of the line, whatever protocol is spoken on it.

use std::time::Duration;

use onetrip_lab::proxy::{Direction, Fault, Proxy, Scope};

use crate::drive::until;
use crate::plan::{Kind, PlannedFault};

/// Something with a line to its server.
pub(crate) trait OnLine {
    fn proxy(&self) -> &Proxy;

    /// How both ends see it, for those who read why a connection stays.
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

/// Connections before a fault that befalls all of them.
pub(crate) struct Present {
    pub(crate) line: Vec<u64>,
    accepted: u64,
}

impl Present {
    pub(crate) fn of(stage: &impl OnLine) -> Present {
        let accepted = stage.accepted();
        Present { line: stage.line(), accepted }
    }

    /// How many there were in all when it had struck: connections come and go all the time.
    pub(crate) fn and_since(&self, stage: &impl OnLine) -> u64 {
        self.line.len() as u64 + stage.accepted() - self.accepted
    }
}

/// After some bytes, or soon where those never pass. Returns how many it ended.
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

/// For a while, and then it goes on or is cut.
pub(crate) async fn stall(stage: &impl OnLine, fault: &PlannedFault) -> u64 {
    let victims = victims(stage, fault).await;
    let direction = fault.direction;
    put(stage, &victims, Fault::Stall { direction });
    tokio::time::sleep(fault.hold).await;
    let is_cut = fault.kind == Kind::StallCut;
    if is_cut {
        // What is held back goes with the connection.
        put(stage, &victims, Fault::CutAfter { direction, bytes: 0 });
    }
    put(stage, &victims, Fault::Resume { direction });
    if is_cut { all_gone(stage, &victims).await } else { 0 }
}

/// A connection that reached no session yet may outlive the server behind it.
pub(crate) async fn cut_what_is_left(stage: &impl OnLine, mut victims: Vec<u64>) -> u64 {
    victims.sort_unstable();
    victims.dedup();
    cut(stage, &victims);
    all_gone(stage, &victims).await
}

pub(crate) fn cut(stage: &impl OnLine, victims: &[u64]) {
    put(stage, victims, Fault::CutAfter { direction: Direction::Up, bytes: 0 });
}

/// One connection or all, and never none: the client opens one when there is work.
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

/// Whether both sides have let go of each of them in time. A connection that is cut stays with the
/// proxy until then.
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

/// How long each side may take to let go of a connection that has ended: a server runs the
/// statement first that it is at.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
