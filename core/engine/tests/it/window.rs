//! The window: how much is in flight, when it opens again, and which outputs announce it.

use crate::toy::pair::{Out, Pair, completed, ends, limits};
use crate::toy::{complete, settled};
use onetrip_engine::{Limits, SubmitError, SyncPoint, Ticket, Token};

fn answer(pair: &mut Pair, ids: std::ops::Range<u32>) {
    for id in ids {
        pair.lose();
        pair.reply(&[complete(id), settled(id)].concat());
    }
}

#[test]
fn no_more_requests_than_the_window_holds_are_on_their_way() {
    let mut pair = Pair::new(limits(4));
    let tickets = pair.owns(0..6);
    assert_eq!(tickets[3], Ticket::Sent);
    assert!(matches!(tickets[4], Ticket::Queued(_)));
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (4, 2));
}

#[test]
fn no_more_bytes_than_the_window_holds_are_on_their_way_but_for_the_last_request() {
    let mut pair = Pair::new(Limits { in_flight_bytes_max: 20, ..Limits::default() });
    pair.owns(0..5); // of 9 bytes each
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (3, 2));
    assert_eq!(pair.client.queued_bytes(), 18);
}

#[test]
fn a_request_larger_than_the_window_travels_alone() {
    let mut pair = Pair::new(Limits { in_flight_bytes_max: 20, ..Limits::default() });
    pair.own(0, "o");
    pair.own(1, &"p".repeat(100));
    pair.own(2, "o");
    assert_eq!(pair.client.in_flight(), 2, "it fills the window with the one before");
    answer(&mut pair, 0..1);
    assert_eq!(pair.client.in_flight(), 1, "nothing joins it");
    answer(&mut pair, 1..2);
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (1, 0));
}

#[test]
fn a_full_window_opens_again_at_half() {
    let mut pair = Pair::new(limits(8));
    pair.owns(0..20);
    answer(&mut pair, 0..4);
    assert_eq!(pair.client.in_flight(), 4, "half is not below half");
    answer(&mut pair, 4..5);
    assert_eq!(pair.client.in_flight(), 8, "refilled in one go");
    answer(&mut pair, 5..20);
    assert_eq!(completed(&ends(pair.take())), Vec::from_iter(0..20));
}

#[test]
fn a_window_that_was_never_full_stays_open() {
    let mut pair = Pair::new(limits(8));
    pair.owns(0..7);
    answer(&mut pair, 0..1);
    assert_eq!(pair.own(7, "o"), Ticket::Sent);
}

#[test]
fn full_and_drained_are_announced_once_each() {
    let mut pair = Pair::new(limits(8));
    pair.owns(0..8);
    assert_eq!(pair.take(), [], "a window that is just full makes nobody wait");
    pair.owns(8..12);
    assert_eq!(pair.take(), [Out::Full]);
    answer(&mut pair, 0..5);
    assert_eq!(ends(pair.take()).len(), 5);
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (7, 0));
    answer(&mut pair, 5..6);
    assert!(!pair.take().contains(&Out::Drained), "six of eight is not below three quarters");
    answer(&mut pair, 6..7);
    assert_eq!(pair.take().last(), Some(&Out::Drained));
    answer(&mut pair, 7..12);
    assert!(!pair.take().contains(&Out::Drained));
    pair.owns(12..21);
    assert_eq!(pair.take(), [Out::Full], "and again once per Full");
}

#[test]
fn a_refused_request_announces_full_and_then_drained() {
    let mut pair = Pair::new(Limits { queue_max: 0, ..limits(1) });
    pair.own(0, "o");
    assert_eq!(pair.refused(1), SubmitError::QueueFull);
    assert_eq!(pair.take(), [Out::Full]);
    assert_eq!(pair.run().last(), Some(&Out::Drained));
}

#[test]
fn the_smallest_windows_work() {
    for in_flight_max in 0..4 {
        for in_flight_bytes_max in [0, 1, 2, 3, 1000] {
            let mut pair = Pair::new(Limits { in_flight_bytes_max, ..limits(in_flight_max) });
            pair.owns(0..5);
            pair.member(5, "o");
            for id in 6..10 {
                pair.member(id, "o");
            }
            pair.only(10);
            let outs = pair.run();
            assert_eq!(ends(outs.clone()).len(), 11, "{in_flight_max} {in_flight_bytes_max}");
            assert!(outs.contains(&Out::Drained));
            assert!(pair.client.is_idle());
        }
    }
}

#[test]
fn a_queue_full_of_requests_refuses() {
    let mut pair = Pair::new(Limits { queue_max: 2, ..limits(1) });
    pair.owns(0..3);
    assert_eq!(pair.refused(3), SubmitError::QueueFull);
    assert_eq!(completed(&ends(pair.run())), [0, 1, 2]);
    assert!(!pair.server.received.contains(&3));
}

#[test]
fn a_queue_full_of_bytes_refuses() {
    let mut pair = Pair::new(Limits { queue_bytes_max: 10, ..limits(1) });
    pair.owns(0..3); // of 9 bytes each
    assert_eq!(pair.refused(3), SubmitError::QueueFull);
}

#[test]
fn a_segment_longer_than_the_window_carries_a_flush_at_each_half() {
    let mut pair = Pair::new(limits(8));
    for id in 0..100 {
        pair.member(id, "o");
    }
    pair.only(100);
    assert_eq!(ends(pair.run()).len(), 101);
    assert_eq!(pair.server.flushes, 25);
}

#[test]
fn a_segment_of_more_bytes_than_the_window_carries_a_flush_at_each_half() {
    let mut pair = Pair::new(Limits { in_flight_bytes_max: 100, ..Limits::default() });
    for id in 0..100 {
        pair.member(id, "pp");
    }
    pair.only(100);
    assert_eq!(ends(pair.run()).len(), 101);
    assert!(pair.server.flushes >= 10, "{}", pair.server.flushes);
}

#[test]
fn a_segment_shorter_than_half_the_window_carries_no_flush() {
    let mut pair = Pair::new(limits(8));
    for id in 0..3 {
        pair.member(id, "o");
    }
    pair.own(3, "o");
    pair.owns(4..8);
    pair.run();
    assert_eq!(pair.server.flushes, 0);
}

#[test]
fn has_room_counts_what_waits() {
    let mut pair = Pair::new(Limits { queue_max: 3, queue_bytes_max: 100, ..limits(1) });
    assert!(pair.client.has_room(1000, 1 << 40), "any number when the queue is empty");
    pair.owns(0..2);
    assert!(pair.client.has_room(2, 91));
    assert!(!pair.client.has_room(3, 0));
    assert!(!pair.client.has_room(1, 92));
    assert!(!pair.client.has_room(usize::MAX, usize::MAX));
    pair.client.wait(Token(90), onetrip_engine::Time::NEVER).unwrap();
    assert!(!pair.client.has_room(1, 1), "somebody waits");
}

#[test]
fn room_is_how_many_more_are_taken_and_no_more() {
    // Answers at which the window is open, waits to be half empty, and has the queue behind it.
    for answered in 0..16 {
        let mut pair = Pair::new(Limits { queue_max: 8, ..limits(8) });
        pair.owns(0..16);
        assert_eq!(pair.client.room(), 0);
        answer(&mut pair, 0..answered);
        let room = pair.client.room() as u32;
        pair.owns(16..16 + room);
        let one_more = pair.submit(pair.request(100, SyncPoint::Own), "o");
        assert!(pair.client.room() == 0 && one_more.is_err(), "{answered}");
    }
}

#[test]
fn without_a_queue_there_is_room_only_while_the_window_is_open() {
    let mut pair = Pair::new(Limits { queue_max: 0, ..limits(1) });
    assert!(pair.client.has_room(1, 1));
    pair.own(0, "o");
    assert!(!pair.client.has_room(1, 1));
}

#[test]
fn the_rest_of_a_segment_is_never_refused() {
    let mut pair = Pair::new(Limits { queue_max: 1, ..limits(1) });
    pair.own(0, "o");
    for id in 1..5 {
        pair.member(id, "o");
    }
    assert_eq!(pair.client.open_group(pair.now, Token(9)), None, "not within a segment");
    pair.own(5, "o");
    assert_eq!(pair.refused(6), SubmitError::QueueFull);
    assert_eq!(ends(pair.run()).len(), 6);
}

#[test]
fn a_reserved_request_is_taken_by_a_full_queue() {
    let mut pair = Pair::new(Limits { queue_max: 1, ..limits(1) });
    pair.owns(0..2);
    let mut request = pair.request(2, SyncPoint::Own);
    request.reserved = true;
    assert!(matches!(pair.submit(request, "o"), Ok(Ticket::Queued(_))));
    assert_eq!(completed(&ends(pair.run())), [0, 1, 2]);
}

#[test]
fn one_segment_at_a_time_waits_for_the_answer_to_the_one_before() {
    let mut pair = Pair::new(Limits { one_segment: true, ..Limits::default() });
    pair.owns(0..2);
    for id in 2..5 {
        pair.member(id, "o");
    }
    pair.only(5);
    pair.own(6, "o");
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (1, 6));
    answer(&mut pair, 0..1);
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (1, 5));
    answer(&mut pair, 1..2);
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (4, 1), "a segment leaves whole");
    assert_eq!(ends(pair.run()).len(), 7);
    assert!(pair.client.is_idle());
}
