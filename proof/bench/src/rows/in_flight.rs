//! Ways to keep a number of selects in flight on one connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use anyhow::{Context, Result};
use futures_util::stream::{self, FuturesUnordered};
use futures_util::{FutureExt, StreamExt, TryStreamExt, poll};

use crate::item::{ROWS, SELECT_ONE};
use crate::stage::Stage;

/// Selects in flight.
pub const DEPTH: usize = 100;

/// How a program may hold what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One task with `buffer_unordered`.
    Unordered,
    /// One task with a queue, awaited in order.
    Queue,
    /// A task for each.
    Tasks,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::Queue, Mode::Unordered, Mode::Tasks];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Unordered => "one task, buffer_unordered(100)",
            Mode::Queue => "one task, a queue of 100",
            Mode::Tasks => "100 tasks",
        }
    }
}

/// A client with the prepared select.
pub trait Selects: Clone + Send + Sync + 'static {
    /// Whether nothing is sent before the future is polled.
    const LAZY: bool;

    /// Selects a row and reads two of its columns.
    fn select(&self, id: i32) -> impl Future<Output = Result<u64>> + Send;

    /// The same as a future that can be kept anywhere.
    fn pending(&self, id: i32) -> impl Future<Output = Result<u64>> + Send + Unpin;
}

/// Runs `count` selects and returns the sum of what was read.
pub async fn run(on: &impl Selects, mode: Mode, count: u32, first: u32) -> Result<u64> {
    match mode {
        Mode::Unordered => unordered(on, count, first).await,
        Mode::Queue => queue(on, count, first).await,
        Mode::Tasks => tasks(on, count, first).await,
    }
}

/// The id of a select: all over the table.
pub fn id(number: u32) -> i32 {
    (u64::from(number) * 7919 % ROWS as u64) as i32 + 1
}

async fn unordered(on: &impl Selects, count: u32, first: u32) -> Result<u64> {
    stream::iter(first..first + count)
        .map(|number| on.select(id(number)))
        .buffer_unordered(DEPTH)
        .try_fold(0, async |sum: u64, value| Ok(sum.wrapping_add(value)))
        .await
}

async fn queue(on: &impl Selects, count: u32, first: u32) -> Result<u64> {
    let mut waiting = VecDeque::with_capacity(DEPTH);
    let mut sum = 0_u64;
    for number in first..first + count {
        if waiting.len() == DEPTH {
            sum = sum.wrapping_add(next(&mut waiting).await?);
        }
        let mut select = on.pending(id(number)).fuse();
        let early = if lazy(on) { poll!(&mut select) } else { Poll::Pending };
        match early {
            Poll::Ready(value) => sum = sum.wrapping_add(value?),
            Poll::Pending => waiting.push_back(select),
        }
    }
    while !waiting.is_empty() {
        sum = sum.wrapping_add(next(&mut waiting).await?);
    }
    Ok(sum)
}

fn lazy<S: Selects>(_: &S) -> bool {
    S::LAZY
}

async fn next(waiting: &mut VecDeque<impl Future<Output = Result<u64>>>) -> Result<u64> {
    let first = waiting.pop_front().context("the queue is empty")?;
    first.await
}

async fn tasks(on: &impl Selects, count: u32, first: u32) -> Result<u64> {
    let each = count / DEPTH as u32;
    let tasks = (0..DEPTH as u32).map(|task| {
        let on = on.clone();
        tokio::spawn(async move {
            let mut sum = 0_u64;
            for number in 0..each {
                sum = sum.wrapping_add(on.select(id(first + task * each + number)).await?);
            }
            anyhow::Ok(sum)
        })
    });
    let tasks: FuturesUnordered<_> = tasks.collect();
    let sums: Vec<Result<u64>> = tasks.try_collect().await?;
    sums.into_iter().try_fold(0_u64, |sum, it| Ok(sum.wrapping_add(it?)))
}

#[derive(Clone)]
pub struct Ours {
    pub client: onetrip::Client,
    pub statement: onetrip::Statement,
}

impl Ours {
    pub async fn connect(stage: &Stage) -> Result<Ours> {
        Ours::over(stage.ours().await?).await
    }

    pub async fn over(client: onetrip::Client) -> Result<Ours> {
        let statement = client.prepare(SELECT_ONE).await?;
        Ok(Ours { client, statement })
    }
}

impl Selects for Ours {
    const LAZY: bool = false;

    fn select(&self, id: i32) -> impl Future<Output = Result<u64>> + Send {
        self.pending(id)
    }

    fn pending(&self, id: i32) -> impl Future<Output = Result<u64>> + Send + Unpin {
        self.client.query_one(&self.statement, &[&id]).map(|row| {
            let row = row?;
            let row = row.as_ref();
            Ok(two_columns(row.get(0), row.get(1)))
        })
    }
}

#[derive(Clone)]
pub struct Peer {
    pub client: Arc<tokio_postgres::Client>,
    pub statement: tokio_postgres::Statement,
}

impl Peer {
    pub async fn connect(stage: &Stage) -> Result<Peer> {
        let client = stage.peer().await?;
        let statement = client.prepare(SELECT_ONE).await?;
        Ok(Peer { client: Arc::new(client), statement })
    }
}

impl Selects for Peer {
    const LAZY: bool = true;

    async fn select(&self, id: i32) -> Result<u64> {
        let row = self.client.query_one(&self.statement, &[&id]).await?;
        Ok(two_columns(row.get(0), row.get(1)))
    }

    fn pending(&self, id: i32) -> impl Future<Output = Result<u64>> + Send + Unpin {
        Box::pin(self.select(id))
    }
}

fn two_columns(id: i32, name: &str) -> u64 {
    id as u64 + name.len() as u64
}
