//! How often work is tried again, and with which pauses.

use std::time::Duration;

use onetrip_engine::{Retry, RetryLimits};

fn limits(attempts_max: u32) -> RetryLimits {
    let ms = Duration::from_millis;
    RetryLimits { attempts_max, pause_min: ms(10), pause_max: ms(60) }
}

#[test]
fn the_pauses_double_up_to_their_longest_and_are_cut_by_half_at_most() {
    for seed in 0..200 {
        let mut retry = Retry::new(limits(7), seed);
        for longest in [10, 20, 40, 60, 60, 60] {
            let longest = Duration::from_millis(longest);
            let pause = retry.failed().expect("there are attempts left");
            assert!(pause <= longest && pause >= longest / 2, "{pause:?}, seed {seed}");
        }
        assert_eq!((retry.failed(), retry.failures()), (None, 7));
    }
}

#[test]
fn a_single_attempt_is_never_made_again() {
    for attempts_max in [0, 1] {
        assert_eq!(Retry::new(limits(attempts_max), 1).failed(), None);
    }
}

#[test]
fn two_seeds_give_different_pauses() {
    let pauses = |seed| {
        let mut retry = Retry::new(limits(7), seed);
        std::iter::from_fn(|| retry.failed()).collect::<Vec<_>>()
    };
    assert_ne!(pauses(1), pauses(2));
    assert_eq!(pauses(1), pauses(1));
}

#[test]
fn any_number_of_attempts_ends_in_pauses_of_the_longest() {
    let mut retry = Retry::new(limits(u32::MAX), 1);
    let last = (0..100).filter_map(|_| retry.failed()).last();
    assert!(last.expect("none was the last") >= Duration::from_millis(30));
}
