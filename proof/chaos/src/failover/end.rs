//! After the last fault: the client and the cluster must come to rest.

use super::stage::Stage;
use crate::check::Kept;
use crate::end::Rest;
use crate::ledger::Ledger;
use crate::postgres::end;

/// Waits until all is at rest, and reads the table of the primary.
pub(crate) async fn rest(stage: Stage, ledger: &Ledger) -> Rest {
    let url = stage.url_of_primary();
    let mut findings: Vec<_> = end::is_at_work(&stage.client, ledger).await.into_iter().collect();
    findings.extend(end::is_idle(&stage.client).await);
    findings.extend(end::has_no_other_session(&stage.client, &url).await);
    let table = end::table(&url, "written").await;
    let lost = stage.client.metrics().lost;
    Rest { findings, table, lost, by_faults_alone: true, kept: Kept::All, pause_max: None }
}
