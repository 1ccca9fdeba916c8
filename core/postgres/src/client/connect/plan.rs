//! The steps to a connection. The host asks for the next [`Action`], carries it out within the
//! deadline, and reports the result. It keeps its errors in a list, in the order of its reports. In
//! the end the plan says which of them the caller gets.

use std::time::Duration;

use onetrip_engine::Time;

use super::{
    LoadBalanceHosts, Refusal, Session, SslMode, SslNegotiation, TargetSessionAttrs, begins_tls,
    is_about_access, is_final,
};
use crate::client::identity::{Identity, Lineage};
use crate::message::ssl_request::Answer;

/// How a host of the list is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// By a name that must be looked up.
    Name,
    /// By its address (`hostaddr`).
    Address,
    /// By a Unix socket, which is never encrypted.
    Socket,
}

/// The settings that the plan depends on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers, in the listed order.
    pub hosts: Vec<Host>,
    /// Whether TLS is used.
    pub sslmode: SslMode,
    /// How TLS begins.
    pub sslnegotiation: SslNegotiation,
    /// Which servers are accepted.
    pub target_session_attrs: TargetSessionAttrs,
    /// The order in which they are tried.
    pub load_balance_hosts: LoadBalanceHosts,
    /// The time for each address, including the login, and for each lookup; `None` means no limit.
    pub connect_timeout: Option<Duration>,
    /// The seed of the random order.
    pub seed: u64,
    /// Whether the host carries out [`Action::Identify`]. It is asked for only where the client may
    /// meet more than one server: with several hosts, or with another `target_session_attrs` than
    /// "any".
    pub identifies: bool,
    /// Whether it is the plan of a scout. It looks for a primary, which alone can show that the
    /// present one is a former one, and asks the host that is silent last. That one gets no longer
    /// than it was silent before: the next scout must come in time.
    pub scouts: bool,
}

/// How long a server may be silent on all connections of a client before the client looks for
/// another one ([`Limits::scout_after`](onetrip_engine::pool::Limits::scout_after)): longer than
/// most statements take, and shorter than it takes a cluster to notice that a primary is gone.
const SCOUT_AFTER: Duration = Duration::from_secs(2);

/// When a client with so many hosts looks for another primary; [`Duration::MAX`] where it can meet
/// only one, or looks for none.
pub fn scout_after(hosts: usize, target: TargetSessionAttrs) -> Duration {
    let takes_primary = matches!(
        target,
        TargetSessionAttrs::Any | TargetSessionAttrs::ReadWrite | TargetSessionAttrs::Primary
    );
    let meets_others = hosts > 1 || target != TargetSessionAttrs::Any;
    if takes_primary && meets_others { SCOUT_AFTER } else { Duration::MAX }
}

/// What the host must do next. Hosts are named by their index in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look up the host's name.
    Resolve(usize),
    /// Open a socket to an address of the host, by its index in the result of the lookup. A socket
    /// that the host already has is dropped.
    Dial {
        /// The host that it belongs to.
        host: usize,
        /// Its index; 0 if nothing had to be looked up.
        address: usize,
    },
    /// Ask the server whether it supports TLS, and read one byte.
    AskForTls,
    /// Do the TLS handshake.
    BeginTls,
    /// Log in.
    LogIn,
    /// Ask the server which it is ([`Asking`](crate::client::identity::Asking)).
    Identify,
    /// Nothing: the connection is ready.
    Done,
    /// Nothing: there is no connection. See [`Plan::verdict`].
    Failed,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<'a> {
    /// No connection could be made to this address. The host may have other addresses.
    Unreachable,
    /// The same: no answer came until the [deadline](Plan::deadline).
    Late,
    /// The TLS handshake failed.
    Handshake,
    /// The server refused the login with this code.
    LogIn(&'a str),
    /// The server took the login (AuthenticationOk), and refused the session with this code.
    Session(&'a str),
    /// Anything else that is wrong with this server.
    Server,
    /// An error on this side, such as an unreadable file, which is the same for all servers.
    Ours,
}

/// Which error the caller gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The error whose kind and code the caller gets, by its index in the host's list.
    pub error: usize,
    /// The text, which includes those of the other errors.
    pub text: String,
    /// Whether several hosts failed.
    pub is_of_many: bool,
    /// Whether a server was met that ended the login by itself: it may be starting, or have no
    /// connection free. Otherwise there is none at the place that was named, or not the one that was
    /// asked for, and who opens a client is told so at once.
    pub may_pass: bool,
}

/// Whether TLS is used on a connection.
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

/// An error of the host's list.
#[derive(Debug)]
struct Wrong {
    error: usize,
    text: String,
    is_final: bool,
    may_pass: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Plan {
    settings: Settings,
    /// The host that is tried behind all others, since it answers nothing.
    silent: Option<usize>,
    /// The hosts in the order in which they are tried, and the index of the present one.
    hosts: Vec<usize>,
    at: usize,
    /// The same for the addresses of the present host.
    addresses: Vec<usize>,
    address: usize,
    /// What the present server said of itself at the login.
    session: Session,
    /// "prefer-standby" takes two rounds: first only a standby is accepted, then any server.
    wanted: TargetSessionAttrs,
    action: Action,
    deadline: Time,
    tls: Tls,
    /// The TLS mode to try on a new connection if this one fails.
    other_way: Option<Tls>,
    /// Why the first mode failed, and which it was.
    first: Option<(Wrong, Tls)>,
    /// The error of each host.
    wrong: Vec<Wrong>,
    errors: usize,
    /// The present server was refused by this side.
    refused: bool,
}

impl Plan {
    /// Begins with the first host. A host of the list that the client has seen silent is the last.
    pub fn new(now: Time, mut settings: Settings, lineage: &Lineage) -> Plan {
        if settings.scouts {
            settings.target_session_attrs = TargetSessionAttrs::Primary;
        }
        let wanted = match settings.target_session_attrs {
            TargetSessionAttrs::PreferStandby => TargetSessionAttrs::Standby,
            wanted => wanted,
        };
        let count = settings.hosts.len();
        let silent = match settings.scouts {
            _ if count == 1 => Some(0),
            true => lineage.served().or(lineage.silent()),
            false => lineage.silent(),
        };
        let mut plan = Plan {
            settings,
            silent,
            hosts: Vec::new(),
            at: 0,
            addresses: Vec::new(),
            address: 0,
            session: Session::default(),
            wanted,
            action: Action::Failed,
            deadline: Time::NEVER,
            tls: Tls::Off,
            other_way: None,
            first: None,
            wrong: Vec::new(),
            errors: 0,
            refused: false,
        };
        plan.hosts = plan.order(count);
        if let Some(at) = plan.hosts.iter().position(|host| Some(*host) == silent) {
            let last = plan.hosts.remove(at);
            plan.hosts.push(last);
        }
        plan.begin_host(now);
        plan
    }

    /// What to do next. Only the `handle_…` methods change it.
    pub fn action(&self) -> Action {
        self.action
    }

    /// When the action is given up, and reported as [`Fault::Late`].
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// The lookup has found this many addresses. (A name without an address is a
    /// [`Fault::Server`].)
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

    /// The server has answered the question for TLS. `answer` is `None` if that was no valid
    /// answer; `early` says that more bytes have come already.
    ///
    /// # Errors
    /// The host reports the refusal as a [`Fault::Server`].
    pub fn handle_answer(&mut self, answer: Option<Answer>, early: bool) -> Result<(), Refusal> {
        if self.action == Action::AskForTls {
            let begins = begins_tls(answer, early, self.tls == Tls::On);
            self.action = match begins.map_err(|refusal| self.refuse(refusal))? {
                true => Action::BeginTls,
                false => {
                    // The server was asked, so there is no other mode left to try.
                    self.other_way = None;
                    Action::LogIn
                }
            };
        }
        Ok(())
    }

    /// The TLS handshake is complete.
    pub fn handle_secured(&mut self) {
        if self.action == Action::BeginTls {
            self.action = Action::LogIn;
        }
    }

    /// The login is complete.
    ///
    /// # Errors
    /// The server is not accepted. The host reports the refusal as a [`Fault::Server`].
    pub fn handle_logged_in(
        &mut self,
        session: Session,
        lineage: &mut Lineage,
    ) -> Result<(), Refusal> {
        if self.action == Action::LogIn {
            // Also one that does not fit is asked: a pooler tells its clients what one of its servers
            // said long ago. And where a standby is wanted, a primary teaches which timeline is the
            // newest.
            match session.fits(self.wanted) {
                Some(_) if self.identifies() && session.can_be_asked => {
                    self.session = session;
                    self.action = Action::Identify;
                }
                Some(true) => self.arrive(lineage, false),
                Some(false) => return Err(self.refuse(Refusal::Target)),
                None => return Err(self.refuse(Refusal::TargetUnknown)),
            }
        }
        Ok(())
    }

    /// The server has said which it is, if it did. The client keeps the lineage; connections that
    /// it refuses from now on are to be closed.
    ///
    /// Its role is the one that it says now, not that of the login: a pooler tells its clients what
    /// one of its servers said long ago.
    ///
    /// # Errors
    /// The server is not accepted. The host reports the refusal as a [`Fault::Server`].
    pub fn handle_identified(
        &mut self,
        server: Option<Identity>,
        lineage: &mut Lineage,
    ) -> Result<(), Refusal> {
        if self.action == Action::Identify {
            let (mut session, before) = (self.session, *lineage);
            if let Some(server) = server {
                lineage.admit(server).map_err(|refusal| self.refuse(refusal))?;
                session.is_standby = Some(server.is_standby);
            }
            if session.fits(self.wanted) != Some(true) {
                return Err(self.refuse(Refusal::Target));
            }
            let is_beyond = lineage.is_beyond(&before);
            self.arrive(lineage, is_beyond);
        }
        Ok(())
    }

    fn refuse(&mut self, refusal: Refusal) -> Refusal {
        self.refused = true;
        refusal
    }

    /// `is_beyond`: it was not known that this server is the primary. Only then a scout has shown
    /// that the silent host is none: else that may be at work on what takes long.
    fn arrive(&mut self, lineage: &mut Lineage, is_beyond: bool) {
        self.action = Action::Done;
        if !self.teaches() {
            return;
        }
        match self.silent {
            _ if !self.settings.scouts => lineage.note_served(self.host()),
            Some(silent) if is_beyond && silent != self.host() => lineage.note_silent(silent),
            _ => {}
        }
    }

    /// Whether its hosts are those of the lineage. Plans of one host, as those of replicas, may share
    /// the lineage of a list.
    fn teaches(&self) -> bool {
        self.settings.hosts.len() > 1
    }

    fn identifies(&self) -> bool {
        let target = self.settings.target_session_attrs;
        let is_of_many = self.settings.hosts.len() > 1 || target != TargetSessionAttrs::Any;
        self.settings.identifies && is_of_many
    }

    /// The action has failed. The host has put the error at the end of its list.
    pub fn handle_failed(
        &mut self,
        now: Time,
        fault: Fault<'_>,
        text: String,
        lineage: &mut Lineage,
    ) {
        if matches!(self.action, Action::Done | Action::Failed) {
            return;
        }
        if fault == Fault::Late && self.teaches() {
            lineage.note_silent(self.host());
        }
        let code = match fault {
            Fault::LogIn(code) | Fault::Session(code) => code,
            _ => "",
        };
        let is_final = fault == Fault::Ours || is_final(code);
        let was_met = matches!(self.action, Action::AskForTls | Action::LogIn | Action::Identify);
        let was_refused = std::mem::take(&mut self.refused);
        let may_pass = match fault {
            Fault::LogIn(_) | Fault::Session(_) => !is_final,
            Fault::Server => was_met && !was_refused,
            Fault::Unreachable | Fault::Late | Fault::Handshake | Fault::Ours => false,
        };
        let mut wrong = Wrong { error: self.errors, text, is_final, may_pass };
        self.errors += 1;
        // What the server refuses behind AuthenticationOk is not refused for how it was asked. (So it
        // is in libpq: fe-connect.c looks for another way in CONNECTION_AWAITING_RESPONSE alone.)
        let may_fare_better = match fault {
            Fault::Handshake => true,
            Fault::LogIn(code) => is_about_access(code),
            _ => false,
        };
        if may_fare_better && let Some(other) = self.other_way.take() {
            self.first = Some((wrong, self.tls));
            self.tls = other;
            self.action = Action::Dial { host: self.host(), address: self.place() };
            return;
        }
        if let Some(first) = self.first.take() {
            wrong = both(first, (wrong, self.tls), code);
        }
        let is_of_address = matches!(fault, Fault::Unreachable | Fault::Late)
            && !matches!(self.action, Action::Resolve(_));
        if is_of_address && self.address + 1 < self.addresses.len() {
            self.address += 1;
            self.begin_address(now);
        } else {
            self.end_host(now, wrong);
        }
    }

    /// Nobody wants the connection any more. No other way, address or host is tried: what ends its
    /// socket now is no fault of the server.
    pub fn give_up(&mut self) {
        self.action = Action::Failed;
        self.deadline = Time::NEVER;
    }

    /// The error for the caller once everything has failed. `None` if there was no host, or the
    /// plan has not failed.
    pub fn verdict(&self) -> Option<Verdict> {
        let last = self.wrong.last().filter(|_| self.action == Action::Failed)?;
        let texts: Vec<&str> = self.wrong.iter().map(|wrong| wrong.text.as_str()).collect();
        let is_of_many = texts.len() > 1;
        let may_pass = self.wrong.iter().any(|wrong| wrong.may_pass);
        Some(Verdict { error: last.error, text: texts.join("; "), is_of_many, may_pass })
    }

    fn host(&self) -> usize {
        self.hosts.get(self.at).copied().unwrap_or(0)
    }

    /// The index of the present address in the result of the lookup.
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

    /// Both TLS modes of an address share its time.
    fn restart_clock(&mut self, now: Time) {
        let Settings { connect_timeout, scouts, .. } = self.settings;
        let is_silent = scouts && self.silent == Some(self.host());
        let patience = match connect_timeout {
            Some(time) if is_silent => Some(time.min(SCOUT_AFTER)),
            None if is_silent => Some(SCOUT_AFTER),
            time => time,
        };
        self.deadline = patience.map_or(Time::NEVER, |time| now.after(time));
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

    /// This many indices, in the order in which they are tried.
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

/// The error when both modes failed. If the second failed with a wrong password, it is the main
/// one; otherwise the first is, since that mode was preferred.
fn both((first, first_way): (Wrong, Tls), (second, second_way): (Wrong, Tls), code: &str) -> Wrong {
    let may_pass = first.may_pass || second.may_pass;
    if first.text == second.text {
        return Wrong { may_pass, ..first };
    }
    let (mut main, other, way) = match code {
        "28P01" => (second, first, first_way),
        _ => (first, second, second_way),
    };
    for part in ["; ", way.name(), ": ", &other.text] {
        main.text.push_str(part);
    }
    Wrong { may_pass, ..main }
}
