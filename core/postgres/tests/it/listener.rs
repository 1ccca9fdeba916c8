//! A listener listens to all channels again after a loss, in one trip, and reports the gap.

use std::time::Duration;

use onetrip_engine::Time;
use onetrip_postgres::client::listener::{Answered, BadName, Listener, check};

const MINUTE: Duration = Duration::from_secs(60);

fn listener(channels: &[&str]) -> Listener {
    Listener::new(channels.iter().map(|it| (*it).to_owned()), 7)
}

/// A listener whose connection is open, and which listens to all channels.
fn serving(channels: &[&str]) -> Listener {
    let mut listener = listener(channels);
    listener.handle_opened(Time::ZERO);
    listener.next_text().unwrap();
    assert_eq!(listener.handle_answered(Time::ZERO, true), Answered::Serves { gap: false });
    listener
}

fn later(time: Duration) -> Time {
    Time::ZERO.after(time)
}

#[test]
fn names_are_taken_letter_by_letter() {
    let mut listener = listener(&["a\"b; drop", "Jobs"]);
    listener.handle_opened(Time::ZERO);
    assert_eq!(listener.next_text().unwrap(), "listen \"Jobs\";listen \"a\"\"b; drop\"");
}

#[test]
fn a_name_that_the_server_would_cut_off_is_refused() {
    assert_eq!(check(&"n".repeat(63)), Ok(()));
    assert_eq!(check(&"é".repeat(32)), Err(BadName::Long(64)));
    assert_eq!(check(""), Err(BadName::Empty));
    assert_eq!(check("a\0b"), Err(BadName::Nul));
}

#[test]
fn one_change_is_on_its_way_at_a_time_and_the_next_follows_its_answer() {
    let mut listener = serving(&["a"]);
    listener.change("b".into(), true);
    listener.change("a".into(), false);
    assert_eq!(listener.next_text().unwrap(), "listen \"b\"");
    assert_eq!(listener.next_text(), None);
    assert_eq!(listener.handle_answered(Time::ZERO, true), Answered::Change);
    assert_eq!(listener.next_text().unwrap(), "unlisten \"a\"");
    assert_eq!(listener.handle_answered(Time::ZERO, true), Answered::Change);
    listener.handle_lost(later(MINUTE));
    listener.handle_opened(later(MINUTE));
    assert_eq!(listener.next_text().unwrap(), "listen \"b\"");
}

#[test]
fn a_channel_that_the_server_refused_is_not_listened_to() {
    let mut listener = serving(&["a"]);
    listener.change("b".into(), true);
    listener.next_text().unwrap();
    assert_eq!(listener.handle_answered(Time::ZERO, false), Answered::Change);
    listener.handle_lost(later(MINUTE));
    listener.handle_opened(later(MINUTE));
    assert_eq!(listener.next_text().unwrap(), "listen \"a\"");
}

#[test]
fn a_change_that_was_lost_with_the_connection_is_sent_again_behind_all_channels() {
    let mut listener = serving(&["a"]);
    listener.change("b".into(), true);
    listener.next_text().unwrap();
    listener.handle_lost(later(MINUTE));
    assert_eq!(listener.handle_answered(later(MINUTE), true), Answered::Nothing);
    listener.handle_opened(later(MINUTE));
    assert_eq!(listener.next_text().unwrap(), "listen \"a\"");
    let answered = listener.handle_answered(later(MINUTE), true);
    assert_eq!(answered, Answered::Serves { gap: true });
    assert_eq!(listener.next_text().unwrap(), "listen \"b\"");
}

#[test]
fn a_gap_is_told_of_once_and_in_front_of_the_first_notification() {
    let mut listener = serving(&["a"]);
    assert!(!listener.take_gap());
    listener.handle_lost(later(MINUTE));
    listener.handle_opened(later(MINUTE));
    listener.next_text().unwrap();
    assert!(listener.take_gap());
    assert!(!listener.take_gap());
    let answered = listener.handle_answered(later(MINUTE), true);
    assert_eq!(answered, Answered::Serves { gap: false });
}

#[test]
fn who_has_not_listened_yet_has_missed_nothing() {
    let mut listener = listener(&["a"]);
    listener.handle_opened(Time::ZERO);
    listener.next_text().unwrap();
    listener.handle_lost(Time::ZERO);
    listener.handle_opened(Time::ZERO);
    listener.next_text().unwrap();
    assert_eq!(listener.handle_answered(Time::ZERO, true), Answered::Serves { gap: false });
}

#[test]
fn without_channels_nothing_is_sent_and_nothing_is_missed() {
    let mut listener = listener(&[]);
    listener.handle_opened(Time::ZERO);
    listener.handle_lost(later(MINUTE));
    listener.handle_opened(later(MINUTE));
    assert_eq!(listener.next_text(), None);
    assert!(!listener.take_gap());
}

#[test]
fn a_connection_that_lasted_is_opened_again_at_once_and_one_that_did_not_after_a_pause() {
    let mut listener = serving(&["a"]);
    assert_eq!(listener.handle_lost(later(Duration::from_secs(1))), Duration::ZERO);
    let mut short = serving(&["a"]);
    assert!(short.handle_lost(later(Duration::from_millis(999))) >= Duration::from_millis(12));
}

#[test]
fn pauses_grow_from_25_ms_to_two_seconds_and_are_shortened_down_to_half() {
    let mut listener = serving(&["a"]);
    listener.handle_lost(later(MINUTE));
    let pauses: Vec<_> = (0..100).map(|_| listener.handle_open_failed(false).pause).collect();
    let (first, last) = (pauses[0], pauses[99]);
    let up_to = |longest: u64| Duration::from_millis(longest / 2)..=Duration::from_millis(longest);
    assert!(up_to(25).contains(&first), "{first:?}");
    assert!(up_to(2_000).contains(&last), "{last:?}");
}

#[test]
fn what_time_does_not_mend_is_said_once_per_outage() {
    let mut listener = serving(&["a"]);
    for _ in 0..2 {
        listener.handle_lost(later(MINUTE));
        assert!(!listener.handle_open_failed(false).says);
        assert!(listener.handle_open_failed(true).says);
        assert!(!listener.handle_open_failed(true).says);
        listener.handle_opened(later(MINUTE));
        listener.next_text().unwrap();
        listener.handle_answered(later(MINUTE), true);
    }
}

#[test]
fn a_server_that_refuses_the_channels_is_said_once_and_tried_on() {
    let mut listener = listener(&["a"]);
    for says in [true, false] {
        listener.handle_opened(Time::ZERO);
        listener.next_text().unwrap();
        assert_eq!(listener.handle_answered(Time::ZERO, false), Answered::Refused { says });
        assert!(listener.handle_lost(Time::ZERO) > Duration::ZERO);
    }
}
