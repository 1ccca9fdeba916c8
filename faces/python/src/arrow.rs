//! Rows as columns of Arrow. `arrow_abi.rs` hands them out.

use std::sync::Arc;

use onetrip_postgres::message::{Format, RowDescription};
use pyo3::prelude::*;

use crate::decode::{Fields, Misfit, exactly};
use crate::numeric;
use crate::types::{Kind, Type};

/// From PostgreSQL's first day to that of Arrow, in days and microseconds.
const DAYS: i32 = 10_957;
const MICROS: i64 = 946_684_800_000_000;

/// Bytes of rows in a batch: the offsets of texts have 32 bits.
const BATCH_BYTES: usize = 256 << 20;

/// How the values of a column are read.
#[derive(Clone, Copy, Debug)]
enum Form {
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
    /// The name of an extension type.
    pub(crate) extension: &'static str,
    form: Form,
    pub(crate) nulls: usize,
    /// A bit for each value, which is there.
    pub(crate) valid: Vec<u8>,
    /// Where texts begin and end.
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

/// The form in which a column is asked for: what Arrow has no type for comes as its text.
pub(crate) fn format(type_: &Type) -> Format {
    match letters(type_, -1) {
        Some(_) => Format::Binary,
        None => Format::Text,
    }
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
    let word = u32::try_from(modifier - 4).ok()?;
    let (precision, scale) = (word >> 16 & 0xffff, word & 0x7ff);
    (scale <= precision && precision <= 38).then_some((precision, scale))
}

/// Columns that are being filled.
#[derive(Debug)]
pub(crate) struct Builder {
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    done: Vec<Batch>,
}

/// Columns of one length.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<Column>,
}

impl Builder {
    /// For the columns of a RowDescription, whose values were asked for by `format`.
    pub(crate) fn new(
        body: &[u8],
        types: impl FnOnce(&[u32]) -> PyResult<Vec<Arc<Type>>>,
    ) -> Result<Builder, Misfit> {
        let RowDescription { fields } =
            RowDescription::decode(body).map_err(|_| Misfit::Malformed)?;
        let oids: Vec<u32> = fields.map(|field| field.type_oid).collect();
        let columns = types(&oids)?.into_iter().zip(fields).map(|(type_, field)| {
            let known = letters(&type_, field.type_modifier);
            let as_text = || ("u".to_owned(), Form::Text, Data::Bytes(Vec::new()));
            let (letters, form, data) = known.unwrap_or_else(as_text);
            let is_var = matches!(letters.as_str(), "u" | "z");
            let extension = match letters.as_str() {
                "w:16" => "arrow.uuid",
                _ => "",
            };
            let (offsets, valid) = (is_var.then(|| vec![0]), Vec::new());
            Column {
                name: field.name.to_owned(),
                letters,
                extension,
                form,
                nulls: 0,
                valid,
                offsets,
                data,
            }
        });
        Ok(Builder { columns: columns.collect(), rows: 0, bytes: 0, done: Vec::new() })
    }

    /// Adds a row.
    pub(crate) fn append(&mut self, body: &[u8]) -> Result<(), Misfit> {
        let mut fields = Fields::of(body)?;
        if fields.left != self.columns.len() {
            return Err(Misfit::Malformed);
        }
        if self.bytes + body.len() > BATCH_BYTES && self.rows > 0 {
            self.cut();
        }
        for column in &mut self.columns {
            column.push(self.rows, fields.next()?)?;
        }
        self.rows += 1;
        self.bytes += body.len();
        Ok(())
    }

    /// Ends a batch.
    fn cut(&mut self) {
        let empty = self.columns.iter().map(Column::emptied).collect();
        let columns = std::mem::replace(&mut self.columns, empty);
        self.done.push(Batch { rows: std::mem::take(&mut self.rows), columns });
        self.bytes = 0;
    }
}

impl Column {
    fn emptied(&self) -> Column {
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

    #[inline]
    fn push(&mut self, row: usize, value: Option<&[u8]>) -> Result<(), Misfit> {
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
                // Infinity stays the last and the first day.
                all.push(match self.form {
                    Form::Days => value.saturating_add(DAYS),
                    _ => value,
                });
            }
            (Data::Eight(all), value) => {
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
                    offsets.push(i32::try_from(all.len()).map_err(|_| Misfit::Malformed)?);
                }
            },
        }
        Ok(())
    }
}

fn bit(all: &mut Vec<u8>, row: usize, value: Option<&[u8]>) -> Result<(), Misfit> {
    if row.is_multiple_of(8) {
        all.push(0);
    }
    let is_on = value.map_or(Ok(false), |it| exactly::<1>(it).map(|it| it != [0]))?;
    if let (true, Some(bits)) = (is_on, all.last_mut()) {
        *bits |= 1 << (row % 8);
    }
    Ok(())
}

fn wide(form: Form, value: &[u8]) -> Result<i128, Misfit> {
    match form {
        Form::Decimal(scale) => numeric::scaled(value, scale).ok_or_else(|| {
            Misfit::Python(pyo3::exceptions::PyOverflowError::new_err(
                "a numeric is NaN or infinite, which decimal128 has not: cast it to text",
            ))
        }),
        Form::Interval => {
            let value: [u8; 16] = exactly(value)?;
            let word = |at: usize| exactly(&value[at..at + 4]).map(i32::from_be_bytes);
            let nanos = i64::from_be_bytes(exactly(&value[..8])?).saturating_mul(1000);
            let mut laid = [0; 16];
            laid[..4].copy_from_slice(&word(12)?.to_ne_bytes());
            laid[4..8].copy_from_slice(&word(8)?.to_ne_bytes());
            laid[8..].copy_from_slice(&nanos.to_ne_bytes());
            Ok(i128::from_ne_bytes(laid))
        }
        _ => exactly(value).map(i128::from_ne_bytes),
    }
}

fn put(form: Form, value: &[u8], all: &mut Vec<u8>) -> Result<(), Misfit> {
    let text = match form {
        Form::Numeric => {
            all.extend_from_slice(numeric::text(value).ok_or(Misfit::Malformed)?.as_bytes());
            return Ok(());
        }
        Form::Jsonb => value.strip_prefix(&[1]).ok_or(Misfit::Malformed)?,
        _ => value,
    };
    // Who reads the columns takes it for granted that a text is one.
    if !matches!(form, Form::Bytes) && str::from_utf8(text).is_err() {
        return Err(Misfit::Malformed);
    }
    all.extend_from_slice(text);
    Ok(())
}

/// The rows of a result as columns: an object with `__arrow_c_stream__`.
#[pyclass(frozen, module = "onetrip")]
#[derive(Debug)]
pub(crate) struct Arrow {
    pub(crate) schema: Arc<Vec<Column>>,
    pub(crate) batches: Vec<Arc<Batch>>,
}

impl Arrow {
    pub(crate) fn new(table: Option<Builder>) -> Arrow {
        let mut table = table.unwrap_or_else(|| Builder {
            columns: Vec::new(),
            rows: 0,
            bytes: 0,
            done: Vec::new(),
        });
        let schema = Arc::new(table.columns.iter().map(Column::emptied).collect());
        if table.rows > 0 {
            table.cut();
        }
        Arrow { schema, batches: table.done.into_iter().map(Arc::new).collect() }
    }
}

#[pymethods]
impl Arrow {
    /// A stream of the Arrow C data interface. The schema that is asked for is not looked at, which
    /// the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = requested_schema;
        crate::arrow_abi::stream(py, self)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::arrow_abi::schema(py, self)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(|batch| batch.rows).sum()
    }

    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.schema.iter().map(|column| column.name.as_str()).collect()
    }
}
