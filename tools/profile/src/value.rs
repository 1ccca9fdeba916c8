//! Values, of which no more than a keyed hash is kept.
//!
//! The key is random and dies with the run, so a hash says nothing outside of it. Values that mean
//! the same have the same hash, whatever their form: an `int4` in binary form, an `int8` and the
//! text `17`; both forms of a UUID; the elements of an array.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;

use onetrip_postgres::message::Format;

/// The hash of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Value(pub(crate) u64);

/// Values of one parameter or column: elements of an array are values of their own.
const ELEMENTS_MAX: usize = 64;

/// The key, and how often values with a hash were seen.
#[derive(Debug)]
pub(crate) struct Values {
    key: RandomState,
    /// A count-min sketch: two rows of counts.
    counts: Vec<u32>,
    total: u64,
    /// Room for the values of one place.
    pub(crate) found: Vec<Value>,
}

const ROW: usize = 1 << 16;

impl Values {
    pub(crate) fn new() -> Values {
        Values { key: RandomState::new(), counts: vec![0; 2 * ROW], total: 0, found: Vec::new() }
    }

    /// The hash of any bytes under the run's key.
    pub(crate) fn hash(&self, kind: u8, bytes: &[u8]) -> Value {
        let mut hasher = self.key.build_hasher();
        hasher.write_u8(kind);
        hasher.write(bytes);
        Value(hasher.finish())
    }

    /// Counts a value that was seen in a result or a request.
    pub(crate) fn count(&mut self, value: Value) {
        for place in places(value) {
            self.counts[place] = self.counts[place].saturating_add(1);
        }
        self.total += 1;
    }

    /// How much it says that two places have this value, in bits: the less often it was seen, the
    /// more.
    pub(crate) fn bits(&self, value: Value) -> f64 {
        let seen = places(value).map(|place| self.counts[place]).into_iter().min().unwrap_or(0);
        (self.total.max(1) as f64 / f64::from(seen.max(1))).log2()
    }

    /// The values in a parameter or a column of PostgreSQL; `oid` is 0 where the type is unknown.
    /// They are added to `to`, up to [`ELEMENTS_MAX`] of them.
    pub(crate) fn of_postgres(&self, bytes: &[u8], format: Format, oid: u32, to: &mut Vec<Value>) {
        match format {
            Format::Text => self.of_text(bytes, oid, to),
            _ => self.of_binary(bytes, oid, to),
        }
    }

    /// The values in an argument or a reply of Redis: the whole, and the parts of a key.
    pub(crate) fn of_redis(&self, bytes: &[u8], to: &mut Vec<Value>) {
        to.push(self.scalar(bytes));
        let is_bound = |byte: &u8| matches!(byte, b':' | b'/' | b'|' | b'{' | b'}' | b',');
        if bytes.len() <= 512 && bytes.iter().any(is_bound) {
            let parts = bytes.split(|byte| is_bound(byte)).filter(|part| !part.is_empty());
            to.extend(parts.take(ELEMENTS_MAX).map(|part| self.scalar(part)));
        }
    }

    fn of_text(&self, bytes: &[u8], oid: u32, to: &mut Vec<Value>) {
        if matches!(oid, oid::JSON | oid::JSONB) {
            return self.of_json(bytes, to);
        }
        if let [b'{', inside @ .., b'}'] = bytes
            && oid != oid::TEXT
        {
            let elements = inside.split(|byte| *byte == b',').take(ELEMENTS_MAX);
            to.extend(elements.map(|it| self.scalar(trim_quotes(it))));
            return;
        }
        to.push(self.scalar(bytes));
    }

    fn of_json(&self, bytes: &[u8], to: &mut Vec<Value>) {
        let Ok(json) = serde_json::from_slice::<serde_json::Value>(bytes) else {
            return to.push(self.scalar(bytes));
        };
        let (mut open, full) = (vec![&json], to.len() + ELEMENTS_MAX);
        while let Some(json) = open.pop() {
            if to.len() >= full {
                return;
            }
            match json {
                serde_json::Value::Array(items) => open.extend(items),
                serde_json::Value::Object(fields) => open.extend(fields.values()),
                serde_json::Value::String(text) => to.push(self.scalar(text.as_bytes())),
                serde_json::Value::Number(number) => {
                    to.push(self.scalar(number.to_string().as_bytes()));
                }
                serde_json::Value::Bool(_) | serde_json::Value::Null => {}
            }
        }
    }

    fn of_binary(&self, bytes: &[u8], oid: u32, to: &mut Vec<Value>) {
        match oid {
            oid::JSONB => self.of_json(bytes.get(1..).unwrap_or_default(), to),
            oid::JSON => self.of_json(bytes, to),
            oid::UUID if bytes.len() == 16 => to.push(self.hash(UUID, bytes)),
            oid::FLOAT4 if bytes.len() == 4 => {
                let number = f32::from_be_bytes(bytes.try_into().unwrap_or_default());
                to.push(self.scalar(number.to_string().as_bytes()));
            }
            oid::FLOAT8 if bytes.len() == 8 => {
                let number = f64::from_be_bytes(bytes.try_into().unwrap_or_default());
                to.push(self.scalar(number.to_string().as_bytes()));
            }
            _ if oid::is_text(oid) => to.push(self.scalar(bytes)),
            _ if is_array(bytes) => self.of_array(bytes, to),
            // Also of an unknown type: what has the length of a number is mostly one.
            _ => to.push(match *bytes {
                [a, b] => self.integer(i16::from_be_bytes([a, b]).into()),
                [a, b, c, d] => self.integer(i32::from_be_bytes([a, b, c, d]).into()),
                [a, b, c, d, e, f, g, h] => {
                    self.integer(i64::from_be_bytes([a, b, c, d, e, f, g, h]))
                }
                _ if oid == 0 && bytes.len() != 16 => self.scalar(bytes),
                _ if bytes.len() == 16 => self.hash(UUID, bytes),
                _ => self.hash(BYTES, bytes),
            }),
        }
    }

    /// Of an array in binary form: the length and the bytes of each element stand behind its head.
    fn of_array(&self, bytes: &[u8], to: &mut Vec<Value>) {
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        let dimensions = word(0).unwrap_or(0) as usize;
        let oid = word(8).unwrap_or(0);
        let (mut at, full) = (12 + 8 * dimensions, to.len() + ELEMENTS_MAX);
        while let Some(len) = word(at) {
            at += 4;
            if len == u32::MAX {
                continue;
            }
            let Some(element) = bytes.get(at..at + len as usize) else { return };
            if to.len() >= full {
                return;
            }
            self.of_binary(element, oid, to);
            at += len as usize;
        }
    }

    /// A value as text: numbers without what means nothing, UUIDs by their bytes.
    fn scalar(&self, text: &[u8]) -> Value {
        if let Some(uuid) = uuid(text) {
            return self.hash(UUID, &uuid);
        }
        match Number::read(text) {
            Some(number) => self.number(number),
            None => self.hash(TEXT, text),
        }
    }

    fn integer(&self, number: i64) -> Value {
        let mut digits = [0; 20];
        let mut free = &mut digits[..];
        // Twenty bytes hold any number.
        let is_written = write!(free, "{}", number.unsigned_abs()).is_ok();
        let len = if is_written { 20 - free.len() } else { 0 };
        let whole = if number == 0 { &[][..] } else { &digits[..len] };
        self.number(Number { is_negative: number < 0, whole, part: &[] })
    }

    fn number(&self, number: Number<'_>) -> Value {
        let mut hasher = self.key.build_hasher();
        hasher.write_u8(NUMBER + 16 * u8::from(number.is_negative));
        hasher.write(number.whole);
        if !number.part.is_empty() {
            hasher.write_u8(b'.');
            hasher.write(number.part);
        }
        Value(hasher.finish())
    }
}

const NUMBER: u8 = 1;
const TEXT: u8 = 2;
const UUID: u8 = 3;
const BYTES: u8 = 4;

fn places(Value(hash): Value) -> [usize; 2] {
    let low = hash as usize % ROW;
    [low, ROW + (hash >> 32) as usize % ROW]
}

/// A number without leading and trailing zeros.
#[derive(Clone, Copy)]
struct Number<'a> {
    is_negative: bool,
    whole: &'a [u8],
    part: &'a [u8],
}

impl<'a> Number<'a> {
    /// `None` for other texts.
    fn read(text: &'a [u8]) -> Option<Number<'a>> {
        let (digits, has_sign) = match text {
            [b'-', digits @ ..] => (digits, true),
            digits => (digits, false),
        };
        if digits.len() > 40 || !digits.first()?.is_ascii_digit() {
            return None;
        }
        let point = digits.iter().position(|byte| !byte.is_ascii_digit());
        let (whole, part) = match point {
            None => (digits, &[][..]),
            Some(at) if digits[at] == b'.' => (&digits[..at], &digits[at + 1..]),
            Some(_) => return None,
        };
        if !part.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let whole = &whole[whole.iter().take_while(|byte| **byte == b'0').count()..];
        let part = &part[..part.iter().rposition(|byte| *byte != b'0').map_or(0, |at| at + 1)];
        let is_zero = whole.is_empty() && part.is_empty();
        Some(Number { is_negative: has_sign && !is_zero, whole, part })
    }
}

/// The bytes of a UUID in its usual form, with or without hyphens.
fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let has_hyphens = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text[*at] == b'-');
    if !has_hyphens && text.len() != 32 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut digits = text.iter().filter(|byte| **byte != b'-');
    for byte in &mut bytes {
        let mut digit = || char::from(*digits.next()?).to_digit(16);
        *byte = (digit()? * 16 + digit()?) as u8;
    }
    Some(bytes)
}

fn trim_quotes(text: &[u8]) -> &[u8] {
    match text {
        [b'"', inside @ .., b'"'] => inside,
        text => text,
    }
}

/// Whether bytes have the head of an array in binary form, of one or two dimensions.
fn is_array(bytes: &[u8]) -> bool {
    bytes.len() >= 12
        && matches!(bytes[..8], [0, 0, 0, 0..=2, 0, 0, 0, 0..=1])
        && (bytes.len() == 12) == (bytes[3] == 0)
}

/// Numbers of types, from pg_type.dat.
mod oid {
    pub(super) const TEXT: u32 = 25;
    pub(super) const JSON: u32 = 114;
    pub(super) const FLOAT4: u32 = 700;
    pub(super) const FLOAT8: u32 = 701;
    pub(super) const UUID: u32 = 2950;
    pub(super) const JSONB: u32 = 3802;

    /// char, name, text, bpchar, varchar.
    pub(super) fn is_text(oid: u32) -> bool {
        matches!(oid, 18 | 19 | TEXT | 1042 | 1043)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(values: &Values, text: &str, oid: u32) -> Vec<Value> {
        of(values, text.as_bytes(), Format::Text, oid)
    }

    fn of(values: &Values, bytes: &[u8], format: Format, oid: u32) -> Vec<Value> {
        let mut found = Vec::new();
        values.of_postgres(bytes, format, oid, &mut found);
        found
    }

    #[test]
    fn a_value_has_one_hash_in_all_its_forms() {
        let values = Values::new();
        let seventeen = text(&values, "17", 0);
        for (bytes, oid) in [
            (&17_i16.to_be_bytes()[..], 21),
            (&17_i32.to_be_bytes(), 23),
            (&17_i64.to_be_bytes(), 20),
            (&17_i64.to_be_bytes(), 0),
            (b"17", 25),
        ] {
            assert_eq!(of(&values, bytes, Format::Binary, oid), seventeen);
        }
        assert_eq!(text(&values, "017.00", 1700), seventeen);
        assert_ne!(text(&values, "18", 0), seventeen);
        let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        let bytes = 0xa0ee_bc99_9c0b_4ef8_bb6d_6bb9_bd38_0a11_u128.to_be_bytes();
        assert_eq!(
            of(&values, &bytes, Format::Binary, oid::UUID),
            text(&values, &uuid.to_uppercase(), 0)
        );
    }

    #[test]
    fn elements_of_arrays_json_and_keys_are_values() {
        let values = Values::new();
        let one = |it: &str| text(&values, it, 0)[0];
        assert_eq!(text(&values, "{17,\"a b\"}", 1009), [one("17"), one("a b")]);
        let mut array = [1_u32, 0, 23, 2, 1].map(u32::to_be_bytes).concat();
        for number in [17_i32, 18] {
            array.extend(4_u32.to_be_bytes());
            array.extend(number.to_be_bytes());
        }
        let found = of(&values, &array, Format::Binary, 1007);
        assert_eq!(found, [one("17"), one("18")]);
        let json = text(&values, r#"{"a": [17, "x"], "b": null}"#, oid::JSON);
        assert!(json.contains(&one("17")) && json.contains(&one("x")) && json.len() == 2);
        let mut key = Vec::new();
        values.of_redis(b"user:17:name", &mut key);
        assert!(key.contains(&one("17")) && key.contains(&one("user")));
    }

    #[test]
    fn a_rare_value_says_more_than_a_common_one() {
        let mut values = Values::new();
        let (rare, common) = (values.hash(TEXT, b"rare"), values.hash(TEXT, b"common"));
        values.count(rare);
        (0..1023).for_each(|_| values.count(common));
        assert!((values.bits(rare) - 10.0).abs() < 0.1);
        assert!(values.bits(common) < 0.1);
    }

    #[test]
    fn any_bytes_have_values() {
        let values = Values::new();
        for bytes in [&b""[..], &[0; 3], &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 255], b"{", b"-"] {
            for oid in [0, 23, 114, 3802, 2950, 1007] {
                of(&values, bytes, Format::Binary, oid);
                of(&values, bytes, Format::Text, oid);
            }
            values.of_redis(bytes, &mut Vec::new());
        }
    }
}
