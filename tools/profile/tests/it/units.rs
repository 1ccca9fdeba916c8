//! Trips, units, and what is found in them.

use onetrip_profile::{Piece, Profile, Profiler, Side};

use crate::speaker::{RTT, Rows, Speaker};

fn rows(values: &[&str]) -> Rows {
    values.iter().map(|it| vec![(*it).to_owned()]).collect()
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|it| (*it).to_owned()).collect()
}

fn kinds(profile: &Profile) -> Vec<&str> {
    profile.findings.iter().map(|it| it.kind.as_str()).collect()
}

#[test]
fn begin_and_commit_cost_trips_that_can_be_folded() {
    let mut profiler = Profiler::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    for n in 0..30 {
        let n = (1000 + n).to_string();
        it.simple(&mut profiler, "begin", &rows(&[]));
        it.run(&mut profiler, "update a set b = 1 where c = $1", &texts(&[&n]), &rows(&[]));
        it.simple(&mut profiler, "commit", &rows(&[]));
    }
    let profile = profiler.finish();
    assert_eq!(profile.trips.now, 91.0);
    let shape = profile.shapes.iter().find(|it| it.count == 30).expect("there is one shape");
    assert_eq!((shape.trips.now, shape.trips.wire), (3.0, 1.0));
    assert_eq!(kinds(&profile)[0], "protocol");
    assert_eq!(profile.findings[0].saves_trips, 60.0);
    assert!((profile.findings[0].saves_ms - 60.0 * RTT as f64 / 1e6).abs() < 1e-6);
}

#[test]
fn a_statement_for_each_row_of_a_result_is_found() {
    let mut profiler = Profiler::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    for unit in 0..40_u64 {
        let ids: Vec<String> =
            (0..2 + unit % 5).map(|n| (unit * 100_003 + n * 7).to_string()).collect();
        let found: Rows = ids.iter().map(|id| vec![id.clone()]).collect();
        it.run(&mut profiler, "select id from a", &[], &found);
        for (n, id) in ids.iter().enumerate() {
            let name = if n % 2 == 0 { rows(&["x"]) } else { rows(&[]) };
            it.run(
                &mut profiler,
                "select name from b where a = $1",
                std::slice::from_ref(id),
                &name,
            );
        }
        it.rest(200_000_000);
    }
    let profile = profiler.finish();
    let finding = profile.findings.iter().find(|it| it.kind == "n+1").expect("it is found");
    assert_eq!(finding.statements, ["select id from a", "select name from b where a = $1"]);
    let shape = &profile.shapes[0];
    assert_eq!(shape.count, 40);
    // The rounds are as many as rows, whatever they return: they go together.
    assert_eq!((shape.trips.now, shape.trips.proven), (5.0, 2.0));
}

#[test]
fn what_was_sent_together_is_one_trip() {
    let mut profiler = Profiler::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    let all = ["select 1 from a", "select 2 from b", "select 3 from c"];
    it.flight(&mut profiler, &all.map(|sql| (sql, Vec::new(), rows(&["1"]))));
    let profile = profiler.finish();
    assert_eq!(profile.trips.now, 2.0);
    let labels: Vec<_> =
        profile.shapes.iter().flat_map(|it| &it.example).map(|it| &*it.label).collect();
    assert!(labels.contains(&"overlapped"), "{labels:?}");
}

#[test]
fn a_read_that_is_made_twice_is_found() {
    let mut profiler = Profiler::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    for _ in 0..2 {
        it.run(&mut profiler, "select a from t where id = $1", &texts(&["7"]), &rows(&["x"]));
    }
    assert!(kinds(&profiler.finish()).contains(&"duplicate"));
}

#[test]
fn a_read_whose_result_decides_is_found() {
    let mut profiler = Profiler::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    for n in 0..60 {
        let is_there = n % 3 == 0;
        let id = texts(&[&(n * 1001).to_string()]);
        let found = if is_there { rows(&["1"]) } else { rows(&[]) };
        it.run(&mut profiler, "select 1 from t where id = $1", &id, &found);
        if !is_there {
            it.run(&mut profiler, "insert into t values ($1)", &id, &rows(&[]));
        }
        it.rest(100_000_000);
    }
    assert!(kinds(&profiler.finish()).contains(&"read-then-write"));
}

#[test]
fn a_connection_logs_in_once_however_many_trips_that_takes() {
    let mut profiler = Profiler::new();
    for connection in 0..6 {
        let ssl_request = [0, 0, 0, 8, 4, 210, 22, 47];
        let at = connection * 10 * RTT;
        let piece = |from, bytes, at| Piece { at, connection, from, bytes };
        profiler.piece(piece(Side::Client, &ssl_request, at));
        profiler.piece(piece(Side::Server, b"N", at + RTT));
        let mut it = Speaker::new(&mut profiler, connection, at + RTT);
        it.run(&mut profiler, "select a from t", &[], &rows(&["x"]));
    }
    let profile = profiler.finish();
    let finding = profile.findings.iter().find(|it| it.kind == "connections");
    assert_eq!(finding.expect("it is found").count, 6);
}

/// A connection of Redis: requests, each with its reply, one trip each.
fn redis(profiler: &mut Profiler, trips: &[(&str, &str)]) {
    for (n, (asked, answer)) in trips.iter().enumerate() {
        let at = 1 + n as u64 * 2 * RTT;
        let words = |line: &str| {
            let words: Vec<_> =
                line.split(' ').map(|it| format!("${}\r\n{it}\r\n", it.len())).collect();
            format!("*{}\r\n{}", words.len(), words.concat())
        };
        let asked: String = asked.split(';').map(words).collect();
        let piece = |from, bytes, at| Piece { at, connection: 1, from, bytes };
        profiler.piece(piece(Side::Client, asked.as_bytes(), at));
        profiler.piece(piece(Side::Server, answer.as_bytes(), at + RTT));
    }
}

#[test]
fn commands_that_one_multi_holds_are_no_unit_of_their_own() {
    let mut profiler = Profiler::new();
    let held = ("MULTI;INCR a;EXEC", "+OK\r\n+QUEUED\r\n*1\r\n:1\r\n");
    redis(&mut profiler, &[("GET k:1", "$1\r\nx\r\n"), held, ("GET k:2", "$1\r\nx\r\n"), held]);
    let profile = profiler.finish();
    assert_eq!((profile.shapes.len(), profile.trips.now), (1, 4.0));
}

#[test]
fn a_read_can_be_sent_with_the_watch_in_front_of_it() {
    let mut profiler = Profiler::new();
    let watched = [
        ("WATCH k:1", "+OK\r\n"),
        ("EXISTS k:1", ":0\r\n"),
        ("MULTI;SET k:1 x;EXEC", "+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n"),
    ];
    redis(&mut profiler, &[watched, watched].concat());
    let profile = profiler.finish();
    assert_eq!((profile.shapes.len(), profile.shapes[0].count), (1, 2));
    assert_eq!((profile.shapes[0].trips.now, profile.shapes[0].trips.wire), (3.0, 2.0));
    // The MULTI waits for nothing, but what left with it does: that trip stays.
    let finding = profile.findings.iter().find(|it| it.kind == "protocol");
    assert_eq!(finding.expect("it is found").saves_trips, 2.0);
}

#[test]
fn a_value_that_rows_repeat_is_not_taken_from_them_if_it_is_there_without_rows() {
    let label = |is_ever_empty: bool| {
        let mut profiler = Profiler::new();
        let mut it = Speaker::new(&mut profiler, 1, 0);
        for unit in 0..60 {
            let id = texts(&[&(unit * 1_000_003 + 7).to_string()]);
            let found = match unit % 3 {
                0 if is_ever_empty => rows(&[]),
                0 | 1 => rows(&[&id[0]]),
                _ => rows(&[&id[0], &id[0]]),
            };
            it.run(&mut profiler, "select trial from a where trial = $1", &id, &rows(&["x"]));
            it.run(&mut profiler, "select trial from b where trial = $1", &id, &found);
            it.run(&mut profiler, "select trial from c where trial = $1", &id, &rows(&["x"]));
            it.rest(200_000_000);
        }
        let profile = profiler.finish();
        profile.shapes[0].example[2].label.clone()
    };
    assert_eq!((&*label(true), &*label(false)), ("independent", "unknown"));
}

#[test]
fn a_value_that_was_asked_before_by_chance_does_not_break_a_link() {
    let mut profiler = Profiler::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    for unit in 0..40_u64 {
        let order = texts(&[&(unit * 1_000_003 + 7).to_string()]);
        let basket = if unit == 20 { order.clone() } else { texts(&[&(unit * 77).to_string()]) };
        let made = rows(&[&order[0]]);
        it.run(&mut profiler, "insert into orders values ($1) returning id", &basket, &made);
        it.run(&mut profiler, "insert into lines values ($1)", &order, &rows(&[]));
        it.rest(200_000_000);
    }
    assert_eq!(profiler.finish().shapes[0].example[1].label, "value");
}

/// A pooler beside the program is near; the server behind it is not.
#[test]
fn a_server_that_a_proxy_hides_is_as_far_as_the_least_of_many_trips() {
    for (trips, tables, source) in
        [(300, 6, "least of many trips"), (300, 2, "handshake"), (50, 6, "handshake")]
    {
        let mut profiler = Profiler::new();
        let mut it = Speaker::new(&mut profiler, 1, 0);
        it.server = 4 * RTT;
        for n in 0..trips {
            let sql = format!("select a from t{} where id = $1", n % tables);
            it.run(&mut profiler, &sql, &texts(&["7"]), &rows(&["x"]));
        }
        let profile = profiler.finish();
        assert_eq!(profile.rtt_source, source, "{trips} {tables}");
        let most = profile.rtt_range_ms.expect("there are trips")[1];
        assert_eq!(profile.rtt_ms, Some(if source == "handshake" { 1.0 } else { most }));
    }
}

#[test]
fn numbers_are_of_all_units_however_much_their_loops_differ() {
    let mut profiler = Profiler::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    let mut trips = 1;
    for unit in 0..200_u64 {
        let rounds = if unit < 40 { 60 } else { 3 };
        it.simple(&mut profiler, "begin", &rows(&[]));
        for n in 0..rounds {
            let id = texts(&[&(unit * 104_729 + n * 7_919).to_string()]);
            it.run(&mut profiler, "select name from users where id = $1", &id, &rows(&[]));
        }
        it.simple(&mut profiler, "commit", &rows(&[]));
        trips += rounds + 2;
    }
    let profile = profiler.finish();
    let near = |a: f64, b: u64| (a - b as f64).abs() < 1e-6;
    assert!(near(profile.trips.now, trips), "{:?}", profile.trips);
    // BEGIN goes with the first read; a COMMIT behind a read may depend on it.
    assert!(near(profile.trips.wire, trips - 200), "{:?}", profile.trips);
    assert!(near(profile.trips.proven, trips - 200), "{:?}", profile.trips);
    let found = profile.findings.iter().find(|it| it.kind == "loop").expect("it is found");
    // The loops of three rounds are too short to be called one.
    assert!(near(found.saves_trips, 40 * 59) && found.count == 40, "{found:?}");
    assert!(found.note.contains("whether there is a next round"), "{found:?}");
}

#[test]
fn what_stands_behind_a_loop_that_an_answer_ends_is_not_independent_of_it() {
    let mut profiler = Profiler::new();
    let mut it = Speaker::new(&mut profiler, 1, 0);
    for unit in 0..60_u64 {
        it.simple(&mut profiler, "begin", &rows(&[]));
        let last = unit % 3;
        for page in 0..3 + unit % 4 {
            let from = texts(&[&(unit * 1_000_003 + page).to_string()]);
            it.run(&mut profiler, "select id from t where id > $1", &from, &rows(&["1", "2", "3"]));
        }
        let found: Vec<&str> = ["1", "2"].into_iter().take(last as usize).collect();
        let from = texts(&[&(unit * 1_000_003 + 500).to_string()]);
        it.run(&mut profiler, "select id from t where id > $1", &from, &rows(&found));
        it.simple(&mut profiler, "commit", &rows(&[]));
    }
    let profile = profiler.finish();
    let kinds = kinds(&profile);
    assert!(!kinds.contains(&"independent"), "{kinds:?}");
}
