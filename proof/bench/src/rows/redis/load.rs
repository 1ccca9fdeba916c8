//! The keys and values that are read and written, and loops of callers who do so.

use std::sync::OnceLock;

use anyhow::Result;
use bytes::Bytes;
use futures_util::TryStreamExt;
use futures_util::stream::FuturesUnordered;

use super::clients::Commands;

/// One key with its value of 64 bytes, which is the same in all rounds.
pub struct Pair {
    pub key: String,
    pub value: Bytes,
}

const KEYS: usize = 1_000;

/// All of them.
pub fn pairs() -> &'static [Pair] {
    static PAIRS: OnceLock<Vec<Pair>> = OnceLock::new();
    let pair = |number| Pair {
        key: format!("bench:key:{number:06}"),
        value: Bytes::from(format!("{number:064}")),
    };
    PAIRS.get_or_init(|| (0..KEYS).map(pair).collect())
}

/// What a caller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Get,
    Set,
}

impl Operation {
    pub const ALL: [Operation; 2] = [Operation::Get, Operation::Set];

    pub fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::Set => "set",
        }
    }

    /// Does it once and returns what was read: of a value, as much as tells it from the others.
    pub async fn run(self, on: &mut impl Commands, number: usize) -> Result<u64> {
        // Neighbours in time are not neighbours among the keys.
        let pair = &pairs()[number.wrapping_mul(7919) % KEYS];
        match self {
            Operation::Get => on.get(&pair.key).await,
            Operation::Set => on.set(&pair.key, &pair.value).await.map(|()| 1),
        }
    }
}

/// Sums up a value: its length, and its last eight bytes, which hold its number.
pub fn checksum(value: &[u8]) -> u64 {
    let number = value.last_chunk().map_or(0, |last| u64::from_le_bytes(*last));
    number.wrapping_add(value.len() as u64)
}

/// So many tasks, each of which asks again when it was answered.
pub async fn closed_loop(
    on: &impl Commands,
    operation: Operation,
    (tasks, each): (usize, usize),
    first: usize,
) -> Result<u64> {
    let tasks = (0..tasks).map(|task| {
        let mut on = on.clone();
        let first = first + task * each;
        tokio::spawn(async move {
            let mut sum = 0_u64;
            for number in first..first + each {
                sum = sum.wrapping_add(operation.run(&mut on, number).await?);
            }
            anyhow::Ok(sum)
        })
    });
    let tasks: FuturesUnordered<_> = tasks.collect();
    let sums: Vec<Result<u64>> = tasks.try_collect().await?;
    sums.into_iter().try_fold(0_u64, |sum, it| Ok(sum.wrapping_add(it?)))
}

/// Writes every key.
pub async fn fill(mut on: impl Commands) -> Result<()> {
    for pair in pairs() {
        on.set(&pair.key, &pair.value).await?;
    }
    Ok(())
}
