//! Shared connections that drain for exclusive callers.

use onetrip_engine::pool::Limits;

use super::host::{Did, Host, max, millis, seconds};

/// A host at its maximum of connections: the first has two statements, the second one.
fn two_busy() -> Host {
    let mut host = Host::with(max(2), 2);
    for name in [0, 0, 1] {
        host.busy(name);
    }
    host
}

#[test]
fn at_the_maximum_the_least_loaded_is_claimed_and_granted_when_it_has_drained() {
    let mut host = two_busy();
    host.checkout(1);
    assert_eq!(host.take(), [Did::Drain(1)]);
    assert_eq!((host.pool.claimed(), host.pool.shared()), (1, 1));
    assert_eq!(host.place(), Some(0), "the claimed one takes nothing new");
    assert_eq!(host.drained(1), [Did::Granted(1, 1)]);
    assert_eq!(host.pool.claimed(), 0);
}

#[test]
fn there_are_as_many_claims_as_exclusive_callers_and_not_more() {
    let mut host = Host::with(max(3), 3);
    for name in 0..3 {
        host.busy(name);
    }
    host.checkout(1);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Drain(0), Did::Drain(2)]);
    assert_eq!((host.pool.claimed(), host.pool.shared()), (2, 1));
}

#[test]
fn a_claimed_connection_goes_to_the_front_of_the_line() {
    let mut host = two_busy();
    host.checkout(1);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Drain(1), Did::Drain(0)]);
    assert_eq!(host.drained(0), [Did::Granted(1, 0)]);
    assert_eq!(host.drained(1), [Did::Granted(2, 1)]);
}

#[test]
fn a_caller_that_gives_up_lifts_its_claim() {
    let mut host = two_busy();
    let ticket = host.checkout(1);
    host.take();
    assert!(host.give_up(ticket));
    assert_eq!(host.take(), [Did::Shared(1)]);
    assert_eq!(host.place(), Some(1));
    assert_eq!(host.drained(1), [], "a late report does no harm");
}

#[test]
fn the_claim_that_has_most_to_do_is_lifted() {
    let mut host = two_busy();
    host.checkout(1);
    let ticket = host.checkout(2);
    host.take();
    host.give_up(ticket);
    assert_eq!(host.take(), [Did::Shared(0)]);
}

#[test]
fn a_claim_is_lifted_when_another_connection_serves_its_caller() {
    let mut host = Host::with(max(2), 2);
    host.busy(0);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Granted(1, 1)]);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Drain(0)]);
    assert_eq!(host.release(1), [Did::Granted(2, 1), Did::Shared(0)]);
}

#[test]
fn below_the_maximum_nothing_is_claimed_while_one_is_being_opened() {
    let mut host = Host::with(max(2), 1);
    host.busy(0);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.pool.claimed(), 0);
}

#[test]
fn where_no_more_can_be_opened_at_once_the_rest_is_claimed() {
    let mut host = Host::with(Limits { opening_max: 1, ..max(9) }, 2);
    host.busy(0);
    host.busy(1);
    for token in 1..=3 {
        host.checkout(token);
    }
    assert_eq!(host.take(), [Did::Open(2), Did::Drain(0), Did::Drain(1)]);
}

#[test]
fn a_server_that_lets_nobody_in_makes_the_callers_share_what_there_is() {
    let mut host = Host::with(max(9), 1);
    host.busy(0);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.open_failed(1), [Did::Drain(0)]);
    assert_eq!(host.due(), [Did::Open(2)], "it goes on trying, and the claim stays");
    assert_eq!(host.drained(0), [Did::Granted(1, 0)]);
}

#[test]
fn an_attempt_is_not_counted_on_while_the_last_one_failed() {
    let mut host = Host::with(max(9), 1);
    host.pool.grow();
    assert_eq!(host.take(), [Did::Open(1)]);
    host.open_failed(1);
    host.pool.grow();
    assert_eq!(host.due(), [Did::Open(2)]);
    host.busy(0);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Drain(0)]);
}

#[test]
fn a_claim_stays_when_opening_becomes_possible_again() {
    let mut host = Host::with(max(2), 2);
    host.busy(0);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Granted(1, 1)]);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Drain(0)]);
    host.later(seconds(1));
    assert_eq!(host.lost(1), [Did::Open(2)]);
    assert_eq!(host.pool.claimed(), 1);
    assert_eq!(host.opened(2), [Did::Granted(2, 2), Did::Shared(0)]);
}

#[test]
fn with_one_connection_sessions_and_statements_take_turns() {
    let mut host = Host::with(max(1), 1);
    assert_eq!(host.place(), Some(0));
    host.checkout(1);
    assert_eq!(host.take(), [Did::Drain(0)]);
    for token in [2, 3] {
        assert_eq!(host.place(), None);
        host.wait_shared(token);
    }
    host.checkout(4);
    assert_eq!(host.take(), []);
    assert_eq!(host.drained(0), [Did::Granted(1, 0)]);
    let shared = [Did::Shared(0), Did::Placed(2, 0), Did::Placed(3, 0), Did::Drain(0)];
    assert_eq!(host.release(0), shared);
    assert_eq!(host.place(), None, "the session comes first");
    host.wait_shared(5);
    assert_eq!(host.take(), []);
    assert_eq!(host.drained(0), [Did::Granted(4, 0)]);
    assert_eq!(host.release(0), [Did::Shared(0), Did::Placed(5, 0)]);
}

#[test]
fn a_claim_that_is_lost_is_made_again_elsewhere() {
    let mut host = two_busy();
    host.checkout(1);
    assert_eq!(host.take(), [Did::Drain(1)]);
    assert_eq!(host.open_failed(0), [], "a report that fits nothing");
    host.later(seconds(1));
    assert_eq!(host.lost(1), [Did::Open(2)]);
    assert_eq!(host.open_failed(2), [Did::Drain(0)]);
}

#[test]
fn what_the_host_says_has_drained_is_granted_though_its_load_still_counts_another() {
    let mut host = two_busy();
    host.checkout(1);
    host.take();
    // A thread counts its statement before it checks whether the connection still takes it.
    host.pool.handle_drained(host.ids[1]);
    assert_eq!(host.take(), [Did::Granted(1, 1)]);
}

#[test]
fn a_slow_connection_is_claimed_only_if_there_is_no_other() {
    let mut host = two_busy();
    host.now = host.now.after(millis(50));
    let load = host.load(0);
    host.set(0, onetrip_engine::pool::Load { since: host.now, ..load });
    host.checkout(1);
    assert_eq!(host.take(), [Did::Drain(0)]);
}
