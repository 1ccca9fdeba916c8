//! Rows of a binary COPY whose types the compiler knows.

use std::time::SystemTime;

use bytes::{BufMut, BytesMut};
use postgres_types::{ToSql, Type};

use super::binary_in::{Source, put_value};
use crate::params::Column;
use crate::types::micros_of;

/// A value of a [`CopyRow`]: `bool`, whole and floating numbers, strings, bytes and `SystemTime`,
/// or an `Option` of one. They are written without a look at the value's type, which [`ToSql`] takes
/// for each value. A value of any other type goes as `&value as &(dyn ToSql + Sync)`.
pub trait CopyValue {
    /// Appends the value with its length, if this is the usual type of the column.
    #[doc(hidden)]
    fn put(&self, type_: &Type, out: &mut BytesMut) -> Put;

    /// The value, for the other types of columns.
    #[doc(hidden)]
    fn as_sql(&self) -> &(dyn ToSql + Sync);
}

/// Whether a value was written.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Done,
    /// Its [`ToSql`] shall write it, or refuse it.
    Other,
}

/// A row of a binary COPY: a tuple of up to 16 [`CopyValue`]s.
pub trait CopyRow {
    /// The number of values.
    #[doc(hidden)]
    const LEN: usize;

    /// Appends the values, or says which of them does not convert and why.
    #[doc(hidden)]
    fn put(&self, columns: &mut Columns, out: &mut BytesMut) -> Result<(), Refused<'_>>;
}

/// The columns' types, and what is known of their values.
#[doc(hidden)]
#[derive(Debug)]
pub struct Columns(pub(super) Box<[(Type, Column)]>);

/// The value that does not convert.
#[doc(hidden)]
pub struct Refused<'a> {
    pub(super) number: usize,
    pub(super) value: &'a (dyn ToSql + Sync),
    pub(super) source: Source,
}

#[inline]
fn put_one<'a, T: CopyValue>(
    number: usize,
    value: &'a T,
    (type_, column): &mut (Type, Column),
    out: &mut BytesMut,
) -> Result<(), Refused<'a>> {
    match value.put(type_, out) {
        Put::Done => Ok(()),
        Put::Other => {
            let value = value.as_sql();
            put_value(value, (type_, column), out).map_err(|source| Refused {
                number,
                value,
                source,
            })
        }
    }
}

macro_rules! rows {
    ($(($len:literal $($name:ident $at:tt)+))+) => { $(
        impl<$($name: CopyValue),+> CopyRow for ($($name,)+) {
            const LEN: usize = $len;

            #[inline]
            fn put(
                &self,
                columns: &mut Columns,
                out: &mut BytesMut,
            ) -> Result<(), Refused<'_>> {
                $(put_one($at, &self.$at, &mut columns.0[$at], out)?;)+
                Ok(())
            }
        }
    )+ };
}

rows! {
    (1 A 0)
    (2 A 0 B 1)
    (3 A 0 B 1 C 2)
    (4 A 0 B 1 C 2 D 3)
    (5 A 0 B 1 C 2 D 3 E 4)
    (6 A 0 B 1 C 2 D 3 E 4 F 5)
    (7 A 0 B 1 C 2 D 3 E 4 F 5 G 6)
    (8 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7)
    (9 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8)
    (10 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9)
    (11 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10)
    (12 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11)
    (13 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12)
    (14 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13)
    (15 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14)
    (16 A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11 M 12 N 13 O 14 P 15)
}

/// Types of one length.
macro_rules! fixed {
    ($($rust:ty, $type_:ident, $len:literal, $bytes:expr;)+) => { $(
        impl CopyValue for $rust {
            #[inline]
            fn put(&self, type_: &Type, out: &mut BytesMut) -> Put {
                if *type_ != Type::$type_ {
                    return Put::Other;
                }
                let mut both = [0; 4 + $len];
                both[..4].copy_from_slice(&u32::to_be_bytes($len));
                both[4..].copy_from_slice(&$bytes(*self));
                out.extend_from_slice(&both);
                Put::Done
            }

            fn as_sql(&self) -> &(dyn ToSql + Sync) {
                self
            }
        }
    )+ };
}

fixed! {
    bool, BOOL, 1, |it| [u8::from(it)];
    i16, INT2, 2, i16::to_be_bytes;
    i32, INT4, 4, i32::to_be_bytes;
    i64, INT8, 8, i64::to_be_bytes;
    u32, OID, 4, u32::to_be_bytes;
    f32, FLOAT4, 4, f32::to_be_bytes;
    f64, FLOAT8, 8, f64::to_be_bytes;
}

/// A moment that the server does not have is left to [`ToSql`]'s way, which refuses it.
impl CopyValue for SystemTime {
    #[inline]
    fn put(&self, type_: &Type, out: &mut BytesMut) -> Put {
        if *type_ != Type::TIMESTAMPTZ && *type_ != Type::TIMESTAMP {
            return Put::Other;
        }
        let Some(micros) = micros_of(*self) else { return Put::Other };
        let mut both = [0; 12];
        both[..4].copy_from_slice(&8_u32.to_be_bytes());
        both[4..].copy_from_slice(&micros.to_be_bytes());
        out.extend_from_slice(&both);
        Put::Done
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        self
    }
}

/// Types whose bytes are those of the server's type.
macro_rules! bytes {
    ($($rust:ty, $($type_:ident)|+;)+) => { $(
        impl CopyValue for $rust {
            #[inline]
            fn put(&self, type_: &Type, out: &mut BytesMut) -> Put {
                let bytes: &[u8] = self.as_ref();
                if !($(*type_ == Type::$type_)||+) || bytes.len() > SHORT {
                    return Put::Other;
                }
                out.reserve(4 + bytes.len());
                out.put_u32(bytes.len() as u32);
                out.put_slice(bytes);
                Put::Done
            }

            fn as_sql(&self) -> &(dyn ToSql + Sync) {
                self
            }
        }
    )+ };
}

/// Longer values leave the other way, which knows the limit of a value.
const SHORT: usize = 1 << 20;

bytes! {
    &str, TEXT | VARCHAR;
    String, TEXT | VARCHAR;
    &[u8], BYTEA;
    Vec<u8>, BYTEA;
}

impl<T: CopyValue + ToSql + Sync> CopyValue for Option<T> {
    #[inline]
    fn put(&self, type_: &Type, out: &mut BytesMut) -> Put {
        match self {
            Some(value) => value.put(type_, out),
            None if T::accepts(type_) => {
                out.put_i32(-1);
                Put::Done
            }
            None => Put::Other,
        }
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        self
    }
}

impl CopyValue for &(dyn ToSql + Sync) {
    #[inline]
    fn put(&self, _: &Type, _: &mut BytesMut) -> Put {
        Put::Other
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        *self
    }
}
