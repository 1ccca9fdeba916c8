//! The probes that need one connection. Each opens its own, so that one that hangs harms no other.

use std::time::{Duration, Instant};

use super::wire::{Said, Trouble, Wire, refusal, value};
use super::{Finding, Pooling, ROUND_TRIPS, Startup};
use crate::Error;
use crate::config::Config;

/// How often a failing segment is sent among others. A pooler's mistake there is a race, so once is
/// not enough.
const FAILURES: usize = 20;

/// How often a Flush is sent behind a sync point.
const FLUSHES: usize = 3;

/// How often a cancel is tried. One that overtakes its statement has no effect.
const CANCELS: usize = 3;

/// How long the statement sleeps that is to be cancelled, in seconds.
const SLEEP_S: u32 = 1;

/// The median of a few round trips.
pub(super) async fn round_trip(wire: &mut Wire) -> Result<Duration, Error> {
    let mut times = [Duration::ZERO; ROUND_TRIPS];
    for time in &mut times {
        let begin = Instant::now();
        wire.simple("select 1").await.map_err(Trouble::into_error)?;
        *time = begin.elapsed();
    }
    times.sort_unstable();
    Ok(times[ROUND_TRIPS / 2])
}

/// Five statements and one sync point; then the same with a failing statement, behind which the
/// server skips the rest.
pub(super) async fn one_sync(config: &Config) -> Result<Finding, Error> {
    let mut wire = Wire::open(config).await?;
    for fails_at in [None, Some(13)] {
        for number in 11..=15 {
            add(&mut wire, number, fails_at)?;
        }
        wire.sync();
        let expected: &[&str] = match fails_at {
            None => &["11", "12", "13", "14", "15", READY],
            Some(_) => &["11", "12", DIVISION, READY],
        };
        let finding = compare(wire.ask(1).await, expected.iter().copied());
        if !finding.holds() {
            return Ok(finding);
        }
    }
    wire.end().await;
    Ok(Finding::Holds)
}

/// Ten statements with a sync point each, in one write.
pub(super) async fn many_syncs(config: &Config) -> Result<Finding, Error> {
    let mut wire = Wire::open(config).await?;
    let numbers: Vec<String> = (21..=30).map(|number| number.to_string()).collect();
    for number in 21..=30 {
        add(&mut wire, number, None)?;
        wire.sync();
    }
    let expected = numbers.iter().flat_map(|number| [number.as_str(), READY]);
    let finding = compare(wire.ask(numbers.len()).await, expected);
    if finding.holds() {
        wire.end().await;
    }
    Ok(finding)
}

/// P41: five statements with a sync point each, of which the third fails.
pub(super) async fn failure_between(config: &Config) -> Result<Finding, Error> {
    const EXPECTED: [&str; 10] =
        ["31", READY, "32", READY, DIVISION, READY, "34", READY, "35", READY];
    let mut wire = Wire::open(config).await?;
    for _ in 0..FAILURES {
        for number in 31..=35 {
            add(&mut wire, number, Some(33))?;
            wire.sync();
        }
        let finding = compare(wire.ask(5).await, EXPECTED.into_iter());
        if !finding.holds() {
            return Ok(finding);
        }
    }
    wire.end().await;
    Ok(Finding::Holds)
}

/// A statement without a sync point is answered when a Flush follows; the sync point comes later.
pub(super) async fn flush(config: &Config) -> Result<Finding, Error> {
    let mut wire = Wire::open(config).await?;
    add(&mut wire, 41, None)?;
    wire.flush();
    let flushed = match wire.send().await {
        Ok(()) => wire.next().await,
        Err(trouble) => Err(trouble),
    };
    let finding = compare(flushed.map(|said| vec![said]), ["41"].into_iter());
    if !finding.holds() {
        return Ok(finding);
    }
    wire.sync();
    let finding = compare(wire.ask(1).await, [READY].into_iter());
    wire.end().await;
    Ok(finding)
}

/// P40: the same behind a segment that is still unanswered. A pooler that takes the end of that
/// segment for the end of everything releases the server. The flushed statement takes a moment, so
/// that the two answers come apart.
pub(super) async fn flush_behind_sync(config: &Config) -> Result<Finding, Error> {
    let mut wire = Wire::open(config).await?;
    for _ in 0..FLUSHES {
        add(&mut wire, 51, None)?;
        wire.sync();
        wire.statement("select 52 from pg_catalog.pg_sleep(0.02)")?;
        wire.flush();
        let mut said = wire.ask(1).await;
        if let Ok(said) = &mut said {
            match wire.next().await {
                Ok(next) => said.push(next),
                Err(trouble) => return Ok(trouble.into_finding()),
            }
        }
        let finding = compare(said, ["51", READY, "52"].into_iter());
        if !finding.holds() {
            return Ok(finding);
        }
        wire.sync();
        let finding = compare(wire.ask(1).await, [READY].into_iter());
        if !finding.holds() {
            return Ok(finding);
        }
    }
    wire.end().await;
    Ok(Finding::Holds)
}

/// A notification reaches its listener. Not tried if it would leave LISTEN on another client's
/// connection.
pub(super) async fn notifications(config: &Config, pooling: Pooling) -> Result<Finding, Error> {
    if !matches!(pooling, Pooling::Direct | Pooling::Session) {
        let why = "LISTEN ends with its transaction, or stays with somebody else's connection";
        return Ok(Finding::Differs(why.to_owned()));
    }
    let channel = format!("onetrip_doctor_{:x}", super::meeting::random()?);
    let mut ear = Wire::open(config).await?;
    let mut mouth = Wire::open(config).await?;
    let listened = compare(ear.simple(&format!("listen {channel}")).await, [READY].into_iter());
    let notified = match listened.holds() {
        true => compare(mouth.simple(&format!("notify {channel}")).await, [READY].into_iter()),
        false => return Ok(listened),
    };
    let finding = match notified.holds() {
        true => compare(ear.next().await.map(|said| vec![said]), [NOTIFICATION].into_iter()),
        false => notified,
    };
    let _ = ear.simple(&format!("unlisten {channel}")).await;
    ear.end().await;
    mouth.end().await;
    Ok(finding)
}

/// P42: settings in the startup. The one that is sent changes how numbers are printed, on this
/// connection only.
pub(super) async fn options(config: &Config) -> Result<Startup, Error> {
    let asking = config.clone().options("-c extra_float_digits=2");
    let mut wire = match Wire::open(&asking).await {
        Ok(wire) => wire,
        Err(error) => {
            let refused = error.server().map(|server| Startup::Refused(server.message.clone()));
            return refused.ok_or(error);
        }
    };
    let answer = wire.simple("show extra_float_digits").await.map_err(Trouble::into_error)?;
    wire.end().await;
    Ok(if value(&answer) == Some("2") { Startup::Taken } else { Startup::Ignored })
}

/// A sleeping statement is cancelled.
pub(super) async fn cancel(config: &Config) -> Result<Finding, Error> {
    let mut wire = Wire::open(config).await?;
    for _ in 0..CANCELS {
        wire.statement(&format!("select pg_catalog.pg_sleep({SLEEP_S})"))?;
        wire.sync();
        if let Err(trouble) = wire.send().await {
            return Ok(trouble.into_finding());
        }
        wire.cancel().await;
        let answer = match wire.ask(1).await {
            Ok(answer) => answer,
            Err(trouble) => return Ok(trouble.into_finding()),
        };
        match refusal(&answer) {
            Some(error) if error.code == CANCELLED => return Ok(Finding::Holds),
            Some(error) => return Ok(Finding::Differs(error.to_string())),
            None => {}
        }
    }
    wire.end().await;
    Ok(Finding::Differs("the statement runs to its end".to_owned()))
}

/// Adds a statement that returns the number, or fails.
fn add(wire: &mut Wire, number: u32, fails_at: Option<u32>) -> Result<(), Error> {
    match fails_at == Some(number) {
        true => wire.statement("select 1/0"),
        false => wire.statement(&format!("select {number}")),
    }
}

/// Compares an answer with the expected one, in the words of [`word`].
fn compare<'a>(
    answer: Result<Vec<Said>, Trouble>,
    expected: impl Iterator<Item = &'a str>,
) -> Finding {
    let answer = match answer {
        Ok(answer) => answer,
        Err(trouble) => return trouble.into_finding(),
    };
    let came: Vec<&str> = answer.iter().map(word).collect();
    let expected: Vec<&str> = expected.collect();
    if came == expected {
        return Finding::Holds;
    }
    let said = match refusal(&answer) {
        Some(error) if !expected.contains(&error.code.as_str()) => format!("; {error}"),
        _ => String::new(),
    };
    let (came, expected) = (came.join(", "), expected.join(", "));
    Finding::Differs(format!("came {came} where {expected} was due{said}"))
}

fn word(said: &Said) -> &str {
    match said {
        Said::Row(row) => row.first().and_then(Option::as_deref).unwrap_or_default(),
        Said::Error(error) => &error.code,
        Said::Ready(_) => READY,
        Said::Notification => NOTIFICATION,
    }
}

const READY: &str = "ready";
const NOTIFICATION: &str = "a notification";

/// division_by_zero.
const DIVISION: &str = "22012";

/// query_canceled.
const CANCELLED: &str = "57014";
