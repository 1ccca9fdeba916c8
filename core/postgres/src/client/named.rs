//! Statements under names that the user chose, as with pg's `name` and SQL's PREPARE. A name stands
//! for one text as long as its connection lives.

use std::collections::HashMap;
use std::sync::Arc;

use super::statements::{Prepared, Statements, Use, Wanted, Way};
use crate::Postgres;
use crate::message::EncodeError;
use crate::sql::{Traits, classify};

/// The named statements of one connection.
#[derive(Debug)]
pub struct Named<T> {
    by_name: HashMap<Box<str>, OfText<T>>,
}

#[derive(Debug)]
struct OfText<T> {
    text: Box<str>,
    traits: Traits,
    prepared: Arc<Prepared<T>>,
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
        let (mut traits, mut closes) = (None, false);
        if let Some(known) = self.by_name.get(name) {
            let (prepared, is_same) = (&known.prepared, *known.text == *text);
            let plan = |way| Ok(Ok(Plan { way, closes: false, traits: known.traits }));
            match is_same {
                false if !prepared.has_failed() => return Ok(Err(NameTaken)),
                true if prepared.is_ready() => {
                    return plan(Way::Named(Use::of(prepared.clone())));
                }
                true if prepared.is_parsing() => return plan(Way::Unnamed),
                _ => {}
            }
            closes = is_same;
            traits = is_same.then_some(known.traits);
            prepared.replace();
        }
        let traits = traits.unwrap_or_else(|| classify(text));
        let prepared = statements.prepare_as(protocol, name.to_owned(), wanted, None)?;
        let way = Way::Named(Use::that_parses(prepared.clone()));
        self.by_name.insert(name.into(), OfText { text: text.into(), traits, prepared });
        Ok(Ok(Plan { way, closes, traits }))
    }

    /// The server has lost all of them.
    pub fn lost(&mut self) {
        self.by_name.values().for_each(|of_text| of_text.prepared.lost());
    }
}
