//! Makes steps from the pieces of a script: finds the statement of a `\gset` and the branches of an
//! `\if`, and checks that pipelines begin and end.

use super::command::{Command, Length, Store};
use super::expr::Expression;
use super::names::Names;
use super::split::{Piece, PieceKind, split};
use super::statement::StatementText;

/// The action of one step of a script.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step<S = Source> {
    pub(super) line: usize,
    pub(super) action: Action<S>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action<S = Source> {
    Statement(S),
    Set {
        variable: usize,
        value: Expression,
    },
    Sleep {
        length: Length,
        unit_us: u64,
    },
    /// Jumps to another step unless the condition holds.
    Unless {
        condition: Expression,
        to: usize,
    },
    Jump(usize),
    StartPipeline,
    SyncPipeline,
    EndPipeline,
}

/// A statement, and the use of its result.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Source {
    pub(super) text: StatementText,
    pub(super) store: Option<Store>,
}

/// Parses a script.
///
/// # Errors
/// A line, and what is wrong there.
pub(super) fn parse(text: &str, names: &mut Names) -> Result<Vec<Step>, (usize, String)> {
    let mut parser = Parser { names, steps: Vec::new(), open: Vec::new() };
    for Piece { line, kind } in split(text)? {
        parser.piece(line, kind).map_err(|what| (line, what))?;
    }
    if let Some(open) = parser.open.last() {
        return Err((open.line, "\\if without \\endif".into()));
    }
    check_pipelines(&parser.steps)?;
    Ok(parser.steps)
}

struct Parser<'a> {
    names: &'a mut Names,
    steps: Vec<Step>,
    open: Vec<Branches>,
}

/// An `\if` that has no `\endif` yet.
struct Branches {
    line: usize,
    /// The step that tests for the next branch; `None` after `\else`.
    unless: Option<usize>,
    /// The steps that leave a branch at its end.
    ends: Vec<usize>,
}

impl Parser<'_> {
    fn piece(&mut self, line: usize, kind: PieceKind) -> Result<(), String> {
        let command = match kind {
            PieceKind::Statement(text) => {
                self.push(line, Action::Statement(Source { text, store: None }));
                return Ok(());
            }
            PieceKind::Command { name, arguments } => {
                Command::parse(&name, &arguments, self.names)?
            }
        };
        match command {
            Command::Set { variable, value } => self.push(line, Action::Set { variable, value }),
            Command::Sleep { length, unit_us } => {
                self.push(line, Action::Sleep { length, unit_us });
            }
            Command::StartPipeline => self.push(line, Action::StartPipeline),
            Command::SyncPipeline => self.push(line, Action::SyncPipeline),
            Command::EndPipeline => self.push(line, Action::EndPipeline),
            Command::Store(store) => return self.store(store),
            Command::If(condition) => {
                let unless = Some(self.steps.len());
                self.open.push(Branches { line, unless, ends: Vec::new() });
                self.push(line, Action::Unless { condition, to: 0 });
            }
            Command::Elif(condition) => {
                self.next_branch(line, "\\elif")?;
                self.open.last_mut().ok_or(OUTSIDE)?.unless = Some(self.steps.len());
                self.push(line, Action::Unless { condition, to: 0 });
            }
            Command::Else => self.next_branch(line, "\\else")?,
            Command::Endif => {
                let branches = self.open.pop().ok_or("\\endif without \\if")?;
                let here = self.steps.len();
                self.enter(branches.unless, here);
                branches.ends.iter().for_each(|end| self.steps[*end].action = Action::Jump(here));
            }
        }
        Ok(())
    }

    fn push(&mut self, line: usize, action: Action) {
        self.steps.push(Step { line, action });
    }

    /// Ends a branch, and makes the condition before it jump to here.
    fn next_branch(&mut self, line: usize, name: &str) -> Result<(), String> {
        let end = self.steps.len();
        let branches = self.open.last_mut().ok_or_else(|| format!("{name} without \\if"))?;
        let unless = branches.unless.take().ok_or_else(|| format!("{name} behind \\else"))?;
        branches.ends.push(end);
        self.push(line, Action::Jump(0));
        self.enter(Some(unless), end + 1);
        Ok(())
    }

    fn enter(&mut self, unless: Option<usize>, here: usize) {
        if let Some(Action::Unless { to, .. }) =
            unless.and_then(|at| self.steps.get_mut(at)).map(|step| &mut step.action)
        {
            *to = here;
        }
    }

    fn store(&mut self, store: Store) -> Result<(), String> {
        let name = if store.all { "\\aset" } else { "\\gset" };
        match self.steps.last_mut().map(|step| &mut step.action) {
            Some(Action::Statement(source)) if source.store.is_none() => {
                source.store = Some(store);
                Ok(())
            }
            _ => Err(format!("{name} must stand behind a statement")),
        }
    }
}

const OUTSIDE: &str = "\\elif without \\if";

/// Where there are no branches, what would fail while running is said at once.
fn check_pipelines(steps: &[Step]) -> Result<(), (usize, String)> {
    if steps.iter().any(|step| matches!(step.action, Action::Unless { .. })) {
        return Ok(());
    }
    let mut begun = None;
    for Step { line, action } in steps {
        let (inside, what) = (begun.is_some(), |what: &str| Err((*line, what.to_owned())));
        match action {
            Action::StartPipeline if inside => return what(ALREADY_IN_PIPELINE),
            Action::SyncPipeline | Action::EndPipeline if !inside => return what(NOT_IN_PIPELINE),
            Action::Statement(Source { store: Some(_), .. }) if inside => return what(NO_RESULTS),
            Action::StartPipeline => begun = Some(*line),
            Action::EndPipeline => begun = None,
            _ => {}
        }
    }
    match begun {
        Some(line) => Err((line, OPEN_PIPELINE.into())),
        None => Ok(()),
    }
}

pub(super) const ALREADY_IN_PIPELINE: &str = "\\startpipeline inside of a pipeline";
pub(super) const NOT_IN_PIPELINE: &str = "not in a pipeline: \\startpipeline begins one";
pub(super) const NO_RESULTS: &str = "\\gset and \\aset are not possible inside of a pipeline, where \
                                     results come at its end only";
pub(super) const OPEN_PIPELINE: &str =
    "the script ends inside of a pipeline: \\endpipeline is missing";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Vec<Step> {
        parse(text, &mut Names::default()).unwrap()
    }

    fn error(text: &str) -> (usize, String) {
        parse(text, &mut Names::default()).unwrap_err()
    }

    #[test]
    fn branches_become_jumps() {
        let steps = steps("\\if 1\na;\n\\elif 2\nb;\n\\else\nc;\n\\endif\nd;");
        let jumps: Vec<Option<usize>> = steps
            .iter()
            .map(|step| match step.action {
                Action::Unless { to, .. } | Action::Jump(to) => Some(to),
                _ => None,
            })
            .collect();
        // 0 if, 1 a, 2 end, 3 elif, 4 b, 5 end, 6 c, 7 d
        let wanted = [Some(3), None, Some(7), Some(6), None, Some(7), None, None];
        assert_eq!(jumps, wanted);
    }

    #[test]
    fn branches_that_do_not_match_are_errors_with_their_line() {
        assert_eq!(error("\n\\if 1\n\\if 2\n\\endif").0, 2);
        for text in ["\\else", "\\elif 1", "\\endif", "\\if 1\n\\else\n\\else\n\\endif"] {
            assert!(error(text).1.contains("\\e"), "{text}");
        }
        assert_eq!(error("\\if 1\n\\else\n\\elif 1\n\\endif"), (3, "\\elif behind \\else".into()));
    }

    #[test]
    fn a_result_is_stored_of_a_statement_only() {
        let stored = steps("select 1 as a \\gset x_\nselect 2; \\aset");
        assert!(stored.iter().all(
            |step| matches!(&step.action, Action::Statement(source) if source.store.is_some())
        ));
        assert_eq!(error("\\gset").0, 1);
        assert_eq!(error("select 1 \\gset\n\\gset").0, 2);
    }

    #[test]
    fn pipelines_that_do_not_match_are_errors() {
        assert_eq!(error("select 1;\n\\endpipeline").0, 2);
        assert_eq!(error("\\syncpipeline").1, NOT_IN_PIPELINE);
        assert_eq!(error("\\startpipeline\nselect 1;"), (1, OPEN_PIPELINE.into()));
        assert_eq!(error("\\startpipeline\n\\startpipeline\n\\endpipeline").0, 2);
        assert_eq!(error("\\startpipeline\nselect 1 \\gset\n\\endpipeline").1, NO_RESULTS);
        assert_eq!(steps("\\startpipeline\n\\syncpipeline\n\\endpipeline").len(), 3);
    }
}
