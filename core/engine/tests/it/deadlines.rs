//! Time: deadlines in the queue and in flight, and a peer that accepts no bytes.

use std::time::Duration;

use crate::toy::pair::{Out, Pair, completed, ends, failure, limits, seconds};
use crate::toy::{self, failed, settled};
use onetrip_engine::{Cause, CloseReason, End, Limits, Outcome, Request, SyncPoint, Time, Token};

const NOT_SENT: End = failure(Outcome::NotSent, Cause::Deadline);
const UNKNOWN: End = failure(Outcome::Unknown, Cause::Deadline);

fn at(n: u64) -> Time {
    Time::ZERO.after(seconds(n))
}

#[test]
fn a_deadline_in_the_queue_ends_as_not_sent() {
    let mut pair = Pair::new(limits(1));
    pair.own(0, "o");
    pair.until(1, at(1));
    pair.until(2, at(5));
    assert_eq!(pair.client.poll_deadline(), Some(at(1)));
    pair.write();
    pair.later(seconds(1));
    assert_eq!(ends(pair.take()), [Out::Ended(1, NOT_SENT)]);
    assert_eq!(pair.client.poll_deadline(), Some(at(5)));
    assert_eq!(completed(&ends(pair.run())), [0, 2]);
    assert_eq!(pair.server.received, [0, 2]);
}

#[test]
fn a_deadline_on_the_wire_ends_as_unknown_and_the_slot_stays() {
    let mut pair = Pair::new(Limits::default());
    pair.until(1, at(1));
    pair.until(2, at(9));
    pair.write();
    pair.later(seconds(2));
    assert_eq!(pair.take(), [Out::Ended(1, UNKNOWN)]);
    assert_eq!(pair.client.in_flight(), 2);
    assert_eq!(completed(&pair.run()), [2], "the late reply is dropped");
    assert_eq!(pair.replies[&1], b"");
}

#[test]
fn a_deadline_that_is_set_later_counts_like_one_that_was_there_from_the_start() {
    let mut pair = Pair::new(limits(1));
    (0..3).for_each(|id| _ = pair.own(id, "o"));
    pair.write();
    for id in 0..2 {
        pair.client.wait_until(Token(id), at(2));
        // It is not put off.
        pair.client.wait_until(Token(id), at(9));
    }
    // There is none such.
    pair.client.wait_until(Token(7), at(1));
    assert_eq!(pair.client.poll_deadline(), Some(at(2)));
    pair.later(seconds(2));
    assert_eq!(ends(pair.take()), [Out::Ended(0, UNKNOWN), Out::Ended(1, NOT_SENT)]);
    assert_eq!(completed(&ends(pair.run())), [2]);
    assert_eq!(pair.server.received, [0, 2]);
}

#[test]
fn a_late_request_takes_its_whole_segment_out_of_the_queue() {
    let mut pair = Pair::new(limits(1));
    pair.own(0, "o");
    pair.member(1, "o");
    let late = Request { deadline: at(1), ..pair.request(2, SyncPoint::Member) };
    pair.submit(late, "o").unwrap();
    pair.own(3, "o");
    pair.own(4, "o");
    pair.write();
    pair.later(seconds(1));
    let gone = [1, 2, 3].map(|id| Out::Ended(id, NOT_SENT));
    assert_eq!(ends(pair.take()), gone);
    assert_eq!(completed(&ends(pair.run())), [0, 4]);
    assert_eq!(pair.server.received, [0, 4]);
}

#[test]
fn the_rest_of_a_segment_that_is_partly_sent_goes_on_without_its_late_callers() {
    let mut pair = Pair::new(limits(1));
    pair.member(0, "o");
    let late = Request { deadline: at(1), ..pair.request(1, SyncPoint::Member) };
    pair.submit(late, "o").unwrap();
    pair.own(2, "o");
    pair.write();
    pair.later(seconds(1));
    assert_eq!(ends(pair.take()), [Out::Ended(1, UNKNOWN)]);
    let outs = ends(pair.run());
    assert_eq!(outs, [Out::Ended(0, End::Provisional), Out::Ended(2, End::Complete)]);
    assert_eq!(pair.server.received, [0, 1, 2]);
}

#[test]
fn a_segment_whose_end_was_not_submitted_is_not_taken_out() {
    let mut pair = Pair::new(limits(1));
    let group = pair.group(100);
    let member = |pair: &Pair, id, deadline| Request {
        deadline,
        group: Some(group),
        ..pair.request(id, SyncPoint::Member)
    };
    pair.in_group(group, 0, SyncPoint::Own, "o");
    pair.submit(member(&pair, 1, at(9)), "o").unwrap();
    pair.submit(member(&pair, 2, at(1)), "o").unwrap();
    pair.write();
    pair.later(seconds(1));
    assert_eq!(ends(pair.take()), [Out::Ended(2, UNKNOWN)]);
    assert_eq!(pair.client.poll_deadline(), Some(at(9)));
    pair.in_group(group, 3, SyncPoint::Only, "");
    for _ in 0..4 {
        let bytes = pair.client.undelivered_bytes();
        pair.client.handle_consumed(pair.now, group, bytes);
        pair.run();
    }
    assert_eq!(pair.server.received, [0, 1, 2, 3]);
}

#[test]
fn a_failed_request_that_is_late_ends_as_the_server_said() {
    let mut pair = Pair::new(Limits::default());
    pair.until(1, at(1));
    pair.lose();
    pair.reply(&failed(1, Outcome::Rejected, false));
    pair.later(seconds(1));
    assert_eq!(pair.take(), [Out::Ended(1, failure(Outcome::Rejected, Cause::Deadline))]);
    pair.reply(&settled(1));
    assert_eq!(pair.take(), []);
}

/// P39.
#[test]
fn deadlines_are_looked_at_once_a_millisecond() {
    let mut pair = Pair::new(Limits::default());
    let micros = |n| Time::ZERO.after(Duration::from_micros(n));
    for id in 0..10 {
        pair.until(id, micros(100 * u64::from(id)));
    }
    pair.write();
    assert_eq!(pair.client.poll_deadline(), Some(Time::ZERO));
    pair.later(Duration::ZERO);
    assert_eq!(pair.take().len(), 1);
    pair.until(50, Time::ZERO);
    assert_eq!(pair.client.poll_deadline(), Some(micros(1000)), "new ones too");
    pair.later(Duration::from_micros(999));
    assert_eq!(pair.take(), []);
    pair.later(Duration::from_micros(1));
    assert_eq!(pair.take().len(), 10);
}

#[test]
fn no_deadline_is_left_when_everything_has_ended() {
    let mut pair = Pair::new(Limits::default());
    pair.until(1, at(1));
    pair.run();
    pair.later(seconds(1));
    assert_eq!(pair.client.poll_deadline(), None);
    pair.until(2, at(3));
    pair.client.terminate(pair.now);
    pair.run();
    assert_eq!(pair.client.poll_deadline(), None, "a host would look in vain for ever");
}

#[test]
fn a_peer_that_takes_nothing_is_dead_after_the_stall_timeout() {
    let mut pair = Pair::new(Limits { stall_timeout: seconds(30), ..Limits::default() });
    pair.later(seconds(100));
    pair.own(1, "o");
    assert_eq!(pair.client.poll_deadline(), Some(at(130)), "waiting begins with the first byte");
    pair.later(seconds(29));
    pair.own(2, "o");
    assert_eq!(pair.take(), []);
    pair.later(seconds(1));
    let not_sent = failure(Outcome::NotSent, Cause::Closed);
    let closed = Out::Closed(CloseReason::Stalled);
    assert_eq!(pair.take(), [closed, Out::Ended(1, not_sent), Out::Ended(2, not_sent)]);
    assert_eq!(pair.client.poll_deadline(), None);
}

#[test]
fn progress_in_either_direction_keeps_a_peer_alive() {
    let mut pair = Pair::new(Limits { stall_timeout: seconds(30), ..Limits::default() });
    pair.own(1, "o");
    pair.own(2, "o");
    pair.later(seconds(20));
    pair.write_some(1);
    pair.later(seconds(20));
    pair.reply(&toy::notice(7));
    pair.later(seconds(29));
    assert_eq!(pair.take(), [Out::Event(7)]);
    pair.later(seconds(1));
    assert_eq!(pair.take()[0], Out::Closed(CloseReason::Stalled));
}

#[test]
fn a_silent_server_that_took_everything_is_alive() {
    let mut pair = Pair::new(Limits { stall_timeout: seconds(30), ..Limits::default() });
    pair.own(1, "o");
    pair.write();
    assert_eq!(pair.client.poll_deadline(), None);
    pair.later(seconds(100_000));
    assert_eq!(completed(&pair.run()), [1]);
}

#[test]
fn a_caller_that_waits_for_room_has_a_deadline_too() {
    let mut pair = Pair::new(Limits { queue_max: 0, ..limits(1) });
    pair.own(0, "o");
    pair.write();
    pair.client.wait(Token(1), at(3)).unwrap();
    assert_eq!(pair.client.poll_deadline(), Some(at(3)));
    pair.later(seconds(3));
    assert_eq!(ends(pair.take()), [Out::Ended(1, NOT_SENT)]);
}

#[test]
fn a_pinned_request_is_sent_though_its_caller_no_longer_waits() {
    let mut pair = Pair::new(limits(1));
    pair.own(0, "o");
    let pinned = Request { deadline: at(1), pinned: true, ..pair.request(1, SyncPoint::Own) };
    pair.submit(pinned, "o").unwrap();
    pair.until(2, at(1));
    pair.own(3, "o");
    pair.write();
    pair.later(seconds(1));
    assert_eq!(ends(pair.take()), [Out::Ended(1, UNKNOWN), Out::Ended(2, NOT_SENT)]);
    assert_eq!(completed(&ends(pair.run())), [0, 3]);
    assert_eq!(pair.server.received, [0, 1, 3]);
}

#[test]
fn a_pinned_segment_stays_as_a_whole() {
    let mut pair = Pair::new(limits(1));
    pair.own(0, "o");
    pair.member(1, "o");
    let pinned = Request { deadline: at(1), pinned: true, ..pair.request(2, SyncPoint::Own) };
    pair.submit(pinned, "o").unwrap();
    pair.write();
    pair.later(seconds(1));
    assert_eq!(ends(pair.take()), [Out::Ended(2, UNKNOWN)]);
    pair.run();
    assert_eq!(pair.server.received, [0, 1, 2]);
}
