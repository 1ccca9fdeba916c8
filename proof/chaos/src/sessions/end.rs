//! After the run: the client and the server must come to rest, no connection may remain, and the
//! ledger is compared with the table.

use std::sync::Arc;

use super::{LOOK, Setting};
use crate::check::{Kept, Table, Window, check};
use crate::drive::{FaultWindow, until};
use crate::end::{PATIENCE, Rest, judge};
use crate::ledger::Ledger;
use crate::postgres::end::{has_no_other_session, is_idle, table};
use crate::postgres::observer::Observer;
use crate::postgres::stage::Stage;
use crate::{Options, Report};

/// What a statement sees in a session without any state of an owner.
pub(crate) async fn clean(stage: &Stage) -> Arc<str> {
    let sql = format!("select seen from ({}) as it", LOOK.replace("$1", "0"));
    Observer::connect(&stage.url).await.texts(&sql).await.remove(0).into()
}

/// Everything that is checked at the end.
pub(crate) struct All<'a> {
    pub(crate) setting: &'a Setting,
    pub(crate) ledger: &'a Ledger,
    pub(crate) stray: &'a Ledger,
    pub(crate) clean: &'a str,
}

impl All<'_> {
    pub(crate) async fn judge(
        &self,
        options: &Options,
        stage: Stage,
        faults: &[FaultWindow],
        in_time: bool,
    ) -> Report {
        let duration = self.ledger.now();
        let mut findings: Vec<String> = is_idle(&stage.client).await.into_iter().collect();
        if self.setting.pooler.is_none() {
            findings.extend(has_no_other_session(&stage.client, &stage.url).await);
        }
        let there = table(&stage.url, "public.entry").await;
        let strayed = table(&stage.url, "stray.entry").await;
        findings.extend(self.strayed(faults, strayed));
        findings.extend(self.read(&stage.url).await);
        let lost = stage.client.metrics().lost;
        findings.extend(left(stage).await);
        // The client also closes the connection of a session that ends while it is busy.
        let rest = Rest {
            findings,
            table: there,
            lost,
            by_faults_alone: false,
            kept: Kept::All,
            pause_max: None,
        };
        judge(options, self.ledger, duration, faults, in_time, rest)
    }

    /// What is wrong with the rows of the other schema.
    fn strayed(&self, faults: &[FaultWindow], table: Table) -> Vec<String> {
        let windows: Vec<Window> = faults.iter().filter_map(|fault| fault.window).collect();
        let table = table.into_iter().map(|(n, count)| (-n - 1, count)).collect();
        let wrong = check(&self.stray.units(), &windows, &table, &Kept::All).wrong;
        wrong.into_iter().map(|wrong| format!("in the other schema, {wrong}")).collect()
    }

    /// Checks what the rows saw, and the counters.
    async fn read(&self, url: &str) -> Vec<String> {
        let observer = Observer::connect(url).await;
        let clean = self.clean.replace('\'', "''");
        let foreign = format!(
            "select format('row %s saw %s', n, seen) from public.entry \
             where not own and seen <> '{clean}' limit 20"
        );
        let mut findings = observer.texts(&foreign).await;
        let counted = "select format('%s counted, %s rows', sum(v), (select count(*) from \
             public.entry where counted)) from public.counter having sum(v) <> 2 * (select \
             count(*) from public.entry where counted)";
        findings.extend(observer.texts(counted).await);
        findings
    }
}

/// Drops the last client, and checks that no connection outlives it.
async fn left(stage: Stage) -> Vec<String> {
    let Stage { server, pooler, proxy, client, .. } = stage;
    drop(client);
    let is_empty = until(PATIENCE, async || proxy.stats().open.is_empty()).await;
    let finding = (!is_empty).then(|| format!("{} connections are left", proxy.stats().open.len()));
    drop(pooler);
    server.expect("it runs between two faults").stop().unwrap();
    finding.into_iter().collect()
}
