//! Hedged reads: sent a second time on another connection.

use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::pool::{Expected, Hedge, Hedges, Limits, Load};

use super::host::millis;

const QUICK: Expected = Expected::Quick(Duration::from_micros(50));

fn at(ms: u64) -> Time {
    Time::ZERO.after(millis(ms))
}

/// A connection whose first request has been running since the start.
fn busy() -> Load {
    Load { unanswered: 2, room: 100, ..Load::default() }
}

fn idle() -> Load {
    Load { unanswered: 0, ..busy() }
}

fn judge(hedges: &Hedges, now: Time, of: Expected, others: &[Load]) -> Hedge<usize> {
    let others = others.iter().copied().enumerate();
    hedges.judge(now, &Limits::default(), of, busy(), others)
}

#[test]
fn a_read_is_sent_elsewhere_once_the_head_in_front_of_it_is_late() {
    let hedges = Hedges::default();
    assert_eq!(judge(&hedges, at(9), QUICK, &[idle()]), Hedge::At(at(10)), "it is not late");
    let late = Load { since: at(0), ..busy() };
    assert_eq!(judge(&hedges, at(11), QUICK, &[late]), Hedge::At(at(21)), "so is the other one");
    let unsure = Load { unsure: 1, since: at(11), ..busy() };
    assert_eq!(judge(&hedges, at(11), QUICK, &[unsure]), Hedge::At(at(21)), "it may be slow");
    assert_eq!(judge(&hedges, at(11), QUICK, &[]), Hedge::At(at(21)), "there is no other");
    assert_eq!(judge(&hedges, at(11), QUICK, &[late, idle()]), Hedge::On(1));
}

#[test]
fn what_is_slow_itself_is_not_sent_again() {
    let hedges = Hedges::default();
    for of in [Expected::Unsure, Expected::Untold] {
        assert_eq!(judge(&hedges, at(50), of, &[idle()]), Hedge::At(Time::NEVER));
    }
}

#[test]
fn one_in_twenty_is_sent_a_second_time_however_many_are_late() {
    let hedges = Hedges::default();
    let mut hedged = 0;
    for made in 1..=10_000 {
        hedges.earn();
        hedged += usize::from(matches!(judge(&hedges, at(50), QUICK, &[idle()]), Hedge::On(_)));
        assert!(hedged <= 1 + made / 20, "{hedged} of {made}");
    }
    assert_eq!(hedged, 501);
}

#[test]
fn what_was_saved_up_is_bounded() {
    let hedges = Hedges::default();
    for _ in 0..10_000 {
        hedges.earn();
    }
    let hedged = (0..100).filter(|_| judge(&hedges, at(50), QUICK, &[idle()]) == Hedge::On(0));
    assert_eq!(hedged.count(), 10);
}
