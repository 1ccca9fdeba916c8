//! The queue in front of the window, and the callers that wait for room in the queue.

use crate::toy::pair::{Out, Pair, completed, ends, failure, limits, seconds};
use onetrip_engine::{
    Cause, Limits, Outcome, Request, SubmitError, SyncPoint, Ticket, Time, Token,
};

const CANCELLED: onetrip_engine::End = failure(Outcome::NotSent, Cause::Cancelled);

/// One request in flight and a queue of one.
fn crowded() -> Pair {
    let mut pair = Pair::new(Limits { queue_max: 1, ..limits(1) });
    pair.owns(0..2);
    pair.take();
    pair
}

fn wait(pair: &mut Pair, token: u64) -> Ticket {
    pair.client.wait(Token(token), Time::NEVER).unwrap()
}

/// What a host does when its caller's turn comes: submits, and ends the turn.
fn take_turns(pair: &mut Pair) -> Vec<u64> {
    let mut turns = Vec::new();
    for _ in 0..100 {
        for out in pair.run() {
            if let Out::Room(token) = out {
                turns.push(token);
                let request = pair.request(token as u32, SyncPoint::Own);
                pair.submit(Request { reserved: true, ..request }, "o").unwrap();
                pair.client.end_turn(pair.now);
            }
        }
        if pair.client.is_idle() {
            return turns;
        }
    }
    panic!("stuck: {:?}", pair.client);
}

#[test]
fn a_queued_isolated_request_can_be_taken_back() {
    let mut pair = Pair::new(limits(1));
    let tickets = pair.owns(0..4);
    pair.take();
    assert!(pair.client.cancel(pair.now, tickets[2]));
    assert_eq!(pair.take(), [Out::Ended(2, CANCELLED)]);
    assert_eq!((pair.client.queued(), pair.client.queued_bytes()), (2, 18));
    assert!(!pair.client.cancel(pair.now, tickets[2]), "once");
    assert_eq!(completed(&ends(pair.run())), [0, 1, 3]);
    assert_eq!(pair.server.received, [0, 1, 3]);
}

#[test]
fn a_request_that_left_the_queue_can_not_be_taken_back() {
    let mut pair = Pair::new(limits(1));
    let tickets = pair.owns(0..3);
    pair.take();
    pair.write();
    pair.read();
    assert!(!pair.client.cancel(pair.now, tickets[0]));
    assert!(!pair.client.cancel(pair.now, tickets[1]), "on its way, though not written yet");
    assert!(pair.client.cancel(pair.now, tickets[2]));
}

#[test]
fn no_part_of_a_segment_can_be_taken_back() {
    let mut pair = Pair::new(limits(1));
    pair.own(0, "o");
    let segment = [pair.member(1, "o"), pair.member(2, "o"), pair.own(3, "o")];
    let lone = pair.only(4);
    for ticket in segment.into_iter().chain([lone]) {
        assert!(!pair.client.cancel(pair.now, ticket));
    }
    let outs = ends(pair.run());
    assert_eq!(outs.len(), 5);
    assert_eq!(pair.server.received, [0, 1, 2, 3, 4]);
}

#[test]
fn the_end_of_a_segment_that_is_partly_on_the_wire_can_not_be_taken_back() {
    let mut pair = Pair::new(limits(1));
    let gap = {
        pair.own(0, "o");
        pair.own(1, "o")
    };
    assert!(pair.client.cancel(pair.now, gap), "leaves a gap at the front of the queue");
    pair.run();
    assert_eq!(pair.member(2, "o"), Ticket::Sent);
    let end = pair.own(3, "o");
    assert!(matches!(end, Ticket::Queued(_)));
    assert!(!pair.client.cancel(pair.now, end));
    assert_eq!(ends(pair.run()).len(), 2);
}

#[test]
fn a_line_that_does_not_move_holds_no_more_than_those_in_it() {
    let mut pair = Pair::new(limits(1));
    pair.own(0, "o");
    let script = "p".repeat(1000);
    let keep: Vec<u32> = (1..=20_000).filter(|id| id % 1000 == 0).collect();
    for id in 1..=20_000 {
        let ticket = pair.own(id, &script);
        if id % 1000 != 0 {
            assert!(pair.client.cancel(pair.now, ticket));
        }
        if id % 100 == 0 {
            pair.take();
        }
    }
    assert_eq!(pair.client.queued(), 20);
    assert_eq!(pair.client.queued_bytes(), 20 * 1008);
    pair.run();
    assert_eq!(pair.server.received[1..], keep);
}

#[test]
fn tickets_stay_valid_when_gaps_are_closed() {
    let mut pair = Pair::new(limits(1));
    let tickets = pair.owns(0..300);
    for ticket in &tickets[1..290] {
        assert!(pair.client.cancel(pair.now, *ticket));
    }
    assert!(pair.client.cancel(pair.now, tickets[295]));
    assert!(!pair.client.cancel(pair.now, tickets[295]));
    assert!(!pair.client.cancel(pair.now, tickets[100]));
    pair.run();
    assert_eq!(pair.server.received, [0, 290, 291, 292, 293, 294, 296, 297, 298, 299]);
}

#[test]
fn callers_that_wait_get_their_turn_in_order() {
    let mut pair = crowded();
    for token in 2..6 {
        wait(&mut pair, token);
    }
    assert_eq!(pair.client.waiting(), 4);
    assert_eq!(take_turns(&mut pair), [2, 3, 4, 5]);
    assert_eq!(pair.server.received, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn one_turn_at_a_time() {
    let mut pair = crowded();
    for token in 2..6 {
        wait(&mut pair, token);
    }
    let rooms = |outs: &[Out]| outs.iter().filter(|out| matches!(out, Out::Room(_))).count();
    assert_eq!(rooms(&pair.run()), 1, "nobody knows how much each has");
    pair.client.end_turn(pair.now);
    assert_eq!(rooms(&pair.run()), 1);
}

#[test]
fn nobody_overtakes_a_caller_that_waits() {
    let mut pair = crowded();
    wait(&mut pair, 2);
    assert_eq!(pair.refused(3), SubmitError::QueueFull);
    let outs = pair.run();
    assert!(outs.contains(&Out::Room(2)));
    assert_eq!(pair.refused(3), SubmitError::QueueFull, "not during its turn either");
    assert!(!pair.client.has_room(1, 1));
    let request = pair.request(2, SyncPoint::Own);
    pair.submit(Request { reserved: true, ..request }, "o").unwrap();
    pair.client.end_turn(pair.now);
    pair.own(3, "o");
    pair.run();
    assert_eq!(pair.server.received, [0, 1, 2, 3]);
}

#[test]
fn the_line_for_room_in_the_queue_has_a_limit() {
    let mut pair =
        Pair::new(Limits { in_flight_max: 1, queue_max: 1, waiting_max: 2, ..Limits::default() });
    for id in 0..2 {
        let request = pair.request(id, SyncPoint::Own);
        pair.submit(request, "o").unwrap();
    }
    wait(&mut pair, 2);
    let ticket = wait(&mut pair, 3);
    assert_eq!(pair.client.wait(Token(4), Time::NEVER), None);
    assert!(pair.client.cancel(pair.now, ticket));
    assert!(pair.client.wait(Token(5), Time::NEVER).is_some());
}

#[test]
fn waiters_that_cancel_or_expire_leave_no_hole() {
    let mut pair = crowded();
    let tickets: Vec<Ticket> = (2..9)
        .map(|token| {
            let deadline = if token == 4 { Time::ZERO.after(seconds(1)) } else { Time::NEVER };
            pair.client.wait(Token(token), deadline).unwrap()
        })
        .collect();
    assert!(pair.client.cancel(pair.now, tickets[0]));
    assert!(pair.client.cancel(pair.now, tickets[4]));
    assert!(!pair.client.cancel(pair.now, tickets[4]));
    pair.later(seconds(1));
    let late = failure(Outcome::NotSent, Cause::Deadline);
    let expected = [Out::Ended(2, CANCELLED), Out::Ended(6, CANCELLED), Out::Ended(4, late)];
    assert_eq!(pair.take(), expected);
    assert_eq!(pair.client.waiting(), 4);
    assert_eq!(take_turns(&mut pair), [3, 5, 7, 8]);
}

#[test]
fn a_caller_may_pass_its_turn() {
    let mut pair = crowded();
    wait(&mut pair, 2);
    wait(&mut pair, 3);
    assert!(pair.run().contains(&Out::Room(2)));
    pair.client.end_turn(pair.now);
    assert_eq!(pair.take(), [Out::Room(3)]);
    pair.client.end_turn(pair.now);
    assert_eq!(pair.take(), [Out::Drained]);
}

#[test]
fn who_waits_though_there_is_room_gets_it_at_once() {
    let mut pair = Pair::new(Limits::default());
    wait(&mut pair, 1);
    assert_eq!(pair.take(), [Out::Room(1)]);
}

#[test]
fn without_a_queue_callers_wait_for_the_window() {
    for limits in [Limits { queue_max: 0, ..limits(1) }, Limits { queue_bytes_max: 0, ..limits(1) }]
    {
        let mut pair = Pair::new(limits);
        pair.own(0, "o");
        assert_eq!(pair.refused(1), SubmitError::QueueFull);
        for token in 1..4 {
            wait(&mut pair, token);
        }
        assert_eq!(take_turns(&mut pair), [1, 2, 3]);
    }
}

#[test]
fn ending_a_turn_that_nobody_has_changes_nothing() {
    let mut pair = crowded();
    pair.client.end_turn(pair.now);
    assert_eq!(completed(&ends(pair.run())), [0, 1]);
}
