//! What a program hears, and what the server is asked, where something is answered early.

mod link;
mod model;
mod random;

use std::time::Duration;

use onetrip_postgres::client::early::{Early, Kind, Saved, Words};

use link::{Link, NOW, Pieces, extended, query};
use model::Fault;

fn through() -> Link {
    Link::through(Pieces::Whole)
}

#[test]
fn a_transaction_pays_for_its_statements_and_its_end() {
    let mut link = through();
    for (sql, heard) in [
        ("begin", ["C BEGIN", "Z T"]),
        ("set transaction isolation level serializable", ["C SET", "Z T"]),
        ("work 1", ["C INSERT 0 1", "Z T"]),
        ("savepoint a", ["C SAVEPOINT", "Z T"]),
        ("work 2", ["C INSERT 0 1", "Z T"]),
        ("release a", ["C RELEASE", "Z T"]),
        ("commit", ["C COMMIT", "Z I"]),
    ] {
        assert_eq!(link.say(&query(sql)), heard, "{sql}");
    }
    assert_eq!((link.trips, &link.server.committed[..]), (3, &[1, 2][..]));
    let saved = *link.early.unwrap().saved();
    assert_eq!((saved.all(), saved.all_refuted()), (4, 0));
    for kind in [Kind::Begin, Kind::SetTransaction, Kind::Savepoint, Kind::Release] {
        assert_eq!(saved.trips(kind), 1, "{kind:?}");
    }
}

#[test]
fn a_transaction_without_a_statement_costs_nothing() {
    let mut link = through();
    for end in ["commit", "rollback"] {
        link.say(&query("begin"));
        link.say(&query("savepoint a"));
        let tag = end.to_uppercase();
        assert_eq!(link.say(&query(end)), [format!("C {tag}"), "Z I".to_owned()]);
    }
    assert_eq!((link.trips, link.server.log.len()), (0, 0));
    assert_eq!(link.say(&query("work 1")), ["C INSERT 0 1", "Z I"]);
    assert!(!link.server.ran[0].is_explicit);
}

#[test]
fn preparing_executing_and_closing_is_one_trip() {
    let mut link = through();
    for number in 0..3 {
        let name = format!("pdo_{number}");
        let text = format!("P {name} work {number}");
        assert_eq!(link.say(&extended(&[&text, "S"])), ["1", "Z I"]);
        let bind = format!("B {name}");
        let ran = link.say(&extended(&[&bind, "Dp", "E", "S"]));
        assert_eq!(ran, ["2", "n", "C INSERT 0 1", "Z I"]);
        let heard = link.say(&query(&format!("deallocate {name}")));
        assert_eq!(heard, ["C DEALLOCATE", "Z I"]);
    }
    assert_eq!((link.trips, &link.server.committed[..]), (3, &[0, 1, 2][..]));
    // The same names are free again.
    assert_eq!(link.say(&extended(&["P pdo_0 work 9", "Ds pdo_0", "S"])), ["1", "t", "n", "Z I"]);
    assert_eq!(link.say(&extended(&["Cs pdo_0", "S"])), ["3", "Z I"]);
    assert_eq!(link.trips, 4);
}

#[test]
fn statements_of_the_extended_protocol_are_told_as_a_whole() {
    let mut link = through();
    let begin = ["P - begin", "B", "Dp", "E", "P - savepoint a", "B", "E", "S"];
    let heard = ["1", "2", "n", "C BEGIN", "1", "2", "C SAVEPOINT", "Z T"];
    assert_eq!(link.say(&extended(&begin)), heard);
    assert_eq!(link.say(&query("work 1")), ["C INSERT 0 1", "Z T"]);
    let release = ["P - release a", "B", "E", "S"];
    assert_eq!(link.say(&extended(&release)), ["1", "2", "C RELEASE", "Z T"]);
    assert_eq!(link.say(&query("commit")), ["C COMMIT", "Z I"]);
    assert_eq!((link.trips, &link.server.committed[..]), (2, &[1][..]));
}

#[test]
fn whoever_does_not_wait_is_not_answered_early() {
    let mut link = through();
    let all = ["begin", "work 1", "work 2", "commit"].map(query).concat();
    let heard = link.say(&all);
    assert_eq!(heard[6..], ["C COMMIT", "Z I"]);
    let saved = *link.early.as_ref().unwrap().saved();
    assert_eq!((link.trips, saved.all()), (1, 0));
}

/// What is told, and what of it fails with what.
const REFUSED: [(&[&str], &str, Fault); 5] = [
    (&["begin"], "begin", Fault::Error("25006")),
    (&["begin"], "begin", Fault::Error("57014")),
    (&["begin", "set transaction read only"], "set", Fault::Error("0A000")),
    (&["begin", "savepoint a"], "savepoint", Fault::Error("57014")),
    (&["begin", "savepoint a", "release a"], "release", Fault::Error("57014")),
];

/// P78.
#[test]
fn what_proves_false_is_heard_at_the_next_statement_which_did_not_run() {
    let all: [(bytes::BytesMut, &[&str]); 3] = [
        (query("work 1"), &[]),
        (query("work 1; commit; work 2"), &[]),
        (extended(&["P - work 1", "B", "E", "S"]), &[]),
    ];
    for (told, begins, fault) in REFUSED {
        for (statement, _) in &all {
            for pieces in [Pieces::Whole, Pieces::Bytes] {
                let mut link = Link::through(pieces);
                for sql in told {
                    assert_eq!(link.say(&query(sql))[1], "Z T", "{sql}");
                }
                link.server.faults.push_back((begins, fault));
                let heard = link.say(statement);
                let Fault::Error(code) = fault else { unreachable!() };
                let [error, ready] = &heard[..] else { panic!("{heard:?}") };
                assert!(error.starts_with(&format!("E {code} ")), "{error}");
                let context = format!("<onetrip sidecar: \"{begins}");
                assert!(error.contains(&context), "{error}");
                assert_eq!(ready, "Z E");
                assert!(link.server.ran.is_empty(), "{:?}", link.server.ran);
                // Up to ROLLBACK, by the server itself.
                let refused = "E 25P02 current transaction is aborted";
                assert_eq!(link.say(&query("work 3")), [refused, "Z E"]);
                assert_eq!(link.say(&extended(&["P - work 4", "B", "E", "S"])), [refused, "Z E"]);
                assert_eq!(link.say(&query("commit")), ["C ROLLBACK", "Z I"]);
                assert_eq!(link.say(&query("work 5")), ["C INSERT 0 1", "Z I"]);
                assert_eq!(link.server.committed, [5]);
                assert_eq!(link.early.unwrap().saved().all_refuted(), 1);
            }
        }
    }
}

#[test]
fn a_server_that_ends_meanwhile_is_heard_and_nothing_ran() {
    for fault in [Fault::Fatal("57P01"), Fault::Cut] {
        let mut link = through();
        link.say(&query("begin"));
        link.server.faults.push_back(("begin", fault));
        let heard = link.say(&query("work 1"));
        assert!(link.is_closed && link.server.ran.is_empty());
        match fault {
            Fault::Fatal(_) => assert!(heard[0].starts_with("E 57P01 begin met the end")),
            _ => assert!(heard.is_empty(), "{heard:?}"),
        }
    }
}

#[test]
fn an_error_behind_what_was_told_is_as_it_was() {
    let mut link = through();
    link.say(&query("begin"));
    assert_eq!(link.say(&query("bad")), ["E 42601 syntax error in bad", "Z E"]);
    assert_eq!(link.say(&query("rollback")), ["C ROLLBACK", "Z I"]);
    link.say(&query("begin"));
    let heard = link.say(&extended(&["P - bad", "B", "E", "S"]));
    assert_eq!(heard, ["E 42601 syntax error in bad", "Z E"]);
    assert_eq!(link.say(&query("rollback")), ["C ROLLBACK", "Z I"]);
    assert_eq!(link.early.unwrap().saved().all_refuted(), 0);
}

#[test]
fn a_statement_that_could_not_be_prepared_is_prepared_by_its_next_use() {
    let mut link = through();
    assert_eq!(link.say(&extended(&["P a bad", "S"])), ["1", "Z I"]);
    let run = extended(&["B a", "E", "S"]);
    for _ in 0..2 {
        let heard = link.say(&run);
        assert!(heard[0].starts_with("E 42601 syntax error in bad <onetrip sidecar: \"bad\""));
        assert_eq!(heard[1..], ["Z I"]);
    }
    // It was never there, so its name is free.
    assert_eq!(link.say(&query("deallocate a")), ["C DEALLOCATE", "Z I"]);
    assert_eq!(link.say(&extended(&["P a work 1", "S"])), ["1", "Z I"]);
    assert_eq!(link.say(&run), ["2", "C INSERT 0 1", "Z I"]);
}

#[test]
fn what_a_failed_begin_has_skipped_is_still_owed() {
    let mut link = through();
    assert_eq!(link.say(&extended(&["P old work 1", "Ds old", "S"])).len(), 4);
    link.say(&query("begin"));
    assert_eq!(link.say(&query("deallocate old")), ["C DEALLOCATE", "Z T"]);
    assert_eq!(link.say(&extended(&["P new work 2", "S"])), ["1", "Z T"]);
    link.server.faults.push_back(("begin", Fault::Error("25006")));
    let run = extended(&["B new", "E", "S"]);
    assert!(link.say(&run)[0].starts_with("E 25006"));
    assert_eq!(link.say(&query("rollback")), ["C ROLLBACK", "Z I"]);
    assert_eq!(link.say(&run), ["2", "C INSERT 0 1", "Z I"]);
    // The old one is closed: its name can be used, and it is not there.
    assert_eq!(link.say(&extended(&["P old work 3", "Ds old", "S"])), ["1", "t", "n", "Z I"]);
    assert_eq!(link.server.committed, [2]);
}

#[test]
fn a_second_statement_that_may_fail_waits_for_the_first() {
    let mut link = through();
    assert_eq!(link.say(&extended(&["P a bad", "S"])), ["1", "Z I"]);
    let heard = link.say(&extended(&["P b work 1", "S"]));
    assert!(heard[0].starts_with("E 42601"), "{heard:?}");
    let heard = link.say(&extended(&["B b", "E", "S"]));
    assert!(heard[0].starts_with("E 26000"), "{heard:?}");
}

#[test]
fn nothing_but_its_use_shares_the_transaction_of_a_parse() {
    let mut link = through();
    // Behind the snapshot of a Parse the server refuses an isolation level.
    assert_eq!(link.say(&extended(&["P a work 1", "S"])), ["1", "Z I"]);
    assert_eq!(link.trips, 0);
    let begin = query("begin isolation level serializable");
    assert_eq!(link.say(&begin), ["C BEGIN", "Z T"]);
    assert_eq!((link.trips, link.server.syncs), (1, 1));
    assert_eq!(link.say(&extended(&["B a", "E", "S"])), ["2", "C INSERT 0 1", "Z T"]);
    assert_eq!(link.trips, 2);
    assert_eq!(link.early.unwrap().saved().all(), 1);
}

#[test]
fn what_was_reported_is_never_taken_back() {
    let (mut link, mut reported) = (through(), Saved::default());
    let mut report = |link: &mut Link| {
        link.early.as_mut().unwrap().report(&mut reported);
        assert!(!link.early.as_ref().unwrap().has_news());
        reported.trips(Kind::Prepare)
    };
    // This one is waited for after all, in front of an isolation level.
    link.say(&extended(&["P a work 1", "S"]));
    assert_eq!(report(&mut link), 0);
    link.say(&query("begin isolation level serializable"));
    assert_eq!(report(&mut link), 0);
    link.say(&query("rollback"));
    // And this one is not.
    link.say(&extended(&["P b work 2", "S"]));
    assert_eq!(report(&mut link), 0);
    link.say(&extended(&["B b", "E", "S"]));
    assert_eq!(report(&mut link), 1);
    assert_eq!(reported, *link.early.unwrap().saved());
}

#[test]
fn what_can_not_be_told_passes_unchanged() {
    for sql in [
        "begin; work 1",
        "commit",
        "rollback",
        "savepoint a",
        "release a",
        "deallocate a",
        "",
        "lock t",
    ] {
        let (mut direct, mut link) = (Link::direct(), through());
        assert_eq!(direct.say(&query(sql)), link.say(&query(sql)), "{sql}");
        assert_eq!((link.trips, link.early.unwrap().saved().all()), (1, 0), "{sql}");
    }
}

#[test]
fn a_savepoint_is_released_early_only_where_it_is_known() {
    let mut link = through();
    link.say(&query("begin"));
    link.say(&query("savepoint a"));
    link.say(&query("savepoint b"));
    link.say(&query("work 1"));
    link.say(&query("rollback to a"));
    let trips = link.trips;
    assert_eq!(link.say(&query("release b"))[0], "E 3B001 savepoint b does not exist");
    assert_eq!(link.trips, trips + 1);
    link.say(&query("rollback to a"));
    assert_eq!(link.say(&query("release a")), ["C RELEASE", "Z T"]);
    assert_eq!(link.say(&query("commit")), ["C COMMIT", "Z I"]);
    assert_eq!(link.trips, trips + 3);
}

#[test]
fn copy_in_passes_by_either_protocol() {
    for is_simple in [true, false] {
        let mut link = through();
        link.say(&query("begin"));
        let copy = if is_simple { query("copy") } else { extended(&["P - copy", "B", "E", "S"]) };
        if is_simple {
            // The model knows COPY by the extended protocol only.
            continue;
        }
        assert_eq!(link.say(&copy), ["1", "2", "G"]);
        let mut data = bytes::BytesMut::from(&b"d\0\0\0\x05x"[..]);
        data.extend_from_slice(b"c\0\0\0\x04");
        data.extend_from_slice(&extended(&["S"]));
        assert_eq!(link.say(&data), ["C COPY 0", "Z T"]);
        link.say(&query("savepoint a"));
        assert_eq!(link.say(&query("work 1")), ["C INSERT 0 1", "Z T"]);
        assert_eq!(link.say(&query("commit")), ["C COMMIT", "Z I"]);
        assert_eq!(link.trips, 4);
    }
}

#[test]
fn pings_are_answered_while_the_server_was_heard_lately() {
    let words = Words::default().with("ping").unwrap();
    let mut link = Link::over(Some(Early::new(words)), Pieces::Whole);
    assert_eq!(link.say(&query("")), ["I", "Z I"]);
    assert_eq!(link.say(&query("select 1")), ["T", "D", "C SELECT 1", "Z I"]);
    link.say(&query("begin"));
    assert_eq!(link.say(&query(";")), ["I", "Z T"]);
    assert_eq!(link.trips, 0);
    let early = link.early.as_mut().unwrap();
    early.from_program(NOW.after(Duration::from_secs(2)), &query(""));
    assert!(!early.to_server().is_empty());
}

#[test]
fn a_transaction_begins_early_only_where_the_server_was_heard_lately() {
    for begin in [query("begin"), extended(&["P - begin", "B", "E", "S"])] {
        let mut link = through();
        let early = link.early.as_mut().unwrap();
        early.from_program(NOW.after(Duration::from_secs(11)), &begin);
        assert_eq!(early.to_server(), &begin[..]);
    }
}

#[test]
fn a_position_in_what_was_told_is_shown_in_its_own_text() {
    for (next, is_moved) in [
        (query("work 1"), true),
        (extended(&["P - work 1", "B", "E", "S"]), true),
        (extended(&["B a", "E", "S"]), false),
    ] {
        let mut link = through();
        link.say(&extended(&["P a bad here", "S"]));
        let heard = link.say(&next);
        let expected = if is_moved { "q=bad here p=5" } else { "P=5" };
        assert!(heard[0].contains(expected), "{heard:?}");
    }
}

#[test]
fn long_messages_pass_in_parts_and_memory_stays_bounded() {
    let mut link = through();
    link.say(&query("begin"));
    let long = format!("work 1{}", " ".repeat(300_000));
    let all = [query(&long), query(&long)].concat();
    assert_eq!(link.say(&all), ["C INSERT 0 1", "Z T", "C INSERT 0 1", "Z T"]);
    let mut messages = extended(&["P - work 2"]);
    messages.extend_from_slice(&extended(&["B", "E"]).repeat(20_000));
    messages.extend_from_slice(&extended(&["S"]).repeat(10_000));
    assert_eq!(link.say(&messages).len(), 1 + 2 * 20_000 + 10_000);
    assert_eq!(link.say(&query("commit")), ["C COMMIT", "Z I"]);
}

#[test]
fn what_is_not_postgresql_is_turned_away() {
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\x16\x03\x01", b"\0\0\0\x04\0\0\0\0"] {
        let mut early = Early::new(Words::default());
        early.from_program(NOW, bytes);
        assert!(early.is_over() && early.to_program().is_empty());
    }
    let mut early = Early::new(Words::default());
    early.from_program(NOW, b"\0\0\0\x08\x04\xd2\x16\x2f");
    assert_eq!(early.to_program(), b"N");
    let mut startup = bytes::BytesMut::new();
    onetrip_postgres::message::startup_message::write(&mut startup, 3 << 16, [("user", "u")])
        .unwrap();
    early.from_program(NOW, &startup);
    early.program_took(NOW, 1);
    early.from_server(NOW, b"HTTP/1.1 400 Bad Request");
    let told = String::from_utf8_lossy(early.to_program()).into_owned();
    assert!(early.is_over() && told.contains("08P01"), "{told}");
}

fn early_with(words: &[&str]) -> Early {
    Early::new(words.iter().fold(Words::default(), |all, it| all.with(it).unwrap()))
}

/// A setting outlives its transaction, though nothing else was done in that.
#[test]
fn a_setting_that_was_told_is_committed() {
    let mut link = Link::over(Some(early_with(&["set"])), Pieces::Whole);
    link.say(&query("begin"));
    assert_eq!(link.say(&query("set statement_timeout = 5000")), ["C SET", "Z T"]);
    assert_eq!((link.trips, link.server.log.len()), (0, 0));
    link.say(&query("commit"));
    let log = link.server.log.join(" ");
    assert!(log.contains("set statement_timeout = 5000"), "{log}");
}

/// `select 1` takes a snapshot, behind which SET TRANSACTION is refused.
#[test]
fn a_question_behind_a_begin_that_was_told_goes_to_the_server() {
    let mut link = Link::over(Some(early_with(&["ping"])), Pieces::Whole);
    link.say(&query("begin"));
    link.say(&query("select 1"));
    let log = link.server.log.join(" ");
    assert!(log.contains("begin") && log.contains("select 1"), "{log}");
}

#[test]
fn nothing_is_told_behind_the_end_of_the_session() {
    let mut early = early_with(&[]);
    let mut startup = bytes::BytesMut::new();
    onetrip_postgres::message::startup_message::write(&mut startup, 3 << 16, [("user", "u")])
        .unwrap();
    early.from_program(NOW, &startup);
    early.from_server(NOW, b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
    early.program_took(NOW, early.to_program().len());
    let fatal = b"SFATAL\0VFATAL\0C57P01\0Mterminating\0\0";
    let len = (fatal.len() as u32 + 4).to_be_bytes();
    early.from_server(NOW, &[b"E", &len[..], fatal].concat());
    let heard = early.to_program().len();
    early.from_program(NOW, &query("begin"));
    assert_eq!(early.to_program().len(), heard, "no answer of its own");
}

#[test]
fn a_message_that_is_none_ends_what_was_told() {
    for pieces in [Pieces::Whole, Pieces::Bytes] {
        let mut link = Link::through(pieces);
        link.say(&query("begin"));
        let heard = link.say(b"y\0\0\0\x04");
        assert!(matches!(&heard[..], [one] if one.starts_with("E 08P01")), "{heard:?}");
        assert!(link.server.ran.is_empty());
    }
}

#[test]
fn a_word_that_is_no_name_is_the_servers_to_refuse() {
    use onetrip_postgres::sql::control;
    for word in ["select", "TABLE", "user", "all", "left", "verbose"] {
        assert_eq!(control(&format!("savepoint {word}")), None, "{word}");
        assert!(control(&format!("savepoint \"{word}\"")).is_some(), "{word}");
    }
    for word in ["a", "work", "value", "prepare", "begin"] {
        assert!(control(&format!("savepoint {word}")).is_some(), "{word}");
    }
    assert_eq!(control("set session characteristics as transaction read only"), None);
}
