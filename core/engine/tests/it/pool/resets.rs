//! Connections that were returned while their session may hold locks that other callers wait for.

use std::time::Duration;

use onetrip_engine::pool::{Condition, Limits, Load};

use super::host::{Did, Host, IDLE, max, millis, seconds};

fn released(condition: Condition) -> Host {
    let mut host = Host::taken(1);
    assert_eq!(host.release_as(0, condition), [Did::Shared(0)]);
    host
}

#[test]
fn a_connection_that_may_hold_something_is_reset_after_a_while() {
    let mut host = released(Condition::DirtyHolding);
    assert_eq!(host.pool.poll_deadline(), Some(host.now.after(millis(100))));
    assert_eq!(host.later(millis(99)), []);
    assert_eq!(host.later(millis(1)), [Did::Reset(0)]);
    assert_eq!(host.later(seconds(1)), [], "once");
}

#[test]
fn others_are_not() {
    for condition in [Condition::Clean, Condition::Dirty] {
        let mut host = released(condition);
        assert_eq!(host.later(seconds(1)), []);
    }
}

#[test]
fn the_next_exclusive_user_takes_the_reset_along() {
    let mut host = released(Condition::DirtyHolding);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Granted(1, 0)]);
    assert_eq!(host.release(0), [Did::Shared(0)]);
    assert_eq!(host.later(seconds(1)), []);
}

#[test]
fn so_does_a_statement_that_the_pool_placed() {
    let mut host = released(Condition::DirtyHolding);
    assert_eq!(host.place(), Some(0));
    host.drained(0);
    assert_eq!(host.later(seconds(1)), []);

    let mut host = Host::taken(1);
    host.wait_shared(1);
    host.take();
    assert_eq!(host.release_as(0, Condition::DirtyHolding).len(), 2);
    host.drained(0);
    assert_eq!(host.later(seconds(1)), []);
}

#[test]
fn and_one_that_was_sent_without_asking_it() {
    let mut host = released(Condition::DirtyHolding);
    host.now = host.now.after(millis(50));
    host.busy(0);
    assert_eq!(host.later(millis(50)), []);
    host.drained(0);
    assert_eq!(host.later(seconds(1)), []);
}

#[test]
fn replies_that_are_still_to_come_are_waited_for() {
    let mut host = Host::taken(1);
    host.busy(0);
    host.release_as(0, Condition::DirtyHolding);
    host.now = host.now.after(millis(1));
    assert_eq!(host.later(seconds(1)), []);
    host.set(0, Load { since: host.now, ..IDLE });
    assert_eq!(host.later(millis(99)), []);
    assert_eq!(host.later(millis(101)), [Did::Reset(0)]);
}

#[test]
fn without_a_while_it_is_reset_at_once_and_not_looked_at_all_the_time() {
    let limits = Limits { reset_idle_after: Duration::ZERO, ..max(1) };
    let mut host = Host::with(limits, 1);
    host.checkout(1);
    host.take();
    host.busy(0);
    assert_eq!(host.release_as(0, Condition::DirtyHolding), [Did::Shared(0)]);
    assert_eq!(host.later(Duration::ZERO), []);
    assert_eq!(host.pool.poll_deadline(), Some(host.now.after(millis(1))));
    host.set(0, Load { since: host.now, ..IDLE });
    assert_eq!(host.due(), [Did::Reset(0)]);
}

#[test]
fn the_time_that_the_host_kept_it_counts() {
    let mut host = Host::taken(1);
    let since = host.now;
    host.later(millis(300));
    host.pool.release(since, host.ids[0], Condition::DirtyHolding);
    assert_eq!(host.take(), [Did::Reset(0), Did::Shared(0)]);
}

#[test]
fn a_connection_that_takes_the_place_of_another_inherits_nothing() {
    let mut host = released(Condition::DirtyHolding);
    host.now = host.now.after(millis(1));
    host.lost(0);
    host.pool.grow();
    let mut done = host.due();
    done.extend(host.opened(1));
    assert_eq!(done, [Did::Open(1), Did::Shared(1)]);
    assert_eq!(host.ids[0].index(), host.ids[1].index());
    assert_eq!(host.later(seconds(1)), []);
}
