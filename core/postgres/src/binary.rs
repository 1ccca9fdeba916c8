//! The binary forms of values, from and to what every language has: numbers, texts, parts.
//!
//! * [`Parts`] and [`put`]: values with parts, each behind its length: rows, composites, arrays.
//! * [`mod@array`], [`range`]: how these are framed.
//! * [`numeric`]: digits, as text and as a whole number of units.
//! * [`calendar`]: dates and times of day.
//!
//! A face makes the objects of its language out of these. What type a value has, and which of these
//! forms that has, says [`Kind`](crate::client::types::kinds::Kind).

pub mod array;
pub mod calendar;
pub mod numeric;
pub mod range;

#[cfg(test)]
mod tests;

/// A value is not in the form of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A value is longer than the protocol has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// A value of this many bytes.
///
/// # Errors
/// It has more or fewer.
#[inline]
pub fn exactly<const LEN: usize>(value: &[u8]) -> Result<[u8; LEN], Malformed> {
    value.try_into().map_err(|_| Malformed)
}

/// What is left of a value with parts, read from its front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'a>(pub &'a [u8]);

impl<'a> Parts<'a> {
    /// The values in the body of a DataRow, and how many it claims. Their lengths are checked as
    /// they are read, unlike those of [`DataRow`](crate::message::DataRow).
    ///
    /// # Errors
    /// There is no count.
    #[inline]
    pub fn of_row(body: &'a [u8]) -> Result<(usize, Parts<'a>), Malformed> {
        let mut parts = Parts(body);
        let count = u16::from_be_bytes(parts.take()?);
        Ok((count.into(), parts))
    }

    /// The next bytes.
    ///
    /// # Errors
    /// There are fewer.
    #[inline]
    pub fn take<const LEN: usize>(&mut self) -> Result<[u8; LEN], Malformed> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// The next number.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        self.take().map(i32::from_be_bytes)
    }

    /// How many parts follow, which have at least `least` bytes each: it is never more than came.
    ///
    /// # Errors
    /// There is no number, it is negative, or there is no room for so many.
    pub fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.i32()?).map_err(|_| Malformed)?;
        if count > self.0.len() / least { Err(Malformed) } else { Ok(count) }
    }

    /// The next part, behind its length; `None` for NULL.
    ///
    /// # Errors
    /// It runs past the end, or its length is negative and not that of NULL.
    #[inline]
    pub fn part(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        let len = self.i32()?;
        if len < 0 {
            return if len == -1 { Ok(None) } else { Err(Malformed) };
        }
        let (value, rest) = self.0.split_at_checked(len as usize).ok_or(Malformed)?;
        self.0 = rest;
        Ok(Some(value))
    }

    /// The next part where it may not be NULL.
    ///
    /// # Errors
    /// As [`part`](Self::part), or it is NULL.
    #[inline]
    pub fn some(&mut self) -> Result<&'a [u8], Malformed> {
        self.part()?.ok_or(Malformed)
    }
}

/// Appends a part behind its length; -1 where `write` says that there is none, which is NULL.
///
/// # Errors
/// Those of `write`, and a part of more than 2 GiB.
#[inline]
pub fn put<E: From<TooLong>>(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>,
) -> Result<(), E> {
    let at = out.len();
    out.extend_from_slice(&(-1_i32).to_be_bytes());
    if write(out)? {
        let len = i32::try_from(out.len() - at - 4).map_err(|_| TooLong)?;
        out[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }
    Ok(())
}

/// Appends a number of parts.
///
/// # Errors
/// It does not fit the protocol's 31 bits.
pub fn put_count(out: &mut Vec<u8>, count: usize) -> Result<(), TooLong> {
    let count = i32::try_from(count).map_err(|_| TooLong)?;
    out.extend_from_slice(&count.to_be_bytes());
    Ok(())
}

/// The numbers of a pgvector `vector`, as the bytes of a float4 each: how many there are, two bytes
/// that are not used, the numbers (`vector_send` in pgvector's src/vector.c).
///
/// # Errors
/// The count differs from the numbers that came.
pub fn vector(value: &[u8]) -> Result<&[[u8; 4]], Malformed> {
    let (head, numbers) = value.split_first_chunk::<4>().ok_or(Malformed)?;
    let (numbers, rest) = numbers.as_chunks();
    let count = usize::from(u16::from_be_bytes([head[0], head[1]]));
    if numbers.len() == count && rest.is_empty() { Ok(numbers) } else { Err(Malformed) }
}

/// What stands in front of so many numbers of a `vector`.
///
/// # Errors
/// They are more than it has room for.
pub fn vector_head(count: usize) -> Result<[u8; 4], TooLong> {
    let [high, low] = u16::try_from(count).map_err(|_| TooLong)?.to_be_bytes();
    Ok([high, low, 0, 0])
}

/// A float4 as the float8 with the fewest decimal digits that is the same float4: 1.1 and not
/// 1.10000002384185791015625.
pub fn shortest(value: [u8; 4]) -> f64 {
    let value = f32::from_be_bytes(value);
    value.to_string().parse().unwrap_or(value.into())
}
