//! Times that only one side has: the server's `infinity` and 24:00, and years of Rust's types. Some
//! conversions of other crates silently turn them into other times, so their input is checked
//! first.

use std::fmt::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use postgres_types::{Kind, ToSql, Type};

use super::ValueError;

/// Whether values of a type are times, or have parts that are.
pub(crate) fn has_times(type_: &Type) -> bool {
    match type_.kind() {
        Kind::Array(of) | Kind::Domain(of) | Kind::Range(of) | Kind::Multirange(of) => {
            has_times(of)
        }
        // What stands for both types of moments.
        Kind::Pseudo => true,
        Kind::Composite(fields) => fields.iter().any(|field| has_times(field.type_())),
        _ => is_moment(type_) || *type_ == Type::TIME,
    }
}

pub(crate) fn is_moment(type_: &Type) -> bool {
    matches!(*type_, Type::TIMESTAMP | Type::TIMESTAMPTZ)
}

// --- reading ---

/// If a value contains a time that many Rust types can't hold, names one that can.
pub(crate) fn holder(type_: &Type, raw: &[u8]) -> Option<&'static str> {
    if is_infinite(type_, raw) {
        return Some(match *type_ {
            Type::DATE => "types::Date<T> holds it",
            _ => "types::Timestamp<T> holds it",
        });
    }
    is_end_of_day(type_, raw).then_some("cast it to interval, which types::Interval holds")
}

/// DT_NOEND and DT_NOBEGIN in src/include/datatype/timestamp.h, and the like in date.h.
fn is_infinite(type_: &Type, raw: &[u8]) -> bool {
    let is_any = |ends: [&[u8]; 2]| ends.contains(&raw);
    match *type_ {
        Type::DATE => is_any([&i32::MAX.to_be_bytes(), &i32::MIN.to_be_bytes()]),
        _ => is_moment(type_) && is_any([&i64::MAX.to_be_bytes(), &i64::MIN.to_be_bytes()]),
    }
}

fn is_end_of_day(type_: &Type, raw: &[u8]) -> bool {
    const DAY: i64 = 86_400_000_000;
    *type_ == Type::TIME && raw == DAY.to_be_bytes()
}

/// Refuses a time that this Rust type, or one within it, would silently change. Types that check it
/// themselves, and the caller's own types, are not checked here.
pub(super) fn check_read(type_: &Type, raw: &[u8], rust_type: &str) -> Result<(), ValueError> {
    match holder(type_, raw) {
        Some(reason) if loses(type_, rust_type) => Err(ValueError::new(reason)),
        _ => Ok(()),
    }
}

#[cold]
fn loses(type_: &Type, rust_type: &str) -> bool {
    const TIMES: [&str; 3] =
        ["chrono::naive::time::NaiveTime", "time::time::Time", "time::time_mod::Time"];
    match *type_ {
        Type::TIME => TIMES.iter().any(|name| rust_type.contains(name)),
        _ => {
            let holds = rust_type.contains("postgres_types::special::Timestamp<");
            rust_type.contains("std::time::SystemTime") && !holds
        }
    }
}

// --- writing ---

/// The `SystemTime`s in a value, according to the name of its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SystemTimes {
    None,
    /// It is one.
    One,
    Within,
}

impl SystemTimes {
    pub(crate) fn of(rust_type: &str) -> SystemTimes {
        match rust_type {
            "std::time::SystemTime" => SystemTimes::One,
            _ if rust_type.contains("SystemTime") => SystemTimes::Within,
            _ => SystemTimes::None,
        }
    }
}

/// The server's microseconds since 2000-01-01, as `SystemTime`'s [`ToSql`] counts them, or `None`
/// for a time that the server does not have.
#[inline]
pub(crate) fn micros_of(time: SystemTime) -> Option<i64> {
    const EPOCH: Duration = Duration::from_secs(946_684_800);
    let micros = match time.duration_since(UNIX_EPOCH + EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).ok()?,
        Err(before) => i64::try_from(before.duration().as_micros()).ok()?.checked_neg()?,
    };
    let seconds = micros.div_euclid(1_000_000) + EPOCH.as_secs() as i64;
    (Seconds::MIN..Seconds::END).contains(&seconds).then_some(micros)
}

/// Refuses a `SystemTime` that is beyond the server's times, also within another type: its
/// conversion would overflow.
pub(crate) fn check_written(
    value: &(dyn ToSql + Sync),
    times: SystemTimes,
) -> Result<(), ValueError> {
    if times == SystemTimes::None {
        return Ok(());
    }
    let mut seconds = Seconds { is_one: times == SystemTimes::One, ..Seconds::default() };
    // The seconds are read from the `Debug` text, which is all that is known of the value and is
    // not kept.
    let _ = write!(seconds, "{value:?}");
    seconds.checked()
}

/// The same for a value of `timestamp` or `timestamptz` that follows a `SystemTime` in its column,
/// whose text was read whole. `None` where it is none: then its type has to be asked for, which takes
/// longer than this.
pub(crate) fn check_one_more(value: &(dyn ToSql + Sync)) -> Option<Result<(), ValueError>> {
    let mut seconds = OneMore::default();
    let _ = write!(seconds, "{value:?}");
    let Seconds { has_ended, .. } = seconds.0;
    has_ended.then(|| seconds.0.checked())
}

/// Reads the seconds of a value that may be a `SystemTime`, from the first number in its text.
#[derive(Default)]
struct OneMore(Seconds);

impl fmt::Write for OneMore {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let it = &mut self.0;
        match (it.has_begun, text.as_bytes()) {
            (false, text) => {
                it.has_begun = text == b"SystemTime";
                if it.has_begun { Ok(()) } else { Err(fmt::Error) }
            }
            (true, text @ [b'-' | b'0'..=b'9', ..]) => {
                it.number.get_or_insert_default();
                text.iter().for_each(|byte| it.read(*byte));
                Ok(())
            }
            (true, [byte, ..]) if it.number.is_some() => {
                it.read(*byte);
                Err(fmt::Error)
            }
            _ => Ok(()),
        }
    }
}

/// Reads the seconds of each `SystemTime` in a `Debug` text.
#[derive(Default)]
struct Seconds {
    /// Whether the first is the only one, so that the rest of the text does not matter.
    is_one: bool,
    has_ended: bool,
    has_begun: bool,
    /// How many bytes of the name were matched.
    matched: usize,
    is_negative: bool,
    number: Option<i64>,
    is_beyond: bool,
}

impl Seconds {
    /// The text in front of the seconds (`Timespec` in std's sys/pal/unix/time.rs). On other
    /// systems a `SystemTime` has no times that the server lacks.
    const NAME: &[u8] = b"SystemTime { tv_sec: ";

    /// MIN_TIMESTAMP and END_TIMESTAMP in src/include/datatype/timestamp.h, since 1970.
    const MIN: i64 = -210_866_803_200;
    const END: i64 = 9_224_318_016_000;

    fn checked(&self) -> Result<(), ValueError> {
        match self.is_beyond || !self.is_in_range() {
            true => Err(ValueError::new("it is out of the range of timestamp")),
            false => Ok(()),
        }
    }

    fn is_in_range(&self) -> bool {
        let number = self.number.unwrap_or_default();
        let seconds = if self.is_negative { -number } else { number };
        (Seconds::MIN..Seconds::END).contains(&seconds)
    }

    fn read(&mut self, byte: u8) {
        if let Some(number) = self.number {
            match byte {
                b'-' => self.is_negative = true,
                // The longest i64 is far beyond the range, so it does not matter by how much.
                b'0'..=b'9' => {
                    let more = number.saturating_mul(10).saturating_add(i64::from(byte - b'0'));
                    self.number = Some(more);
                }
                _ => {
                    self.is_beyond |= !self.is_in_range();
                    self.has_ended = true;
                    (self.number, self.is_negative) = (None, false);
                }
            }
        } else if Seconds::NAME.get(self.matched) == Some(&byte) {
            self.matched += 1;
            if self.matched == Seconds::NAME.len() {
                (self.matched, self.number) = (0, Some(0));
            }
        } else {
            self.matched = usize::from(byte == Seconds::NAME[0]);
        }
    }
}

impl fmt::Write for Seconds {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Times of other crates begin with their year; reading stops there.
        let is_other =
            !self.has_begun && text.starts_with(|it: char| !it.is_alphabetic() && it != '[');
        self.has_begun |= !text.is_empty();
        text.bytes().for_each(|byte| self.read(byte));
        let is_over = is_other || self.is_beyond || (self.is_one && self.has_ended);
        if is_over { Err(fmt::Error) } else { Ok(()) }
    }
}
