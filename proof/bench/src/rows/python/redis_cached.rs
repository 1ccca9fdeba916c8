//! GETs of 10,000 hot keys, one after the other: with client-side caching beside without, and
//! beside the cache of redis-py, which only its synchronous client has.

use anyhow::Result;
use onetrip_lab::redis::Server;

use super::super::redis::cached::{BARS, KEYS, filled};
use super::super::redis::{named, with_server};
use super::super::turns::{Runner, beside};
use super::{setup, task, with_python};
use crate::Plan;
use crate::progress::Progress;
use crate::report::{Bars, Row};
use crate::stage::{Stage, one_thread};

pub const NAME: &str = "python_redis_cached";

pub fn run(_: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    with_python(NAME, || {
        with_server(NAME, |server| {
            one_thread()?.block_on(filled(&server.url()))?;
            let keys = KEYS as u32;
            // All keys are read before the first round.
            let task = |driver| task(driver, "get_hot", keys);
            let mut runners = vec![
                Runner::ours("native", task("onetrip_redis_cached")),
                Runner::peer("uncached", task("onetrip_redis"), BARS),
            ];
            let has_peer = suits_redis_py(server);
            if has_peer {
                runners.push(Runner::peer("redis_py", task("redis_cached"), Bars::default()));
            }
            let note = format!("one after the other; {}; {}", named(server), setup::note());
            let operations = 2 * keys / plan.shorter;
            let mut rows =
                beside(plan, progress, (NAME, operations), &runners, &server.url(), &note)?;
            if !has_peer {
                let name = format!("{NAME}.redis_py");
                rows.push(Row::skipped(&name, "its cache wants Redis 7.4 or later"));
            }
            Ok(rows)
        })
    })
}

/// redis-py caches with no server that is older or another one.
fn suits_redis_py(server: &Server) -> bool {
    let mut numbers = server.version().split('.').map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next(), numbers.next());
    server.installation().product() == "Redis" && version >= (Some(7), Some(4))
}
