//! Two builds of this program in turns: each does a round when it is told to, so that what the
//! machine does meanwhile meets both. `against` tells them; this is what either side does.

use std::io::{BufRead, Write};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::progress::Progress;
use crate::stage::{Server, Stage};
use crate::{Plan, rows};

/// What a side says, a line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// A round is done, and so many are to be done.
    Round(usize, usize),
    /// The group is done.
    Figures(Vec<Figure>),
}

/// A row of one side, with the figures that can be compared with the other side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    pub unit: String,
    /// What each round came to, or all together.
    pub rounds: Vec<f64>,
    pub note: String,
}

/// The rows of a group, a round at a time.
pub fn run(group: &str, server: &[String], plan: Plan) -> Result<()> {
    let [server, database] = server else { anyhow::bail!("there is no server to run on") };
    let server: Server = serde_json::from_str(server).context("cannot read where the server is")?;
    let group = rows::all().find(|it| it.names[0] == group).context("there is no such group")?;
    let stage = Stage::set_on(&server, database)?;
    let rows = (group.run)(&stage, plan, &Progress::in_turns())?;
    let figures = rows.into_iter().map(|row| Figure {
        rounds: if row.rounds.is_empty() { vec![row.ours] } else { row.rounds },
        name: row.name,
        unit: row.unit.to_owned(),
        note: row.note,
    });
    // JSON has no figure for what could not be measured.
    let measured = |it: &Figure| it.rounds.iter().all(|figure| figure.is_finite());
    say(&Said::Figures(figures.filter(measured).collect()));
    Ok(())
}

/// Tells that a round is done, and returns when the next may begin.
pub fn wait(done: usize, all: usize) {
    say(&Said::Round(done, all));
    let mut line = String::new();
    // Nobody asks for more: the other side has failed.
    if !matches!(std::io::stdin().lock().read_line(&mut line), Ok(1..)) {
        std::process::exit(1);
    }
}

fn say(what: &Said) {
    let line = serde_json::to_string(what).map_err(std::io::Error::from);
    if line.and_then(|line| writeln!(std::io::stdout(), "{line}")).is_err() {
        std::process::exit(1);
    }
}
