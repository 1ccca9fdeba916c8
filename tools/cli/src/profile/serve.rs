//! `onetrip profile --listen`: a proxy in front of a server, until it is stopped.

use std::time::Instant;

use onetrip_lab::proxy::Proxy;
use onetrip_profile::Profile;
use tokio::time::{MissedTickBehavior, interval_at};

use super::ProfileArgs;
use super::analysis::Analysis;
use super::live::{self, Screen};
use super::splice::{Front, Splicer};
use super::summary::several;
use super::tls::{Relays, Way};
use crate::output::{End, print, tell};
use crate::runtime::runtime;
use crate::shown::Shown;
use crate::stop::Stop;

/// Profiles until SIGINT (Ctrl-C), SIGTERM or SIGHUP.
///
/// # Errors
/// It can't listen, or its output can't be written.
pub(super) fn serve(args: &ProfileArgs) -> Result<Profile, End> {
    let (Some(listen), Some(name)) = (args.listen, &args.to) else {
        return Err("--listen and --to belong together".to_owned().into());
    };
    let variable = |name: &str| std::env::var(name).ok();
    let way = Way::to(name, &args.tls, variable).map_err(|error| format!("--to: {error}"))?;
    let shown = Shown::new();
    let line = shown.clone();
    let is_live = args.live;
    let stop = Stop::catch(move || if is_live { live::close() } else { line.clear() })?;
    let runtime = runtime(1)?;
    let analysis = Analysis::start(args.settings())?;
    // Called before it listens, so that a signal from then on writes what was found.
    stop.tidy_first("nothing was written");
    let front = Front { listen, beyond_loopback: args.allow_remote };
    let relays =
        Relays::start("onetrip profile", |line| tell(&format!("onetrip: profile: {line}")))?;
    let splicer = Splicer { analysis: &analysis, relays: &relays, tls: &args.tls };
    let name = way.to_string();
    let splice = splicer.splice(front, way, 0)?;
    let head = format!(
        "{} -> {name}; Ctrl-C ends it and writes what was found to {}",
        splice.addr,
        args.out.display()
    );
    let told = match args.live {
        true => watch_live(&splice.proxy, &analysis, &stop, args, &name),
        false => runtime.block_on(watch(&splice.proxy, &analysis, &stop, args, &shown, &head)),
    };
    shown.clear();
    drop(splice);
    let profile = analysis.finish()?;
    told?;
    Ok(profile)
}

fn watch_live(
    proxy: &Proxy,
    analysis: &Analysis,
    stop: &Stop,
    args: &ProfileArgs,
    name: &str,
) -> Result<(), End> {
    let mut screen = Screen::open()?;
    Ok(screen.watch(proxy, analysis, stop, name, args.interval)?)
}

/// Shows the counts until the command is stopped.
async fn watch(
    proxy: &Proxy,
    analysis: &Analysis,
    stop: &Stop,
    args: &ProfileArgs,
    shown: &Shown,
    head: &str,
) -> Result<(), End> {
    print(head)?;
    let start = Instant::now();
    let mut ticks = interval_at(tokio::time::Instant::now() + args.interval, args.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = (0, 0);
    let mut found = None;
    loop {
        tokio::select! {
            _ = stop.requested() => return Ok(()),
            _ = ticks.tick() => {
                let (trips, open) = (analysis.trips(), proxy.stats().open.len());
                found = analysis.snapshot().or(found);
                let line = format!(
                    "{:.0} s: {}; {}; {}; {}{}",
                    start.elapsed().as_secs_f64(),
                    several(trips, "trip"),
                    several(found.as_ref().map_or(0, |it| it.units), "unit"),
                    several(found.as_ref().map_or(0, |it| it.findings.len() as u64), "finding"),
                    several(open as u64, "connection"),
                    if analysis.ring().lost().pieces > 0 { "; lossy" } else { "" }
                );
                shown.interval(line, before != (trips, open))?;
                before = (trips, open);
            }
        }
    }
}
