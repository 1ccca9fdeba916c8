//! The position of what was written, and guards in front of reads.

use onetrip_abi::completion::{end, kind, outcome, uncertain};
use onetrip_client::flag;
use onetrip_client::postgres::{Refused, Submission};
use onetrip_engine::Time;
use onetrip_engine::pool::TextKey;
use onetrip_postgres::client::position::Position;

use crate::host::{Happened, Host};

const WRITES: &str = "select pg_logical_emit_message(true, 'onetrip', 'test')::text";

fn kinds(happened: &[Happened]) -> Vec<(u32, u32)> {
    let known = [kind::UNCERTAIN, kind::POSITION, kind::END];
    let records = happened.iter().filter(|it| known.contains(&it.kind));
    records.map(|it| (it.kind, if it.kind == kind::UNCERTAIN { it.a } else { it.token })).collect()
}

/// Which records come, until there is a position.
fn until_a_position(host: &mut Host) -> (Vec<(u32, u32)>, Position) {
    while !host.happened.iter().any(|it| it.kind == kind::POSITION) {
        host.turn();
    }
    let found = host.happened.iter().find(|it| it.kind == kind::POSITION).unwrap();
    let position = String::from_utf8(found.block.clone()).unwrap().parse().unwrap();
    let kinds = kinds(&host.happened);
    host.happened.clear();
    (kinds, position)
}

#[test]
fn no_write_is_acknowledged_in_front_of_what_is_known_of_its_position() {
    let mut host = Host::connect("watch_positions\x001\0");
    host.share();
    let token = host.submit(0, WRITES, "", &[]);
    let (records, first) = until_a_position(&mut host);
    let place = |wanted: (u32, u32)| records.iter().position(|it| *it == wanted);
    let acknowledged = place((kind::END, token)).unwrap();
    let known = place((kind::POSITION, 0)).unwrap();
    let told = place((kind::UNCERTAIN, uncertain::YES)).unwrap_or(known);
    assert!(told < acknowledged, "{records:?}");

    // SAFETY: the connection lives.
    unsafe { &mut (*host.connection).client }.mark_positions(7);
    host.submit(0, WRITES, "", &[]);
    host.submit(0, WRITES, "", &[]);
    while !host.happened.iter().any(|it| it.kind == kind::POSITION) {
        host.turn();
    }
    assert!(host.happened.iter().any(|it| it.kind == kind::POSITION && it.b == 7));
    let (_, second) = until_a_position(&mut host);
    assert!(second.covers(&first) && second.lsn > first.lsn);
    assert_eq!(host.run("select 1", &[]).end, end::COMPLETE);
    assert_eq!(kinds(&host.happened), [], "a read of which that is known is no write");
}

#[test]
fn a_connection_that_ends_behind_a_write_says_so_once() {
    let mut host = Host::connect("watch_positions\x001\0");
    host.submit(0, "begin", "", &[]);
    host.submit(0, WRITES, "", &[]);
    // Nothing but the answer to this says that the transaction is over.
    let token = host.submit(0, "commit", "", &[]);
    host.answer(token);
    host.hang_up();
    let told: Vec<u32> =
        host.happened.iter().filter(|it| it.kind == kind::UNCERTAIN).map(|it| it.a).collect();
    let is_known = host.happened.iter().any(|it| it.kind == kind::POSITION);
    assert!(is_known || told == [uncertain::YES, uncertain::LOST], "{told:?}");
}

#[test]
fn a_read_behind_a_guard_that_fails_does_not_run() {
    let mut host = Host::connect("");
    host.share();
    // A primary replays nothing.
    let position = Position { system: 1, timeline: 1, lsn: 1 };
    for token in [900, 901] {
        let read = Submission { text: "select 1/0", flags: flag::BINARY, ..Submission::default() };
        let (key, now) = (TextKey::of("select 1/0"), Time::ZERO);
        // SAFETY: the connection lives.
        let connection = unsafe { &mut (*host.connection).client };
        let sent =
            connection.submit_guarded(now, (token, key), (read, &position), Time::NEVER).is_ok();
        assert!(sent);
        let after = host.submit(0, "select 'others go on'", "", &[]);
        assert_eq!(host.answer(after).values(), ["others go on"]);
        let told: Vec<(u32, u32)> = host
            .happened
            .extract_if(.., |it| it.token == token)
            .map(|it| (it.kind, it.b))
            .collect();
        let aborted = end::ABORTED | outcome::REJECTED << 8;
        assert_eq!(told, [(kind::GUARD_BEHIND, 0), (kind::END, aborted)]);
    }
}

#[test]
fn what_is_no_single_statement_has_no_guard() {
    let mut host = Host::connect("");
    host.share();
    let position = Position { system: 1, timeline: 1, lsn: 1 };
    // SAFETY: the connection lives.
    let connection = unsafe { &mut (*host.connection).client };
    for flags in [flag::SIMPLE, flag::MEMBER, flag::COPY_IN, flag::DESCRIBE, 1 << 31] {
        let read = Submission { text: "select 1", flags, ..Submission::default() };
        let to = (1, TextKey::UNTOLD);
        let sent = connection.submit_guarded(Time::ZERO, to, (read, &position), Time::NEVER);
        assert_eq!(sent.err(), Some(Refused::Malformed));
    }
}
