//! The binary form of a numeric, as numeric_send and numeric_recv in
//! src/backend/utils/adt/numeric.c write and read it.

use bytes::{BufMut, BytesMut};
use postgres_types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use super::groups::BASE;
use super::{Class, Numeric};
use crate::types::ValueError;
use crate::types::error::BoxError;
use crate::types::reader::Reader;

// NUMERIC_POS and the like in numeric.c.
const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const NEG_INFINITY: u16 = 0xf000;

impl<'a> FromSql<'a> for Numeric {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Numeric, BoxError> {
        Ok(read(Reader::new(raw))?)
    }

    accepts!(NUMERIC);
}

fn read(mut reader: Reader<'_>) -> Result<Numeric, ValueError> {
    let count = reader.u16()?;
    let weight = reader.i16()?;
    let sign = reader.u16()?;
    let scale = reader.u16()?;
    let (groups, rest) = reader.rest().as_chunks::<2>();
    if groups.len() != usize::from(count) || !rest.is_empty() {
        return Err(ValueError::new("its length does not match its header"));
    }
    let groups = groups.iter().map(|group| u16::from_be_bytes(*group));
    if groups.clone().any(|group| group >= BASE) {
        return Err(ValueError::new("a digit is out of range"));
    }
    match sign {
        POSITIVE | NEGATIVE => Numeric::finite(sign == NEGATIVE, scale, weight.into(), groups),
        NAN => Ok(Numeric::NAN),
        INFINITY => Ok(Numeric::INFINITY),
        NEG_INFINITY => Ok(Numeric::NEG_INFINITY),
        _ => Err(ValueError::new("its sign is unknown")),
    }
}

impl ToSql for Numeric {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        // At most 36,864 groups, since the digits are limited.
        out.put_u16(self.groups.len() as u16);
        out.put_i16(self.weight);
        out.put_u16(match self.class {
            Class::Positive => POSITIVE,
            Class::Negative => NEGATIVE,
            Class::NaN => NAN,
            Class::Infinity => INFINITY,
            Class::NegInfinity => NEG_INFINITY,
        });
        out.put_u16(self.scale);
        self.groups.iter().for_each(|group| out.put_u16(*group));
        Ok(IsNull::No)
    }

    accepts!(NUMERIC);
    to_sql_checked!();
}
