//! The question for the position of what was written: when it is asked, and what its answer covers.

use bytes::{BufMut, BytesMut};
use onetrip_engine::{Connection, Limits, Request, Time, Token};
use onetrip_postgres::client::position::Position;
use onetrip_postgres::message::{TransactionStatus, bind, execute, parse};
use onetrip_postgres::{Expect, Postgres};

const NOW: Time = Time::ZERO;

/// A connection that is asked for positions, and what it has written.
struct Pair {
    engine: Connection<Postgres>,
    written: Vec<u8>,
}

impl Pair {
    fn new(own: fn(&mut Postgres)) -> Pair {
        let mut protocol = Postgres::new(TransactionStatus::Idle);
        protocol.watch_positions();
        own(&mut protocol);
        Pair { engine: Connection::new(NOW, protocol, Limits::default()), written: Vec::new() }
    }

    fn run(&mut self, expect: Expect) {
        let statement = |out: &mut BytesMut| -> Result<(), std::convert::Infallible> {
            let _ = parse::write(out, "", "insert", &[]);
            let none = |_: usize, _: &mut BytesMut| Ok(bind::IsNull::Yes);
            let _: Result<(), onetrip_postgres::message::EncodeError> = bind::write(
                out,
                "",
                "",
                onetrip_postgres::message::Formats::AllText,
                0,
                none,
                onetrip_postgres::message::Formats::AllText,
            );
            out.extend_from_slice(&execute::UNNAMED_ALL);
            out.extend_from_slice(b"S\0\0\0\x04");
            Ok(())
        };
        let request = Request::isolated(Token(1), expect.parse().bind().execute());
        self.engine.submit(NOW, request, statement).unwrap();
    }

    /// Writes what there is, as a host does. Returns how many questions are in it.
    fn write(&mut self) -> usize {
        self.engine.end_flight(NOW);
        let bytes = self.engine.transmit().to_vec();
        self.engine.handle_written(NOW, bytes.len());
        let questions = |bytes: &[u8]| {
            bytes
                .windows(26)
                .filter(|it| *it == b"pg_current_wal_insert_lsn()".split_at(26).0)
                .count()
        };
        self.written.extend_from_slice(&bytes);
        questions(&bytes)
    }

    fn read(&mut self, bytes: &[u8]) {
        let mut input = BytesMut::from(bytes);
        self.engine.handle_bytes(NOW, &mut input);
        assert!(input.is_empty(), "{input:?} was not read");
        while self.engine.poll_output().is_some() {}
    }

    fn answered(&mut self, status: u8) {
        self.read(
            &[&b"1\0\0\0\x042\0\0\0\x04C\0\0\0\x0fINSERT 0 1\0Z\0\0\0\x05"[..], &[status]].concat(),
        );
    }

    /// The answer to the question, which was not prepared.
    fn told(&mut self, lsn: &str) {
        self.read(b"1\0\0\0\x042\0\0\0\x04");
        let row = row(&[Some("7"), Some("1"), Some(lsn)]);
        self.read(&row);
        self.read(b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I");
    }

    fn refused(&mut self) {
        self.read(b"E\0\0\0\x1eSERROR\0VERROR\0C57014\0Mno\0\0Z\0\0\0\x05I");
    }

    fn is_uncertain(&self) -> bool {
        self.engine.protocol().is_uncertain()
    }

    fn position(&mut self) -> Option<u64> {
        self.engine.protocol_mut().take_position().map(|(position, _)| position.lsn)
    }
}

fn row(values: &[Option<&str>]) -> BytesMut {
    let mut body = BytesMut::new();
    body.put_u16(values.len() as u16);
    for value in values {
        match value {
            Some(value) => {
                body.put_u32(value.len() as u32);
                body.put_slice(value.as_bytes());
            }
            None => body.put_i32(-1),
        }
    }
    let mut out = BytesMut::from(&b"D"[..]);
    out.put_u32(body.len() as u32 + 4);
    out.extend_from_slice(&body);
    out
}

#[test]
fn a_flight_of_writes_carries_one_question_behind_the_last() {
    let mut pair = Pair::new(Postgres::share);
    pair.run(Expect::sync());
    pair.run(Expect::sync());
    assert_eq!(pair.write(), 1);
    assert_eq!(pair.write(), 0, "it is asked once");
    assert!(!pair.is_uncertain(), "nothing was acknowledged");
    pair.answered(b'I');
    pair.answered(b'I');
    assert!(pair.is_uncertain());
    pair.told("0/A0");
    assert!(!pair.is_uncertain());
    assert_eq!(pair.position(), Some(0xA0));
}

#[test]
fn a_write_behind_a_question_is_uncertain_until_its_own() {
    let mut pair = Pair::new(Postgres::share);
    pair.run(Expect::sync());
    pair.write();
    pair.run(Expect::sync());
    assert_eq!(pair.write(), 1);
    pair.answered(b'I');
    pair.told("0/A0");
    assert!(!pair.is_uncertain());
    pair.answered(b'I');
    assert!(pair.is_uncertain());
    pair.told("0/B0");
    assert!(!pair.is_uncertain());
    assert_eq!(pair.position(), Some(0xB0));
}

#[test]
fn what_can_write_nothing_is_not_asked_about() {
    let mut pair = Pair::new(Postgres::share);
    pair.run(Expect::sync().leaves_nothing());
    assert_eq!(pair.write(), 0);
    pair.answered(b'I');
    assert!(!pair.is_uncertain());
}

#[test]
fn nothing_is_asked_inside_a_transaction() {
    let mut pair = Pair::new(Postgres::lend);
    pair.run(Expect::sync());
    assert_eq!(pair.write(), 0, "the statement may have begun a transaction");
    pair.answered(b'T');
    assert_eq!(pair.write(), 0);
    assert!(!pair.is_uncertain(), "nothing is committed");
    pair.run(Expect::sync().commits());
    assert_eq!(pair.write(), 1, "behind a COMMIT none is open");
    pair.answered(b'I');
    assert!(pair.is_uncertain());
    pair.told("0/A0");
    assert!(!pair.is_uncertain());
}

#[test]
fn a_session_is_asked_once_it_is_at_rest() {
    let mut pair = Pair::new(Postgres::lend);
    pair.run(Expect::sync());
    pair.run(Expect::sync());
    assert_eq!(pair.write(), 0);
    pair.answered(b'I');
    assert_eq!(pair.write(), 0, "the second may have begun a transaction");
    assert!(pair.is_uncertain());
    pair.answered(b'I');
    assert_eq!(pair.write(), 1);
    pair.told("0/A0");
    assert!(!pair.is_uncertain());
}

#[test]
fn a_question_that_fails_is_asked_again_a_few_times() {
    let mut pair = Pair::new(Postgres::share);
    pair.run(Expect::sync());
    assert_eq!(pair.write(), 1);
    pair.answered(b'I');
    for again in [1, 1, 0] {
        pair.refused();
        assert!(pair.is_uncertain());
        assert_eq!(pair.write(), again);
    }
    assert_eq!(pair.position(), None);
}

/// A standby's answer to the question: it has no position.
fn standby(pair: &mut Pair) {
    pair.read(b"1\0\0\0\x042\0\0\0\x04");
    pair.read(&row(&[Some("7"), None, None]));
    pair.read(b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I");
}

#[test]
fn a_standby_has_no_position_and_no_doubt() {
    let mut pair = Pair::new(|protocol| {
        protocol.identify(5, 1);
        protocol.share();
    });
    pair.run(Expect::sync());
    pair.run(Expect::sync());
    pair.write();
    pair.answered(b'I');
    // The probe in front of the second: the server itself has answered.
    pair.read(b"1\0\0\0\x042\0\0\0\x04");
    pair.read(&row(&[Some("5"), Some("t")]));
    pair.read(b"C\0\0\0\x0dSELECT 1\x003\0\0\0\x04Z\0\0\0\x05I");
    pair.answered(b'I');
    standby(&mut pair);
    assert!(!pair.is_uncertain());
    assert_eq!(pair.position(), None);
}

/// The pooler may have sent the write to the primary, and the question, which only reads, to a
/// standby.
#[test]
fn a_standby_behind_a_pooler_leaves_the_doubt() {
    let mut pair = Pair::new(Postgres::share);
    pair.run(Expect::sync());
    pair.write();
    pair.answered(b'I');
    standby(&mut pair);
    assert!(pair.is_uncertain());
    assert_eq!(pair.write(), 1, "it is asked again");
    pair.told("0/A0");
    assert_eq!((pair.is_uncertain(), pair.position()), (false, Some(0xA0)));
}

#[test]
fn the_answer_carries_the_mark_of_its_question() {
    let mut pair = Pair::new(Postgres::share);
    pair.run(Expect::sync());
    pair.write();
    pair.engine.protocol_mut().mark_positions(9);
    pair.answered(b'I');
    pair.told("1/A0");
    let position = Position { system: 7, timeline: 1, lsn: 1 << 32 | 0xA0 };
    assert_eq!(pair.engine.protocol_mut().take_position(), Some((position, 0)));
}
