//! `money`: an amount whose unit the server's locale decides.

use bytes::{BufMut, BytesMut};
use postgres_types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::error::BoxError;
use super::reader::Reader;

/// A `money`: a number of the smallest units of the server's currency, mostly cents. The setting
/// `lc_monetary` decides the currency.
///
/// Only the server knows how many of these make a whole unit, and how the amount is written: cast
/// it to `numeric` or `text` there.
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
