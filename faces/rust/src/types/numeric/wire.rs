//! The binary form of a numeric.

use bytes::{BufMut, BytesMut};
use onetrip_postgres::binary::numeric;
use postgres_types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::{Class, Numeric};
use crate::types::ValueError;
use crate::types::error::BoxError;

impl<'a> FromSql<'a> for Numeric {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Numeric, BoxError> {
        let it = numeric::read(raw).map_err(|_| ValueError::new("it is not in its binary form"))?;
        let groups = it.groups.iter().map(|group| u16::from_be_bytes(*group));
        match it.class {
            Class::Positive | Class::Negative => {
                Ok(Numeric::finite(it.class == Class::Negative, it.scale, it.weight, groups)?)
            }
            class => Ok(Numeric::special(class)),
        }
    }

    accepts!(NUMERIC);
}

impl ToSql for Numeric {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        // At most 36,864 groups, since the digits are limited.
        out.put_u16(self.groups.len() as u16);
        out.put_i16(self.weight);
        out.put_u16(self.class.code());
        out.put_u16(self.scale);
        self.groups.iter().for_each(|group| out.put_u16(*group));
        Ok(IsNull::No)
    }

    accepts!(NUMERIC);
    to_sql_checked!();
}
