//! The texts that a connection runs: what each shows, how often it came, and under which name the
//! server knows it.
//!
//! A text is prepared at its n-th use, together with that use: Parse and Describe go in front. Only when the server has
//! confirmed it do others name it; until then they send their own Parse of the unnamed statement. So a
//! Parse that fails fails its own request and no other, whatever stands behind it.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use onetrip_postgres::message::{Close, Describe, EncodeError, Target, parse};
use onetrip_postgres::sql::{Traits, classify};
use onetrip_postgres::{Names, Postgres, StatementId};

/// The number of a statement, as the host knows it. Never given twice; 0 is none.
pub(crate) type Number = u32;

/// What one connection knows.
#[derive(Debug)]
pub(crate) struct Statements {
    texts: HashMap<Box<str>, Text>,
    /// Statements under names of the user's own.
    named: HashMap<Box<str>, Named>,
    known: HashMap<Number, Known>,
    numbers: Number,
    clock: u64,
    threshold: u32,
    max: usize,
    /// What tells its names from those of all other connections. Behind a pooler several of them may come to
    /// share a server's, where a name that meant two texts would run the wrong one.
    unique: u64,
    /// Names that the server is to forget, one with each request.
    closes: Vec<String>,
    /// Numbers that the host need not keep anything for.
    forgotten: Vec<Number>,
}

#[derive(Debug)]
struct Text {
    traits: Traits,
    uses: u32,
    used: u64,
    statement: Number,
}

#[derive(Debug)]
struct Named {
    text: Box<str>,
    traits: Traits,
    statement: Number,
}

#[derive(Debug)]
struct Known {
    name: String,
    id: StatementId,
    state: State,
    /// Requests on their way that name it.
    users: u32,
    /// No text leads here any more.
    dropped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its Parse is on its way.
    Parsing,
    Ready,
    /// The server has lost it, or its plan is stale.
    Stale,
    /// Its Parse failed, so the server never had it.
    Failed,
}

/// How a request runs its text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the unnamed statement.
    Unnamed,
    /// It prepares this statement and uses it. `close`: the server may have one of that name.
    Prepare { number: Number, name: String, id: StatementId, close: bool },
    /// The server has it.
    Named { number: Number, id: StatementId },
}

/// A name that stands for another text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NameTaken;

impl Statements {
    /// Texts that are counted and not prepared, for each statement that may be.
    const TEXTS_PER_STATEMENT: usize = 4;

    pub(crate) fn new(threshold: u32, max: usize, unique: u64) -> Statements {
        Statements {
            texts: HashMap::new(),
            named: HashMap::new(),
            known: HashMap::new(),
            numbers: 0,
            clock: 0,
            threshold,
            max,
            unique,
            closes: Vec::new(),
            forgotten: Vec::new(),
        }
    }

    /// What a text shows, without counting it.
    pub(crate) fn traits(&self, text: &str) -> Traits {
        self.texts.get(text).map_or_else(|| classify(text), |known| known.traits)
    }

    /// Counts a use of a text and says how it runs.
    pub(crate) fn counted(
        &mut self,
        protocol: &mut Postgres,
        text: &str,
    ) -> Result<(Way, Traits), EncodeError> {
        self.clock += 1;
        let (clock, threshold) = (self.clock, self.threshold);
        let Some(found) = self.texts.get_mut(text) else {
            let traits = classify(text);
            if threshold == 0 || self.max == 0 || text.len() > COUNTED_BYTES_MAX {
                return Ok((Way::Unnamed, traits));
            }
            self.make_room(protocol);
            let text_ = Text { traits, uses: 1, used: clock, statement: 0 };
            self.texts.insert(text.into(), text_);
            let prepares =
                threshold == 1 && is_preparable(traits) && protocol.names() != Names::Lost;
            return match prepares {
                true => self.prepare_counted(protocol, text, traits),
                false => Ok((Way::Unnamed, traits)),
            };
        };
        found.used = clock;
        found.uses = found.uses.saturating_add(1);
        let (traits, number, uses) = (found.traits, found.statement, found.uses);
        match self.known.get(&number).map(|known| (known.state, known.id)) {
            Some((State::Ready, id)) if protocol.names() == Names::Kept => {
                Ok((Way::Named { number, id }, traits))
            }
            Some((State::Ready | State::Parsing, _)) => Ok((Way::Unnamed, traits)),
            _ if uses < threshold || !is_preparable(traits) => Ok((Way::Unnamed, traits)),
            _ if protocol.names() == Names::Lost => Ok((Way::Unnamed, traits)),
            _ => self.prepare_counted(protocol, text, traits),
        }
    }

    /// How a text runs under a name of the user's own.
    pub(crate) fn named(
        &mut self,
        protocol: &mut Postgres,
        name: &str,
        text: &str,
    ) -> Result<Result<(Way, Traits), NameTaken>, EncodeError> {
        let (mut traits, mut close) = (None, false);
        if let Some(named) = self.named.get(name) {
            let (number, is_same) = (named.statement, *named.text == *text);
            match self.known.get(&number).map(|known| (known.state, known.id)) {
                Some((State::Failed, _)) if !is_same => {}
                _ if !is_same => return Ok(Err(NameTaken)),
                Some((State::Ready, id)) => {
                    return Ok(Ok((Way::Named { number, id }, named.traits)));
                }
                Some((State::Parsing, _)) => return Ok(Ok((Way::Unnamed, named.traits))),
                _ => (traits, close) = (Some(named.traits), true),
            }
            self.drop_statement(protocol, number, false);
        }
        let traits = traits.unwrap_or_else(|| self.traits(text));
        let (number, id) = self.add(protocol, name.to_owned(), text)?;
        let named = Named { text: text.into(), traits, statement: number };
        self.named.insert(name.into(), named);
        Ok(Ok((Way::Prepare { number, name: name.to_owned(), id, close }, traits)))
    }

    fn prepare_counted(
        &mut self,
        protocol: &mut Postgres,
        text: &str,
        traits: Traits,
    ) -> Result<(Way, Traits), EncodeError> {
        let old = self.texts.get(text).map_or(0, |text| text.statement);
        self.drop_statement(protocol, old, true);
        let name = format!("{NAME_PREFIX}{:x}_{}", self.unique, self.numbers + 1);
        let (number, id) = self.add(protocol, name.clone(), text)?;
        if let Some(text) = self.texts.get_mut(text) {
            text.statement = number;
        }
        self.keep_few(protocol, number);
        Ok((Way::Prepare { number, name, id, close: false }, traits))
    }

    fn add(
        &mut self,
        protocol: &mut Postgres,
        name: String,
        text: &str,
    ) -> Result<(Number, StatementId), EncodeError> {
        let id = protocol.register(heal(&name, text)?);
        self.numbers += 1;
        let known = Known { name, id, state: State::Parsing, users: 0, dropped: false };
        self.known.insert(self.numbers, known);
        Ok((self.numbers, id))
    }

    /// Forgets the least recently used of the texts that are prepared by counting, if there are too many.
    fn keep_few(&mut self, protocol: &mut Postgres, newest: Number) {
        let counted = || self.texts.values().filter(|text| text.statement != 0);
        if counted().count() <= self.max {
            return;
        }
        let others = counted().filter(|text| text.statement != newest);
        if let Some(oldest) = others.min_by_key(|text| text.used).map(|text| text.statement) {
            self.texts.retain(|_, text| text.statement != oldest);
            self.drop_statement(protocol, oldest, true);
        }
    }

    /// Sees that one more text can be counted. Those that were not prepared go, all at once: they are as many as make
    /// that rare.
    fn make_room(&mut self, protocol: &mut Postgres) {
        if self.texts.len() < self.max.saturating_mul(Self::TEXTS_PER_STATEMENT) {
            return;
        }
        self.texts.retain(|_, text| text.statement != 0);
        self.keep_few(protocol, 0);
    }

    /// No text leads to this statement any more. `close`: the server is to forget it as well.
    fn drop_statement(&mut self, protocol: &mut Postgres, number: Number, close: bool) {
        let Some(known) = self.known.get_mut(&number) else { return };
        known.dropped = true;
        if !close {
            known.name.clear();
        }
        self.let_go(protocol, number);
    }

    fn let_go(&mut self, protocol: &mut Postgres, number: Number) {
        let Some(known) = self.known.get(&number).filter(|it| it.dropped && it.users == 0) else {
            return;
        };
        protocol.unregister(known.id);
        if let Some(known) = self.known.remove(&number)
            && !known.name.is_empty()
        {
            self.closes.push(known.name);
        }
        self.forgotten.push(number);
    }

    /// The name of one statement that the server is to forget.
    pub(crate) fn take_close(&mut self) -> Option<String> {
        self.closes.pop()
    }

    /// It could not be sent after all.
    pub(crate) fn give_close_back(&mut self, name: String) {
        self.closes.push(name);
    }

    /// One number that the host need not keep anything for.
    pub(crate) fn take_forgotten(&mut self) -> Option<Number> {
        self.forgotten.pop()
    }

    /// A request that names it is on its way.
    pub(crate) fn began(&mut self, number: Number) {
        if let Some(known) = self.known.get_mut(&number) {
            known.users += 1;
        }
    }

    /// The name on the server.
    pub(crate) fn name(&self, number: Number) -> &str {
        self.known.get(&number).map_or("", |known| &known.name)
    }

    /// A Parse of it was answered, and it was described.
    pub(crate) fn prepared(&mut self, number: Number) {
        self.set(number, State::Ready);
    }

    /// The server does not have it, or its plan is stale.
    pub(crate) fn stale(&mut self, number: Number) {
        self.set(number, State::Stale);
    }

    fn set(&mut self, number: Number, state: State) {
        if let Some(known) = self.known.get_mut(&number) {
            known.state = state;
        }
    }

    /// A request that named it has ended, in whose reply its Parse was answered, or not, and it was
    /// described, or not. Without its description nothing can be read of what it returns.
    pub(crate) fn ended(
        &mut self,
        protocol: &mut Postgres,
        number: Number,
        (parsed, described): (bool, bool),
    ) {
        let Some(known) = self.known.get_mut(&number) else { return };
        known.users = known.users.saturating_sub(1);
        match (parsed, described) {
            (true, false) => known.state = State::Stale,
            (false, _) if known.state == State::Parsing => known.state = State::Failed,
            _ => {}
        }
        self.let_go(protocol, number);
    }

    /// The server has lost all of them: DISCARD ALL, DEALLOCATE ALL.
    pub(crate) fn lost(&mut self) {
        let had = self.known.values_mut().filter(|known| known.state != State::Failed);
        had.for_each(|known| known.state = State::Stale);
    }
}

/// Of a request that was not sent: neither the answer to a Parse nor a description.
pub(crate) const NOTHING_SEEN: (bool, bool) = (false, false);

/// Longer texts are not counted: they are rarely the same twice, and each that is counted is kept.
const COUNTED_BYTES_MAX: usize = 64 << 10;

/// In front of the names of statements that were prepared by counting.
const NAME_PREFIX: &str = "onetrip_";

/// Whether a text is worth a name: what runs often and returns the same columns each time.
fn is_preparable(traits: Traits) -> bool {
    !(traits.transaction_control()
        || traits.session_state()
        || traits.stand_alone()
        || traits.several())
}

/// What prepares a statement anew: Close, since its name may still be taken; Parse; and Describe, since its
/// columns may be others now.
fn heal(name: &str, text: &str) -> Result<Bytes, EncodeError> {
    let mut out = BytesMut::new();
    Close { target: Target::Statement(name) }.encode(&mut out)?;
    write_prepare(&mut out, name, text)?;
    Ok(out.freeze())
}

/// Parse and Describe. The types of parameters are left to the server.
pub(crate) fn write_prepare(out: &mut BytesMut, name: &str, text: &str) -> Result<(), EncodeError> {
    parse::write(out, name, text, &[])?;
    Describe { target: Target::Statement(name) }.encode(out)
}
