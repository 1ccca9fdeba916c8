//! Cancels at random moments, under load, on shared connections: every neighbour gets its own
//! answer, and nothing runs twice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use onetrip::{Cancelled, Client, Outcome, Reply, Row, Rows};

use crate::support::*;

const TASKS: u64 = 8;
const CANCELS: usize = 1000;

/// The state that all tasks share.
struct Storm {
    client: Client,
    insert: String,
    next_id: AtomicI32,
    left: AtomicUsize,
    cancelled: AtomicUsize,
}

/// A statement that nobody cancels.
enum Neighbour {
    Row(i32, Reply<Row>),
    Rows(i32, Reply<Rows>),
    Insert(i32, Reply<u64>),
}

impl Storm {
    fn neighbour(&self, random: &mut Random) -> Neighbour {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        match random.below(5) {
            0 => Neighbour::Insert(id, self.client.execute(&self.insert, &[&id])),
            1 => Neighbour::Rows(
                id,
                self.client.query("select $1 + 0, generate_series(1, 200)", &[&id]),
            ),
            2 => Neighbour::Row(
                id,
                self.client.query_one("select $1 + count(*)::int * 0 from pg_class", &[&id]),
            ),
            _ => Neighbour::Row(id, self.client.query_one("select $1 + 0", &[&id])),
        }
    }

    /// Cancels a statement at a random moment, with neighbours in front and behind. Returns the
    /// numbers that were inserted.
    async fn strike(&self, random: &mut Random) -> Vec<i32> {
        let mut neighbours: Vec<_> = (0..random.below(4)).map(|_| self.neighbour(random)).collect();
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let writes = random.below(3) == 0;
        let victim = match writes {
            true => self.client.execute(&self.insert, &[&id]),
            false => self.client.execute("select pg_sleep($1)", &[&0.02]),
        };
        neighbours.extend((0..random.below(6)).map(|_| self.neighbour(random)));
        for _ in 0..random.below(40) {
            tokio::task::yield_now().await;
        }
        let cancel = victim.canceller().cancel();
        neighbours.extend((0..random.below(3)).map(|_| self.neighbour(random)));
        let mut inserted = Vec::new();
        for neighbour in neighbours {
            inserted.extend(neighbour.check().await);
        }
        match victim.await {
            Ok(_) => inserted.extend(writes.then_some(id)),
            Err(error) => {
                let cancelled = error.sqlstate() == Some("57014")
                    // Not sent at all, or hit by another statement's cancel and not sent again.
                    || error.code() == "cancelled" && error.outcome() != Outcome::Unknown;
                assert!(cancelled, "{error}");
            }
        }
        if cancel.await == Cancelled::Yes {
            self.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        inserted
    }

    fn take_turn(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

impl Neighbour {
    async fn check(self) -> Option<i32> {
        match self {
            Neighbour::Row(id, reply) => assert_eq!(reply.await.unwrap().get::<i32>(0), id),
            Neighbour::Rows(id, reply) => {
                let rows = reply.await.unwrap();
                assert_eq!(rows.len(), 200);
                assert!(rows.iter().all(|row| row.get::<i32>(0) == id));
            }
            Neighbour::Insert(id, reply) => {
                assert_eq!(reply.await.unwrap(), 1);
                return Some(id);
            }
        }
        None
    }
}

/// P25.
#[test]
fn a_thousand_cancels_at_random_moments_take_no_neighbour_along() {
    run_long(PATIENCE * 10, async {
        let t = table("id int").await;
        let storm = Arc::new(Storm {
            client: client_with("connections_max=3").await,
            insert: format!("insert into {t} values ($1)"),
            next_id: AtomicI32::new(0),
            left: AtomicUsize::new(CANCELS),
            cancelled: AtomicUsize::new(0),
        });
        let seeds = 31..31 + TASKS;
        println!("seeds {seeds:?}");
        let tasks: Vec<_> = seeds
            .map(|seed| {
                let storm = storm.clone();
                tokio::spawn(async move {
                    let mut random = Random(seed);
                    let mut inserted = Vec::new();
                    while storm.take_turn() {
                        inserted.extend(storm.strike(&mut random).await);
                    }
                    inserted
                })
            })
            .collect();
        let mut inserted = BTreeSet::new();
        for task in tasks {
            inserted.extend(task.await.unwrap());
        }
        assert_eq!(ids(&t).await, inserted);
        let cancelled = storm.cancelled.load(Ordering::Relaxed);
        assert!(cancelled > CANCELS / 10, "only {cancelled} were cancelled");
    });
}
