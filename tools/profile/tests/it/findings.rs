//! Each kind of finding: where it is said, and where it is not.

use onetrip_profile::{Finding, Profile, Profiler};

use crate::speaker::{Found, Rows, Speaker};

/// Runs some units on a connection, told their number.
fn profile(units: u64, mut unit: impl FnMut(&mut Speaker, &mut Profiler, u64)) -> Profile {
    let mut profiler = Profiler::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    for n in 0..units {
        unit(&mut it, &mut profiler, n);
        it.rest(200_000_000);
    }
    profiler.finish()
}

fn find<'a>(profile: &'a Profile, kind: &str) -> Option<&'a Finding> {
    profile.findings.iter().find(|it| it.kind == kind)
}

fn one(value: u64) -> Vec<String> {
    vec![value.to_string()]
}

/// A row, or none where the number is odd.
fn maybe(n: u64) -> Rows {
    if n.is_multiple_of(2) { vec![one(n * 1001)] } else { Vec::new() }
}

/// No trip is claimed twice.
fn sums_are_within(profile: &Profile) {
    let beyond = ["duplicate", "read-then-write", "connections"];
    let sum = |of: &dyn Fn(&&Finding) -> bool| -> f64 {
        profile.findings.iter().filter(of).map(|it| it.saves_trips).sum()
    };
    let folds = sum(&|it| !beyond.contains(&&*it.kind));
    assert!(folds <= profile.trips.now - profile.trips.floor + 1e-6, "{:#?}", profile.findings);
    assert!(sum(&|_| true) <= profile.trips.now, "{:#?}", profile.findings);
}

#[test]
fn statements_are_independent_only_if_they_followed_whatever_came_back() {
    let run = |units, takes: bool| {
        profile(units, |it, to, n| {
            let found = maybe(n);
            it.run(to, "select a from t where id = $1", &one(n + 7), &found);
            let with = if takes { found.first().map_or(3, |_| n * 1001) } else { n + 7 };
            it.run(to, "select b from u where id = $1", &one(with), &maybe(n / 2));
        })
    };
    let found = run(40, false);
    let finding = find(&found, "independent").expect("it is found");
    assert_eq!(finding.saves_trips, 40.0);
    assert_eq!(finding.statements.len(), 2);
    assert_eq!(finding.note, "");
    sums_are_within(&found);
    // Too few units, and values of the result.
    assert!(find(&run(12, false), "independent").is_none());
    assert!(find(&run(40, true), "independent").is_none());
}

#[test]
fn a_write_outside_of_a_transaction_would_run_behind_a_failed_one() {
    let run = |is_open: bool| {
        profile(40, |it, to, n| {
            if is_open {
                it.simple(to, "begin", &Vec::new());
            }
            it.run(to, "select a from t where id = $1", &one(n + 7), &maybe(n));
            it.run(to, "update u set a = 1 where id = $1", &one(n + 7), &Vec::new());
            if is_open {
                it.simple(to, "commit", &Vec::new());
            }
        })
    };
    let note = |profile: &Profile| find(profile, "independent").expect("it is found").note.clone();
    assert!(note(&run(false)).contains("Outside of a transaction"));
    assert_eq!(note(&run(true)), "");
    sums_are_within(&run(true));
}

#[test]
fn a_read_is_repeated_only_if_nothing_was_written_between() {
    let run = |writes: bool, other: u64| {
        profile(3, |it, to, n| {
            it.run(to, "select a from t where id = $1", &one(n), &vec![one(1)]);
            if writes {
                it.run(to, "update t set a = 2", &[], &Vec::new());
            }
            it.run(to, "select a from t where id = $1", &one(n + other), &vec![one(1)]);
        })
    };
    let found = run(false, 0);
    assert_eq!(find(&found, "duplicate").map(|it| (it.count, it.saves_trips)), Some((3, 3.0)));
    sums_are_within(&found);
    assert!(find(&run(true, 0), "duplicate").is_none());
    assert!(find(&run(false, 1), "duplicate").is_none());
}

#[test]
fn a_read_decides_a_write_only_if_the_write_varies_with_it() {
    let run = |always: bool| {
        profile(60, |it, to, n| {
            it.run(to, "select 1 from t where id = $1", &one(n + 7), &maybe(n));
            if always || n.is_multiple_of(2) {
                it.run(to, "insert into u values ($1)", &one(n + 7), &Vec::new());
            }
        })
    };
    assert!(find(&run(false), "read-then-write").is_some());
    assert!(find(&run(true), "read-then-write").is_none());
    sums_are_within(&run(false));
}

#[test]
fn a_statement_is_parsed_at_each_use_only_without_a_name() {
    let found = profile(30, |it, to, n| it.run(to, "select a from t", &[], &maybe(n)));
    assert_eq!(find(&found, "parse").map(|it| it.count), Some(30));
    let found = profile(30, |it, to, n| it.simple(to, "select a from t", &maybe(n)));
    assert!(find(&found, "parse").is_none());
}

#[test]
fn connections_are_churned_only_if_they_do_little_work() {
    let run = |units: u64| {
        let mut profiler = Profiler::new();
        for connection in 0..8 {
            let mut it = Speaker::new(&mut profiler, connection, connection * 1_000_000_000);
            for n in 0..units {
                it.run(&mut profiler, "select a from t", &[], &maybe(n));
                it.rest(200_000_000);
            }
            profiler.closed(connection);
        }
        profiler.finish()
    };
    assert_eq!(find(&run(1), "connections").map(|it| it.count), Some(8));
    assert!(find(&run(20), "connections").is_none());
}

#[test]
fn a_transaction_is_idle_only_while_it_is_open() {
    let run = |is_open: bool| {
        profile(5, |it, to, _| {
            it.simple(to, if is_open { "begin" } else { "select 1 from t" }, &Vec::new());
            it.rest(3_000_000);
            it.run(to, "update t set a = 1", &[], &Vec::new());
            it.simple(to, if is_open { "commit" } else { "select 2 from t" }, &Vec::new());
        })
    };
    assert!(find(&run(true), "idle").is_some());
    assert!(find(&run(false), "idle").is_none());
}

#[test]
fn commands_of_redis_in_a_row_can_be_folded_unless_they_were() {
    let run = |together: bool| {
        let mut profiler = Profiler::new();
        let mut it = Speaker::redis(&mut profiler, 1, 0);
        for n in 0..10_u64 {
            let get = |key: u64| {
                ("GET name".to_owned(), one(n * 10 + key), Found::Rows(vec!["x".to_owned()]))
            };
            if together {
                it.commands(&mut profiler, &[get(1), get(2), get(3)]);
            } else {
                (1..=3).for_each(|key| it.commands(&mut profiler, &[get(key)]));
            }
            it.rest(200_000_000);
        }
        profiler.finish()
    };
    let found = run(false);
    assert_eq!(find(&found, "redis-run").map(|it| it.saves_trips), Some(20.0));
    assert!(found.notes.iter().any(|it| it.text.contains("Redis")), "{:?}", found.notes);
    sums_are_within(&found);
    assert!(find(&run(true), "redis-run").is_none());
}

/// A poll is no loop that could be folded: each round waits for what the one before returned.
#[test]
fn polling_is_no_loop() {
    let found = profile(10, |it, to, _| {
        for _ in 0..8 {
            it.run(to, "select a from jobs where queue = $1", &one(1), &Vec::new());
        }
    });
    assert!(find(&found, "loop").is_none() && find(&found, "n+1").is_none());
    let found = profile(10, |it, to, n| {
        for round in 0..8 {
            it.run(to, "select a from jobs where id = $1", &one(n * 77 + round), &Vec::new());
        }
    });
    assert_eq!(find(&found, "loop").map(|it| it.saves_trips), Some(70.0));
}

/// The labels of a program's statements, each by how it begins.
fn labels(found: &Profile) -> Vec<(&str, &str)> {
    let longest = found.shapes.iter().max_by_key(|it| it.example.len());
    let example = longest.map_or(&[][..], |it| &it.example);
    example.iter().map(|it| (it.text.split(' ').next().unwrap_or(""), &*it.label)).collect()
}

#[test]
fn the_end_of_a_failed_transaction_is_waited_for() {
    let found = profile(3, |it, to, n| {
        it.simple(to, "begin", &Vec::new());
        it.fail(to, "insert into t values ($1)", &one(n));
        it.simple(to, "rollback", &Vec::new());
    });
    let expected = [("begin", ""), ("insert", "protocol"), ("rollback", "pinned")];
    assert_eq!(labels(&found), expected);
}

/// What a driver sends in front of BEGIN and behind COMMIT is paid for by the transaction.
#[test]
fn pings_and_settings_beside_a_transaction_are_trips_of_it() {
    let mut profiler = Profiler::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    let to = &mut profiler;
    for n in 0..25_u64 {
        it.simple(to, "select 1", &vec![one(1)]);
        it.simple(to, "begin", &Vec::new());
        it.run(to, "select a from t where id = $1", &one(n * 1001), &vec![one(n * 7 + 100_003)]);
        it.run(to, "update t set a = 1 where b = $1", &one(n * 7 + 100_003), &Vec::new());
        it.simple(to, "commit", &Vec::new());
        it.simple(to, "deallocate s1", &Vec::new());
    }
    let found = profiler.finish();
    // The login; the ping, BEGIN and the read; the update, which takes a value of it, and the rest.
    assert_eq!((found.trips.now, found.trips.proven), (151.0, 51.0));
    let saved = find(&found, "protocol").expect("it is found").saves_trips;
    assert_eq!(saved, 100.0);
    sums_are_within(&found);
}

/// A cursor is opened and closed for what is fetched from it.
#[test]
fn what_a_cursor_costs_beside_its_rows_can_be_folded() {
    let found = profile(20, |it, to, n| {
        it.simple(to, "begin", &Vec::new());
        it.simple(to, "declare \"c_1\" cursor for select a from t", &Vec::new());
        it.simple(to, "fetch forward 100 from \"c_1\"", &vec![one(n * 1001)]);
        it.simple(to, "close \"c_1\"", &Vec::new());
        it.simple(to, "commit", &Vec::new());
    });
    let shape = found.shapes.iter().find(|it| it.count == 20).expect("there is one shape");
    // BEGIN, DECLARE, FETCH and CLOSE; COMMIT, which may be decided by the rows.
    assert_eq!((shape.trips.now, shape.trips.wire), (5.0, 2.0));
}

#[test]
fn units_of_settings_alone_are_told_apart_by_what_they_set() {
    let found = profile(20, |it, to, n| {
        let of_time = n.is_multiple_of(2);
        it.simple(to, if of_time { "set timezone = 'UTC'" } else { "set role a" }, &Vec::new());
    });
    let shapes: Vec<_> = found.shapes.iter().filter(|it| it.count == 10).collect();
    assert_eq!(shapes.len(), 2, "{:?}", found.shapes);
}

/// A worker of a queue waits for each job: that is no loop over rows.
#[test]
fn the_jobs_of_a_queue_are_units_of_their_own() {
    let mut profiler = Profiler::new();
    let mut it = Speaker::redis(&mut profiler, 1, 0);
    for n in 0..40_u64 {
        let job = 7_000_003 + n * 1001;
        let popped = Found::Rows(vec!["jobs".to_owned(), job.to_string()]);
        it.commands(&mut profiler, &[("BRPOP jobs".to_owned(), one(0), popped)]);
        let read = Found::Rows(vec!["a".to_owned(), "b".to_owned()]);
        it.commands(&mut profiler, &[(format!("HMGET job:{job}"), one(1), read)]);
        it.commands(
            &mut profiler,
            &[("HDEL running".to_owned(), one(job), Found::Rows(Vec::new()))],
        );
    }
    let found = profiler.finish();
    for kind in ["loop", "n+1"] {
        assert!(find(&found, kind).is_none(), "{:#?}", found.findings);
    }
    assert!(found.shapes.iter().any(|it| it.count >= 39 && it.trips.now == 3.0));
}
