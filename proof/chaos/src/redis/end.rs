//! After the last fault: the client and the servers must come to rest, and the data is read.

use onetrip::Outcome;
use onetrip::redis::{Client, Command, Sends};
use onetrip_lab::redis::{Answer, Server};

use super::TASKS;
use super::book::Book;
use super::keys::{CLIENT, Keys, put, rows, written};
use crate::check::{Kept, Table};
use crate::drive::until;
use crate::end::{PATIENCE, Rest};
use crate::ledger::{Claim, Ledger};

/// Waits until all is at rest, and reads what was written. `server` returns the server of a tag.
pub(crate) async fn rest<'a>(
    client: &Client,
    keys: Keys,
    servers: &[&'a Server],
    server: impl Fn(u64) -> &'a Server,
    (ledger, book): (&Ledger, &Book),
    kept: Kept,
) -> Rest {
    let mut findings: Vec<_> = is_at_work(client, ledger).await.into_iter().collect();
    findings.extend(is_at_rest(client, servers).await);
    let ask = |tag: u64, command: &Command| server(tag).plain().unwrap().tell(command).unwrap();
    let (mut table, mut lists) = (Table::new(), Vec::new());
    for tag in 0..keys.tags {
        let hash = ask(tag, &Command::new("HGETALL").arg(written(tag)));
        findings.extend(count(&mut table, hash.items()));
        let list = ask(tag, &Command::new("LRANGE").arg(rows(tag)).arg(0).arg(-1));
        let list: Vec<i64> = list.items().iter().map(number).collect();
        list.iter().for_each(|n| *table.entry(*n).or_default() += 1);
        lists.push(list);
    }
    let loses = matches!(kept, Kept::Copied { .. });
    findings.extend(book.misplaced(&lists, loses));
    let counter = |task| Command::new("GET").arg(keys.counter(task));
    let ends: Vec<i64> =
        (0..TASKS).map(|task| number(&ask(keys.tag_of(task), &counter(task)))).collect();
    // A counter goes back when the server loses an INCR.
    if !loses {
        findings.extend(book.miscounted(|task| ends[task as usize]));
    }
    let lost = client.metrics().lost;
    Rest { findings, table, lost, by_faults_alone: true, kept, pause_max: None }
}

/// Counts how often each number of a hash was written. A sum that is no multiple of one write is
/// wrong.
fn count(table: &mut Table, hash: &[Answer]) -> Vec<String> {
    let mut wrong = Vec::new();
    for pair in hash.chunks_exact(2) {
        let (n, sum) = (number(&pair[0]), number(&pair[1]));
        if sum <= 0 || sum % (n + 1) != 0 {
            wrong.push(format!("row {n} has the sum {sum}"));
        }
        *table.entry(n).or_default() += (sum / (n + 1)) as u64;
    }
    wrong
}

fn number(answer: &Answer) -> i64 {
    answer.text().and_then(|text| text.parse().ok()).expect("all that is written are numbers")
}

/// Checks that the client serves again. Between two attempts to connect there is a pause, and a
/// call waits for a connection no longer than its own limit, so a call that was not sent is tried
/// again.
async fn is_at_work(client: &Client, ledger: &Ledger) -> Option<String> {
    let mut finding = None;
    until(PATIENCE, async || {
        let mut unit = ledger.begin(u32::MAX, "the last one", 1);
        let reply = client.send::<i64>(put(0, unit.numbers.start));
        let ended = tokio::time::timeout(PATIENCE, reply).await;
        let is_not_sent = matches!(&ended, Ok(Err(error)) if error.outcome() == Outcome::NotSent);
        finding = match &ended {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(format!("the client does not serve any more: {error:?}")),
            Err(_) => Some("the client does not answer any more".to_owned()),
        };
        unit.say(ended.map_or(Claim::Forgotten, |result| Claim::of(&result)));
        ledger.end(unit);
        !is_not_sent
    })
    .await;
    finding
}

/// Checks that no request waits in the client, and that the servers have its connections and no
/// others.
async fn is_at_rest(client: &Client, servers: &[&Server]) -> Vec<String> {
    let mut findings = Vec::new();
    let pending = || {
        let metrics = client.metrics();
        [metrics.in_flight, metrics.queued, metrics.waiting]
    };
    if !until(PATIENCE, async || pending() == [0, 0, 0]).await {
        findings.push(format!("the client has [in flight, queued, waiting] {:?}", pending()));
    }
    let mut seen = Vec::new();
    let at_rest = until(PATIENCE, async || {
        seen = servers.iter().flat_map(|server| connections(server)).collect();
        seen.len() == client.metrics().open
    });
    if !at_rest.await {
        let open = client.metrics().open;
        findings.push(format!("the client has {open} connections, and the servers have {seen:#?}"));
    }
    findings
}

/// The client's connections, as a server lists them.
pub(crate) fn connections(server: &Server) -> Vec<String> {
    let list = server.plain().unwrap().tell(&Command::new("CLIENT LIST")).unwrap();
    let name = format!(" name={} ", CLIENT);
    let lines = list.text().expect("it is a text").lines();
    lines.filter(|line| line.contains(&name)).map(str::to_owned).collect()
}
