//! A cancel treats requests that share a sync point as one: it hits all of them, and all are sent
//! again.

use crate::toy::pair::{Out, Pair, completed, failure, seconds};
use crate::toy::{self, cancelled, complete, settled};
use onetrip_engine::{
    CancelEnd, Cause, End, Limits, Outcome, Request, SyncPoint, Time, Token, Wanted,
};

const CANCELLED: End = failure(Outcome::Rejected, Cause::Server);
const LATE: End = failure(Outcome::Unknown, Cause::Deadline);

fn done(id: u32) -> Vec<u8> {
    [complete(id), settled(id)].concat()
}

fn want(pair: &mut Pair, id: u64) -> Wanted {
    pair.client.want_cancel(pair.now, Token(id))
}

/// How many sync points were not written yet.
fn syncs_in(pair: &Pair) -> usize {
    pair.client.transmit().windows(toy::SYNC.len()).filter(|bytes| *bytes == toy::SYNC).count()
}

/// 1 is in flight, and 2 to 4 share a sync point behind it. A cancel of 1 was sent.
fn a_shared_sync_group_behind_a_victim() -> Pair {
    let mut pair = Pair::new(Limits::default());
    pair.resend(1, "o");
    pair.joins(2..5);
    pair.lose();
    assert_eq!(want(&mut pair, 1), Wanted::Noted(Token(1)));
    assert_eq!(pair.take(), [Out::Cancel]);
    assert!(pair.client.begin_cancel(pair.now));
    pair
}

/// 1 to 3 share a sync point; each has a deadline, in seconds from the start. 4 is behind them.
fn late_shared_sync(deadlines: [u64; 3]) -> Pair {
    let mut pair = Pair::new(Limits::default());
    for (id, deadline) in (1..).zip(deadlines) {
        let deadline = Time::ZERO.after(seconds(deadline));
        let request = pair.request(id, SyncPoint::Own);
        let late = Request { joins: true, cancel_late: true, deadline, ..request };
        pair.submit_joining(late, "o");
    }
    pair.resend(4, "o");
    pair.lose();
    pair
}

#[test]
fn one_whose_neighbours_are_awaited_is_not_cancelled() {
    let mut pair = Pair::new(Limits::default());
    pair.joins(1..4);
    pair.lose();
    for id in 1..4 {
        assert_eq!(want(&mut pair, id), Wanted::NotPossible);
    }
    pair.reply(&[complete(1), complete(2), done(3)].concat());
    assert_eq!(completed(&pair.take()), [1, 2, 3]);
}

#[test]
fn one_that_is_alone_is_cancelled_and_nobody_joins_it() {
    let mut pair = Pair::new(Limits::default());
    pair.join(1, "o");
    assert_eq!(want(&mut pair, 1), Wanted::Noted(Token(1)));
    pair.join(2, "o");
    pair.lose();
    assert_eq!(pair.take(), [Out::Cancel]);
    assert!(pair.client.begin_cancel(pair.now));
    pair.reply(&[cancelled(1), settled(1), done(2)].concat());
    assert_eq!(pair.take(), [Out::Ended(1, CANCELLED), Out::Ended(2, End::Complete)]);
}

#[test]
fn one_in_the_queue_that_is_to_be_cancelled_joins_nobody() {
    for (wanted, syncs) in [(false, 1), (true, 3)] {
        let mut pair = Pair::new(Limits { in_flight_max: 3, ..Limits::default() });
        pair.owns(1..4);
        pair.joins(4..7);
        if wanted {
            assert_eq!(want(&mut pair, 5), Wanted::Noted(Token(5)));
        }
        pair.lose();
        pair.reply(&[done(1), done(2), done(3)].concat());
        assert_eq!(syncs_in(&pair), syncs);
    }
}

#[test]
fn a_shared_sync_group_that_is_hit_comes_again_once_each_by_itself() {
    for hit in 2..5 {
        let mut pair = a_shared_sync_group_behind_a_victim();
        let answered: Vec<u8> = (2..hit).flat_map(complete).collect();
        pair.reply(&[done(1), answered, cancelled(hit), settled(4)].concat());
        let restarted = [Out::Restarted(2), Out::Restarted(3), Out::Restarted(4)];
        assert_eq!(pair.take()[..], [&[Out::Ended(1, End::Complete)][..], &restarted].concat());
        assert!(pair.client.transmit().is_empty(), "the cancel has not ended");
        pair.client.handle_cancel_end(pair.now, CancelEnd::Closed);
        pair.lose();
        // The grace period of the cancel lasts, and each request was sent a second time.
        pair.reply(&[done(2), cancelled(3), settled(3), done(4)].concat());
        let complete = |id| Out::Ended(id, End::Complete);
        assert_eq!(pair.take(), [complete(2), Out::Ended(3, CANCELLED), complete(4)]);
        assert!(pair.client.is_idle());
    }
}

#[test]
fn one_that_the_server_cancels_for_itself_fails_alone() {
    let mut pair = Pair::new(Limits::default());
    pair.joins(1..4);
    pair.lose();
    pair.reply(&[complete(1), cancelled(2), settled(3)].concat());
    assert_eq!(pair.take(), [Out::Restarted(1), Out::Ended(2, CANCELLED), Out::Restarted(3)]);
}

#[test]
fn one_that_came_again_for_a_neighbour_protects_those_in_front_of_it() {
    let mut pair = Pair::new(Limits::default());
    pair.joins(1..3);
    pair.resend(3, "o");
    pair.lose();
    pair.reply(&[cancelled(1), settled(2)].concat());
    assert_eq!(pair.take(), [Out::Ended(1, CANCELLED), Out::Restarted(2)]);
    pair.lose();
    assert_eq!(want(&mut pair, 3), Wanted::Noted(Token(3)));
    assert_eq!(pair.take(), [Out::NotCancelled(3)]);
}

#[test]
fn those_that_wait_for_the_end_of_a_cancel_share_a_sync_point() {
    let mut pair = a_shared_sync_group_behind_a_victim();
    pair.joins(5..8);
    assert!(pair.client.transmit().is_empty() && pair.client.queued() == 3);
    pair.reply(&[cancelled(1), settled(1), complete(2), complete(3), done(4)].concat());
    pair.client.handle_cancel_end(pair.now, CancelEnd::Closed);
    assert_eq!(syncs_in(&pair), 1);
}

#[test]
fn a_shared_sync_group_is_cancelled_when_all_of_it_are_late() {
    let mut pair = late_shared_sync([1, 3, 2]);
    for (now, late) in [(1, 1), (1, 3)] {
        pair.later(seconds(now));
        assert_eq!(pair.take(), [Out::Ended(late, LATE)], "someone waits for 2");
    }
    pair.later(seconds(1));
    assert_eq!(pair.take(), [Out::Ended(2, LATE), Out::Cancel]);
    assert!(pair.client.begin_cancel(pair.now));
    pair.reply(&[complete(1), cancelled(2), settled(3), done(4)].concat());
    assert_eq!(pair.take(), [Out::Ended(4, End::Complete)]);
    pair.client.handle_cancel_end(pair.now, CancelEnd::Closed);
    assert!(pair.client.is_idle() && pair.client.transmit().is_empty());
}

#[test]
fn the_last_one_that_is_awaited_is_cancelled_for_all() {
    let mut pair = late_shared_sync([1, 9, 1]);
    pair.later(seconds(1));
    assert_eq!(pair.take(), [Out::Ended(1, LATE), Out::Ended(3, LATE)]);
    assert_eq!(want(&mut pair, 2), Wanted::Noted(Token(2)));
    assert_eq!(pair.take(), [Out::Cancel]);
    assert!(pair.client.begin_cancel(pair.now));
    pair.reply(&[complete(1), cancelled(2), settled(3)].concat());
    assert_eq!(pair.take(), [Out::Ended(2, CANCELLED)]);
}

#[test]
fn what_may_not_come_again_protects_a_late_shared_sync() {
    let mut pair = late_shared_sync([1, 1, 1]);
    pair.own(5, "o");
    pair.lose();
    pair.later(seconds(1));
    let outs = pair.take();
    assert!(!outs.contains(&Out::Cancel) && !pair.client.is_held(), "{outs:?}");
    pair.reply(&[complete(1), complete(2), done(3), done(4), done(5)].concat());
    assert_eq!(completed(&pair.take()), [4, 5]);
}

/// 1 is late, its caller cancels 2, and the cancel hits 1: 2 must not run again without a caller.
#[test]
fn one_that_was_to_be_cancelled_is_not_run_again() {
    let mut pair = Pair::new(Limits::default());
    for (id, deadline) in [(1, 1), (2, 99)] {
        let deadline = Time::ZERO.after(seconds(deadline));
        let request = pair.request(id, SyncPoint::Own);
        pair.submit_joining(Request { joins: true, cancel_late: true, deadline, ..request }, "o");
    }
    pair.lose();
    pair.later(seconds(1));
    pair.take();
    assert_eq!(pair.client.want_cancel(pair.now, Token(2)), Wanted::Noted(Token(2)));
    assert_eq!(pair.take(), [Out::Cancel]);
    assert!(pair.client.begin_cancel(pair.now));
    pair.reply(&[cancelled(1), settled(2)].concat());
    pair.client.handle_cancel_end(pair.now, CancelEnd::Closed);
    let rejected = failure(Outcome::Rejected, Cause::Cancelled);
    assert_eq!(pair.take(), [Out::Ended(2, rejected)]);
}
