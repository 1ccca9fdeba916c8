//! A cache of the types that are not built in.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use bytes::BytesMut;
use onetrip_engine::Time;
use onetrip_postgres::client::types::catalog::CATALOG_SQL;
use onetrip_postgres::client::types::known::{self, Known};
use onetrip_postgres::client::types::resolve::Resolved;
use postgres_types::{ToSql, Type, WrongType};

use super::introspection::{build, is_built_in};

/// Types that are not built in, as the server described them: enums, composites, domains, arrays,
/// ranges, and those of extensions. A cache is for one database, and may be used from any thread.
///
/// A derived `FromSql` or `ToSql` needs them: the labels of an enum, the fields of a composite.
///
/// ```no_run
/// # use onetrip::types::TypeCache;
/// # async fn f(client: onetrip::Client, oid: u32) -> Result<(), onetrip::Error> {
/// let types = TypeCache::new();
/// let missing = types.missing(&[oid]);
/// if !missing.is_empty() {
///     types.learn(&client.query(TypeCache::introspection_sql(), &[&missing]).await?)?;
/// }
/// let mood = types.get(oid);
/// # Ok(()) }
/// ```
///
/// It keeps types of up to [`SIZE_MAX`](Self::SIZE_MAX) parts in all, and then forgets the oldest.
/// If a type is altered, the cache keeps the old description until the type is
/// [forgotten](Self::forget) or learned again.
#[derive(Default)]
pub struct TypeCache(RwLock<Known<Type>>, AtomicU64);

/// Shows none of the types: columns and rows that know it would show all of them.
impl fmt::Debug for TypeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypeCache").finish_non_exhaustive()
    }
}

impl TypeCache {
    /// How many parts of types are kept. Each type counts as one; so does each label of an enum;
    /// and each part of a type counts as much as itself. That is 20 MB at worst, if each is a type
    /// with names of full length (63 bytes), and mostly far less than 1 MB.
    pub const SIZE_MAX: usize = known::SIZE_MAX;

    /// An empty cache.
    pub fn new() -> TypeCache {
        TypeCache::default()
    }

    /// The type with this number, if it is built in or learned.
    pub fn get(&self, oid: u32) -> Option<Type> {
        Type::from_oid(oid).or_else(|| self.read().get(oid).cloned())
    }

    /// The numbers whose types have to be learned, each once.
    pub fn missing(&self, oids: &[u32]) -> Vec<u32> {
        self.read().missing(oids, is_built_in)
    }

    /// The statement that asks the server for types. Its parameter is their numbers, a `Vec<u32>`
    /// or `&[u32]`; its rows are for [`learn`](Self::learn). One trip is enough at any depth, since
    /// the parts of a type are described along with it.
    ///
    /// It runs on PostgreSQL 9.6 and later, reads the catalog only, and needs no privilege.
    pub const fn introspection_sql() -> &'static str {
        CATALOG_SQL
    }

    pub(super) fn remember(&self, resolved: &[Resolved]) -> Vec<Type> {
        let types = build(resolved);
        let (mut known, now) = (self.write(), now());
        for (resolved, type_) in resolved.iter().zip(&types) {
            known.learn(now, resolved, type_.clone());
        }
        drop(known);
        self.changed();
        types
    }

    /// Forgets a type and those that contain it, because it was altered or dropped.
    pub fn forget(&self, oid: u32) {
        self.write().forget(oid);
        self.changed();
    }

    /// A value could not be read as the learned type. The type is forgotten, so that its next use
    /// asks the server again. If it was learned just now, it is kept: the reader is at fault then.
    pub(crate) fn suspect(&self, oid: u32) {
        let is_suspect = self.read().is_suspect(now(), oid);
        if is_suspect {
            self.forget(oid);
        }
    }

    /// Changes whenever something is learned or forgotten; never [`NEVER`](Self::NEVER).
    pub(crate) fn state(&self) -> u64 {
        self.1.load(Ordering::Acquire)
    }

    /// A value that `state` never returns.
    pub(crate) const NEVER: u64 = u64::MAX;

    fn changed(&self) {
        self.1.fetch_add(1, Ordering::AcqRel);
    }

    /// Forgets everything, for another database for instance.
    pub fn clear(&self) {
        *self.write() = Known::default();
        self.changed();
    }

    /// How many types are kept.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether no type is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The learned type that a value accepts, for use with [`typed`](crate::typed). `None` if
    /// several do, such as two enums of one name in different schemas.
    pub fn type_for(&self, value: &(dyn ToSql + Sync)) -> Option<Type> {
        // Cloned, since the code of a value must not run under the lock.
        let types: Vec<Type> = self.read().types().cloned().collect();
        let mut scratch = BytesMut::new();
        let mut accepted = types.into_iter().filter(|type_| {
            scratch.clear();
            !crate::params::encode(value, type_, &mut scratch)
                .is_err_and(|error| error.is::<WrongType>())
        });
        accepted.next().filter(|_| accepted.next().is_none())
    }

    fn read(&self) -> RwLockReadGuard<'_, Known<Type>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known<Type>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time, by a clock that all caches share.
fn now() -> Time {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    Time::ZERO.after(EPOCH.get_or_init(Instant::now).elapsed())
}
