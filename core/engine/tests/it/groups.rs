//! Groups: which caller alone may send, and how the readers of a group keep it from running ahead.

use crate::toy::pair::{Out, Pair, completed, ends, failure, limits, seconds};
use crate::toy::{complete, part, settled};
use onetrip_engine::{
    Cause, CloseReason, End, Group, Limits, Outcome, Request, SubmitError, SyncPoint, Token,
    Violation,
};

use SyncPoint::{Member, Only, Own};

#[test]
fn a_group_holds_the_floor_and_others_wait() {
    let mut pair = Pair::new(Limits::default());
    let group = pair.group(100);
    pair.own(50, "o");
    pair.in_group(group, 1, Member, "o");
    pair.in_group(group, 2, Own, "o");
    pair.in_group(group, 3, Own, "o");
    assert_eq!(pair.client.queued(), 1);
    let outs = ends(pair.run());
    assert_eq!(outs[0], Out::Ended(1, End::Provisional));
    assert_eq!(completed(&outs[1..]), [2, 3]);
    pair.client.close_group(pair.now, group);
    assert_eq!(completed(&ends(pair.run())), [50]);
}

#[test]
fn who_waits_for_a_group_to_end_can_leave() {
    let mut pair = Pair::new(Limits::default());
    let group = pair.group(100);
    pair.in_group(group, 1, Member, "o");
    let ticket = pair.own(50, "o");
    assert!(pair.client.cancel(pair.now, ticket));
    pair.until(51, pair.now.after(seconds(1)));
    pair.write();
    pair.later(seconds(1));
    let cancelled = failure(Outcome::NotSent, Cause::Cancelled);
    let late = failure(Outcome::NotSent, Cause::Deadline);
    assert_eq!(ends(pair.take()), [Out::Ended(50, cancelled), Out::Ended(51, late)]);
}

/// P64.
#[test]
fn what_a_group_has_not_sent_is_taken_back_and_it_goes_on() {
    for closed in [false, true] {
        for in_flight_max in 1..=4 {
            let mut pair = Pair::new(limits(in_flight_max));
            let group = pair.group(100);
            (1..=2).for_each(|id| pair.in_group(group, id, Member, "o"));
            pair.in_group(group, 3, Only, "");
            if closed {
                pair.client.close_group(pair.now, group);
            }
            pair.own(9, "o");
            let is_open = pair.client.take_back(group);
            assert_eq!(is_open, (in_flight_max < 3).then_some(true), "{in_flight_max}");
            let Some(true) = is_open else { continue };
            let sent = in_flight_max as u64;
            let not_sent = failure(Outcome::NotSent, Cause::Cancelled);
            let left: Vec<_> = (sent + 1..=3).map(|id| Out::Ended(id, not_sent)).collect();
            assert_eq!(ends(pair.take()), left, "{in_flight_max}");
            assert_eq!(pair.client.take_back(group), None);
            pair.in_group(group, 4, Only, "");
            pair.client.close_group(pair.now, group);
            pair.client.send_all(pair.now, group);
            assert_eq!(pair.client.in_flight(), in_flight_max + 1, "whatever the window says");
            let outs = ends(pair.run());
            assert_eq!(completed(&outs[in_flight_max..]), [4, 9], "{outs:?}");
        }
    }
}

#[test]
fn groups_get_the_floor_in_issue_order() {
    let mut pair = Pair::new(Limits::default());
    let first = pair.group(100);
    pair.own(1, "o");
    let second = pair.client.open_group(pair.now, Token(101)).unwrap();
    pair.own(2, "o");
    assert_ne!(first, second);
    pair.take();
    pair.client.close_group(pair.now, first);
    assert_eq!(pair.take(), [Out::Granted(101)]);
    assert_eq!(pair.client.in_flight(), 1, "what was issued before it");
    pair.client.close_group(pair.now, second);
    assert_eq!(completed(&ends(pair.run())), [1, 2]);
}

#[test]
fn only_the_group_that_holds_the_floor_may_submit() {
    let mut pair = Pair::new(Limits::default());
    let first = pair.group(100);
    let second = pair.client.open_group(pair.now, Token(101)).unwrap();
    let request = |pair: &Pair, group| Request { group: Some(group), ..pair.request(1, Own) };
    let refused = pair.submit(request(&pair, second), "o");
    assert_eq!(refused, Err(SubmitError::NotGranted));
    pair.client.close_group(pair.now, first);
    let refused = pair.submit(request(&pair, first), "o");
    assert_eq!(refused, Err(SubmitError::NotGranted));
}

#[test]
fn a_wish_for_the_floor_can_be_withdrawn() {
    let mut pair = Pair::new(Limits::default());
    let first = pair.group(100);
    let second = pair.client.open_group(pair.now, Token(101)).unwrap();
    let third = pair.client.open_group(pair.now, Token(102)).unwrap();
    pair.client.close_group(pair.now, second);
    pair.client.close_group(pair.now, second);
    pair.client.close_group(pair.now, first);
    assert_eq!(pair.take(), [Out::Granted(102)]);
    pair.client.close_group(pair.now, third);
    assert!(pair.client.is_idle());
}

#[test]
fn what_a_group_submitted_is_sent_before_the_floor_is_free() {
    let mut pair = Pair::new(limits(2));
    let group = pair.group(100);
    for id in 1..=6 {
        pair.in_group(group, id, Own, "o");
    }
    pair.client.close_group(pair.now, group);
    pair.client.close_group(pair.now, group);
    let request = Request { group: Some(group), ..pair.request(7, Own) };
    assert_eq!(pair.submit(request, "o"), Err(SubmitError::NotGranted), "it was closed");
    let next = pair.client.open_group(pair.now, Token(101)).unwrap();
    let outs = ends(consume_all(&mut pair, group));
    assert!(outs.contains(&Out::Granted(101)));
    assert_eq!(pair.server.received, [1, 2, 3, 4, 5, 6]);
    pair.in_group(next, 8, Own, "o");
    assert_eq!(
        completed(&ends(pair.run())),
        [8],
        "a group closed twice took no one's right to send"
    );
}

/// Moves bytes, and takes replies as they arrive.
fn consume_all(pair: &mut Pair, group: Group) -> Vec<Out> {
    let mut all = Vec::new();
    for _ in 0..100 {
        let outs = pair.run();
        let bytes = pair.client.undelivered_bytes();
        if outs.is_empty() && bytes == 0 {
            return all;
        }
        all.extend(outs);
        pair.client.handle_consumed(pair.now, group, bytes);
    }
    panic!("stuck: {:?}", pair.client);
}

#[test]
fn replies_that_the_reader_has_not_taken_close_the_window() {
    let mut pair = Pair::new(Limits { in_flight_bytes_max: 200, ..Limits::default() });
    let group = pair.group(100);
    for id in 0..40 {
        pair.in_group(group, id, Own, "ppp");
    }
    pair.run();
    let undelivered = pair.client.undelivered_bytes();
    let delivered: usize = pair.delivered.values().sum();
    assert_eq!(undelivered, delivered, "every byte that was handed out counts");
    assert!(undelivered >= 200, "{undelivered}");
    assert!(pair.client.queued() > 20);
    assert!(!pair.client.group_has_room());
    assert_eq!(pair.run(), [], "nothing moves until the reader does");

    pair.client.handle_consumed(pair.now, group, undelivered);
    assert!(pair.client.in_flight() > 0);
    consume_all(&mut pair, group);
    assert_eq!(pair.server.received, Vec::from_iter(0..40));
}

#[test]
fn the_window_opens_at_half_of_what_the_reader_took() {
    let mut pair = Pair::new(Limits { in_flight_bytes_max: 100, ..Limits::default() });
    let group = pair.group(100);
    for id in 0..10 {
        pair.in_group(group, id, Own, "pppppppp"); // answered by 8 * 11 + 14 = 102 bytes
    }
    pair.run();
    let undelivered = pair.client.undelivered_bytes();
    pair.client.handle_consumed(pair.now, group, undelivered - 50);
    assert_eq!(pair.client.in_flight(), 0);
    pair.client.handle_consumed(pair.now, group, 1);
    assert!(pair.client.in_flight() > 0);
}

#[test]
fn replies_to_a_group_whose_reader_takes_them_last_stop_counting() {
    let mut pair = Pair::new(Limits { in_flight_bytes_max: 200, ..Limits::default() });
    let group = pair.group(100);
    for id in 0..40 {
        pair.in_group(group, id, Own, "ppp");
    }
    pair.run();
    assert!(pair.client.queued() > 20);
    pair.client.stop_counting(pair.now, group);
    pair.run();
    assert_eq!(pair.server.received, Vec::from_iter(0..40));
    assert_eq!(pair.client.undelivered_bytes(), 0);
}

#[test]
fn an_error_counts_as_undelivered_like_any_reply() {
    let mut pair = Pair::new(Limits::default());
    let group = pair.group(100);
    pair.in_group(group, 1, Member, "pe");
    pair.in_group(group, 2, Only, "");
    pair.in_group(group, 3, Own, "pe");
    pair.run();
    let delivered: usize = pair.delivered.values().sum();
    assert_eq!(pair.client.undelivered_bytes(), delivered);
}

#[test]
fn replies_to_a_group_that_gave_the_floor_back_charge_nobody() {
    let mut pair = Pair::new(Limits { in_flight_bytes_max: 100, ..Limits::default() });
    let first = pair.group(100);
    pair.in_group(first, 1, Own, "pppppppppppp");
    pair.client.close_group(pair.now, first);
    let second = pair.group(101);
    pair.run();
    assert_eq!(pair.client.undelivered_bytes(), 0);
    assert!(pair.client.group_has_room());
    pair.client.handle_consumed(pair.now, first, 50);
    pair.in_group(second, 2, Own, "o");
    assert_eq!(completed(&pair.run()), [2]);
}

#[test]
fn a_slow_reader_outside_a_group_stops_nobody() {
    let mut pair = Pair::new(Limits { in_flight_bytes_max: 100, ..Limits::default() });
    for id in 0..10 {
        pair.own(id, "pppppppp");
        pair.run();
    }
    assert_eq!(pair.client.undelivered_bytes(), 0);
    assert_eq!(pair.server.received.len(), 10);
}

#[test]
fn the_floor_that_is_free_again_opens_the_window() {
    let mut pair = Pair::new(Limits { in_flight_bytes_max: 100, ..Limits::default() });
    let group = pair.group(100);
    pair.in_group(group, 1, Own, "pppppppppppppppp");
    pair.run();
    pair.own(50, "o");
    assert!(!pair.client.group_has_room());
    pair.client.close_group(pair.now, group);
    assert_eq!(pair.client.undelivered_bytes(), 0);
    assert_eq!(completed(&ends(pair.run())), [50]);
}

#[test]
fn so_it_does_while_other_replies_are_due() {
    let mut pair = Pair::new(Limits { in_flight_bytes_max: 100, ..Limits::default() });
    let group = pair.group(100);
    pair.in_group(group, 1, Own, "o");
    pair.in_group(group, 2, Own, "o");
    pair.own(50, "o");
    pair.lose();
    pair.reply(&[part(1).repeat(20), complete(1), settled(1)].concat());
    assert!(!pair.client.group_has_room());
    pair.client.close_group(pair.now, group);
    assert_eq!((pair.client.in_flight(), pair.client.queued()), (2, 0));
}

#[test]
fn a_group_can_ask_for_its_replies_before_the_sync_point() {
    let mut pair = Pair::new(Limits::default());
    let group = pair.group(100);
    pair.in_group(group, 1, Member, "o");
    assert_eq!(pair.run(), [], "the server keeps it");
    pair.client.flush(pair.now, group);
    assert_eq!(pair.run(), [Out::Ended(1, End::Provisional)]);
    pair.client.flush(pair.now, group);
    pair.in_group(group, 2, Own, "o");
    pair.client.flush(pair.now, group);
    assert_eq!(completed(&pair.run()), [2]);
    assert_eq!(pair.server.flushes, 1, "where there is nothing to ask for none is sent");
}

#[test]
fn a_flush_stands_behind_what_is_still_queued() {
    let mut pair = Pair::new(limits(4));
    let group = pair.group(100);
    for id in 0..7 {
        pair.in_group(group, id, Member, "o");
    }
    let before = pair.client.queued_bytes();
    pair.client.flush(pair.now, group);
    pair.client.flush(pair.now, group);
    assert_eq!(pair.client.queued_bytes(), before + 7, "once");
    assert_eq!(ends(pair.run()).len(), 7);
}

#[test]
fn the_queue_of_a_group_is_bounded_but_takes_its_sync_point() {
    let mut pair = Pair::new(Limits { queue_max: 2, ..limits(1) });
    let group = pair.group(100);
    for id in 0..3 {
        pair.in_group(group, id, Member, "o");
    }
    let request = Request { group: Some(group), ..pair.request(3, Member) };
    assert_eq!(pair.submit(request, "o"), Err(SubmitError::QueueFull));
    pair.in_group(group, 4, Only, "");
    pair.client.close_group(pair.now, group);
    assert_eq!(ends(consume_all(&mut pair, group)).len(), 4);
}

#[test]
fn a_group_closed_within_a_segment_closes_the_connection() {
    let mut pair = Pair::new(Limits::default());
    let group = pair.group(100);
    pair.in_group(group, 1, Member, "o");
    pair.own(50, "o");
    pair.client.close_group(pair.now, group);
    let outs = ends(pair.take());
    let reason = CloseReason::Violation(Violation("a group was closed within a segment"));
    let not_sent = failure(Outcome::NotSent, Cause::Closed);
    assert_eq!(outs, [Out::Closed(reason), Out::Ended(1, not_sent), Out::Ended(50, not_sent)]);
}
