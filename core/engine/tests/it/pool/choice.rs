//! The pure choice between loads.

use onetrip_engine::Time;
use onetrip_engine::pool::{Behind, Choice, Expected, IdleOrder, Limits, Load, choose};

use super::host::{IDLE, millis};

const NOW: Time = Time::from_nanos(1_000_000_000);

fn busy(unanswered: usize, unanswered_bytes: usize) -> Load {
    Load { unanswered, unanswered_bytes, since: NOW, ..IDLE }
}

fn idle_since(nanos: u64) -> Load {
    Load { since: Time::from_nanos(nanos), ..IDLE }
}

fn slow(load: Load) -> Load {
    let long = Limits::default().slow_head + millis(1);
    Load { since: Time::from_nanos(NOW.as_nanos() - long.as_nanos() as u64), ..load }
}

fn of(loads: &[Load]) -> Choice<usize> {
    choose(NOW, &Limits::default(), Expected::Untold, loads.iter().copied().enumerate())
}

fn untold(on: Option<usize>, helps: bool, behind: Behind) -> Choice<usize> {
    Choice { on, helps, behind, of: Expected::Untold }
}

#[test]
fn an_idle_connection_comes_first_and_no_other_would_help() {
    assert_eq!(of(&[busy(1, 1), IDLE, busy(1, 0)]), untold(Some(1), false, Behind::Nothing));
}

#[test]
fn without_an_idle_one_another_would_help() {
    assert_eq!(of(&[busy(1, 1)]), untold(Some(0), true, Behind::Quick));
    assert_eq!(of(&[]), untold(None, true, Behind::Nothing));
}

#[test]
fn the_idle_order_says_which_of_several_is_taken() {
    let loads = [idle_since(5), idle_since(9), idle_since(3)];
    let choice = |idle_order| {
        let limits = Limits { idle_order, ..Limits::default() };
        choose(NOW, &limits, Expected::Untold, loads.iter().copied().enumerate()).on
    };
    assert_eq!(choice(IdleOrder::Lifo), Some(1));
    assert_eq!(choice(IdleOrder::Fifo), Some(2));
}

#[test]
fn bytes_decide_among_large_statements_and_count_among_small_ones() {
    assert_eq!(of(&[busy(2, 100_000), busy(1, 300_000)]).on, Some(0));
    assert_eq!(of(&[busy(5, 100), busy(2, 200)]).on, Some(1));
    assert_eq!(of(&[busy(2, 200), busy(2, 200)]).on, Some(0), "the first among equals");
}

/// P34.
#[test]
fn a_slow_head_is_avoided_while_another_can_take_the_statement() {
    assert_eq!(of(&[slow(busy(1, 1)), busy(50, 50_000)]).on, Some(1));
    assert_eq!(of(&[slow(busy(3, 1)), slow(busy(2, 1))]).on, Some(1));
    let full = Load { room: 0, ..busy(1, 1) };
    assert_eq!(of(&[slow(busy(9, 1)), full]).on, Some(0));
}

#[test]
fn a_head_that_is_just_as_old_as_allowed_is_not_slow() {
    let limits = Limits { slow_head: millis(10), ..Limits::default() };
    let head = |age| Load { since: Time::ZERO.after(millis(20 - age)), ..busy(1, 1) };
    let now = Time::ZERO.after(millis(20));
    let choice = |ages: [u64; 2]| {
        choose(now, &limits, Expected::Untold, ages.map(head).into_iter().enumerate()).on
    };
    assert_eq!(choice([10, 0]), Some(0));
    assert_eq!(choice([11, 0]), Some(1));
}

#[test]
fn an_idle_connection_is_never_slow_however_long_it_is_idle() {
    assert_eq!(of(&[busy(1, 1), idle_since(0)]).on, Some(1));
}

#[test]
fn a_connection_without_room_is_left_out() {
    let full = Load { room: 0, ..busy(1, 1) };
    assert_eq!(of(&[full, busy(9, 9)]), untold(Some(1), true, Behind::Quick));
    assert_eq!(of(&[full]), untold(None, true, Behind::Nothing));
}
