//! A ledger: many transactions through the sidecar, whose sessions are killed and whose statements
//! are cancelled all the while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use onetrip_lab::postgres::shared;

use super::{Sidecar, numbers, params, server};
use crate::database::run;
use crate::wire::Part::{Bind, Close, DescribePortal, Execute, Parse, Sync};
use crate::wire::{Wire, extended};

const PROGRAMS: u32 = 6;
const TRANSACTIONS: u32 = 400;

/// What became of a transaction, as far as its program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Committed,
    RolledBack,
    Unknown,
}

/// A transaction of two entries under one number, in one of three forms. Each entry says in which
/// transaction it was written.
fn transaction(wire: &mut Wire, number: u32) -> End {
    const ENTER: &str = "insert into ledger values ($1, $2, txid_current(), pg_backend_pid())";
    let number_text = number.to_string();
    let name = format!("enter_{number}");
    let enter = |wire: &mut Wire, at: &str| {
        let values = [number_text.as_str(), at];
        let heard = match number % 3 {
            0 => {
                let sql = format!(
                    "insert into ledger values ({number}, {at}, txid_current(), pg_backend_pid()); \
                     select 1"
                );
                wire.query(&sql)
            }
            1 => wire.say(&params(ENTER, &values), 1),
            _ => {
                wire.say(&extended(&[Parse(&name, ENTER), Sync]), 1);
                let bind = [Bind(&name, &values), DescribePortal, Execute, Sync];
                let heard = wire.say(&extended(&bind), 1);
                wire.say(&extended(&[Close(&name), Sync]), 1);
                heard
            }
        };
        is_done(&heard)
    };
    let is_open = is_done(&wire.query("begin"))
        && enter(wire, "1")
        && is_done(&wire.query("savepoint a"))
        && enter(wire, "2")
        && is_done(&wire.query("release a"));
    if !is_open {
        wire.query("rollback");
        return End::RolledBack;
    }
    let heard = wire.query("commit");
    match heard.first().map(String::as_str) {
        Some("C COMMIT") => End::Committed,
        Some("C ROLLBACK") => End::RolledBack,
        // It was cancelled, or its session ended.
        Some(error) if error.starts_with("E 57014") => End::RolledBack,
        _ => End::Unknown,
    }
}

fn is_done(heard: &[String]) -> bool {
    !heard.iter().any(|it| it.starts_with('E') || it == "closed")
}

/// Runs transactions, each on a new connection if the last one was lost.
fn program(addr: &str, database: &str, first: u32, pids: &[AtomicU32]) -> Vec<(u32, End)> {
    let mut wire: Option<Wire> = None;
    let mut ends = Vec::new();
    for number in (first..).step_by(PROGRAMS as usize).take(TRANSACTIONS as usize) {
        if wire.is_none() {
            wire = Wire::try_log_in(shared(), addr, database).ok();
            let pid = wire.as_ref().map_or(0, |it| it.ready.process_id as u32);
            pids[first as usize].store(pid, Ordering::Relaxed);
        }
        let Some(open) = &mut wire else { continue };
        ends.push((number, transaction(open, number)));
        if open.query("select 1").iter().any(|it| it == "closed") {
            wire = None;
        }
    }
    ends
}

#[test]
fn no_entry_is_outside_of_its_transaction_lost_or_doubled() {
    let database = numbers();
    let url = shared().database_url(&database);
    run(&url, "create table ledger (number int, entry int, txid bigint, pid int)");
    let sidecar = Sidecar::to(&server(), &[]);
    let pids: Arc<Vec<AtomicU32>> = Arc::new((0..PROGRAMS).map(|_| AtomicU32::new(0)).collect());
    let is_over = Arc::new(AtomicBool::new(false));
    let killer = {
        let (pids, is_over, url) = (pids.clone(), is_over.clone(), url.clone());
        std::thread::spawn(move || disturb(&url, &pids, &is_over))
    };
    let programs: Vec<_> = (0..PROGRAMS)
        .map(|first| {
            let (addr, database, pids) = (sidecar.addr.clone(), database.clone(), pids.clone());
            std::thread::spawn(move || program(&addr, &database, first, &pids))
        })
        .collect();
    let ends: Vec<(u32, End)> = programs.into_iter().flat_map(|it| it.join().unwrap()).collect();
    is_over.store(true, Ordering::Relaxed);
    let disturbed = killer.join().unwrap();
    let count = |end| ends.iter().filter(|it| it.1 == end).count();
    let shown = format!(
        "{disturbed} disturbances; {} committed, {} rolled back, {} unknown",
        count(End::Committed),
        count(End::RolledBack),
        count(End::Unknown)
    );
    eprintln!("{shown}");
    assert!(disturbed > 0 && count(End::Committed) > 0 && count(End::RolledBack) > 0, "{shown}");
    // Two entries in one transaction, or none at all.
    let apart = "select 1 from ledger group by number
        having count(*) <> 2 or count(distinct entry) <> 2 or count(distinct (txid, pid)) <> 1";
    assert_eq!(run(&url, apart), 0, "{shown}");
    let shared_by_two = "select 1 from ledger group by txid having count(distinct number) <> 1";
    assert_eq!(run(&url, shared_by_two), 0, "{shown}");
    for (end, must_be) in [(End::Committed, true), (End::RolledBack, false)] {
        let numbers: Vec<String> =
            ends.iter().filter(|it| it.1 == end).map(|it| it.0.to_string()).collect();
        let sql = format!(
            "select distinct number from ledger where number = any('{{{}}}'::int[])",
            numbers.join(",")
        );
        let expected = if must_be { numbers.len() } else { 0 };
        assert_eq!(run(&url, &sql), expected, "{end:?}: {shown}");
    }
}

/// Cancels and kills sessions until it is over. Returns how many of both.
fn disturb(url: &str, pids: &[AtomicU32], is_over: &AtomicBool) -> u32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let session = onetrip::Client::connect(url).await.unwrap().session().await.unwrap();
        let mut count = 0_u32;
        while !is_over.load(Ordering::Relaxed) {
            count += 1;
            let pid = pids[count as usize % pids.len()].load(Ordering::Relaxed);
            let how = if count.is_multiple_of(8) { "terminate" } else { "cancel" };
            let sql = format!("select pg_{how}_backend({pid}), pg_sleep(0.001)");
            session.query(&sql, &[]).await.unwrap();
        }
        count
    })
}
