//! COPY and streams without a server: what is sent, what is taken back, and how each ends.

use bytes::BytesMut;
use onetrip_engine::{Connection, Feed, Limits, Outcome, Output, Ticket, Time, Token};
use onetrip_postgres::client::copy::{self, Direction};
use onetrip_postgres::client::stream::{self, Rest};
use onetrip_postgres::message::{EncodeError, Query, TransactionStatus};
use onetrip_postgres::sql::classify;
use onetrip_postgres::{Expect, Postgres};

const NOW: Time = Time::ZERO;
const COPY: Token = Token(1);

/// A session of one caller.
fn connection(limits: Limits) -> Connection<Postgres> {
    let mut protocol = Postgres::new(TransactionStatus::Idle);
    protocol.lend();
    Connection::new(NOW, protocol, limits)
}

fn submit(engine: &mut Connection<Postgres>, token: Token, expect: Expect, feed: Feed) -> Ticket {
    let request = stream::request(token, expect, feed, feed == Feed::Whole);
    let write = |out: &mut BytesMut| Query { sql: "copy t from stdin" }.encode(out);
    engine.submit::<EncodeError>(NOW, request, write).unwrap()
}

/// Takes the bytes to send, and returns the types of their messages.
fn sent(engine: &mut Connection<Postgres>) -> String {
    let bytes = engine.transmit().to_vec();
    engine.handle_written(NOW, bytes.len());
    let (mut at, mut types) = (0, String::new());
    while at < bytes.len() {
        types.push(bytes[at] as char);
        at += 1 + u32::from_be_bytes(bytes[at + 1..at + 5].try_into().unwrap()) as usize;
    }
    types
}

#[test]
fn a_text_is_a_copy_in_one_direction_or_none() {
    let copies = |text, way: Direction| way.is_of(classify(text));
    assert!(copies("copy t from stdin", Direction::In));
    assert!(copies("/* a */ COPY t (a) FROM STDIN (format csv)", Direction::In));
    assert!(copies("copy (select 1) to stdout", Direction::Out));
    for text in
        ["copy t from stdin; select 1", "copy t to stdout", "select 1", "", "copy t from '/f'"]
    {
        assert!(!copies(text, Direction::In), "{text}");
    }
    for text in ["copy t from stdin", "copy t to stdout; select 1", "table t", "copy t to '/f'"] {
        assert!(!copies(text, Direction::Out), "{text}");
    }
}

#[test]
fn data_leaves_behind_the_statement_and_nothing_behind_its_end() {
    let mut engine = connection(Limits::default());
    submit(&mut engine, COPY, Direction::In.expect(), Feed::Messages);
    assert!(copy::feed(&mut engine, NOW, COPY, b"1\n").unwrap());
    // It has the connection to itself: requests behind it wait for its end.
    submit(&mut engine, Token(2), Expect::simple(), Feed::Whole);
    assert_eq!(sent(&mut engine), "Qd");
    assert!(copy::finish(&mut engine, NOW, COPY));
    assert_eq!(sent(&mut engine), "cQ");
    assert!(!copy::feed(&mut engine, NOW, COPY, b"2\n").unwrap());
    assert!(!copy::finish(&mut engine, NOW, COPY));
}

#[test]
fn no_more_data_is_taken_than_may_lie_unwritten() {
    let limits = Limits { fed_bytes_max: 100, ..Limits::default() };
    let mut engine = connection(limits);
    submit(&mut engine, COPY, Direction::In.expect(), Feed::Messages);
    let mut taken = 0;
    while copy::feed(&mut engine, NOW, COPY, &[b'x'; 40]).unwrap() {
        taken += 1;
        assert!(taken < 10);
    }
    assert!(engine.transmit().len() < 100 + 45);
    sent(&mut engine);
    assert!(copy::feed(&mut engine, NOW, COPY, b"x").unwrap());
}

#[test]
fn a_copy_that_is_given_up_says_why_in_a_length_that_the_server_takes() {
    let mut engine = connection(Limits::default());
    let ticket = submit(&mut engine, COPY, Direction::In.expect(), Feed::Messages);
    let reason = format!("no\0 more {}", "é".repeat(5000));
    copy::fail(&mut engine, NOW, COPY, Some(ticket), &reason);
    let bytes = engine.transmit().to_vec();
    let at = 1 + u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize;
    assert_eq!(bytes[at], b'f');
    assert!(bytes[at + 5..].starts_with(b"no more "));
    assert_eq!(bytes.iter().filter(|byte| **byte == 0xc3).count(), 1000 - "no more ".len());
}

#[test]
fn a_copy_that_is_given_up_in_the_queue_is_not_sent() {
    let mut engine = connection(Limits { in_flight_max: 1, ..Limits::default() });
    submit(&mut engine, Token(9), Expect::simple(), Feed::Whole);
    let ticket = submit(&mut engine, COPY, Direction::In.expect(), Feed::Messages);
    assert!(!copy::feed(&mut engine, NOW, COPY, b"1\n").unwrap());
    copy::fail(&mut engine, NOW, COPY, Some(ticket), "no");
    assert_eq!((sent(&mut engine).as_str(), engine.queued()), ("Q", 0));
}

#[test]
fn a_copy_without_the_end_of_its_data_was_rejected_whatever_became_of_the_connection() {
    assert_eq!(copy::outcome(Outcome::Unknown, false), Outcome::Rejected);
    assert_eq!(copy::outcome(Outcome::Unknown, true), Outcome::Unknown);
    for outcome in [Outcome::NotSent, Outcome::Rejected, Outcome::Applied] {
        assert_eq!(copy::outcome(outcome, false), outcome);
    }
}

#[test]
fn a_stream_that_is_left_is_cancelled_but_for_those_of_transactions() {
    let cancels = |rest: Rest, status| {
        let mut engine = connection(Limits::default());
        submit(&mut engine, COPY, Expect::simple(), Feed::Whole);
        sent(&mut engine);
        rest.begin(&mut engine, NOW, COPY, status);
        std::iter::from_fn(|| engine.poll_output()).any(|output| matches!(output, Output::Cancel))
    };
    use TransactionStatus::{Failed, Idle, InTransaction};
    assert!(cancels(Rest::Cancel, Idle) && cancels(Rest::CANCEL_OR_CLOSE, Idle));
    assert!(!cancels(Rest::Read, Idle) && !cancels(Rest::CLOSE, Idle));
    assert!(!cancels(Rest::Cancel, InTransaction) && !cancels(Rest::CANCEL_OR_CLOSE, Failed));
}

#[test]
fn what_is_long_behind_a_stream_that_was_left_ends_a_connection_that_nobody_misses() {
    for mut rest in [Rest::Close(100), Rest::CancelOrClose(100)] {
        assert_eq!([60, 39, 1].map(|bytes| rest.came(bytes)), [false, false, true]);
    }
    for mut kept in [Rest::Read, Rest::Cancel] {
        assert!(!kept.came(usize::MAX));
    }
}
