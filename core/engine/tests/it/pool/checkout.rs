//! Exclusive callers that find a connection, or cause one to be opened.

use onetrip_engine::pool::{Condition, IdleOrder, Limits, Load};

use super::host::{Did, Host, IDLE, max, seconds};

#[test]
fn an_idle_connection_is_granted_at_once() {
    let mut host = Host::with(max(3), 1);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Granted(1, 0)]);
    assert_eq!((host.pool.exclusive(), host.pool.shared()), (1, 0));
}

#[test]
fn the_idle_order_says_which_one_is_granted() {
    for (idle_order, first) in [(IdleOrder::Lifo, 2), (IdleOrder::Fifo, 0)] {
        let mut host = Host::with(Limits { idle_order, ..max(3) }, 3);
        for name in 0..3 {
            host.now = host.now.after(seconds(1));
            host.set(name, Load { since: host.now, ..IDLE });
        }
        host.checkout(1);
        assert_eq!(host.take(), [Did::Granted(1, first)], "{idle_order:?}");
    }
}

#[test]
fn a_released_connection_is_the_one_that_was_used_last() {
    let mut host = Host::with(max(3), 3);
    host.checkout(1);
    let done = host.take();
    let [Did::Granted(1, name)] = done[..] else { panic!("{done:?}") };
    host.now = host.now.after(seconds(1));
    assert_eq!(host.release(name), [Did::Shared(name)]);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Granted(2, name)]);
}

#[test]
fn without_an_idle_one_a_connection_is_opened() {
    let mut host = Host::with(max(2), 1);
    host.busy(0);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Granted(1, 1)], "nobody is told that it is shared");
}

#[test]
fn a_connection_that_becomes_idle_in_the_meantime_is_granted() {
    let mut host = Host::with(max(2), 1);
    host.busy(0);
    host.checkout(1);
    host.take();
    assert_eq!(host.drained(0), [Did::Granted(1, 0)]);
    assert_eq!(host.opened(1), [Did::Shared(1)]);
}

#[test]
fn a_new_connection_goes_to_the_front_of_the_line_whoever_caused_it() {
    let mut host = Host::with(max(2), 1);
    host.checkout(1);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Granted(1, 0), Did::Open(1)]);
    host.checkout(3);
    assert_eq!(host.take(), []);
    assert_eq!(host.release(0), [Did::Granted(2, 0)], "the one that caused it is served already");
    assert_eq!(host.opened(1), [Did::Granted(3, 1)]);
}

#[test]
fn a_released_connection_takes_shared_work_again() {
    let mut host = Host::taken(1);
    assert_eq!(host.place(), None);
    for condition in [Condition::Clean, Condition::Dirty] {
        assert_eq!(host.release_as(0, condition), [Did::Shared(0)]);
        assert_eq!(host.idle(), 1);
        assert_eq!(host.place(), Some(0));
        host.drained(0);
        host.checkout(1);
        assert_eq!(host.take(), [Did::Granted(1, 0)]);
    }
}

#[test]
fn a_connection_released_before_its_replies_have_come_is_not_idle() {
    let mut host = Host::taken(1);
    host.busy(0);
    assert_eq!(host.release(0), [Did::Shared(0)]);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Drain(0)]);
    assert_eq!(host.drained(0), [Did::Granted(1, 0)]);
}

#[test]
fn a_broken_connection_is_forgotten_and_replaced_for_whoever_waits() {
    let mut host = Host::taken(1);
    host.checkout(1);
    assert_eq!(host.take(), []);
    host.later(seconds(1));
    assert_eq!(host.release_as(0, Condition::Broken), [Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Granted(1, 1)]);
    assert_eq!(host.release_as(1, Condition::Broken), []);
    assert_eq!(host.pool.connections(), 0);
}

#[test]
fn releasing_twice_takes_nothing_from_the_next_user_of_the_pool() {
    let mut host = Host::taken(1);
    assert_eq!(host.release(0), [Did::Shared(0)]);
    assert_eq!(host.release(0), []);
    assert_eq!((host.pool.shared(), host.pool.exclusive()), (1, 0));
}
