//! Statement metadata: the types of a text's parameters and the formats of its columns, so that
//! later calls make one trip and guess nothing; and how often the text was used.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use onetrip_engine::pool::TextKey;
use onetrip_postgres::client::exact::Parameters;
use onetrip_postgres::client::first_use::is_old;
use onetrip_postgres::client::statements::Generation;
use onetrip_postgres::client::texts::{TEXT_LEN_MAX, text_key};
use onetrip_postgres::message::{Format, Formats};
use onetrip_postgres::sql::Traits;
use postgres_types::Type;

use crate::Error;
use crate::first_use::{ends_all, may_be_outdated, oid_of};
use crate::params::UNENCODABLE;
use crate::sync::SHARDS;
use crate::types::is_any_moment;

/// The types of a statement's parameters, and the formats of its columns.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// Differs from the id of all other metadata of this program.
    pub(crate) id: u64,
    pub(crate) sql: Arc<str>,
    pub(crate) types: Vec<Type>,
    /// The numbers of the types, as a Parse has them: 0 where the server infers one.
    pub(crate) oids: Vec<u32>,
    /// Which of them are moments, whose types the server infers; empty for none.
    moments: Vec<bool>,
    pub(crate) traits: Traits,
    /// The key of the text in the pool.
    pub(crate) key: TextKey,
    results: Results,
    uses: AtomicU32,
    /// When the server said which types those values are to have that convert to several.
    asked_at: Option<Instant>,
}

/// The formats of the columns. They change if the statement has to be prepared anew because a
/// table's columns have changed.
#[derive(Debug)]
struct Results {
    any_text: AtomicBool,
    /// Empty if all are binary.
    formats: Mutex<Vec<Format>>,
}

impl Metadata {
    /// Metadata that has been used once. `results` has the formats of the columns; it is empty if
    /// all are binary.
    pub(crate) fn new(
        sql: Arc<str>,
        types: Vec<Type>,
        traits: Traits,
        results: Vec<Format>,
    ) -> Arc<Metadata> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let any_text = AtomicBool::new(!results.is_empty());
        Arc::new(Metadata {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            key: text_key(&sql, traits),
            sql,
            oids: types.iter().map(oid_of).collect(),
            moments: moments_of(&types),
            types,
            traits,
            results: Results { any_text, formats: Mutex::new(results) },
            uses: AtomicU32::new(1),
            asked_at: None,
        })
    }

    /// The same of a text whose server was asked which types its values are to have.
    pub(crate) fn asked(
        sql: Arc<str>,
        types: Vec<Type>,
        traits: Traits,
        results: Vec<Format>,
    ) -> Arc<Metadata> {
        let mut metadata = Metadata::new(sql, types, traits, results);
        if let Some(metadata) = Arc::get_mut(&mut metadata) {
            metadata.asked_at = Some(Instant::now());
        }
        metadata
    }

    /// Whether the server is to be asked that again.
    fn is_old(&self) -> bool {
        self.asked_at.is_some_and(|at| is_old(at.elapsed()))
    }

    /// What decides which of these values, as they stand in a Bind, may go under a name.
    pub(crate) fn exactness<'a>(&'a self, values: &'a [u8], is_utc: bool) -> Parameters<'a> {
        let (text, moments) = (&*self.sql, &*self.moments);
        let rest = Parameters { text, moments, ..Parameters::default() };
        Parameters { named: &self.oids, first: values, is_utc, ..rest }
    }

    /// Counts a use. Returns whether the statement has been used `often` times.
    pub(crate) fn is_used(&self, often: u32) -> bool {
        // Once the count is reached, callers no longer write to the shared memory.
        self.uses.load(Ordering::Relaxed) >= often
            || self.uses.fetch_add(1, Ordering::Relaxed) + 1 >= often
    }

    /// Whether a column is requested as text.
    pub(crate) fn any_text(&self) -> bool {
        self.results.any_text.load(Ordering::Relaxed)
    }

    /// Passes the formats of the columns to `look`.
    pub(crate) fn with_formats<R>(&self, look: impl FnOnce(Formats<'_>) -> R) -> R {
        if !self.any_text() {
            return look(Formats::AllBinary);
        }
        let formats = self.results.formats.lock().unwrap_or_else(PoisonError::into_inner).clone();
        look(if formats.is_empty() { Formats::AllBinary } else { Formats::Each(&formats) })
    }

    /// The formats of the columns; empty if all are binary.
    pub(crate) fn formats(&self) -> Vec<Format> {
        self.with_formats(|formats| match formats {
            Formats::Each(formats) => formats.to_vec(),
            _ => Vec::new(),
        })
    }

    /// Sets the formats of the columns, which have changed.
    pub(crate) fn set_formats(&self, formats: Vec<Format>) {
        let mut kept = self.results.formats.lock().unwrap_or_else(PoisonError::into_inner);
        self.results.any_text.store(!formats.is_empty(), Ordering::Relaxed);
        *kept = formats;
    }
}

fn moments_of(types: &[Type]) -> Vec<bool> {
    match types.iter().any(is_any_moment) {
        true => types.iter().map(is_any_moment).collect(),
        false => Vec::new(),
    }
}

/// A bounded cache of statement metadata, which forgets the oldest first. Texts are spread over
/// shards by their hash, so threads seldom wait for each other.
#[derive(Debug, Default)]
pub(crate) struct MetadataCache {
    shards: [Shard; SHARDS],
    /// Connections that share what is learned find out together that it has changed.
    pub(crate) generation: Generation,
    hasher: RandomState,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_text: HashMap<Arc<str>, Arc<Metadata>>,
    by_age: VecDeque<Arc<str>>,
}

/// About how many statements are remembered per client. Metadata takes a few hundred bytes beside
/// the text.
const SHAPES_MAX: usize = 1024;

impl MetadataCache {
    pub(crate) fn get(&self, sql: &str) -> Option<Arc<Metadata>> {
        self.lock(sql).by_text.get(sql).filter(|it| !it.is_old()).cloned()
    }

    /// Whether a text is remembered. One that is not counts as new at each use.
    pub(crate) fn is_remembered(sql: &str) -> bool {
        sql.len() <= TEXT_LEN_MAX
    }

    pub(crate) fn remember(&self, metadata: Arc<Metadata>) {
        let text = &metadata.sql;
        if !MetadataCache::is_remembered(text) {
            return;
        }
        let mut known = self.lock(text);
        if let Some(old) = known.by_text.get_mut(text) {
            // Callers that began at the same time learn the same: their uses count together.
            let is_same = old.types == metadata.types && old.formats() == metadata.formats();
            if !is_same || old.is_old() {
                *old = metadata;
            }
            return;
        }
        if known.by_age.len() >= SHAPES_MAX / SHARDS
            && let Some(oldest) = known.by_age.pop_front()
        {
            known.by_text.remove(&oldest);
        }
        known.by_age.push_back(text.clone());
        known.by_text.insert(text.clone(), metadata);
    }

    /// A statement failed that was sent as its text is remembered. If that may be why, its metadata
    /// is forgotten; if the error shows that something has changed, so is all metadata, and all
    /// connections prepare their texts anew.
    pub(crate) fn failed(&self, metadata: &Arc<Metadata>, error: &Error) {
        if error.code() == UNENCODABLE {
            return self.forget(metadata);
        }
        if ends_all(error) {
            for shard in &self.shards {
                *shard.lock() = Known::default();
            }
            self.generation.advance();
        } else if may_be_outdated(error) {
            self.forget(metadata);
        }
    }

    /// Forgets metadata that does not hold any more.
    pub(crate) fn forget(&self, metadata: &Arc<Metadata>) {
        let mut known = self.lock(&metadata.sql);
        if known.by_text.get(&metadata.sql).is_some_and(|current| Arc::ptr_eq(current, metadata)) {
            known.by_text.remove(&metadata.sql);
            known.by_age.retain(|text| *text != metadata.sql);
        }
    }

    fn lock(&self, sql: &str) -> MutexGuard<'_, Known> {
        let shard = self.hasher.hash_one(sql) as usize % SHARDS;
        self.shards[shard].lock()
    }
}

impl Shard {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn metadata(asked: Option<Duration>) -> Arc<Metadata> {
        let traits = onetrip_postgres::sql::classify("select $1");
        let mut metadata = Metadata::new("select $1".into(), vec![Type::INT4], traits, Vec::new());
        let of = Arc::get_mut(&mut metadata).expect("nobody else has it");
        of.asked_at = asked.map(|age| Instant::now().checked_sub(age).expect("the machine is up"));
        metadata
    }

    /// P56.
    #[test]
    fn which_of_its_types_a_value_has_is_asked_anew_once_that_is_old() {
        let cache = MetadataCache::default();
        let is_known = || cache.get("select $1").is_some();
        cache.remember(metadata(Some(Duration::ZERO)));
        assert!(is_known());
        cache.forget(&cache.get("select $1").expect("it is known"));
        cache.remember(metadata(Some(Duration::from_secs(61))));
        assert!(!is_known());
        cache.remember(metadata(Some(Duration::ZERO)));
        assert!(is_known(), "what was asked anew takes the place of the old");
        cache.forget(&cache.get("select $1").expect("it is known"));
        cache.remember(metadata(None));
        assert!(is_known(), "what the program says of a type is not asked about");
    }
}
