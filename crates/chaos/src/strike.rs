//! Carries a fault out, and sees when it is over.

use std::time::Duration;

use onetrip_lab::postgres::{PrivatePostgres, Shutdown};
use onetrip_lab::proxy::{Direction, Fault, Scope};

use crate::check::Window;
use crate::ledger::Ledger;
use crate::observer::Observer;
use crate::plan::{Kind, Strike};
use crate::stage::{Stage, until};

/// A fault that is over.
#[derive(Debug)]
pub(crate) struct Struck {
    pub(crate) kind: Kind,
    pub(crate) window: Window,
    /// How many connections it ended.
    pub(crate) broken: u64,
}

/// Returns when each connection that it broke has been let go, and the server answers.
pub(crate) async fn carry_out(stage: &mut Stage, ledger: &Ledger, strike: &Strike) -> Struck {
    let from = ledger.now();
    let broken = match strike.kind {
        Kind::Cut | Kind::Reset => end_line(stage, strike).await,
        Kind::StallReleased | Kind::StallCut => stall(stage, strike).await,
        Kind::BackendKilled => kill_backend(stage, strike).await,
        _ => restart(stage, strike).await,
    };
    Struck { kind: strike.kind, window: Window { from, to: ledger.now() }, broken }
}

/// After some bytes, or soon where those never pass.
async fn end_line(stage: &Stage, strike: &Strike) -> u64 {
    let victims = victims(stage, strike).await;
    let Strike { direction, bytes, .. } = *strike;
    let fault = |direction, bytes| match strike.kind {
        Kind::Reset => Fault::ResetAfter { direction, bytes },
        _ => Fault::CutAfter { direction, bytes },
    };
    put(stage, &victims, fault(direction, bytes));
    if !gone(stage, &victims, BYTES_PATIENCE).await {
        put(stage, &victims, fault(direction, 0));
    }
    all_gone(stage, &victims).await
}

async fn stall(stage: &Stage, strike: &Strike) -> u64 {
    let victims = victims(stage, strike).await;
    let direction = strike.direction;
    put(stage, &victims, Fault::Stall { direction });
    tokio::time::sleep(strike.hold).await;
    let is_cut = strike.kind == Kind::StallCut;
    if is_cut {
        // What is held back goes with the connection.
        put(stage, &victims, Fault::CutAfter { direction, bytes: 0 });
    }
    put(stage, &victims, Fault::Resume { direction });
    if is_cut { all_gone(stage, &victims).await } else { 0 }
}

async fn restart(stage: &mut Stage, strike: &Strike) -> u64 {
    let how = strike.kind.shutdown().expect("all other kinds have been dealt with");
    let mut victims = stage.line();
    let server = shut_down(stage, how, strike.hold).await;
    victims.extend(stage.line());
    tokio::time::sleep(strike.hold).await;
    stage.server = Some(blocking(server, PrivatePostgres::start_again).await);
    cut_what_is_left(stage, victims).await
}

/// A smart shutdown waits for sessions to end, and those of a pool don't end by themselves.
async fn shut_down(stage: &mut Stage, how: Shutdown, hold: Duration) -> PrivatePostgres {
    let server = stage.server.take().expect("it runs between two faults");
    let mut stopping = tokio::spawn(blocking(server, move |server| server.shut_down(how)));
    if how == Shutdown::Smart && tokio::time::timeout(hold, &mut stopping).await.is_err() {
        loop {
            put(stage, &stage.line(), Fault::CutAfter { direction: Direction::Up, bytes: 0 });
            if let Ok(server) = tokio::time::timeout(Duration::from_millis(10), &mut stopping).await
            {
                return server.unwrap();
            }
        }
    }
    stopping.await.unwrap()
}

async fn kill_backend(stage: &mut Stage, strike: &Strike) -> u64 {
    let victims = stage.line();
    let observer = Observer::connect(&stage.url).await;
    let processes = observer.processes().await;
    drop(observer);
    let server = stage.server.as_ref().expect("it runs between two faults");
    let turn = strike.victim.unwrap_or(0) as usize;
    let is_killed = (0..processes.len())
        .any(|step| server.kill_backend(processes[(turn + step) % processes.len()]).is_ok());
    assert!(is_killed, "no session of the client could be killed");
    // All sessions of the server end with it.
    gone(stage, &victims, PATIENCE).await;
    drop(Observer::connect(&stage.url).await);
    cut_what_is_left(stage, victims).await
}

/// A connection that reached no session yet may outlive the server behind it.
async fn cut_what_is_left(stage: &Stage, mut victims: Vec<u64>) -> u64 {
    victims.sort_unstable();
    victims.dedup();
    put(stage, &victims, Fault::CutAfter { direction: Direction::Up, bytes: 0 });
    all_gone(stage, &victims).await
}

/// One connection or all, and never none: the client opens one when there is work.
async fn victims(stage: &Stage, strike: &Strike) -> Vec<u64> {
    let mut line = Vec::new();
    let is_there = until(PATIENCE, async || {
        line = stage.line();
        !line.is_empty()
    });
    assert!(is_there.await, "the client opens no connection");
    match strike.victim {
        Some(number) => vec![line[(number % line.len() as u64) as usize]],
        None => line,
    }
}

fn put(stage: &Stage, victims: &[u64], fault: Fault) {
    victims.iter().for_each(|id| stage.proxy.fault(fault, Scope::Connection(*id)));
}

/// Whether both sides have let go of each of them in time. A connection that is cut stays with the
/// proxy until then.
async fn gone(stage: &Stage, victims: &[u64], patience: Duration) -> bool {
    until(patience, async || stage.line().iter().all(|id| !victims.contains(id))).await
}

async fn all_gone(stage: &Stage, victims: &[u64]) -> u64 {
    if !gone(stage, victims, PATIENCE).await {
        let mut left = stage.proxy.stats().open;
        left.retain(|connection| victims.contains(&connection.id));
        let server = Observer::connect(&stage.url).await.sessions().await;
        let client = stage.client.metrics();
        panic!(
            "a connection that was cut is kept, by the client or by the server: {left:?}, the server \
             has {server:?}, the client {client:?}"
        );
    }
    victims.len() as u64
}

/// Does something with the server that takes its time.
async fn blocking<E: std::fmt::Display + Send + 'static>(
    mut server: PrivatePostgres,
    work: impl FnOnce(&mut PrivatePostgres) -> Result<(), E> + Send + 'static,
) -> PrivatePostgres {
    let done = tokio::task::spawn_blocking(move || {
        work(&mut server).unwrap_or_else(|error| panic!("{error}"));
        server
    });
    done.await.unwrap()
}

/// How long a cut waits for its bytes to pass.
const BYTES_PATIENCE: Duration = Duration::from_millis(150);

/// How long each side may take to let go of a connection that has ended: the server runs the statement
/// first that it is at.
const PATIENCE: Duration = Duration::from_secs(20);
