//! Requests that are fed while they are in flight.

use crate::toy::pair::{Out, Pair, completed, ends, failure, limits, seconds};
use crate::toy::{failed, put, put_request, settled};
use bytes::BytesMut;
use onetrip_engine::{
    Cause, CloseReason, End, Feed, Limits, Outcome, SyncPoint, Ticket, Token, Violation,
};

/// Submits a request that is fed. Its last feed is its sync point.
fn begin(pair: &mut Pair, id: u32) -> Ticket {
    let request =
        onetrip_engine::Request { feed: Feed::Messages, ..pair.request(id, SyncPoint::Own) };
    let submitted = pair.client.submit(pair.now, request, |out| {
        put_request(out, id, SyncPoint::Member, b"o");
        Ok::<(), ()>(())
    });
    submitted.unwrap()
}

fn feed(pair: &mut Pair, id: u32, write: impl FnOnce(&mut BytesMut)) -> bool {
    let fed = pair.client.feed(pair.now, Token(u64::from(id)), |out| {
        write(out);
        Ok::<(), ()>(())
    });
    fed.unwrap()
}

fn end(pair: &mut Pair, id: u32) {
    assert!(feed(pair, id, |out| put_request(out, id, SyncPoint::Only, b"")));
    pair.client.end_feed(pair.now, Token(u64::from(id)));
}

#[test]
fn nothing_else_is_sent_until_its_end() {
    let mut pair = Pair::new(limits(8));
    pair.own(1, "o");
    assert_eq!(begin(&mut pair, 2), Ticket::Sent);
    assert!(matches!(pair.own(3, "o"), Ticket::Queued(_)));
    assert!(pair.client.open_group(pair.now, Token(50)).is_some());
    assert_eq!(ends(pair.run()), [Out::Ended(1, End::Complete)]);
    assert!(pair.client.is_fed(Token(2)) && !pair.client.is_fed(Token(3)));
    assert_eq!(pair.server.received, [1, 2]);
    end(&mut pair, 2);
    let outs = ends(pair.run());
    assert_eq!(outs[0], Out::Granted(50));
    assert_eq!(completed(&outs[1..]), [2, 3]);
    assert_eq!(pair.server.received, [1, 2, 2, 3]);
    // The request has ended and takes no more.
    assert!(!feed(&mut pair, 2, |_| panic!("nobody asked for this")));
    assert!(!pair.client.can_feed(Token(2)));
}

#[test]
fn it_takes_more_while_few_of_its_bytes_are_unwritten() {
    let mut pair = Pair::new(Limits { fed_bytes_max: 100, ..limits(8) });
    begin(&mut pair, 1);
    let mut fed = 0;
    while pair.client.can_feed(Token(1)) {
        feed(&mut pair, 1, |out| put_request(out, 1, SyncPoint::Member, b"o"));
        fed += 1;
    }
    assert!((100..120).contains(&pair.client.transmit().len()));
    pair.write_some(30);
    assert!(pair.client.can_feed(Token(1)));
    assert!(fed > 5);
}

#[test]
fn an_encoder_that_fails_leaves_nothing() {
    let mut pair = Pair::new(limits(8));
    begin(&mut pair, 1);
    let before = pair.client.transmit().to_vec();
    let fed = pair.client.feed(pair.now, Token(1), |out| {
        out.extend_from_slice(b"half");
        Err("no")
    });
    assert_eq!((fed, pair.client.transmit()), (Err("no"), &before[..]));
    end(&mut pair, 1);
    assert_eq!(completed(&pair.run()), [1]);
}

#[test]
fn an_error_before_its_end_ends_it() {
    let mut pair = Pair::new(limits(8));
    begin(&mut pair, 1);
    pair.own(2, "o");
    pair.lose();
    feed(&mut pair, 1, |out| put(out, b'H', 1, b"late"));
    pair.reply(&[failed(1, Outcome::Rejected, false), settled(1)].concat());
    let rejected = failure(Outcome::Rejected, Cause::Server);
    assert_eq!(ends(pair.take()), [Out::Ended(1, rejected)]);
    assert!(!pair.client.is_fed(Token(1)));
    // All that was fed is still sent, and the requests that waited behind it follow.
    assert_eq!(ends(pair.run()), [Out::Ended(2, End::Complete)]);
    assert_eq!((&pair.server.received[..], pair.server.is_mid_message()), (&[2][..], false));
}

#[test]
fn an_answer_within_a_message_is_a_violation() {
    let mut pair = Pair::new(limits(8));
    let request =
        onetrip_engine::Request { feed: Feed::Message, ..pair.request(1, SyncPoint::Own) };
    let half = |out: &mut BytesMut| {
        put_request(out, 1, SyncPoint::Own, b"ppppo");
        out.truncate(out.len() - 3);
        Ok::<(), ()>(())
    };
    pair.client.submit(pair.now, request, half).unwrap();
    pair.own(2, "o");
    pair.lose();
    pair.reply(&[failed(1, Outcome::Rejected, false), settled(1)].concat());
    let outs = ends(pair.take());
    let Out::Closed(CloseReason::Violation(Violation(why))) = &outs[0] else { panic!("{outs:?}") };
    assert!(why.contains("before its end"), "{why}");
    assert_eq!(outs[1], Out::Ended(1, failure(Outcome::Rejected, Cause::Server)));
    assert_eq!(outs[2], Out::Ended(2, failure(Outcome::NotSent, Cause::Closed)));
}

#[test]
fn a_message_may_be_fed_in_pieces() {
    let mut pair = Pair::new(limits(8));
    let mut whole = BytesMut::new();
    put_request(&mut whole, 1, SyncPoint::Own, b"ppppo");
    let request =
        onetrip_engine::Request { feed: Feed::Message, ..pair.request(1, SyncPoint::Own) };
    let first = |out: &mut BytesMut| {
        out.extend_from_slice(&whole[..1]);
        Ok::<(), ()>(())
    };
    pair.client.submit(pair.now, request, first).unwrap();
    pair.own(2, "o");
    for at in 1..whole.len() {
        assert_eq!(ends(pair.run()), []);
        feed(&mut pair, 1, |out| out.extend_from_slice(&whole[at..=at]));
    }
    pair.client.end_feed(pair.now, Token(1));
    assert_eq!(completed(&ends(pair.run())), [1, 2]);
}

#[test]
fn a_server_that_takes_its_time_over_it_is_no_dead_peer() {
    let mut pair = Pair::new(limits(8));
    begin(&mut pair, 1);
    pair.later(seconds(1000));
    end(&mut pair, 1);
    pair.later(seconds(1000));
    assert!(pair.client.is_open());
    assert_eq!(completed(&pair.run()), [1]);
    pair.own(2, "o");
    pair.later(seconds(1000));
    assert_eq!(pair.take()[0], Out::Closed(CloseReason::Stalled));
}

#[test]
fn one_that_waits_in_the_queue_is_not_fed_and_can_be_taken_back() {
    let mut pair = Pair::new(limits(1));
    pair.own(1, "o");
    let ticket = begin(&mut pair, 2);
    assert!(!pair.client.is_fed(Token(2)) && !pair.client.can_feed(Token(2)));
    assert!(pair.client.cancel(pair.now, ticket));
    begin(&mut pair, 3);
    let cancelled = Out::Ended(2, failure(Outcome::NotSent, Cause::Cancelled));
    assert_eq!(ends(pair.run()), [cancelled, Out::Ended(1, End::Complete)]);
    assert!(pair.client.can_feed(Token(3)));
    end(&mut pair, 3);
    assert_eq!(ends(pair.run()), [Out::Ended(3, End::Complete)]);
}

#[test]
fn one_whose_caller_goes_away_is_fed_to_its_end() {
    let mut pair = Pair::new(limits(8));
    let request = onetrip_engine::Request {
        feed: Feed::Messages,
        deadline: pair.now.after(seconds(1)),
        ..pair.request(1, SyncPoint::Own)
    };
    let submitted = pair.client.submit(pair.now, request, |out| {
        put_request(out, 1, SyncPoint::Member, b"o");
        Ok::<(), ()>(())
    });
    submitted.unwrap();
    pair.write();
    pair.later(seconds(2));
    assert_eq!(pair.take(), [Out::Ended(1, failure(Outcome::Unknown, Cause::Deadline))]);
    pair.own(2, "o");
    assert!(pair.client.is_fed(Token(1)));
    end(&mut pair, 1);
    assert_eq!(ends(pair.run()), [Out::Ended(2, End::Complete)]);
}

#[test]
fn a_connection_that_is_lost_takes_it_along() {
    let mut pair = Pair::new(limits(8));
    begin(&mut pair, 1);
    pair.write();
    feed(&mut pair, 1, |out| put_request(out, 1, SyncPoint::Member, b"o"));
    pair.own(2, "o");
    pair.client.handle_closed();
    let unknown = Out::Ended(1, failure(Outcome::Unknown, Cause::Closed));
    let not_sent = Out::Ended(2, failure(Outcome::NotSent, Cause::Closed));
    assert_eq!(ends(pair.take())[1..], [unknown, not_sent]);
    assert!(!pair.client.is_fed(Token(1)) && pair.client.transmit().is_empty());
}
