//! Intervals without a server.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;
use crate::types::ValueError;

const HOUR: i64 = 3_600_000_000;

#[test]
fn texts_are_written_as_the_server_writes_them() {
    for (interval, text, iso) in [
        (Interval::default(), "00:00:00", "PT0S"),
        (Interval::new(1, 0, 0), "1 mon", "P1M"),
        (Interval::new(-13, 1, 0), "-1 years -1 mons +1 day", "P-1Y-1M1D"),
        (Interval::new(25, -1, HOUR), "2 years 1 mon -1 days +01:00:00", "P2Y1M-1DT1H"),
        (Interval::new(0, 0, -1), "-00:00:00.000001", "PT-0.000001S"),
        (Interval::new(0, 2, -HOUR - 61_500_000), "2 days -01:01:01.5", "P2DT-1H-1M-1.5S"),
        (Interval::new(0, 0, i64::MIN), "-2562047788:00:54.775808", "PT-2562047788H-54.775808S"),
        (Interval::INFINITY, "infinity", "infinity"),
        (Interval::NEG_INFINITY, "-infinity", "-infinity"),
    ] {
        assert_eq!(interval.to_string(), text);
        assert_eq!(interval.iso_8601().to_string(), iso);
        assert_eq!(text.parse(), Ok(interval), "{text}");
        assert_eq!(iso.parse(), Ok(interval), "{iso}");
    }
}

#[test]
fn common_units_are_read() {
    for (text, interval) in [
        ("2 weeks", Interval::new(0, 14, 0)),
        ("1.5 hours", Interval::new(0, 0, HOUR * 3 / 2)),
        ("90 mins 1 sec", Interval::new(0, 0, 5_401_000_000)),
        ("1 day 12:30", Interval::new(0, 1, HOUR * 25 / 2)),
        ("-1 century +1 decade", Interval::new(-1_080, 0, 0)),
        ("250 milliseconds", Interval::new(0, 0, 250_000)),
        ("12:30", Interval::new(0, 0, HOUR * 25 / 2)),
        ("P2W", Interval::new(0, 14, 0)),
        ("PT.5S", Interval::new(0, 0, 500_000)),
    ] {
        assert_eq!(text.parse(), Ok(interval), "{text}");
    }
}

#[test]
fn what_is_no_interval_is_refused_without_being_shown() {
    for text in [
        "",
        " ",
        "1",
        "day",
        "1 parsec",
        "1..5 hours",
        "- hours",
        "1:2:3:4",
        "1:-2",
        "12:60:00",
        "1:00:61",
        ":30",
        "P",
        "PT",
        "P1",
        "P1S",
        "PT1D",
        "P1DT",
        "PT1S1S",
        "P1M1Y",
        "1.5 days",
        "P1X",
        "1 day 2 day",
        "1 hour 00:01",
        "--1 day",
        "1 hour -",
        "٣ days",
    ] {
        assert!(text.parse::<Interval>().is_err(), "{text}");
    }
    for text in ["3000000000 days", "200000000 years", "PT99999999999999999999H"] {
        let error: ValueError = text.parse::<Interval>().unwrap_err();
        assert_eq!(error.to_string(), "it is out of the range of interval", "{text}");
    }
    assert!("0.0000001 seconds".parse::<Interval>().is_err(), "that would round");
}

#[test]
fn durations_go_both_ways_where_nothing_is_lost() {
    let second = Duration::from_millis(1_500);
    assert_eq!(Interval::try_from(second), Ok(Interval::new(0, 0, 1_500_000)));
    assert_eq!(Duration::try_from(Interval::new(0, 0, 1_500_000)), Ok(second));
    assert!(Interval::try_from(Duration::from_nanos(1)).is_err());
    assert!(Interval::try_from(Duration::MAX).is_err());
    for interval in [Interval::new(1, 0, 0), Interval::new(0, 1, 0), Interval::new(0, 0, -1)] {
        assert!(Duration::try_from(interval).is_err());
    }
}
