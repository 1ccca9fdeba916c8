//! `--preset trips`: what round trips cost, and what sharing them gives back, at each added round
//! trip.

use std::ops::Range;

use onetrip::types::ToSql;
use onetrip::{BinaryCopyIn, Client, Reply, Row, Session, Statement, unprepared};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{Error, Result};
use crate::load::{Operation, Tally};
use crate::results::Unit;
use crate::schema::SCHEMA;

/// One way to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A money transfer: BEGIN, two updates, COMMIT.
    Transfer(Transfer),
    /// Point selects, this many in flight.
    Selects(Selects, u32),
    /// Inserts of rows of five columns.
    Inserts(Inserts),
    /// A join of five tables by key.
    Join(Join),
}

/// How a transfer is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Four statements, each awaited.
    OneByOne,
    /// `begin()`, two updates and `commit()`, each awaited: BEGIN rides along.
    Transaction,
    /// One pipeline.
    Pipeline,
    /// A PL/pgSQL procedure on the server.
    Procedure,
}

/// How selects are on their way together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selects {
    /// By as many tasks, which share one connection; each statement stands alone, with its own
    /// Sync.
    Shared,
    /// By one task, in pipelines with one Sync.
    Pipeline,
}

/// How rows are inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserts {
    /// A statement each, awaited.
    OneByOne,
    /// An atomic batch.
    Batch,
    /// A binary COPY.
    Copy,
}

/// Whether a join is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Once, and then executed.
    Prepared,
    /// Parsed and planned each time.
    Unprepared,
}

/// The workloads, for `--workload`.
pub const WORKLOADS: [&str; 4] = ["transfer", "selects", "inserts", "join"];

/// Depths of selects, unless others are asked for.
pub const DEPTHS: [u32; 6] = [1, 4, 16, 64, 256, 1024];

/// Rows of one batch and one COPY.
const ROWS_AT_ONCE: i64 = 1000;

/// Rows in `item`, and keys in the tables of the join.
const ITEMS: i32 = 10_000;
const KEYS: i32 = 1000;

impl Way {
    /// All ways of a workload, at these depths.
    pub fn of(workload: &str, depths: &[u32]) -> Vec<Way> {
        use {Inserts as I, Join as J, Selects as S, Transfer as T};
        match workload {
            "transfer" => {
                [T::OneByOne, T::Transaction, T::Pipeline, T::Procedure].map(Way::Transfer).into()
            }
            "selects" => {
                let at = |ways: S| depths.iter().map(move |depth| Way::Selects(ways, *depth));
                at(S::Shared).chain(at(S::Pipeline)).collect()
            }
            "inserts" => [I::OneByOne, I::Batch, I::Copy].map(Way::Inserts).into(),
            "join" => [J::Prepared, J::Unprepared].map(Way::Join).into(),
            _ => Vec::new(),
        }
    }

    /// Its workload and mode, as the results name them.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Way::Transfer(Transfer::OneByOne) => ("transfer", "one by one"),
            Way::Transfer(Transfer::Transaction) => ("transfer", "transaction"),
            Way::Transfer(Transfer::Pipeline) => ("transfer", "pipeline"),
            Way::Transfer(Transfer::Procedure) => ("transfer", "procedure"),
            Way::Selects(Selects::Shared, _) => ("selects", "shared"),
            Way::Selects(Selects::Pipeline, _) => ("selects", "pipeline"),
            Way::Inserts(Inserts::OneByOne) => ("inserts", "one by one"),
            Way::Inserts(Inserts::Batch) => ("inserts", "batch"),
            Way::Inserts(Inserts::Copy) => ("inserts", "copy"),
            Way::Join(Join::Prepared) => ("join", "prepared"),
            Way::Join(Join::Unprepared) => ("join", "unprepared"),
        }
    }

    /// What its operations are.
    pub fn unit(self) -> Unit {
        match self {
            Way::Transfer(_) => Unit::Transaction,
            Way::Inserts(_) => Unit::Row,
            Way::Selects(..) | Way::Join(_) => Unit::Statement,
        }
    }

    /// How many statements are in flight, if that is the parameter.
    pub fn depth(self) -> Option<u32> {
        match self {
            Way::Selects(_, depth) => Some(depth),
            _ => None,
        }
    }

    /// Tasks that do it.
    pub fn tasks(self) -> u32 {
        match self {
            Way::Selects(Selects::Shared, depth) => depth,
            _ => 1,
        }
    }

    /// How many operations a call does at once.
    pub fn operations_per_call(self) -> u64 {
        match self {
            Way::Selects(Selects::Pipeline, depth) => depth.into(),
            Way::Inserts(Inserts::Batch | Inserts::Copy) => ROWS_AT_ONCE as u64,
            _ => 1,
        }
    }

    /// Whether it leaves rows that the next repetition should not find.
    pub fn fills(self) -> bool {
        matches!(self, Way::Inserts(_))
    }
}

/// The tables of all these workloads.
pub async fn make_tables(session: &Session) -> Result<()> {
    session.script(&create()).await?;
    session.script(&format!("vacuum analyze {SCHEMA}.item")).await?;
    Ok(())
}

fn create() -> String {
    format!(
        "set search_path to {SCHEMA};
         create table account (id int primary key, balance bigint not null);
         insert into account select i, 1000000 from generate_series(1, 100) as i;
         create procedure transfer(amount bigint, debtor int, creditor int)
         language plpgsql set search_path = {SCHEMA} as $$
         begin
             update account set balance = balance - amount where id = debtor;
             update account set balance = balance + amount where id = creditor;
         end $$;
         create table item (id int primary key, name text not null, price float8 not null);
         insert into item select i, 'item ' || i, i * 1.5 from generate_series(1, {ITEMS}) i;
         create table reading
             (id bigint, sensor int, value float8, comment text, is_valid boolean);
         create table country (id int primary key, name text not null);
         create table city (id int primary key, name text not null, country int not null);
         create table street (id int primary key, name text not null, city int not null);
         create table house (id int primary key, name text not null, street int not null);
         create table tenant (id int primary key, name text not null, house int not null);
         insert into country select i, 'country ' || i from generate_series(1, {KEYS}) i;
         insert into city select i, 'city ' || i, i from generate_series(1, {KEYS}) i;
         insert into street select i, 'street ' || i, i from generate_series(1, {KEYS}) i;
         insert into house select i, 'house ' || i, i from generate_series(1, {KEYS}) i;
         insert into tenant select i, 'tenant ' || i, i from generate_series(1, {KEYS}) i;
         analyze country, city, street, house, tenant, account;
         reset search_path"
    )
}

/// Empties what a repetition filled.
pub async fn empty_tables(session: &Session) -> Result<()> {
    session.script(&format!("truncate {SCHEMA}.reading")).await?;
    Ok(())
}

const DEBIT: &str = "update account set balance = balance - $1 where id = $2";
const CREDIT: &str = "update account set balance = balance + $1 where id = $2";
const CALL: &str = "call transfer($1, $2, $3)";
const SELECT: &str = "select name, price from item where id = $1";
const INSERT: &str =
    "insert into reading (id, sensor, value, comment, is_valid) values ($1, $2, $3, $4, $5)";
const COPY: &str =
    "copy reading (id, sensor, value, comment, is_valid) from stdin with (format binary)";
const JOIN: &str = "select tenant.id, tenant.name, house.name, street.name, city.name, country.name \
    from tenant join house on house.id = tenant.house join street on street.id = house.street \
    join city on city.id = street.city join country on country.id = city.country \
    where tenant.id = $1";

/// A task that does it.
#[derive(Debug)]
pub struct Task {
    way: Way,
    client: Client,
    /// For what needs a connection of its own.
    session: Option<Session>,
    first: Statement,
    second: Statement,
    random: Xoshiro256PlusPlus,
    next: i64,
}

impl Task {
    /// As many as the way has tasks, over one connection.
    pub async fn all(way: Way, client: &Client, seed: u64) -> Result<Vec<Task>> {
        let (first, second) = match way {
            Way::Transfer(Transfer::Procedure) => (CALL, CALL),
            Way::Transfer(_) => (DEBIT, CREDIT),
            Way::Selects(..) => (SELECT, SELECT),
            Way::Inserts(_) => (INSERT, INSERT),
            Way::Join(_) => (JOIN, JOIN),
        };
        let first = client.prepare(first).await?;
        let second = client.prepare(second).await?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut tasks = Vec::new();
        for _ in 0..way.tasks() {
            random.jump();
            let session = match way {
                Way::Transfer(Transfer::OneByOne | Transfer::Transaction)
                | Way::Inserts(Inserts::Copy) => Some(client.session().await?),
                _ => None,
            };
            let (first, second, client) = (first.clone(), second.clone(), client.clone());
            tasks.push(Task {
                way,
                client,
                session,
                first,
                second,
                random: random.clone(),
                next: 0,
            });
        }
        Ok(tasks)
    }
}

impl Operation for Task {
    async fn run(&mut self, tally: &mut Tally) -> Result<()> {
        tally.operations(self.way.operations_per_call());
        match self.way {
            Way::Transfer(Transfer::OneByOne) => self.transfer_one_by_one().await,
            Way::Transfer(Transfer::Transaction) => self.transfer_in_a_transaction().await,
            Way::Transfer(Transfer::Pipeline) => self.transfer_at_once().await,
            Way::Transfer(Transfer::Procedure) => self.call().await,
            Way::Selects(Selects::Shared, _) => self.select().await,
            Way::Selects(Selects::Pipeline, depth) => self.select_at_once(depth).await,
            Way::Inserts(Inserts::OneByOne) => self.insert().await,
            Way::Inserts(Inserts::Batch) => self.insert_batch().await,
            Way::Inserts(Inserts::Copy) => self.copy().await,
            Way::Join(join) => self.join(join).await,
        }
    }
}

const AMOUNT: i64 = 5;
const DEBTOR: i32 = 1;
const CREDITOR: i32 = 2;

fn reading(row: i64) -> (i64, i32, f64, &'static str, bool) {
    (row, (row % 7) as i32, row as f64 / 2.0, "as measured by the sensor", row % 3 == 0)
}

/// Decodes what was selected, as a program would.
fn read(row: &Row) {
    let row = row.as_ref();
    std::hint::black_box((row.get::<&str>(0), row.get::<f64>(1)));
}

/// Transfers.
impl Task {
    fn session(&mut self) -> Result<&mut Session> {
        self.session.as_mut().ok_or_else(|| Error::new("this way needs a session and has none"))
    }

    async fn transfer_one_by_one(&mut self) -> Result<()> {
        let (debit, credit) = (self.first.clone(), self.second.clone());
        let session = self.session()?;
        session.execute("begin", &[]).await?;
        session.execute(&debit, &[&AMOUNT, &DEBTOR]).await?;
        session.execute(&credit, &[&AMOUNT, &CREDITOR]).await?;
        session.execute("commit", &[]).await?;
        Ok(())
    }

    async fn transfer_in_a_transaction(&mut self) -> Result<()> {
        let (debit, credit) = (self.first.clone(), self.second.clone());
        let transaction = self.session()?.begin().await?;
        transaction.execute(&debit, &[&AMOUNT, &DEBTOR]).await?;
        transaction.execute(&credit, &[&AMOUNT, &CREDITOR]).await?;
        Ok(transaction.commit().await?)
    }

    async fn transfer_at_once(&self) -> Result<()> {
        let mut pipeline = self.client.pipeline();
        let debit = pipeline.execute(&self.first, &[&AMOUNT, &DEBTOR]);
        let credit = pipeline.execute(&self.second, &[&AMOUNT, &CREDITOR]);
        pipeline.finish().await?;
        debit.await?;
        credit.await?;
        Ok(())
    }

    async fn call(&self) -> Result<()> {
        self.client.execute(&self.first, &[&AMOUNT, &DEBTOR, &CREDITOR]).await?;
        Ok(())
    }
}

/// Reads.
impl Task {
    async fn select(&mut self) -> Result<()> {
        let id = self.random.random_range(1..=ITEMS);
        read(&self.client.query_one(&self.first, &[&id]).await?);
        Ok(())
    }

    async fn select_at_once(&mut self, depth: u32) -> Result<()> {
        let mut pipeline = self.client.pipeline();
        let ids = (0..depth).map(|_| self.random.random_range(1..=ITEMS));
        let select = |id| pipeline.query_one(&self.first, &[&id]);
        let replies: Vec<Reply<Row>> = ids.map(select).collect();
        pipeline.finish().await?;
        for reply in replies {
            read(&reply.await?);
        }
        Ok(())
    }

    async fn join(&mut self, join: Join) -> Result<()> {
        let key = self.random.random_range(1..=KEYS);
        let row = match join {
            Join::Prepared => self.client.query_one(&self.first, &[&key]).await?,
            Join::Unprepared => self.client.query_one(&unprepared(JOIN), &[&key]).await?,
        };
        std::hint::black_box(row.as_ref().get::<&str>(5));
        Ok(())
    }
}

/// Inserts.
impl Task {
    async fn insert(&mut self) -> Result<()> {
        let (id, sensor, value, comment, is_valid) = reading(self.next);
        self.next += 1;
        let row: [&(dyn ToSql + Sync); 5] = [&id, &sensor, &value, &comment, &is_valid];
        self.client.execute(&self.first, &row).await?;
        Ok(())
    }

    /// The numbers of the rows that go together next.
    fn rows(&mut self) -> Range<i64> {
        let first = self.next;
        self.next += ROWS_AT_ONCE;
        first..self.next
    }

    async fn insert_batch(&mut self) -> Result<()> {
        let rows = self.rows().map(reading);
        let done = self.client.batch(&self.first, rows).atomic().await;
        done.map(drop).map_err(|error| Error::new(error.to_string()))
    }

    /// The types of the columns are those of the insert, so the server need not be asked for them.
    async fn copy(&mut self) -> Result<()> {
        let (rows, insert) = (self.rows(), self.first.clone());
        let copy = self.session()?.copy_in(COPY).await?;
        let mut copy = BinaryCopyIn::new(copy, insert.params());
        for row in rows {
            let (id, sensor, value, comment, is_valid) = reading(row);
            copy.row(&[&id, &sensor, &value, &comment, &is_valid]).await?;
        }
        copy.finish().await?;
        Ok(())
    }
}
