//! Requests that share a sync point, and a server that answers before it comes.

use bytes::{Bytes, BytesMut};
use onetrip_engine::{
    CancelEnd, Cause, Connection, End, Failure, Limits, Outcome, Output, Request, Time, Token,
    Wanted,
};
use onetrip_postgres::message::{SYNC, TransactionStatus};
use onetrip_postgres::{Event, Expect, Postgres};

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn error(code: &str) -> Vec<u8> {
    let fields = format!("SERROR\0VERROR\0C{code}\0Mno\0\0");
    message(b'E', fields.as_bytes())
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

/// A server's answer to the messages that prepare a statement anew.
fn healed() -> Vec<u8> {
    let parts =
        [message(b'3', b""), message(b'1', b""), message(b't', &[0, 0]), message(b'n', b"")];
    parts.concat()
}

fn used() -> Vec<u8> {
    [message(b'2', b""), message(b'C', b"SELECT 0\0")].concat()
}

fn connection() -> Connection<Postgres> {
    let postgres = Postgres::new(TransactionStatus::Idle);
    Connection::new(Time::ZERO, postgres, Limits::default())
}

trait Host {
    fn put(&mut self, request: Request<Expect>, text: &str);
    fn write(&mut self, most: usize);
    fn read(&mut self, bytes: &[u8]);
    fn ends(&mut self) -> Vec<(u64, End)>;
}

impl Host for Connection<Postgres> {
    fn put(&mut self, request: Request<Expect>, text: &str) {
        let ticket = self.submit(Time::ZERO, request, |out| {
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(&SYNC);
            Ok::<(), ()>(())
        });
        ticket.unwrap();
    }

    fn write(&mut self, most: usize) {
        let len = most.min(self.transmit().len());
        self.handle_written(Time::ZERO, len);
    }

    fn read(&mut self, bytes: &[u8]) {
        self.handle_bytes(Time::ZERO, &mut BytesMut::from(bytes));
    }

    fn ends(&mut self) -> Vec<(u64, End)> {
        let outputs = std::iter::from_fn(|| self.poll_output());
        let end = |output: Output<Event>| match output {
            Output::Ended { token, end, .. } => Some((token.0, end)),
            _ => None,
        };
        outputs.filter_map(end).collect()
    }
}

fn joining(id: u64) -> Request<Expect> {
    let expect = Expect::sync().parse().bind().execute();
    Request { joins: true, ..Request::isolated(Token(id), expect) }
}

const REFUSED: End = End::Failed(Failure { outcome: Outcome::Rejected, cause: Cause::Server });

/// PostgreSQL sends an error at once, possibly while the rest of the request is still unwritten.
#[test]
fn nobody_joins_a_request_that_has_failed_early() {
    let mut connection = connection();
    connection.put(joining(1), "PARSE BIND EXECUTE");
    connection.write(6);
    connection.read(&error("42601"));
    connection.put(joining(2), "PARSE BIND EXECUTE");
    connection.write(usize::MAX);
    connection.read(&ready());
    connection.read(&[message(b'1', b""), used(), ready()].concat());
    assert_eq!(connection.ends(), [(1, REFUSED), (2, End::Complete)]);
}

/// A server answers before the sync point: a request behind it does not become part of the one in
/// front.
#[test]
fn nobody_joins_a_request_that_was_answered_early() {
    let mut connection = connection();
    connection.put(joining(1), "PARSE BIND EXECUTE");
    let len = connection.transmit().len();
    connection.write(len - SYNC.len());
    connection.read(&[message(b'1', b""), used()].concat());
    connection.put(joining(2), "PARSE BIND EXECUTE");
    connection.write(usize::MAX);
    connection.read(&[ready(), error("42601"), ready()].concat());
    assert_eq!(connection.ends(), [(1, End::Complete), (2, REFUSED)]);
}

#[test]
fn one_that_was_healed_and_is_hit_by_anothers_cancel_is_healed_once() {
    let mut connection = connection();
    let id = connection.protocol_mut().register(Bytes::from_static(b"HEAL "));
    let named = Expect::sync().bind().execute().of_statement(id);
    let named = Request { again: true, resend: true, ..Request::isolated(Token(1), named) };
    connection.put(named, "USE");
    connection.write(usize::MAX);
    let victim = Request { resend: true, ..Request::isolated(Token(2), Expect::simple()) };
    connection.put(victim, "QUERY");
    connection.write(usize::MAX);
    connection.read(&[error("26000"), ready()].concat());
    connection.write(usize::MAX);
    assert!(matches!(connection.want_cancel(Time::ZERO, Token(2)), Wanted::Noted(_)));
    assert!(connection.begin_cancel(Time::ZERO));
    // The victim ended before the cancel arrived.
    connection.read(&[message(b'C', b"SELECT 0\0"), ready()].concat());
    connection.read(&[healed(), error("57014"), ready()].concat());
    connection.handle_cancel_end(Time::ZERO, CancelEnd::Closed);
    assert_eq!(connection.transmit(), [b"HEAL USE", &SYNC[..]].concat());
    connection.write(usize::MAX);
    connection.read(&[healed(), used(), ready()].concat());
    assert_eq!(connection.ends(), [(2, End::Complete), (1, End::Complete)]);
}
