//! The plan of how a client comes to a server. The host has sockets and TLS.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use onetrip_engine::{Outcome, Retry, RetryLimits, Time};
use onetrip_postgres::client::connect::keywords::{
    Form, KEYWORDS, NEGOTIATIONS, NOT_IN_PYTHON, Node, ORDERS, Row, SSL_MODES, SWITCH, TARGETS,
    UNSUPPORTED, lacking_in, says,
};
use onetrip_postgres::client::connect::{
    Action, Fault, Host, LoadBalanceHosts, Plan as Policy, Session, Settings, SslMode,
    SslNegotiation, TargetSessionAttrs,
};
use onetrip_postgres::client::connect::{passfile, service as file_of_services};
use onetrip_postgres::client::identity::{Identity, Lineage as Seen, QUESTION};
use onetrip_postgres::client::transaction::verdict::{Leaver, left};
use onetrip_postgres::message::may_mend;
use onetrip_postgres::message::ssl_request::Answer;
use pyo3::exceptions::PyTypeError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failure;
use crate::local::Local;

/// A plan.
#[pyclass(frozen, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct Plan {
    policy: Local<Policy>,
    lineage: Py<Lineage>,
    start: Instant,
}

fn word<T: Copy>(words: &[&str], values: &[T], word: &str) -> PyResult<T> {
    let found = words.iter().position(|it| *it == word).and_then(|at| values.get(at).copied());
    found.ok_or_else(|| PyValueError::new_err(format!("{word} is none of {}", words.join(", "))))
}

impl Plan {
    fn time(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    fn with_lineage<R>(&self, tell: impl FnOnce(&mut Policy, &mut Seen) -> R) -> PyResult<R> {
        let seen = &self.lineage.get().seen;
        Ok(seen.with(|seen| self.policy.with(|plan| tell(plan, seen)))??)
    }
}

/// The texts of the answer to the question which server it is.
type Texts = (String, String, String);

fn read((system, is_standby, timeline): &Texts) -> Option<Identity> {
    Identity::read(system, is_standby, timeline)
}

/// What a client has seen of servers.
#[pyclass(frozen, module = "onetrip._native")]
#[derive(Debug)]
pub(crate) struct Lineage {
    seen: Local<Seen>,
}

#[pymethods]
impl Lineage {
    #[new]
    fn new() -> Lineage {
        Lineage { seen: Local::new(Seen::default()) }
    }

    /// The question which server it is.
    #[classattr]
    #[pyo3(name = "QUESTION")]
    fn question() -> &'static str {
        QUESTION
    }

    /// Why a server with this answer must not be used any more: what stands behind its name.
    fn refuses(&self, row: Texts) -> PyResult<Option<&'static str>> {
        let refusal = self.seen.with(|seen| read(&row).and_then(|server| seen.refuses(server)))?;
        Ok(refusal.map(|refusal| refusal.text()))
    }
}

type Refused = Option<(&'static str, &'static str)>;

#[pymethods]
impl Plan {
    /// `hosts`: a letter for each: n a name, a an address, s a socket. `scouts`: it looks for
    /// another primary.
    #[new]
    fn new(
        hosts: &str,
        words: (String, String, String, String),
        connect_timeout: u64,
        seed: u64,
        lineage: Py<Lineage>,
        scouts: bool,
    ) -> PyResult<Plan> {
        let (sslmode, sslnegotiation, target, order) = words;
        let host = |letter| match letter {
            'n' => Host::Name,
            'a' => Host::Address,
            _ => Host::Socket,
        };
        let settings = Settings {
            hosts: hosts.chars().map(host).collect(),
            sslmode: word(SSL_MODES, &SslMode::ALL, &sslmode)?,
            sslnegotiation: word(NEGOTIATIONS, &SslNegotiation::ALL, &sslnegotiation)?,
            target_session_attrs: word(TARGETS, &TargetSessionAttrs::ALL, &target)?,
            load_balance_hosts: word(ORDERS, &LoadBalanceHosts::ALL, &order)?,
            connect_timeout: Some(connect_timeout).filter(|it| *it > 0).map(Duration::from_secs),
            seed,
            identifies: true,
            scouts,
        };
        let policy = lineage.get().seen.with(|seen| Policy::new(Time::ZERO, settings, seen))?;
        Ok(Plan { policy: Local::new(policy), lineage, start: Instant::now() })
    }

    /// What is next, the place of the host, and that of the address among those that were found.
    fn action(&self) -> PyResult<(&'static str, usize, usize)> {
        Ok(self.policy.with(|plan| match plan.action() {
            Action::Resolve(host) => ("resolve", host, 0),
            Action::Dial { host, address } => ("dial", host, address),
            Action::AskForTls => ("ask", 0, 0),
            Action::BeginTls => ("tls", 0, 0),
            Action::LogIn => ("login", 0, 0),
            Action::Identify => ("identify", 0, 0),
            Action::Done => ("done", 0, 0),
            Action::Failed => ("failed", 0, 0),
        })?)
    }

    /// Seconds until the action is given up as unreachable; None: never.
    fn left(&self) -> PyResult<Option<f64>> {
        let at = self.policy.with(|plan| plan.deadline())?;
        Ok((at != Time::NEVER).then(|| at.since(self.time()).as_secs_f64()))
    }

    fn resolved(&self, count: usize) -> PyResult<()> {
        let now = self.time();
        Ok(self.policy.with(|plan| plan.handle_resolved(now, count))?)
    }

    fn connected(&self) -> PyResult<()> {
        Ok(self.policy.with(Policy::handle_connected)?)
    }

    /// Why the server won't do, if it won't: a code, and what stands behind its name.
    fn answered(&self, byte: u8, early: bool) -> PyResult<Refused> {
        let refused =
            self.policy.with(|plan| plan.handle_answer(Answer::from_byte(byte), early))?;
        Ok(refused.err().map(|refusal| (refusal.code(), refusal.text())))
    }

    fn secured(&self) -> PyResult<()> {
        Ok(self.policy.with(Policy::handle_secured)?)
    }

    /// What the server reported of itself, by name.
    fn logged_in(&self, said: HashMap<String, String>) -> PyResult<Refused> {
        let mut session = Session::default();
        said.iter().for_each(|(name, value)| session.note(name, value));
        let refused = self.with_lineage(|plan, seen| plan.handle_logged_in(session, seen))?;
        Ok(refused.err().map(|refusal| (refusal.code(), refusal.text())))
    }

    /// The texts of the row that answers the question which server it is; none where it did not say.
    fn identified(&self, row: Option<Texts>) -> PyResult<Refused> {
        let server = row.as_ref().and_then(read);
        let refused = self.with_lineage(|plan, seen| plan.handle_identified(server, seen))?;
        Ok(refused.err().map(|refusal| (refusal.code(), refusal.text())))
    }

    /// `fault`: unreachable, late, handshake, login or
    /// session (then `code` is the SQLSTATE), server or ours.
    fn failed(&self, fault: &str, code: &str, text: String) -> PyResult<()> {
        let fault = match fault {
            "unreachable" => Fault::Unreachable,
            "late" => Fault::Late,
            "handshake" => Fault::Handshake,
            "login" => Fault::LogIn(code),
            "session" => Fault::Session(code),
            "ours" => Fault::Ours,
            _ => Fault::Server,
        };
        let now = self.time();
        self.with_lineage(|plan, seen| plan.handle_failed(now, fault, text, seen))
    }

    /// Nobody wants the connection any more.
    fn give_up(&self) -> PyResult<()> {
        Ok(self.policy.with(Policy::give_up)?)
    }

    /// Once all has failed: the place of the error among those that were told, its text, whether
    /// that is of several hosts, and whether it may pass.
    fn verdict(&self) -> PyResult<Option<(usize, String, bool, bool)>> {
        let verdict = self.policy.with(|plan| plan.verdict())?;
        Ok(verdict.map(|it| (it.error, it.text, it.is_of_many, it.may_pass)))
    }
}

/// Whether time may mend that a server refused a login so.
#[pyfunction]
pub(crate) fn is_mendable(code: &str, message: &str) -> bool {
    may_mend(code.as_bytes(), message.as_bytes())
}

/// Seconds that pass before a transaction is run again that has failed so often; none where it is
/// not. `attempts`: 0 for as many as by default.
#[pyfunction]
pub(crate) fn retry_pause(failures: u32, attempts: u32, seed: u64) -> Option<f64> {
    let mut limits = RetryLimits::default();
    if attempts > 0 {
        limits.attempts_max = attempts;
    }
    let mut retry = Retry::new(limits, seed);
    let mut pauses = (0..failures).map_while(|_| retry.failed());
    pauses.nth(failures.saturating_sub(1) as usize).map(|pause| pause.as_secs_f64())
}

/// What is said of a failure that leaves a transaction which was not committed, a savepoint that was
/// not kept, or a pipeline of which nothing is sent. `by`: `own` failure, `other`, `commit`. `has_left`: a part may have reached the server.
#[pyfunction]
pub(crate) fn outcome_left(outcome: &str, by: &str, has_left: bool) -> PyResult<&'static str> {
    let by = match by {
        "own" => Leaver::Own,
        "other" => Leaver::Other,
        "commit" => Leaver::Commit,
        _ => return Err(PyTypeError::new_err("nothing leaves so")),
    };
    Ok(failure::word(failure::number(left(of_word(outcome), by, has_left))))
}

fn of_word(outcome: &str) -> Outcome {
    match outcome {
        "NotSent" => Outcome::NotSent,
        "Rejected" => Outcome::Rejected,
        "Applied" => Outcome::Applied,
        _ => Outcome::Unknown,
    }
}

/// The keywords of configuration: name, environment variable, default.
#[pyfunction]
pub(crate) fn keywords() -> Vec<(&'static str, &'static str, &'static str)> {
    known().map(|row| (row.name, row.variable, row.default)).collect()
}

/// Variables that ask for what the package does not have: name, what is harmless, what it asks for.
#[pyfunction]
pub(crate) fn lacking() -> Vec<(&'static str, &'static str, &'static str)> {
    lacking_in(|row| !NOT_IN_PYTHON.contains(&row.keyword)).collect()
}

/// What the password file, as text, has for host, port, database and user.
#[pyfunction]
pub(crate) fn password_of(file: &str, wanted: (&str, &str, &str, &str)) -> Option<String> {
    passfile::password(file, wanted.into())
}

/// The lines of a service in its file, as text: number, keyword, value; none if it isn't there.
#[pyfunction]
pub(crate) fn service<'a>(
    file: &'a str,
    name: &str,
) -> PyResult<Option<Vec<file_of_services::Line<'a>>>> {
    file_of_services::settings(file, name).map_err(|why| PyValueError::new_err(why.to_string()))
}

fn known() -> impl Iterator<Item = &'static Row> {
    KEYWORDS.iter().filter(|row| !NOT_IN_PYTHON.contains(&row.keyword))
}

/// A setting as it is used, or a ValueError that says what is wrong with it.
#[pyfunction]
pub(crate) fn setting(name: &str, text: &str) -> PyResult<String> {
    let fail = |why: String| PyValueError::new_err(format!("onetrip: {why}"));
    if let Some((_, needs)) = UNSUPPORTED.iter().find(|row| row.0 == name) {
        return Err(fail(format!("{name}{}{needs}{}", says::NEEDS, says::LACKING)));
    }
    let Some(row) = known().find(|row| row.name == name) else {
        return Err(fail(format!("{}{name}", says::UNKNOWN)));
    };
    // What differs in Node does so by the ABI crate.
    let form = if let Node::As(form) = row.node { form } else { row.form };
    let least = match form {
        Form::Text if text.contains('\0') => {
            return Err(fail(format!("{name} has a zero byte in it")));
        }
        Form::Text => return Ok(text.to_owned()),
        Form::Words(words) if words.contains(&text) => return Ok(text.to_owned()),
        Form::Words(words) => {
            return Err(fail(format!("{name} {}{}", says::ONE_OF, words.join(", "))));
        }
        Form::Switch => {
            let at = SWITCH.iter().position(|word| *word == text.to_lowercase());
            let at =
                at.ok_or_else(|| fail(format!("{name} {}{}", says::ONE_OF, SWITCH.join(", "))))?;
            return Ok((at % 2).to_string());
        }
        Form::From(least) => least,
        Form::Limit => 0,
    };
    match text.parse::<u64>() {
        Ok(number) if number < least.into() => {
            Err(fail(format!("{name} {}{least}", says::AT_LEAST)))
        }
        // A socket takes no more, nor do the other languages.
        Ok(number) if form == Form::Limit && number > i32::MAX as u64 => {
            Err(fail(format!("{name} {}{}", says::AT_MOST, i32::MAX)))
        }
        Ok(number) => Ok(number.to_string()),
        Err(_) => Err(fail(format!("{name} {}", says::WHOLE))),
    }
}
