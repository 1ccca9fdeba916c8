//! Shared statements that find a connection at once.

use onetrip_engine::Time;
use onetrip_engine::pool::{Limits, Load};

use super::host::{Did, Host, IDLE, max, seconds};

#[test]
fn a_statement_goes_to_an_idle_connection_and_opens_none() {
    let mut host = Host::with(max(3), 2);
    host.busy(0);
    assert_eq!(host.place(), Some(1));
    assert_eq!(host.take(), []);
}

#[test]
fn where_none_is_idle_it_goes_to_the_least_loaded_and_one_more_is_opened() {
    let mut host = Host::with(max(3), 2);
    for name in [0, 0, 1] {
        host.busy(name);
    }
    assert_eq!(host.place(), Some(1));
    assert_eq!(host.take(), [Did::Open(2)]);
}

#[test]
fn one_is_opened_in_the_background_at_a_time() {
    let mut host = Host::with(max(9), 1);
    host.busy(0);
    assert_eq!(host.place(), Some(0));
    assert!(!host.pool.can_grow(), "one is planned");
    assert_eq!(host.place(), Some(0));
    assert_eq!(host.take(), [Did::Open(1)]);
    assert!(!host.pool.can_grow(), "one is being opened");
    assert_eq!(host.place(), Some(0));
    assert_eq!(host.take(), []);
    assert_eq!(host.opened(1), [Did::Shared(1)]);
    assert_eq!(host.place(), Some(1));
    assert_eq!(host.place(), Some(1), "it has less to do");
    assert_eq!(host.take(), [Did::Open(2)]);
}

#[test]
fn none_is_opened_beyond_the_maximum() {
    let mut host = Host::with(max(2), 2);
    host.busy(0);
    host.busy(1);
    assert!(!host.pool.can_grow());
    assert_eq!(host.place(), Some(0));
    assert_eq!(host.take(), []);
}

#[test]
fn an_empty_pool_opens_one_and_the_statement_waits() {
    let mut host = Host::new(max(5));
    assert_eq!(host.place(), None);
    host.wait_shared(1);
    assert_eq!(host.take(), [Did::Open(0)]);
    assert_eq!(host.opened(0), [Did::Shared(0), Did::Placed(1, 0)]);
}

#[test]
fn nothing_is_placed_on_a_claimed_an_exclusive_or_a_retiring_connection() {
    let mut host = Host::with(max(3), 3);
    host.checkout(1);
    let done = host.take();
    let [Did::Granted(1, exclusive)] = done[..] else { panic!("{done:?}") };
    let [claimed, retiring] =
        [0, 1, 2].into_iter().filter(|name| *name != exclusive).collect::<Vec<_>>()[..]
    else {
        panic!()
    };
    host.busy(claimed);
    host.busy(retiring);
    host.pool.retire(host.ids[retiring]);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Drain(retiring), Did::Drain(claimed)]);
    assert_eq!(host.place(), None);
}

#[test]
fn a_statement_that_waits_is_not_overtaken_by_one_that_comes_later() {
    let full = Load { unanswered: 9, room: 0, ..IDLE };
    let mut host = Host::with(max(1), 1);
    host.set(0, full);
    assert_eq!(host.place(), None);
    host.wait_shared(1);
    assert_eq!(host.take(), []);
    host.set(0, Load { room: 1, ..full });
    assert_eq!(host.place(), None, "the room is for the one that waits");
    host.pool.handle_room();
    assert_eq!(host.place(), None, "and it takes all of it");
    assert_eq!(host.take(), [Did::Placed(1, 0)]);
}

#[test]
fn the_idle_connection_that_was_used_last_is_taken_again() {
    let mut host = Host::with(max(3), 3);
    let since = |n| Load { since: Time::ZERO.after(seconds(n)), ..IDLE };
    for (name, idle) in [(0, since(1)), (1, since(3)), (2, since(2))] {
        host.set(name, idle);
    }
    host.now = Time::ZERO.after(seconds(4));
    assert_eq!(host.place(), Some(1));
}

#[test]
fn growing_on_request_opens_one() {
    let mut host = Host::with(max(2), 1);
    assert!(host.pool.can_grow());
    host.pool.grow();
    host.pool.grow();
    assert_eq!(host.take(), [Did::Open(1)]);
    host.opened(1);
    assert!(!host.pool.can_grow());
    host.pool.grow();
    assert_eq!(host.take(), []);
}

#[test]
fn values_that_no_pool_can_work_with_are_replaced() {
    let zero = Limits {
        connections_max: 0,
        connections_min: 7,
        opening_max: 0,
        backoff_min: seconds(0),
        backoff_max: seconds(0),
        idle_timeout: seconds(0),
        lifetime: seconds(0),
        slow_head: seconds(0),
        ..Limits::default()
    };
    let host = Host::new(zero);
    let limits = host.pool.limits();
    assert_eq!((limits.connections_max, limits.connections_min, limits.opening_max), (1, 1, 1));
    assert!(limits.backoff_min > seconds(0) && limits.backoff_max >= limits.backoff_min);
    assert!(limits.idle_timeout > seconds(0) && limits.lifetime > seconds(0));
    assert!(limits.slow_head > seconds(0));
}

#[test]
fn a_statement_waits_for_another_connection_rather_than_behind_a_slow_one() {
    let mut host = Host::with(max(2), 1);
    host.busy(0);
    host.now = host.now.after(seconds(60));
    assert_eq!(host.place(), None);
    host.wait_shared(1);
    host.wait_shared(2);
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Shared(1), Did::Placed(1, 1), Did::Placed(2, 1)]);
}

#[test]
fn where_no_other_connection_can_come_a_statement_goes_behind_a_slow_one() {
    let mut host = Host::with(max(1), 1);
    host.busy(0);
    host.now = host.now.after(seconds(60));
    assert_eq!(host.place(), Some(0));
}

#[test]
fn a_statement_that_waited_goes_behind_a_slow_one_when_no_other_can_be_opened() {
    let mut host = Host::with(max(2), 1);
    host.busy(0);
    host.now = host.now.after(seconds(60));
    host.wait_shared(1);
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.open_failed(1), [Did::Placed(1, 0)]);
    assert_eq!(host.place(), Some(0), "the next need not wait");
}

#[test]
fn a_statement_that_waited_goes_on_the_slow_connection_once_that_answers() {
    let mut host = Host::with(max(2), 1);
    host.busy(0);
    host.busy(0);
    host.now = host.now.after(seconds(60));
    host.wait_shared(1);
    assert_eq!(host.take(), [Did::Open(1)]);
    host.set(0, Load { since: host.now, ..host.load(0) });
    host.pool.handle_room();
    assert_eq!(host.take(), [Did::Placed(1, 0)]);
}
