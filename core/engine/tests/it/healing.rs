//! A request that the server reports as never started is sent again, a bounded number of times.

use crate::toy::pair::{Out, Pair, completed, ends, failure, limits, seconds};
use crate::toy::{self, failed, message, settled};
use onetrip_engine::{Cause, End, HEALS_MAX, Limits, Outcome, Request, SyncPoint, Time, Token};

const NEVER: End = failure(Outcome::Rejected, Cause::Server);

#[test]
fn a_request_that_never_started_is_sent_again_with_what_heals_it() {
    let mut pair = Pair::new(Limits::default());
    pair.again(1, "pn");
    pair.again(2, "o");
    assert_eq!(completed(&pair.run()), [2, 1]);
    assert_eq!(pair.server.received, [1, 2, 1]);
    assert_eq!((pair.server.runs[&1], pair.client.protocol().heals), (1, 1));
    assert_eq!(pair.client.healed(), 1);
}

#[test]
fn its_bytes_are_those_that_were_sent_first() {
    let mut pair = Pair::new(Limits::default());
    pair.own(0, "pppp");
    pair.again(1, "n");
    pair.again(2, "pp");
    let first = pair.client.transmit()[12..][..9].to_vec();
    for _ in 0..20 {
        pair.write_some(3);
    }
    pair.read();
    let heal = message(b'H', 1, b"");
    assert_eq!(pair.client.transmit(), [heal, first].concat());
}

/// The heal message may be outdated when it arrives. Replies in front of it are void then.
#[test]
fn it_is_sent_again_until_it_starts_each_time_as_it_was_at_first() {
    let mut pair = Pair::new(Limits::default());
    pair.again(1, "o");
    let first = pair.client.transmit().to_vec();
    pair.lose();
    pair.reply(&[failed(1, Outcome::Rejected, true), settled(1)].concat());
    let healed = [message(b'H', 1, b""), first].concat();
    let never = [message(b'p', 1, b""), failed(1, Outcome::Rejected, true), settled(1)].concat();
    for heals in 1..3 {
        assert_eq!((pair.client.transmit(), pair.client.protocol().heals), (&healed[..], heals));
        pair.lose();
        assert_eq!(pair.take(), []);
        pair.reply(&never);
        assert_eq!(pair.take(), [Out::Restarted(1)]);
    }
    pair.lose();
    pair.reply(&[message(b'c', 1, b""), settled(1)].concat());
    assert_eq!(completed(&pair.take()), [1]);
}

#[test]
fn a_bounded_number_of_times() {
    let mut pair = Pair::new(Limits::default());
    pair.again(1, "o");
    let never = [failed(1, Outcome::Rejected, true), settled(1)].concat();
    for _ in 0..HEALS_MAX {
        pair.lose();
        pair.reply(&never);
        assert!(!pair.take().contains(&Out::Ended(1, NEVER)));
    }
    pair.lose();
    pair.reply(&never);
    assert_eq!(pair.take(), [Out::Ended(1, NEVER)]);
    assert_eq!(pair.client.protocol().heals, usize::from(HEALS_MAX));
}

#[test]
fn not_past_its_deadline() {
    let mut pair = Pair::new(Limits::default());
    let deadline = pair.now.after(seconds(1));
    let request = Request { again: true, deadline, ..pair.request(1, SyncPoint::Own) };
    pair.submit(request, "o").unwrap();
    let never = [failed(1, Outcome::Rejected, true), settled(1)].concat();
    pair.lose();
    pair.reply(&never);
    pair.lose();
    pair.later(seconds(2));
    let late = failure(Outcome::Unknown, Cause::Deadline);
    assert_eq!(pair.take(), [Out::Ended(1, late)]);
    pair.reply(&never);
    assert!(pair.take().is_empty() && pair.client.transmit().is_empty());
}

#[test]
fn only_where_the_host_allowed_it() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "n");
    assert_eq!(pair.run(), [Out::Ended(1, NEVER)]);
}

#[test]
fn not_after_an_error_that_may_have_left_effects() {
    let mut pair = Pair::new(Limits::default());
    pair.again(1, "u");
    assert_eq!(pair.run(), [Out::Ended(1, failure(Outcome::Unknown, Cause::Server))]);
}

#[test]
fn before_what_is_queued() {
    let mut pair = Pair::new(limits(2));
    pair.again(0, "n");
    pair.owns(1..5);
    pair.run();
    assert_eq!(pair.server.received, [0, 1, 0, 2, 3, 4]);
}

#[test]
fn never_within_a_segment() {
    let mut pair = Pair::new(limits(2));
    pair.again(0, "n");
    for id in 1..6 {
        pair.member(id, "o");
    }
    pair.only(6);
    pair.own(7, "o");
    assert_eq!(ends(pair.run()).len(), 8);
    assert_eq!(pair.server.received, [0, 1, 2, 3, 4, 5, 6, 0, 7]);
}

#[test]
fn a_segment_that_is_being_submitted_goes_before_what_is_sent_again() {
    let mut pair = Pair::new(Limits::default());
    pair.again(0, "n");
    pair.member(1, "o");
    pair.write();
    pair.read();
    pair.own(2, "o");
    let expected = [Out::Ended(1, End::Provisional), Out::Ended(2, End::Complete)];
    assert_eq!(pair.run(), [&expected[..], &[Out::Ended(0, End::Complete)]].concat());
    assert_eq!(pair.server.received, [0, 1, 2, 0]);
}

#[test]
fn never_for_a_member() {
    let mut pair = Pair::new(Limits::default());
    let member = Request { again: true, ..pair.request(1, SyncPoint::Member) };
    pair.submit(member, "n").unwrap();
    pair.only(2);
    assert_eq!(pair.run()[0], Out::Ended(1, NEVER));
    assert_eq!(pair.server.received, [1, 2]);
}

#[test]
fn never_for_the_end_of_a_segment_with_members() {
    let mut pair = Pair::new(Limits::default());
    pair.member(1, "o");
    pair.again(2, "n");
    let expected = [Out::Ended(1, End::Provisional), Out::Ended(2, NEVER)];
    assert_eq!(pair.run(), expected, "the members before it were undone");
    assert_eq!(pair.server.received, [1, 2]);
}

#[test]
fn never_within_a_group_nor_for_its_requests() {
    let mut pair = Pair::new(Limits::default());
    pair.again(0, "n");
    let group = pair.group(100);
    let in_group = Request { again: true, group: Some(group), ..pair.request(1, SyncPoint::Own) };
    pair.submit(in_group, "n").unwrap();
    pair.in_group(group, 2, SyncPoint::Own, "o");
    assert_eq!(pair.run()[0], Out::Ended(1, NEVER));
    assert!(!pair.client.is_idle(), "one waits to be sent again");
    pair.client.close_group(pair.now, group);
    assert_eq!(completed(&pair.run()), [0]);
    assert_eq!(pair.server.received, [0, 1, 2, 0]);
}

#[test]
fn before_the_next_group() {
    let mut pair = Pair::new(Limits::default());
    pair.again(0, "n");
    let first = pair.group(100);
    let next = pair.client.open_group(pair.now, Token(101)).unwrap();
    pair.run();
    pair.client.close_group(pair.now, first);
    assert_eq!(pair.take(), [Out::Granted(101)]);
    pair.in_group(next, 1, SyncPoint::Own, "o");
    pair.run();
    assert_eq!(pair.server.received, [0, 0, 1]);
}

#[test]
fn before_the_next_group_even_if_the_window_is_closed() {
    let mut pair = Pair::new(limits(8));
    pair.again(0, "n");
    pair.owns(1..8);
    pair.lose();
    pair.reply(&[failed(0, Outcome::Rejected, true), settled(0)].concat());
    pair.client.open_group(pair.now, Token(100)).unwrap();
    assert_eq!(pair.take(), [], "one waits to be sent again, and the window is closed");
    for id in 1..5 {
        pair.reply(&[toy::complete(id), settled(id)].concat());
    }
    assert!(pair.client.transmit().starts_with(&message(b'H', 0, b"")));
    assert_eq!(pair.take().last(), Some(&Out::Granted(100)));
}

#[test]
fn not_once_its_caller_has_left() {
    let deadline = Time::ZERO.after(seconds(1));
    let mut pair = Pair::new(Limits::default());
    let request = Request { deadline, again: true, ..pair.request(1, SyncPoint::Own) };
    pair.submit(request, "n").unwrap();
    pair.write();
    pair.later(seconds(1));
    assert_eq!(pair.take(), [Out::Ended(1, failure(Outcome::Unknown, Cause::Deadline))]);
    assert_eq!(pair.run(), []);
    assert_eq!(pair.server.received, [1]);
}

#[test]
fn nor_when_its_deadline_passes_while_it_waits_to_be_sent_again() {
    let deadline = Time::ZERO.after(seconds(1));
    let mut pair = Pair::new(Limits::default());
    let request = Request { deadline, again: true, ..pair.request(1, SyncPoint::Own) };
    pair.submit(request, "n").unwrap();
    let group = pair.group(100);
    pair.write();
    pair.read();
    pair.later(seconds(1));
    assert_eq!(pair.take(), [Out::Ended(1, failure(Outcome::Rejected, Cause::Deadline))]);
    pair.client.close_group(pair.now, group);
    assert_eq!(pair.run(), []);
    assert_eq!(pair.server.received, [1]);
    assert!(pair.client.is_idle());
}

#[test]
fn one_whose_place_matters_is_sent_again_only_as_the_last() {
    let mut pair = Pair::new(Limits::default());
    let in_order = |pair: &Pair, id| Request {
        again: true,
        in_order: true,
        ..pair.request(id, SyncPoint::Own)
    };
    let request = in_order(&pair, 1);
    pair.submit(request, "n").unwrap();
    pair.own(2, "o");
    assert_eq!(pair.run(), [Out::Ended(1, NEVER), Out::Ended(2, End::Complete)]);
    let request = in_order(&pair, 3);
    pair.submit(request, "pn").unwrap();
    assert_eq!(completed(&pair.run()), [3]);
    assert_eq!(pair.client.protocol().heals, 1);
}
