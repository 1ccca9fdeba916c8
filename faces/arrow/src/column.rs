//! A column: what its type is in Arrow, and how a value is appended.

use onetrip_postgres::binary::calendar::{DAY, DAYS_FROM_1970, Interval};
use onetrip_postgres::binary::{Malformed, exactly, numeric};
use onetrip_postgres::client::types::kinds::{Kind, Type};
use onetrip_postgres::message::Format;

/// Why a row can't be a row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not in the form of its columns.
    Malformed,
    /// A numeric is NaN or infinite, which decimal128 has not.
    NotFinite,
}

impl From<Malformed> for Fault {
    fn from(_: Malformed) -> Fault {
        Fault::Malformed
    }
}

/// How the values of a column are read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Bits,
    Fixed,
    Days,
    Micros,
    Interval,
    Jsonb,
    Text,
    Bytes,
    Numeric,
    /// With so many digits behind the point.
    Decimal(u32),
}

/// A column of a table, or one batch of it.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Its type in the letters of the C data interface.
    pub(crate) letters: String,
    form: Form,
    pub(crate) nulls: usize,
    /// A bit for each value, which is there.
    pub(crate) valid: Vec<u8>,
    /// Where values of different lengths begin and end.
    pub(crate) offsets: Option<Vec<i32>>,
    pub(crate) data: Data,
}

/// Values, in memory that is laid out for them.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Bytes(Vec<u8>),
    Two(Vec<i16>),
    Four(Vec<i32>),
    Eight(Vec<i64>),
    Sixteen(Vec<i128>),
}

/// The form in which a column is to be asked for: text for what Arrow has no type for.
pub fn format(type_: &Type) -> Format {
    if letters(type_, -1).is_some() { Format::Binary } else { Format::Text }
}

fn letters(type_: &Type, modifier: i32) -> Option<(String, Form, Data)> {
    use Data::{Bytes, Eight, Four, Sixteen, Two};
    let (letters, form, data) = match type_.base().kind {
        Kind::Bool => ("b", Form::Bits, Bytes(Vec::new())),
        Kind::Int2 => ("s", Form::Fixed, Two(Vec::new())),
        Kind::Int4 => ("i", Form::Fixed, Four(Vec::new())),
        Kind::Oid => ("I", Form::Fixed, Four(Vec::new())),
        Kind::Int8 => ("l", Form::Fixed, Eight(Vec::new())),
        Kind::Float4 => ("f", Form::Fixed, Four(Vec::new())),
        Kind::Float8 => ("g", Form::Fixed, Eight(Vec::new())),
        Kind::Uuid => ("w:16", Form::Fixed, Sixteen(Vec::new())),
        Kind::Date => ("tdD", Form::Days, Four(Vec::new())),
        Kind::Time => ("ttu", Form::Fixed, Eight(Vec::new())),
        Kind::Timestamp => ("tsu:", Form::Micros, Eight(Vec::new())),
        Kind::TimestampTz => ("tsu:UTC", Form::Micros, Eight(Vec::new())),
        Kind::Interval => ("tin", Form::Interval, Sixteen(Vec::new())),
        Kind::Text | Kind::Json | Kind::Enum => ("u", Form::Text, Bytes(Vec::new())),
        Kind::Jsonb => ("u", Form::Jsonb, Bytes(Vec::new())),
        Kind::Bytea | Kind::Char => ("z", Form::Bytes, Bytes(Vec::new())),
        Kind::Numeric => match digits(modifier) {
            None => ("u", Form::Numeric, Bytes(Vec::new())),
            Some((precision, scale)) => {
                let letters = format!("d:{precision},{scale}");
                return Some((letters, Form::Decimal(scale), Sixteen(Vec::new())));
            }
        },
        _ => return None,
    };
    Some((letters.to_owned(), form, data))
}

/// Precision and scale of a numeric that decimal128 has room for (numeric_typmod_scale in
/// src/backend/utils/adt/numeric.c).
fn digits(modifier: i32) -> Option<(u32, u32)> {
    let word = u32::try_from(modifier.checked_sub(4)?).ok()?;
    let (precision, scale) = (word >> 16 & 0xffff, word & 0x7ff);
    (scale <= precision && precision <= 38).then_some((precision, scale))
}

impl Column {
    /// An empty one of this type.
    pub(crate) fn new(name: &str, type_: &Type, modifier: i32) -> Column {
        let as_text = || ("u".to_owned(), Form::Text, Data::Bytes(Vec::new()));
        let (letters, form, data) = letters(type_, modifier).unwrap_or_else(as_text);
        let offsets = matches!(letters.as_str(), "u" | "z").then(|| vec![0]);
        let (name, valid) = (name.to_owned(), Vec::new());
        Column { name, letters, form, nulls: 0, valid, offsets, data }
    }

    /// An empty one of the same type.
    pub(crate) fn emptied(&self) -> Column {
        let data = match &self.data {
            Data::Bytes(_) => Data::Bytes(Vec::new()),
            Data::Two(_) => Data::Two(Vec::new()),
            Data::Four(_) => Data::Four(Vec::new()),
            Data::Eight(_) => Data::Eight(Vec::new()),
            Data::Sixteen(_) => Data::Sixteen(Vec::new()),
        };
        let (name, letters) = (self.name.clone(), self.letters.clone());
        let offsets = self.offsets.as_ref().map(|_| vec![0]);
        Column { name, letters, offsets, data, nulls: 0, valid: Vec::new(), ..*self }
    }

    /// The name of its extension type.
    pub(crate) fn extension(&self) -> Option<&'static str> {
        (self.letters == "w:16").then_some("arrow.uuid")
    }

    /// Where its values begin.
    pub(crate) fn start(&self) -> *const u8 {
        match &self.data {
            Data::Bytes(all) => all.as_ptr(),
            Data::Two(all) => all.as_ptr().cast(),
            Data::Four(all) => all.as_ptr().cast(),
            Data::Eight(all) => all.as_ptr().cast(),
            Data::Sixteen(all) => all.as_ptr().cast(),
        }
    }

    /// Appends the value of the row at this place.
    #[inline]
    pub(crate) fn push(&mut self, row: usize, value: Option<&[u8]>) -> Result<(), Fault> {
        if row.is_multiple_of(8) {
            self.valid.push(0);
        }
        match (value, self.valid.last_mut()) {
            (Some(_), Some(bits)) => *bits |= 1 << (row % 8),
            _ => self.nulls += 1,
        }
        match (&mut self.data, value) {
            (Data::Two(all), value) => {
                all.push(value.map_or(Ok(0), |it| exactly(it).map(i16::from_be_bytes))?);
            }
            (Data::Four(all), value) => {
                let value = value.map_or(Ok(0), |it| exactly(it).map(i32::from_be_bytes))?;
                all.push(match self.form {
                    Form::Days if value != i32::MIN => value.saturating_add(DAYS_FROM_1970),
                    _ => value,
                });
            }
            (Data::Eight(all), value) => {
                const MICROS: i64 = DAYS_FROM_1970 as i64 * DAY;
                let value = value.map_or(Ok(0), |it| exactly(it).map(i64::from_be_bytes))?;
                all.push(match self.form {
                    Form::Micros if value != i64::MIN => value.saturating_add(MICROS),
                    _ => value,
                });
            }
            (Data::Sixteen(all), None) => all.push(0),
            (Data::Sixteen(all), Some(value)) => all.push(wide(self.form, value)?),
            (Data::Bytes(all), value) => match (&mut self.offsets, value) {
                (None, value) => bit(all, row, value)?,
                (Some(offsets), value) => {
                    if let Some(value) = value {
                        put(self.form, value, all)?;
                    }
                    offsets.push(i32::try_from(all.len()).map_err(|_| Malformed)?);
                }
            },
        }
        Ok(())
    }
}

fn bit(all: &mut Vec<u8>, row: usize, value: Option<&[u8]>) -> Result<(), Malformed> {
    if row.is_multiple_of(8) {
        all.push(0);
    }
    let is_on = value.map_or(Ok(false), |it| exactly::<1>(it).map(|it| it != [0]))?;
    if let (true, Some(bits)) = (is_on, all.last_mut()) {
        *bits |= 1 << (row % 8);
    }
    Ok(())
}

fn wide(form: Form, value: &[u8]) -> Result<i128, Fault> {
    match form {
        Form::Decimal(scale) => {
            let number = numeric::read(value)?;
            number.scaled(scale).ok_or(match number.class {
                numeric::Class::Positive | numeric::Class::Negative => Fault::Malformed,
                _ => Fault::NotFinite,
            })
        }
        Form::Interval => {
            let Interval { micros, days, months } = Interval::read(value)?;
            let nanos = micros.saturating_mul(1000).to_ne_bytes();
            let mut laid = [0; 16];
            laid[..4].copy_from_slice(&months.to_ne_bytes());
            laid[4..8].copy_from_slice(&days.to_ne_bytes());
            laid[8..].copy_from_slice(&nanos);
            Ok(i128::from_ne_bytes(laid))
        }
        _ => Ok(exactly(value).map(i128::from_ne_bytes)?),
    }
}

#[inline]
fn put(form: Form, value: &[u8], all: &mut Vec<u8>) -> Result<(), Malformed> {
    let text = match form {
        Form::Numeric => {
            all.extend_from_slice(numeric::read(value)?.text().as_bytes());
            return Ok(());
        }
        Form::Jsonb => value.strip_prefix(&[1]).ok_or(Malformed)?,
        _ => value,
    };
    // Who reads the columns takes it for granted that a text is one.
    if !matches!(form, Form::Bytes) && str::from_utf8(text).is_err() {
        return Err(Malformed);
    }
    all.extend_from_slice(text);
    Ok(())
}
