//! Values that go to `timestamp` and to `timestamptz`, as a `SystemTime` does. Which of them a column
//! is may change at any moment, and the server casts one to the other by the zone of the session. So
//! no type is named for such a value: it leaves as a text with the zone UTC, from which the server
//! reads the same moment as either type. What a Rust type decides has its type.

use std::error::Error as StdError;
use std::sync::LazyLock;

use bytes::BytesMut;
use onetrip_postgres::client::exact::put_moment;
use postgres_types::{IsNull, Kind, ToSql, Type};

/// The type of such a value. It has no number, so the server infers it.
fn moment() -> &'static Type {
    static MOMENT: LazyLock<Type> = LazyLock::new(|| of("onetrip.moment"));
    &MOMENT
}

/// That of a list of them.
fn moments() -> &'static Type {
    static MOMENTS: LazyLock<Type> = LazyLock::new(|| of("onetrip.moments"));
    &MOMENTS
}

fn of(name: &str) -> Type {
    Type::new(name.into(), 0, Kind::Pseudo, String::new())
}

/// The types of moments of which this is one, without and with a zone, and what stands for both.
pub(crate) fn moments_for(type_: &Type) -> Option<([Type; 2], &'static Type)> {
    match *type_ {
        Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            Some(([Type::TIMESTAMP, Type::TIMESTAMPTZ], moment()))
        }
        Type::TIMESTAMP_ARRAY | Type::TIMESTAMPTZ_ARRAY => {
            Some(([Type::TIMESTAMP_ARRAY, Type::TIMESTAMPTZ_ARRAY], moments()))
        }
        _ => None,
    }
}

/// Whether it is the type of a moment, or of a list of them.
pub(crate) fn is_any_moment(type_: &Type) -> bool {
    written_as(type_).is_some()
}

/// The type whose binary form is made first.
#[inline]
pub(crate) fn written_as(type_: &Type) -> Option<Type> {
    // A built-in type differs from them by its discriminant; its number would take a table.
    match type_ {
        it if it == moment() => Some(Type::TIMESTAMPTZ),
        it if it == moments() => Some(Type::TIMESTAMPTZ_ARRAY),
        _ => None,
    }
}

/// Appends the text of a value whose binary form was made of this type.
pub(crate) fn write_moment(
    value: &(dyn ToSql + Sync),
    as_what: &Type,
    out: &mut BytesMut,
) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
    let mut binary = BytesMut::new();
    if let IsNull::Yes = value.to_sql_checked(as_what, &mut binary)? {
        return Ok(IsNull::Yes);
    }
    let mut text = Vec::new();
    put_moment(as_what.oid(), &binary, &mut text).ok_or("it has more than one dimension")?;
    out.extend_from_slice(&text);
    Ok(IsNull::No)
}
