//! Both programs, and whose turn it is.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::Plan;
use crate::progress::Progress;
use crate::rows::Group;
use crate::stage::Server;
use crate::turns::{Figure, Said};

pub struct Builds<'a> {
    /// The new one first.
    pub programs: [&'a Path; 2],
    pub server: &'a Server,
    pub plan: Plan,
    pub progress: &'a Progress,
}

/// Of each, with its database.
const NAMES: [(&str, &str); 2] = [("new", "bench_new"), ("old", "bench_old")];

impl Builds<'_> {
    /// A round of each: new, old, old, new, …, until both have said their figures.
    pub fn in_turns(&self, group: &Group) -> Result<[Vec<Figure>; 2]> {
        let mut builds = [self.build(0, group)?, self.build(1, group)?];
        let mut order = [0, 1];
        loop {
            let mut said = [None, None];
            for side in order {
                let name = || format!("the {} build", NAMES[side].0);
                said[side] = Some(builds[side].turn().with_context(name)?);
            }
            match said {
                [Some(Said::Round(done, all)), Some(Said::Round(..))] => {
                    self.progress.tick(done, all);
                }
                [Some(Said::Figures(new)), Some(Said::Figures(old))] => return Ok([new, old]),
                _ => bail!("the two builds took a different number of rounds"),
            }
            order.reverse();
        }
    }

    fn build(&self, side: usize, group: &Group) -> Result<Build> {
        let mut command = Command::new(self.programs[side]);
        command
            .args(["--turns", group.names[0], "--rounds", &self.plan.rounds.to_string()])
            .args(["--server", &serde_json::to_string(self.server)?, NAMES[side].1])
            .args((self.plan.shorter > 1).then_some("--quick"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Ok(Build { command, running: None })
    }
}

/// One of the two programs, which begins with its first turn.
struct Build {
    command: Command,
    running: Option<Running>,
}

struct Running {
    child: Child,
    /// None once it is told to end.
    turns: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl Build {
    /// Lets it do a round, and hears how far it is.
    fn turn(&mut self) -> Result<Said> {
        const ENDED: &str = "it has ended, and says why above";
        let running = match &mut self.running {
            None => self.running.insert(Running::start(&mut self.command)?),
            Some(running) => {
                let turns = running.turns.as_mut().context(ENDED)?;
                writeln!(turns).context(ENDED)?;
                running
            }
        };
        let line = running.said.next().context(ENDED)??;
        serde_json::from_str(&line).with_context(|| format!("cannot read {line:?}"))
    }
}

impl Running {
    fn start(command: &mut Command) -> Result<Running> {
        let mut child = command.spawn().context("it cannot be started")?;
        let (turns, said) = (child.stdin.take(), child.stdout.take());
        let said = BufReader::new(said.context("it has no pipes")?).lines();
        Ok(Running { child, turns, said })
    }
}

impl Drop for Running {
    /// It has said its figures, or waits for a turn and ends when there are no more.
    fn drop(&mut self) {
        self.turns = None;
        let _ = self.child.wait();
    }
}
