//! What a client may rely on with the server it connects to: the findings of
//! [`Client::doctor`](crate::Client::doctor). docs/operations/poolers.md has the meaning of each
//! finding and what to do.
//!
//! Each finding comes from a probe on connections of its own, which are closed afterwards. No probe
//! creates anything that outlives its connection, and each ends within a bounded time, whatever the
//! peer does.
//!
//! This file lists the probes in their order. `wire` is the connection, `probes` and `meeting` hold
//! the probes, `diagnosis` the result, `report` its text. `path` looks at each host; `hosts` has
//! what it finds, and `path_report` the text of that. `advice` is a setting to change.

mod advice;
mod diagnosis;
mod hosts;
mod meeting;
pub(crate) mod neighbours;
mod path;
mod path_report;
mod probes;
mod report;
mod wire;

pub use advice::{Advice, Place};
pub use diagnosis::{Diagnosis, Finding, Names, Pooling, ROUND_TRIPS, SlowAtTimes, Startup};
pub use hosts::{Between, Host, Server, Standby};
pub use path::path;
pub use path_report::Hosts;

use crate::Error;
use crate::config::Config;

use meeting::meet;
use wire::{Wire, value};

/// Runs all probes, one after the other.
pub(crate) async fn diagnose(config: &Config) -> Result<Diagnosis, Error> {
    let hosts = path(config).await?;
    let mut wire = Wire::open(config).await?;
    let version = wire.simple("show server_version").await.map_err(wire::Trouble::into_error)?;
    let round_trip = probes::round_trip(&mut wire).await?;
    wire.end().await;
    let met = meet(config).await?;
    let settings = config.settings();
    Ok(Diagnosis {
        on_hosts: path_report::advice(&hosts, settings),
        hosts,
        server_version: value(&version).unwrap_or_default().to_owned(),
        pooling: met.pooling,
        one_sync: probes::one_sync(config).await?,
        many_syncs: probes::many_syncs(config).await?,
        failure_between: probes::failure_between(config).await?,
        flush: probes::flush(config).await?,
        flush_behind_sync: probes::flush_behind_sync(config).await?,
        prepared: met.prepared,
        notifications: probes::notifications(config, met.pooling).await?,
        options: probes::options(config).await?,
        cancel: probes::cancel(config).await?,
        round_trip,
        slow_neighbours: Vec::new(),
        slow_at_times: Vec::new(),
        prepares: settings.prepare_threshold > 0,
        sends_ahead: settings.in_flight_max > 1 && !settings.one_segment,
    })
}
