//! Values in the binary form of a type that the client has learned, and the texts that take their
//! place where another type would change them.

use super::{
    Format, Loosened, Parameters, format_of, is_compared_alike, is_exact_text, oid, parts_of,
};
use std::net::IpAddr;

use crate::binary::{Parts, array, calendar, numeric};

const BYTEA: u32 = 17;

/// Numbers of types that have no exact text.
const INTERVAL: u32 = 1186;
const TIMETZ: u32 = 1266;
const JSONB: u32 = 3802;
const INET: u32 = 869;

const TIMESTAMP_ARRAY: u32 = 1115;
const TIMESTAMPTZ_ARRAY: u32 = 1185;

impl<'a> Parameters<'a> {
    fn uses(&self) -> impl Iterator<Item = &'a [u8]> {
        let more = self.more.iter().map(|it| &it[..]);
        std::iter::once(self.first).filter(|it| !it.is_empty()).chain(more)
    }

    /// The same parameters, so that no learned type is named for a value that it might change;
    /// `None` where they are so as they are.
    #[must_use]
    pub fn loosened(&self) -> Option<Loosened> {
        if !self.are_learned {
            return None;
        }
        let (is_stored, mut loose) = (self.stored(), Vec::new());
        self.any(&mut |number, format, value| {
            let of = self.named(number);
            let is_exact = match format {
                Format::Text => self.is_exact_text(of, value, || is_stored(number)),
                Format::Binary => {
                    is_exact_binary(of, value, self.is_utc)
                        && (binary_is_compared_alike(of, value) || is_stored(number))
                }
            };
            if of != 0 && !is_exact && !loose.contains(&number) {
                loose.push(number);
            }
            false
        });
        // Where a value has no text form here, its type stays: such types are cast to none but text.
        let uses = || self.uses().filter_map(parts_of);
        loose.retain(|number| {
            uses().all(|(formats, mut values)| match values.nth(*number).flatten() {
                Some(value) if format_of(formats, *number) == Format::Binary => {
                    put_text(self.named(*number), value, &mut Vec::new()).is_some()
                }
                _ => true,
            })
        });
        if loose.is_empty() {
            return None;
        }
        let named = (0..self.named.len()).map(|number| match loose.contains(&number) {
            true => 0,
            false => self.named(number),
        });
        let mut rewritten = self.uses().map(|of| self.rewritten(of, &loose));
        Some(Loosened {
            named: named.collect(),
            first: rewritten.next().unwrap_or_default(),
            more: rewritten.collect(),
        })
    }

    /// The parameters of one use, with some of them as text.
    fn rewritten(&self, of: &[u8], loose: &[usize]) -> Vec<u8> {
        let Some((formats, values)) = parts_of(of) else { return of.to_vec() };
        let mut out = Vec::with_capacity(of.len() + 16 * loose.len());
        let count = (values.len() as u16).to_be_bytes();
        out.extend_from_slice(&count);
        for number in 0..values.len() {
            let is_loose = loose.contains(&number);
            let format = if is_loose { Format::Text } else { format_of(formats, number) };
            out.extend_from_slice(&format.code().to_be_bytes());
        }
        out.extend_from_slice(&count);
        for (number, value) in values.enumerate() {
            let Some(value) = value else {
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                continue;
            };
            let is_binary = format_of(formats, number) == Format::Binary;
            let mut text = Vec::new();
            let is_rewritten = loose.contains(&number) && is_binary;
            if is_rewritten {
                put_text(self.named(number), value, &mut text);
            }
            let value = if is_rewritten { &text[..] } else { value };
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(value);
        }
        out
    }
}

fn is_exact_binary(type_oid: u32, value: &[u8], is_utc: bool) -> bool {
    match type_oid {
        // They are rewritten only where their text isn't exact.
        oid::FLOAT4 | oid::FLOAT8 | oid::NUMERIC => text_is_exact(type_oid, value),
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME => is_exact_text(type_oid, value),
        oid::OID => value.first().is_none_or(|byte| *byte < 0x80),
        oid::TIMESTAMPTZ => is_utc,
        TIMETZ | INTERVAL | JSONB | INET => false,
        _ => match element_of(type_oid) {
            Some(of) => each_is(value, |it| is_exact_binary(of, it, is_utc)),
            None => true,
        },
    }
}

/// The same as for texts.
fn binary_is_compared_alike(type_oid: u32, value: &[u8]) -> bool {
    match type_oid {
        oid::TIMESTAMP | oid::TIMESTAMPTZ => value.try_into().map_or(true, |bytes| {
            let micros = i64::from_be_bytes(bytes);
            matches!(micros, i64::MIN | i64::MAX) || micros % calendar::DAY == 0
        }),
        oid::BPCHAR | oid::OID | oid::FLOAT4 | oid::FLOAT8 => false,
        oid::NUMERIC => {
            let mut text = Vec::new();
            put_text(type_oid, value, &mut text).is_some() && is_compared_alike(type_oid, &text)
        }
        _ => match element_of(type_oid) {
            Some(of) => each_is(value, |it| binary_is_compared_alike(of, it)),
            None => true,
        },
    }
}

/// Whether all elements of an array are such.
fn each_is(array: &[u8], is_one: impl Fn(&[u8]) -> bool) -> bool {
    array::read(array).is_ok_and(|(_, _, mut parts)| {
        std::iter::from_fn(|| (!parts.0.is_empty()).then(|| parts.part()))
            .all(|part| part.is_ok_and(|it| it.is_none_or(&is_one)))
    })
}

fn text_is_exact(type_oid: u32, value: &[u8]) -> bool {
    let mut text = Vec::new();
    put_text(type_oid, value, &mut text).is_some() && is_exact_text(type_oid, &text)
}

/// Appends the text of a moment, or of an array of them, from which each type of moments reads the
/// same one in UTC. `None` where there is none here. `of`: `timestamptz`, or an array of it.
pub fn put_moment(of: u32, value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    matches!(of, oid::TIMESTAMPTZ | TIMESTAMPTZ_ARRAY).then(|| put_text(of, value, out)).flatten()
}

/// Appends the text of a value in binary form, from which the same value is read by its type;
/// `None` if it has none here.
fn put_text(type_oid: u32, value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    match type_oid {
        oid::FLOAT4 => {
            let value = f32::from_be_bytes(value.try_into().ok()?);
            out.extend_from_slice(float_text(value.into(), &value.to_string()).as_bytes());
        }
        oid::FLOAT8 => {
            let value = f64::from_be_bytes(value.try_into().ok()?);
            out.extend_from_slice(float_text(value, &format!("{value}")).as_bytes());
        }
        oid::OID => put(out, u32::from_be_bytes(value.try_into().ok()?)),
        oid::NUMERIC => out.extend_from_slice(numeric::read(value).ok()?.text().as_bytes()),
        // These are exact, and stand beside a text of another use that is not.
        oid::BOOL => out.extend_from_slice(if value == [0] { b"false" } else { b"true" }),
        oid::INT2 => put(out, i16::from_be_bytes(value.try_into().ok()?)),
        oid::INT4 => put(out, i32::from_be_bytes(value.try_into().ok()?)),
        oid::INT8 => put(out, i64::from_be_bytes(value.try_into().ok()?)),
        oid::DATE => calendar::put_date(i32::from_be_bytes(value.try_into().ok()?), out),
        oid::TIME => calendar::put_time(i64::from_be_bytes(value.try_into().ok()?), out),
        oid::UUID | BYTEA => put_hex(type_oid, value, out),
        oid::JSON => out.extend_from_slice(value),
        JSONB => out.extend_from_slice(value.split_first()?.1),
        INET => put_address(value, out)?,
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME => out.extend_from_slice(value),
        oid::TIMESTAMPTZ => {
            calendar::put_utc(i64::from_be_bytes(value.try_into().ok()?), out);
        }
        oid::TIMESTAMP => {
            calendar::put_timestamp(i64::from_be_bytes(value.try_into().ok()?), out);
        }
        TIMETZ => {
            let mut parts = Parts(value);
            let (micros, west) = (i64::from_be_bytes(parts.take().ok()?), parts.i32().ok()?);
            calendar::put_time(micros, out);
            calendar::put_offset(west, out);
        }
        INTERVAL => calendar::Interval::read(value).ok()?.put_text(out),
        _ => {
            let of = element_of(type_oid).or_else(|| exact_element_of(type_oid))?;
            return put_array_text(of, value, out);
        }
    }
    Some(())
}

fn put(out: &mut Vec<u8>, number: impl std::fmt::Display) {
    out.extend_from_slice(number.to_string().as_bytes());
}

/// An address, with its mask if it has one (`network_send` in src/backend/utils/adt/network.c). A cast
/// to text gives all of them a mask.
fn put_address(value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let [_, bits, _, _, address @ ..] = value else { return None };
    let address = match *address {
        [a, b, c, d] => IpAddr::from([a, b, c, d]),
        _ => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
    };
    put(out, address);
    if usize::from(*bits) != 8 * (value.len() - 4) {
        put(out, format_args!("/{bits}"));
    }
    Some(())
}

/// A uuid with its hyphens, or bytes.
fn put_hex(type_oid: u32, value: &[u8], out: &mut Vec<u8>) {
    let is_uuid = type_oid == oid::UUID;
    out.extend_from_slice(if is_uuid { b"" } else { b"\\x" });
    for (place, byte) in value.iter().enumerate() {
        if is_uuid && matches!(place, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend_from_slice(format!("{byte:02x}").as_bytes());
    }
}

fn put_array_text(of: u32, value: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (lens, dimensions, mut parts) = array::read(value).ok()?;
    // With more dimensions, or other bounds than 1, it stays as it is.
    let bound = value.get(16..20).is_none_or(|it| it == [0, 0, 0, 1]);
    if dimensions > 1 || !bound {
        return None;
    }
    out.push(b'{');
    let count = if dimensions == 0 { 0 } else { lens[0] };
    for place in 0..count {
        out.extend_from_slice(if place > 0 { b"," } else { b"" });
        match parts.part().ok()? {
            None => out.extend_from_slice(b"NULL"),
            Some(element) => {
                let mut text = Vec::new();
                put_text(of, element, &mut text)?;
                array::put_quoted(out, &text);
            }
        }
    }
    out.push(b'}');
    Some(())
}

/// The digits of a float from which the same float is read.
fn float_text(value: f64, digits: &str) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        _ => digits.to_owned(),
    }
}

/// The type of the elements of an array whose elements are not always exact.
fn element_of(type_oid: u32) -> Option<u32> {
    const ARRAYS: [(u32, u32); 14] = [
        (1009, oid::TEXT),
        (1015, oid::VARCHAR),
        (1014, oid::BPCHAR),
        (1003, oid::NAME),
        (1021, oid::FLOAT4),
        (1022, oid::FLOAT8),
        (1231, oid::NUMERIC),
        (1028, oid::OID),
        (TIMESTAMP_ARRAY, oid::TIMESTAMP),
        (TIMESTAMPTZ_ARRAY, oid::TIMESTAMPTZ),
        (1270, TIMETZ),
        (1187, INTERVAL),
        (3807, JSONB),
        (1041, INET),
    ];
    ARRAYS.iter().find(|(array, _)| *array == type_oid).map(|(_, of)| *of)
}

/// The same where they are.
fn exact_element_of(type_oid: u32) -> Option<u32> {
    const ARRAYS: [(u32, u32); 9] = [
        (1000, oid::BOOL),
        (oid::INT2_ARRAY, oid::INT2),
        (oid::INT4_ARRAY, oid::INT4),
        (oid::INT8_ARRAY, oid::INT8),
        (1182, oid::DATE),
        (1183, oid::TIME),
        (2951, oid::UUID),
        (1001, BYTEA),
        (199, oid::JSON),
    ];
    ARRAYS.iter().find(|(array, _)| *array == type_oid).map(|(_, of)| *of)
}
