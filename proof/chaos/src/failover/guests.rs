//! Programs that use the clients for other languages. Each writes numbered rows to a table of its
//! own, and says how each write ended; its ledger is judged here.
//!
//! A program is told the URL, the table, the number of its tasks, the longest pause of a task
//! between two writes in milliseconds, and a seed. For each unit that has ended it prints a line
//! of fields with tabs between them: the way of writing, the task, the first number, the count of
//! rows, when it began and ended in microseconds since 1970, the claims with commas between them,
//! and what the errors said. When its input ends it begins no more writes, waits for those under
//! way, and prints `done`. Any other line is a finding.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime};

use super::stage::{Stage, client_url};
use crate::drive::{FaultWindow, until};
use crate::end::{Rest, judge};
use crate::ledger::{AT_WORK, Claim, Ledger, PATIENCE, Unit};
use crate::postgres::end;
use crate::postgres::observer::Observer;
use crate::{Options, Report};

/// A program that writes beside the client for Rust.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Of its language, as a part of the name of its table.
    pub name: &'static str,
    /// The program and its first arguments.
    pub command: Vec<String>,
    /// All ways in which it writes. It is a finding if one of them never succeeds.
    pub ways: &'static [&'static str],
    /// Tasks that write at the same time.
    pub tasks: u32,
    /// The longest pause of a task between two writes.
    pub pause: Duration,
}

impl Guest {
    fn table(&self) -> String {
        format!("written_by_{}", self.name)
    }

    /// A finding for each way in which nothing was acknowledged.
    fn unused(&self, ledger: &Ledger) -> Vec<String> {
        let units = ledger.units();
        let succeeds = |way: &&&str| {
            let is_there = |unit: &Unit| unit.verdict().and_then(Claim::is_there) == Some(true);
            units.iter().any(|unit| unit.what == **way && is_there(unit))
        };
        let never = self.ways.iter().filter(|way| !succeeds(way));
        never.map(|way| format!("no {way} was acknowledged")).collect()
    }
}

/// Those that run.
pub(super) struct Guests(Vec<Running>);

struct Running {
    guest: Guest,
    child: Child,
    said: Arc<Mutex<Said>>,
}

#[derive(Debug, Default)]
struct Said {
    units: Vec<Unit>,
    acknowledged: u64,
    wrong: Vec<String>,
    is_done: bool,
}

impl Guests {
    /// Starts all, each with an empty table.
    pub(super) async fn start(options: &super::Options, stage: &Stage, ledger: &Ledger) -> Guests {
        let observer = Observer::connect(&stage.url_of_primary()).await;
        let began = SystemTime::now() - ledger.now();
        let mut running = Vec::new();
        for guest in &options.guests {
            let table = guest.table();
            observer.script(&format!("create table {table} (like written including all)")).await;
            let [tasks, pause] = [u128::from(guest.tasks), guest.pause.as_millis()];
            let mut command = Command::new(&guest.command[0]);
            command.args(&guest.command[1..]).args([client_url(stage.cluster()), table]);
            command.args([tasks.to_string(), pause.to_string(), options.seed.to_string()]);
            let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let mut child = started.unwrap_or_else(|error| panic!("{}: {error}", guest.name));
            let (out, said) = (child.stdout.take().unwrap(), Arc::<Mutex<Said>>::default());
            let (ways, heard) = (guest.ways, said.clone());
            thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    heard.lock().unwrap().hear(&line, ways, began);
                }
            });
            running.push(Running { guest: guest.clone(), child, said });
        }
        Guests(running)
    }

    /// Waits until each has acknowledged some more writes.
    pub(super) async fn are_at_work(&self) {
        for Running { guest, said, .. } in &self.0 {
            let enough = locked(said).acknowledged + AT_WORK;
            let is_at_work = until(PATIENCE, async || locked(said).acknowledged >= enough);
            assert!(is_at_work.await, "no write of {} is acknowledged any more", guest.name);
        }
    }

    /// Has all come to an end, and holds their ledgers against their tables.
    pub(super) async fn reports(
        mut self,
        options: &Options,
        stage: &Stage,
        windows: &[FaultWindow],
    ) -> Vec<Report> {
        for running in &mut self.0 {
            drop(running.child.stdin.take());
        }
        let mut reports = Vec::new();
        for running in &mut self.0 {
            let said = running.end().await;
            let table = end::table(&stage.url_of_primary(), &running.guest.table()).await;
            let (ledger, duration) = (Ledger::of(said.units, said.wrong), options.duration);
            let rest = Rest::alone(running.guest.unused(&ledger), table);
            reports.push(judge(options, &ledger, duration, windows, said.is_done, rest));
        }
        reports
    }
}

impl Running {
    /// What it has said in all.
    async fn end(&mut self) -> Said {
        // If it is not done, that is a finding.
        let _ = until(PATIENCE, async || locked(&self.said).is_done).await;
        std::mem::take(&mut *locked(&self.said))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    fn hear(&mut self, line: &str, ways: &[&'static str], began: SystemTime) {
        if line == "done" {
            self.is_done = true;
        } else if let Some(unit) = read(line, ways, began) {
            let is_there = |claim: &Claim| claim.is_there() == Some(true);
            self.acknowledged += u64::from(unit.claims.iter().any(is_there));
            self.units.push(unit);
        } else {
            self.wrong.push(format!("it says {line:?}"));
        }
    }
}

fn read(line: &str, ways: &[&'static str], zero: SystemTime) -> Option<Unit> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[way, task, first, count, began, ended, claims, said] = &fields[..] else { return None };
    let (what, task) = (*ways.iter().find(|known| **known == way)?, task.parse().ok()?);
    let (first, count): (i64, i64) = (first.parse().ok()?, count.parse().ok()?);
    let at = |micros: &str| {
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(micros.parse().ok()?);
        Some(at.duration_since(zero).unwrap_or_default())
    };
    let claims = claims.split(',').map(Claim::named).collect::<Option<_>>()?;
    let said = if said.is_empty() { Vec::new() } else { vec![said.to_owned()] };
    let numbers = first..first + count;
    Some(Unit { what, task, numbers, began: at(began)?, ended: Some(at(ended)?), claims, said })
}

fn locked(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap()
}
