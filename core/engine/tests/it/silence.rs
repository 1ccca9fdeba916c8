//! A server that answers nothing any more to what was given up.

use std::time::Duration;

use onetrip_engine::{CancelEnd, CloseReason, Limits, Request, SyncPoint, Time, Token, Wanted};

use crate::toy::pair::*;
use crate::toy::*;

const PATIENCE: Duration = Duration::from_secs(10);

fn gone(pair: &mut Pair, id: u64) {
    pair.client.handle_caller_gone(Token(id));
    pair.client.handle_given_up(pair.now);
}

fn silent(pair: &mut Pair) -> bool {
    pair.take().contains(&Out::Closed(CloseReason::Silent))
}

/// P76.
#[test]
fn a_connection_that_is_busy_for_nobody_ends_once_the_server_was_silent_for_long() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "o");
    pair.lose();
    pair.cancel(1);
    gone(&mut pair, 1);
    pair.end(CancelEnd::Lost);
    pair.later(PATIENCE - Duration::from_millis(1));
    assert!(!silent(&mut pair));
    pair.later(Duration::from_millis(1));
    assert!(silent(&mut pair));
}

#[test]
fn who_waits_for_a_request_keeps_a_silent_connection_until_he_gives_it_up_too() {
    let mut pair = Pair::new(Limits::default());
    pair.resend(1, "o");
    pair.resend(2, "o");
    pair.lose();
    pair.cancel(1);
    gone(&mut pair, 1);
    pair.end(CancelEnd::Closed);
    for _ in 0..3 {
        pair.later(PATIENCE);
        assert!(!silent(&mut pair));
    }
    gone(&mut pair, 2);
    pair.later(PATIENCE);
    assert!(silent(&mut pair));
}

#[test]
fn a_server_that_says_anything_is_waited_for() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "o");
    pair.lose();
    pair.cancel(1);
    gone(&mut pair, 1);
    pair.end(CancelEnd::Closed);
    pair.later(PATIENCE / 2);
    pair.reply(&part(1));
    pair.later(PATIENCE - Duration::from_millis(1));
    assert!(!silent(&mut pair));
    pair.reply(&[complete(1), settled(1)].concat());
    assert!(pair.client.is_idle());
    assert_eq!(pair.client.poll_deadline(), None);
}

/// Such is a COMMIT, which no cancel is sent for, and what stands in front of it.
#[test]
fn what_its_callers_have_left_alone_ends_though_it_was_not_to_be_cancelled() {
    let mut pair = Pair::new(Limits::default());
    pair.owns(1..3);
    pair.lose();
    gone(&mut pair, 1);
    gone(&mut pair, 2);
    assert_eq!(pair.take(), []);
    pair.later(PATIENCE);
    assert!(silent(&mut pair));
}

#[test]
fn who_comes_behind_what_was_given_up_is_waited_for() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "o");
    pair.lose();
    gone(&mut pair, 1);
    pair.own(2, "o");
    pair.lose();
    pair.later(PATIENCE);
    assert!(!silent(&mut pair));
    pair.reply(&[complete(1), settled(1)].concat());
    assert!(!pair.client.is_given_up());
    assert_eq!(pair.client.poll_deadline(), None);
}

#[test]
fn who_wants_a_cancel_and_waits_for_what_becomes_of_it_is_waited_for() {
    for end in [CancelEnd::Closed, CancelEnd::NotSent, CancelEnd::Lost] {
        let mut pair = Pair::new(Limits::default());
        pair.own(1, "o");
        pair.lose();
        pair.cancel(1);
        pair.end(end);
        for _ in 0..3 {
            pair.later(PATIENCE);
            assert!(!silent(&mut pair), "{end:?}");
        }
    }
}

#[test]
fn a_silence_that_somebody_waited_out_begins_anew_when_he_is_late() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "o");
    let deadline = Time::ZERO.after(3 * PATIENCE);
    let late = Request { deadline, ..pair.request(2, SyncPoint::Own) };
    pair.submit(late, "o").unwrap();
    pair.lose();
    gone(&mut pair, 1);
    pair.later(2 * PATIENCE);
    assert!(!silent(&mut pair));
    pair.later(PATIENCE);
    assert!(!silent(&mut pair));
    pair.later(PATIENCE);
    assert!(silent(&mut pair));
}

#[test]
fn readers_that_share_a_sync_point_and_leave_together_are_cancelled() {
    let mut pair = Pair::new(Limits::default());
    pair.joins(1..4);
    pair.lose();
    let all = [1, 2, 3].map(Token);
    let wanted = pair.client.want_cancel_all(pair.now, &all);
    assert_eq!(wanted, all.map(|token| (token, Wanted::Noted(token))));
    assert_eq!(pair.take(), [Out::Cancel]);
}

#[test]
fn readers_that_share_a_sync_point_and_leave_one_by_one_are_cancelled_with_the_last() {
    let mut pair = Pair::new(Limits::default());
    pair.joins(1..3);
    pair.lose();
    assert_eq!(pair.client.want_cancel(pair.now, Token(1)), Wanted::NotPossible);
    gone(&mut pair, 1);
    assert_eq!(pair.client.want_cancel(pair.now, Token(2)), Wanted::Noted(Token(2)));
    assert_eq!(pair.take(), [Out::Cancel]);
}

#[test]
fn where_all_was_answered_nothing_is_owed() {
    let mut pair = Pair::new(Limits::default());
    pair.client.handle_given_up(pair.now);
    assert!(!pair.client.is_given_up());
    assert_eq!(pair.client.poll_deadline().unwrap_or(Time::NEVER), Time::NEVER);
}
