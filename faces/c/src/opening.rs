//! Carries out the plan of how to come to a server: has the sockets, TLS and the errors.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::rc::Rc;

use onetrip_client::Connection;
use onetrip_client::completion::outcome;
use onetrip_client::postgres::Holder;
use onetrip_engine::Time;
use onetrip_postgres::client::connect::keywords::Keyword;
use onetrip_postgres::client::connect::{Action, Fault, Plan, Refusal};
use onetrip_postgres::message::ssl_request::Answer;

use crate::config::Config;
use crate::failure::Failure;
use crate::link::Link;
use crate::redis::Target;
use crate::state::{APART, Server, State, Todo, random};
use crate::wire::{KeepAlive, Place, Wire};

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f];

/// Why an attempt came to nothing, and whose fault that is.
#[derive(Debug)]
pub(crate) struct Refused {
    fault: Whose,
    failure: Failure,
    is_final: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Unreachable,
    Late,
    Handshake,
    LogIn,
    /// The same behind a login that was taken.
    Session,
    Server,
    Ours,
}

impl Refused {
    fn of(fault: Whose, message: String) -> Refused {
        Refused { fault, failure: Failure::unsent("connect_failed", message), is_final: false }
    }

    /// This side ended the login, or the server did without a word.
    pub(crate) fn of_login(message: String, is_final: bool) -> Refused {
        Refused { is_final, ..Refused::of(Whose::Server, message) }
    }

    pub(crate) fn by_server(failure: Failure, is_final: bool, has_session: bool) -> Refused {
        let fault = if has_session { Whose::Session } else { Whose::LogIn };
        Refused { fault, failure, is_final }
    }
}

/// What it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Dial,
    Answer,
    Handshake,
    LogIn,
    Identify,
}

/// How it decides what is next.
#[derive(Debug)]
enum Way {
    Postgres(Box<Plan>),
    /// One server of Redis, and until when it may take.
    Redis(Target, Time),
}

/// One connection on its way.
#[derive(Debug)]
pub(crate) struct Opening {
    way: Way,
    step: Step,
    at: usize,
    addresses: Vec<IpAddr>,
    place: Option<Place>,
    wire: Option<Wire>,
    /// The server's certificate was found good.
    is_verified: bool,
    errors: Vec<Refused>,
    /// It looks for another primary, and serves nobody.
    scouts: bool,
    is_given_up: bool,
}

impl Opening {
    fn new(way: Way, scouts: bool) -> Opening {
        Opening {
            way,
            step: Step::Nothing,
            at: 0,
            addresses: Vec::new(),
            place: None,
            wire: None,
            is_verified: false,
            errors: Vec::new(),
            scouts,
            is_given_up: false,
        }
    }

    pub(crate) fn deadline(&self) -> Time {
        match &self.way {
            Way::Postgres(plan) => plan.deadline(),
            Way::Redis(_, until) => *until,
        }
    }

    /// Nobody wants it any more.
    pub(crate) fn give_up(&mut self) {
        self.is_given_up = true;
        if let Way::Postgres(plan) = &mut self.way {
            plan.give_up();
        }
    }

    /// Begins to connect.
    fn dial(
        &mut self,
        poll: &State,
        number: u32,
        place: Place,
        keep: KeepAlive,
    ) -> Result<(), Refused> {
        (self.wire, self.is_verified) = (None, false);
        let wire = Wire::dial(poll.as_fd(), &place, keep, number.into());
        self.place = Some(place);
        self.wire = Some(wire.map_err(|error| self.unreachable(&error))?);
        self.step = Step::Dial;
        Ok(())
    }

    fn unreachable(&self, error: &io::Error) -> Refused {
        Refused::of(Whose::Unreachable, format!("can't be reached: {error}"))
    }

    /// Whether the socket is connected.
    fn is_connected(&mut self) -> Result<bool, Refused> {
        let connected = self.wire.as_mut().map_or(Ok(false), Wire::is_connected);
        connected.map_err(|error| self.unreachable(&error))
    }

    /// Goes on with TLS. Whether it is set up.
    fn shake_hands(&mut self) -> Result<bool, Refused> {
        let done = self.wire.as_mut().map_or(Ok(false), Wire::shake_hands);
        done.map_err(|error| Refused::of(Whose::Handshake, format!("can't be reached: {error}")))
    }
}

impl State {
    /// The pool wants a connection, or somebody does who has it apart.
    pub(crate) fn open(&mut self, now: Time, number: u32) {
        let way = match &self.server {
            Server::Postgres(_) => Way::Postgres(Box::new(self.plan(now, false))),
            Server::Redis(config) => {
                let target = config.target();
                let until = config.until(now);
                Way::Redis(target, until)
            }
        };
        self.openings.insert(number, Opening::new(way, false));
        self.go_on(now, number);
    }

    fn plan(&mut self, now: Time, scouts: bool) -> Plan {
        let seed = self.next_seed();
        match &self.server {
            Server::Postgres(config) => Plan::new(now, config.plan(seed, scouts), &self.lineage),
            Server::Redis(_) => unreachable!("a plan of PostgreSQL's for Redis"),
        }
    }

    /// Looks for another primary, beside the pool.
    pub(crate) fn scout(&mut self, now: Time) {
        let number = self.next_apart();
        let plan = self.plan(now, true);
        self.openings.insert(number, Opening::new(Way::Postgres(Box::new(plan)), true));
        self.go_on(now, number);
    }

    /// Goes on with an opening, as far as it can.
    pub(crate) fn go_on(&mut self, now: Time, number: u32) {
        loop {
            let Some(mut opening) = self.openings.remove(&number) else { return };
            let result = match opening.way {
                Way::Postgres(_) => self.step(now, number, &mut opening),
                Way::Redis(..) => self.step_of_redis(now, number, &mut opening),
            };
            match result {
                Ok(Goes::On) => _ = self.openings.insert(number, opening),
                Ok(Goes::Waits) => {
                    if let Some(wire) = &mut opening.wire {
                        wire.watch(self.poll.as_fd());
                    }
                    self.openings.insert(number, opening);
                    return;
                }
                Ok(Goes::Over) => return,
                Err(refused) => {
                    self.openings.insert(number, opening);
                    self.failed(now, number, refused);
                }
            }
        }
    }

    fn config(&self) -> &Config {
        match &self.server {
            Server::Postgres(config) => config,
            Server::Redis(_) => unreachable!("settings of PostgreSQL's for Redis"),
        }
    }

    /// Does what the plan says is next.
    fn step(&mut self, now: Time, number: u32, it: &mut Opening) -> Result<Goes, Refused> {
        let Way::Postgres(plan) = &mut it.way else { return Ok(Goes::Over) };
        match (plan.action(), it.step) {
            (Action::Resolve(host), _) => {
                let of = &self.config().endpoints[host];
                // A plan waits for it as for anything else, but nothing can be done meanwhile.
                let found = (&*of.host, of.port).to_socket_addrs();
                let unknown =
                    |error| Refused::of(Whose::Server, format!("can't be reached: {error}"));
                (it.at, it.addresses) = (host, Vec::new());
                it.addresses.extend(found.map_err(unknown)?.map(|address| address.ip()));
                plan.handle_resolved(now, it.addresses.len());
            }
            (Action::Dial { .. }, Step::Dial) => match it.is_connected()? {
                false => return Ok(Goes::Waits),
                true => {
                    it.step = Step::Nothing;
                    if let Way::Postgres(plan) = &mut it.way {
                        plan.handle_connected();
                    }
                }
            },
            (Action::Dial { host, address }, _) => self.dial(number, it, (host, address))?,
            (Action::AskForTls, Step::Answer) => return answer(it),
            (Action::AskForTls, _) => {
                let wire = it.wire.as_mut();
                let sent = wire.map_or(Ok(0), |wire| wire.write(&SSL_REQUEST));
                sent.map_err(|error| it.unreachable(&error))?;
                it.step = Step::Answer;
            }
            (Action::BeginTls, Step::Handshake) => match it.shake_hands()? {
                false => return Ok(Goes::Waits),
                true => {
                    it.step = Step::Nothing;
                    if let Way::Postgres(plan) = &mut it.way {
                        plan.handle_secured();
                    }
                }
            },
            (Action::BeginTls, _) => self.begin_tls(it)?,
            (Action::LogIn, Step::LogIn) | (Action::Identify, Step::Identify) => {
                return Ok(Goes::Waits);
            }
            (Action::LogIn, _) => {
                self.log_in(now, number, it);
                it.step = Step::LogIn;
            }
            (Action::Identify, _) => {
                if let Some(link) = self.links.get(&number) {
                    link.connection.borrow_mut().identify();
                }
                self.soil(number);
                it.step = Step::Identify;
            }
            (Action::Done, _) => return Ok(self.arrived(now, number, it)),
            (Action::Failed, _) => return Ok(self.gives_up(now, number, it)),
        }
        Ok(Goes::On)
    }

    /// Begins to connect to one of its hosts, at an address that was found.
    fn dial(
        &mut self,
        number: u32,
        it: &mut Opening,
        (host, address): (usize, usize),
    ) -> Result<(), Refused> {
        it.at = host;
        let config = self.config();
        let of = &config.endpoints[host];
        let ip = of.known().or_else(|| it.addresses.get(address).copied());
        let place = match (of.socket(), ip) {
            (Some(path), _) => Place::Unix(path),
            (None, Some(ip)) => Place::Ip(SocketAddr::new(ip, of.port)),
            (None, None) => {
                return Err(Refused::of(Whose::Server, "has no address".into()));
            }
        };
        let keep = keep_alive(config);
        it.dial(self, number, place, keep)?;
        Ok(())
    }

    fn begin_tls(&mut self, it: &mut Opening) -> Result<(), Refused> {
        let (tls, host) = (self.config().tls(), &self.config().endpoints[it.at].host);
        let ip = it.place.as_ref().and_then(Place::ip);
        let session = tls.session(host, ip);
        let session = session.map_err(|why| Refused::of(Whose::Ours, why))?;
        it.is_verified = tls.verifies && tls.checks_name;
        if let Some(wire) = &mut it.wire {
            wire.tls = Some(Box::new(session));
        }
        it.step = Step::Handshake;
        Ok(())
    }

    fn log_in(&mut self, now: Time, number: u32, it: &mut Opening) {
        let (Some(wire), Some(place)) = (it.wire.take(), it.place.clone()) else { return };
        let config = self.config();
        let of = &config.endpoints[it.at];
        let binding = wire.tls.as_ref().and_then(|tls| crate::tls::end_point(tls));
        let settings = config.of_engine(of, place.is_local(), it.is_verified, binding.as_deref());
        let connection = Connection::postgres(now, &settings, random());
        self.links.insert(number, Link::new(connection, wire, place));
        // What is wrong with the settings is said at once.
        self.does(Todo::Walk(number));
        self.soil(number);
    }

    /// The same of one server of Redis.
    fn step_of_redis(&mut self, now: Time, number: u32, it: &mut Opening) -> Result<Goes, Refused> {
        let Way::Redis(target, _) = &it.way else { return Ok(Goes::Over) };
        let target = target.clone();
        let Server::Redis(config) = &self.server else { return Ok(Goes::Over) };
        match it.step {
            _ if it.is_given_up => return Ok(self.gives_up(now, number, it)),
            Step::Nothing => {
                let place = target.place();
                let place = place.map_err(|error| it.unreachable(&error))?;
                it.dial(self, number, place, KeepAlive::usual())?;
            }
            Step::Dial => {
                if !it.is_connected()? {
                    return Ok(Goes::Waits);
                }
                it.step = Step::Handshake;
                if let Some(tls) = &config.tls {
                    let ip = it.place.as_ref().and_then(Place::ip);
                    let session = tls.session(target.host(), ip);
                    let session = session.map_err(|why| Refused::of(Whose::Ours, why))?;
                    if let Some(wire) = &mut it.wire {
                        wire.tls = Some(Box::new(session));
                    }
                }
            }
            Step::Handshake => {
                if !it.shake_hands()? {
                    return Ok(Goes::Waits);
                }
                let (Some(wire), Some(place)) = (it.wire.take(), it.place.clone()) else {
                    return Ok(Goes::Over);
                };
                let connection = Connection::redis(now, &config.of_engine(number >= APART));
                self.links.insert(number, Link::new(connection, wire, place));
                self.does(Todo::Walk(number));
                self.soil(number);
                it.step = Step::LogIn;
            }
            _ => return Ok(Goes::Waits),
        }
        Ok(Goes::On)
    }

    // --- what is said of the login ---

    pub(crate) fn logged_in(&mut self, now: Time, number: u32) {
        let Some(mut opening) = self.openings.remove(&number) else { return };
        let session = self.links.get(&number).map(|it| it.connection.borrow().server().0);
        let refused = match (&mut opening.way, session) {
            (Way::Postgres(plan), Some(session)) => {
                plan.handle_logged_in(session, &mut self.lineage).err()
            }
            (Way::Redis(..), Some(_)) => {
                self.arrived(now, number, &mut opening);
                return;
            }
            (_, None) => None,
        };
        opening.step = Step::Nothing;
        self.openings.insert(number, opening);
        self.unless_refused(now, number, refused);
    }

    pub(crate) fn identified(&mut self, now: Time, number: u32) {
        let identity = self.links.get(&number).and_then(|it| it.connection.borrow().server().1);
        if let Some(link) = self.links.get_mut(&number) {
            link.identity = identity;
        }
        let Some(Opening { way: Way::Postgres(plan), step, .. }) = self.openings.get_mut(&number)
        else {
            return;
        };
        *step = Step::Nothing;
        let refused = plan.handle_identified(identity, &mut self.lineage).err();
        // One that was refused may have taught something, too.
        self.close_former(now);
        self.unless_refused(now, number, refused);
    }

    fn unless_refused(&mut self, now: Time, number: u32, refused: Option<Refusal>) {
        match refused {
            None => self.go_on(now, number),
            Some(refusal) => {
                let refused = Refused::of(Whose::Server, refusal.text().to_owned());
                self.failed(now, number, refused);
                self.go_on(now, number);
            }
        }
    }

    /// Closes the connections that lead to a former primary, as far as that was learned.
    fn close_former(&mut self, now: Time) {
        let former: Vec<_> = self
            .links
            .iter()
            .filter(|(_, link)| link.is_ready)
            .filter_map(|(number, link)| Some((*number, self.lineage.refuses(link.identity?)?)))
            .collect();
        for (number, refusal) in former {
            self.destroy(now, number, &format!("the server{}", refusal.text()));
        }
    }

    /// The login has failed.
    pub(crate) fn refused(&mut self, now: Time, number: u32, refused: Refused) {
        if self.openings.contains_key(&number) {
            self.failed(now, number, refused);
            self.go_on(now, number);
        }
    }

    /// An attempt came to nothing: the plan hears of it.
    fn failed(&mut self, now: Time, number: u32, mut refused: Refused) {
        let Some(mut opening) = self.openings.remove(&number) else { return };
        (opening.wire, opening.step) = (None, Step::Nothing);
        self.links.remove(&number);
        let name = match &opening.way {
            Way::Postgres(_) => self.config().endpoints[opening.at].to_string(),
            Way::Redis(target, _) => target.to_string(),
        };
        let failure = &mut refused.failure;
        if !matches!(refused.fault, Whose::LogIn | Whose::Session) {
            let space = if failure.message.starts_with(' ') { "" } else { " " };
            failure.message = match failure.message.contains(&name) {
                true => std::mem::take(&mut failure.message),
                false => format!("{name}:{space}{}", failure.message),
            };
        }
        if let Way::Postgres(plan) = &mut opening.way {
            let code = failure.code.clone();
            let several = self.config().endpoints.len() > 1 && !failure.message.starts_with(&name);
            let text = match several {
                true => format!("{name}: {}", failure.message),
                false => failure.message.clone(),
            };
            let fault = match refused.fault {
                Whose::Unreachable => Fault::Unreachable,
                Whose::Late => Fault::Late,
                Whose::Handshake => Fault::Handshake,
                Whose::LogIn => Fault::LogIn(&code),
                Whose::Session => Fault::Session(&code),
                Whose::Server => Fault::Server,
                Whose::Ours => Fault::Ours,
            };
            plan.handle_failed(now, fault, text, &mut self.lineage);
        } else {
            opening.is_given_up = true;
        }
        opening.errors.push(refused);
        self.openings.insert(number, opening);
    }

    /// Those whose time is over.
    pub(crate) fn openings_late(&mut self, now: Time) {
        let late = self.openings.iter().filter(|(_, it)| it.deadline() <= now);
        for number in late.map(|it| *it.0).collect::<Vec<_>>() {
            let why = "did not answer in time (connect_timeout)";
            self.failed(now, number, Refused::of(Whose::Late, why.into()));
            self.go_on(now, number);
        }
    }

    // --- its end ---

    fn arrived(&mut self, now: Time, number: u32, it: &mut Opening) -> Goes {
        if it.scouts {
            self.links.get_mut(&number).into_iter().for_each(|link| link.is_ready = true);
            self.leave(now, number);
            self.pool.scouted(now);
            self.does(Todo::Pool);
            return Goes::Over;
        }
        if let Server::Redis(config) = &self.server {
            config.went_well();
        }
        let Some(link) = self.links.get_mut(&number).filter(|link| !link.is_over) else {
            // It was lost meanwhile: the pool has to hear of it.
            it.errors.push(Refused::of(Whose::Server, "the server closed the connection".into()));
            return self.gives_up(now, number, it);
        };
        link.is_ready = true;
        if number >= APART {
            link.is_forgotten = true;
            link.connection.borrow_mut().hold(Holder::One);
            self.listener_opened(now, number);
            return Goes::Over;
        }
        self.last_error = None;
        let connection = Rc::clone(&link.connection);
        connection.borrow_mut().hold(Holder::All);
        self.pool.opened(now, number, connection);
        self.does(Todo::Pool);
        Goes::Over
    }

    /// Nothing is left to try.
    fn gives_up(&mut self, now: Time, number: u32, it: &mut Opening) -> Goes {
        self.links.remove(&number);
        let verdict = match &it.way {
            Way::Postgres(plan) => plan.verdict(),
            Way::Redis(..) => None,
        };
        let last = it.errors.len().saturating_sub(1);
        let (place, is_of_many) =
            verdict.as_ref().map_or((last, false), |it| (it.error, it.is_of_many));
        let is_nobodys = it.errors.is_empty();
        let (mut failure, is_final) = match it.errors.get(place) {
            Some(told) => (told.failure.clone(), told.is_final && !is_of_many),
            None => (Failure::unsent("connect_failed", "nobody waits for a connection"), true),
        };
        let mut may_pass = verdict.as_ref().is_some_and(|it| it.may_pass);
        if let Some(verdict) = verdict {
            failure.message = verdict.text;
        }
        if let (Server::Redis(config), false) = (&self.server, is_nobodys) {
            may_pass = config.goes_elsewhere();
        }
        failure.outcome = outcome::NOT_SENT;
        if it.scouts {
            self.pool.scouted(now);
        } else if number >= APART {
            self.listener_refused(now, number, failure, is_final);
        } else {
            self.last_error = Some(failure);
            self.pool.open_failed(now, number, is_final, may_pass);
        }
        self.does(Todo::Pool);
        Goes::Over
    }
}

/// How an opening goes on.
enum Goes {
    On,
    Waits,
    Over,
}

/// Reads the answer to the question for TLS.
fn answer(it: &mut Opening) -> Result<Goes, Refused> {
    let mut room = [0; 16];
    let Opening { wire: Some(wire), way: Way::Postgres(plan), .. } = it else {
        return Ok(Goes::Over);
    };
    let came = wire.read_raw(&mut room);
    let came =
        came.map_err(|error| Refused::of(Whose::Server, format!("can't be reached: {error}")))?;
    match came {
        None => Ok(Goes::Waits),
        Some(0) => Err(Refused::of(Whose::Server, "closed the connection".into())),
        Some(len) => {
            it.step = Step::Nothing;
            let answered = plan.handle_answer(Answer::from_byte(room[0]), len > 1);
            answered.map_err(|refusal| Refused::of(Whose::Server, refusal.text().to_owned()))?;
            Ok(Goes::On)
        }
    }
}

fn keep_alive(config: &Config) -> KeepAlive {
    let number = |keyword| config.number(keyword) as u32;
    KeepAlive {
        is_on: config.is_on(Keyword::Keepalives),
        idle_s: number(Keyword::KeepalivesIdle),
        interval_s: number(Keyword::KeepalivesInterval),
        count: number(Keyword::KeepalivesCount),
        user_timeout_ms: number(Keyword::TcpUserTimeout),
    }
}

impl KeepAlive {
    /// What holds where nothing is said.
    pub(crate) fn usual() -> KeepAlive {
        KeepAlive { is_on: true, idle_s: 30, interval_s: 10, count: 3, user_timeout_ms: 30_000 }
    }
}
