//! `--preset concurrency`: the cost of operations that many tasks run at once, by isolation level.
//!
//! The operations, their SQL and their tables are those of a benchmark of 2020 by the author of
//! lchsk.com (github.com/lchsk/postgresql_transactions), so that its figures can be compared with
//! ours. Its weaknesses are avoided: tables are created anew before each repetition, `select_many`
//! always finds the same rows, starting threads is not measured, and each failed attempt is
//! counted.

use onetrip::{Client, Isolation, Session, Transaction, TransactionOptions};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{Error, Result};
use crate::load::{Operation, Tally};
use crate::schema::SCHEMA;
use crate::sqlstate::{is_conflict, is_fatal};

/// One of the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name for people and for `--workload`.
    pub name: &'static str,
    act: Act,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Changes rows; their number is checked.
    Write(&'static str),
    /// The same for one random row.
    WriteRandom(&'static str),
    /// Returns rows.
    Read(&'static str),
    /// One of the two at random; the second violates its foreign key.
    ReadOrBreakKey(&'static str, &'static str),
}

/// All of them, in the order in which they are run.
pub const WORKLOADS: [Workload; 11] = [
    Workload { name: "simple_insert", act: Act::Write("insert into a (id) values (1)") },
    Workload {
        name: "update_single_row",
        act: Act::Write("update b set value = value + 1 where id = 1"),
    },
    Workload {
        name: "update_random_row",
        act: Act::WriteRandom("update c set value = value + 1 where id = $1"),
    },
    Workload {
        name: "select_for_update_single_row",
        act: Act::Read("select value from b where id = 1 for update"),
    },
    Workload {
        name: "select_for_update_many_rows",
        act: Act::Read("select value from b for update"),
    },
    Workload {
        name: "select_for_update_skip_locked",
        act: Act::Read("select value from c limit 1 for update skip locked"),
    },
    Workload {
        name: "select_for_update_skip_locked_many",
        act: Act::Read("select value from c limit 10 for update skip locked"),
    },
    Workload {
        name: "select_for_update_with_fk",
        act: Act::ReadOrBreakKey("select * from e for update", "update d set id = id + 1000"),
    },
    Workload { name: "select_for_update_all_fk", act: Act::Read("select * from e for update") },
    Workload { name: "select_single", act: Act::Read("select value from b where id = 1") },
    Workload { name: "select_many", act: Act::Read("select id from a") },
];

/// The tables as they are before a repetition, `rows` rows in all but b. There is no index but
/// those of the two primary keys.
pub async fn make_tables(session: &Session, rows: u32) -> Result<()> {
    let sql = format!(
        "set search_path to {SCHEMA};
         drop table if exists a, b, c, e, d;
         create table a (id int);
         create table b (id int, value int, notes text);
         create table c (id int, value int);
         create table d (id bigint primary key, value int);
         create table e (id bigint primary key, value int, d_id int references d(id));
         insert into a select i from generate_series(1, {rows}) i;
         insert into b select i, 0, 'note ' || i from generate_series(1, 4) i;
         insert into c select i, 0 from generate_series(0, {rows} - 1) i;
         insert into d select i, 0 from generate_series(1, {rows}) i;
         insert into e select i, 0, i from generate_series(1, {rows}) i;
         analyze a, b, c, d, e;
         reset search_path"
    );
    session.script(&sql).await?;
    Ok(())
}

/// How each transaction is done.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Its isolation level.
    pub isolation: Isolation,
    /// Rows of the tables, of which a random one is chosen.
    pub rows: u32,
    /// Whether COMMIT is sent with the statement, in one trip, instead of after its answer, in two.
    pub one_trip: bool,
    /// The seed of all random choices.
    pub seed: u64,
}

/// A task of an operation. Each call is one transaction, repeated until it no longer fails by a
/// conflict with others.
#[derive(Debug)]
pub struct Task {
    client: Client,
    workload: Workload,
    settings: Settings,
    random: Xoshiro256PlusPlus,
}

impl Task {
    /// Makes `count` tasks that share this client's connections.
    pub fn all(workload: Workload, client: &Client, settings: Settings, count: u32) -> Vec<Task> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(settings.seed);
        let task = |_| {
            // Each task draws from its own part of one random sequence.
            random.jump();
            Task { client: client.clone(), workload, settings, random: random.clone() }
        };
        (0..count).map(task).collect()
    }
}

/// The choice that a transaction makes, the same in each attempt.
#[derive(Clone, Copy, Debug)]
struct Choice {
    sql: &'static str,
    is_read: bool,
    id: Option<i32>,
    /// The SQLSTATE that it is meant to fail with.
    fails: Option<&'static str>,
}

impl Operation for Task {
    async fn run(&mut self, tally: &mut Tally) -> Result<()> {
        let choice = self.choice();
        let options = TransactionOptions::new().isolation(self.settings.isolation);
        let mut session = self.client.session().await?;
        loop {
            let transaction = session.begin_with(options).await?;
            let Err(error) = attempt(transaction, choice, self.settings.one_trip).await else {
                return Ok(());
            };
            match error.sqlstate() {
                Some(code) if is_conflict(code) => tally.retried(code),
                Some(code) if Some(code) == choice.fails => {
                    tally.failed_as_expected(code);
                    return Ok(());
                }
                Some(code) if !is_fatal(code) && !error.is_connection_lost() => {
                    tally.failed(code);
                    return Ok(());
                }
                _ => return Err(Error::from(error).context(self.workload.name)),
            }
        }
    }
}

async fn attempt(
    transaction: Transaction<'_>,
    choice: Choice,
    one_trip: bool,
) -> std::result::Result<(), onetrip::Error> {
    let id = choice.id.unwrap_or_default();
    let with_id: [&(dyn onetrip::types::ToSql + Sync); 1] = [&id];
    let params = if choice.id.is_some() { &with_id[..] } else { &[] };
    if one_trip {
        return match choice.is_read {
            true => transaction.commit_with::<onetrip::Rows, _>(choice.sql, params).await.map(drop),
            false => transaction.commit_with::<u64, _>(choice.sql, params).await.map(drop),
        };
    }
    let done = match choice.is_read {
        true => transaction.query(choice.sql, params).await.map(drop),
        false => transaction.execute(choice.sql, params).await.map(drop),
    };
    match done {
        Ok(()) => transaction.commit().await,
        Err(error) => {
            // Like a program that handles the error, it rolls back before the next attempt.
            let _ = transaction.rollback().await;
            Err(error)
        }
    }
}

impl Task {
    fn choice(&mut self) -> Choice {
        let plain = |sql, is_read| Choice { sql, is_read, id: None, fails: None };
        match self.workload.act {
            Act::Write(sql) => plain(sql, false),
            Act::Read(sql) => plain(sql, true),
            Act::WriteRandom(sql) => {
                let id = self.random.random_range(0..self.settings.rows) as i32;
                Choice { id: Some(id), ..plain(sql, false) }
            }
            Act::ReadOrBreakKey(read, write) => match self.random.random::<bool>() {
                true => plain(read, true),
                // foreign_key_violation
                false => Choice { fails: Some("23503"), ..plain(write, false) },
            },
        }
    }
}
