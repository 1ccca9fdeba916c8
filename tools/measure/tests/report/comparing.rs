//! One run against another.

use onetrip_measure::report::compare;
use onetrip_measure::results::{Beside, Isolation, Results, Server};

use crate::synthetic::{Synthetic, results};

fn run(seed: u64) -> Results {
    results(Synthetic::new(seed).concurrency(&[Isolation::ReadCommitted], &[100, 800]))
}

fn slower(mut run: Results, workload: &str, times: f64) -> Results {
    for cell in run.cells.iter_mut().filter(|it| it.key.workload == workload) {
        for repetition in &mut cell.repetitions {
            repetition.elapsed_ms *= times;
        }
    }
    run
}

#[test]
fn a_run_against_itself_fails_at_no_limit() {
    let comparison = compare(&run(1), &run(1));
    assert_eq!(comparison.pairs.len(), 22);
    assert_eq!(comparison.warnings, Vec::<String>::new());
    assert!(comparison.fails_above(1.0).is_empty());
    assert!(comparison.to_string().contains("within the noise"), "{comparison}");
}

#[test]
fn what_got_slower_fails_above_the_limit_and_not_below() {
    let comparison = compare(&run(1), &slower(run(2), "select_single", 1.5));
    let failed: Vec<&str> =
        comparison.fails_above(1.2).iter().map(|it| it.key.workload.as_str()).collect();
    assert_eq!(failed, ["select_single", "select_single"]);
    assert!(comparison.fails_above(1.7).is_empty());
    assert!(comparison.to_string().contains("slower"), "{comparison}");
}

#[test]
fn what_may_be_noise_does_not_fail() {
    let mut synthetic = Synthetic::new(3);
    synthetic.noise = 0.8;
    let noisy = results(synthetic.concurrency(&[Isolation::ReadCommitted], &[100]));
    let mut other = noisy.clone();
    for cell in &mut other.cells {
        cell.repetitions.rotate_left(1);
        cell.repetitions[0].elapsed_ms *= 1.3;
    }
    assert!(compare(&noisy, &other).fails_above(1.0).is_empty());
}

#[test]
fn two_repetitions_are_too_few_to_fail() {
    let (mut a, mut b) = (run(1), slower(run(2), "select_single", 3.0));
    for cell in a.cells.iter_mut().chain(&mut b.cells) {
        cell.repetitions.truncate(2);
    }
    let comparison = compare(&a, &b);
    assert!(comparison.fails_above(1.1).is_empty());
    assert!(comparison.to_string().contains("too few repetitions"), "{comparison}");
}

#[test]
fn cells_that_only_one_of_them_has_are_listed() {
    let (a, mut b) = (run(1), run(2));
    b.cells[0].key.workload = "another".to_owned();
    b.cells[0].key.connections = 3;
    let comparison = compare(&a, &b);
    assert_eq!(comparison.pairs.len(), 21);
    let text = comparison.to_string();
    assert!(text.contains("only in A: simple_insert, read committed, 100 tasks"), "{text}");
    assert!(text.contains("only in B: another, read committed, 100 tasks"), "{text}");
}

#[test]
fn differing_circumstances_are_warned_of() {
    let (a, mut b) = (run(1), run(2));
    b.server.version = "18.0".to_owned();
    b.server.settings.insert("fsync".to_owned(), "off".to_owned());
    b.client.cpus = 2;
    b.onetrip_version = "0.2.0".to_owned();
    b.lines[0].rtt_ms.median *= 2.0;
    b.stopped = Some("interrupted".to_owned());
    let warnings = compare(&a, &b).warnings.join("\n");
    for part in [
        "the server's version differs: PostgreSQL 17.2 (Debian 17.2-1.pgdg120+1) in A, PostgreSQL 18.0 in B",
        "the setting fsync differs: on in A, off in B",
        "the client's machine differs",
        "onetrip's version differs: 0.1.0 in A, 0.2.0 in B",
        "the round trip with 0 ms added differs: 0.0600 ms in A, 0.120 ms in B",
        "B is not whole: interrupted",
    ] {
        assert!(warnings.contains(part), "{part}\n{warnings}");
    }
}

#[test]
fn a_server_that_only_one_of_them_measured_is_no_other_version() {
    let (mut a, b) = (run(1), run(2));
    let valkey = |version: &str| {
        let (product, version) = ("Valkey".to_owned(), version.to_owned());
        Some(Beside { server: Server { product, version, ..Server::default() }, lines: vec![] })
    };
    a.beside = valkey("8.1.0");
    assert_eq!(compare(&a, &b).warnings, Vec::<String>::new());
    assert_eq!(compare(&b, &a).warnings, Vec::<String>::new());
    // One that both have is compared, also with another product of its kind.
    let mut b = b;
    b.beside = valkey("7.2.0");
    b.beside.as_mut().unwrap().server.product = "Redis".to_owned();
    let warnings = compare(&a, &b).warnings.join("\n");
    assert!(warnings.contains("and Valkey 8.1.0 in A, "), "{warnings}");
    assert!(warnings.ends_with("and Redis 7.2.0 in B"), "{warnings}");
}

#[test]
fn cells_in_which_nothing_ended_well_are_no_pair_to_fail() {
    let (a, mut b) = (run(1), run(2));
    for repetition in &mut b.cells[0].repetitions {
        repetition.operations = 0;
    }
    b.cells[1].repetitions.clear();
    let comparison = compare(&a, &b);
    assert_eq!(comparison.pairs[0].time, None);
    assert_eq!(comparison.pairs[1].time, None);
    assert!(comparison.to_string().contains("nothing to compare"), "{comparison}");
}

#[test]
fn operations_that_came_at_a_rate_are_compared_by_their_latency() {
    let at_a_rate = |p50_us: u64| {
        let mut run = run(1);
        for cell in &mut run.cells {
            cell.key.rate = Some(100.0);
            for (i, repetition) in cell.repetitions.iter_mut().enumerate() {
                repetition.p50_us = Some(p50_us + i as u64);
            }
        }
        run
    };
    let (fast, slow) = (at_a_rate(600), at_a_rate(20_000));
    let comparison = compare(&fast, &slow);
    assert_eq!(comparison.fails_above(10.0).len(), fast.cells.len());
    assert!(compare(&slow, &fast).fails_above(1.1).is_empty());
}

#[test]
fn cells_that_differ_in_name_alone_are_held_against_each_other() {
    let script = |name: &str, seed| {
        let mut run = results(Synthetic::new(seed).scripts(&[5.0]));
        run.cells.retain(|it| it.key.workload == "tpcb-like");
        run.cells.iter_mut().for_each(|it| it.key.workload = name.to_owned());
        run
    };
    let (a, b) = (script("checkout", 1), slower(script("cart", 2), "cart", 2.0));
    let comparison = compare(&a, &b);
    let text = comparison.to_string();
    assert!(text.contains("checkout → cart, each awaited"), "{text}");
    assert!(text.contains("checkout → cart, pipelined"), "{text}");
    assert!(!text.contains("only in"), "{text}");
    assert_eq!(comparison.fails_above(1.5).len(), 2);
}

#[test]
fn where_names_could_go_together_in_several_ways_none_is_guessed() {
    let mut a = results(Synthetic::new(1).scripts(&[5.0]));
    let mut b = a.clone();
    // A cell that both runs have is compared with itself, and is no partner for another.
    a.cells.retain(|it| it.key.workload != "simple-update");
    assert!(compare(&a, &b).pairs.iter().all(|it| it.name_in_b.is_none()));
    a.cells.retain(|it| it.key.workload == "tpcb-like");
    b.cells.retain(|it| it.key.workload != "tpcb-like");
    let comparison = compare(&a, &b);
    // Two scripts of B have the form "each awaited", and one has the other.
    assert_eq!(comparison.pairs.len(), 1);
    assert_eq!(comparison.pairs[0].name_in_b.as_deref(), Some("simple-update"));
    assert_eq!((comparison.only_a.len(), comparison.only_b.len()), (1, 2));
}

#[test]
fn runs_that_have_nothing_in_common_say_so_in_one_line() {
    let (mut a, b) = (run(1), results(Synthetic::new(1).scripts(&[5.0])));
    a.cells.truncate(1);
    let comparison = compare(&a, &b);
    let line = comparison.nothing_in_common().unwrap();
    let said = "the runs have no cell in common: \
                A has simple_insert, read committed, 100 tasks, 10 connections; \
                B has tpcb-like, each awaited, 1 task, 1 connection, +5 ms and 4 more";
    assert_eq!(line, said);
    assert_eq!(comparison.to_string(), line);
    assert_eq!(compare(&a, &a).nothing_in_common(), None);
}
