//! Statements as the host knows them: by a number, under which it keeps their columns.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use onetrip_engine::Time;
use onetrip_postgres::Postgres;
use onetrip_postgres::client::exact::Parameters;
use onetrip_postgres::client::named::{NameTaken, Named, Plan};
use onetrip_postgres::client::replicas::GuardText;
use onetrip_postgres::client::statements::{
    self, Closing, Fault, Generation, Scope, Wanted, Way, is_preparable,
};
use onetrip_postgres::client::texts::{Counted, Texts};
use onetrip_postgres::message::{EncodeError, parse};
use onetrip_postgres::sql::Traits;

/// The number by which the host knows a statement. It is never used again; 0 is none.
pub(crate) type Number = u32;

/// A request's use of the statement that it names.
pub(crate) type Use = statements::Use<Numbered>;

/// What is kept with a statement: its number.
#[derive(Debug)]
pub(crate) struct Numbered {
    pub(crate) number: Number,
    forgotten: Forgotten,
}

/// The numbers that the host can forget.
type Forgotten = Arc<Mutex<Vec<Number>>>;

/// The texts that a connection, or all connections of a pool, have seen.
pub type SharedTexts = Arc<Mutex<Texts>>;

/// The keys of guards lie up to this. Those of texts are counted from 1.
const GUARD_KEY: u64 = u64::MAX;

/// Assigns numbers to statements.
#[derive(Debug, Default)]
struct Numbers {
    last: Cell<Number>,
    forgotten: Forgotten,
}

/// The statements of one connection.
#[derive(Debug)]
pub(crate) struct Statements {
    texts: SharedTexts,
    /// Whether texts are prepared at all.
    prepares: bool,
    counted: statements::Statements<Numbered>,
    named: Named<Numbered>,
    numbers: Numbers,
    now: Time,
}

impl Statements {
    pub(crate) fn new(threshold: u32, max: usize, unique: u64) -> Statements {
        let texts = Texts::new(threshold, max);
        let mut counted = statements::Statements::new(max, unique);
        counted.share(texts.generation());
        Statements {
            texts: Arc::new(Mutex::new(texts)),
            prepares: threshold > 0 && max > 0,
            counted,
            named: Named::default(),
            numbers: Numbers::default(),
            now: Time::ZERO,
        }
    }

    /// The texts, for another connection to count its own with.
    pub(crate) fn texts(&self) -> SharedTexts {
        self.texts.clone()
    }

    /// Counts texts together with others from now on. A connection that has counted texts before
    /// keeps its own count, because its statements have keys of it.
    pub(crate) fn count_with(&mut self, texts: &SharedTexts) {
        if lock(&self.texts).is_fresh() {
            self.texts = texts.clone();
            self.counted.share(lock(texts).generation());
        }
    }

    /// What all texts of the client are remembered by.
    pub(crate) fn generation(&self) -> &Generation {
        self.counted.generation()
    }

    /// It is as late as this.
    pub(crate) fn set_clock(&mut self, now: Time) {
        self.now = now;
    }

    /// Classifies a text without counting it.
    pub(crate) fn traits(&self, text: &str) -> Traits {
        lock(&self.texts).traits(text)
    }

    /// Counts a use of a text and decides how it runs.
    pub(crate) fn counted(
        &mut self,
        protocol: &mut Postgres,
        (text, types_id): (&str, u32),
        parameters: Parameters<'_>,
        scope: Scope,
    ) -> Result<Plan<Numbered>, EncodeError> {
        let Counted { traits, key, is_due } = lock(&self.texts).count(text);
        if is_due {
            // It has the protocol find out what is on the other end.
            protocol.names();
        }
        let way = match key.filter(|_| is_preparable(traits)) {
            None => Way::Unnamed,
            Some(key) => {
                // Keys are counted from 1.
                let key = key | u64::from(types_id) << 32;
                let (parse, data) = (parse_of(text, parameters.named), || self.numbers.next());
                let wanted = Wanted {
                    key,
                    parse: &parse,
                    data: &data,
                    is_explicit: false,
                    parameters,
                    now: self.now,
                };
                self.counted.way(protocol, &wanted, scope)?
            }
        };
        Ok(Plan { way, closes: false, traits })
    }

    /// How a guard runs, which is prepared with its first use.
    pub(crate) fn guard(
        &mut self,
        protocol: &mut Postgres,
        guard: GuardText,
    ) -> Result<Way<Numbered>, EncodeError> {
        if !self.prepares {
            return Ok(Way::Unnamed);
        }
        let (parse, data) = (parse_of(guard.sql(), guard.types()), || self.numbers.next());
        let key = GUARD_KEY - guard as u64;
        let parameters = Parameters { named: guard.types(), ..Parameters::default() };
        let wanted = Wanted {
            key,
            parse: &parse,
            data: &data,
            is_explicit: false,
            parameters,
            now: self.now,
        };
        self.counted.way(protocol, &wanted, Scope::Fixed)
    }

    /// How a text runs under a name that the user gave it.
    pub(crate) fn named(
        &mut self,
        protocol: &mut Postgres,
        name: &str,
        text: &str,
        parameters: Parameters<'_>,
    ) -> Result<Result<Plan<Numbered>, NameTaken>, EncodeError> {
        let (parse, data) = (parse_of(text, &[]), || self.numbers.next());
        let wanted = Wanted {
            key: 0,
            parse: &parse,
            data: &data,
            is_explicit: false,
            parameters,
            now: self.now,
        };
        self.named.way(&self.counted, protocol, (name, text), &wanted)
    }

    /// A statement is sent on a session that one caller has to himself. Names in texts behind it may
    /// mean other things.
    pub(crate) fn sent(&mut self, protocol: &Postgres, traits: Traits) {
        if traits.renames() {
            self.counted.renamed(protocol);
        }
    }

    /// A request that named no statement has failed so.
    pub(crate) fn failed_unnamed(&self, fault: Fault) {
        self.counted.failed_unnamed(fault);
    }

    /// A name that the server must forget, if there is one.
    pub(crate) fn take_close(&mut self, protocol: &mut Postgres) -> Option<Closing> {
        self.counted.take_close(protocol)
    }

    /// Returns a name whose Close could not be sent.
    pub(crate) fn give_back(&mut self, closing: Closing) {
        self.counted.give_back(closing);
    }

    /// A number that the host can forget, if there is one.
    pub(crate) fn take_forgotten(&mut self) -> Option<Number> {
        lock(&self.numbers.forgotten).pop()
    }

    /// The server has dropped all prepared statements: DISCARD ALL, DEALLOCATE ALL.
    pub(crate) fn lost(&mut self) {
        self.counted.lost();
        self.named.lost();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code of the host runs while the lock is held, so a panic leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Numbers {
    fn next(&self) -> Numbered {
        self.last.set(self.last.get() + 1);
        Numbered { number: self.last.get(), forgotten: self.forgotten.clone() }
    }
}

/// The writer of the Parse message of a text.
fn parse_of(text: &str, types: &[u32]) -> impl Fn(&mut BytesMut, &str) -> Result<(), EncodeError> {
    move |out, name| parse::write(out, name, text, types)
}

impl Drop for Numbered {
    fn drop(&mut self) {
        lock(&self.forgotten).push(self.number);
    }
}
