//! The connect plan as the host holds it: numbers for actions and faults, texts for messages.

use std::time::Duration;

use onetrip_engine::Time;
use onetrip_engine::memory::is_there;
use onetrip_postgres::client::connect::keywords::{NEGOTIATIONS, ORDERS, SSL_MODES, TARGETS};
use onetrip_postgres::client::connect::{
    Action, Fault, Host, LoadBalanceHosts, Plan, Refusal, Session, Settings, SslMode,
    SslNegotiation, TargetSessionAttrs,
};
use onetrip_postgres::client::identity::{Identity, Lineage};
use onetrip_postgres::message::ssl_request::Answer;

use crate::settings::{flag, number, pairs};

/// What the host must do next.
pub mod action {
    /// Look up the name of the host.
    pub const RESOLVE: u32 = 1;
    /// Open a socket to an address of the host, and close the one before it.
    pub const DIAL: u32 = 2;
    /// Ask for TLS and read one byte.
    pub const ASK_FOR_TLS: u32 = 3;
    /// Do the TLS handshake.
    pub const BEGIN_TLS: u32 = 4;
    /// Log in.
    pub const LOG_IN: u32 = 5;
    /// Nothing: the connection can be used.
    pub const DONE: u32 = 6;
    /// Nothing: no connection could be made.
    pub const FAILED: u32 = 7;
    /// Ask the server which it is.
    pub const IDENTIFY: u32 = 8;
}

/// What happened.
pub mod event {
    /// The lookup found this many addresses.
    pub const RESOLVED: u32 = 1;
    /// The socket is connected.
    pub const CONNECTED: u32 = 2;
    /// The byte that answers the request for TLS, plus [`EARLY`] where it applies.
    pub const ANSWERED: u32 = 3;
    /// The TLS handshake has succeeded.
    pub const SECURED: u32 = 4;
    /// More bytes than the answer have arrived.
    pub const EARLY: u32 = 256;
}

/// What went wrong.
pub mod fault {
    /// No connection could be made to the address.
    pub const UNREACHABLE: u32 = 1;
    /// The TLS handshake failed.
    pub const HANDSHAKE: u32 = 2;
    /// The server refused the login. [`SESSION`] if it had taken that before.
    pub const LOG_IN: u32 = 3;
    /// Any other fault of this server.
    pub const SERVER: u32 = 4;
    /// A fault of the client, which would be the same for all servers.
    pub const OURS: u32 = 5;
    /// The address did not answer in time.
    pub const LATE: u32 = 6;
    /// The server took the login, and refused the session: `CLOSED` of the connection says so.
    pub const SESSION: u32 = 7;
}

/// One plan.
#[derive(Debug)]
pub struct Connect {
    plan: Plan,
    /// The text of the last refusal, or of the error in the end.
    said: String,
}

impl Connect {
    /// `None` if the settings are invalid, or there is no memory for them.
    pub fn new(now: Time, settings: &[u8], seed: u64, lineage: &Lineage) -> Option<Connect> {
        if !is_there(PER_LETTER * settings.len()) {
            return None;
        }
        let mut plan = Settings {
            hosts: Vec::new(),
            sslmode: SslMode::Prefer,
            sslnegotiation: SslNegotiation::Postgres,
            target_session_attrs: TargetSessionAttrs::Any,
            identifies: true,
            scouts: false,
            load_balance_hosts: LoadBalanceHosts::Disable,
            connect_timeout: None,
            seed,
        };
        for (name, value) in pairs(settings).ok()? {
            set(&mut plan, name, value)?;
        }
        Some(Connect { plan: Plan::new(now, plan, lineage), said: String::new() })
    }

    /// When the action must be given up as late.
    pub fn deadline(&self) -> Time {
        self.plan.deadline()
    }

    /// The text of the last refusal, or of the error in the end.
    pub fn said(&self) -> &str {
        &self.said
    }

    /// The number of the action, the host and the address.
    pub fn action(&self) -> (u32, usize, usize) {
        match self.plan.action() {
            Action::Resolve(host) => (action::RESOLVE, host, 0),
            Action::Dial { host, address } => (action::DIAL, host, address),
            Action::AskForTls => (action::ASK_FOR_TLS, 0, 0),
            Action::BeginTls => (action::BEGIN_TLS, 0, 0),
            Action::LogIn => (action::LOG_IN, 0, 0),
            Action::Identify => (action::IDENTIFY, 0, 0),
            Action::Done => (action::DONE, 0, 0),
            Action::Failed => (action::FAILED, 0, 0),
        }
    }

    /// Reports an event. Returns whether to go on with the server. If not, `said` has the error's
    /// code, a zero byte and its text.
    pub fn happened(&mut self, now: Time, what: u32, a: u32) -> bool {
        let plan = &mut self.plan;
        let refused = match what {
            event::RESOLVED => {
                plan.handle_resolved(now, a.min(ADDRESSES_MAX) as usize);
                None
            }
            event::CONNECTED => {
                plan.handle_connected();
                None
            }
            event::ANSWERED => {
                let answer = Answer::from_byte(a as u8);
                plan.handle_answer(answer, a & event::EARLY != 0).err()
            }
            event::SECURED => {
                plan.handle_secured();
                None
            }
            _ => None,
        };
        self.is_accepted(refused)
    }

    /// The login is over, and the server said this of its session. Returns as above.
    pub fn logged_in(&mut self, session: Session, lineage: &mut Lineage) -> bool {
        let refused = self.plan.handle_logged_in(session, lineage).err();
        self.is_accepted(refused)
    }

    /// The server has said which it is, if it did. Returns as above.
    pub fn identified(&mut self, server: Option<Identity>, lineage: &mut Lineage) -> bool {
        let refused = self.plan.handle_identified(server, lineage).err();
        self.is_accepted(refused)
    }

    fn is_accepted(&mut self, refused: Option<Refusal>) -> bool {
        if let Some(refusal) = refused {
            self.said = [refusal.code(), "\0", refusal.text()].concat();
        }
        refused.is_none()
    }

    /// Reports a fault. `text` is the error as the caller would get it. For a server's error at the
    /// login, the five letters of its code come first.
    pub fn failed(&mut self, now: Time, what: u32, text: &[u8], lineage: &mut Lineage) {
        // The plan keeps a copy, and the final text includes all of them.
        let text = if is_there(4 * text.len()) { text } else { b"" };
        let text = String::from_utf8_lossy(text);
        let (code, behind) = text.split_at_checked(5).unwrap_or(("", &text));
        let (fault, text) = match what {
            fault::UNREACHABLE => (Fault::Unreachable, &*text),
            fault::LATE => (Fault::Late, &*text),
            fault::HANDSHAKE => (Fault::Handshake, &*text),
            fault::LOG_IN => (Fault::LogIn(code), behind),
            fault::SESSION => (Fault::Session(code), behind),
            fault::OURS => (Fault::Ours, &*text),
            _ => (Fault::Server, &*text),
        };
        self.plan.handle_failed(now, fault, text.to_owned(), lineage);
    }

    /// The index of the error that the caller gets, and whether several hosts failed. The text is
    /// in `said`.
    pub fn verdict(&mut self) -> Option<(usize, bool)> {
        let verdict = self.plan.verdict()?;
        self.said = verdict.text;
        Some((verdict.error, verdict.is_of_many))
    }
}

/// More bytes than a host takes in memory per letter of the setting.
const PER_LETTER: usize = 32;

/// More addresses than a name has.
const ADDRESSES_MAX: u32 = 1024;

fn set(plan: &mut Settings, name: &str, value: &str) -> Option<()> {
    match name {
        "hosts" => plan.hosts = value.bytes().map(host).collect::<Option<_>>()?,
        "connect_timeout_ms" => {
            let millis: u64 = number(name, value).ok()?;
            plan.connect_timeout = Some(millis).filter(|&it| it > 0).map(Duration::from_millis);
        }
        "sslmode" => plan.sslmode = word(SSL_MODES, &SslMode::ALL, value)?,
        "sslnegotiation" => {
            plan.sslnegotiation = word(NEGOTIATIONS, &SslNegotiation::ALL, value)?;
        }
        "target_session_attrs" => plan.target_session_attrs = target(value)?,
        "load_balance_hosts" => {
            plan.load_balance_hosts = word(ORDERS, &LoadBalanceHosts::ALL, value)?;
        }
        "scouts" => plan.scouts = flag(name, value).ok()?,
        _ => return None,
    }
    Some(())
}

pub(crate) fn target(word: &str) -> Option<TargetSessionAttrs> {
    self::word(TARGETS, &TargetSessionAttrs::ALL, word)
}

fn word<T: Copy>(words: &[&str], values: &[T], word: &str) -> Option<T> {
    values.get(words.iter().position(|it| *it == word)?).copied()
}

/// How a host is given: one letter for each.
fn host(letter: u8) -> Option<Host> {
    match letter {
        b'n' => Some(Host::Name),
        b'a' => Some(Host::Address),
        b's' => Some(Host::Socket),
        _ => None,
    }
}
