//! How a connection ends: by a goodbye, a fatal error, a violation, or its host.

use crate::toy::pair::{Out, Pair, completed, ends, failure, limits};
use crate::toy::{self, Toy, complete, failed, fatal, message, part, settled};
use bytes::{Bytes, BytesMut};
use onetrip_engine::{
    Cause, CloseReason, End, Limits, Outcome, Protocol, Request, SubmitError, SyncPoint, Time,
    Token, Violation,
};

const CLOSED: Out = Out::Closed(CloseReason::Host);

fn violation(outs: &[Out]) -> &'static str {
    match outs.first() {
        Some(Out::Closed(CloseReason::Violation(Violation(how)))) => how,
        other => panic!("no violation: {other:?}"),
    }
}

#[test]
fn terminate_says_goodbye_after_the_last_reply() {
    let mut pair = Pair::new(limits(1));
    pair.owns(0..3);
    pair.client.terminate(pair.now);
    assert_eq!(pair.refused(3), SubmitError::Closed);
    let outs = ends(pair.run());
    assert_eq!(completed(&outs[..3]), [0, 1, 2]);
    assert_eq!(outs[3..], [CLOSED]);
    assert!(pair.server.terminated && pair.client.is_closed());
}

#[test]
fn the_goodbye_of_an_idle_connection_is_said_at_once() {
    let mut pair = Pair::new(Limits::default());
    pair.client.terminate(pair.now);
    assert_eq!(pair.take(), [CLOSED]);
    assert_eq!(pair.client.transmit(), Toy::TERMINATE);
    pair.write_some(3);
    assert_eq!(pair.client.transmit(), &Toy::TERMINATE[3..]);
    pair.write();
    pair.client.handle_closed();
    assert_eq!(pair.take(), [], "closed is announced once");
}

#[test]
fn the_goodbye_waits_for_a_caller_that_waits() {
    let mut pair = Pair::new(Limits { queue_max: 0, ..limits(1) });
    pair.own(0, "o");
    pair.client.wait(Token(1), Time::NEVER).unwrap();
    pair.client.terminate(pair.now);
    assert_eq!(pair.client.wait(Token(2), Time::NEVER), None);
    assert_eq!(pair.client.open_group(pair.now, Token(3)), None);
    assert!(ends(pair.run()).contains(&Out::Room(1)));
    assert!(!pair.client.is_closed(), "it is still its turn");
    let request = Request { reserved: true, ..pair.request(1, SyncPoint::Own) };
    pair.submit(request, "o").unwrap();
    pair.client.end_turn(pair.now);
    let outs = ends(pair.run());
    assert_eq!(outs, [Out::Ended(1, End::Complete), CLOSED]);
}

#[test]
fn the_goodbye_waits_for_the_group_that_holds_the_floor() {
    let mut pair = Pair::new(Limits::default());
    let group = pair.group(100);
    let next = pair.client.open_group(pair.now, Token(101)).unwrap();
    pair.client.terminate(pair.now);
    pair.in_group(group, 1, SyncPoint::Own, "o");
    assert_eq!(completed(&pair.run()), [1]);
    pair.client.close_group(pair.now, group);
    assert_eq!(pair.take(), [Out::Granted(101)]);
    pair.client.close_group(pair.now, next);
    assert_eq!(pair.take(), [CLOSED]);
}

#[test]
fn the_goodbye_waits_for_what_is_sent_again() {
    let mut pair = Pair::new(Limits::default());
    pair.again(1, "n");
    pair.client.terminate(pair.now);
    assert_eq!(pair.run(), [Out::Ended(1, End::Complete), CLOSED]);
}

#[test]
fn a_fatal_message_ends_an_idle_connection() {
    let mut pair = Pair::new(Limits::default());
    pair.reply(&fatal());
    assert_eq!(pair.take(), [Out::Closed(CloseReason::Server(Bytes::from(fatal())))]);
}

/// P12.
#[test]
fn a_fatal_message_takes_what_is_on_its_way_along_as_unknown() {
    let mut pair = Pair::new(limits(2));
    pair.owns(1..4);
    pair.take();
    pair.write();
    pair.reply(&[part(1), fatal(), settled(1)].concat());
    let reason = CloseReason::Server(Bytes::from(fatal()));
    let unknown = failure(Outcome::Unknown, Cause::Closed);
    let expected = [
        Out::Closed(reason),
        Out::Ended(1, unknown),
        Out::Ended(2, unknown),
        Out::Ended(3, failure(Outcome::NotSent, Cause::Closed)),
    ];
    assert_eq!(pair.take(), expected);
    assert_eq!(pair.replies[&1], part(1));
}

#[test]
fn a_message_that_the_state_cannot_explain_closes_the_connection() {
    let hostile: [(&str, Vec<u8>); 7] = [
        ("another request's reply", complete(2)),
        ("an unknown message", message(b'?', 1, b"")),
        (
            "a reply that answers nothing",
            [complete(1), settled(1), complete(2), settled(2), part(3)].concat(),
        ),
        (
            "a second error for one request",
            [failed(1, Outcome::Rejected, false), failed(1, Outcome::Rejected, false)].concat(),
        ),
        ("another request's reply", settled(2)),
        ("another request's reply", [complete(1), settled(1), settled(1)].concat()),
        ("another request's reply", part(u32::MAX)),
    ];
    for (how, bytes) in hostile {
        for chunk in [usize::MAX, 1] {
            let mut pair = Pair::new(Limits::default());
            pair.chunk = chunk;
            pair.owns(1..3);
            pair.lose();
            pair.reply(&bytes);
            let outs = pair.take();
            let ended = outs.iter().filter(|out| matches!(out, Out::Ended(..))).count();
            assert_eq!(ended, 2, "{how}: {outs:?}");
            let closed: Vec<Out> =
                outs.into_iter().filter(|out| matches!(out, Out::Closed(_))).collect();
            assert_eq!(violation(&closed), how);
        }
    }
}

#[test]
fn a_reply_to_a_request_of_which_nothing_was_written_is_nobodys() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "o");
    pair.reply(&[complete(1), settled(1)].concat());
    let outs = pair.take();
    assert_eq!(violation(&outs), "a reply that answers nothing");
    assert_eq!(outs[1..], [Out::Ended(1, failure(Outcome::NotSent, Cause::Closed))]);
    assert!(pair.replies[&1].is_empty());
}

/// A protocol that matches every byte to a request, whether there is one or not.
struct Careless;

impl Protocol for Careless {
    type Expect = ();
    type Event = ();
    const SYNC: &'static [u8] = b"";
    const FLUSH: &'static [u8] = b"";
    const TERMINATE: &'static [u8] = b"";

    fn step(
        &mut self,
        input: &[u8],
        _: Option<&mut ()>,
    ) -> Result<onetrip_engine::Step<()>, Violation> {
        use onetrip_engine::Step;
        Ok(match input.first() {
            None => Step::Need(1),
            Some(b'p') => Step::Part(1),
            Some(b'c') => Step::Complete(1),
            Some(b's') => Step::Settled(1),
            Some(_) => Step::Failed {
                len: 1,
                outcome: Outcome::Rejected,
                never_started: false,
                cancelled: false,
            },
        })
    }

    fn skip(&mut self, _: &mut ()) {}

    fn heal(&mut self, _: &mut (), _: &mut BytesMut) {}

    fn restart(&mut self, _: &mut ()) {}
}

#[test]
fn whatever_the_protocol_makes_of_it_a_reply_to_nobody_closes_the_connection() {
    for bytes in ["p", "c", "s", "e"] {
        let limits = Limits::default();
        let mut client = onetrip_engine::Connection::new(Time::ZERO, Careless, limits);
        client.handle_bytes(Time::ZERO, &mut BytesMut::from(bytes));
        assert!(client.is_closed(), "{bytes}");
    }
}

#[test]
fn a_sync_point_answered_before_a_member_closes_the_connection() {
    let mut client = onetrip_engine::Connection::new(Time::ZERO, Careless, Limits::default());
    let request = Request { sync: SyncPoint::Member, ..Request::isolated(Token(1), ()) };
    let encode = |out: &mut BytesMut| {
        out.extend_from_slice(b"x");
        Ok::<(), ()>(())
    };
    client.submit(Time::ZERO, request, encode).unwrap();
    client.handle_written(Time::ZERO, 1);
    client.handle_bytes(Time::ZERO, &mut BytesMut::from("s"));
    assert!(client.is_closed());
}

#[test]
fn what_comes_after_the_end_is_dropped() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "o");
    pair.write();
    pair.client.handle_closed();
    pair.take();
    let mut input = BytesMut::from(&[complete(1), settled(1)].concat()[..]);
    pair.client.handle_bytes(pair.now, &mut input);
    assert!(input.is_empty());
    assert_eq!(pair.take(), []);
    assert_eq!(pair.refused(2), SubmitError::Closed);
}

#[test]
fn every_call_is_harmless_after_the_end() {
    let mut pair = Pair::new(limits(1));
    let group = pair.group(100);
    pair.in_group(group, 1, SyncPoint::Member, "o");
    let queued = pair.own(2, "o");
    let waiting = pair.client.wait(Token(3), Time::NEVER).unwrap();
    let unwritten = pair.client.transmit().len();
    pair.client.handle_closed();
    pair.take();
    pair.client.handle_written(pair.now, unwritten);
    pair.client.handle_consumed(pair.now, group, 10);
    pair.client.flush(pair.now, group);
    pair.client.close_group(pair.now, group);
    pair.client.end_turn(pair.now);
    pair.client.terminate(pair.now);
    pair.client.handle_closed();
    pair.later(toy::pair::seconds(1000));
    assert!(!pair.client.cancel(pair.now, queued));
    assert!(!pair.client.cancel(pair.now, waiting));
    let request = Request { group: Some(group), ..pair.request(4, SyncPoint::Own) };
    assert_eq!(pair.submit(request, "o"), Err(SubmitError::Closed));
    assert_eq!(pair.client.wait(Token(5), Time::NEVER), None);
    assert_eq!(pair.client.open_group(pair.now, Token(6)), None);
    assert!(!pair.client.has_room(0, 0) && !pair.client.group_has_room());
    assert!(pair.client.transmit().is_empty());
    assert_eq!(pair.client.poll_deadline(), None);
    assert_eq!(pair.take(), []);
}

#[test]
#[should_panic(expected = "more bytes than there were")]
fn reporting_more_than_there_was_is_a_mistake_of_the_host() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "o");
    let len = pair.client.transmit().len();
    pair.client.handle_written(pair.now, len + 1);
}
