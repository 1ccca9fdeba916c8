//! Rows: their places in the reply, and their values as Rust types.

mod errors;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;

use std::any::type_name;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use onetrip_postgres::client::statements::Seen;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{DataRow, Format, Header, RowDescription};
use postgres_types::{FromSql, Type};

use crate::Error;
use crate::fate::Fate;
use crate::oids::type_of;
use crate::types::{TypeCache, check_value, is_checked};
use errors::{malformed, misfit, no_such_column, unreadable, wrong_type};

/// A column of a result.
#[derive(Clone, Debug)]
pub struct Column {
    name: Box<str>,
    type_: Type,
    format: Format,
    /// Whether its values are checked before they are decoded: those with a number of parts, and
    /// times.
    is_checked: bool,
    known: Known,
}

/// What is known of a column's type.
#[derive(Clone, Debug)]
enum Known {
    /// Built in: it is the same on every server.
    BuiltIn,
    /// Only its number.
    ByNumber,
    /// Everything, as the server described it to this cache.
    Learned(Arc<TypeCache>),
}

impl Column {
    /// A column of which only the type is known; its values are binary.
    pub(crate) fn of_type(number: usize, type_: &Type) -> Column {
        let name = format!("{}", number + 1).into();
        let is_checked = is_checked(type_);
        // The type is what the caller says.
        let known = Known::BuiltIn;
        Column { name, type_: type_.clone(), format: Format::Binary, is_checked, known }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The PostgreSQL type.
    pub fn type_(&self) -> &Type {
        &self.type_
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Whether only the number of its type is known, and more could be learned.
    pub(crate) fn is_unlearned(&self) -> bool {
        matches!(self.known, Known::ByNumber)
    }

    /// A value could not be read as the learned type: the type may have been altered since.
    #[cold]
    fn suspect(&self) {
        if let Known::Learned(types) = &self.known {
            types.suspect(self.type_.oid());
        }
    }

    /// Whether its values come as text, because the type has no binary form.
    pub fn is_text(&self) -> bool {
        self.format == Format::Text
    }
}

pub(crate) type Columns = Arc<[Column]>;

/// The formats of the columns of a description.
#[derive(Clone, Copy)]
pub(crate) enum Asked<'a> {
    /// As the message says, since it describes a portal.
    Portal,
    /// The description of a statement does not contain them: these, or all binary if the list is
    /// empty.
    These(&'a [Format]),
    /// Requested by type.
    ByType(&'a dyn Fn(&Type) -> Format),
}

/// Reads the columns out of the body of a RowDescription.
pub(crate) fn columns_of(body: &[u8], asked: Asked<'_>) -> Option<Columns> {
    let fields = RowDescription::decode(body).ok()?.fields;
    let column = |(number, field): (usize, onetrip_postgres::message::Field<'_>)| {
        let type_ = type_of(field.type_oid);
        let format = match asked {
            Asked::Portal => field.format,
            Asked::These(formats) => formats.get(number).copied().unwrap_or(Format::Binary),
            Asked::ByType(format) => format(&type_),
        };
        let is_checked = format == Format::Binary && is_checked(&type_);
        let known = match Type::from_oid(type_.oid()) {
            Some(_) => Known::BuiltIn,
            None => Known::ByNumber,
        };
        Column { name: field.name.into(), type_, format, is_checked, known }
    };
    Some(fields.enumerate().map(column).collect())
}

/// The columns with their types as they are known by now; `None` if all types are built in.
pub(crate) fn learned_columns(columns: &Columns, types: &Arc<TypeCache>) -> Option<Columns> {
    let is_built_in = |column: &Column| matches!(column.known, Known::BuiltIn);
    if columns.iter().all(is_built_in) {
        return None;
    }
    let learned = |column: &Column| {
        let mut column = column.clone();
        if !is_built_in(&column) {
            let oid = column.type_.oid();
            (column.type_, column.known) = match types.get(oid) {
                Some(type_) => (type_, Known::Learned(types.clone())),
                None => (type_of(oid), Known::ByNumber),
            };
            column.is_checked = column.format == Format::Binary && is_checked(&column.type_);
        }
        column
    };
    Some(columns.iter().map(learned).collect())
}

/// The blocks of one reply, as they came: whole messages.
#[derive(Default)]
pub(crate) struct Blocks {
    // Most replies are one block; only longer ones pay for a list.
    first: Bytes,
    rest: Vec<Bytes>,
}

impl Blocks {
    pub(crate) fn push(&mut self, block: Bytes) {
        if block.is_empty() {
        } else if self.first.is_empty() {
            self.first = block;
        } else {
            self.rest.push(block);
        }
    }

    /// The first block, if there is one.
    pub(crate) fn into_first(self) -> Option<Bytes> {
        Some(self.first).filter(|first| !first.is_empty())
    }

    pub(crate) fn of(block: &Bytes) -> Blocks {
        Blocks { first: block.clone(), rest: Vec::new() }
    }

    /// What the reply shows about the statement of its request.
    pub(crate) fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        std::iter::once(&self.first).chain(&self.rest).for_each(|block| seen.look(block));
        seen
    }

    /// The tag of its first message.
    pub(crate) fn first(&self) -> Option<&u8> {
        self.first.first()
    }

    /// Whether it begins like the reply to a request that prepared its statement, or prepared it
    /// anew: then it may hold a description.
    pub(crate) fn is_described(&self) -> bool {
        matches!(self.first(), Some(&backend::PARSE_COMPLETE | &backend::CLOSE_COMPLETE))
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    /// How many rows there are. Each row is checked once, so that readers of values can rely on the
    /// lengths. If `columns` is given, each row must have that many values.
    ///
    /// # Errors
    /// A row does not fit.
    pub(crate) fn count_rows(&self, columns: Option<usize>) -> Result<usize, Error> {
        let mut count = 0;
        for (_, body) in self.messages().filter(|(tag, _)| *tag == backend::DATA_ROW) {
            check_row(body, columns)?;
            count += 1;
        }
        Ok(count)
    }

    fn block(&self, index: usize) -> Option<&Bytes> {
        match index.checked_sub(1) {
            None => Some(&self.first),
            Some(index) => self.rest.get(index),
        }
    }

    pub(crate) fn messages(&self) -> Messages<'_> {
        Messages { blocks: self, index: 0, rest: &self.first }
    }
}

/// Checks that the lengths of a row fit, and that it has that many values.
#[inline]
pub(crate) fn check_row(body: &[u8], columns: Option<usize>) -> Result<(), Error> {
    match DataRow::decode(body) {
        Ok(row) if columns.is_none_or(|columns| row.values.len() == columns) => Ok(()),
        _ => Err(misfit()),
    }
}

/// The messages of a reply, one after the other.
#[derive(Clone)]
pub(crate) struct Messages<'a> {
    blocks: &'a Blocks,
    index: usize,
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    /// Tag and body. The engine has framed them, so they are whole.
    type Item = (u8, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while self.rest.is_empty() {
            self.index += 1;
            self.rest = self.blocks.block(self.index)?;
        }
        let header = Header::peek(self.rest).ok()??;
        let (message, rest) = self.rest.split_at_checked(header.message_len())?;
        self.rest = rest;
        Some((header.tag, &message[Header::LEN..]))
    }
}

/// The rows of a result, in the server's order, as they came over the wire. A value is decoded when
/// it is read; text and bytes may be borrowed.
#[derive(Debug)]
pub struct Rows {
    columns: Columns,
    blocks: Blocks,
    len: usize,
    provisional: bool,
    part_of: Option<Arc<Fate>>,
}

impl Rows {
    pub(crate) fn new(columns: Columns, blocks: Blocks, len: usize, provisional: bool) -> Rows {
        Rows { columns, blocks, len, provisional, part_of: None }
    }

    /// The rows of a statement of this transaction.
    pub(crate) fn part_of(self, fate: Option<&Arc<Fate>>) -> Rows {
        Rows { part_of: fate.cloned(), ..self }
    }

    /// The columns; empty for a statement that returns no rows.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the rows were handed over before the server answered the sync point behind their
    /// statement. If so, a later failure in the pipeline may undo what they show.
    pub fn is_provisional(&self) -> bool {
        self.provisional
    }

    /// Iterates over the rows.
    pub fn iter(&self) -> Iter<'_> {
        let part_of = self.part_of.as_ref();
        Iter { columns: &self.columns, messages: self.blocks.messages(), part_of }
    }

    /// The first row as a value of its own.
    pub(crate) fn into_first(self) -> Option<Row> {
        let mut messages = self.blocks.messages();
        let (_, body) = messages.find(|&(tag, _)| tag == backend::DATA_ROW)?;
        let block = self.blocks.block(messages.index)?;
        let body = block.slice_ref(body);
        let Rows { columns, provisional, part_of, .. } = self;
        Some(Row { columns, body, provisional, part_of })
    }
}

impl<'a> IntoIterator for &'a Rows {
    type Item = RowRef<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Iterates over the rows of a result.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    columns: &'a [Column],
    messages: Messages<'a>,
    part_of: Option<&'a Arc<Fate>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = RowRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<RowRef<'a>> {
        loop {
            let (tag, body) = self.messages.next()?;
            if tag == backend::DATA_ROW {
                return Some(RowRef::new(self.columns, body, self.part_of));
            }
        }
    }
}

/// A row that owns its values. `Debug` shows its columns, and never a value.
pub struct Row {
    columns: Columns,
    body: Bytes,
    provisional: bool,
    part_of: Option<Arc<Fate>>,
}

impl Row {
    /// A row of these columns, from the body of its message.
    #[inline]
    pub(crate) fn new(columns: Columns, body: Bytes) -> Row {
        Row { columns, body, provisional: true, part_of: None }
    }

    /// The row of a statement of this transaction.
    pub(crate) fn part_of(self, fate: Option<&Arc<Fate>>) -> Row {
        Row { part_of: fate.cloned(), ..self }
    }

    /// The same row, borrowed. All values are read through this.
    pub fn as_ref(&self) -> RowRef<'_> {
        RowRef::new(&self.columns, &self.body, self.part_of.as_ref())
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// See [`Rows::is_provisional`].
    pub fn is_provisional(&self) -> bool {
        self.provisional
    }

    /// See [`RowRef::get`].
    #[track_caller]
    pub fn get<'a, T: FromSql<'a>>(&'a self, index: impl ColumnIndex) -> T {
        self.as_ref().get(index)
    }

    /// See [`RowRef::try_get`].
    pub fn try_get<'a, T: FromSql<'a>>(&'a self, index: impl ColumnIndex) -> Result<T, Error> {
        self.as_ref().try_get(index)
    }
}

/// A row that is borrowed from its result. `Debug` shows its columns, and never a value.
#[derive(Clone)]
pub struct RowRef<'a> {
    columns: &'a [Column],
    body: &'a [u8],
    /// Where reading left off: the number of the next column and its offset in `body`. Columns are
    /// mostly read in order, and then nothing is scanned twice.
    next: Cell<(usize, usize)>,
    /// The transaction of its statement.
    part_of: Option<&'a Arc<Fate>>,
}

/// The values stand behind the number of columns.
const VALUES_AT: usize = 2;

impl<'a> RowRef<'a> {
    #[inline]
    fn new(columns: &'a [Column], body: &'a [u8], part_of: Option<&'a Arc<Fate>>) -> RowRef<'a> {
        RowRef { columns, body, next: Cell::new((0, VALUES_AT)), part_of }
    }

    /// The columns.
    pub fn columns(&self) -> &'a [Column] {
        self.columns
    }

    /// The value of a column, by number from 0 or by name.
    ///
    /// # Panics
    /// If [`try_get`](Self::try_get) would return an error.
    #[inline]
    #[track_caller]
    pub fn get<T: FromSql<'a>>(&self, index: impl ColumnIndex) -> T {
        match self.try_get(index) {
            Ok(value) => value,
            Err(error) => panic!("{error}"),
        }
    }

    /// The value of a column, by number from 0 or by name.
    ///
    /// # Errors
    /// There is no such column, its type is not one that `T` can hold, or it is NULL and `T` is not
    /// an `Option`. The statement has taken effect all the same: the outcome is `Applied`, and
    /// `Rejected` once its transaction was rolled back.
    #[inline]
    pub fn try_get<T: FromSql<'a>>(&self, index: impl ColumnIndex) -> Result<T, Error> {
        self.read(index).map_err(|error| error.part_of(self.part_of))
    }

    #[inline]
    fn read<T: FromSql<'a>>(&self, index: impl ColumnIndex) -> Result<T, Error> {
        let Some(index) = index.find(self.columns) else {
            return Err(no_such_column(&index, self.columns.len()));
        };
        let column = &self.columns[index];
        // A column that came as text is read as text.
        let type_ = if column.is_text() { &Type::TEXT } else { &column.type_ };
        if !T::accepts(type_) {
            column.suspect();
            return Err(wrong_type::<T>(index, column));
        }
        let value = self.value(index).ok_or_else(|| malformed(index, column))?;
        if column.is_checked
            && let Some(value) = value
            && let Err(error) = check_value(type_, value, type_name::<T>())
        {
            return Err(unreadable::<T>(index, column, Some(value), error.into()));
        }
        T::from_sql_nullable(type_, value)
            .inspect_err(|_| column.suspect())
            .map_err(|source| unreadable::<T>(index, column, value, source))
    }

    /// The bytes of a value as they came; the outer `None` means that the row is malformed.
    #[inline]
    fn value(&self, index: usize) -> Option<Option<&'a [u8]>> {
        let (mut number, mut at) = self.next.get();
        if index < number {
            (number, at) = (0, VALUES_AT);
        }
        loop {
            let len = i32::from_be_bytes(*self.body.get(at..)?.first_chunk()?);
            at += 4;
            let value = match usize::try_from(len) {
                Ok(len) => {
                    let value = self.body.get(at..at.checked_add(len)?)?;
                    at += len;
                    Some(value)
                }
                Err(_) => None,
            };
            if number == index {
                self.next.set((number + 1, at));
                return Some(value);
            }
            number += 1;
        }
    }
}

/// A column by number from 0, or by name.
pub trait ColumnIndex: fmt::Display + sealed::Sealed {
    #[doc(hidden)]
    fn find(&self, columns: &[Column]) -> Option<usize>;
}

impl ColumnIndex for usize {
    #[inline]
    fn find(&self, columns: &[Column]) -> Option<usize> {
        (*self < columns.len()).then_some(*self)
    }
}

impl ColumnIndex for &str {
    #[inline]
    fn find(&self, columns: &[Column]) -> Option<usize> {
        columns.iter().position(|column| &*column.name == *self)
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

impl fmt::Debug for Messages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.blocks.fmt(f)
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Debug for RowRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Row")?;
        let types = self.columns.iter().map(|column| (&column.name, column.type_.name()));
        f.debug_map().entries(types).finish()
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for &str {}
}

#[cfg(test)]
mod hostile;
