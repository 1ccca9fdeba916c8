//! Pauses after failed attempts.

use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::pool::{Limits, Pauses, Pool};

use super::host::{Did, Host, max, millis, seconds};
use crate::pool_random::actions::nominal;

/// A host with one caller that never gives up, and the first attempt to open a connection.
fn trying(limits: Limits) -> Host {
    let mut host = Host::new(Limits { wait_timeout: Duration::MAX, ..limits });
    host.checkout(1);
    assert_eq!(host.take(), [Did::Open(0)]);
    host
}

/// Lets an attempt fail, and returns the pause.
fn pause(host: &mut Host, name: usize) -> Duration {
    assert_eq!(host.open_failed(name), []);
    let next = host.pool.poll_deadline().unwrap();
    let just_before = next.since(host.now) - Duration::from_nanos(1);
    assert_eq!(host.later(just_before), [], "an attempt before the pause is over");
    assert_eq!(host.later(Duration::from_nanos(1)), [Did::Open(name + 1)]);
    just_before + Duration::from_nanos(1)
}

#[test]
fn pauses_grow_with_the_square_of_the_time_that_attempts_have_failed() {
    let mut host = trying(max(1));
    let (mut name, mut shortest, mut longest) = (0, seconds(10), seconds(0));
    while host.now < Time::ZERO.after(seconds(60)) {
        let nominal = nominal(host.now.since(Time::ZERO), &Limits::default());
        let pause = pause(&mut host, name);
        assert!(pause >= nominal / 2 && pause <= nominal, "{name}: {pause:?} for {nominal:?}");
        (shortest, longest) = (shortest.min(pause), longest.max(pause));
        name += 1;
    }
    assert!(shortest < millis(25) && longest > millis(1900), "{shortest:?} to {longest:?}");
    assert!(name < 100, "{name} attempts in a minute");
}

/// A server that was away for up to a third of a second is met within 25 ms, one that was away for
/// a second within a quarter of one, and any within two seconds.
#[test]
fn a_client_comes_back_soon_after_its_server() {
    for away in [0, 5, 50, 200, 1_000, 3_000, 25_000].map(millis) {
        let (mut late_max, mut late_sum) = (seconds(0), seconds(0));
        for seed in 0..200 {
            let mut host = Host::new(max(1));
            host.pool = Pool::new(max(1), seed);
            host.pool.checkout(host.now, onetrip_engine::Token(1), Some(Time::NEVER));
            let mut open = host.take();
            while host.now < Time::ZERO.after(away) {
                let Some(Did::Open(name)) = open.pop() else { panic!("nothing is tried") };
                host.open_failed(name);
                open = host.due();
            }
            let late = host.now.since(Time::ZERO.after(away));
            (late_max, late_sum) = (late_max.max(late), late_sum + late);
        }
        println!("away for {away:?}: late by {:?}, at most {late_max:?}", late_sum / 200);
        assert!(late_max <= nominal(away, &Limits::default()), "{away:?}: {late_max:?}");
    }
}

#[test]
fn a_success_ends_the_pauses() {
    let mut host = trying(max(1));
    for name in 0..5 {
        pause(&mut host, name);
    }
    host.opened(5);
    host.checkout(2);
    host.now = host.now.after(seconds(1));
    assert_eq!(host.lost(5), [Did::Open(6)], "at once");
    assert!(pause(&mut host, 6) <= millis(25), "from the beginning");
}

#[test]
fn attempts_that_fail_together_count_once() {
    let mut host = Host::new(max(4));
    for token in 1..=4 {
        host.checkout(token);
    }
    assert_eq!(host.take().len(), 4);
    for name in 0..4 {
        assert_eq!(host.open_failed(name), []);
    }
    let next = host.pool.poll_deadline().unwrap();
    assert!(next.since(host.now) <= millis(25));
}

#[test]
fn after_a_failure_one_attempt_is_made_at_a_time() {
    let mut host = Host::new(max(4));
    for token in 1..=3 {
        host.checkout(token);
    }
    assert_eq!(host.take().len(), 3);
    for name in 0..3 {
        host.open_failed(name);
    }
    assert_eq!(host.due(), [Did::Open(3)]);
    assert_eq!(host.opened(3), [Did::Granted(1, 3), Did::Open(4), Did::Open(5)]);
}

#[test]
fn clients_with_different_seeds_come_back_at_different_moments() {
    let pause = |seed| {
        let mut host = Host::new(max(1));
        host.pool = Pool::new(max(1), seed);
        host.checkout(1);
        host.take();
        host.open_failed(0);
        host.pool.poll_deadline().unwrap()
    };
    let mut pauses: Vec<Time> = (0..20).map(pause).collect();
    assert_eq!(pauses, (0..20).map(pause).collect::<Vec<_>>(), "a seed repeats everything");
    pauses.sort();
    pauses.dedup();
    assert!(pauses.len() > 15);
    assert!(pauses[0] < Time::ZERO.after(millis(17)));
    assert!(pauses[pauses.len() - 1] > Time::ZERO.after(millis(20)));
}

#[test]
fn an_attempt_in_the_background_waits_for_the_end_of_the_pause_too() {
    let mut host = Host::with(max(2), 1);
    host.busy(0);
    host.place();
    assert_eq!(host.take(), [Did::Open(1)]);
    host.open_failed(1);
    host.place();
    assert_eq!(host.take(), []);
    assert!(!host.pool.can_grow(), "one is planned");
    assert_eq!(host.due(), [Did::Open(2)]);
    assert_eq!(host.open_failed(2), []);
    assert!(host.pool.can_grow(), "and the next is for the next statement to ask for");
}

/// P77.
#[test]
fn attempts_that_nobody_waits_for_are_few_until_somebody_does() {
    let mut host = Host::new(Limits { connections_min: 1, ..max(2) });
    let mut open = host.take();
    for _ in 0..20 {
        let Some(Did::Open(name)) = open.pop() else { panic!("nothing is tried") };
        let failed = host.now;
        assert_eq!(host.open_failed(name), []);
        open = host.due();
        let pause = host.now.since(failed);
        assert!(pause >= seconds(1) && pause <= seconds(2), "{pause:?}");
    }
    let mut host = Host::new(Limits { connections_min: 1, ..max(2) });
    host.take();
    host.open_failed(0);
    host.later(millis(25));
    host.checkout(1);
    assert_eq!(host.take(), [Did::Open(1)]);
}

#[test]
fn a_server_that_drops_what_it_accepts_is_not_asked_without_a_pause() {
    let mut host = Host::new(Limits { connections_min: 1, ..max(2) });
    assert_eq!(host.take(), [Did::Open(0)]);
    host.opened(0);
    assert_eq!(host.lost(0), []);
    let next = host.pool.poll_deadline().unwrap();
    assert!(next.since(host.now) >= millis(50) && next.since(host.now) <= millis(100));
    assert_eq!(host.due(), [Did::Open(1)]);
    host.opened(1);
    host.now = host.now.after(millis(100));
    assert_eq!(host.lost(1), [Did::Open(2)], "this one has lived");
}

#[test]
fn pauses_outside_a_pool_grow_up_to_the_limit_and_begin_anew_after_a_success() {
    let limits = Limits { backoff_min: millis(100), backoff_max: seconds(1), ..Limits::default() };
    for seed in 0..100 {
        let mut pauses = Pauses::new(limits.clone(), seed);
        for _ in 0..2 {
            let mut paused = seconds(0);
            for _ in 0..20 {
                let (pause, longest) = (pauses.failed(), nominal(paused, &limits));
                assert!(longest / 2 <= pause && pause <= longest, "seed {seed}: {pause:?}");
                paused += pause;
            }
            assert!(paused > seconds(4), "it grows");
            pauses.succeeded();
        }
    }
}
