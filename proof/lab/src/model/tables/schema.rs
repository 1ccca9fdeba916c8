//! The tables that the sessions of a server share, how they are migrated, and what was stored in
//! them and read from them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::analysis::Analysed;
use super::types::{Refused, Type, Value};
use crate::seeded::Rng;

/// A table: the schema in which it is, by its place in [`PATHS`], and its place in [`NAMES`].
pub type Table = (usize, usize);

/// The schemas, each of which has all tables. A session's path is the first one until it sets
/// another.
pub const PATHS: [&str; 2] = ["a", "b"];

/// The names of the tables, the same in each schema.
pub const NAMES: [&str; 2] = ["t", "u"];

/// A column of a table. The first one of each is `v`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub type_: Type,
}

/// What a migration does to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `alter column v type`. An enum is made anew: its oid is a new one.
    Type(Type),
    /// `add column`
    Add(Type),
    /// `drop column`, of the last one that was added.
    Drop,
}

/// What a statement stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The type of the column at that time.
    pub type_: Type,
    /// The value, as its text.
    pub text: String,
}

/// What a statement returned: names, types and texts of the columns of each row.
pub type Told = Vec<Vec<(String, u32, String)>>;

/// The tables of a server. Clones share them.
#[derive(Clone, Debug)]
pub struct Schema(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    zone: i64,
    tables: BTreeMap<Table, Vec<Column>>,
    /// How many migrations there were.
    version: u32,
    /// The oid of the next enum.
    next_enum: u32,
    /// The types that `v` has had, and since which version.
    types: Vec<(u32, Table, Type)>,
    stored: BTreeMap<u64, Stored>,
    /// With the version at that time.
    told: BTreeMap<u64, (u32, Told)>,
    pooler: Option<Pooler>,
}

/// A pooler that keeps prepared statements, as PgBouncer does from 1.21 on: it knows them by their
/// text and the types that it names, answers a Parse of one that its server has by itself, and
/// changes servers between transactions.
#[derive(Debug)]
struct Pooler {
    rng: Rng,
    servers: [HashMap<(String, Vec<u32>), Analysed>; 2],
}

/// The first oid that a server gives to what a user makes (FirstNormalObjectId in
/// src/include/access/transam.h).
const FIRST_OID: u32 = 16_384;

impl Schema {
    /// Tables whose columns `v` have these types, in the order of [`PATHS`] and [`NAMES`]. `zone`:
    /// hours that all sessions are ahead of UTC.
    ///
    /// # Panics
    /// If there are fewer types than tables.
    #[must_use]
    pub fn new(zone: i64, types: &[Type]) -> Schema {
        let mut inner = Inner {
            zone,
            tables: BTreeMap::new(),
            version: 0,
            next_enum: FIRST_OID,
            types: Vec::new(),
            stored: BTreeMap::new(),
            told: BTreeMap::new(),
            pooler: None,
        };
        let places = (0..PATHS.len()).flat_map(|path| (0..NAMES.len()).map(move |at| (path, at)));
        for (at, table) in places.enumerate() {
            let type_ = inner.made(types[at]);
            inner.types.push((0, table, type_));
            inner.tables.insert(table, vec![Column { name: "v".to_owned(), type_ }]);
        }
        Schema(Arc::new(Mutex::new(inner)))
    }

    /// From now on its sessions are those of a pooler that keeps prepared statements.
    pub fn pool(&self, rng: Rng) {
        self.lock().pooler = Some(Pooler { rng, servers: Default::default() });
    }

    /// Hours that its sessions are ahead of UTC.
    #[must_use]
    pub fn zone(&self) -> i64 {
        self.lock().zone
    }

    /// Another session migrates a table, in one transaction. The host asks first whether a session
    /// [holds](super::super::Server::holds) it: the server would wait for that. Dropping the only
    /// column does nothing.
    pub fn migrate(&self, table: Table, change: Change) {
        let inner = &mut *self.lock();
        let (version, name) = (inner.version + 1, format!("c{}", inner.version));
        let made = match change {
            Change::Type(type_) | Change::Add(type_) => Some(inner.made(type_)),
            Change::Drop => None,
        };
        let Some(columns) = inner.tables.get_mut(&table) else { return };
        match (change, made) {
            (Change::Type(_), Some(type_)) => {
                columns[0].type_ = type_;
                inner.types.push((version, table, type_));
            }
            (Change::Add(_), Some(type_)) => columns.push(Column { name, type_ }),
            _ if columns.len() > 1 => drop(columns.pop()),
            _ => return,
        }
        inner.version = version;
    }

    /// How many migrations there were.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.lock().version
    }

    /// The columns of a table.
    #[must_use]
    pub fn columns(&self, table: Table) -> Vec<Column> {
        self.lock().tables[&table].clone()
    }

    /// The types that the column `v` has had since that version, with the one that it had then.
    #[must_use]
    pub fn types_since(&self, table: Table, version: u32) -> Vec<Type> {
        let inner = self.lock();
        let of = || inner.types.iter().filter(|(_, of, _)| *of == table);
        let then = of().rfind(|(since, ..)| *since <= version);
        let later = of().filter(|(since, ..)| *since > version);
        then.into_iter().chain(later).map(|(.., type_)| *type_).collect()
    }

    /// What this statement stored when it ran last.
    #[must_use]
    pub fn stored(&self, op: u64) -> Option<Stored> {
        self.lock().stored.get(&op).cloned()
    }

    /// What this statement returned when it ran last, and how many migrations there had been.
    #[must_use]
    pub fn told(&self, op: u64) -> Option<(u32, Told)> {
        self.lock().told.get(&op).cloned()
    }

    /// The type of this number. An enum that was dropped has none.
    pub(in super::super) fn type_of(&self, oid: u32) -> Option<Type> {
        let inner = self.lock();
        let made = || inner.tables.values().flatten().map(|column| column.type_);
        Type::of(oid).or_else(|| made().find(|type_| type_.oid() == oid))
    }

    pub(in super::super) fn store(&self, op: u64, type_: Type, value: &Value) {
        let mut inner = self.lock();
        let text = type_.write(value, inner.zone);
        inner.stored.insert(op, Stored { type_, text });
    }

    pub(in super::super) fn tell(&self, op: u64, rows: Told) {
        let mut inner = self.lock();
        let version = inner.version;
        inner.told.insert(op, (version, rows));
    }

    /// Whether its sessions are those of a pooler, and if so a server of it for the next
    /// transaction.
    pub(in super::super) fn next_server(&self) -> Option<usize> {
        let mut inner = self.lock();
        inner.pooler.as_mut().map(|pooler| pooler.rng.index(pooler.servers.len()))
    }

    /// What a server of the pooler has made of a text, with these types of its parameters. A text
    /// that it does not have is parsed.
    pub(in super::super) fn pooled(
        &self,
        server: usize,
        key: (String, Vec<u32>),
        analyse: impl FnOnce() -> Result<Analysed, Refused>,
    ) -> Result<Analysed, Refused> {
        let known = |pooler: &Pooler| pooler.servers[server].get(&key).cloned();
        let known = self.lock().pooler.as_ref().and_then(known);
        if let Some(known) = known {
            return Ok(known);
        }
        let analysed = analyse()?;
        if let Some(pooler) = &mut self.lock().pooler {
            pooler.servers[server].insert(key, analysed.clone());
        }
        Ok(analysed)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The same type, and a new one if it is an enum.
    fn made(&mut self, type_: Type) -> Type {
        let Type::Enum(_) = type_ else { return type_ };
        self.next_enum += 1;
        Type::Enum(self.next_enum)
    }
}
