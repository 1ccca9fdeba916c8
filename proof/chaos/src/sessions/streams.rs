//! Streams, COPY, large values and listeners.

use std::time::Duration;

use onetrip::Event;

use super::{LOOK, SessionsWriter};
use crate::ledger::Claim;

impl SessionsWriter {
    /// Rows by COPY: finished, aborted, or dropped.
    pub(crate) async fn copied_in(&mut self) {
        let rows = self.some(1..6);
        let mut unit = self.begin("COPY", rows);
        // A pooler that shares its connections takes a COPY only while it succeeds.
        let ways = if self.own.setting.is_shared() { 1 } else { 4 };
        let way = self.random.below(ways);
        if self.own.setting.is_shared() && self.own.setting.faults {
            unit.say(Claim::Forgotten);
            return self.end(unit);
        }
        let mut copy = match self.client.copy_in("copy entry (n) from stdin").await {
            Ok(copy) => copy,
            Err(error) => {
                unit.claim::<()>(&Err(error));
                return self.end(unit);
            }
        };
        let lines: String = unit.numbers.clone().map(|n| format!("{n}\n")).collect();
        let sent = copy.send(lines).await;
        unit.provisional(&sent);
        match way {
            2 => {
                drop(copy);
                unit.say(Claim::RolledBack);
            }
            3 => {
                drop(copy.abort("no").await);
                unit.say(Claim::RolledBack);
            }
            _ => unit.claim(&copy.finish().await.map(drop)),
        }
        self.end(unit);
    }

    /// A stream of rows, read to its end or dropped; or a COPY of them.
    pub(crate) async fn streamed(&mut self) {
        let is_copy = self.random.one_in(3);
        if is_copy && !self.own.setting.is_shared() {
            return self.copied_out().await;
        }
        let n = self.number();
        let mut rows = match self.client.query_stream(LOOK, &[&n]).await {
            Ok(rows) => rows,
            Err(error) => return self.bear("a stream", &error),
        };
        match rows.try_next().await {
            Ok(Some(row)) => self.hold("a stream", n, &row),
            Ok(None) => self.ledger.wrong("a stream had no row".to_owned()),
            Err(error) => self.bear("a stream", &error),
        }
    }

    async fn copied_out(&mut self) {
        let n = self.number();
        let sql = format!("copy ({}) to stdout", LOOK.replace("$1", &n.to_string()));
        let mut copy = match self.client.copy_out(&sql).await {
            Ok(copy) => copy,
            Err(error) => return self.bear("a COPY", &error),
        };
        let mut text = Vec::new();
        loop {
            match copy.try_next().await {
                Ok(Some(bytes)) => text.extend_from_slice(&bytes),
                Ok(None) => break,
                Err(error) => return self.bear("a COPY", &error),
            }
        }
        let text = String::from_utf8_lossy(&text);
        if text != format!("{n}\t{}\n", self.own.clean) {
            self.ledger.wrong(format!("a COPY for {n} saw {text}"));
        }
    }

    /// A value sent from a reader; now and then the reader ends too early.
    pub(crate) async fn large(&mut self) {
        let mut unit = self.begin("insert with a large value", 1);
        let n = unit.numbers.start;
        let value = vec![b'x'; 100_000];
        let short = self.random.one_in(3) && !self.own.setting.is_shared();
        let len = value.len() + usize::from(short);
        let written = self.client.execute_large(LARGE, &[&n], len, &value[..]).await;
        unit.claim(&written.map(drop));
        self.end(unit);
    }

    /// A listener must get its own notification, or report a gap. Few tasks do this: each listener
    /// has a connection of its own.
    pub(crate) async fn heard(&mut self) {
        if self.own.setting.is_shared() || !self.task.is_multiple_of(50) {
            return self.looks().await;
        }
        let n = self.number();
        let channel = format!("chaos_{n}");
        let Ok(mut listener) = self.client.listen(&channel).await else { return };
        if self.client.notify(&channel, &n.to_string()).await.is_err() {
            return;
        }
        match tokio::time::timeout(HEARING, listener.next()).await {
            Ok(Ok(Event::Notification(it))) => {
                if it.payload != n.to_string() {
                    self.ledger.wrong(format!("{channel} heard {}", it.payload));
                }
            }
            Ok(_) => {}
            Err(_) => self.ledger.wrong(format!("{channel} heard nothing")),
        }
    }
}

const LARGE: &str = "insert into entry (n, fine) select $1::bigint, length($2::bytea) > 0";

/// How long a listener may take to come back after its connection was lost, and to report it.
const HEARING: Duration = Duration::from_secs(60);
