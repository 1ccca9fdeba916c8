//! 200 tasks of each language that write numbers to lists and ask by WAIT whether both replicas
//! have them, through failovers. What both had must be there in the end.
//!
//! A program for another language is told the URL, what the names of its lists begin with, and the
//! number of its tasks. For each number it prints what is known of it (`copied`, `refused` or
//! `unknown`), the list and the number. When its input ends it prints `done`.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread::{JoinHandle, spawn};

use anyhow::{Context, Result, bail};
use onetrip::Outcome;
use onetrip::redis::Client;
use onetrip::redis::commands::*;
use onetrip_lab::redis::Sentinels;
use tokio::sync::watch;

use super::programs::{Program, Programs};
use super::{config, failovers, figure};
use crate::progress::Progress;
use crate::report::Row;
use crate::rows::pauses::RUST;

const TASKS: usize = 200;

/// How long a write waits for both replicas.
const WAIT_MS: u64 = 1_000;

/// The books of a language, by their lists.
type Books = BTreeMap<String, Book>;

/// What is known of the numbers that one task wrote.
#[derive(Debug, Default)]
struct Book {
    /// Acknowledged, and on both replicas.
    copied: Vec<u64>,
    /// `NotSent` or `Rejected`.
    refused: Vec<u64>,
    unknown: usize,
}

/// What the books of all tasks come to.
#[derive(Default)]
struct Sum {
    copied: usize,
    lost: usize,
    /// There more than once, or although they were refused.
    wrong: usize,
    refused: usize,
    unknown: usize,
}

pub fn run(
    sentinels: &mut Sentinels,
    count: u32,
    programs: &Programs,
    progress: &Progress,
) -> Result<Vec<Row>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let config = config(&sentinels.url())?.limits(|limits| limits.connections_max = TASKS);
    let client = runtime.block_on(Client::connect_with(&config))?;
    let (stop, stopped) = watch::channel(false);
    let write = |task| runtime.spawn(keep(client.clone(), list(RUST, task), stopped.clone()));
    let tasks: Vec<_> = (0..TASKS).map(write).collect();
    let guests = programs.ours.iter().map(|Program { name, start }| {
        let mut command = start("books");
        command.arg(sentinels.url()).arg(name).arg(TASKS.to_string());
        Guest::start(name, command)
    });
    let guests = guests.collect::<Result<Vec<_>>>()?;
    for number in 0..count {
        progress.say(&format!("{}: failover {} of {count}", super::NAME, number + 1));
        failovers::one(sentinels, number)?;
        // The next one meets writers that are at work again.
        runtime.block_on(client.set("at work", number))?;
    }
    stop.send(true)?;
    let of_rust = runtime.block_on(async {
        let mut books = Books::new();
        for (task, book) in tasks.into_iter().enumerate() {
            books.insert(list(RUST, task), book.await.context("a task panicked")?);
        }
        anyhow::Ok(books)
    });
    let mut all = vec![(RUST, of_rust?)];
    for guest in guests {
        all.push((guest.name, guest.end()?));
    }
    let mut rows = Vec::new();
    for (name, books) in all {
        let sum = runtime.block_on(Sum::of(&books, &client))?;
        rows.extend(sum.rows(name, count));
    }
    Ok(rows)
}

fn list(language: &str, task: usize) -> String {
    format!("{language}:{task}")
}

impl Sum {
    async fn of(books: &Books, client: &Client) -> Result<Sum> {
        let mut sum = Sum::default();
        for (list, book) in books {
            let there: Vec<u64> = client.lrange(list, 0, -1).await?;
            sum.add(book, &there);
        }
        Ok(sum)
    }

    fn rows(&self, name: &str, count: u32) -> [Row; 3] {
        let note = format!(
            "{TASKS} tasks, {count} failovers: {} acknowledged after WAIT 2, {} NotSent or \
             Rejected, {} Unknown or without both copies",
            self.copied, self.refused, self.unknown
        );
        let rows = [
            figure("lost", name, "rows", self.lost).at_most(0.0),
            figure("wrong", name, "rows", self.wrong).at_most(0.0),
            figure("acknowledged", name, "rows", self.copied).at_least(1.0),
        ];
        rows.map(|row| row.note(&note))
    }

    fn add(&mut self, book: &Book, there: &[u64]) {
        let mut times = HashMap::new();
        for number in there {
            *times.entry(number).or_insert(0_usize) += 1;
        }
        let is_there = |number: &&u64| times.contains_key(number);
        self.copied += book.copied.len();
        self.lost += book.copied.iter().filter(|number| !is_there(number)).count();
        self.wrong += times.values().filter(|count| **count > 1).count();
        self.wrong += book.refused.iter().filter(is_there).count();
        self.refused += book.refused.len();
        self.unknown += book.unknown;
    }
}

/// Writes numbers to a list of its own, each with WAIT 2 in the same flight. After a failure it
/// goes on with the next number on another session.
async fn keep(client: Client, list: String, stop: watch::Receiver<bool>) -> Book {
    let (mut book, mut number) = (Book::default(), 0);
    while !*stop.borrow() {
        number += 1;
        let Ok(session) = client.session().await else {
            book.refused.push(number);
            continue;
        };
        while !*stop.borrow() {
            number += 1;
            let (write, copies) = (session.rpush(&list, [number]), session.wait(2, WAIT_MS));
            match (write.await, copies.await) {
                (Ok(_), Ok(2..)) => {
                    book.copied.push(number);
                    continue;
                }
                (Err(error), _) if error.outcome() != Outcome::Unknown => book.refused.push(number),
                _ => book.unknown += 1,
            }
            break;
        }
    }
    book
}

/// A program that keeps books.
struct Guest {
    name: &'static str,
    child: Child,
    books: JoinHandle<Result<Books>>,
}

impl Guest {
    fn start(name: &'static str, mut command: std::process::Command) -> Result<Guest> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("cannot start the books of {name}"))?;
        let out = child.stdout.take().context("it has no pipes")?;
        let books = spawn(move || read(BufReader::new(out)));
        Ok(Guest { name, child, books })
    }

    fn end(mut self) -> Result<Books> {
        drop(self.child.stdin.take());
        let books = self.books.join().map_err(|_| anyhow::anyhow!("its reader panicked"))?;
        self.child.wait()?;
        books.with_context(|| format!("the books of {}", self.name))
    }
}

fn read(out: impl BufRead) -> Result<Books> {
    let mut books = Books::new();
    for line in out.lines() {
        let line = line?;
        if line == "done" {
            return Ok(books);
        }
        let words: Vec<&str> = line.split(' ').collect();
        let &[known, list, number] = &words[..] else { bail!("it says {line:?}") };
        let book = books.entry(list.to_owned()).or_default();
        match known {
            "copied" => book.copied.push(number.parse()?),
            "refused" => book.refused.push(number.parse()?),
            "unknown" => book.unknown += 1,
            _ => bail!("it says {line:?}"),
        }
    }
    bail!("it ended early; it says why above")
}
