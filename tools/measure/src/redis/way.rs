//! The measured commands, and the ways to send them.

use crate::results::Unit;

/// One way to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// One command, awaited before the next.
    Command(Verb),
    /// This many calls of one task before the first is awaited, which pipelines them automatically.
    Depth(Verb, u32),
    /// The experiment of Redis' documentation: [`PINGS`], one by one or as one pipeline.
    Pings {
        /// Whether they are one pipeline.
        is_pipeline: bool,
    },
    /// A value that is read, changed and written.
    Update(Update),
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// PING.
    Ping,
    /// GET of a value of 64 bytes.
    Get,
    /// SET of a value of 64 bytes.
    Set,
    /// INCR of a counter.
    Incr,
}

/// How a value is read, changed and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// GET, then SET: a change made by another client in between is lost.
    GetSet,
    /// WATCH and GET in one trip, MULTI, SET and EXEC in another: a change made in between is
    /// detected.
    Watch,
    /// A script on the server.
    Script,
    /// A pipeline of GETs, and then one of SETs.
    Pipelines,
    /// A pipeline of calls of the script.
    Scripts,
}

/// The workloads, for `--workload`.
pub const WORKLOADS: [&str; 4] = ["commands", "depth", "pings", "update"];

/// Depths, unless others are asked for.
pub const DEPTHS: [u32; 5] = [1, 10, 100, 1_000, 10_000];

/// PINGs of the experiment.
pub const PINGS: u32 = 10_000;

/// The figures of Redis' documentation, in milliseconds: one by one, and pipelined ("Using
/// pipelining to speedup Redis queries", <https://redis.io/docs/latest/develop/use/pipelining/>: a
/// Ruby client over loopback).
pub(crate) const PUBLISHED_MS: [f64; 2] = [1_185.0, 251.0];

/// Values that are changed at once.
pub(super) const AT_ONCE: u32 = 100;

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 4] = [Verb::Ping, Verb::Get, Verb::Set, Verb::Incr];

    /// The name of the command.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Ping => "PING",
            Verb::Get => "GET",
            Verb::Set => "SET",
            Verb::Incr => "INCR",
        }
    }
}

impl Update {
    /// All of them.
    pub const ALL: [Update; 5] =
        [Update::GetSet, Update::Watch, Update::Script, Update::Pipelines, Update::Scripts];

    fn name(self) -> &'static str {
        match self {
            Update::GetSet => "GET then SET",
            Update::Watch => "WATCH and MULTI",
            Update::Script => "script",
            Update::Pipelines => "100 GETs then 100 SETs",
            Update::Scripts => "100 scripts at once",
        }
    }
}

impl Way {
    /// All ways of a workload, at these depths.
    pub fn of(workload: &str, depths: &[u32]) -> Vec<Way> {
        let at = |verb: Verb| depths.iter().map(move |depth| Way::Depth(verb, *depth));
        match workload {
            "commands" => Verb::ALL.map(Way::Command).into(),
            "depth" => Verb::ALL.into_iter().flat_map(at).collect(),
            "pings" => [false, true].map(|is_pipeline| Way::Pings { is_pipeline }).into(),
            "update" => Update::ALL.map(Way::Update).into(),
            _ => Vec::new(),
        }
    }

    /// Its workload and mode, as the results name them.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Way::Command(verb) => ("commands", verb.name()),
            Way::Depth(verb, _) => ("depth", verb.name()),
            Way::Pings { is_pipeline: false } => ("pings", "one by one"),
            Way::Pings { is_pipeline: true } => ("pings", "pipeline"),
            Way::Update(update) => ("update", update.name()),
        }
    }

    /// What its operations are.
    pub fn unit(self) -> Unit {
        match self {
            Way::Update(_) => Unit::Update,
            _ => Unit::Command,
        }
    }

    /// How many commands are in flight, if that is the parameter.
    pub fn depth(self) -> Option<u32> {
        match self {
            Way::Depth(_, depth) => Some(depth),
            _ => None,
        }
    }

    /// How many operations a call does at once.
    pub fn operations_per_call(self) -> u64 {
        match self {
            Way::Depth(_, depth) => depth.into(),
            Way::Pings { is_pipeline: true } => PINGS.into(),
            Way::Update(Update::Pipelines | Update::Scripts) => AT_ONCE.into(),
            _ => 1,
        }
    }

    /// Whether it has a connection of its own.
    pub(crate) fn has_session(self) -> bool {
        matches!(self, Way::Update(Update::Watch))
    }

    /// The number of operations of a repetition, if the workload fixes it.
    pub fn operations(self) -> Option<u64> {
        matches!(self, Way::Pings { .. }).then_some(PINGS.into())
    }

    /// Whether it is measured with this round trip added. The PINGs one by one are not: each added
    /// millisecond would cost ten seconds.
    pub fn bears(self, rtt_added_ms: f64) -> bool {
        rtt_added_ms == 0.0 || !matches!(self, Way::Pings { .. })
    }
}
