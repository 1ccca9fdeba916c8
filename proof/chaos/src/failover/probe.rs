//! When a new primary takes writes: a task for each node that may take over tries one every few
//! milliseconds.

use std::time::{Duration, SystemTime};

use onetrip::{Client, Session};
use tokio::task::JoinSet;

/// The first write that any node but one acknowledges.
pub(crate) struct Probe(JoinSet<(usize, SystemTime)>);

impl Probe {
    /// Begins to try the nodes with these numbers and URLs.
    pub(crate) fn start(nodes: Vec<(usize, String)>) -> Probe {
        let mut tasks = JoinSet::new();
        for (node, url) in nodes {
            tasks.spawn(async move { (node, first_write(url).await) });
        }
        Probe(tasks)
    }

    /// The node that acknowledged, and when.
    pub(crate) async fn first(mut self) -> (usize, SystemTime) {
        let first = tokio::time::timeout(PATIENCE, self.0.join_next()).await;
        first.expect("no node takes over").expect("there is a node").unwrap()
    }
}

/// When the server acknowledged a write for the first time.
async fn first_write(url: String) -> SystemTime {
    let mut session: Option<Session> = None;
    loop {
        if session.is_none() {
            session = connect(&url).await;
        }
        if let Some(open) = &session {
            match open.execute("insert into probed values (1)", &[]).await {
                Ok(_) => return SystemTime::now(),
                // A standby refuses it, and its connection stays.
                Err(error) if error.sqlstate() == Some("25006") => {}
                Err(_) => session = None,
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn connect(url: &str) -> Option<Session> {
    let client = Client::connect(url).await.ok()?;
    client.session().await.ok()
}

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(1);

/// How long a failover may take: the lease, and a restart on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
