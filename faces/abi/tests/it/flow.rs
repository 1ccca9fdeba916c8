//! COPY that is fed, and streams that are taken as they arrive.

use onetrip_abi::completion::{end, kind, outcome};
use onetrip_abi::export::{flag, refused};

use crate::host::Host;

const DATA: u32 = 0;
const DONE: u32 = 1;
const FAILED: u32 = 2;

/// Submits a COPY with the first of its data.
fn copy(host: &mut Host, text: &str, data: &[u8]) -> u32 {
    let (token, place) = host.try_submit(flag::COPY_IN, text, "", data, 0.0);
    assert_eq!(place, 0.0);
    token
}

#[test]
fn data_is_taken_until_much_lies_unwritten_and_again_when_it_was_written() {
    let mut host = Host::connect("");
    host.run_simple("create temp table fed (line text)");
    let token = copy(&mut host, "copy fed from stdin", b"first\n");
    let lines = "line\n".repeat(13_000);
    let mut fed = 1;
    while host.feed(token, DATA, lines.as_bytes()) {
        fed += 13_000;
        assert!(fed < 1_000_000, "it takes without end");
    }
    host.write();
    assert_eq!(host.wait_for(kind::FEED).token, token);
    assert!(host.feed(token, DATA, b"last\n"));
    assert!(host.feed(token, DONE, &[]));
    let answer = host.answer(token);
    assert_eq!((answer.end, answer.tags().as_str()), (end::COMPLETE, "GC"));
    let count = host.run("select count(*)::text from fed", &[]).values();
    assert_eq!(count, [(fed + 1).to_string()]);
}

#[test]
fn a_copy_behind_another_waits_for_its_end() {
    let mut host = Host::connect("");
    host.run_simple("create temp table in_turn (line text)");
    let first = copy(&mut host, "copy in_turn from stdin", b"a\n");
    let (second, place) =
        host.try_submit(flag::COPY_IN, "copy in_turn from stdin", "", b"b\n", 0.0);
    assert!(place > 0.0, "{place}");
    assert!(!host.feed(second, DATA, b"c\n"));
    assert!(host.feed(first, DONE, &[]));
    assert_eq!(host.answer(first).tags(), "GC");
    assert_eq!(host.wait_for(kind::FEED).token, second);
    assert!(host.feed(second, DATA, b"c\n") && host.feed(second, DONE, &[]));
    assert_eq!(host.answer(second).tags(), "GC");
    let lines = host.run("select string_agg(line, '' order by line) from in_turn", &[]);
    assert_eq!(lines.values(), ["abc"]);
}

#[test]
fn a_copy_that_the_server_refuses_takes_no_more() {
    let mut host = Host::connect("");
    let token = copy(&mut host, "copy not_there from stdin", b"1\n");
    let answer = host.answer(token);
    assert_eq!((answer.end, answer.error(b'C').as_str()), (end::SERVER, "42P01"));
    assert!(!host.feed(token, DATA, b"2\n"));
    assert_eq!(host.run("select 'on'", &[]).values(), ["on"]);
}

#[test]
fn a_copy_that_is_given_up_leaves_nothing() {
    let mut host = Host::connect("");
    host.run_simple("create temp table given_up (n int)");
    let token = copy(&mut host, "copy given_up from stdin", b"1\n");
    assert!(host.feed(token, FAILED, "changed my mind".as_bytes()));
    let answer = host.answer(token);
    assert_eq!((answer.outcome, answer.error(b'C').as_str()), (outcome::REJECTED, "57014"));
    assert_eq!(host.run("select count(*)::text from given_up", &[]).values(), ["0"]);
}

#[test]
fn a_copy_whose_data_did_not_end_was_rejected_where_the_connection_is_lost() {
    for (ends, expected) in [(false, outcome::REJECTED), (true, outcome::UNKNOWN)] {
        let mut host = Host::connect("");
        host.run_simple("create temp table cut (n int)");
        let token = copy(&mut host, "copy cut from stdin", b"1\n");
        host.write();
        if ends {
            assert!(host.feed(token, DONE, &[]));
        }
        host.socket().shutdown(std::net::Shutdown::Both).unwrap();
        host.hang_up();
        let answer = host.answer(token);
        assert_eq!((answer.end, answer.outcome), (end::CLOSED, expected));
    }
}

#[test]
fn what_is_no_copy_from_stdin_is_not_fed() {
    let mut host = Host::connect("");
    for text in ["select 1", "copy t to stdout", "copy t from stdin; select 1"] {
        let (_, place) = host.try_submit(flag::COPY_IN, text, "", b"1\n", 0.0);
        assert_eq!(place, refused::MALFORMED, "{text}");
    }
}

/// Four MiB of rows.
const LONG: &str = "select repeat('x', 1024) from generate_series(1, 4096)";

#[test]
fn a_stream_that_nobody_takes_is_not_read_until_somebody_does() {
    let mut host = Host::connect("");
    let token = host.submit(flag::STREAM | flag::UNPREPARED, LONG, "", &[]);
    assert_eq!(host.wait_for(kind::READ).a, 0);
    let came = |host: &Host| -> usize {
        let of_stream = host.happened.iter().filter(|it| it.token == token);
        of_stream.map(|it| it.block.len()).sum()
    };
    let untaken = came(&host);
    assert!((1 << 20..2 << 20).contains(&untaken), "{untaken}");
    host.taken(untaken);
    assert_eq!(host.wait_for(kind::READ).a, 1);
    // The rest is taken as it arrives.
    let mut taken = untaken;
    while !host.happened.iter().any(|it| it.kind == kind::END) {
        host.turn();
        let all = came(&host);
        host.taken(all - taken);
        taken = all;
    }
    assert!(taken > 4 << 20);
}

#[test]
fn of_a_stream_that_is_left_in_a_transaction_only_the_end_comes() {
    let mut host = Host::connect("");
    host.run_simple("begin");
    let token = host.submit(flag::STREAM | flag::UNPREPARED, LONG, "", &[]);
    host.wait_for(kind::DATA);
    host.leave(token, 0);
    host.take();
    host.happened.retain(|it| it.kind == kind::END);
    let answer = host.answer(token);
    assert_eq!(answer.end, end::COMPLETE);
    // Including the bytes that were read with it.
    assert!(answer.messages.len() < 8192, "{}", answer.messages.len());
    assert_eq!(host.run("select 'still in it'", &[]).values(), ["still in it"]);
}

#[test]
fn a_stream_that_is_left_long_before_its_end_ends_a_connection_that_nobody_misses() {
    let mut host = Host::connect("");
    let token = host.submit(flag::STREAM | flag::UNPREPARED, LONG, "", &[]);
    host.wait_for(kind::DATA);
    host.leave(token, 2);
    let closed = host.wait_for(kind::CLOSED);
    assert!(String::from_utf8(closed.block).unwrap().contains("stream"), "{}", closed.a);
}
