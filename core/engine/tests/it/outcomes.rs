//! What is known of each request's effect once the connection has ended.

use crate::toy::pair::{Out, Pair, failure, limits};
use crate::toy::{complete, failed, part, settled};
use onetrip_engine::{
    Cause, CloseReason, End, Limits, Outcome, Request, SyncPoint, Time, Token, Unsent, Wanted,
};

const CLOSED: Out = Out::Closed(CloseReason::Host);
const NOT_SENT: End = failure(Outcome::NotSent, Cause::Closed);
const UNKNOWN: End = failure(Outcome::Unknown, Cause::Closed);

#[test]
fn what_was_not_written_was_not_sent_and_what_was_partly_written_may_have_run() {
    let len = 9;
    for written in 0..=3 * len {
        let mut pair = Pair::new(limits(3));
        pair.owns(0..4);
        pair.take();
        pair.write_some(written);
        pair.client.handle_closed();
        let touched = written.div_ceil(len);
        let mut expected = vec![CLOSED];
        for id in 0..4 {
            let end = if id < touched { UNKNOWN } else { NOT_SENT };
            expected.push(Out::Ended(id as u64, end));
        }
        assert_eq!(pair.take(), expected, "{written} bytes written");
    }
}

/// On another connection they get the replies that they would have got here.
#[test]
fn what_was_not_sent_can_be_sent_on_another_connection_and_nothing_of_which_a_byte_left() {
    let len = 9;
    for written in 0..=3 * len {
        let (mut pair, mut next) = (Pair::new(limits(3)), Pair::new(limits(9)));
        pair.owns(0..6);
        pair.write_some(written);
        pair.client.handle_closed();
        let touched = written.div_ceil(len);
        for id in 0..6 {
            let unsent = pair.client.take_unsent(Token(id));
            assert_eq!(unsent.is_some(), id >= touched as u64, "{id}, {written} bytes written");
            assert!(pair.client.take_unsent(Token(id)).is_none(), "it is handed out once");
            let Some(Unsent { expect, bytes }) = unsent else { continue };
            let request = Request::isolated(Token(id), expect);
            let sent = next.client.submit(next.now, request, |out| {
                out.extend_from_slice(&bytes);
                Ok::<(), ()>(())
            });
            sent.unwrap();
        }
        let ids: Vec<u64> = (touched as u64..6).collect();
        assert_eq!(crate::toy::pair::completed(&next.run()), ids, "{written} bytes written");
    }
}

#[test]
fn what_depends_on_its_connection_is_not_handed_out() {
    let mut pair = Pair::new(limits(4));
    pair.member(1, "o");
    pair.own(2, "o");
    let in_order = Request { in_order: true, ..pair.request(3, SyncPoint::Own) };
    pair.submit(in_order, "o").unwrap();
    let pinned = Request { pinned: true, ..pair.request(4, SyncPoint::Own) };
    pair.submit(pinned, "o").unwrap();
    // These wait in the queue.
    pair.member(5, "o");
    pair.own(6, "o");
    pair.own(7, "o");
    let own_way = Request { own_way: true, ..pair.request(8, SyncPoint::Own) };
    pair.submit(own_way, "o").unwrap();
    pair.client.handle_closed();
    let movable: Vec<u64> =
        (1..=8).filter(|id| pair.client.take_unsent(Token(*id)).is_some()).collect();
    assert_eq!(movable, [7], "members, and the end of their segment, stay together");
}

#[test]
fn what_was_to_be_cancelled_is_not_handed_out() {
    let mut pair = Pair::new(limits(4));
    pair.owns(0..3);
    assert_eq!(pair.client.want_cancel(pair.now, Token(1)), Wanted::Noted(Token(1)));
    pair.client.handle_closed();
    let movable: Vec<u64> =
        (0..3).filter(|id| pair.client.take_unsent(Token(*id)).is_some()).collect();
    assert_eq!(movable, [0, 2]);
}

/// The first of the segment is answered before its end has left.
#[test]
fn the_end_of_a_segment_whose_members_are_answered_is_not_handed_out() {
    let mut pair = Pair::new(Limits::default());
    pair.member(1, "o");
    pair.lose();
    pair.own(2, "o");
    pair.own(3, "o");
    pair.reply(&complete(1));
    pair.client.handle_closed();
    assert!(pair.client.take_unsent(Token(2)).is_none());
    assert!(pair.client.take_unsent(Token(3)).is_some());
}

#[test]
fn bytes_that_are_kept_to_be_sent_again_do_not_count_as_unwritten() {
    let mut pair = Pair::new(Limits::default());
    pair.again(1, "o");
    pair.write();
    pair.own(2, "o");
    assert_eq!(pair.client.transmit().len(), 9);
    pair.client.handle_closed();
    assert_eq!(pair.take(), [CLOSED, Out::Ended(1, UNKNOWN), Out::Ended(2, NOT_SENT)]);
}

#[test]
fn a_failed_request_whose_sync_point_is_not_answered_ends_as_it_failed() {
    let mut pair = Pair::new(Limits::default());
    pair.owns(1..3);
    pair.lose();
    pair.reply(&failed(1, Outcome::Rejected, false));
    assert_eq!(pair.take(), []);
    pair.client.handle_closed();
    let rejected = failure(Outcome::Rejected, Cause::Server);
    assert_eq!(pair.take(), [CLOSED, Out::Ended(1, rejected), Out::Ended(2, UNKNOWN)]);
    assert_eq!(pair.replies[&1], failed(1, Outcome::Rejected, false));
}

#[test]
fn the_end_of_a_failed_segment_ends_as_the_segment_did() {
    let mut pair = Pair::new(Limits::default());
    pair.member(1, "e");
    pair.only(2);
    pair.own(3, "o");
    pair.lose();
    pair.reply(&failed(1, Outcome::Rejected, false));
    pair.take();
    pair.client.handle_closed();
    let aborted = failure(Outcome::Rejected, Cause::Aborted);
    assert_eq!(pair.take(), [CLOSED, Out::Ended(2, aborted), Out::Ended(3, UNKNOWN)]);
}

#[test]
fn a_complete_reply_without_its_sync_point_is_unknown() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "o");
    pair.lose();
    pair.reply(&[part(1), complete(1)].concat());
    pair.client.handle_closed();
    assert_eq!(pair.take(), [CLOSED, Out::Ended(1, UNKNOWN)]);
}

#[test]
fn a_request_that_never_started_and_waits_to_be_sent_again_was_rejected() {
    let mut pair = Pair::new(limits(2));
    pair.again(1, "o");
    pair.own(2, "o");
    pair.lose();
    pair.reply(&[failed(1, Outcome::Rejected, true), settled(1)].concat());
    assert_eq!(pair.client.in_flight(), 1, "the window opens below half");
    pair.client.handle_closed();
    let rejected = failure(Outcome::Rejected, Cause::Closed);
    assert_eq!(pair.take(), [CLOSED, Out::Ended(2, UNKNOWN), Out::Ended(1, rejected)]);
}

#[test]
fn a_request_that_was_sent_again_but_not_written_was_rejected() {
    let mut pair = Pair::new(Limits::default());
    pair.again(1, "o");
    pair.lose();
    pair.reply(&[failed(1, Outcome::Rejected, true), settled(1)].concat());
    assert_eq!(pair.client.in_flight(), 1);
    pair.client.handle_closed();
    let rejected = failure(Outcome::Rejected, Cause::Closed);
    assert_eq!(pair.take(), [CLOSED, Out::Ended(1, rejected)]);
}

#[test]
fn everyone_who_waits_for_anything_ends_as_not_sent() {
    let mut pair = Pair::new(Limits { queue_max: 1, ..limits(1) });
    let group = pair.group(100);
    pair.in_group(group, 1, onetrip_engine::SyncPoint::Own, "o");
    pair.in_group(group, 2, onetrip_engine::SyncPoint::Own, "o");
    pair.client.open_group(pair.now, Token(101)).unwrap();
    pair.client.wait(Token(3), Time::NEVER).unwrap();
    pair.take();
    pair.client.handle_closed();
    let ended = [1, 2, 101, 3].map(|token| Out::Ended(token, NOT_SENT));
    assert_eq!(pair.take(), [vec![CLOSED], ended.to_vec()].concat());
    assert!(pair.client.is_idle() && pair.client.is_closed());
    assert_eq!(pair.client.undelivered_bytes(), 0);
}
