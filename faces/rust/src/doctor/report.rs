//! The text of a diagnosis, and what to do about it.

use std::fmt;

use super::advice::{Advice, Place};
use super::diagnosis::{Diagnosis, Finding, Names, Pooling, ROUND_TRIPS, Startup};
use super::path_report;

impl Diagnosis {
    /// The settings to change. Empty if none should be.
    pub fn advice(&self) -> Vec<Advice> {
        [
            self.on_statements(),
            self.on_pipelining(),
            self.on_transactions(),
            self.on_startup(),
            self.on_hosts.clone(),
        ]
        .concat()
    }

    fn on_statements(&self) -> Vec<Advice> {
        if !self.loses_statements() {
            return Vec::new();
        }
        vec![
            client(
                "prepare_threshold=0",
                "a statement that was prepared is unknown to the next connection",
            ),
            pooler(
                "max_prepared_statements=200",
                "instead of that, if it is PgBouncer 1.21 or newer: it then knows whose names are whose",
            ),
        ]
    }

    fn on_pipelining(&self) -> Vec<Advice> {
        let mut advice = Vec::new();
        if self.sends_ahead && !(self.many_syncs.holds() && self.failure_between.holds()) {
            advice.push(client(
                "one_segment=1",
                "what is sent behind a sync point is not answered in order and completely; each statement then \
                 waits for the one before it on its connection",
            ));
        }
        let flushes = self.flush.holds();
        if !self.one_sync.holds() || !flushes {
            advice.push(client(
                "no pipelines",
                "statements that share a sync point are not answered as they should be, and no setting of \
                 this client mends that",
            ));
        } else if self.sends_ahead && self.pipelining() && !self.flush_behind_sync.holds() {
            advice.push(client(
                "one_segment=1",
                "the server is given away at the first sync point that is answered, and the replies to what was \
                 sent behind it are lost or go astray",
            ));
            advice.push(pooler(
                "PgBouncer 1.21 or newer",
                "instead of that: it waits for the end of all that was sent, so nothing has to wait here",
            ));
        }
        advice
    }

    fn on_transactions(&self) -> Vec<Advice> {
        match self.pooling {
            Pooling::Statement => {
                vec![pooler("pool_mode=transaction", "transactions are refused in statement mode")]
            }
            Pooling::Transaction => vec![pooler(
                "pool_mode=session",
                "only for what needs SET, LISTEN, temporary tables or advisory locks, on a database of its own; \
                 or go around the pooler for that",
            )],
            Pooling::Direct | Pooling::Session => Vec::new(),
        }
    }

    fn on_startup(&self) -> Vec<Advice> {
        match self.options {
            Startup::Refused(_) => vec![pooler(
                "ignore_startup_parameters=options",
                "only if the configuration has options: they are dropped then, so make them settings of the \
                 role (ALTER ROLE … SET …)",
            )],
            Startup::Ignored => vec![client(
                "no options",
                "they are dropped silently: make them settings of the role (ALTER ROLE … SET …)",
            )],
            Startup::Taken => Vec::new(),
        }
    }
}

fn client(setting: &'static str, why: &'static str) -> Advice {
    Advice { place: Place::Client, setting, why }
}

fn pooler(setting: &'static str, why: &'static str) -> Advice {
    Advice { place: Place::Pooler, setting, why }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trip_ms = self.round_trip.as_secs_f64() * 1e3;
        path_report::write(&self.hosts, f)?;
        writeln!(f, "server            PostgreSQL {}", self.server_version)?;
        writeln!(f, "in between        {}", self.pooling)?;
        writeln!(f, "one sync point    {}", self.one_sync)?;
        writeln!(f, "many sync points  {}", self.many_syncs)?;
        writeln!(f, "a failure among   {}", self.failure_between)?;
        writeln!(f, "flush             {}", self.flush)?;
        writeln!(f, "flush behind sync {}", self.flush_behind_sync)?;
        writeln!(f, "prepared names    {}", self.prepared)?;
        writeln!(f, "session state     {}", session_state(self.session_state()))?;
        writeln!(f, "notifications     {}", self.notifications)?;
        writeln!(f, "startup options   {}", self.options)?;
        writeln!(f, "cancel            {}", self.cancel)?;
        writeln!(
            f,
            "round trip        {trip_ms:.2} ms, the median of {ROUND_TRIPS}: {}",
            gain(trip_ms)
        )?;
        write!(f, "harmful           {}", if self.is_harmful() { "yes" } else { "no" })?;
        for Advice { place, setting, why } in self.advice() {
            write!(f, "\n{place:<17} {setting}: {why}")?;
        }
        for one in &self.slow_neighbours {
            let (text, longest) = (one_line(&one.text), one.longest.as_millis());
            write!(
                f,
                "\nslow neighbour    {} statements waited for up to {longest} ms behind: {text}",
                one.statements
            )?;
        }
        for one in &self.slow_at_times {
            let (text, longest) = (one_line(&one.text), one.longest.as_millis());
            let usual = one.usual.as_secs_f64() * 1e3;
            write!(
                f,
                "\nslow at times     {usual:.1} ms as a rule, {longest} ms at worst: run it alone \
                 (docs/concepts/slow-neighbours.md): {text}"
            )?;
        }
        Ok(())
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a round trip for each of many statements costs.
fn gain(trip_ms: f64) -> String {
    format!(
        "100 statements wait {:.0} ms one after the other, and {trip_ms:.2} ms together",
        100.0 * trip_ms
    )
}

fn session_state(is_kept: bool) -> &'static str {
    match is_kept {
        true => "kept",
        false => "lost after each transaction: SET, LISTEN, temporary tables, advisory locks",
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Holds => f.write_str("as it should be"),
            Finding::Hangs => f.write_str("no answer within 5 s"),
            Finding::Differs(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pooling::Direct => "nothing that shows",
            Pooling::Session => "a pooler that keeps a server connection for each client",
            Pooling::Transaction => "a pooler that gives each transaction any server connection",
            Pooling::Statement => "a pooler that gives each statement any server connection",
        })
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Names::Kept => "kept",
            Names::Followed => "known on each server connection: the pooler sees to it",
            Names::Lost => "lost when the server connection changes",
            Names::Untested => "not tested: the pooler has one server connection",
        })
    }
}

impl fmt::Display for Startup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Startup::Taken => f.write_str("taken"),
            Startup::Ignored => f.write_str("dropped silently"),
            Startup::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}
