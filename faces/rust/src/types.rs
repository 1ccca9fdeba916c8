//! Values: the traits, types and features of `postgres-types`, and further value types.
//!
//! A value of any type that implements [`ToSql`] can be a parameter, and a column can be read as
//! any type that implements [`FromSql`]. docs/reference/types.md lists which Rust type goes with
//! which type of PostgreSQL.
//!
//! Available without a feature: [`Numeric`], [`Interval`], [`Range`] and [`Multirange`] of
//! anything, [`TimeTz`], [`Money`], [`AsNumeric`] for the numbers of decimal crates, and [`AsText`]
//! for values that come or go as text. Types that are not built in (enums, composites, domains,
//! extensions) are learned from the server into a [`TypeCache`].
//!
//! # Features
//!
//! None is on by default. Those that begin with `with-` are named as in `postgres-types` and
//! `tokio-postgres`, with the version of the crate that they are for.
//!
//! | feature | values |
//! |---|---|
//! | `derive` | `#[derive(ToSql, FromSql)]` for enums, composites and domains; needs `postgres-types` among your own dependencies, since the code it makes names that crate |
//! | `array-impls` | `[T; N]` for arrays, `[u8; N]` to `bytea` |
//! | `with-bigdecimal-0_4` | [`AsNumeric`]`<bigdecimal::BigDecimal>` for `numeric`, and [`Numeric`] to and from it |
//! | `with-bit-vec-0_6`, `with-bit-vec-0_7`, `with-bit-vec-0_8`, `with-bit-vec-0_9` | `bit_vec::BitVec` for `bit` and `varbit` |
//! | `with-chrono-0_4` | `chrono`'s dates and times |
//! | `with-cidr-0_2`, `with-cidr-0_3` | `cidr::IpCidr` for `cidr`, `cidr::IpInet` for `inet` |
//! | `with-eui48-0_4`, `with-eui48-1` | `eui48::MacAddress` for `macaddr` |
//! | `with-geo-types-0_6`, `with-geo-types-0_7` | `geo_types`' `Point`, `Rect` and `LineString` for `point`, `box` and `path` |
//! | `with-jiff-0_1`, `with-jiff-0_2` | `jiff`'s dates and times |
//! | `with-rust_decimal-1` | [`AsNumeric`]`<rust_decimal::Decimal>` for `numeric`, and [`Numeric`] to and from it |
//! | `with-serde_json-1` | `serde_json::Value` and `Json<T>` for `json` and `jsonb` |
//! | `with-smol_str-01` | `smol_str::SmolStr` for strings |
//! | `with-time-0_2`, `with-time-0_3` | `time`'s dates and times |
//! | `with-uuid-0_8`, `with-uuid-1` | `uuid::Uuid` for `uuid` |

mod as_numeric;
mod as_text;
mod cache;
mod checks;
mod error;
mod interval;
mod introspection;
mod learning;
mod look_up;
mod moments;
mod money;
mod numeric;
mod range;
mod reader;
mod time_tz;
mod times;
mod value_kind;

pub use as_numeric::AsNumeric;
pub use as_text::AsText;
pub use cache::TypeCache;
pub use error::ValueError;
pub use interval::Interval;
pub use money::Money;
pub use numeric::Numeric;
#[cfg(feature = "with-serde_json-1")]
pub use postgres_types::Json;
// By name, so that what a later version adds is not public here until it is listed.
pub use postgres_types::{
    BorrowToSql, Date, Field, Format, FromSql, FromSqlOwned, IsNull, Kind, Oid, PgLsn, Timestamp,
    ToSql, Type, WasNull, WrongType, accepts, to_sql_checked,
};
pub use range::{Multirange, Range};
pub use time_tz::TimeTz;

pub(crate) use checks::{check as check_value, is_checked};
pub(crate) use error::plain_reason;
pub(crate) use moments::{is_any_moment, moments_for, write_moment, written_as};
pub(crate) use times::{
    SystemTimes, check_one_more, check_written, has_times, holder, is_moment, micros_of,
};
pub(crate) use value_kind::value_kind;
