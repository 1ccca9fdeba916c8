//! Who is served next: one line for both kinds of caller.

use onetrip_engine::pool::Load;

use super::host::{Did, Host, IDLE, max, millis, seconds};

#[test]
fn exclusive_callers_are_served_in_order() {
    let mut host = Host::taken(1);
    for token in 1..=3 {
        host.checkout(token);
    }
    assert_eq!(host.take(), []);
    for token in 1..=3 {
        assert_eq!(host.release(0), [Did::Granted(token, 0)]);
    }
}

#[test]
fn shared_callers_at_the_front_are_placed_together_up_to_the_next_exclusive_one() {
    let mut host = Host::taken(1);
    host.wait_shared(1);
    host.wait_shared(2);
    host.checkout(3);
    host.wait_shared(4);
    assert_eq!(host.take(), []);
    let first = [Did::Shared(0), Did::Placed(1, 0), Did::Placed(2, 0), Did::Drain(0)];
    assert_eq!(host.release(0), first);
    assert_eq!(host.drained(0), [Did::Granted(3, 0)]);
    assert_eq!(host.release(0), [Did::Shared(0), Did::Placed(4, 0)]);
}

#[test]
fn a_shared_caller_does_not_overtake_an_exclusive_one_at_the_front() {
    let mut host = Host::taken(1);
    host.checkout(1);
    host.wait_shared(2);
    assert_eq!(host.take(), []);
    assert_eq!(host.release(0), [Did::Granted(1, 0)]);
}

#[test]
fn an_exclusive_caller_does_not_overtake_a_shared_one_at_the_front() {
    let mut host = Host::taken(1);
    host.wait_shared(1);
    host.checkout(2);
    assert_eq!(host.take(), []);
    assert_eq!(host.release(0), [Did::Shared(0), Did::Placed(1, 0), Did::Drain(0)]);
}

#[test]
fn a_new_connection_goes_to_the_shared_callers_if_they_are_first() {
    let mut host = Host::new(max(5));
    host.wait_shared(1);
    host.checkout(2);
    host.wait_shared(3);
    assert_eq!(host.take(), [Did::Open(0), Did::Open(1)]);
    // The second connection is being opened for the session, so the first serves all statements.
    let all = [Did::Shared(0), Did::Placed(1, 0), Did::Placed(3, 0)];
    assert_eq!(host.opened(0), all);
    assert_eq!(host.opened(1), [Did::Granted(2, 1)]);
}

#[test]
fn shared_callers_pass_an_exclusive_one_only_where_it_has_a_connection_on_its_way() {
    let mut host = Host::taken(2);
    host.checkout(1);
    host.wait_shared(2);
    assert_eq!(host.take(), []);
    host.busy(0);
    // It was released with replies outstanding. The session claims it, so the statement waits
    // behind.
    assert_eq!(host.release(0), [Did::Drain(0)]);
    host.busy(1);
    // The session has its claim and does not need this connection.
    assert_eq!(host.release(1), [Did::Shared(1), Did::Placed(2, 1)]);
    assert_eq!(host.drained(0), [Did::Granted(1, 0)]);
}

#[test]
fn no_more_are_placed_than_there_is_room_for() {
    let mut host = Host::taken(1);
    for token in 1..=5 {
        host.wait_shared(token);
    }
    assert_eq!(host.take(), []);
    host.set(0, Load { room: 3, ..IDLE });
    let three = [Did::Shared(0), Did::Placed(1, 0), Did::Placed(2, 0), Did::Placed(3, 0)];
    assert_eq!(host.release(0), three);
    assert_eq!(host.pool.waiting(), 2);
    host.set(0, Load { room: 1, ..host.load(0) });
    host.pool.handle_room();
    assert_eq!(host.take(), [Did::Placed(4, 0)]);
    host.set(0, Load { room: 9, ..host.load(0) });
    host.pool.handle_room();
    assert_eq!(host.take(), [Did::Placed(5, 0)]);
}

#[test]
fn statements_that_were_just_placed_make_their_connection_busy() {
    let mut host = Host::taken(1);
    host.wait_shared(1);
    host.take();
    host.pool.release(host.now, host.ids[0], onetrip_engine::pool::Condition::Clean);
    host.checkout(2);
    // The host has not taken the output that places 1, so its load still says idle.
    assert_eq!(host.take(), [Did::Shared(0), Did::Placed(1, 0), Did::Drain(0)]);
}

#[test]
fn the_time_that_a_caller_waited_comes_with_its_connection() {
    let mut host = Host::taken(1);
    host.wait_shared(1);
    host.now = host.now.after(seconds(2));
    host.checkout(2);
    host.take();
    host.now = host.now.after(millis(500));
    host.release(0);
    assert_eq!(host.waited, millis(2500));
    host.now = host.now.after(millis(1));
    host.drained(0);
    assert_eq!(host.waited, millis(501));
    host.release(0);
    host.checkout(3);
    host.take();
    assert_eq!(host.waited, millis(0));
}
