//! `money`: an amount of which the server's locale knows the rest.

use bytes::{BufMut, BytesMut};
use postgres_types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::error::BoxError;
use super::reader::Reader;

/// A `money`: a count of the smallest unit of the server's currency, which is its setting
/// `lc_monetary`; cents for most.
///
/// How many of them make a whole, and how the amount is written, only the server knows: cast it to
/// `numeric` or `text` there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(pub i64);

impl<'a> FromSql<'a> for Money {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Money, BoxError> {
        let mut reader = Reader::new(raw);
        let amount = reader.i64()?;
        reader.end()?;
        Ok(Money(amount))
    }

    accepts!(MONEY);
}

impl ToSql for Money {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        out.put_i64(self.0);
        Ok(IsNull::No)
    }

    accepts!(MONEY);
    to_sql_checked!();
}
