//! Commands that were all sent, and any answer of a server. Each command ends once, and what its
//! caller gets must not depend on where the stream was cut.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BytesMut;
use onetrip_engine::{
    Cause, CloseReason, Connection, End, Failure, Limits, Output, Request, Time, Token,
};
use onetrip_redis::scan::ScanLimits;
use onetrip_redis::{Expect, Redis};

use crate::input::{Input, cut, show_debug};

/// The outputs for each request, and those for none.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    replies: BTreeMap<u64, (Vec<u8>, Option<End>)>,
    events: Vec<Vec<u8>>,
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

/// A byte with the plan of the cuts, one with the kind of connection, a piece with a byte for each
/// request, then what the server sends.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (plan, subscriber) = (input.u8(), input.flag());
    let (requests, stream) = (input.piece(), input.rest());
    let told = tell(requests, subscriber, plan, stream);
    if plan != 0 {
        assert_eq!(told, tell(requests, subscriber, 0, stream));
    }
}

fn tell(requests: &[u8], subscriber: bool, plan: u8, stream: &[u8]) -> Told {
    let limits = ScanLimits::default();
    let protocol = if subscriber { Redis::subscriber(limits) } else { Redis::new(limits) };
    let mut connection = Connection::new(Time::ZERO, protocol, Limits::default());
    for (token, &kind) in requests.iter().enumerate() {
        submit(&mut connection, token as u64, kind);
    }
    write(&mut connection);
    let (mut told, mut buffer) = (Told::default(), BytesMut::new());
    for chunk in cut(plan, stream) {
        buffer.extend_from_slice(chunk);
        connection.handle_bytes(Time::ZERO, &mut buffer);
        note(&mut connection, &mut told);
    }
    connection.handle_closed();
    note(&mut connection, &mut told);
    told.forget_what_broke_off();
    for token in 0..requests.len() as u64 {
        let end = told.replies.get(&token).and_then(|(_, end)| *end);
        assert!(end.is_some(), "{token} has no end: {told:?}");
    }
    told
}

fn submit(connection: &mut Connection<Redis>, token: u64, kind: u8) {
    let request = Request::isolated(Token(token), expect(kind));
    let ticket = connection.submit(Time::ZERO, request, |out| {
        out.extend_from_slice(b"x");
        Ok::<(), ()>(())
    });
    ticket.expect("the window has room");
}

fn write(connection: &mut Connection<Redis>) {
    let written = connection.transmit().len();
    connection.handle_written(Time::ZERO, written);
}

fn expect(kind: u8) -> Expect {
    let count = u32::from(kind >> 4);
    let expect = match kind & 7 {
        0 => Expect::replies(count),
        1 => Expect::confirmations(count),
        5 => Expect::confirmations(count).of(b"SSUBSCRIBE"),
        2 => Expect::reply().leaving(),
        3 => Expect::reply().script(Arc::from(&b"return 1"[..])),
        4 => Expect::atomic(count).behind_asking(),
        6 => Expect::atomic(count),
        _ => Expect::reply(),
    };
    show_debug(&expect);
    expect
}

fn note(connection: &mut Connection<Redis>, told: &mut Told) {
    while let Some(output) = connection.poll_output() {
        show_debug(&output);
        match output {
            Output::Data { token, block } => part(told, token, &block, None),
            Output::Ended { token, block, end, .. } => part(told, token, &block, Some(end)),
            Output::Event { block, .. } => told.events.push(block.to_vec()),
            // Which violation an unasked reply shows first depends on where the stream was cut.
            Output::Closed(CloseReason::Violation(_)) => told.closed.push("violation".to_owned()),
            Output::Closed(reason) => told.closed.push(format!("{reason:?}")),
            Output::Full | Output::Drained => {}
            _ => panic!("an output that no request asked for"),
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
