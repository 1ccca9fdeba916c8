//! The way to a connection, step by step: the host asks for the next [`Action`], carries it out
//! within the deadline, and says what came of it. It keeps its errors in a list, in the order in
//! which it reports them, and the plan says in the end which of them the caller is given.

use std::time::Duration;

use onetrip_engine::Time;

use super::{
    LoadBalanceHosts, Refusal, Session, SslMode, SslNegotiation, TargetSessionAttrs, begins_tls,
    is_about_access, is_final,
};
use crate::message::ssl_request::Answer;

/// How one host of the list is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// By a name that has to be looked up.
    Name,
    /// By its address (`hostaddr`).
    Address,
    /// By a Unix socket, which is never encrypted.
    Socket,
}

/// What the plan follows from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers in their order.
    pub hosts: Vec<Host>,
    /// Whether they are spoken to by TLS.
    pub sslmode: SslMode,
    /// How TLS begins.
    pub sslnegotiation: SslNegotiation,
    /// Which of them will do.
    pub target_session_attrs: TargetSessionAttrs,
    /// Their order.
    pub load_balance_hosts: LoadBalanceHosts,
    /// Time for each address, its login included, and for each lookup; `None`: no limit.
    pub connect_timeout: Option<Duration>,
    /// What the random order follows from.
    pub seed: u64,
}

/// What the host does next. A host is meant by its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Looks the host's name up.
    Resolve(usize),
    /// Opens a socket to an address of the host, by its place in what the lookup found. It drops
    /// the one that it had.
    Dial {
        /// Whose address it is.
        host: usize,
        /// Its place; 0 where nothing had to be looked up.
        address: usize,
    },
    /// Asks the server whether it has TLS, and reads one byte.
    AskForTls,
    /// Does the handshake of TLS.
    BeginTls,
    /// Logs in.
    LogIn,
    /// Nothing: the connection can be used.
    Done,
    /// Nothing: there is no connection. See [`Plan::verdict`].
    Failed,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<'a> {
    /// Nobody answered at this address, or not in time; the host may have others.
    Unreachable,
    /// The handshake of TLS failed.
    Handshake,
    /// The server refused the login with this code.
    LogIn(&'a str),
    /// Anything else of this server.
    Server,
    /// A file of ours, say, which is the same for all servers.
    Ours,
}

/// Which error the caller is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The one that its kind and code are taken from, by its place in the host's list.
    pub error: usize,
    /// Its text, which has the other ones in it.
    pub text: String,
    /// Whether it tells of several hosts.
    pub is_of_many: bool,
}

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tls {
    Off,
    IfOffered,
    On,
}

impl Tls {
    fn name(self) -> &'static str {
        if self == Tls::Off { "without TLS" } else { "with TLS" }
    }
}

/// An error of the host's.
#[derive(Debug)]
struct Wrong {
    error: usize,
    text: String,
    is_final: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Plan {
    settings: Settings,
    /// The hosts in the order in which they are tried, and how far we are.
    hosts: Vec<usize>,
    at: usize,
    /// The same of this host's addresses.
    addresses: Vec<usize>,
    address: usize,
    /// "prefer-standby" is two rounds: a standby, and then whatever there is.
    wanted: TargetSessionAttrs,
    action: Action,
    deadline: Time,
    tls: Tls,
    /// What is tried on a new connection where this way fails.
    other_way: Option<Tls>,
    /// Why the first way failed, and which it was.
    first: Option<(Wrong, Tls)>,
    /// What was wrong with each host.
    wrong: Vec<Wrong>,
    errors: usize,
}

impl Plan {
    /// Begins with the first host.
    pub fn new(now: Time, settings: Settings) -> Plan {
        let wanted = match settings.target_session_attrs {
            TargetSessionAttrs::PreferStandby => TargetSessionAttrs::Standby,
            wanted => wanted,
        };
        let count = settings.hosts.len();
        let mut plan = Plan {
            settings,
            hosts: Vec::new(),
            at: 0,
            addresses: Vec::new(),
            address: 0,
            wanted,
            action: Action::Failed,
            deadline: Time::NEVER,
            tls: Tls::Off,
            other_way: None,
            first: None,
            wrong: Vec::new(),
            errors: 0,
        };
        plan.hosts = plan.order(count);
        plan.begin_host(now);
        plan
    }

    /// What to do next. It changes with each `handle_…`, and with nothing else.
    pub fn action(&self) -> Action {
        self.action
    }

    /// When the action is given up, and reported as [`Fault::Unreachable`].
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// The lookup has found so many addresses. (A name without any is a [`Fault::Server`].)
    pub fn handle_resolved(&mut self, now: Time, addresses: usize) {
        if matches!(self.action, Action::Resolve(_)) {
            self.addresses = self.order(addresses);
            self.address = 0;
            self.begin_address(now);
        }
    }

    /// The socket is connected.
    pub fn handle_connected(&mut self) {
        if matches!(self.action, Action::Dial { .. }) {
            self.action = match (self.tls, self.settings.sslnegotiation) {
                (Tls::Off, _) => Action::LogIn,
                (_, SslNegotiation::Direct) => Action::BeginTls,
                (_, SslNegotiation::Postgres) => Action::AskForTls,
            };
        }
    }

    /// The server has answered the question for TLS (`None`: not with an answer), and more has come
    /// already (`early`).
    ///
    /// # Errors
    /// The host reports the refusal as a [`Fault::Server`].
    pub fn handle_answer(&mut self, answer: Option<Answer>, early: bool) -> Result<(), Refusal> {
        if self.action == Action::AskForTls {
            self.action = match begins_tls(answer, early, self.tls == Tls::On)? {
                true => Action::BeginTls,
                false => {
                    // It was asked, so there is no other way left.
                    self.other_way = None;
                    Action::LogIn
                }
            };
        }
        Ok(())
    }

    /// TLS stands.
    pub fn handle_secured(&mut self) {
        if self.action == Action::BeginTls {
            self.action = Action::LogIn;
        }
    }

    /// The server has let us in.
    ///
    /// # Errors
    /// It won't do: the host reports the refusal as a [`Fault::Server`].
    pub fn handle_logged_in(&mut self, session: Session) -> Result<(), Refusal> {
        if self.action == Action::LogIn {
            match session.fits(self.wanted) {
                Some(true) => self.action = Action::Done,
                Some(false) => return Err(Refusal::Target),
                None => return Err(Refusal::TargetUnknown),
            }
        }
        Ok(())
    }

    /// The action has failed, for a reason that the host has put at the end of its list.
    pub fn handle_failed(&mut self, now: Time, fault: Fault<'_>, text: String) {
        if matches!(self.action, Action::Done | Action::Failed) {
            return;
        }
        let code = if let Fault::LogIn(code) = fault { code } else { "" };
        let is_final = fault == Fault::Ours || is_final(code);
        let mut wrong = Wrong { error: self.errors, text, is_final };
        self.errors += 1;
        if (fault == Fault::Handshake || is_about_access(code))
            && let Some(other) = self.other_way.take()
        {
            self.first = Some((wrong, self.tls));
            self.tls = other;
            self.action = Action::Dial { host: self.host(), address: self.place() };
            return;
        }
        if let Some(first) = self.first.take() {
            wrong = both(first, (wrong, self.tls), code);
        }
        let is_looked_up = !matches!(self.action, Action::Resolve(_));
        if fault == Fault::Unreachable && is_looked_up && self.address + 1 < self.addresses.len() {
            self.address += 1;
            self.begin_address(now);
        } else {
            self.end_host(now, wrong);
        }
    }

    /// What the caller is told once all has failed; `None` where there was no host, or all is not
    /// over.
    pub fn verdict(&self) -> Option<Verdict> {
        let last = self.wrong.last().filter(|_| self.action == Action::Failed)?;
        let texts: Vec<&str> = self.wrong.iter().map(|wrong| wrong.text.as_str()).collect();
        let is_of_many = texts.len() > 1;
        Some(Verdict { error: last.error, text: texts.join("; "), is_of_many })
    }

    fn host(&self) -> usize {
        self.hosts.get(self.at).copied().unwrap_or(0)
    }

    /// The place of the address in what the lookup found.
    fn place(&self) -> usize {
        self.addresses.get(self.address).copied().unwrap_or(0)
    }

    fn begin_host(&mut self, now: Time) {
        let Some(host) = self.hosts.get(self.at).and_then(|&host| self.settings.hosts.get(host))
        else {
            self.action = Action::Failed;
            self.deadline = Time::NEVER;
            return;
        };
        self.address = 0;
        if *host == Host::Name {
            self.action = Action::Resolve(self.host());
            self.restart_clock(now);
        } else {
            self.addresses = vec![0];
            self.begin_address(now);
        }
    }

    fn begin_address(&mut self, now: Time) {
        let is_socket = self.settings.hosts.get(self.host()) == Some(&Host::Socket);
        (self.tls, self.other_way) = match self.settings.sslmode {
            _ if is_socket => (Tls::Off, None),
            SslMode::Disable => (Tls::Off, None),
            SslMode::Allow => (Tls::Off, Some(Tls::On)),
            SslMode::Prefer => (Tls::IfOffered, Some(Tls::Off)),
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => (Tls::On, None),
        };
        self.action = Action::Dial { host: self.host(), address: self.place() };
        self.restart_clock(now);
    }

    /// Both ways to an address share its time.
    fn restart_clock(&mut self, now: Time) {
        self.deadline = self.settings.connect_timeout.map_or(Time::NEVER, |time| now.after(time));
    }

    fn end_host(&mut self, now: Time, wrong: Wrong) {
        let is_first_round = self.wanted != self.settings.target_session_attrs;
        self.at += 1;
        if wrong.is_final {
            // Another host would only ask for the same password again.
            self.wrong.clear();
            self.at = self.hosts.len();
        } else if self.at >= self.hosts.len() && is_first_round {
            self.at = 0;
            self.wanted = TargetSessionAttrs::PreferStandby;
        }
        self.wrong.push(wrong);
        self.begin_host(now);
    }

    /// So many places, in the order in which they are tried.
    fn order(&mut self, count: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..count).collect();
        if self.settings.load_balance_hosts == LoadBalanceHosts::Random {
            for last in (1..count).rev() {
                let other = self.random() % (last as u64 + 1);
                places.swap(last, other as usize);
            }
        }
        places
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.settings.seed = self.settings.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.settings.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Why neither of two ways led to a connection. A wrong password is the last word; else the first
/// way is the one that was wanted.
fn both((first, first_way): (Wrong, Tls), (second, second_way): (Wrong, Tls), code: &str) -> Wrong {
    if first.text == second.text {
        return first;
    }
    let (mut main, other, way) = match code {
        "28P01" => (second, first, first_way),
        _ => (first, second, second_way),
    };
    for part in ["; ", way.name(), ": ", &other.text] {
        main.text.push_str(part);
    }
    main
}
