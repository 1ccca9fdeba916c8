//! When the last fault is over: that all comes to rest.

use super::observer::Observer;
use super::stage::Stage;
use super::writes::INSERT;
use crate::check::Table;
use crate::drive::until;
use crate::end::{PATIENCE, Rest};
use crate::ledger::{Claim, Ledger};

/// Waits until all is at rest, and reads the table.
pub(crate) async fn rest(stage: Stage, ledger: &Ledger) -> Rest {
    let mut findings: Vec<_> = is_at_work(&stage, ledger).await.into_iter().collect();
    findings.extend(is_at_rest(&stage).await);
    let table = table(&stage).await;
    let lost = stage.client.metrics().lost;
    stop(stage);
    Rest { findings, table, lost }
}

/// The pool serves again.
async fn is_at_work(stage: &Stage, ledger: &Ledger) -> Option<String> {
    let mut unit = ledger.begin(u32::MAX, "the last one", 1);
    let n = unit.numbers.start;
    let reply = stage.client.execute(INSERT, &[&n, &true]);
    let ended = tokio::time::timeout(PATIENCE, reply).await;
    let finding = match &ended {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(format!("the pool does not serve any more: {error:?}")),
        Err(_) => Some("the pool does not answer any more".to_owned()),
    };
    unit.say(ended.map_or(Claim::Forgotten, |result| Claim::of(&result)));
    ledger.end(unit);
    finding
}

/// Nothing waits in the client, and the server has no session that is at work or in a transaction, nor
/// one that the client doesn't have.
async fn is_at_rest(stage: &Stage) -> Vec<String> {
    let mut findings = Vec::new();
    let pending = || {
        let pending = stage.client.pending();
        [pending.in_flight, pending.queued, pending.waiting]
    };
    if !until(PATIENCE, async || pending() == [0, 0, 0]).await {
        findings.push(format!("the client has [in flight, queued, waiting] {:?}", pending()));
    }
    let observer = Observer::connect(&stage.url).await;
    let mut seen = Default::default();
    let at_rest = until(PATIENCE, async || {
        seen = observer.sessions().await;
        let idle = seen.get("idle").copied().unwrap_or(0);
        seen.values().sum::<i64>() == idle && idle == stage.client.connections() as i64
    });
    if !at_rest.await {
        let count = stage.client.connections();
        findings.push(format!("the client has {count} connections, and the server has {seen:?}"));
    }
    findings
}

/// What was written, once nobody writes any more: of a session that was lost, the server runs the last
/// statement to its end.
async fn table(stage: &Stage) -> Table {
    let observer = Observer::connect(&stage.url).await;
    let is_free = until(PATIENCE, async || observer.at_work().await == 0).await;
    assert!(is_free, "somebody still writes");
    observer.table().await
}

fn stop(stage: Stage) {
    drop(stage.client);
    let server = stage.server.expect("it runs between two faults");
    server.stop().unwrap();
}
