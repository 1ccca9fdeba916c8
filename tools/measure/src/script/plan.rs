//! Scripts made ready to run: variables by number over all of them, and statements in the form in
//! which they are sent.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::ahead::Wait;
use super::command::check_name;
use super::forms::{Maker, Statement};
use super::names::{DEFAULT_SEED, Names};
use super::parse::{Action, Source, Step};
use super::random::Random;
use super::scripts::{Mix, Script};
use super::value::{Scalar, Value};
use crate::error::{Error, Result};
use crate::results::Awaited;

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

/// When replies are awaited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// Where the script says so: each behind its statement, unless it stands in a pipeline.
    #[default]
    AsWritten,
    /// Where a later step needs a value of it, and at the end of the run: see
    /// [`Mix::why_not_pipelined`] for those that have no such form.
    Pipelined,
}

impl Form {
    /// What it is called as the mode of a cell.
    pub fn name(self) -> &'static str {
        match self {
            Form::AsWritten => "each awaited",
            Form::Pipelined => "pipelined",
        }
    }
}

/// How scripts are run. The default is the form [`AsWritten`](Form::AsWritten), the protocol
/// [`Prepared`](Protocol::Prepared), scale 1, no definition, seed 0, and tries without a limit.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When replies are awaited.
    pub form: Form,
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
        let (form, protocol) = (Form::default(), Protocol::default());
        Settings { form, protocol, scale: 1, defines: Vec::new(), seed: 0, max_tries: 0 }
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
    label: String,
    pub(super) steps: Vec<Step<Statement>>,
    /// Where runs in the pipelined form had to wait.
    waits: Mutex<BTreeSet<Wait>>,
}

impl Ready {
    pub(super) fn new(script: &Script, steps: Vec<Step<Statement>>) -> Ready {
        let (name, label) = (script.name.clone(), script.label().to_owned());
        Ready { name, label, steps, waits: Mutex::default() }
    }

    /// A run in the pipelined form had to wait.
    pub(super) fn note(&self, wait: Wait) {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).insert(wait);
    }

    fn waits(&self, names: &Names) -> Vec<Awaited> {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let awaited = |(at, what): &Wait| Awaited {
            place: self.place(*at),
            value: match what {
                Some((variable, from)) => {
                    format!(":{} of {}", names.list()[*variable], self.place(*from))
                }
                None => "what was sent before".to_owned(),
            },
        };
        waits.iter().map(awaited).collect()
    }

    /// A step as people find it in their script: a statement by its number, a command by its line.
    fn place(&self, at: usize) -> String {
        let Step { line, action } = &self.steps[at];
        let command = match action {
            Action::Statement(_) => {
                let is_statement =
                    |step: &&Step<Statement>| matches!(step.action, Action::Statement(_));
                let number = self.steps[..=at].iter().filter(is_statement).count();
                return format!("statement {number}");
            }
            Action::Set { .. } => "set",
            Action::Sleep { .. } => "sleep",
            _ => "if",
        };
        format!("\\{command} on line {line}")
    }
}

impl Plan {
    /// Makes scripts ready.
    ///
    /// # Errors
    /// A definition has no proper name; a pipeline needs another protocol; or a variable stands
    /// between quotes, where the protocol can't put a value.
    pub fn new(mix: &Mix, settings: Settings) -> Result<Arc<Plan>> {
        let (names, numbers) = all_names(mix, &settings)?;
        let known = Known::new(mix, &settings);
        let mut maker = Maker::new(&names, &known, settings.protocol);
        let scripts = mix.scripts.iter().zip(&numbers);
        let scripts = scripts
            .map(|((script, _), numbers)| maker.ready(script, numbers))
            .collect::<Result<_>>()?;
        let statements = maker.texts();
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

    /// Where runs in the pipelined form had to wait so far, by their scripts.
    pub fn waits(&self) -> Vec<Awaited> {
        let is_one = self.scripts.len() == 1;
        let named = |script: &Ready, awaited: Awaited| match is_one {
            true => awaited,
            false => Awaited { place: format!("{}: {}", script.label, awaited.place), ..awaited },
        };
        let of = |script| Ready::waits(script, &self.names).into_iter().map(|it| named(script, it));
        self.scripts.iter().flat_map(of).collect()
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

/// The names of everything, and for each script the numbers that its own numbers have among them.
fn all_names(mix: &Mix, settings: &Settings) -> Result<(Names, Vec<Vec<usize>>)> {
    let mut names = Names::default();
    let renumbered = |(script, _): &(Script, u32)| -> Vec<usize> {
        script.names.list().iter().map(|name| names.number_of(name)).collect()
    };
    let numbers = mix.scripts.iter().map(renumbered).collect();
    for name in mix.scripts.iter().flat_map(|(script, _)| variables_in_statements(script)) {
        names.number_of(name);
    }
    for (name, _) in &settings.defines {
        check_name(name).map_err(|what| Error::new(format!("the definition of {what}")))?;
        names.number_of(name);
    }
    Ok((names, numbers))
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
pub(super) struct Known {
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

    /// Whether a script or a definition sets it by its name.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.certain.contains(name)
    }

    /// Whether it may ever have a value.
    pub(super) fn may_be_set(&self, name: &str) -> bool {
        self.certain.contains(name) || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}
