//! Deadlines, limits of the line, and callers that give up.

use std::time::Duration;

use onetrip_engine::Token;
use onetrip_engine::pool::{Cause, Limits, TextKey};

use super::host::{Did, Host, max, millis, seconds};

#[test]
fn a_caller_fails_when_the_wait_timeout_is_over() {
    let mut host = Host::taken(1);
    host.checkout(1);
    host.wait_shared(2);
    host.take();
    assert_eq!(host.later(seconds(30) - millis(1)), []);
    let failed = [Did::Failed(1, Cause::Deadline), Did::Failed(2, Cause::Deadline)];
    assert_eq!(host.later(millis(1)), failed);
    assert_eq!(host.release(0), [Did::Shared(0)]);
}

#[test]
fn its_own_deadline_goes_before_the_timeout_in_both_directions() {
    let mut host = Host::taken(1);
    let deadline = |host: &Host, n| Some(host.now.after(seconds(n)));
    host.pool.checkout(host.now, Token(1), deadline(&host, 1));
    host.pool.wait_shared(host.now, Token(2), TextKey::UNTOLD, deadline(&host, 60));
    host.take();
    assert_eq!(host.due(), [Did::Failed(1, Cause::Deadline)]);
    assert_eq!(host.later(seconds(58)), []);
    assert_eq!(host.due(), [Did::Failed(2, Cause::Deadline)]);
    assert_eq!(host.now.as_nanos(), seconds(60).as_nanos() as u64);
}

#[test]
fn a_deadline_of_now_gets_a_connection_at_once_or_never() {
    let mut host = Host::with(max(1), 1);
    host.pool.checkout(host.now, Token(1), Some(host.now));
    assert_eq!(host.take(), [Did::Granted(1, 0)]);
    host.pool.checkout(host.now, Token(2), Some(host.now));
    assert_eq!(host.take(), []);
    assert_eq!(host.due(), [Did::Failed(2, Cause::Deadline)]);
}

#[test]
fn deadlines_are_looked_at_once_a_millisecond() {
    let mut host = Host::taken(1);
    for token in 0..10 {
        let deadline = host.now.after(Duration::from_micros(100 * token));
        host.pool.checkout(host.now, Token(token), Some(deadline));
    }
    assert_eq!(host.later(Duration::ZERO), [Did::Failed(0, Cause::Deadline)]);
    assert_eq!(host.due().len(), 9);
    assert_eq!(host.now.as_nanos(), 1_000_000);
}

#[test]
fn no_deadline_is_left_when_nobody_waits() {
    let limits = Limits { lifetime: Duration::MAX, idle_timeout: Duration::MAX, ..max(1) };
    let mut host = Host::with(limits, 1);
    host.checkout(1);
    host.take();
    let ticket = host.checkout(2);
    host.take();
    assert!(host.pool.poll_deadline().is_some());
    host.give_up(ticket);
    host.take();
    assert_eq!(host.pool.poll_deadline(), None);
    host.wait_shared(3);
    host.take();
    host.release(0);
    assert_eq!(host.pool.poll_deadline(), None);
}

#[test]
fn the_newest_are_refused_when_the_line_is_full() {
    let mut host = Host::with(Limits { waiting_max: 2, ..max(1) }, 1);
    for token in 1..=3 {
        host.checkout(token);
        host.take();
    }
    host.wait_shared(4);
    assert_eq!(host.take(), [Did::Failed(4, Cause::LineFull)]);
    host.checkout(5);
    host.wait_shared(6);
    host.checkout(7);
    let refused = [7, 6, 5].map(|token| Did::Failed(token, Cause::LineFull));
    assert_eq!(host.take(), refused);
    assert_eq!(host.pool.waiting(), 2);
    assert_eq!(host.release(0), [Did::Granted(2, 0)]);
}

#[test]
fn where_nobody_may_wait_a_caller_is_served_at_once_or_refused() {
    let mut host = Host::with(Limits { waiting_max: 0, ..max(2) }, 1);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Granted(1, 0)]);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Open(1)], "a connection is opened for it");
    host.checkout(3);
    assert_eq!(host.take(), [Did::Failed(3, Cause::LineFull)]);
    assert_eq!(host.opened(1), [Did::Granted(2, 1)]);
    host.release(1);
    host.busy(1);
    host.checkout(3);
    assert_eq!(host.take(), [Did::Failed(3, Cause::LineFull)], "and nothing is claimed");
    assert_eq!(host.pool.claimed(), 0);
}

#[test]
fn where_nobody_may_wait_the_first_caller_hears_why_no_connection_could_be_opened() {
    let mut host = Host::new(Limits { waiting_max: 0, ..max(2) });
    assert_eq!(host.place(), None);
    host.wait_shared(1);
    assert_eq!(host.take(), [Did::Open(0)]);
    assert_eq!(host.open_failed(0), [Did::Failed(1, Cause::OpenFailed)]);
    host.wait_shared(2);
    assert_eq!(host.take(), [Did::Failed(2, Cause::OpenFailed)], "before the next attempt");
}

#[test]
fn a_caller_that_gives_up_ends_without_a_word() {
    let mut host = Host::taken(1);
    let first = host.checkout(1);
    let second = host.wait_shared(2);
    host.checkout(3);
    host.take();
    assert!(host.give_up(first));
    assert!(host.give_up(second));
    assert!(!host.give_up(first), "once");
    assert_eq!(host.take(), []);
    assert_eq!(host.release(0), [Did::Granted(3, 0)]);
}

#[test]
fn one_that_gives_up_between_others_leaves_no_hole() {
    let mut host = Host::taken(1);
    let mut tickets: Vec<_> = (0..100).map(|token| host.checkout(token)).collect();
    host.take();
    for ticket in tickets.drain(1..99) {
        assert!(host.give_up(ticket));
    }
    assert_eq!(host.pool.waiting(), 2);
    assert_eq!(host.release(0), [Did::Granted(0, 0)]);
    assert_eq!(host.release(0), [Did::Granted(99, 0)]);
}

#[test]
fn a_grant_that_crossed_with_giving_up_is_handed_back() {
    let mut host = Host::taken(1);
    let ticket = host.checkout(1);
    host.checkout(2);
    host.take();
    assert_eq!(host.release(0), [Did::Granted(1, 0)]);
    assert!(!host.give_up(ticket), "its output was taken");
    assert_eq!(host.release(0), [Did::Granted(2, 0)]);
}

#[test]
fn a_caller_that_has_failed_can_not_give_up() {
    let mut host = Host::taken(1);
    let ticket = host.checkout(1);
    host.take();
    host.later(seconds(30));
    assert!(!host.give_up(ticket));
}

#[test]
fn an_opening_that_nobody_waits_for_any_more_becomes_idle() {
    let mut host = Host::new(max(2));
    let ticket = host.checkout(1);
    assert_eq!(host.take(), [Did::Open(0)]);
    host.give_up(ticket);
    assert_eq!(host.take(), []);
    assert_eq!(host.opened(0), [Did::Shared(0)]);
    assert_eq!(host.idle(), 1);
}

#[test]
fn the_getters_count() {
    let mut host = Host::with(max(4), 3);
    assert_eq!(host.idle(), 3);
    host.busy(0);
    assert_eq!(host.idle(), 2);
    for token in 1..=3 {
        host.checkout(token);
    }
    host.take();
    let pool = &host.pool;
    assert_eq!((pool.connections(), pool.opening(), pool.exclusive()), (4, 1, 2));
    assert_eq!((pool.shared(), pool.claimed(), pool.retiring()), (1, 0, 0));
    assert_eq!((pool.waiting(), pool.opens(), pool.open_failures()), (1, 3, 0));
    assert_eq!(host.idle(), 0);
    host.checkout(4);
    host.take();
    assert_eq!((host.pool.shared(), host.pool.claimed(), host.pool.waiting()), (0, 1, 2));
    host.pool.retire(host.ids[0]);
    host.take();
    assert_eq!((host.pool.claimed(), host.pool.retiring()), (0, 1));
}

#[test]
fn who_is_not_served_is_told_the_settings_that_decide_about_it() {
    let limits = Limits { wait_timeout: millis(250), waiting_max: 7, ..max(3) };
    let (full, late) = (Cause::LineFull.told(&limits), Cause::Deadline.told(&limits));
    assert!(full.contains("7 do already (waiting_max)"), "{full}");
    assert!(full.contains("connections_max (3)"), "{full}");
    assert!(late.contains("up to 3 (connections_max)"), "{late}");
    assert!(late.contains("at most 250 ms (wait_timeout_ms)"), "{late}");
    let codes = [Cause::LineFull, Cause::Deadline, Cause::Closed].map(Cause::code);
    assert_eq!(codes, ["waiting_full", "wait_timeout", "closed"]);
}
