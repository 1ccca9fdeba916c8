//! Connections that break, in every state, and reports that come late.

use onetrip_engine::pool::{Cause, Condition, Limits};

use super::host::{Did, Host, max, millis, seconds};

fn old(mut host: Host) -> Host {
    host.now = host.now.after(seconds(1));
    host
}

#[test]
fn a_lost_idle_connection_leaves_and_is_replaced_only_if_it_is_needed() {
    let mut host = old(Host::with(max(2), 1));
    assert_eq!(host.lost(0), []);
    assert_eq!(host.pool.connections(), 0);
    let minimum = Limits { connections_min: 1, ..max(2) };
    let mut host = Host::new(minimum);
    host.take();
    host.opened(0);
    let mut host = old(host);
    assert_eq!(host.lost(0), [Did::Open(1)]);
}

#[test]
fn a_lost_exclusive_connection_leaves_and_its_release_is_ignored() {
    let mut host = old(Host::taken(1));
    host.checkout(1);
    assert_eq!(host.take(), []);
    assert_eq!(host.lost(0), [Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Granted(1, 1)]);
    assert_eq!(host.release(0), [], "the place belongs to another connection now");
    assert_eq!(host.release_as(0, Condition::Broken), []);
    assert_eq!(host.pool.exclusive(), 1);
}

#[test]
fn a_lost_claimed_connection_is_replaced_for_its_caller() {
    let mut host = old(Host::with(max(1), 1));
    host.busy(0);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Drain(0)]);
    assert_eq!(host.lost(0), [Did::Open(1)]);
    assert_eq!(host.pool.claimed(), 0);
    assert_eq!(host.drained(0), []);
    assert_eq!(host.opened(1), [Did::Granted(1, 1)]);
}

#[test]
fn a_lost_retiring_connection_makes_room() {
    let mut host = old(Host::with(max(1), 1));
    host.busy(0);
    host.pool.retire(host.ids[0]);
    assert_eq!(host.take(), [Did::Drain(0)]);
    host.wait_shared(1);
    assert_eq!(host.take(), [], "it still counts");
    assert_eq!(host.lost(0), [Did::Open(1)]);
}

#[test]
fn a_connection_lost_while_it_is_being_opened_is_one_that_could_not_be_opened() {
    let mut host = Host::new(max(1));
    host.checkout(1);
    host.take();
    assert_eq!(host.lost(0), []);
    assert_eq!(host.pool.open_failures(), 1);
    assert_eq!(host.due(), [Did::Open(1)]);
}

#[test]
fn no_late_report_touches_the_connection_that_has_the_place_now() {
    let mut host = old(Host::with(max(1), 1));
    host.lost(0);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.ids[0].index(), host.ids[1].index());
    assert_eq!(host.lost(0), []);
    assert_eq!(host.open_failed(0), []);
    host.opened(1);
    host.pool.retire(host.ids[0]);
    assert_eq!(host.drained(0), []);
    assert_eq!(host.lost(0), []);
    assert_eq!(host.pool.exclusive(), 1);
}

#[test]
fn a_retired_connection_is_closed_when_it_has_drained_and_another_takes_over() {
    let mut host = Host::with(max(2), 1);
    host.busy(0);
    host.pool.retire(host.ids[0]);
    assert_eq!(host.take(), [Did::Drain(0)]);
    assert_eq!(host.place(), None);
    host.wait_shared(1);
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.drained(0), [Did::Close(0)]);
    assert_eq!(host.opened(1), [Did::Shared(1), Did::Placed(1, 1)]);
}

#[test]
fn a_retired_connection_that_is_idle_is_closed_at_once() {
    let mut host = Host::with(max(2), 1);
    host.pool.retire(host.ids[0]);
    assert_eq!(host.take(), [Did::Drain(0), Did::Close(0)]);
}

#[test]
fn a_retired_exclusive_connection_is_closed_on_release() {
    let mut host = Host::taken(1);
    host.pool.retire(host.ids[0]);
    host.checkout(1);
    assert_eq!(host.take(), []);
    assert_eq!(host.release(0), [Did::Drain(0), Did::Close(0), Did::Open(1)]);
}

#[test]
fn a_retired_claimed_connection_is_closed_and_its_caller_gets_another() {
    let mut host = Host::with(max(1), 1);
    host.busy(0);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Drain(0)]);
    host.pool.retire(host.ids[0]);
    assert_eq!(host.take(), [], "it drains already");
    assert_eq!(host.drained(0), [Did::Close(0), Did::Open(1)]);
}

#[test]
fn a_connection_retired_while_it_is_being_opened_is_closed_when_it_is_open() {
    let mut host = Host::new(max(1));
    host.checkout(1);
    host.take();
    host.pool.retire(host.ids[0]);
    assert_eq!(host.opened(0), [Did::Close(0), Did::Open(1)]);
}

#[test]
fn what_the_host_is_told_of_a_connection_that_was_lost_is_only_who_was_to_have_it() {
    let mut host = old(Host::taken(1));
    host.wait_shared(1);
    host.take();
    host.pool.release(host.now, host.ids[0], Condition::Clean);
    assert_eq!(host.place(), Some(0), "it has decided; the outputs are on their way");
    host.pool.handle_lost(host.now, host.ids[0]);
    assert_eq!(host.take(), [Did::Placed(1, 0)]);
    assert_eq!(host.pool.connections(), 0);
    assert_eq!(host.pool.waiting(), 0);
}

/// They were placed before the pool heard that the connection had ended.
#[test]
fn callers_whose_connection_had_ended_wait_again_in_their_order_and_within_their_time() {
    let mut host = Host::new(Limits { wait_timeout: seconds(1), ..max(1) });
    for token in 1..=2 {
        host.wait_shared(token);
    }
    assert_eq!(host.take(), [Did::Open(0)]);
    assert_eq!(host.opened(0), [Did::Shared(0), Did::Placed(1, 0), Did::Placed(2, 0)]);
    host.again(1, true);
    host.again(2, true);
    assert_eq!(host.later(millis(200)), [Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Shared(1), Did::Placed(1, 1), Did::Placed(2, 1)]);
    host.again(1, true);
    host.again(2, true);
    assert_eq!(host.later(millis(300)), [Did::Open(2)]);
    let late = |token| Did::Failed(token, Cause::Deadline);
    assert_eq!(host.later(millis(500)), [late(1), late(2)]);
}

#[test]
fn a_caller_whose_connection_is_about_to_be_left_waits_for_another_one() {
    let mut host = Host::with(max(2), 1);
    host.wait_shared(2);
    assert_eq!(host.take(), [Did::Placed(2, 0)]);
    host.again(2, false);
    assert_eq!(host.take(), [Did::Drain(0), Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Shared(1), Did::Placed(2, 1)]);
    assert_eq!(host.drained(0), [Did::Close(0)]);
}
