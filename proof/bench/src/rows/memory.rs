//! What passes by and is larger than memory should hold: 10,000,000 rows as a stream, and a value of
//! 1 GB that is written in pieces and read in pieces. The client takes the memory of its buffers. In
//! a process of its own, whose memory is nothing else's.

use std::pin::Pin;
use std::task::{Context as Waiting, Poll};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, ReadBuf};

use crate::child::{ask, memory_mib, reset_peak};
use crate::measure::Spread;
use crate::progress::{Progress, seconds};
use crate::report::Row;
use crate::stage::{Stage, one_thread, ours_at};
use crate::{Plan, Side};

pub const STREAM: &str = "stream_10m_rows_memory";
pub const VALUE: &str = "value_1gb_memory";

const GROWTH_MIB_MAX: f64 = 32.0;

const ROWS: i32 = 10_000_000;
/// Some 110 bytes a row. A set in the list of columns comes row by row.
const SELECT: &str = "select generate_series(1, 10000000) as i, repeat('x', 100) as text";

/// PostgreSQL's limit is 1 GiB for a whole message or row (MaxAllocSize in
/// src/include/utils/memutils.h).
const VALUE_BYTES: usize = 1_000_000_000;

/// What has not ended by then hangs: a run takes some 20 s.
const TIMEOUT: Duration = Duration::from_secs(180);

/// What the child found.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    growth_mib: f64,
    seconds: f64,
    bytes: u64,
}

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    let row = |(at, name): (usize, &&str)| {
        progress.tick(at, 2);
        let found: Found = ask(&["--memory-of", &stage.server.url(), "--memory-row", name])?;
        let growth = Spread::of([found.growth_mib]);
        let note = format!(
            "largest growth of resident memory while {:.0} MB passed; {}; all of it was checked",
            found.bytes as f64 / 1e6,
            seconds(Duration::from_secs_f64(found.seconds)),
        );
        Ok(Row::alone(name, "MiB", growth, Some(GROWTH_MIB_MAX)).note(&note))
    };
    [STREAM, VALUE].iter().enumerate().map(row).collect()
}

/// What the process does whose memory is measured.
pub fn in_child(url: &str, row: &str) -> Result<()> {
    let found = one_thread()?.block_on(async {
        let client = ours_at(url).await?;
        client.execute("drop table if exists large", &[]).await?;
        client.execute("create unlogged table large (doc bytea)", &[]).await?;
        // Compressing it would measure the server.
        client.execute("alter table large alter doc set storage external", &[]).await?;
        reset_peak()?;
        let (idle, start) = (memory_mib("VmRSS")?, Instant::now());
        let passed = async {
            match row {
                STREAM => stream(&client).await,
                VALUE => value(&client).await,
                other => bail!("{other} is no row of memory"),
            }
        };
        let bytes = tokio::time::timeout(TIMEOUT, passed).await.context("it did not end")??;
        let growth_mib = memory_mib("VmHWM")? - idle;
        let seconds = start.elapsed().as_secs_f64();
        client.execute("drop table large", &[]).await?;
        anyhow::Ok(Found { growth_mib, seconds, bytes })
    })?;
    println!("{}", serde_json::to_string(&found)?);
    Ok(())
}

async fn stream(client: &onetrip::Client) -> Result<u64> {
    let mut rows = client.query_stream(SELECT, &[]).await?;
    for number in 1..=ROWS {
        let row = rows.try_next().await?.context("the stream ended early")?;
        let (i, text): (i32, &str) = (row.get(0), row.get(1));
        ensure!(i == number && text.len() == 100, "row {number} is another: {i}");
    }
    ensure!(rows.try_next().await?.is_none(), "more rows than there are");
    drop(rows);
    Ok(client.metrics().counts.bytes_received)
}

async fn value(client: &onetrip::Client) -> Result<u64> {
    let mut written = Generated { left: VALUE_BYTES, sum: Checksum::default() };
    let insert = "insert into large values ($1)";
    let inserted = client.execute_large(insert, &[], VALUE_BYTES, &mut written).await?;
    ensure!(inserted == 1 && written.left == 0, "not all of it was taken");
    let mut rows = client.query_stream("select doc from large", &[]).await?;
    let mut row = rows.next_in_pieces().await?.context("no row came back")?;
    let mut pieces = row.pieces().await?.context("it came back as NULL")?;
    ensure!(pieces.len() == VALUE_BYTES, "{} bytes come back", pieces.len());
    let (mut read, mut len) = (Checksum::default(), 0);
    while let Some(piece) = pieces.next().await? {
        read.add(&piece);
        len += piece.len();
    }
    ensure!(len == VALUE_BYTES && read == written.sum, "what came back is not what was written");
    Ok(2 * VALUE_BYTES as u64)
}

/// So many bytes, that are never there at once and that no period shows in.
struct Generated {
    left: usize,
    sum: Checksum,
}

impl AsyncRead for Generated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Waiting<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let len = out.remaining().min(self.left);
        let end = self.left - len;
        let piece = out.initialize_unfilled_to(len);
        for (byte, left) in piece.iter_mut().zip((end + 1..=self.left).rev()) {
            *byte = ((left as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
        }
        self.sum.add(piece);
        out.advance(len);
        self.left = end;
        Poll::Ready(Ok(()))
    }
}

/// Depends on each byte and on its place (FNV-1a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}
