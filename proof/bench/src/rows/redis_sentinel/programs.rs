//! What writes: the clients for Node and Python, and their peers.

use std::process::Command;

use anyhow::Context;

use super::NAME;
use crate::progress::Progress;
use crate::rows::node::setup::said;
use crate::rows::pauses::{NODE, PYTHON};
use crate::rows::{node, python};

/// A client, and how to start one of its programs.
pub struct Program {
    pub name: &'static str,
    pub start: fn(&str) -> Command,
}

/// Those that can run here.
#[derive(Default)]
pub struct Programs {
    /// Of each language of ours.
    pub ours: Vec<Program>,
    pub peers: Vec<Program>,
    /// The languages of ours that are missing, and why.
    pub missing: Vec<(&'static str, String)>,
}

impl Programs {
    pub fn find(progress: &Progress) -> Programs {
        let mut found = Programs::default();
        for (name, peer, is_there, start) in [
            (NODE, "ioredis", node::setup::prepare(), of_node as fn(&str) -> Command),
            (PYTHON, "redis_py", python::setup::prepare(), of_python),
        ] {
            match is_there {
                Ok(()) => found.peers.push(Program { name: peer, start }),
                Err(error) => {
                    progress.say(&format!("{NAME} without {peer}: {error:#}"));
                    found.missing.push((name, format!("{error:#}")));
                    continue;
                }
            }
            // A client that takes no URL of Sentinels says so at once.
            match said(start("writer").arg("--check")).context("it knows no Sentinels") {
                Ok(_) => found.ours.push(Program { name, start }),
                Err(error) => found.missing.push((name, error.to_string())),
            }
        }
        found
    }
}

fn of_node(name: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(node::setup::directory().join(format!("sentinel/{name}.js")));
    command
}

fn of_python(name: &str) -> Command {
    let mut command = python::setup::python();
    command.arg(python::setup::directory().join(format!("sentinel/{name}.py")));
    command
}
