//! Migrations under running clients: kinds of DDL happen between the statements of a client, and
//! every value that is stored or read is compared with what a client does that was started behind
//! the same migration, and with what psql stores. `MIGRATIONS.md` says what is checked.

mod book;
mod cases;
mod databases;
mod migration;
mod sessions;
mod subject;
mod values;

use std::cell::RefCell;
use std::time::{Duration, Instant};

use book::Book;
pub use book::Report;
use cases::{Case, cases};
use databases::{Databases, Twin};
use migration::{Migration, Stage};
use sessions::Sessions;
use subject::Subject;

use crate::Options;
use crate::random::Random;

/// How many cases come.
#[derive(Clone, Debug)]
pub struct Setting {
    /// So many cases, in an order that follows from the seed; or as many as the time of the options
    /// allows, each once before any comes again.
    pub rounds: Option<usize>,
    /// Part of the names of the cases that come.
    pub only: String,
}

/// Runs cases on a private server of its own.
///
/// # Panics
/// If the lab fails, for example to start a server, or if a statement never ends.
pub fn run(options: &Options, setting: &Setting) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(run_here(options, setting))
}

async fn run_here(options: &Options, setting: &Setting) -> Report {
    let (began, random) = (Instant::now(), RefCell::new(Random::new(options.seed, 0)));
    let (databases, book) = (Databases::start().await, RefCell::new(Book::default()));
    let mut rounds = 0;
    let is_over = |rounds: usize| match setting.rounds {
        Some(all) => rounds >= all,
        None => began.elapsed() > options.duration,
    };
    let mut order: Vec<usize> = Vec::new();
    while !is_over(rounds) {
        if order.is_empty() {
            let of = |case: &Case| case.name.contains(&setting.only);
            let all = cases("");
            order = (0..all.len()).filter(|at| of(&all[*at])).collect();
        }
        let at = order.swap_remove(random.borrow_mut().below(order.len() as u64) as usize);
        rounds += 1;
        let schema = format!("m{rounds}");
        one(&cases(&schema)[at], &schema, &databases, &random, &book).await;
    }
    book.into_inner().report
}

async fn one(
    found: &Case,
    schema: &str,
    databases: &Databases,
    random: &RefCell<Random>,
    book: &RefCell<Book>,
) {
    let connections = [1, 3][random.borrow_mut().below(2) as usize];
    book.borrow_mut().place = format!("{}, {connections} connections", found.name);
    if let Some(extension) = &found.extension
        && !databases.extension(extension).await
    {
        let skipped = format!("{}: the server has no {extension}", found.name);
        book.borrow_mut().report.skipped.insert(skipped);
        return;
    }
    databases.script(&[format!("create schema {schema}")]).await;
    databases.script(&found.setup).await;
    let client = Subject::connect(&databases.url(Twin::Ours), connections).await;
    let stage = Stage { found, connections, client, databases, random, book };
    match found.sessions.is_empty() {
        true => Migration::new(stage).run().await,
        false => Sessions(stage).run().await,
    }
}

/// How long a statement may take.
const PATIENCE: Duration = Duration::from_secs(600);
