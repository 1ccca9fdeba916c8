//! Conversions between numerics and the numbers of decimal crates.

use super::Numeric;
use crate::types::ValueError;

#[cfg(feature = "with-rust_decimal-1")]
mod rust_decimal {
    use ::rust_decimal::Decimal;

    use super::{Numeric, ValueError};

    impl From<Decimal> for Numeric {
        fn from(decimal: Decimal) -> Numeric {
            // The scale is 28 at most.
            Numeric::from_i128_with_scale(decimal.mantissa(), decimal.scale() as u16)
                .unwrap_or(Numeric::ZERO)
        }
    }

    /// Exact, nothing is rounded. Keeps the scale if there is room for it.
    ///
    /// # Errors
    /// It is NaN or infinite, or has more digits than a `Decimal` can hold.
    impl TryFrom<&Numeric> for Decimal {
        type Error = ValueError;

        fn try_from(numeric: &Numeric) -> Result<Decimal, ValueError> {
            [numeric.scale(), numeric.fraction_len()]
                .into_iter()
                .find_map(|scale| {
                    let coefficient = numeric.to_i128_with_scale(scale)?;
                    Decimal::try_from_i128_with_scale(coefficient, scale.into()).ok()
                })
                .ok_or(ValueError::new("it does not fit into a Decimal"))
        }
    }

    impl TryFrom<Numeric> for Decimal {
        type Error = ValueError;

        fn try_from(numeric: Numeric) -> Result<Decimal, ValueError> {
            Decimal::try_from(&numeric)
        }
    }
}

#[cfg(feature = "with-bigdecimal-0_4")]
mod bigdecimal {
    use ::bigdecimal::BigDecimal;

    use super::{Numeric, ValueError};

    /// # Errors
    /// It has more digits than PostgreSQL allows.
    impl TryFrom<&BigDecimal> for Numeric {
        type Error = ValueError;

        fn try_from(decimal: &BigDecimal) -> Result<Numeric, ValueError> {
            let (coefficient, scale) = decimal.as_bigint_and_exponent();
            // Written out in full, a coefficient of one digit might be far longer than PostgreSQL
            // allows.
            format!("{coefficient}e{}", -i128::from(scale)).parse()
        }
    }

    impl TryFrom<BigDecimal> for Numeric {
        type Error = ValueError;

        fn try_from(decimal: BigDecimal) -> Result<Numeric, ValueError> {
            Numeric::try_from(&decimal)
        }
    }

    /// Exact, and keeps the scale.
    ///
    /// # Errors
    /// It is NaN or infinite.
    impl TryFrom<&Numeric> for BigDecimal {
        type Error = ValueError;

        fn try_from(numeric: &Numeric) -> Result<BigDecimal, ValueError> {
            numeric.to_string().parse().map_err(|_| ValueError::new("it is NaN or infinite"))
        }
    }

    impl TryFrom<Numeric> for BigDecimal {
        type Error = ValueError;

        fn try_from(numeric: Numeric) -> Result<BigDecimal, ValueError> {
            BigDecimal::try_from(&numeric)
        }
    }
}
