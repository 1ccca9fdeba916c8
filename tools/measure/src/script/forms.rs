//! Statements in the forms in which they are sent.

use std::collections::HashMap;

use super::command::{Length, Store};
use super::expr::word_len;
use super::names::Names;
use super::parse::{Action, Source, Step};
use super::plan::{Known, Protocol, Ready};
use super::scripts::Script;
use super::statement::StatementText;
use crate::error::{Error, Result};

/// A statement in the forms in which it may be sent.
#[derive(Debug, PartialEq)]
pub(super) struct Statement {
    /// Its number among all texts: each text is prepared once.
    pub(super) number: usize,
    /// With parameters.
    pub(super) text: String,
    pub(super) parameters: Vec<usize>,
    /// Pieces with variables in between, for the simple protocol.
    pub(super) pieces: Vec<Part>,
    pub(super) store: Option<Store>,
    /// Whether it is several statements for the server, which only the simple protocol accepts.
    pub(super) several: bool,
    /// Whether it can't share a sync point with others.
    pub(super) alone: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    /// A variable, and the text used while it isn't set.
    Variable(usize, String),
}

/// Makes scripts ready, one after the other.
pub(super) struct Maker<'a> {
    names: &'a Names,
    known: &'a Known,
    protocol: Protocol,
    texts: HashMap<String, usize>,
}

impl<'a> Maker<'a> {
    pub(super) fn new(names: &'a Names, known: &'a Known, protocol: Protocol) -> Maker<'a> {
        Maker { names, known, protocol, texts: HashMap::new() }
    }

    /// How many different statements there are so far.
    pub(super) fn texts(&self) -> usize {
        self.texts.len()
    }

    /// Makes a script ready; `numbers` are those of its variables.
    pub(super) fn ready(&mut self, script: &Script, numbers: &[usize]) -> Result<Ready> {
        let mut steps = Vec::with_capacity(script.steps.len());
        for Step { line, action } in script.steps.iter().cloned() {
            let failed = |what| Error::new(format!("{}:{line}: {what}", script.name));
            let action = self.action(action, numbers).map_err(failed)?;
            steps.push(Step { line, action });
        }
        Ok(Ready::new(script, steps))
    }

    fn action(
        &mut self,
        action: Action<Source>,
        numbers: &[usize],
    ) -> std::result::Result<Action<Statement>, String> {
        Ok(match action {
            Action::Statement(source) => Action::Statement(self.statement(source)?),
            Action::Set { variable, value } => {
                Action::Set { variable: numbers[variable], value: value.renumbered(numbers) }
            }
            Action::Sleep { length: Length::Variable(number), unit_us } => {
                Action::Sleep { length: Length::Variable(numbers[number]), unit_us }
            }
            Action::Sleep { length, unit_us } => Action::Sleep { length, unit_us },
            Action::Unless { condition, to } => {
                Action::Unless { condition: condition.renumbered(numbers), to }
            }
            Action::Jump(to) => Action::Jump(to),
            Action::StartPipeline if self.protocol == Protocol::Simple => {
                return Err(NO_PIPELINES.into());
            }
            Action::StartPipeline => Action::StartPipeline,
            Action::SyncPipeline => Action::SyncPipeline,
            Action::EndPipeline => Action::EndPipeline,
        })
    }

    fn statement(&mut self, source: Source) -> std::result::Result<Statement, String> {
        let Source { text: source, store } = source;
        let forms = self.forms(&source)?;
        let next = self.texts.len();
        Ok(Statement {
            number: *self.texts.entry(forms.text.clone()).or_insert(next),
            text: forms.text,
            parameters: forms.parameters,
            pieces: forms.pieces,
            store,
            several: source.several,
            alone: stands_alone(&source.text),
        })
    }

    fn forms(&self, source: &StatementText) -> std::result::Result<Forms, String> {
        let simple = self.protocol == Protocol::Simple || source.several;
        let (mut forms, mut at) = (Forms::default(), 0);
        for variable in &source.variables {
            let shown = &source.text[variable.range.clone()];
            let name = &shown[1..];
            forms.literal(&source.text[at..variable.range.start]);
            at = variable.range.end;
            match self.names.get(name).filter(|_| self.known.may_be_set(name)) {
                None => forms.literal(shown),
                Some(_) if variable.quoted && !simple && self.known.is_set(name) => {
                    return Err(format!(
                        "{shown} stands between quotes, where only the simple protocol puts a \
                         value: use that, or take it out ('a' || {shown})"
                    ));
                }
                Some(number) => forms.variable(number, shown, variable.quoted),
            }
        }
        forms.literal(&source.text[at..]);
        Ok(forms)
    }
}

const NO_PIPELINES: &str = "\\startpipeline: not with the simple protocol, which has no pipelines: \
                            use prepared or extended";

/// A statement in both forms.
#[derive(Default)]
struct Forms {
    text: String,
    parameters: Vec<usize>,
    pieces: Vec<Part>,
}

impl Forms {
    fn literal(&mut self, text: &str) {
        self.text.push_str(text);
        match self.pieces.last_mut() {
            Some(Part::Text(piece)) => piece.push_str(text),
            _ => self.pieces.push(Part::Text(text.to_owned())),
        }
    }

    /// Adds a variable. Between quotes it is one for the simple protocol only.
    fn variable(&mut self, number: usize, shown: &str, quoted: bool) {
        self.pieces.push(Part::Variable(number, shown.to_owned()));
        if quoted {
            return self.text.push_str(shown);
        }
        self.parameters.push(number);
        self.text.push_str(&format!("${}", self.parameters.len()));
    }
}

/// The first words of statements that begin or end a transaction, or may do so. Such a statement
/// can't be atomic with others.
const ALONE: &str = "abort begin call cluster commit do end prepare reindex release rollback \
                     savepoint start vacuum";

fn stands_alone(text: &str) -> bool {
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix("/*") {
        rest = comment.split_once("*/").map_or("", |(_, rest)| rest).trim_start();
    }
    let word = rest[..word_len(rest)].to_ascii_lowercase();
    ALONE.split(' ').any(|known| known == word)
}
