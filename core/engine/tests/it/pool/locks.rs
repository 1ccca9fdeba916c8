//! Statements that may wait for a lock are placed apart from those that don't.

use std::time::Duration;

use onetrip_engine::pool::{
    Behind, Cause, Expected, Limits, Load, TextKey, Timings, Workload, choose,
};
use onetrip_engine::{End, Failure, Outcome, Time, Token};

use super::host::{Did, Host, IDLE, max, millis, seconds};

const MICROS_50: Duration = Duration::from_micros(50);

fn read() -> TextKey {
    TextKey::of("select a from t")
}

fn write() -> TextKey {
    TextKey::of("update t set a = a").locking(true)
}

fn report() -> TextKey {
    TextKey::of("select report()")
}

/// A host that knows both to be quick.
fn with(connections_max: usize, connections: usize) -> Host {
    let host = Host::with(max(connections_max), connections);
    host.took(read(), 100, MICROS_50);
    host.took(write(), 100, MICROS_50);
    host
}

/// The same, whose first connection one caller has to itself, and a write waits on each other.
fn held(connections_max: usize, connections: usize) -> Host {
    let mut host = with(connections_max, connections);
    host.checkout(1000);
    assert_eq!(host.take(), [Did::Granted(1000, 0)]);
    for _ in 1..connections {
        assert!(host.place_text(write()).is_some());
    }
    host
}

fn timings() -> Timings {
    let timings = Timings::new(&Limits::default());
    for key in [read(), write()] {
        for _ in 0..100 {
            timings.took(key, MICROS_50, Duration::ZERO);
        }
    }
    timings
}

#[test]
fn a_key_says_whether_its_statements_may_wait_for_a_lock() {
    for text in ["", "select 1", "update t set a = 1", "delete from u"] {
        let key = TextKey::of(text);
        let locks = key.locking(true);
        assert_eq!((key.may_lock(), key.locking(false)), (false, key));
        assert!(locks.may_lock() && locks.locking(true) == locks && locks != key);
        assert_eq!(TextKey::from_number(locks.number()), locks);
    }
    for key in [TextKey::UNTOLD, TextKey::ALONE] {
        assert_eq!(key.locking(true), key, "nothing is expected of them");
    }
}

#[test]
fn what_is_expected_of_such_a_statement_depends_on_its_time_and_on_who_may_hold_locks() {
    let timings = Timings::new(&Limits::default());
    assert_eq!(timings.expected(write()), Expected::Unsure, "it was never seen");
    timings.took(write(), millis(1), Duration::ZERO);
    assert_eq!(timings.expected(write()), Expected::Locking(millis(1)));
    timings.took(write(), millis(11), Duration::ZERO);
    assert_eq!(timings.expected(write()), Expected::Unsure, "it was slow");

    let mut host = with(2, 2);
    assert_eq!(host.pool.timings().expected(write()), Expected::Locking(MICROS_50));
    host.checkout(1);
    assert_eq!(host.take(), [Did::Granted(1, 0)]);
    assert_eq!(host.pool.timings().expected(write()), Expected::Unsure);
    assert_eq!(host.pool.timings().expected(read()), Expected::Quick(MICROS_50));
    host.release(0);
    assert_eq!(host.pool.timings().expected(write()), Expected::Locking(MICROS_50));
}

#[test]
fn it_goes_behind_its_own_kind_rather_than_to_an_idle_connection() {
    let mut host = with(3, 3);
    let first = host.place_text(write());
    for _ in 0..20 {
        assert_eq!(host.place_text(write()), first);
    }
    assert_eq!(host.take(), [], "and none is opened");
}

#[test]
fn it_does_not_go_behind_a_read_while_a_connection_is_idle() {
    let mut host = with(2, 2);
    let reads = host.place_text(read()).unwrap();
    assert_eq!(host.place_text(write()), Some(1 - reads));
    assert_eq!(host.place_text(read()), Some(reads));
    assert_eq!(host.place_text(write()), Some(1 - reads));
}

#[test]
fn a_read_does_not_go_behind_it_while_a_connection_is_idle() {
    let mut host = with(2, 2);
    let writes = host.place_text(write()).unwrap();
    for _ in 0..20 {
        assert_eq!(host.place_text(read()), Some(1 - writes));
    }
    // Nor one that the host does not name.
    assert_eq!(host.place(), Some(1 - writes));
}

#[test]
fn a_read_does_not_go_behind_it_while_a_connection_may_be_opened() {
    let mut host = with(2, 1);
    assert_eq!(host.place_text(write()), Some(0));
    assert_eq!(host.place_text(read()), None);
    host.wait_for(1, read());
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Shared(1), Did::Placed(1, 1)]);
}

#[test]
fn a_read_rather_waits_for_another_connection_than_behind_it() {
    let mut host = with(2, 2);
    let writes = host.place_text(write()).unwrap();
    assert_eq!(host.place_text(report()), Some(1 - writes));
    assert_eq!(host.place_text(read()), None);
    host.wait_for(1, read());
    assert_eq!(host.take(), []);
    assert_eq!(host.drained(1 - writes), [Did::Placed(1, 1 - writes)]);
}

#[test]
fn with_one_connection_there_is_no_other_way() {
    let mut host = with(1, 1);
    for key in [write(), read(), write(), read()] {
        assert_eq!(host.place_text(key), Some(0));
    }
    assert_eq!(host.pool.timings().yield_after(), Duration::MAX, "statements keep their order");
    let more = with(2, 1);
    assert_eq!(more.pool.timings().yield_after(), millis(500));
}

#[test]
fn while_a_connection_is_checked_out_each_runs_alone() {
    let mut host = with(4, 4);
    host.checkout(1);
    assert_eq!(host.take(), [Did::Granted(1, 0)]);
    let mut on: Vec<_> = (0..3).map(|_| host.place_text(write()).unwrap()).collect();
    on.sort_unstable();
    assert_eq!(on, [1, 2, 3]);
    assert_eq!(host.place_text(write()), None);
    host.wait_for(2, write());
    host.wait_for(3, write());
    assert_eq!(host.take(), []);
    assert_eq!(host.drained(1), [Did::Placed(2, 1)]);
    assert_eq!(host.drained(2), [Did::Placed(3, 2)]);
    // Without anybody who may hold a lock they share one again.
    host.release(0);
    assert_eq!(host.place_text(write()), host.place_text(write()));
}

#[test]
fn those_that_wait_in_line_share_a_connection_as_soon_as_nobody_holds_one() {
    let mut host = held(2, 2);
    assert_eq!(host.place_text(write()), Some(1), "there is no other way");
    let mut host = held(3, 3);
    for token in 1..=3 {
        assert_eq!(host.place_text(write()), None);
        host.wait_for(token, write());
    }
    assert_eq!(host.take(), []);
    let placed = host.release(0);
    assert_eq!(placed.iter().filter(|did| matches!(did, Did::Placed(..))).count(), 3, "{placed:?}");
}

#[test]
fn when_all_connections_seem_to_wait_for_a_lock_those_in_line_go_behind_one() {
    let mut host = held(3, 3);
    host.set(2, Load { unanswered_bytes: 10_000, ..host.load(2) });
    for token in 1..=3 {
        assert_eq!(host.place_text(read()), None);
        host.wait_for(token, read());
    }
    assert_eq!(host.take(), []);
    // A statement that waits there is taken away after 500 ms, and they go first then.
    assert_eq!(host.pool.poll_deadline(), Some(host.now.after(millis(250))));
    assert_eq!(host.later(millis(249)), []);
    let placed = host.due();
    assert_eq!(placed, [1, 2, 3].map(|token| Did::Placed(token, 1)), "where least is under way");
    assert_eq!(host.place_text(read()), Some(1), "the next at once");
}

/// A read that waits for DDL shows no lock in its text, and may be as late as a write that does.
#[test]
fn as_long_as_one_is_not_late_they_wait_for_that_and_then_go_where_a_lock_is_waited_for() {
    let mut host = held(3, 3);
    host.drained(1);
    host.later(millis(250));
    assert_eq!(host.place_text(report()), Some(1));
    host.wait_for(1, read());
    assert_eq!(host.later(millis(10)), []);
    assert_eq!(host.later(millis(1000)), [Did::Placed(1, 2)]);
}

#[test]
fn each_that_begins_to_seem_so_later_is_looked_at_when_it_does() {
    let mut host = with(3, 3);
    host.checkout(1000);
    host.take();
    assert!(host.place_text(write()).is_some());
    host.later(millis(100));
    assert!(host.place_text(write()).is_some());
    host.wait_for(1, read());
    assert_eq!(host.take(), []);
    assert_eq!(host.pool.poll_deadline(), Some(host.now.after(millis(150))));
    assert_eq!(host.due(), [], "only one of the two");
    assert_eq!(host.pool.poll_deadline(), Some(host.now.after(millis(100))));
    assert!(matches!(host.due()[..], [Did::Placed(1, _)]));
}

#[test]
fn while_a_connection_is_being_opened_they_wait_for_that_unless_none_comes() {
    let mut host = held(4, 3);
    host.wait_for(1, read());
    assert_eq!(host.take(), [Did::Open(3)]);
    assert_eq!(host.later(millis(300)), []);
    assert_eq!(host.opened(3), [Did::Shared(3), Did::Placed(1, 3)]);

    let mut host = held(4, 3);
    host.wait_for(1, read());
    assert_eq!(host.take(), [Did::Open(3)]);
    assert_eq!(host.later(millis(300)), []);
    assert!(matches!(host.open_failed(3)[..], [Did::Placed(1, _)]));
}

/// A host of two connections: one caller has one to itself, a write is on the other, and that has
/// begun to drain.
fn draining(begin: fn(&mut Host)) -> Host {
    let mut host = Host::with(Limits { lifetime: seconds(1), ..max(2) }, 2);
    host.took(read(), 100, MICROS_50);
    host.took(write(), 100, MICROS_50);
    host.checkout(1000);
    assert_eq!(host.take(), [Did::Granted(1000, 0)]);
    assert_eq!(host.place_text(write()), Some(1));
    begin(&mut host);
    assert_eq!(host.take(), [Did::Drain(1)]);
    host
}

#[test]
fn where_the_only_other_connection_drains_and_seems_stuck_they_go_there_as_well() {
    let too_old = |host: &mut Host| {
        host.now = host.now.after(seconds(2));
        let load = Load { since: host.now, ..host.load(1) };
        host.set(1, load);
        host.pool.handle_time(host.now);
    };
    let claimed = |host: &mut Host| {
        host.checkout(2000);
    };
    for begin in [too_old as fn(&mut Host), claimed] {
        let mut host = draining(begin);
        assert_eq!(host.place_text(read()), None);
        host.wait_for(1, read());
        assert_eq!(host.take(), []);
        assert_eq!(host.later(millis(249)), []);
        let did = host.later(millis(1));
        assert_eq!(did, [Did::Placed(1, 1)]);
        assert_eq!(host.place_text(read()), None, "it still drains");
    }
}

#[test]
fn a_connection_that_the_host_has_retired_gets_nothing_however_stuck_it_is() {
    let mut host = draining(|host| host.pool.retire(host.ids[1]));
    host.wait_for(1, read());
    assert_eq!(host.take(), []);
    assert_eq!(host.later(millis(1000)), []);
    assert_eq!(host.drained(1)[0], Did::Close(1));
}

#[test]
fn one_whose_caller_has_gone_may_wait_for_a_lock_as_well() {
    let mut host = held(3, 3);
    // Nothing is expected of it any more, but it is unanswered.
    host.set(1, Load { locking: 0, unsure: 0, expected: Duration::ZERO, ..host.load(1) });
    host.later(millis(20));
    host.wait_for(1, read());
    assert_eq!(host.take(), []);
    assert_eq!(host.later(millis(229)), []);
    assert!(matches!(host.later(millis(1))[..], [Did::Placed(1, _)]));
}

/// What is on the connection can't be taken away.
fn stays(host: &mut Host, index: usize) {
    host.set(index, Load { staying: 1, ..host.load(index) });
}

/// Caller 1 is in line, and nothing is done about it.
fn waits(host: &mut Host, key: TextKey) {
    host.wait_for(1, key);
    assert_eq!(host.take(), []);
}

/// P52.
#[test]
fn behind_what_is_never_taken_away_nobody_goes_while_somebody_may_hold_its_lock() {
    // It is on the only connection that others may have, or on all of them.
    for connections in [2, 3] {
        for key in [read(), write(), report(), TextKey::UNTOLD] {
            let mut host = held(connections, connections);
            (1..connections).for_each(|index| stays(&mut host, index));
            assert_eq!(host.place_text(key), None);
            waits(&mut host, key);
            assert_eq!(host.later(millis(29_999)), []);
            assert_eq!(host.later(millis(1)), [Did::Failed(1, Cause::Deadline)]);
        }
    }
}

#[test]
fn whoever_waits_for_what_is_never_taken_away_is_served_once_it_ends_or_nobody_holds_a_lock() {
    let waiting = || {
        let mut host = held(2, 2);
        stays(&mut host, 1);
        waits(&mut host, read());
        host
    };
    assert_eq!(waiting().drained(1), [Did::Placed(1, 1)]);
    assert_eq!(waiting().release(0), [Did::Shared(0), Did::Placed(1, 0)]);
}

#[test]
fn of_two_late_ones_the_one_that_is_taken_away_gets_those_in_line() {
    let mut host = held(3, 3);
    stays(&mut host, 2);
    waits(&mut host, read());
    assert_eq!(host.later(millis(249)), []);
    assert_eq!(host.later(millis(1)), [Did::Placed(1, 1)]);
}

#[test]
fn a_workload_counts_what_is_never_taken_away() {
    let timings = timings();
    let mut workload = Workload::new(Duration::ZERO);
    let mut begin = |key: TextKey, is_member| {
        let task = match is_member {
            true => workload.begin_member(Time::ZERO, key, &timings),
            false => workload.begin(Time::ZERO, key, &timings),
        };
        let staying = workload.staying();
        workload.leave(task);
        assert_eq!(workload.staying(), 0);
        staying
    };
    assert_eq!(begin(write(), false), 0);
    assert_eq!(begin(write(), true), 1, "a member of a pipeline");
    assert_eq!(begin(write().staying(true), false), 1, "a CALL");
    assert_eq!(begin(read(), true), 0, "it waits for no lock");
}

/// Nothing tells when the server is done with it.
#[test]
fn what_is_never_taken_away_counts_also_once_its_caller_has_given_up_until_all_is_answered() {
    let timings = timings();
    let failed = |outcome, cause| End::Failed(Failure { outcome, cause });
    let late = failed(Outcome::Unknown, onetrip_engine::Cause::Deadline);
    let refused = failed(Outcome::Rejected, onetrip_engine::Cause::Server);
    let unsent = failed(Outcome::NotSent, onetrip_engine::Cause::Deadline);
    for is_member in [true, false] {
        for (end, staying) in [(End::Complete, 0), (refused, 0), (unsent, 0), (late, 1)] {
            let mut workload = Workload::new(Duration::ZERO);
            let key = write().staying(true);
            let task = match is_member {
                true => workload.begin_member(Time::ZERO, key, &timings),
                false => workload.begin(Time::ZERO, key, &timings),
            };
            let ended = workload.ended(Time::ZERO, task, &end, &timings);
            assert_eq!(ended.is_some(), !is_member && end != unsent, "{end:?}");
            assert_eq!((workload.staying(), workload.locking()), (staying, 0), "{end:?}");
            workload.clear();
            assert_eq!(workload.staying(), 0);
        }
    }
}

#[test]
fn a_choice_among_stuck_connections_says_so_and_no_longer_holds_elsewhere() {
    let limits = Limits::default();
    let now = Time::ZERO.after(millis(1000));
    let since = |ms| Time::ZERO.after(millis(ms));
    let locks = Load { unanswered: 1, locking: 1, ..IDLE };
    let stuck = |bytes| Load { since: since(750), unanswered_bytes: bytes, ..locks };
    let chosen = |loads: &[Load]| {
        let loads = loads.iter().copied().enumerate();
        let choice = choose(now, &limits, Expected::Quick(MICROS_50), loads);
        (choice.on, choice.behind)
    };
    assert_eq!(chosen(&[stuck(9), stuck(5)]), (Some(1), Behind::Stuck));
    let older = Load { since: since(10), ..stuck(5) };
    assert_eq!(chosen(&[stuck(9), older]), (Some(1), Behind::Stuck), "its age says little");
    let young = Load { since: since(751), ..locks };
    assert_eq!(chosen(&[stuck(9), young]), (Some(1), Behind::Unsure));
    let other = Load { unanswered: 1, unsure: 1, since: since(0), ..IDLE };
    assert_eq!(chosen(&[stuck(9), other]), (Some(0), Behind::Stuck), "a read may wait, too");
    assert_eq!(chosen(&[stuck(9), IDLE]), (Some(1), Behind::Nothing));
    assert_eq!(chosen(&[Load { room: 0, ..stuck(1) }, stuck(9)]), (Some(1), Behind::Stuck));
}

#[test]
fn a_choice_no_longer_holds_where_a_write_went_meanwhile_unless_it_is_one_itself() {
    let (limits, timings) = (Limits::default(), timings());
    let now = Load { unanswered: 1, locking: 1, ..IDLE };
    for (key, holds) in [(read(), false), (write(), true), (TextKey::UNTOLD, false)] {
        let choice = choose(Time::ZERO, &limits, timings.expected(key), [(0, IDLE)]);
        assert_eq!(choice.holds(Time::ZERO, &limits, now), holds);
    }
}

#[test]
fn a_workload_counts_those_that_may_lock_whatever_else_is_expected_of_them() {
    let timings = timings();
    let mut work = Workload::new(Duration::ZERO);
    let new = TextKey::of("delete from v").locking(true);
    let tasks = [read(), write(), new].map(|key| work.begin(Time::ZERO, key, &timings));
    assert_eq!((work.locking(), work.unsure(), work.expected()), (2, 1, MICROS_50 * 2));
    for task in tasks {
        work.leave(task);
    }
    assert_eq!((work.locking(), work.unsure(), work.expected()), (0, 0, Duration::ZERO));
}

#[test]
fn nothing_is_placed_behind_one_that_is_sent_again() {
    for key in [read(), write(), TextKey::UNTOLD, TextKey::ALONE] {
        let timings = timings();
        let mut work = Workload::new(Duration::ZERO);
        let other = work.begin(Time::ZERO, read(), &timings);
        let mut task = work.begin(Time::ZERO, key, &timings);
        let locking = usize::from(key.may_lock());
        for _ in 0..3 {
            work.restart(&mut task);
            assert_eq!((work.unsure(), work.locking(), work.expected()), (1, locking, MICROS_50));
        }
        work.end(Time::ZERO.after(millis(1)), task, &timings);
        assert_eq!((work.unsure(), work.locking(), work.expected()), (0, 0, MICROS_50));
        let ended = work.end(Time::ZERO.after(millis(1)), other, &timings);
        assert_eq!((ended.behind, work.expected()), (0, Duration::ZERO));
    }
}

#[test]
fn a_limit_that_would_stop_what_is_merely_not_the_quickest_counts_as_a_longer_one() {
    let yield_after = millis(1);
    let host = Host::new(Limits { yield_after, ..Limits::default() });
    assert_eq!(host.pool.limits().yield_after, millis(10));
}

#[test]
fn without_yielding_nobody_goes_behind_what_seems_to_wait_for_a_lock() {
    let limits = Limits { yield_after: Duration::MAX, ..max(3) };
    let mut host = Host::with(limits, 3);
    host.took(read(), 100, MICROS_50);
    host.took(write(), 100, MICROS_50);
    host.checkout(1000);
    host.take();
    assert!(host.place_text(write()).is_some() && host.place_text(write()).is_some());
    host.pool.wait_shared(host.now, Token(1), read(), Some(Time::NEVER));
    for _ in 0..100 {
        assert_eq!(host.later(millis(1000)), []);
    }
}
