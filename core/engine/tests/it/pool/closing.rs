//! The end of a pool.

use onetrip_engine::Token;
use onetrip_engine::pool::{Cause, Condition, Limits, TextKey};

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
fn callers_in_line_are_served_and_those_that_come_later_fail() {
    let mut host = Host::taken(1);
    host.checkout(1);
    host.wait_shared(2);
    host.take();
    host.pool.close();
    assert_eq!(host.take(), []);
    assert_eq!(host.place(), None);
    let late = host.wait_shared(3);
    host.checkout(4);
    let failed = [Did::Failed(3, Cause::Closed), Did::Failed(4, Cause::Closed)];
    assert_eq!(host.take(), failed);
    assert!(!host.give_up(late));
    assert_eq!(host.release(0), [Did::Granted(1, 0)]);
    let done = host.release(0);
    assert_eq!(done, [Did::Shared(0), Did::Placed(2, 0), Did::Drain(0)]);
    assert_eq!(host.drained(0), [Did::Close(0), Did::Closed]);
    host.checkout(5);
    assert_eq!(host.take(), [Did::Failed(5, Cause::Closed)]);
}

#[test]
fn the_first_statements_of_a_pool_are_served_although_it_closes() {
    let mut host = Host::new(Limits { connections_min: 2, ..max(3) });
    host.wait_for(1, TextKey::ALONE);
    host.wait_for(2, TextKey::ALONE);
    host.wait_for(3, TextKey::ALONE);
    host.pool.close();
    assert_eq!(host.take(), [Did::Open(0), Did::Open(1), Did::Open(2)]);
    assert_eq!(host.opened(1), [Did::Shared(1), Did::Placed(1, 1)]);
    assert_eq!(host.drained(1), [Did::Placed(2, 1)]);
    // Nobody is left for the third, which is given up.
    let done = host.opened(0);
    assert_eq!(done[..2], [Did::Shared(0), Did::Placed(3, 0)]);
    assert_eq!(done.len(), 5, "{done:?}");
    assert_eq!(host.drained(1), [Did::Close(1)]);
    assert_eq!(host.drained(0), [Did::Close(0), Did::Closed], "and none for the minimum");
}

#[test]
fn what_is_being_opened_is_given_up_and_closed_if_it_opens_all_the_same() {
    let mut host = Host::new(max(2));
    let ticket = host.checkout(1);
    host.take();
    host.pool.close();
    assert_eq!(host.take(), []);
    assert!(host.give_up(ticket));
    assert_eq!(host.take(), [Did::Close(0), Did::Closed]);
    assert_eq!(host.opened(0), [Did::Close(0)]);
    assert_eq!(host.open_failed(0), []);
}

#[test]
fn callers_in_line_fail_when_the_time_to_close_is_over() {
    let mut host = Host::new(max(2));
    host.checkout(1);
    host.wait_shared(2);
    host.take();
    host.pool.close();
    assert_eq!(host.take(), []);
    host.pool.cut();
    let failed = [Did::Failed(1, Cause::Closed), Did::Failed(2, Cause::Closed)];
    let done = host.take();
    assert_eq!(done[..2], failed);
    assert_eq!(done.last(), Some(&Did::Closed));
    assert!(done.contains(&Did::Close(0)), "{done:?}");
    host.pool.cut();
    assert_eq!(host.take(), [], "once");
}

#[test]
fn callers_in_line_have_their_deadlines_in_a_pool_that_closes() {
    let mut host = Host::taken(1);
    host.pool.wait_shared(host.now, Token(1), TextKey::UNTOLD, Some(host.now.after(seconds(1))));
    host.checkout(2);
    host.pool.close();
    assert_eq!(host.take(), []);
    assert_eq!(host.due(), [Did::Failed(1, Cause::Deadline)]);
    assert_eq!(host.due(), [Did::Failed(2, Cause::Deadline)]);
    assert_eq!(host.release(0), [Did::Drain(0), Did::Close(0), Did::Closed]);
}

#[test]
fn callers_in_line_fail_if_no_connection_can_be_opened_for_them() {
    let mut host = Host::new(max(2));
    host.wait_shared(1);
    host.checkout(2);
    host.pool.close();
    assert_eq!(host.take(), [Did::Open(0), Did::Open(1)]);
    assert_eq!(host.open_failed(0), [], "the other attempt may succeed");
    let failed = [Did::Failed(1, Cause::OpenFailed), Did::Failed(2, Cause::OpenFailed)];
    let done = host.open_failed(1);
    assert_eq!(done[..2], failed);
    assert_eq!(done[2..], [Did::Closed]);

    // It was failing before.
    let mut host = Host::new(max(1));
    host.wait_shared(1);
    host.take();
    assert_eq!(host.open_failed(0), []);
    host.pool.close();
    assert_eq!(host.take(), [Did::Failed(1, Cause::OpenFailed), Did::Closed]);
}

#[test]
fn a_connection_that_is_left_serves_the_line_if_no_other_can_be_opened() {
    let mut host = Host::with(max(2), 1);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Granted(1, 0)]);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Open(1)]);
    host.pool.close();
    assert_eq!(host.open_failed(1), []);
    assert_eq!(host.release(0), [Did::Granted(2, 0)]);
    assert_eq!(host.release(0), [Did::Drain(0), Did::Close(0), Did::Closed]);
}

#[test]
fn another_connection_is_opened_for_the_line_if_one_is_lost() {
    let mut host = Host::taken(1);
    host.wait_shared(1);
    host.pool.close();
    host.take();
    host.now = host.now.after(seconds(1));
    assert_eq!(host.lost(0), [Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Shared(1), Did::Placed(1, 1), Did::Drain(1)]);
    assert_eq!(host.drained(1), [Did::Close(1), Did::Closed]);
}

#[test]
fn a_claimed_connection_serves_who_claimed_it_and_is_closed_when_it_has_drained() {
    let mut host = Host::with(max(1), 1);
    host.busy(0);
    let ticket = host.checkout(1);
    assert_eq!(host.take(), [Did::Drain(0)]);
    host.pool.close();
    assert_eq!(host.take(), []);
    assert!(host.give_up(ticket));
    assert_eq!(host.take(), []);
    assert_eq!(host.drained(0), [Did::Close(0), Did::Closed]);

    let mut host = Host::with(max(1), 1);
    host.busy(0);
    host.checkout(1);
    host.pool.close();
    assert_eq!(host.take(), [Did::Drain(0)]);
    assert_eq!(host.drained(0), [Did::Granted(1, 0)]);
    assert_eq!(host.release(0), [Did::Drain(0), Did::Close(0), Did::Closed]);
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
    let done = [Did::Shared(0), Did::Placed(1, 0), Did::Drain(0)];
    assert_eq!(host.take(), done);
    assert_eq!(host.drained(0), [Did::Granted(2, 0)]);
    assert_eq!(host.release(0), [Did::Drain(0), Did::Close(0), Did::Closed]);
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
