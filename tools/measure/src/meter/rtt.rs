//! The round trip to the server.

use std::time::{Duration, Instant};

use onetrip::{Client, Session};
use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::spread::Spread;

/// Measures round trips of an empty request (a text without a statement), one after the other on an
/// open connection, in milliseconds. They include the server's time for the empty request. It
/// measures 50 after five for warm-up; on a slow line, as many as three seconds allow.
///
/// # Errors
/// No session, or the server did not answer within ten seconds.
pub async fn rtt(client: &Client) -> Result<Spread> {
    let session = client.session().await?;
    let start = Instant::now();
    let mut times = vec![empty(&session).await?];
    while times.len() < WARM_UP + SAMPLES && start.elapsed() < TIME_MAX {
        times.push(empty(&session).await?);
    }
    let warm = times.split_off(WARM_UP.min(times.len() / 2));
    let spread = Spread::of(warm.iter().map(|time| time.as_secs_f64() * 1e3));
    Ok(spread.expect("at least one was measured"))
}

const WARM_UP: usize = 5;
const SAMPLES: usize = 50;
const TIME_MAX: Duration = Duration::from_secs(3);
const ANSWER_MAX: Duration = Duration::from_secs(10);

async fn empty(session: &Session) -> Result<Duration> {
    let start = Instant::now();
    let late = |_| Error::new("the server has not answered an empty request for 10 s: is it busy?");
    timeout(ANSWER_MAX, session.script("")).await.map_err(late)??;
    Ok(start.elapsed())
}
