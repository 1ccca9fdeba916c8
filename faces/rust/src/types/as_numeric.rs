//! Numerics as other number types.

use bytes::BytesMut;
use postgres_types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::Numeric;
use super::error::BoxError;

/// A `numeric` as another number `T`: `AsNumeric<rust_decimal::Decimal>` or
/// `AsNumeric<bigdecimal::BigDecimal>` (each with its feature), `AsNumeric<i64>`, or a type of your
/// own that converts to and from [`Numeric`].
///
/// Nothing is rounded: a value that `T` can't hold exactly is an error.
///
/// (`rust_decimal` has its own implementation, with its feature `db-postgres`. As of 1.43 it rounds
/// values with more digits than a `Decimal` holds, and panics for some larger ones, such as 1e32.)
///
/// ```no_run
/// # use onetrip::types::AsNumeric;
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let row = client.query_one("select sum(amount) from payment", &[]).await?;
/// let AsNumeric(cents) = row.get::<AsNumeric<i64>>(0);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AsNumeric<T>(pub T);

impl<'a, T: TryFrom<Numeric, Error: Into<BoxError>>> FromSql<'a> for AsNumeric<T> {
    fn from_sql(type_: &Type, raw: &'a [u8]) -> Result<AsNumeric<T>, BoxError> {
        T::try_from(Numeric::from_sql(type_, raw)?).map(AsNumeric).map_err(Into::into)
    }

    accepts!(NUMERIC);
}

impl<T> ToSql for AsNumeric<T>
where
    T: Clone + std::fmt::Debug + TryInto<Numeric, Error: Into<BoxError>>,
{
    fn to_sql(&self, type_: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        let numeric: Numeric = self.0.clone().try_into().map_err(Into::into)?;
        numeric.to_sql(type_, out)
    }

    accepts!(NUMERIC);
    to_sql_checked!();
}
