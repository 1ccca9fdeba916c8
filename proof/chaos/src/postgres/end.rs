//! After the last fault: the client and the server must come to rest.

use onetrip::Client;

use super::observer::Observer;
use super::stage::Stage;
use super::writes::INSERT;
use crate::check::{Kept, Table};
use crate::drive::until;
use crate::end::{PATIENCE, Rest};
use crate::ledger::{Claim, Ledger};

/// Waits until all is at rest, and reads the table.
pub(crate) async fn rest(stage: Stage, ledger: &Ledger) -> Rest {
    let mut findings: Vec<_> = is_at_work(&stage.client, ledger).await.into_iter().collect();
    findings.extend(is_at_rest(&stage).await);
    let table = table(&stage.url, "written").await;
    let lost = stage.client.metrics().lost;
    stop(stage);
    Rest { findings, table, lost, by_faults_alone: true, kept: Kept::All, pause_max: None }
}

/// Checks that the pool serves again.
pub(crate) async fn is_at_work(client: &Client, ledger: &Ledger) -> Option<String> {
    let mut unit = ledger.begin(u32::MAX, "the last one", 1);
    let n = unit.numbers.start;
    let reply = client.execute(INSERT, &[&n, &true]);
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

/// Checks that no request waits in the client, and that the server has no session that is busy, in
/// a transaction, or unknown to the client.
async fn is_at_rest(stage: &Stage) -> Vec<String> {
    let mut findings: Vec<_> = is_idle(&stage.client).await.into_iter().collect();
    findings.extend(has_no_other_session(&stage.client, &stage.url).await);
    findings
}

/// Checks that no request waits in the client.
pub(crate) async fn is_idle(client: &Client) -> Option<String> {
    let pending = || {
        let pending = client.pending();
        [pending.in_flight, pending.queued, pending.waiting]
    };
    let is_idle = until(PATIENCE, async || pending() == [0, 0, 0]).await;
    (!is_idle).then(|| format!("the client has [in flight, queued, waiting] {:?}", pending()))
}

/// Checks that the server has exactly the client's sessions, and that all are idle.
pub(crate) async fn has_no_other_session(client: &Client, url: &str) -> Option<String> {
    let observer = Observer::connect(url).await;
    let mut seen = Default::default();
    let at_rest = until(PATIENCE, async || {
        seen = observer.sessions().await;
        let idle = seen.get("idle").copied().unwrap_or(0);
        seen.values().sum::<i64>() == idle && idle == client.connections() as i64
    });
    let at_rest = at_rest.await;
    let count = client.connections();
    (!at_rest).then(|| format!("the client has {count} connections, and the server has {seen:?}"))
}

/// Reads the table once no session writes any more: after a session was lost, the server still
/// finishes its last statement.
pub(crate) async fn table(url: &str, name: &str) -> Table {
    let observer = Observer::connect(url).await;
    let is_free = until(PATIENCE, async || observer.at_work(name).await == 0).await;
    let busy = "select format('%s, %s: %s', state, wait_event, query) from pg_stat_activity \
                where backend_type = 'client backend' and pid <> pg_backend_pid()";
    assert!(is_free, "a session still writes: {:?}", observer.texts(busy).await);
    observer.table(name).await
}

pub(crate) fn stop(stage: Stage) {
    drop(stage.client);
    drop(stage.pooler);
    let server = stage.server.expect("it runs between two faults");
    server.stop().unwrap();
}
