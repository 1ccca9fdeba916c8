//! What was answered, as C reads it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use onetrip_client::completion::outcome;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{CommandComplete, DataRow, RowDescription};
use onetrip_redis::value::Value;

use crate::call::{Call, Part, Want};
use crate::failure::Failure;
use crate::link::messages;
use crate::status;

/// A column, as the server has described it.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) type_oid: u32,
}

/// Where a value stands: its block, its place there and its length; -1 for NULL.
#[derive(Clone, Copy, Debug)]
struct Cell {
    block: u32,
    at: u32,
    len: i32,
}

/// What one statement or command answered, and those of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct OtResult {
    pub(crate) columns: Vec<Column>,
    blocks: Vec<Bytes>,
    cells: Vec<Cell>,
    pub(crate) rows: usize,
    pub(crate) tag: String,
    pub(crate) affected: u64,
    /// The data of a COPY.
    pub(crate) data: Vec<u8>,
    /// The reply of Redis.
    pub(crate) reply: Option<OtReply>,
    pub(crate) parts: Vec<OtResult>,
    /// Bytes that were decoded for their reader, by the place of their value.
    decoded: RefCell<BTreeMap<usize, Box<[u8]>>>,
}

impl OtResult {
    /// What a call that has succeeded was answered.
    pub(crate) fn of(call: &Call) -> Result<OtResult, Failure> {
        let parts = std::mem::take(&mut call.now().parts);
        let is_redis = matches!(call.want, Want::Commands(_) | Want::List(..));
        let read =
            |part: Part| if is_redis { OtResult::of_reply(part) } else { OtResult::of_part(part) };
        let has_parts = matches!(call.want, Want::Segment | Want::List(..)) || parts.len() > 1;
        match &call.want {
            Want::Batch => {
                let columns = parts.first().and_then(|part| part.columns.clone());
                let blocks = parts.into_iter().flat_map(|part| part.blocks).collect();
                OtResult::of_part(Part { columns, blocks, failure: None })
            }
            _ if has_parts => {
                let parts = parts.into_iter().map(read).collect::<Result<_, _>>()?;
                Ok(OtResult { parts, ..OtResult::default() })
            }
            // Of its statements the last says what became of it.
            _ if call.flags & onetrip_client::flag::SIMPLE != 0 => {
                let blocks = parts.into_iter().flat_map(|part| part.blocks).collect::<Vec<_>>();
                let mut result = OtResult::default();
                for (tag, body) in blocks.iter().flat_map(|block| messages(block)) {
                    if tag == backend::COMMAND_COMPLETE {
                        result.complete(body)?;
                    }
                }
                Ok(result)
            }
            _ => parts.into_iter().next().map_or_else(|| Ok(OtResult::default()), read),
        }
    }

    /// Rows, the tag, and data of a COPY.
    pub(crate) fn of_part(part: Part) -> Result<OtResult, Failure> {
        let mut result = OtResult { blocks: part.blocks, ..OtResult::default() };
        if let Some(described) = part.columns.as_deref() {
            let fields = RowDescription::decode(described).map_err(|_| unreadable())?.fields;
            let column = |it: onetrip_postgres::message::Field<'_>| Column {
                name: it.name.to_owned(),
                type_oid: it.type_oid,
            };
            result.columns = fields.map(column).collect();
        }
        let width = result.columns.len();
        for (number, block) in result.blocks.clone().iter().enumerate() {
            for (tag, body) in messages(block) {
                match tag {
                    backend::DATA_ROW => {
                        let row = DataRow::decode(body).map_err(|_| unreadable())?;
                        let before = result.cells.len();
                        let cell = |value: Option<&[u8]>| match value {
                            None => Cell { block: 0, at: 0, len: -1 },
                            Some(value) => Cell {
                                block: number as u32,
                                at: (value.as_ptr() as usize - block.as_ptr() as usize) as u32,
                                len: value.len() as i32,
                            },
                        };
                        result.cells.extend(row.values.map(cell));
                        if result.cells.len() != before + width {
                            return Err(unreadable());
                        }
                        result.rows += 1;
                    }
                    backend::COMMAND_COMPLETE => {
                        let before = result.affected;
                        result.complete(body)?;
                        result.affected += before;
                    }
                    backend::COPY_DATA => result.data.extend_from_slice(body),
                    _ => {}
                }
            }
        }
        Ok(result)
    }

    /// Takes a command tag.
    fn complete(&mut self, body: &[u8]) -> Result<(), Failure> {
        let complete = CommandComplete::decode(body).map_err(|_| unreadable())?;
        self.affected = complete.rows().unwrap_or(0);
        complete.tag.clone_into(&mut self.tag);
        Ok(())
    }

    fn of_reply(part: Part) -> Result<OtResult, Failure> {
        let block = match &part.blocks[..] {
            [one] => one.clone(),
            several => Bytes::from(several.concat()),
        };
        let (value, _) = Value::read(&block).map_err(|_| unreadable())?;
        Ok(OtResult { reply: Some(OtReply::of(value)), ..OtResult::default() })
    }

    /// One value; its place among the others.
    pub(crate) fn value(&self, row: usize, column: usize) -> Result<(usize, &[u8]), i32> {
        if row >= self.rows || column >= self.columns.len() {
            return Err(status::RANGE);
        }
        let place = row * self.columns.len() + column;
        let Cell { block, at, len } = self.cells[place];
        match usize::try_from(len) {
            Err(_) => Err(status::IS_NULL),
            Ok(len) => Ok((place, &self.blocks[block as usize][at as usize..at as usize + len])),
        }
    }

    /// The same as text; its reader has said what he expects.
    pub(crate) fn parsed<T>(
        &self,
        (row, column): (usize, usize),
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, i32> {
        let (_, bytes) = self.value(row, column)?;
        std::str::from_utf8(bytes).ok().and_then(read).ok_or(status::CONVERSION)
    }

    /// A `bytea`, whose text is decoded once.
    pub(crate) fn bytes(&self, row: usize, column: usize) -> Result<*const [u8], i32> {
        let (place, text) = self.value(row, column)?;
        if self.columns[column].type_oid != BYTEA {
            return Err(status::CONVERSION);
        }
        let mut decoded = self.decoded.borrow_mut();
        if let std::collections::btree_map::Entry::Vacant(free) = decoded.entry(place) {
            free.insert(unescaped(text).ok_or(status::CONVERSION)?);
        }
        Ok(&raw const *decoded[&place])
    }
}

const BYTEA: u32 = 17;

/// `\x` and two digits for each byte.
fn unescaped(text: &[u8]) -> Option<Box<[u8]>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|it| it as u8);
    let (pairs, rest) = text.strip_prefix(b"\\x")?.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    bytes.collect::<Option<Box<[u8]>>>().filter(|_| rest.is_empty())
}

fn unreadable() -> Failure {
    Failure::said("protocol", outcome::APPLIED, "the answer of the server can't be read")
}

/// A reply of Redis.
#[derive(Debug)]
pub(crate) struct OtReply {
    pub(crate) kind: i32,
    pub(crate) integer: i64,
    pub(crate) real: f64,
    pub(crate) text: Bytes,
    pub(crate) items: Vec<OtReply>,
}

/// The kinds of replies.
pub(crate) mod reply {
    pub(crate) const NIL: i32 = 0;
    pub(crate) const STATUS: i32 = 1;
    pub(crate) const ERROR: i32 = 2;
    pub(crate) const INTEGER: i32 = 3;
    pub(crate) const STRING: i32 = 4;
    pub(crate) const DOUBLE: i32 = 5;
    pub(crate) const BOOL: i32 = 6;
    pub(crate) const BIG_NUMBER: i32 = 7;
    pub(crate) const ARRAY: i32 = 8;
    pub(crate) const SET: i32 = 9;
    pub(crate) const MAP: i32 = 10;
}

impl OtReply {
    fn of(value: Value) -> OtReply {
        let new =
            |kind| OtReply { kind, integer: 0, real: 0.0, text: Bytes::new(), items: Vec::new() };
        let text = |kind, text| OtReply { text, ..new(kind) };
        let all = |values: Vec<Value>| values.into_iter().map(OtReply::of).collect();
        match value {
            Value::Nil => new(reply::NIL),
            Value::Simple(bytes) => text(reply::STATUS, bytes),
            Value::Error(error) => text(reply::ERROR, Bytes::copy_from_slice(error.reply().text())),
            Value::Int(integer) => OtReply { integer, ..new(reply::INTEGER) },
            Value::Bulk(bytes) => text(reply::STRING, bytes),
            Value::Double(real) => OtReply { real, ..new(reply::DOUBLE) },
            Value::Bool(is_true) => OtReply { integer: is_true.into(), ..new(reply::BOOL) },
            Value::BigNumber(bytes) => text(reply::BIG_NUMBER, bytes),
            Value::Verbatim { text: bytes, .. } => text(reply::STRING, bytes),
            Value::Array(items) | Value::Push(items) => {
                OtReply { items: all(items), ..new(reply::ARRAY) }
            }
            Value::Set(items) => OtReply { items: all(items), ..new(reply::SET) },
            Value::Map(pairs) => {
                let flat = pairs.into_iter().flat_map(|(key, value)| [key, value]).collect();
                OtReply { items: all(flat), ..new(reply::MAP) }
            }
        }
    }
}
