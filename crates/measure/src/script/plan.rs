//! Scripts made ready to run: variables by number over all of them, and statements in the form in
//! which they are sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::command::{Length, Store, check_name};
use super::names::{DEFAULT_SEED, Names};
use super::parse::{Action, Source, Step};
use super::random::Random;
use super::scripts::{Mix, Script};
use super::value::{Scalar, Value};
use crate::error::{Error, Result};

/// How statements are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// As one message with the values in the text: pgbench's default.
    Simple,
    /// Parsed at each use, with the values as parameters.
    Extended,
    /// Prepared before the first use, with the values as parameters: the default here.
    #[default]
    Prepared,
}

/// How scripts are run. The default is the protocol [`Prepared`](Protocol::Prepared), scale 1, no
/// definition, seed 0, and tries without a limit.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How statements are sent.
    pub protocol: Protocol,
    /// The variable `scale`: how large pgbench's tables are, in units of 100,000 accounts.
    pub scale: u32,
    /// Variables that are set before the first run, by name.
    pub defines: Vec<(String, String)>,
    /// Of all random numbers, and the variable `random_seed`.
    pub seed: u64,
    /// How often a run is tried in all when it fails for a conflict (40001, 40P01). 0 is no limit.
    pub max_tries: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        let protocol = Protocol::default();
        Settings { protocol, scale: 1, defines: Vec::new(), seed: 0, max_tries: 0 }
    }
}

/// Scripts that are ready to run, with how they are run. All clients share it.
#[derive(Debug)]
pub struct Plan {
    pub(super) scripts: Vec<Ready>,
    /// The sum of the weights of each script and those in front of it.
    weights: Vec<u64>,
    pub(super) names: Names,
    pub(super) settings: Settings,
    /// What variables are before the first run; that of the client is not among them.
    pub(super) variables: Vec<Option<Value>>,
    pub(super) statements: usize,
    statements_per_run: Option<u32>,
}

/// A script that is ready to run.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) name: Arc<str>,
    pub(super) steps: Vec<Step<Statement>>,
}

/// A statement in the forms in which it may be sent.
#[derive(Debug, PartialEq)]
pub(super) struct Statement {
    /// Its number among all texts: what is prepared is prepared once for each.
    pub(super) number: usize,
    /// With parameters.
    pub(super) text: String,
    pub(super) parameters: Vec<usize>,
    /// In pieces, between which there are variables: for the simple protocol.
    pub(super) pieces: Vec<Part>,
    pub(super) store: Option<Store>,
    /// Whether it is several statements for the server, which only the simple protocol takes.
    pub(super) several: bool,
    /// Whether it can't share a sync point with others.
    pub(super) alone: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    /// A variable, and what stands there while it isn't set.
    Variable(usize, String),
}

impl Plan {
    /// Makes scripts ready.
    ///
    /// # Errors
    /// A definition has no proper name; a pipeline needs another protocol; or a variable stands
    /// between quotes, where the protocol can't put a value.
    pub fn new(mix: &Mix, settings: Settings) -> Result<Arc<Plan>> {
        let mut names = Names::default();
        let renumbered = |(script, _): &(Script, u32)| -> Vec<usize> {
            script.names.list().iter().map(|name| names.number_of(name)).collect()
        };
        let numbers: Vec<Vec<usize>> = mix.scripts.iter().map(renumbered).collect();
        for (script, _) in &mix.scripts {
            for name in variables_in_statements(script) {
                names.number_of(name);
            }
        }
        for (name, _) in &settings.defines {
            check_name(name).map_err(|what| Error::new(format!("the definition of {what}")))?;
            names.number_of(name);
        }
        let known = Known::new(mix, &settings);
        let numbers_of_texts = HashMap::new();
        let mut maker =
            Maker { names: &names, known: &known, settings: &settings, numbers_of_texts };
        let scripts = mix.scripts.iter().zip(&numbers);
        let scripts = scripts
            .map(|((script, _), numbers)| maker.ready(script, numbers))
            .collect::<Result<_>>()?;
        let statements = maker.numbers_of_texts.len();
        let sums = |sum: &mut u64, (_, weight): &(Script, u32)| {
            *sum += u64::from(*weight);
            Some(*sum)
        };
        Ok(Arc::new(Plan {
            scripts,
            weights: mix.scripts.iter().scan(0, sums).collect(),
            variables: first_values(&names, &settings),
            names,
            settings,
            statements,
            statements_per_run: mix.statements_per_run(),
        }))
    }

    /// How many statements each run sends; None if that depends on an `\if`, or on the script that
    /// is chosen.
    pub fn statements_per_run(&self) -> Option<u32> {
        self.statements_per_run
    }

    /// The script of the next run.
    pub(super) fn choose(&self, random: &mut Random) -> usize {
        let sum = self.weights.last().copied().unwrap_or(0);
        if self.scripts.len() == 1 || sum == 0 {
            return 0;
        }
        let chosen = random.up_to(sum - 1);
        self.weights.partition_point(|until| *until <= chosen)
    }
}

fn variables_in_statements(script: &Script) -> impl Iterator<Item = &str> {
    script.steps.iter().flat_map(|step| match &step.action {
        Action::Statement(Source { text, .. }) => {
            let name = |range: std::ops::Range<usize>| &text.text[range.start + 1..range.end];
            text.variables.iter().map(|it| name(it.range.clone())).collect::<Vec<&str>>()
        }
        _ => Vec::new(),
    })
}

const AUTOMATIC: [&str; 4] = ["scale", "client_id", "random_seed", DEFAULT_SEED];

fn first_values(names: &Names, settings: &Settings) -> Vec<Option<Value>> {
    let mut values = vec![None; names.list().len()];
    let mut set = |name: &str, value: Value| {
        if let Some(number) = names.get(name) {
            values[number] = Some(value);
        }
    };
    let int = |value| Value::Scalar(Scalar::Int(value));
    set("scale", int(i64::from(settings.scale)));
    set("random_seed", int(settings.seed as i64));
    set(DEFAULT_SEED, int(Random::new(settings.seed).next() as i64));
    for (name, value) in &settings.defines {
        set(name, Value::Text(value.as_str().into()));
    }
    values
}

/// Which names may become variables at all. Others are part of the text: `a[1:n]`.
struct Known {
    certain: HashSet<String>,
    /// What results are stored under begins with one of these.
    prefixes: Vec<String>,
}

impl Known {
    fn new(mix: &Mix, settings: &Settings) -> Known {
        let mut certain: HashSet<String> = AUTOMATIC.map(str::to_owned).into();
        certain.extend(settings.defines.iter().map(|(name, _)| name.clone()));
        let mut prefixes = Vec::new();
        for (script, _) in &mix.scripts {
            for step in &script.steps {
                match &step.action {
                    Action::Set { variable, .. } => {
                        certain.insert(script.names.list()[*variable].clone());
                    }
                    Action::Statement(Source { store: Some(store), .. }) => {
                        prefixes.push(store.prefix.clone());
                    }
                    _ => {}
                }
            }
        }
        Known { certain, prefixes }
    }

    fn may_be_set(&self, name: &str) -> bool {
        self.certain.contains(name) || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

struct Maker<'a> {
    names: &'a Names,
    known: &'a Known,
    settings: &'a Settings,
    numbers_of_texts: HashMap<String, usize>,
}

impl Maker<'_> {
    fn ready(&mut self, script: &Script, numbers: &[usize]) -> Result<Ready> {
        let mut steps = Vec::with_capacity(script.steps.len());
        for Step { line, action } in script.steps.iter().cloned() {
            let failed = |what| Error::new(format!("{}:{line}: {what}", script.name));
            let action = self.action(action, numbers).map_err(failed)?;
            steps.push(Step { line, action });
        }
        Ok(Ready { name: script.name.clone(), steps })
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
            Action::StartPipeline if self.settings.protocol == Protocol::Simple => {
                return Err(
                    "\\startpipeline: not with the simple protocol, which has no pipelines: \
                            use prepared or extended"
                        .into(),
                );
            }
            Action::StartPipeline => Action::StartPipeline,
            Action::SyncPipeline => Action::SyncPipeline,
            Action::EndPipeline => Action::EndPipeline,
        })
    }

    fn statement(&mut self, source: Source) -> std::result::Result<Statement, String> {
        let Source { text: source, store } = source;
        let simple = self.settings.protocol == Protocol::Simple || source.several;
        let mut made = Statement {
            number: 0,
            text: String::with_capacity(source.text.len()),
            parameters: Vec::new(),
            pieces: Vec::new(),
            store,
            several: source.several,
            alone: stands_alone(&source.text),
        };
        let (mut piece, mut at) = (String::new(), 0);
        for variable in &source.variables {
            let shown = &source.text[variable.range.clone()];
            let (name, before) = (&shown[1..], &source.text[at..variable.range.start]);
            made.text.push_str(before);
            piece.push_str(before);
            at = variable.range.end;
            let number = self.names.get(name).filter(|_| self.known.may_be_set(name));
            let Some(number) = number else {
                made.text.push_str(shown);
                piece.push_str(shown);
                continue;
            };
            made.pieces.push(Part::Text(std::mem::take(&mut piece)));
            made.pieces.push(Part::Variable(number, shown.to_owned()));
            match variable.quoted {
                false => {
                    made.parameters.push(number);
                    made.text.push_str(&format!("${}", made.parameters.len()));
                }
                true if simple || !self.known.certain.contains(name) => made.text.push_str(shown),
                true => {
                    return Err(format!(
                        "{shown} stands between quotes, where only the simple protocol puts a \
                         value: use that, or take it out ('a' || {shown})"
                    ));
                }
            }
        }
        made.text.push_str(&source.text[at..]);
        piece.push_str(&source.text[at..]);
        made.pieces.push(Part::Text(piece));
        let next = self.numbers_of_texts.len();
        made.number = *self.numbers_of_texts.entry(made.text.clone()).or_insert(next);
        Ok(made)
    }
}

/// Whether a statement begins or ends a transaction, or may: such a one isn't atomic with others.
fn stands_alone(text: &str) -> bool {
    const WORDS: [&str; 14] = [
        "abort",
        "begin",
        "call",
        "cluster",
        "commit",
        "do",
        "end",
        "prepare",
        "reindex",
        "release",
        "rollback",
        "savepoint",
        "start",
        "vacuum",
    ];
    let mut rest = text.trim_start();
    while let Some(comment) = rest.strip_prefix("/*") {
        rest = comment.split_once("*/").map_or("", |(_, rest)| rest).trim_start();
    }
    let word = &rest[..super::expr::word_len(rest)];
    WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
}
