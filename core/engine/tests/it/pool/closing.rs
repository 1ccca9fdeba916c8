//! The end of a pool.

use onetrip_engine::pool::{Cause, Condition};

use super::host::{Did, Host, max, seconds};

#[test]
fn a_pool_without_connections_closes_at_once() {
    let mut host = Host::new(max(1));
    host.pool.close();
    assert!(!host.pool.is_closed());
    assert_eq!(host.take(), [Did::Closed]);
    assert!(host.pool.is_closed());
    host.pool.close();
    assert_eq!(host.take(), [], "once");
}

#[test]
fn idle_connections_are_closed_and_busy_ones_when_they_have_drained() {
    let mut host = Host::with(max(2), 2);
    host.busy(0);
    host.pool.close();
    let done = host.take();
    assert!(done.contains(&Did::Close(1)) && done.contains(&Did::Drain(0)), "{done:?}");
    assert_eq!(done.len(), 2);
    assert_eq!(host.drained(0), [Did::Close(0), Did::Closed]);
}

#[test]
fn exclusive_connections_are_closed_when_they_come_back() {
    for condition in [Condition::Clean, Condition::DirtyHolding] {
        let mut host = Host::taken(1);
        host.pool.close();
        assert_eq!(host.take(), []);
        let done = [Did::Drain(0), Did::Close(0), Did::Closed];
        assert_eq!(host.release_as(0, condition), done);
    }
    let mut host = Host::taken(1);
    host.pool.close();
    assert_eq!(host.release_as(0, Condition::Broken), [Did::Closed]);
}

#[test]
fn callers_in_line_fail_and_so_do_those_that_come_later() {
    let mut host = Host::taken(1);
    host.checkout(1);
    let ticket = host.wait_shared(2);
    host.take();
    host.pool.close();
    let failed = [Did::Failed(1, Cause::Closed), Did::Failed(2, Cause::Closed)];
    assert_eq!(host.take(), failed);
    assert!(!host.give_up(ticket));
    assert_eq!(host.place(), None);
    host.wait_shared(3);
    host.checkout(4);
    let failed = [Did::Failed(3, Cause::Closed), Did::Failed(4, Cause::Closed)];
    assert_eq!(host.take(), failed);
    assert_eq!(host.release(0), [Did::Drain(0), Did::Close(0), Did::Closed]);
    host.checkout(5);
    assert_eq!(host.take(), [Did::Failed(5, Cause::Closed)]);
}

#[test]
fn what_is_being_opened_is_given_up_and_closed_if_it_opens_all_the_same() {
    let mut host = Host::new(max(2));
    host.checkout(1);
    host.take();
    host.pool.close();
    let done = [Did::Failed(1, Cause::Closed), Did::Close(0), Did::Closed];
    assert_eq!(host.take(), done);
    assert_eq!(host.opened(0), [Did::Close(0)]);
    assert_eq!(host.open_failed(0), []);
}

#[test]
fn a_claimed_connection_is_closed_when_it_has_drained() {
    let mut host = Host::with(max(1), 1);
    host.busy(0);
    host.checkout(1);
    host.take();
    host.pool.close();
    assert_eq!(host.take(), [Did::Failed(1, Cause::Closed)]);
    assert_eq!(host.drained(0), [Did::Close(0), Did::Closed]);
}

#[test]
fn statements_that_were_just_placed_are_waited_for() {
    let mut host = Host::taken(1);
    host.wait_shared(1);
    host.take();
    host.pool.release(host.now, host.ids[0], Condition::Clean);
    host.checkout(2);
    assert_eq!(host.place(), None, "it has decided; the outputs are on their way");
    host.pool.close();
    let done = [Did::Shared(0), Did::Placed(1, 0), Did::Drain(0), Did::Failed(2, Cause::Closed)];
    assert_eq!(host.take(), done);
    assert_eq!(host.drained(0), [Did::Close(0), Did::Closed]);
}

#[test]
fn a_lost_connection_ends_the_wait_for_it() {
    let mut host = Host::taken(1);
    host.pool.close();
    host.take();
    assert_eq!(host.lost(0), [Did::Closed]);
}

#[test]
fn nothing_is_opened_and_nothing_is_due_in_a_pool_that_closes() {
    let mut host = Host::taken(1);
    host.pool.close();
    host.take();
    assert!(!host.pool.can_grow());
    host.pool.grow();
    assert_eq!(host.later(seconds(10_000)), []);
    assert_eq!(host.pool.poll_deadline(), None);
}
