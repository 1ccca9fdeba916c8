//! Bind: makes a portal from a prepared statement and its parameters.

use bytes::{BufMut, BytesMut};

use super::buffer::{Reader, put_c_str, put_count, tagged};
use super::{
    EncodeError, Format, FormatCodes, Formats, Header, LARGE_LEN_MAX, Values, Violation, tag,
};

/// Bind of the unnamed statement to the unnamed portal, without values and with rows as text.
pub const UNNAMED_WITHOUT_VALUES: [u8; 13] =
    [tag::frontend::BIND, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0];

/// Makes a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// The portal to make; empty for the unnamed one.
    pub portal: &'a str,
    /// The prepared statement; empty for the unnamed one.
    pub statement: &'a str,
    /// Empty if all are text, one format for all, or one for each parameter.
    pub parameter_formats: FormatCodes<'a>,
    /// The parameters.
    pub parameters: Values<'a>,
    /// Empty if all are text, one format for all, or one for each result column.
    pub result_formats: FormatCodes<'a>,
}

impl<'a> Bind<'a> {
    /// Reads a body.
    ///
    /// # Errors
    /// Fields that differ from the bytes that are there.
    pub fn decode(body: &'a [u8]) -> Result<Self, Violation> {
        let mut reader = Reader::new("Bind", body);
        let bind = Bind {
            portal: reader.c_str()?,
            statement: reader.c_str()?,
            parameter_formats: FormatCodes::read(&mut reader)?,
            parameters: Values::read(&mut reader)?,
            result_formats: FormatCodes::read(&mut reader)?,
        };
        reader.end()?;
        Ok(bind)
    }
}

/// Whether a parameter is NULL. If it is, bytes written for it are taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsNull {
    /// It is NULL.
    Yes,
    /// It is not; its value is the bytes that were appended.
    No,
}

/// Appends a Bind. `write_value` is called with 0, 1, … `parameters` - 1, and appends each value to
/// the buffer; it must only append. Its length is filled in afterwards, so values are never copied.
///
/// # Errors
/// Those of `write_value`; a NUL in a name, more than 65,535 parameters or formats, another number
/// of parameter formats than parameters, or more than 1 GiB. On every error `out` is as it was
/// before.
#[inline]
pub fn write<E: From<EncodeError>>(
    out: &mut BytesMut,
    portal: &str,
    statement: &str,
    formats: Formats<'_>,
    parameters: usize,
    write_value: impl FnMut(usize, &mut BytesMut) -> Result<IsNull, E>,
    result_formats: Formats<'_>,
) -> Result<(), E> {
    tagged(out, tag::frontend::BIND, |out| {
        put_names(out, portal, statement)?;
        put_values(out, formats, parameters, write_value, result_formats)
    })
}

/// Appends a Bind without the end of its last parameter, which is `last_len` bytes long. Those
/// bytes must follow, and after them [`NO_RESULT_FORMATS`]. `write_value` is called for the
/// parameters before that one.
///
/// # Errors
/// As for [`write()`].
pub fn write_open<E: From<EncodeError>>(
    out: &mut BytesMut,
    formats: &[Format],
    mut write_value: impl FnMut(usize, &mut BytesMut) -> Result<IsNull, E>,
    last_len: usize,
) -> Result<(), E> {
    let start = out.len();
    let mut put = || {
        let last = formats.len().checked_sub(1).ok_or(EncodeError::FormatCount)?;
        out.put_slice(&[tag::frontend::BIND, 0, 0, 0, 0]);
        put_names(out, "", "")?;
        Formats::Each(formats).put(out)?;
        put_count(out, formats.len())?;
        for index in 0..last {
            put_parameter(out, start, |out| write_value(index, out))?;
        }
        let len = out.len() - start - 1 + 4 + NO_RESULT_FORMATS.len();
        let len = len.checked_add(last_len).filter(|len| *len <= LARGE_LEN_MAX as usize);
        let len = len.ok_or(EncodeError::TooLong)?;
        out[start + 1..start + 5].copy_from_slice(&(len as u32).to_be_bytes());
        out.put_u32(last_len as u32);
        Ok(())
    };
    let result = put();
    if result.is_err() {
        out.truncate(start);
    }
    result
}

/// The end of a Bind whose results, if there are any, are text.
pub const NO_RESULT_FORMATS: [u8; 2] = [0, 0];

/// Appends everything after the names of a Bind, for [`write_named`], so that parameters can be
/// encoded before the name of their statement is known.
///
/// # Errors
/// As for [`write()`].
#[inline]
pub fn write_values<E: From<EncodeError>>(
    out: &mut BytesMut,
    formats: Formats<'_>,
    parameters: usize,
    write_value: impl FnMut(usize, &mut BytesMut) -> Result<IsNull, E>,
    result_formats: Formats<'_>,
) -> Result<(), E> {
    let start = out.len();
    let result = put_values(out, formats, parameters, write_value, result_formats);
    result.inspect_err(|_| out.truncate(start))
}

/// Appends a Bind with the output of [`write_values`].
///
/// # Errors
/// A NUL in a name, or more than 1 GiB. On every error `out` is as it was before.
#[inline]
pub fn write_named(
    out: &mut BytesMut,
    portal: &str,
    statement: &str,
    values: &[u8],
) -> Result<(), EncodeError> {
    tagged(out, tag::frontend::BIND, |out| {
        put_names(out, portal, statement)?;
        out.put_slice(values);
        Ok(())
    })
}

/// What [`write_values`] wrote for the first Bind among these whole messages; `None` if there is no
/// Bind. So it can be bound under another name.
pub fn values_of(messages: &[u8]) -> Option<&[u8]> {
    binds(messages).next()
}

/// The parameters of the Bind among these whole messages, as [`write_encoded`] takes them: none if
/// there is no Bind, and `None` if there are several.
pub fn parameters_of(messages: &[u8]) -> Option<&[u8]> {
    let mut binds = binds(messages);
    let Some(values) = binds.next() else { return Some(&[]) };
    let mut reader = Reader::new("Bind", values);
    FormatCodes::read(&mut reader).ok()?;
    Values::read(&mut reader).ok()?;
    let len = values.len() - reader.peek().len();
    values.get(..len).filter(|_| binds.next().is_none())
}

/// The formats and the parameters that [`check_parameters`] has checked, or that stand at the front
/// of what [`write_values`] wrote.
#[must_use]
pub fn parts_of(parameters: &[u8]) -> Option<(FormatCodes<'_>, Values<'_>)> {
    let mut reader = Reader::new("Bind", parameters);
    Some((FormatCodes::read(&mut reader).ok()?, Values::read(&mut reader).ok()?))
}

/// How many values there are behind the format codes, without a look at them. `None` if the bytes
/// are too short for that.
pub fn count_of(parameters: &[u8]) -> Option<usize> {
    let (formats, rest) = parameters.split_first_chunk()?;
    let values = rest.get(2 * usize::from(u16::from_be_bytes(*formats))..)?;
    Some(u16::from_be_bytes(*values.first_chunk()?).into())
}

/// What is behind the names of each Bind among these whole messages.
pub fn binds(mut messages: &[u8]) -> impl Iterator<Item = &[u8]> {
    let next = move || {
        let header = Header::peek(messages).ok()??;
        let body = messages.get(Header::LEN..header.message_len())?;
        messages = messages.get(header.message_len()..)?;
        Some((header.tag, body))
    };
    std::iter::from_fn(next).filter(|(tag, _)| *tag == tag::frontend::BIND).filter_map(
        |(_, body)| {
            let mut reader = Reader::new("Bind", body);
            let names = reader.c_str().ok()?.len() + reader.c_str().ok()?.len();
            body.get(names + 2..)
        },
    )
}

/// Appends a Bind with parameters that the host encoded itself and [`check_parameters`] has
/// checked.
///
/// # Errors
/// A NUL in a name, more than 65,535 formats, or more than 1 GiB. On every error `out` is as it
/// was before.
#[inline]
pub fn write_encoded(
    out: &mut BytesMut,
    portal: &str,
    statement: &str,
    parameters: &[u8],
    result_formats: Formats<'_>,
) -> Result<(), EncodeError> {
    tagged(out, tag::frontend::BIND, |out| {
        put_names(out, portal, statement)?;
        out.put_slice(parameters);
        result_formats.put(out)
    })
}

/// Checks bytes that a host has encoded itself as the part of a Bind between the names and the
/// result formats: the formats of the parameters, and the parameters.
///
/// # Errors
/// The number of formats is not zero, one or that of the parameters; or lengths don't match the
/// bytes.
pub fn check_parameters(bytes: &[u8]) -> Result<(), Violation> {
    let mut reader = Reader::new("Bind", bytes);
    let formats = FormatCodes::read(&mut reader)?.len();
    let parameters = Values::read(&mut reader)?.len();
    if formats > 1 && formats != parameters {
        return Err(reader.fail("it has another number of formats than of parameters"));
    }
    reader.end()
}

/// The part of a Bind in front of its values, which is the same for all Binds of one statement.
#[derive(Clone, Debug)]
pub struct Front {
    bytes: Vec<u8>,
    parameters: usize,
}

impl Front {
    /// For Binds with this many parameters in these formats.
    ///
    /// # Errors
    /// A NUL in a name, more than 65,535 parameters, or another number of formats than parameters.
    pub fn new(
        portal: &str,
        statement: &str,
        formats: Formats<'_>,
        parameters: usize,
    ) -> Result<Front, EncodeError> {
        if matches!(formats, Formats::Each(each) if each.len() != parameters) {
            return Err(EncodeError::FormatCount);
        }
        let mut out = BytesMut::new();
        put_names(&mut out, portal, statement)?;
        formats.put(&mut out)?;
        put_count(&mut out, parameters)?;
        Ok(Front { bytes: out.to_vec(), parameters })
    }

    /// Appends a Bind whose results are text; see [`write()`] for `write_value`.
    ///
    /// # Errors
    /// Those of `write_value`, or more than 1 GiB. On every error `out` is as it was before.
    #[inline]
    pub fn write<E: From<EncodeError>>(
        &self,
        out: &mut BytesMut,
        mut write_value: impl FnMut(usize, &mut BytesMut) -> Result<IsNull, E>,
    ) -> Result<(), E> {
        tagged(out, tag::frontend::BIND, |out| {
            let start = out.len();
            out.put_slice(&self.bytes);
            for index in 0..self.parameters {
                put_parameter(out, start, |out| write_value(index, out))?;
            }
            Ok(Formats::AllText.put(out)?)
        })
    }
}

/// Names up to this length together, with their ends, are written in one go.
const SHORT_NAMES: usize = 64;

fn put_names(out: &mut BytesMut, portal: &str, statement: &str) -> Result<(), EncodeError> {
    let len = portal.len() + statement.len() + 2;
    if len > SHORT_NAMES {
        put_c_str(out, portal)?;
        return put_c_str(out, statement);
    }
    let mut names = [0; SHORT_NAMES];
    // Nearly every request uses the unnamed portal.
    if !portal.is_empty() {
        names[..portal.len()].copy_from_slice(portal.as_bytes());
    }
    names[portal.len() + 1..len - 1].copy_from_slice(statement.as_bytes());
    // The two ends and the rest of the array are the only ones.
    let nuls: u8 = names.iter().map(|byte| u8::from(*byte == 0)).sum();
    if usize::from(nuls) != SHORT_NAMES - (len - 2) {
        return Err(EncodeError::Nul);
    }
    out.put_slice(&names[..len]);
    Ok(())
}

#[inline]
fn put_values<E: From<EncodeError>>(
    out: &mut BytesMut,
    formats: Formats<'_>,
    parameters: usize,
    mut write_value: impl FnMut(usize, &mut BytesMut) -> Result<IsNull, E>,
    result_formats: Formats<'_>,
) -> Result<(), E> {
    if matches!(formats, Formats::Each(each) if each.len() != parameters) {
        return Err(EncodeError::FormatCount.into());
    }
    let start = out.len();
    let count = u16::try_from(parameters).map_err(|_| EncodeError::TooMany)?;
    match formats {
        // As most are, so in one go.
        Formats::AllBinary => {
            let [high, low] = count.to_be_bytes();
            out.put_slice(&[0, 1, 0, 1, high, low]);
        }
        _ => {
            formats.put(out)?;
            out.put_u16(count);
        }
    }
    for index in 0..parameters {
        put_parameter(out, start, |out| write_value(index, out))?;
    }
    Ok(result_formats.put(out)?)
}

/// Writes -1 as the length, which means NULL, and corrects it once the value is there.
#[inline]
fn put_parameter<E: From<EncodeError>>(
    out: &mut BytesMut,
    start: usize,
    write: impl FnOnce(&mut BytesMut) -> Result<IsNull, E>,
) -> Result<(), E> {
    let at = out.len();
    out.put_i32(-1);
    let value = out.len();
    match write(out)? {
        IsNull::Yes => out.truncate(value),
        IsNull::No => {
            // Checked for each value, so that a Bind never grows far beyond the limit.
            if out.len() - start > LARGE_LEN_MAX as usize {
                return Err(EncodeError::TooLong.into());
            }
            let len = (out.len() - value) as u32;
            out[at..value].copy_from_slice(&len.to_be_bytes());
        }
    }
    Ok(())
}
