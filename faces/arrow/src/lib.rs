//! Rows of PostgreSQL as columns of Arrow, for the faces.
//!
//! * [`Builder`]: takes the bodies of DataRows, and becomes a [`Table`].
//! * [`format()`]: the form in which a column is to be asked for.
//! * [`interface`]: the Arrow C data and stream interfaces, by which a table is handed out.
//!
//! | type of PostgreSQL | of Arrow |
//! |---|---|
//! | bool, int2, int4, int8, oid, float4, float8 | bool, int16, int32, int64, uint32, float, double |
//! | text and the like, json, jsonb, enums | utf8 |
//! | bytea, "char" | binary |
//! | uuid | fixed_size_binary(16), as the extension type arrow.uuid |
//! | date, time | date32, time64 of microseconds |
//! | timestamp, timestamptz | timestamp of microseconds, without a time zone and in UTC |
//! | interval | month_day_nano |
//! | numeric with at most 38 digits | decimal128 of its precision and scale |
//! | anything else, other numerics too | utf8, as its text |
//!
//! Infinite dates and times are the last and the first that there are.
//!
//! Deliberately absent: reading Arrow, computing with it, and its file formats.

mod column;
pub mod interface;
mod table;

pub use column::{Fault, format};
pub use table::{Builder, Table};

#[cfg(test)]
mod tests;
