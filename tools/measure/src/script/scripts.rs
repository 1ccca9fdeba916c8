//! Scripts: one by itself, the built-in ones, and several with weights.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use super::expr::shortened;
use super::names::Names;
use super::parse::{Action, Step, parse};
use super::plan::Protocol;
use crate::error::{Error, Result};

/// A script that was parsed.
#[derive(Clone, Debug)]
pub struct Script {
    pub(super) name: Arc<str>,
    pub(super) steps: Vec<Step>,
    pub(super) names: Names,
}

impl Script {
    /// Parses a script. The name stands in errors: a file's, as it was given.
    ///
    /// # Errors
    /// One line that names script, line and command: what can't be read, isn't closed or isn't
    /// supported. A script without a statement or command is one, too.
    pub fn parse(name: &str, text: &str) -> Result<Script> {
        let mut names = Names::default();
        let failed = |(line, what)| Error::new(format!("{name}:{line}: {what}"));
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let steps = parse(text, &mut names).map_err(failed)?;
        if steps.is_empty() {
            return Err(Error::new(format!("{name}: the script has no command")));
        }
        Ok(Script { name: name.into(), steps, names })
    }

    /// As it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is called in a report: its name without folders and extension.
    pub fn label(&self) -> &str {
        let stem = Path::new(&*self.name).file_stem().and_then(OsStr::to_str);
        stem.unwrap_or(&self.name)
    }

    /// How many statements each run sends; None if that depends on an `\if`. What `\;` joins is one.
    pub fn statements_per_run(&self) -> Option<u32> {
        let branches = |step: &Step| matches!(step.action, Action::Unless { .. });
        if self.steps.iter().any(branches) {
            return None;
        }
        let is_statement = |step: &&Step| matches!(step.action, Action::Statement(_));
        u32::try_from(self.steps.iter().filter(is_statement).count()).ok()
    }
}

/// The names of the scripts that [`builtin`] knows.
pub const BUILTINS: [&str; 3] = ["tpcb-like", "simple-update", "select-only"];

/// One of pgbench's built-in scripts, by its name or a beginning of it that fits no other. They use
/// pgbench's tables: see [`tables`](super::tables).
///
/// * `tpcb-like`: the account of one customer is changed and read, then its teller and its branch,
///   and the history is written, all in one transaction.
/// * `simple-update`: the same without teller and branch, for which transactions wait on one another.
/// * `select-only`: one account is read.
///
/// # Errors
/// No name begins so, or more than one does.
pub fn builtin(name: &str) -> Result<Script> {
    let known: Vec<&str> = BUILTINS.into_iter().filter(|known| known.starts_with(name)).collect();
    let text = match known.as_slice() {
        ["tpcb-like"] => include_str!("builtin/tpcb-like.sql"),
        ["simple-update"] => include_str!("builtin/simple-update.sql"),
        ["select-only"] => include_str!("builtin/select-only.sql"),
        [] => {
            let message = format!(
                "there is no built-in script \"{}\": the built-in scripts are {}",
                shortened(name),
                BUILTINS.join(", ")
            );
            return Err(Error::new(message));
        }
        several => {
            let message = format!(
                "\"{name}\" is the beginning of {}: write more of it",
                several.join(" and ")
            );
            return Err(Error::new(message));
        }
    };
    Script::parse(known[0], text)
}

/// What these are called beside each other: equal labels get a number from the second on.
pub fn labels<'a>(scripts: impl Iterator<Item = &'a Script>) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for script in scripts {
        let label = script.label();
        let numbered = (2..).map(|number| format!("{label} ({number})"));
        let mut free = [label.to_owned()].into_iter().chain(numbered);
        labels.extend(free.find(|it| !labels.contains(it)));
    }
    labels
}

/// Takes a weight off the end of a file or built-in script: `FILE@3` is `FILE` and 3. Without `@`
/// the weight is 1.
///
/// # Errors
/// What is behind the last `@` is no number from 0 to 2,147,483,647, or nothing is in front of it.
pub fn parse_weighted(text: &str) -> Result<(&str, u32)> {
    let Some((name, weight)) = text.rsplit_once('@') else { return Ok((text, 1)) };
    let weight = weight.parse().ok().filter(|weight| *weight <= i32::MAX as u32);
    match weight {
        Some(weight) if !name.is_empty() => Ok((name, weight)),
        _ => Err(Error::new(format!(
            "\"{}\" is no script with a weight: NAME@WEIGHT, and the weight a number from 0 to {}",
            shortened(text),
            i32::MAX
        ))),
    }
}

/// Scripts of which each run takes one, at random by their weights.
#[derive(Clone, Debug)]
pub struct Mix {
    pub(super) scripts: Vec<(Script, u32)>,
}

impl Mix {
    /// A script of weight 0 is never run.
    ///
    /// # Errors
    /// There is none that would ever run.
    pub fn new(scripts: Vec<(Script, u32)>) -> Result<Mix> {
        if scripts.iter().all(|(_, weight)| *weight == 0) {
            return Err(Error::new("there is no script to run: the sum of the weights is 0"));
        }
        Ok(Mix { scripts })
    }

    /// Why there is no pipelined form of it, where there is none: how the line goes on that names
    /// it.
    pub fn why_not_pipelined(&self, protocol: Protocol) -> Option<&'static str> {
        match protocol {
            Protocol::Simple => Some("goes by the simple protocol, which has no pipelines"),
            _ if self.has_pipelines() => Some("has pipelines of its own"),
            _ if self.statements_per_run() == Some(1) => Some("has one statement"),
            _ => None,
        }
    }

    /// Whether one of its scripts says itself what is pipelined.
    pub fn has_pipelines(&self) -> bool {
        let mut steps = self.scripts.iter().flat_map(|(script, _)| &script.steps);
        steps.any(|step| step.action == Action::StartPipeline)
    }

    /// How many statements each run sends, whichever script it takes; None if that depends.
    pub fn statements_per_run(&self) -> Option<u32> {
        let running = self.scripts.iter().filter(|(_, weight)| *weight > 0);
        let mut counts = running.map(|(script, _)| script.statements_per_run());
        let first = counts.next()??;
        counts.all(|count| count == Some(first)).then_some(first)
    }
}

/// One script, with nothing to choose.
impl From<Script> for Mix {
    fn from(script: Script) -> Mix {
        Mix { scripts: vec![(script, 1)] }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::plan::{Plan, Settings};
    use super::super::random::Random;
    use super::*;

    #[test]
    fn a_built_in_script_is_found_by_a_beginning_that_fits_no_other() {
        for (name, found) in
            [("t", "tpcb-like"), ("si", "simple-update"), ("select-only", "select-only")]
        {
            assert_eq!(builtin(name).unwrap().name(), found);
        }
        let error = builtin("s").unwrap_err().to_string();
        assert_eq!(
            error,
            "\"s\" is the beginning of simple-update and select-only: write more of it"
        );
        let error = builtin("tpc-c").unwrap_err().to_string();
        assert!(error.ends_with("the built-in scripts are tpcb-like, simple-update, select-only"));
    }

    #[test]
    fn the_statements_of_a_run_are_counted_where_they_are_always_the_same() {
        let count = |name| builtin(name).unwrap().statements_per_run();
        assert_eq!(
            ["tpcb-like", "simple-update", "select-only"].map(count),
            [Some(7), Some(5), Some(1)]
        );
        let branching = Script::parse("x", "\\if 1\nselect 1;\n\\endif").unwrap();
        assert_eq!(branching.statements_per_run(), None);
        let both = |weight| {
            Mix::new(vec![(builtin("sel").unwrap(), 1), (builtin("t").unwrap(), weight)]).unwrap()
        };
        assert_eq!([both(0), both(1)].map(|mix| mix.statements_per_run()), [Some(1), None]);
    }

    #[test]
    fn a_weight_stands_behind_the_last_at_sign() {
        assert_eq!(parse_weighted("a.sql").unwrap(), ("a.sql", 1));
        assert_eq!(parse_weighted("a@b.sql@10").unwrap(), ("a@b.sql", 10));
        assert_eq!(parse_weighted("a@0").unwrap(), ("a", 0));
        for wrong in ["a@", "a@x", "a@-1", "a@2147483648", "@1", "a@b.sql"] {
            assert!(parse_weighted(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn scripts_that_would_never_run_are_refused() {
        assert!(Mix::new(vec![]).is_err());
        assert!(Mix::new(vec![(builtin("t").unwrap(), 0)]).is_err());
        assert!(Script::parse("empty.sql", "-- nothing").is_err());
    }

    #[test]
    fn an_error_names_script_and_line() {
        let error = Script::parse("a.sql", "select 1;\n\\set x 1 +\n").unwrap_err().to_string();
        assert_eq!(error, "a.sql:2: \\set: syntax error at the end of the expression");
    }

    #[test]
    fn no_script_makes_the_parser_panic_and_each_error_is_one_line() {
        const PARTS: [&str; 32] = [
            "select 1",
            ";",
            "\n",
            "\\",
            "'",
            "\"",
            "$$",
            "$a$",
            "--",
            "/*",
            "*/",
            "(",
            ")",
            ":a",
            "::",
            "\\set a ",
            "1 + ",
            "random(1, 2)",
            "\\if ",
            "\\elif 1",
            "\\else",
            "\\endif",
            "\\gset",
            "\\startpipeline",
            "\\endpipeline",
            "\\sleep ",
            "ä",
            "e'",
            "\r\n",
            "begin",
            "create function ",
            " ",
        ];
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let mut random = Random::new(seed);
        for _ in 0..50_000 {
            let part = |_| PARTS[random.up_to(PARTS.len() as u64 - 1) as usize];
            let text: String = (0..12).map(part).collect();
            let parsed = Script::parse("x", &text);
            let planned = parsed.and_then(|script| Plan::new(&script.into(), Settings::default()));
            if let Err(error) = planned {
                assert!(!error.to_string().contains('\n'), "{text:?}: {error}");
            }
        }
    }

    #[test]
    fn a_long_script_is_read_in_one_pass() {
        let text = "\\set a 1\nselect :a;\n".repeat(100_000);
        let script = Script::parse("long.sql", &text).unwrap();
        assert_eq!(script.statements_per_run(), Some(100_000));
        assert_eq!(script.steps[199_999].line, 200_000);
        let deep = format!("{}{}", "\\if 1\n".repeat(50_000), "\\endif\n".repeat(50_000));
        assert_eq!(Script::parse("deep.sql", &deep).unwrap().steps.len(), 50_000);
        let open = format!("select {}", "(".repeat(1_000_000));
        let error = Script::parse("open.sql", &open).unwrap_err().to_string();
        assert_eq!(error, "open.sql:1: a parenthesis that is not closed");
    }
}
