//! 10,000 cancels at random moments, under load, on shared connections: what becomes of the neighbours.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

use anyhow::{Context, Result};
use onetrip::{Cancelled, Client, Config, Error, Reply, Rows};

use crate::measure::Spread;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::{Stage, one_thread};
use crate::{Plan, Side};

const NAME: &str = "cancel_10000";

const CANCELS: u32 = 10_000;

/// Who cancel, each on all connections.
const TASKS: u64 = 8;
const CONNECTIONS: usize = 3;

/// Rows of a neighbour that returns many.
const MANY: usize = 200;

const INSERT: &str = "insert into storm values ($1)";

pub fn run(stage: &Stage, plan: Plan, progress: &Progress) -> Result<Vec<Row>> {
    if plan.side == Side::Peer {
        return Ok(Vec::new());
    }
    let storm = one_thread()?.block_on(async {
        let peer = stage.peer().await?;
        peer.batch_execute("create table storm (id int not null)").await?;
        let storm = rage(stage, CANCELS / plan.shorter, progress).await?;
        let ids = peer.query("select id from storm", &[]).await?;
        storm.compare(ids.iter().map(|row| row.get(0)));
        anyhow::Ok(storm)
    })?;
    Ok(storm.rows())
}

/// What all tasks share.
struct Storm {
    client: Client,
    cancels: u32,
    next_id: AtomicI32,
    begun: AtomicU32,
    counts: Counts,
    inserted: std::sync::Mutex<BTreeSet<i32>>,
}

#[derive(Default)]
struct Counts {
    neighbours: AtomicU32,
    failed: AtomicU32,
    wrong: AtomicU32,
    hit: AtomicU32,
    too_late: AtomicU32,
    not_possible: AtomicU32,
}

async fn rage(stage: &Stage, cancels: u32, progress: &Progress) -> Result<Arc<Storm>> {
    let config: Config = stage.server.url().parse()?;
    let client = Client::connect_with(&config.connections_max(CONNECTIONS)).await;
    let storm = Arc::new(Storm {
        client: client.context("onetrip cannot connect")?,
        cancels,
        next_id: AtomicI32::new(0),
        begun: AtomicU32::new(0),
        counts: Counts::default(),
        inserted: std::sync::Mutex::default(),
    });
    let tasks = (1..=TASKS).map(|seed| {
        let storm = storm.clone();
        tokio::spawn(async move {
            let mut random = Random(seed);
            while storm.begun.fetch_add(1, Relaxed) < storm.cancels {
                storm.strike(&mut random).await;
            }
        })
    });
    for (done, task) in tasks.collect::<Vec<_>>().into_iter().enumerate() {
        task.await.context("a task of the storm has panicked")?;
        progress.tick(done + 1, TASKS as usize);
    }
    Ok(storm)
}

/// A statement that nobody cancels.
enum Neighbour {
    Row(i32, Reply<onetrip::Row>),
    Rows(i32, Reply<Rows>),
    Insert(i32, Reply<u64>),
}

impl Storm {
    fn id(&self) -> i32 {
        self.next_id.fetch_add(1, Relaxed)
    }

    fn neighbours(&self, random: &mut Random, most: u64) -> Vec<Neighbour> {
        (0..random.below(most)).map(|_| self.neighbour(random)).collect()
    }

    fn neighbour(&self, random: &mut Random) -> Neighbour {
        let (id, client) = (self.id(), &self.client);
        let many = "select $1 + 0, generate_series(1, 200)";
        let slow = "select $1 + count(*)::int * 0 from pg_class";
        match random.below(5) {
            0 => Neighbour::Insert(id, client.execute(INSERT, &[&id])),
            1 => Neighbour::Rows(id, client.query(many, &[&id])),
            2 => Neighbour::Row(id, client.query_one(slow, &[&id])),
            _ => Neighbour::Row(id, client.query_one("select $1 + 0", &[&id])),
        }
    }

    /// A statement that is cancelled at a random moment, with neighbours in front and behind.
    async fn strike(&self, random: &mut Random) {
        let mut neighbours = self.neighbours(random, 4);
        let (id, writes) = (self.id(), random.below(3) == 0);
        let victim = match writes {
            true => self.client.execute(INSERT, &[&id]),
            false => self.client.execute("select pg_sleep($1)", &[&0.02]),
        };
        neighbours.extend(self.neighbours(random, 6));
        for _ in 0..random.below(40) {
            tokio::task::yield_now().await;
        }
        let cancel = victim.canceller().cancel();
        neighbours.extend(self.neighbours(random, 3));
        for neighbour in neighbours {
            let right = self.check(neighbour).await;
            self.count(right);
        }
        match victim.await {
            Ok(_) if writes => self.note(id),
            _ => {}
        }
        let count = match cancel.await {
            Cancelled::Yes => &self.counts.hit,
            Cancelled::TooLate => &self.counts.too_late,
            Cancelled::NotPossible => &self.counts.not_possible,
        };
        count.fetch_add(1, Relaxed);
    }

    /// Whether a neighbour's reply is its own, and whole.
    async fn check(&self, neighbour: Neighbour) -> Result<bool, Error> {
        Ok(match neighbour {
            Neighbour::Row(id, reply) => reply.await?.get::<i32>(0) == id,
            Neighbour::Rows(id, reply) => {
                let rows = reply.await?;
                rows.len() == MANY && rows.iter().all(|row| row.get::<i32>(0) == id)
            }
            Neighbour::Insert(id, reply) => {
                let count = reply.await?;
                self.note(id);
                count == 1
            }
        })
    }

    fn count(&self, right: Result<bool, Error>) {
        self.counts.neighbours.fetch_add(1, Relaxed);
        match right {
            Ok(true) => {}
            Ok(false) => drop(self.counts.wrong.fetch_add(1, Relaxed)),
            Err(error) => {
                eprintln!("a neighbour failed: {error}");
                self.counts.failed.fetch_add(1, Relaxed);
            }
        }
    }

    /// The server said that this was inserted.
    fn note(&self, id: i32) {
        self.inserted.lock().unwrap_or_else(|it| it.into_inner()).insert(id);
    }

    /// What is in the table but was not confirmed, or the other way round, or twice, is wrong.
    fn compare(&self, ids: impl Iterator<Item = i32>) {
        let mut left = self.inserted.lock().unwrap_or_else(|it| it.into_inner());
        let strangers = ids.filter(|id| !left.remove(id)).count();
        self.counts.wrong.fetch_add((strangers + left.len()) as u32, Relaxed);
    }

    fn rows(&self) -> Vec<Row> {
        let of = |count: &AtomicU32| f64::from(count.load(Relaxed));
        let counts = &self.counts;
        let (failed, wrong) = (of(&counts.failed), of(&counts.wrong));
        let note = format!(
            "{} cancels by {TASKS} tasks on {CONNECTIONS} shared connections: {} hit, {} came too late, \
             {} were not possible; {} neighbours, {failed} failed, {wrong} replies or inserts wrong",
            self.cancels,
            of(&counts.hit),
            of(&counts.too_late),
            of(&counts.not_possible),
            of(&counts.neighbours),
        );
        let harmed = Spread::of([failed + wrong]);
        let hit = Spread::of([of(&counts.hit)]);
        vec![
            Row::alone(NAME, "neighbours", harmed, Some(0.0)).note(&note),
            Row::alone(&format!("{NAME}.hit"), "cancels", hit, None).note(&note),
        ]
    }
}

/// SplitMix64: the moments follow from the seeds, as far as the server's own time lets them.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
