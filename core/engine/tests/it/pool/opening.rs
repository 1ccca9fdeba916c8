//! Opening connections: how many at once, which caller gets them, and what failures mean.

use onetrip_engine::pool::{Cause, Limits, OpenFailure};

use super::host::{Did, Host, max, millis, seconds};

#[test]
fn the_minimum_is_opened_before_anybody_needs_it() {
    let mut host = Host::new(Limits { connections_min: 2, ..max(5) });
    assert_eq!(host.take(), [Did::Open(0), Did::Open(1)]);
    assert_eq!(host.opened(0), [Did::Shared(0)]);
    assert_eq!(host.opened(1), [Did::Shared(1)]);
}

#[test]
fn a_connection_counts_as_one_from_the_moment_it_is_asked_for() {
    let mut host = Host::new(max(2));
    for token in 1..=5 {
        host.checkout(token);
    }
    assert_eq!(host.take(), [Did::Open(0), Did::Open(1)]);
    assert_eq!((host.pool.connections(), host.pool.opening()), (2, 2));
}

#[test]
fn no_more_are_opened_at_once_than_allowed() {
    let mut host = Host::new(Limits { opening_max: 2, ..max(10) });
    for token in 1..=4 {
        host.checkout(token);
    }
    assert_eq!(host.take(), [Did::Open(0), Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Granted(1, 1), Did::Open(2)]);
}

#[test]
fn statements_that_wait_share_one_opening() {
    let mut host = Host::new(max(10));
    for token in 1..=4 {
        host.wait_shared(token);
    }
    assert_eq!(host.take(), [Did::Open(0)]);
    assert_eq!(host.opened(0).len(), 5);
}

#[test]
fn a_failed_attempt_gives_its_place_back_at_once() {
    let mut host = Host::new(max(2));
    host.checkout(1);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Open(0), Did::Open(1)]);
    assert_eq!(host.open_failed(0), []);
    assert_eq!(host.pool.connections(), 1);
    assert_eq!(host.pool.open_failures(), 1);
    assert_eq!(host.opened(1), [Did::Granted(1, 1), Did::Open(2)], "the success ends the pause");
    assert_eq!(host.pool.opens(), 1);
}

#[test]
fn while_the_server_is_away_callers_wait_until_their_own_deadlines() {
    let mut host = Host::new(Limits { wait_timeout: seconds(1), ..max(2) });
    host.checkout(1);
    host.take();
    assert_eq!(host.open_failed(0), []);
    host.now = host.now.after(millis(10));
    host.wait_shared(2);
    let mut done = Vec::new();
    let mut name = 1;
    while host.pool.waiting() > 0 {
        let now = host.due();
        if let Some(Did::Open(opened)) = now.first() {
            assert_eq!(*opened, name);
            name += 1;
            done.extend(host.open_failed(*opened));
        } else {
            done.extend(now);
        }
    }
    assert!(name >= 3, "it went on trying");
    assert_eq!(done, [Did::Failed(1, Cause::OpenFailed), Did::Failed(2, Cause::OpenFailed)]);
}

/// P37.
#[test]
fn after_a_permanent_failure_everybody_fails_whom_only_a_new_connection_could_serve() {
    let mut host = Host::new(max(2));
    host.checkout(1);
    host.wait_shared(2);
    host.take();
    let failed = [Did::Failed(1, Cause::OpenFailed), Did::Failed(2, Cause::OpenFailed)];
    assert_eq!(host.open_failed_for_good(0), failed);
}

#[test]
fn those_that_come_during_the_pause_fail_too_and_the_next_one_causes_an_attempt() {
    let mut host = Host::new(max(2));
    host.checkout(1);
    host.take();
    host.open_failed_for_good(0);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Failed(2, Cause::OpenFailed)]);
    assert_eq!(host.pool.poll_deadline(), None, "nobody needs an attempt");
    host.now = host.now.after(millis(100));
    host.checkout(3);
    assert_eq!(host.take(), [Did::Open(1)]);
    host.checkout(4);
    assert_eq!(host.take(), [], "an attempt is under way");
    assert_eq!(host.opened(1), [Did::Granted(3, 1), Did::Open(2)]);
}

/// P71.
#[test]
fn a_failure_that_says_nothing_of_the_next_attempt_fails_those_alone_who_waited_for_it() {
    let mut host = Host::new(max(1));
    host.checkout(1);
    host.take();
    assert_eq!(host.open_failed_for_good(0), [Did::Failed(1, Cause::OpenFailed)]);
    host.pool.forget_failure();
    host.checkout(2);
    assert_eq!(host.take(), [], "it waits for the end of the pause");
    assert_eq!(host.due(), [Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Granted(2, 1)]);
}

#[test]
fn a_failure_that_is_not_permanent_any_more_lets_callers_wait_again() {
    let mut host = Host::new(max(1));
    host.checkout(1);
    host.take();
    host.open_failed_for_good(0);
    host.now = host.now.after(millis(100));
    host.checkout(2);
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.open_failed(1), []);
    assert_eq!(host.due(), [Did::Open(2)]);
    assert_eq!(host.opened(2), [Did::Granted(2, 2)]);
}

#[test]
fn a_permanent_failure_fails_nobody_whom_another_connection_may_serve() {
    let mut host = Host::with(max(2), 1);
    host.checkout(1);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Granted(1, 0), Did::Open(1)]);
    assert_eq!(host.open_failed_for_good(1), []);
    assert_eq!(host.release(0), [Did::Granted(2, 0)]);
    host.checkout(3);
    assert_eq!(host.take(), []);
    host.now = host.now.after(millis(1));
    assert_eq!(host.lost(0), [Did::Failed(3, Cause::OpenFailed)], "now there is no other");
}

#[test]
fn a_deadline_while_one_is_being_opened_blames_no_failure() {
    let mut host = Host::new(Limits { wait_timeout: seconds(1), ..max(2) });
    host.checkout(1);
    host.take();
    assert_eq!(host.later(seconds(1)), [Did::Failed(1, Cause::Deadline)]);
    assert_eq!(host.opened(0), [Did::Shared(0)]);
}

#[test]
fn a_report_about_an_opening_that_is_gone_changes_nothing() {
    let mut host = Host::new(max(1));
    host.checkout(1);
    host.take();
    host.open_failed(0);
    host.due();
    assert_eq!(host.ids[0].index(), host.ids[1].index(), "the place is used again");
    assert_ne!(host.ids[0], host.ids[1]);
    assert_eq!(host.open_failed(0), []);
    assert_eq!(host.pool.open_failures(), 1);
    assert_eq!(host.opened(0), [Did::Close(0)], "nobody wants it any more");
    assert_eq!(host.opened(1), [Did::Granted(1, 1)]);
    assert_eq!(host.opened(1), []);
    assert_eq!(host.pool.opens(), 1);
}

#[test]
fn who_opens_a_client_waits_for_the_next_attempt_only_where_a_server_was_met() {
    let passes = OpenFailure { is_permanent: false, may_pass: true };
    let fails = OpenFailure::default();
    let wrong = OpenFailure { is_permanent: true, may_pass: true };
    for (failure, ends) in [(passes, false), (fails, true), (wrong, true)] {
        let mut host = Host::new(max(2));
        host.pool.connects();
        host.wait_shared(1);
        assert_eq!(host.take(), [Did::Open(0)]);
        assert_eq!(host.open_failed_so(0, failure), ends);
        let told: &[Did] = if ends { &[Did::Failed(1, Cause::OpenFailed)] } else { &[] };
        assert_eq!(host.take(), told, "{failure:?}");
    }
    // Later callers wait: there was a server.
    let mut host = Host::new(max(1));
    host.pool.connects();
    host.wait_shared(1);
    host.take();
    host.opened(0);
    host.lost(0);
    host.wait_shared(2);
    host.later(seconds(10));
    host.take();
    assert!(!host.open_failed_so(1, fails));
    let mut node = Host::new(max(1));
    node.pool.serves_node();
    node.wait_shared(1);
    node.take();
    assert!(node.open_failed_so(0, passes), "another node may have taken over");
}
