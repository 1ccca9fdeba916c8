//! The text form of a numeric, as numeric_in and numeric_out in src/backend/utils/adt/numeric.c
//! read and write it.

use std::fmt;
use std::str::FromStr;

use onetrip_postgres::binary::numeric::{Fault, parse, put_digits};

use super::{Class, Numeric, OUT_OF_RANGE};
use crate::types::ValueError;

/// Writes the number as the server does. Width, fill and `+` of the format apply; a precision is
/// ignored, since it would round.
impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            Class::NaN => f.pad_integral(true, "", "NaN"),
            Class::Infinity | Class::NegInfinity => {
                f.pad_integral(self.class == Class::Infinity, "", "Infinity")
            }
            Class::Positive | Class::Negative => {
                let mut digits = String::new();
                let group = |place| self.groups.get(place).copied();
                put_digits(&mut digits, self.weight.into(), self.scale, group);
                f.pad_integral(self.class == Class::Positive, "", &digits)
            }
        }
    }
}

/// Reads digits with an optional sign, point and exponent, `NaN`, `Infinity` or `inf`.
///
/// # Errors
/// It is none of these, or has more digits than PostgreSQL allows.
impl FromStr for Numeric {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Numeric, ValueError> {
        let it = parse(text).map_err(|fault| match fault {
            Fault::NoNumber => ValueError::new("it is not a number"),
            Fault::TooLong => OUT_OF_RANGE,
        })?;
        match it.class {
            Class::Positive | Class::Negative => {
                let groups = it.groups.iter().copied();
                Numeric::finite(it.class == Class::Negative, it.scale, it.weight, groups)
            }
            class => Ok(Numeric::special(class)),
        }
    }
}
