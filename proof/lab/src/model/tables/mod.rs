//! Tables, and migrations of them under the sessions of their clients.
//!
//! A text names a table with `into=` or `from=`, and a value of its column `v` with `v=$2`:
//!
//! ```text
//! insert op=$1 into=t v=$2              stores a value
//! insert op=$1 into=t v=$2 returning=*  and returns its row
//! select op=$1 from=t                   the identity, and all columns of some rows
//! set search_path=b op=7                from now on names are those of the schema `b`
//! select set_path() op=$1 search_path=b rows=0
//!                                       the same by a function
//! ```
//!
//! As a server does, the model infers the types of parameters with the Parse of a text, and keeps
//! them; analyses a statement anew with each Bind and each Describe, by the tables and the path of
//! that moment; refuses one whose columns are others by then (0A000); reads a value by the type that
//! the Parse found, and casts it to that of the column, if there is a cast for assignments, and
//! otherwise refuses it (42804); and knows nothing of an enum that was dropped (XX000). What a
//! transaction has used it holds until its end, and a migration waits for that.
//!
//! Behind a pooler that keeps prepared statements ([`Schema::pool`]) a Parse under a name may be
//! answered by a statement of an older schema, on one of two servers.
//!
//! Deliberately absent: conditions and operators, composites, arrays, domains, functions whose
//! result changes, constraints, tables that are dropped, DDL in a session's own transaction, and
//! COPY but for a binary one. Rows that are read are samples of their type, and not those that were stored: what was
//! stored is in [`Schema::stored`]. A simple query has no tables.

pub(super) mod analysis;
mod schema;
mod types;

pub use schema::{Change, Column, NAMES, PATHS, Schema, Stored, Table, Told};
pub use types::{LABELS, Type, Value};
