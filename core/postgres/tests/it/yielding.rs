//! A statement that was taken away from those behind it and comes again, in PostgreSQL's messages.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use onetrip_engine::{CancelEnd, Connection, End, Limits, Output, Protocol, Request, Time, Token};
use onetrip_postgres::message::{Close, SYNC, Target, TransactionStatus, parse};
use onetrip_postgres::session::StatementId;
use onetrip_postgres::{Event, Expect, Postgres};

const PARSED: &[u8] = b"1\0\0\0\x04";
const BOUND: &[u8] = b"2\0\0\0\x04";
const CLOSED: &[u8] = b"3\0\0\0\x04";
const UPDATED: &[u8] = b"C\0\0\0\x0dUPDATE 1\0";
const READY: &[u8] = b"Z\0\0\0\x05I";
const CANCELLED: &[u8] = b"E\0\0\0\x20SERROR\0VERROR\0C57014\0Mstop\0\0";
/// The answer of process 1 to the probe: it knows the statement by its given name.
const ITSELF: &[u8] = b"1\0\0\0\x042\0\0\0\x04D\0\0\0\x15\0\x03\0\0\0\x011\0\0\0\x01t\0\0\0\x01f\
    C\0\0\0\x0dSELECT 1\x003\0\0\0\x04Z\0\0\0\x05I";
const AFTER: Duration = Duration::from_millis(500);

fn close(name: &str) -> Vec<u8> {
    let mut out = BytesMut::new();
    Close { target: Target::Statement(name) }.encode(&mut out).unwrap();
    out.to_vec()
}

fn parse_of(name: &str) -> Vec<u8> {
    let mut out = BytesMut::new();
    parse::write(&mut out, name, "update t set a = 1", &[]).unwrap();
    out.to_vec()
}

/// A host whose connection knows how to prepare the statement `s`.
fn host() -> (Host, StatementId) {
    let mut postgres = Postgres::new(TransactionStatus::Idle);
    let id =
        postgres.register(Bytes::from([close("s"), parse_of("s"), b"DESCRIBE".to_vec()].concat()));
    let limits = Limits { yield_after: AFTER, ..Limits::default() };
    (Host { engine: Connection::new(Time::ZERO, postgres, limits), now: Time::ZERO }, id)
}

struct Host {
    engine: Connection<Postgres>,
    now: Time,
}

impl Host {
    fn put(&mut self, id: u64, expect: Expect, bytes: &[u8]) {
        let request = Request { resend: true, ..Request::isolated(Token(id), expect) };
        let ticket = self.engine.submit(self.now, request, |out| {
            out.extend_from_slice(bytes);
            out.extend_from_slice(&SYNC);
            Ok::<(), ()>(())
        });
        ticket.unwrap();
    }

    fn write(&mut self) -> Vec<u8> {
        let bytes = self.engine.transmit().to_vec();
        self.engine.handle_written(self.now, bytes.len());
        bytes
    }

    fn read(&mut self, parts: &[&[u8]]) {
        self.engine.handle_bytes(self.now, &mut BytesMut::from(&parts.concat()[..]));
    }

    fn due(&mut self) {
        self.now = self.engine.poll_deadline().unwrap();
        self.engine.handle_time(self.now);
    }

    /// Takes the head away from one behind it, which is answered, and lets the pause pass.
    fn yields(&mut self, reply: &[&[u8]]) {
        self.put(2, Expect::simple(), b"QUERY");
        self.write();
        self.due();
        assert!(self.engine.begin_cancel(self.now));
        self.engine.handle_cancel_end(self.now, CancelEnd::Closed);
        self.read(&[&reply.concat(), CANCELLED, READY, UPDATED, READY]);
        self.due();
    }

    fn ends(&mut self) -> Vec<(u64, End)> {
        let outputs = std::iter::from_fn(|| self.engine.poll_output());
        let end = |output: Output<Event>| match output {
            Output::Ended { token, end, .. } => Some((token.0, end)),
            _ => None,
        };
        outputs.filter_map(end).collect()
    }
}

#[test]
fn one_that_prepares_its_statement_comes_again_behind_a_close_of_its_name() {
    let (mut host, id) = host();
    let bytes = [parse_of("s"), b"BIND EXECUTE".to_vec()].concat();
    host.put(1, Expect::sync().parse().bind().execute().of_statement(id), &bytes);
    host.yields(&[PARSED, BOUND]);
    let again = [&close("s"), &bytes[..], &SYNC[..]].concat();
    assert_eq!(host.write(), again);
    // The Close is part of it from then on.
    host.yields(&[CLOSED, PARSED, BOUND]);
    assert_eq!(host.write(), again);
    host.read(&[CLOSED, PARSED, BOUND, UPDATED, READY]);
    let ends = [2, 2, 1].map(|id| (id, End::Complete));
    assert_eq!(host.ends(), ends);
    assert!(host.engine.is_open() && host.engine.is_idle());
}

#[test]
fn one_whose_cancel_came_before_its_statement_was_prepared_comes_again_in_the_same_way() {
    let (mut host, id) = host();
    host.put(1, Expect::sync().parse().bind().execute().of_statement(id), &parse_of("s"));
    host.yields(&[]);
    assert_eq!(host.write(), [&close("s"), &parse_of("s"), &SYNC[..]].concat());
    host.read(&[CLOSED, PARSED, BOUND, UPDATED, READY]);
    assert_eq!(host.ends(), [2, 1].map(|id| (id, End::Complete)));
}

#[test]
fn one_that_uses_a_prepared_statement_or_a_nameless_one_comes_again_as_it_was() {
    let (mut host, id) = host();
    host.put(1, Expect::sync().bind().execute().of_statement(id), b"BIND EXECUTE");
    host.yields(&[BOUND]);
    assert_eq!(host.write(), [b"BIND EXECUTE", &SYNC[..]].concat());
    host.read(&[BOUND, UPDATED, READY]);
    assert_eq!(host.ends(), [2, 1].map(|id| (id, End::Complete)));

    let (mut host, _) = self::host();
    host.put(1, Expect::sync().parse().bind().execute(), &parse_of(""));
    host.yields(&[PARSED, BOUND]);
    assert_eq!(host.write(), [&parse_of("")[..], &SYNC].concat());
    host.read(&[PARSED, BOUND, UPDATED, READY]);
    assert_eq!(host.ends(), [2, 1].map(|id| (id, End::Complete)));
}

/// The first user after a session sends its statement with a guard in front, for that moment only.
#[test]
fn a_guard_in_front_of_it_does_not_come_again() {
    let (mut host, id) = host();
    host.engine.protocol_mut().identify(1, 2);
    host.engine.protocol_mut().lend();
    // The probe finds the server itself on the other end.
    host.engine.settle_debts(Time::ZERO);
    host.write();
    host.read(&[ITSELF]);
    host.engine.protocol_mut().touch();
    assert!(host.engine.protocol_mut().take_back());
    host.put(1, Expect::sync().bind().execute().of_statement(id), b"BIND EXECUTE");
    let sent = host.write();
    assert!(sent.ends_with(&[b"BIND EXECUTE", &SYNC[..]].concat()) && sent.len() > 40);
    let mut answers = Vec::new();
    let mut at = 0;
    while !sent[at..].starts_with(b"BIND") {
        let len = u32::from_be_bytes(sent[at + 1..at + 5].try_into().unwrap()) as usize;
        answers.push(match sent[at] {
            b'P' => PARSED,
            b'B' => BOUND,
            b'C' => CLOSED,
            b'E' => b"C\0\0\0\x0cDISCARD\0",
            b'D' => b"t\0\0\0\x06\0\0n\0\0\0\x04",
            b'S' => READY,
            other => panic!("{other}"),
        });
        at += 1 + len;
    }
    host.read(&answers);
    host.yields(&[BOUND]);
    for _ in 0..2 {
        assert_eq!(host.write(), [b"BIND EXECUTE", &SYNC[..]].concat());
        host.yields(&[BOUND]);
    }
    host.write();
    host.read(&[BOUND, UPDATED, READY]);
    assert_eq!(host.ends(), [2, 2, 2, 1].map(|id| (id, End::Complete)));
}

#[test]
fn what_is_written_in_front_is_no_longer_than_was_said() {
    let (mut host, id) = host();
    let protocol = host.engine.protocol_mut();
    let mut expect = Expect::sync().parse().bind().execute().of_statement(id);
    let (most, mut out) = (protocol.heal_len(&expect), BytesMut::new());
    protocol.renew(&mut expect, &mut out);
    assert!(out[..] == close("s") && out.len() <= most);
    out.clear();
    protocol.restart(&mut expect);
    protocol.renew(&mut expect, &mut out);
    assert!(out.is_empty(), "it has a Close already");
    // A statement that is forgotten has nothing to be cleared.
    protocol.unregister(id);
    let mut expect = Expect::sync().parse().bind().execute().of_statement(id);
    protocol.renew(&mut expect, &mut out);
    assert!(out.is_empty());
}
