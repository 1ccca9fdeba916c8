//! Whether the proxy that delays does what it is told: its own check.

use anyhow::{Context, Result};
use onetrip_lab::proxy::{SelfCheckConfig, self_check};

use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Stage;
use crate::{Plan, Side};

const THROUGHPUT_MIN: f64 = 0.95;

pub fn run(_: &Stage, plan: Plan, _: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    let all = SelfCheckConfig::default();
    let samples = all.samples / plan.shorter as usize;
    let bulk_bytes = all.bulk_bytes / u64::from(plan.shorter);
    let check = self_check(&SelfCheckConfig { samples, bulk_bytes, ..all })
        .context("the proxy's check failed")?;
    let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1e3;
    let error = Spread::of([check.error_ms.abs()]);
    let delay = Row::alone("proxy_delay_error", "ms", error, Some(check.error_max_ms()));
    let note = format!(
        "{:.3} ms at {:.0} ms configured, over a base of {:.3} ms; p99 {:.3} ms",
        ms(check.delayed),
        ms(check.rtt),
        ms(check.base),
        ms(check.delayed_p99),
    );
    let rates = (Spread::of([check.bulk_delayed / 1e6]), check.bulk_base / 1e6);
    let throughput = Row::multiple("proxy_throughput", "MB/s", rates, "without delay", 0.0);
    Ok(vec![delay.note(&note), throughput.at_least(THROUGHPUT_MIN)])
}
