//! Statements under names that the user chose, as with pg's `name` and SQL's PREPARE. A name stands
//! for one text as long as its connection lives.

use std::collections::HashMap;
use std::sync::Arc;

use super::statements::{Prepared, Statements, USES_BEFORE_OWN, Use, Wanted, Way};
use crate::Postgres;
use crate::message::EncodeError;
use crate::sql::{Traits, classify};

/// The named statements of one connection.
#[derive(Debug)]
pub struct Named<T> {
    /// By the part of the name that the server looks at.
    by_name: HashMap<Box<str>, OfText<T>>,
}

/// The server looks at so many bytes of a name, and takes two for the same that share these: its
/// table of prepared statements has keys of NAMEDATALEN, with a zero byte
/// (`InitQueryHashTable` in src/backend/commands/prepare.c).
const NAME_LEN: usize = 63;

#[derive(Debug)]
struct OfText<T> {
    text: Box<str>,
    traits: Traits,
    prepared: Arc<Prepared<T>>,
    /// Whether one of this text was prepared before it. The server still has that, or is told to
    /// close it, where this one's Parse has failed.
    has_stood: bool,
    /// The epoch in which it was parsed ([`Statements::renamed`]), the one of its last use, and how
    /// often it was used in that.
    parsed_in: u64,
    epoch: u64,
    uses: u32,
}

impl<T> OfText<T> {
    /// Counts a use. Whether the names in the text mean what they meant when it was parsed.
    fn is_current(&mut self, epoch: u64) -> bool {
        if self.epoch != epoch {
            (self.epoch, self.uses) = (epoch, 0);
        }
        self.uses = self.uses.saturating_add(1);
        self.parsed_in == epoch
    }
}

/// The name already stands for another text.
#[derive(Debug, PartialEq, Eq)]
pub struct NameTaken;

/// How a text runs.
#[derive(Debug)]
pub struct Plan<T> {
    /// By name or by text.
    pub way: Way<T>,
    /// Whether the server may have a statement of that name, which must be closed first.
    pub closes: bool,
    /// What the text shows.
    pub traits: Traits,
}

/// The part of a name that the server looks at, without a letter that is cut in two.
fn seen_by_the_server(name: &str) -> &str {
    let ends = (0..=NAME_LEN).rev();
    ends.filter_map(|end| name.get(..end)).next().unwrap_or(name)
}

impl<T> Default for Named<T> {
    fn default() -> Named<T> {
        Named { by_name: HashMap::new() }
    }
}

impl<T> Named<T> {
    /// How a text runs under this name. The first use prepares it. Until the server has confirmed
    /// that, other uses are sent as text.
    ///
    /// # Errors
    /// The text or the name can't be sent.
    pub fn way(
        &mut self,
        statements: &Statements<T>,
        protocol: &mut Postgres,
        (name, text): (&str, &str),
        wanted: &Wanted<'_, T>,
    ) -> Result<Result<Plan<T>, NameTaken>, EncodeError> {
        let (mut traits, mut closes, mut has_stood) = (None, false, false);
        // It has the protocol find out what is on the other end.
        let _ = protocol.names();
        let may_name = statements.may_name(protocol, wanted);
        let epoch = statements.epoch(protocol);
        let key = seen_by_the_server(name);
        if let Some(known) = self.by_name.get_mut(key) {
            let is_same = *known.text == *text;
            let is_current = known.is_current(epoch);
            let (prepared, of) = (&known.prepared, known.traits);
            let plan = |way| Ok(Ok(Plan { way, closes: false, traits: of }));
            let is_ready = prepared.is_ready() && !prepared.is_old(wanted.now);
            match is_same {
                false if known.has_stood || !prepared.has_failed() => return Ok(Err(NameTaken)),
                true if !may_name => return plan(Way::Unnamed),
                true if !is_current && known.uses < USES_BEFORE_OWN => return plan(Way::Unnamed),
                true if is_ready && is_current && prepared.takes(&wanted.parameters) => {
                    return plan(Way::Named(Use::on(protocol, prepared.clone())));
                }
                true if is_ready && is_current || prepared.is_parsing() => {
                    return plan(Way::Unnamed);
                }
                _ => {}
            }
            closes = is_same;
            traits = is_same.then_some(of);
            has_stood = known.has_stood || !prepared.has_failed();
            prepared.replace();
        }
        let traits = traits.unwrap_or_else(|| classify(text));
        if !may_name {
            return Ok(Ok(Plan { way: Way::Unnamed, closes, traits }));
        }
        let prepared = statements.prepare_as(protocol, name.to_owned(), wanted, None)?;
        let way = Way::Named(Use::that_parses(prepared.clone()));
        let text = text.into();
        let of_text =
            OfText { text, traits, prepared, has_stood, parsed_in: epoch, epoch, uses: 0 };
        self.by_name.insert(key.into(), of_text);
        Ok(Ok(Plan { way, closes, traits }))
    }

    /// The server has lost all of them.
    pub fn lost(&mut self) {
        self.by_name.values().for_each(|of_text| of_text.prepared.lost());
    }
}
