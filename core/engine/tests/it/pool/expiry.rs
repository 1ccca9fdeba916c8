//! Connections that expire: idle ones and old ones.

use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::pool::{Condition, Limits, Load};

use super::host::{Did, Host, IDLE, max, seconds};

const MINUTE: Duration = Duration::from_secs(60);

fn immortal(connections_max: usize) -> Limits {
    Limits { lifetime: Duration::MAX, ..max(connections_max) }
}

#[test]
fn an_idle_connection_is_closed_after_the_timeout() {
    let mut host = Host::with(immortal(2), 1);
    assert_eq!(host.pool.poll_deadline(), Some(host.now.after(10 * MINUTE)));
    assert_eq!(host.later(10 * MINUTE - Duration::from_nanos(1)), []);
    assert_eq!(host.later(Duration::from_nanos(1)), [Did::Close(0)]);
    assert_eq!(host.pool.poll_deadline(), None);
}

#[test]
fn statements_in_between_keep_it_though_nobody_told_the_pool() {
    let mut host = Host::with(immortal(2), 1);
    host.set(0, Load { since: Time::ZERO.after(9 * MINUTE), ..IDLE });
    assert_eq!(host.due(), []);
    assert_eq!(host.pool.poll_deadline(), Some(Time::ZERO.after(19 * MINUTE)));
    assert_eq!(host.due(), [Did::Close(0)]);
}

#[test]
fn a_busy_connection_is_not_closed() {
    let mut host = Host::with(immortal(2), 1);
    host.busy(0);
    for _ in 0..3 {
        assert_eq!(host.due(), []);
    }
}

#[test]
fn the_minimum_stays_however_long_it_is_idle() {
    let limits = Limits { connections_min: 2, ..immortal(3) };
    let mut host = Host::new(limits);
    host.take();
    host.opened(0);
    host.opened(1);
    host.pool.grow();
    host.take();
    host.opened(2);
    let closed = host.due();
    assert_eq!(closed.len(), 1, "{closed:?}");
    assert_eq!(host.pool.connections(), 2);
    for _ in 0..3 {
        let before = host.now;
        assert_eq!(host.due(), []);
        assert!(host.now.since(before) >= MINUTE, "looked for all the time");
    }
}

#[test]
fn the_time_that_the_host_kept_a_connection_counts_as_idle() {
    let mut host = Host::with(immortal(1), 1);
    host.checkout(1);
    host.take();
    assert_eq!(host.later(4 * MINUTE), []);
    let since = host.now;
    assert_eq!(host.later(7 * MINUTE), []);
    host.pool.release(since, host.ids[0], Condition::Clean);
    host.set(0, Load { since, ..IDLE });
    host.take();
    assert_eq!(host.pool.poll_deadline(), Some(since.after(10 * MINUTE)));
}

#[test]
fn an_idle_connection_is_closed_at_the_end_of_its_lifetime() {
    let mut host = Host::with(Limits { idle_timeout: Duration::MAX, ..max(2) }, 1);
    assert_eq!(host.due(), [Did::Close(0)]);
    assert!(host.now >= Time::ZERO.after(27 * MINUTE), "{:?}", host.now);
    assert!(host.now <= Time::ZERO.after(33 * MINUTE), "{:?}", host.now);
}

#[test]
fn connections_opened_together_do_not_expire_together() {
    let limits = Limits { idle_timeout: Duration::MAX, ..max(10) };
    let mut host = Host::with(limits, 10);
    let mut ends = Vec::new();
    while host.pool.connections() > 0 {
        for did in host.due() {
            assert!(matches!(did, Did::Close(_)));
            ends.push(host.now);
        }
    }
    assert_eq!(ends.len(), 10);
    ends.dedup();
    assert!(ends.len() >= 9, "{ends:?}");
    assert!(ends[ends.len() - 1].since(ends[0]) > MINUTE, "{ends:?}");
}

#[test]
fn one_that_is_never_idle_drains_at_the_end_of_its_lifetime() {
    let mut host = Host::with(max(2), 1);
    host.busy(0);
    let mut done = Vec::new();
    while done.is_empty() {
        done = host.due();
    }
    assert_eq!(done, [Did::Drain(0)]);
    assert!(host.now >= Time::ZERO.after(27 * MINUTE));
    assert_eq!(host.pool.retiring(), 1);
    assert_eq!(host.place(), None);
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.drained(0), [Did::Close(0)]);
}

#[test]
fn an_exclusive_one_is_closed_when_it_comes_back_after_its_lifetime() {
    let mut host = Host::taken(1);
    assert_eq!(host.later(33 * MINUTE), []);
    host.pool.checkout(host.now, onetrip_engine::Token(1), None);
    host.take();
    assert_eq!(host.release(0), [Did::Drain(0), Did::Close(0), Did::Open(1)]);
}

#[test]
fn and_not_before_the_replies_to_its_last_user_have_come() {
    let mut host = Host::taken(1);
    host.later(33 * MINUTE);
    host.busy(0);
    assert_eq!(host.release(0), [Did::Drain(0)]);
    assert_eq!(host.drained(0), [Did::Close(0)]);
}

#[test]
fn one_that_the_host_kept_beyond_its_lifetime_is_closed() {
    let mut host = Host::taken(1);
    let since = host.now.after(MINUTE);
    host.later(33 * MINUTE);
    host.pool.release(since, host.ids[0], Condition::Clean);
    assert_eq!(host.take(), [Did::Close(0)]);
}

#[test]
fn an_expired_connection_is_replaced_if_the_minimum_needs_it() {
    let limits = Limits { connections_min: 1, ..max(2) };
    let mut host = Host::new(limits);
    host.take();
    host.opened(0);
    host.busy(0);
    let mut done = Vec::new();
    while done.is_empty() {
        done = host.due();
    }
    assert_eq!(done, [Did::Drain(0), Did::Open(1)], "before the old one has drained");
}

#[test]
fn a_claimed_connection_is_granted_although_its_lifetime_ended_meanwhile() {
    let mut host = Host::with(Limits { wait_timeout: Duration::MAX, ..max(1) }, 1);
    host.busy(0);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Drain(0)]);
    assert_eq!(host.later(40 * MINUTE), []);
    assert_eq!(host.drained(0), [Did::Granted(1, 0)]);
    assert_eq!(host.release(0), [Did::Drain(0), Did::Close(0)]);
}

#[test]
fn durations_without_end_never_come() {
    let limits = Limits { idle_timeout: Duration::MAX, ..immortal(2) };
    let mut host = Host::with(limits, 2);
    assert_eq!(host.pool.poll_deadline(), None);
    assert_eq!(host.later(seconds(1_000_000_000)), []);
}
