//! GETs of 10,000 hot keys, one after the other: with client-side caching beside without, and
//! beside the cache of redis-rs. Nobody writes, and everything is in the caches. The rows of the
//! other languages use the same keys.

use std::num::NonZeroUsize;
use std::sync::OnceLock;

use anyhow::Result;
use onetrip::redis::{Client, Config};
use redis::caching::CacheConfig;

use super::clients::{Commands, Ours, RedisRs};
use super::server::{named, with_server};
use crate::Plan;
use crate::environment::REDIS_RS;
use crate::measure::{Sample, paired, timed};
use crate::progress::Progress;
use crate::report::{Bars, Row, compared};
use crate::stage::{Stage, one_thread};

const NAME: &str = "redis_cached";

pub const KEYS: usize = 10_000;

/// Room for all of them.
const CACHE_BYTES: usize = 64 << 20;

/// The most of the time of our own without a cache: twenty times as fast.
pub const BARS: Bars = Bars { cpu: None, time: Some(1.0 / 20.0) };

fn keys() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| (0..KEYS).map(|number| format!("bench:hot:{number:06}")).collect())
}

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_server(NAME, |server| {
        let (url, note) = (server.url(), named(server));
        one_thread()?.block_on(async {
            let plain = filled(&url).await?;
            let config = url.parse::<Config>()?.cache(CACHE_BYTES);
            let cached = Ours(Client::connect_with(&config).await?);
            let size = NonZeroUsize::new(2 * KEYS).unwrap_or(NonZeroUsize::MIN);
            let peer = RedisRs::cached(&url, CacheConfig::new().set_size(size)).await?;
            // What is measured is in the caches.
            one_by_one(&cached, KEYS).await?;
            one_by_one(&peer, KEYS).await?;

            let count = 2 * KEYS / plan.shorter as usize;
            let run = async |_| one_by_one(&cached, count).await;
            let pairs =
                paired(plan, progress, run, async |_| one_by_one(&plain, count).await).await?;
            let mut rows =
                compared(&format!("{NAME}.uncached"), "our own, uncached", &pairs, BARS, &note);
            let pairs =
                paired(plan, progress, run, async |_| one_by_one(&peer, count).await).await?;
            let name = format!("{NAME}.redis_rs");
            rows.extend(compared(&name, REDIS_RS, &pairs, Bars::default(), &note));
            Ok(rows)
        })
    })
}

/// Sets all keys. Returns the client that has.
pub async fn filled(url: &str) -> Result<Ours> {
    let client = Ours::connect(url).await?;
    for key in keys() {
        client.0.cmd("SET").arg(key).arg(format!("{key:>64}")).send::<()>().await?;
    }
    Ok(client)
}

async fn one_by_one(on: &impl Commands, count: usize) -> Result<Sample> {
    let mut on = on.clone();
    let read = async move {
        let mut sum = 0_u64;
        for number in 0..count {
            // Neighbours in time are not neighbours among the keys.
            let key = &keys()[number.wrapping_mul(7919) % KEYS];
            sum = sum.wrapping_add(on.get(key).await?);
        }
        anyhow::Ok(sum)
    };
    timed(count as u64, read).await
}
