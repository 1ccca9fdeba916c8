//! Columns that are being filled, and those that are complete.

use std::sync::Arc;

use onetrip_postgres::binary::{Malformed, Parts};
use onetrip_postgres::client::types::kinds::Type;
use onetrip_postgres::message::RowDescription;

use crate::column::{Column, Fault};

/// Bytes of rows in a batch: the offsets of texts have 32 bits.
const BATCH_BYTES: usize = 256 << 20;

/// Columns that are being filled.
#[derive(Debug, Default)]
pub struct Builder {
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    done: Vec<Arc<Batch>>,
}

/// The rows of a result as columns. Its memory is shared by all that it is handed out to.
#[derive(Clone, Debug)]
pub struct Table {
    pub(crate) schema: Arc<Vec<Column>>,
    pub(crate) batches: Vec<Arc<Batch>>,
}

/// Columns of one length.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<Column>,
}

impl Builder {
    /// For the columns in the body of a RowDescription, whose values were asked for as
    /// [`format`](crate::format) says. `types` finds types by their numbers.
    ///
    /// # Errors
    /// Those of `types`, and a body that can't be read.
    pub fn new<E: From<Malformed>>(
        body: &[u8],
        types: impl FnOnce(&[u32]) -> Result<Vec<Arc<Type>>, E>,
    ) -> Result<Builder, E> {
        let RowDescription { fields } = RowDescription::decode(body).map_err(|_| Malformed)?;
        let types = types(&fields.map(|field| field.type_oid).collect::<Vec<_>>())?;
        let columns = types.iter().zip(fields);
        let columns =
            columns.map(|(type_, field)| Column::new(field.name, type_, field.type_modifier));
        Ok(Builder { columns: columns.collect(), ..Builder::default() })
    }

    /// Adds the row in the body of a DataRow. Behind an error the table is of no use.
    ///
    /// # Errors
    /// It is not in the form of the columns, or one of them has no room for a value.
    pub fn append(&mut self, body: &[u8]) -> Result<(), Fault> {
        let (count, mut values) = Parts::of_row(body)?;
        if count != self.columns.len() {
            return Err(Fault::Malformed);
        }
        if self.bytes + body.len() > BATCH_BYTES && self.rows > 0 {
            self.cut();
        }
        for column in &mut self.columns {
            column.push(self.rows, values.part()?)?;
        }
        self.rows += 1;
        self.bytes += body.len();
        Ok(())
    }

    /// The table of all rows.
    pub fn done(mut self) -> Table {
        let schema = Arc::new(self.columns.iter().map(Column::emptied).collect());
        if self.rows > 0 {
            self.cut();
        }
        Table { schema, batches: self.done }
    }

    /// Ends a batch.
    fn cut(&mut self) {
        let empty = self.columns.iter().map(Column::emptied).collect();
        let columns = std::mem::replace(&mut self.columns, empty);
        self.done.push(Arc::new(Batch { rows: std::mem::take(&mut self.rows), columns }));
        self.bytes = 0;
    }
}

impl Table {
    /// The number of its rows.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(|batch| batch.rows).sum()
    }

    /// The names of its columns.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.schema.iter().map(|column| column.name.as_str())
    }
}
