//! Carries faults out, and waits until they are over.

use std::pin::Pin;
use std::time::Duration;

use onetrip_lab::postgres::{PrivatePostgres, Shutdown};

use super::observer::Observer;
use super::stage::Stage;
use crate::check::Window;
use crate::drive::{FaultWindow, Target, until};
use crate::ledger::Ledger;
use crate::line::{OnLine, PATIENCE, Present, cut, cut_what_is_left, end_line, gone, stall};
use crate::plan::{Kind, PlannedFault};

impl Target for Stage {
    const KINDS: &'static [Kind] = &Kind::POSTGRES;

    fn said(&self) -> String {
        let Some(pooler) = &self.pooler else { return String::new() };
        let log = pooler.log();
        let last: Vec<_> = log.lines().rev().take(5).collect();
        format!("the pooler said, last first: {}; ", last.join(" | "))
    }

    fn carry_out<'a>(
        &'a mut self,
        ledger: &'a Ledger,
        fault: &'a PlannedFault,
    ) -> Pin<Box<dyn Future<Output = FaultWindow> + 'a>> {
        Box::pin(carry_out(self, ledger, fault))
    }
}

pub(crate) async fn carry_out(
    stage: &mut Stage,
    ledger: &Ledger,
    fault: &PlannedFault,
) -> FaultWindow {
    let from = ledger.now();
    let broken = match fault.kind {
        Kind::Cut | Kind::Reset => end_line(stage, fault).await,
        Kind::StallReleased | Kind::StallCut => stall(stage, fault).await,
        Kind::SessionEnded => end_session(stage, fault).await,
        Kind::BackendKilled => kill_backend(stage, fault).await,
        _ => restart(stage, fault).await,
    };
    let window = Some(Window { from, to: ledger.now() });
    FaultWindow { kind: fault.kind, window, broken }
}

/// An administrator ends one session, whatever it is doing.
async fn end_session(stage: &mut Stage, fault: &PlannedFault) -> u64 {
    let observer = Observer::connect(&stage.url).await;
    let processes = observer.processes().await;
    let Some(turn) = fault.victim.or(Some(0)).filter(|_| !processes.is_empty()) else { return 0 };
    let victim = processes[turn as usize % processes.len()];
    observer.texts(&format!("select pg_terminate_backend({victim})::text")).await;
    let is_gone = until(PATIENCE, async || !observer.processes().await.contains(&victim)).await;
    assert!(is_gone, "a session that was told to end does not");
    1
}

async fn restart(stage: &mut Stage, fault: &PlannedFault) -> u64 {
    let how = fault.kind.shutdown().expect("all other kinds have been dealt with");
    let present = Present::of(stage);
    let server = shut_down(stage, how, fault.hold).await;
    let broken = present.and_since(stage);
    let mut victims = present.line;
    victims.extend(stage.line());
    tokio::time::sleep(fault.hold).await;
    stage.server = Some(blocking(server, PrivatePostgres::start_again).await);
    cut_what_is_left(stage, victims).await.max(broken)
}

/// A smart shutdown waits for sessions to end, and those of a pool don't end by themselves.
async fn shut_down(stage: &mut Stage, how: Shutdown, hold: Duration) -> PrivatePostgres {
    let server = stage.server.take().expect("it runs between two faults");
    let mut stopping = tokio::spawn(blocking(server, move |server| server.shut_down(how)));
    if how == Shutdown::Smart && tokio::time::timeout(hold, &mut stopping).await.is_err() {
        loop {
            cut(stage, &stage.line());
            if let Ok(server) = tokio::time::timeout(Duration::from_millis(10), &mut stopping).await
            {
                return server.unwrap();
            }
        }
    }
    stopping.await.unwrap()
}

async fn kill_backend(stage: &mut Stage, fault: &PlannedFault) -> u64 {
    let present = Present::of(stage);
    let observer = Observer::connect(&stage.url).await;
    let processes = observer.processes().await;
    drop(observer);
    let server = stage.server.as_ref().expect("it runs between two faults");
    let turn = fault.victim.unwrap_or(0) as usize;
    let is_killed = (0..processes.len())
        .any(|step| server.kill_backend(processes[(turn + step) % processes.len()]).is_ok());
    assert!(is_killed, "no session of the client could be killed");
    // All sessions of the server end with it.
    gone(stage, &present.line, PATIENCE).await;
    let broken = present.and_since(stage);
    drop(Observer::connect(&stage.url).await);
    cut_what_is_left(stage, present.line).await.max(broken)
}

/// Runs slow work on the server in a thread that may block.
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
