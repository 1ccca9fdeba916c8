//! The steady state: requests that were all sent, and any answer of a server. What a caller gets
//! must not depend on where the stream was cut.

use std::collections::BTreeMap;

use bytes::BytesMut;
use onetrip_engine::{
    Cause, Connection, End, Failure, Limits, Output, Request, SyncPoint, Time, Token,
};
use onetrip_postgres::message::TransactionStatus;
use onetrip_postgres::{Expect, Postgres};

use crate::input::{Input, cut, show_debug};

/// The outputs for each request, and those for none.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    replies: BTreeMap<u64, (Vec<u8>, Option<End>)>,
    events: usize,
    closed: Vec<String>,
}

impl Told {
    /// If the connection ends within a reply, how much of the reply was handed over depends on
    /// where the stream was cut. So that part is not compared.
    fn forget_what_broke_off(&mut self) {
        for (bytes, end) in self.replies.values_mut() {
            if matches!(end, Some(End::Failed(Failure { cause: Cause::Closed, .. }))) {
                bytes.clear();
            }
        }
    }
}

/// A byte with the plan of the cuts, a piece with a byte for each request, then what the server
/// sends.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let plan = input.u8();
    let (requests, stream) = (input.piece(), input.rest());
    let told = tell(requests, plan, stream);
    if plan != 0 {
        assert_eq!(told, tell(requests, 0, stream));
    }
}

fn tell(requests: &[u8], plan: u8, stream: &[u8]) -> Told {
    let protocol = Postgres::new(TransactionStatus::Idle);
    let mut connection = Connection::new(Time::ZERO, protocol, Limits::default());
    submit(&mut connection, requests);
    let written = connection.transmit().len();
    connection.handle_written(Time::ZERO, written);
    let (mut told, mut buffer) = (Told::default(), BytesMut::new());
    for chunk in cut(plan, stream) {
        buffer.extend_from_slice(chunk);
        connection.handle_bytes(Time::ZERO, &mut buffer);
        note(&mut connection, &mut told);
    }
    connection.handle_closed();
    note(&mut connection, &mut told);
    told.forget_what_broke_off();
    let accepted = requests.len() as u64 + 1;
    for token in 0..accepted {
        let end = told.replies.get(&token).and_then(|(_, end)| *end);
        assert!(end.is_some(), "{token} has no end: {told:?}");
    }
    told
}

fn submit(connection: &mut Connection<Postgres>, requests: &[u8]) {
    for (token, &kind) in requests.iter().enumerate() {
        let mut request = Request::isolated(Token(token as u64), expect(kind));
        if kind & 0x80 != 0 {
            request.sync = SyncPoint::Member;
        }
        put(connection, request);
    }
    // A segment that is still open ends here.
    let last = Request::isolated(Token(requests.len() as u64), Expect::sync());
    put(connection, Request { sync: SyncPoint::Only, ..last });
}

fn put(connection: &mut Connection<Postgres>, request: Request<Expect>) {
    let ticket = connection.submit(Time::ZERO, request, |out| {
        out.extend_from_slice(b"x");
        Ok::<(), ()>(())
    });
    ticket.expect("the window has room");
}

pub(super) fn expect(kind: u8) -> Expect {
    let member = kind & 0x80 != 0;
    let expect = match kind & 7 {
        0 if !member => Expect::simple(),
        1 => Expect::sync().parse().bind().describe_portal().execute(),
        2 => Expect::sync().parse().describe_statement(),
        3 => Expect::sync().close().parse().describe_statement().bind().execute(),
        4 => Expect::sync().close(),
        5 => Expect::sync().bind().execute().partial_effects(),
        6 => Expect::sync().parse().bind().execute().transaction_local(),
        _ => Expect::sync().bind().execute(),
    };
    show_debug(expect);
    expect
}

fn note(connection: &mut Connection<Postgres>, told: &mut Told) {
    while let Some(output) = connection.poll_output() {
        show_debug(&output);
        match output {
            Output::Data { token, block } | Output::Piece { token, block, .. } => {
                part(told, token, &block, None)
            }
            Output::Ended { token, block, end, .. } => part(told, token, &block, Some(end)),
            Output::Event { .. } => told.events += 1,
            Output::Closed(reason) => told.closed.push(format!("{reason:?}")),
            Output::Granted { .. } | Output::Room { .. } => panic!("no request asked for it"),
            Output::Restarted { .. }
            | Output::Cancel
            | Output::NotCancelled { .. }
            | Output::Astray => panic!("no request was cancelled"),
            Output::Leaving => panic!("nothing was wanted of the server"),
            Output::Full | Output::Drained => {}
        }
    }
    assert!(told.closed.len() <= 1);
}

fn part(told: &mut Told, token: Token, block: &[u8], end: Option<End>) {
    let (bytes, ended) = told.replies.entry(token.0).or_default();
    assert_eq!(*ended, None, "{token:?} had ended");
    bytes.extend_from_slice(block);
    *ended = end;
}
