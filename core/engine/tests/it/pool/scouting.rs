//! Scouts, which look for another server while the present one is silent on all connections.

use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::pool::{Limits, Pool};

use super::host::{Did, Host, millis, seconds};

const AFTER: Duration = Duration::from_secs(2);

/// A host with this many connections, which is all that it may have, and a statement on each.
fn busy(connections: usize) -> Host {
    let limits = Limits { connections_max: connections, scout_after: AFTER, ..Limits::default() };
    let mut host = Host::with(limits, connections);
    (0..connections).for_each(|name| host.busy(name));
    host
}

/// Lets time pass until the pool does something, and says how long that took.
fn next(host: &mut Host) -> (Duration, Vec<Did>) {
    let begin = host.now;
    loop {
        let done = host.due();
        if !done.is_empty() || host.now.since(begin) > seconds(100) {
            return (host.now.since(begin), done);
        }
    }
}

#[test]
fn a_server_that_is_silent_on_all_connections_is_looked_past_by_one_scout() {
    let mut host = busy(3);
    let (waited, done) = next(&mut host);
    assert_eq!(done, [Did::Scout]);
    assert!(waited >= AFTER && waited <= 2 * AFTER, "{waited:?}");
    assert_eq!(host.pool.connections(), 3, "it is none of the pool's");
    // One at a time, however long it is out.
    assert_eq!(host.later(seconds(100)), []);
}

#[test]
fn scouts_go_at_pauses_that_grow_to_ten_seconds_and_differ_between_clients() {
    let pauses = |seed| {
        let mut host = busy(2);
        host.pool = Pool::new(host.pool.limits().clone(), seed);
        host.pool.grow();
        let [Did::Open(name)] = host.take()[..] else { panic!("it opens one") };
        host.opened(name);
        host.busy(name);
        let mut pauses = Vec::new();
        for _ in 0..30 {
            let (waited, done) = next(&mut host);
            assert_eq!(done, [Did::Scout]);
            pauses.push(waited);
            host.pool.handle_scouted(host.now);
        }
        pauses
    };
    let (one, other) = (pauses(1), pauses(2));
    assert!(one.iter().skip(1).all(|pause| (AFTER / 2..=seconds(10)).contains(pause)), "{one:?}");
    assert!(one[29] >= seconds(5), "{one:?}");
    assert_ne!(one, other);
}

#[test]
fn no_scout_goes_while_any_connection_answers() {
    let mut host = busy(3);
    for _ in 0..50 {
        host.later(millis(500));
        // One answers, and has the next statement at once; the others compute.
        host.drained(1);
        host.busy(1);
        assert_eq!(host.take(), []);
    }
    assert_eq!(next(&mut host).1, [Did::Scout], "and now it does not");
}

#[test]
fn no_scout_goes_where_nothing_is_awaited_or_an_attempt_is_under_way() {
    let limits = Limits { connections_max: 2, scout_after: AFTER, ..Limits::default() };
    let mut host = Host::with(limits.clone(), 2);
    assert_eq!(host.later(seconds(60)), [], "all are idle");
    let mut host = Host::with(limits, 1);
    host.busy(0);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.later(seconds(20)), [], "the attempt meets the next server as well");
    assert_eq!(host.later(AFTER), []);
}

/// Sessions whose statements are not answered, and a caller that waits for one.
#[test]
fn connections_that_are_checked_out_are_silent_as_well() {
    let limits = Limits { connections_max: 1, scout_after: AFTER, ..Limits::default() };
    let mut host = Host::with(limits, 1);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Granted(1, 0)]);
    assert_eq!(host.later(seconds(10)), [], "its user thinks");
    host.busy(0);
    assert_eq!(next(&mut host).1, [Did::Scout]);
    // It has met the next primary, so the connections to the former one end.
    assert_eq!(host.lost(0), []);
    host.pool.handle_scouted(host.now);
    host.checkout(2);
    assert_eq!(host.take(), [Did::Open(1)]);
}

#[test]
fn a_client_of_one_server_sends_none() {
    let mut host = Host::with(Limits { connections_max: 1, ..Limits::default() }, 1);
    host.busy(0);
    host.later(seconds(20));
    assert_eq!(host.take(), []);
    assert!(host.pool.poll_deadline().is_none_or(|at| at >= Time::ZERO.after(seconds(600))));
}
