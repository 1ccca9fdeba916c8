//! Which values mean the same, whatever type their column has by now.
//!
//! The types of a statement's parameters are found once: the server infers them with its Parse, or
//! the client has learned them from a Describe and names them. If a column's type changes later, the
//! server plans the statement anew and keeps those types: it reads a value as the old type, and
//! casts that to the new one without a word (`RevalidateCachedQuery` in
//! src/backend/utils/cache/plancache.c). A `timestamp` loses its zone on the way to a `timestamptz`,
//! and `007` becomes `7` on the way to `text`.
//!
//! So a remembered type stands only for a value that this detour can't change: [`is_exact_text`]. Any
//! other leaves as text, with a Parse of its own in the same flight, which infers the type of that
//! moment ([`Parameters::loosened`]). Nothing has to be asked, and there is no moment in between.
//!
//! The rules hold for every assignment and implicit cast of `pg_cast`, and for the conversion of
//! anything to a text by its own output; a test runs all of them on a server. They assume the
//! DateStyle ISO, in which the client's texts are. Of operators they know what becomes of a moment
//! that is compared with a date: docs/concepts/migrations.md has what they can't see.

use std::cell::OnceCell;

use crate::message::bind::{self, parts_of};
use crate::message::{Format, FormatCodes};
use crate::sql::not_only_stored;

/// What is known of a statement's parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parameters<'a> {
    /// The types that its Parse names; 0 for each that the server infers. Empty: it infers all.
    pub named: &'a [u32],
    /// Whether the client has learned those from the server. Otherwise the caller has said so, and
    /// they are what he means.
    pub are_learned: bool,
    /// The formats and parameters of its first use, as in a Bind; empty for none.
    pub first: &'a [u8],
    /// Those of further uses in the same request.
    pub more: &'a [Vec<u8>],
    /// Which of them are moments of the caller's language, by their numbers: it has no type for a
    /// `timestamp` alone. Their texts have the zone UTC, and the server infers their types.
    pub moments: &'a [bool],
    /// Whether the session's time zone is UTC.
    pub is_utc: bool,
    /// The text of the statement. It shows which values are only stored: an assignment casts them as
    /// it does what a text means, and an operator is chosen by their types.
    pub text: &'a str,
}

/// Types and parameters in place of those that were given, so that the server infers the types of
/// all values that would not mean the same under another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loosened {
    /// The types that the Parse names.
    pub named: Vec<u32>,
    /// The formats and parameters of the first use.
    pub first: Vec<u8>,
    /// Those of the others.
    pub more: Vec<Vec<u8>>,
}

impl<'a> Parameters<'a> {
    fn named(&self, number: usize) -> u32 {
        self.named.get(number).copied().unwrap_or(0)
    }

    /// Whether the server infers the type of a value. That of NULL does not matter.
    #[must_use]
    pub fn are_inferred(&self) -> bool {
        !self.are_all_named() && self.any(&mut |number, _, _| self.named(number) == 0)
    }

    /// Whether a statement that was parsed with these types, in the order of its parameters, may be
    /// used by its name.
    #[must_use]
    pub fn may_be_bound(&self, types: &[u32]) -> bool {
        let is_stored = self.stored();
        !self.any(&mut |number, format, value| {
            let of = types.get(number).copied().unwrap_or(0);
            // The bytes of another type's binary form mean something else, or nothing.
            self.named(number) == 0
                && (format == Format::Binary
                    || !self.is_exact_moment(number, of)
                        && !self.is_exact_text(of, value, || is_stored(number)))
        })
    }

    /// Without the binary forms of values, nothing is sent in the form of a learned type.
    #[cfg(not(feature = "values"))]
    #[must_use]
    pub fn loosened(&self) -> Option<Loosened> {
        None
    }

    /// Whether the Parse names the type of each value, which needs no look at the values.
    fn are_all_named(&self) -> bool {
        let are_fewer = |it: &[u8]| bind::count_of(it).is_some_and(|it| it <= self.named.len());
        !self.named.contains(&0)
            && are_fewer(self.first)
            && self.more.iter().all(|it| are_fewer(it))
    }

    fn any(&self, is_one: &mut dyn FnMut(usize, Format, &[u8]) -> bool) -> bool {
        any_of(self.first, is_one) || self.more.iter().any(|it| any_of(it, is_one))
    }

    /// Whether it is such a moment that means the same whichever of its types the column has become:
    /// both have the same wall clock then.
    fn is_exact_moment(&self, number: usize, of: u32) -> bool {
        let is_one = self.moments.get(number).copied().unwrap_or(false);
        is_one && self.is_utc && matches!(of, oid::TIMESTAMP | oid::TIMESTAMPTZ)
    }

    /// Whether a text means the same under every type that its column could have become.
    fn is_exact_text(&self, of: u32, text: &[u8], is_stored: impl Fn() -> bool) -> bool {
        (is_exact_text(of, text) || self.is_utc && is_utc_text(of, text))
            && (is_compared_alike(of, text) || is_stored())
    }

    /// Whether a value is only stored, by its number from 0. The first question reads the text.
    fn stored(&self) -> impl Fn(usize) -> bool + 'a {
        let (text, others) = (self.text, OnceCell::<Option<Vec<usize>>>::new());
        move |number| {
            let others = others.get_or_init(|| not_only_stored(text));
            others.as_ref().is_some_and(|others| !others.contains(&(number + 1)))
        }
    }
}

/// Whether one of the values of a use is such a one. NULL is none.
fn any_of(parameters: &[u8], is_one: &mut dyn FnMut(usize, Format, &[u8]) -> bool) -> bool {
    let Some((formats, values)) = parts_of(parameters) else { return false };
    for (number, value) in values.enumerate() {
        if let Some(value) = value
            && is_one(number, format_of(formats, number), value)
        {
            return true;
        }
    }
    false
}

fn format_of(formats: FormatCodes<'_>, number: usize) -> Format {
    formats.of(number).unwrap_or_default()
}

/// Whether a text means the same in a column of any type that a column of this type may be changed
/// to, or fails there: it is as the server would print it, and nothing of it is lost in the type.
#[must_use]
pub fn is_exact_text(type_oid: u32, text: &[u8]) -> bool {
    match type_oid {
        oid::BOOL => matches!(text, b"true" | b"false"),
        oid::INT2 => is_whole_up_to(text, b"32767"),
        oid::INT4 => is_whole_up_to(text, b"2147483647"),
        oid::INT8 => is_whole_up_to(text, b"9223372036854775807"),
        // As an int4 it has no sign.
        oid::OID => is_whole_up_to(text, b"2147483647") && !text.starts_with(b"-"),
        // A cast to numeric keeps 6 or 15 digits (FLT_DIG, DBL_DIG), and one to a whole number rounds.
        oid::FLOAT4 => is_whole_up_to(text, b"999999"),
        oid::FLOAT8 => is_whole_up_to(text, b"999999999999999"),
        oid::NUMERIC => is_whole(text),
        // In a char(n) spaces at the end mean nothing. A name has 63 bytes.
        oid::TEXT | oid::VARCHAR | oid::BPCHAR => !text.ends_with(b" "),
        oid::NAME => text.len() <= 63 && !text.ends_with(b" "),
        oid::UUID => is_uuid(text),
        oid::DATE => is_date(text),
        oid::TIME => is_time(text),
        oid::TIMESTAMP => is_timestamp(text),
        oid::JSON => true,
        oid::INT2_ARRAY => are_exact_texts(oid::INT2, text),
        oid::INT4_ARRAY => are_exact_texts(oid::INT4, text),
        oid::INT8_ARRAY => are_exact_texts(oid::INT8, text),
        _ => false,
    }
}

/// Whether an exact text also means the same where it is compared. A moment is a `date` without its
/// time of day by itself; as a moment it is compared with that day's midnight. Beside a char(n), a
/// column of texts is compared without the spaces at its end; beside a float, a numeric one with the
/// digits of a float; beside an oid, a whole number without its sign. A numeric beside a `real` has
/// more digits than that.
#[must_use]
pub fn is_compared_alike(type_oid: u32, text: &[u8]) -> bool {
    match type_oid {
        oid::BPCHAR | oid::OID | oid::FLOAT4 | oid::FLOAT8 => false,
        oid::NUMERIC => is_whole_up_to(text, b"16777216"),
        oid::TIMESTAMP | oid::TIMESTAMPTZ => {
            let clock = text.get(10..19);
            clock.is_none_or(|clock| clock == b" 00:00:00") && text.get(19) != Some(&b'.')
        }
        _ => true,
    }
}

/// The same for an array of one dimension whose elements need no quotes.
fn are_exact_texts(of: u32, text: &[u8]) -> bool {
    let inner = text.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    inner.is_some_and(|inner| {
        inner.is_empty() || inner.split(|byte| *byte == b',').all(|it| is_exact_text(of, it))
    })
}

/// A moment of UTC where the session's time zone is that: its wall clock is the same everywhere.
fn is_utc_text(type_oid: u32, text: &[u8]) -> bool {
    type_oid == oid::TIMESTAMPTZ && text.strip_suffix(b"+00").is_some_and(is_timestamp)
}

/// Whether it is a whole number as the server prints it, and with or without its sign no more than
/// `most`.
fn is_whole_up_to(text: &[u8], most: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    is_whole(text) && (digits.len(), digits) <= (most.len(), most)
}

fn is_whole(text: &[u8]) -> bool {
    match text.strip_prefix(b"-").unwrap_or(text) {
        b"0" => text == b"0",
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn is_uuid(text: &[u8]) -> bool {
    text.len() == 36
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// Two digits that are no more than this.
fn is_pair(text: &[u8], least: u8, most: u8) -> bool {
    matches!(text, [a @ b'0'..=b'9', b @ b'0'..=b'9']
        if (least..=most).contains(&((a - b'0') * 10 + (b - b'0'))))
}

/// `2020-12-31`: the form of ISO, in which no day is taken for a month.
fn is_date(text: &[u8]) -> bool {
    let (Some(year), [b'-', month @ .., b'-', _, _]) =
        (text.get(..4), text.get(4..).unwrap_or_default())
    else {
        return false;
    };
    text.len() == 10
        && year.iter().all(u8::is_ascii_digit)
        && year != b"0000"
        && is_pair(month, 1, 12)
        && is_pair(&text[8..], 1, 31)
}

/// `23:59:59`, or with up to six digits behind the point, of which the last is no zero.
fn is_time(text: &[u8]) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let is_clock = clock[2] == b':'
        && clock[5] == b':'
        && is_pair(&clock[..2], 0, 23)
        && is_pair(&clock[3..5], 0, 59)
        && is_pair(&clock[6..], 0, 59);
    let is_part = match rest {
        [] => true,
        [b'.', digits @ ..] => {
            (1..=6).contains(&digits.len())
                && digits.iter().all(u8::is_ascii_digit)
                && !digits.ends_with(b"0")
        }
        _ => false,
    };
    is_clock && is_part
}

fn is_timestamp(text: &[u8]) -> bool {
    text.split_at_checked(10)
        .is_some_and(|(date, rest)| is_date(date) && rest.strip_prefix(b" ").is_some_and(is_time))
}

/// Numbers of types (src/include/catalog/pg_type.dat).
mod oid {
    pub(super) const BOOL: u32 = 16;
    pub(super) const NAME: u32 = 19;
    pub(super) const INT8: u32 = 20;
    pub(super) const INT2: u32 = 21;
    pub(super) const INT4: u32 = 23;
    pub(super) const TEXT: u32 = 25;
    pub(super) const OID: u32 = 26;
    pub(super) const JSON: u32 = 114;
    pub(super) const FLOAT4: u32 = 700;
    pub(super) const FLOAT8: u32 = 701;
    pub(super) const INT2_ARRAY: u32 = 1005;
    pub(super) const INT4_ARRAY: u32 = 1007;
    pub(super) const INT8_ARRAY: u32 = 1016;
    pub(super) const BPCHAR: u32 = 1042;
    pub(super) const VARCHAR: u32 = 1043;
    pub(super) const DATE: u32 = 1082;
    pub(super) const TIME: u32 = 1083;
    pub(super) const TIMESTAMP: u32 = 1114;
    pub(super) const TIMESTAMPTZ: u32 = 1184;
    pub(super) const NUMERIC: u32 = 1700;
    pub(super) const UUID: u32 = 2950;
}

#[cfg(feature = "values")]
mod learned;
#[cfg(feature = "values")]
pub use learned::put_moment;
#[cfg(all(test, feature = "values"))]
mod tests;
