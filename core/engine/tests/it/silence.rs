//! A server that answers nothing any more to what was given up.

use std::time::Duration;

use onetrip_engine::{CancelEnd, CloseReason, Limits, Time};

use crate::toy::pair::*;
use crate::toy::*;

const PATIENCE: Duration = Duration::from_secs(10);

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
    pair.end(CancelEnd::Closed);
    for _ in 0..3 {
        pair.later(PATIENCE);
        assert!(!silent(&mut pair));
    }
    pair.want(2);
    pair.later(PATIENCE);
    assert!(silent(&mut pair));
}

#[test]
fn a_server_that_says_anything_is_waited_for() {
    let mut pair = Pair::new(Limits::default());
    pair.own(1, "o");
    pair.lose();
    pair.cancel(1);
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
fn what_one_caller_has_left_alone_ends_though_it_was_not_to_be_cancelled() {
    let mut pair = Pair::new(Limits::default());
    pair.owns(1..3);
    pair.lose();
    pair.client.handle_given_up(pair.now, true);
    assert_eq!(pair.take(), []);
    pair.later(PATIENCE);
    assert!(silent(&mut pair));
}

#[test]
fn where_all_was_answered_nothing_is_owed() {
    let mut pair = Pair::new(Limits::default());
    pair.client.handle_given_up(pair.now, true);
    assert!(!pair.client.is_given_up());
    assert_eq!(pair.client.poll_deadline().unwrap_or(Time::NEVER), Time::NEVER);
}
