//! From servers to one that takes a login: carries out the plan of
//! `onetrip_postgres::client::connect`.
//!
//! A program logs in by itself, through the sidecar. Until the server has asked it something,
//! another server may still take its place.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::BytesMut;
use onetrip::config::{Address, Endpoint, SslNegotiation};
use onetrip_postgres::client::connect::plan::Host;
use onetrip_postgres::client::connect::{Action, Fault, Plan, Refusal, Session};
use onetrip_postgres::client::early::Time;
use onetrip_postgres::message::ssl_request::{Answer, SSL_REQUEST};
use onetrip_postgres::startup::Ready;
use rustix::net::sockopt::set_socket_keepalive;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::{TcpStream, UnixStream};

use super::greeting::{Greeting, Refused, greeting};
use super::servers::Servers;
use super::stream::Stream;
use super::warm::{Login, refused as refused_login};
use crate::profile::tls::{Offer, Step};

/// A server that was met.
pub(super) struct Met {
    pub(super) stream: Stream,
    pub(super) place: Place,
    /// What it has said already.
    pub(super) said: BytesMut,
    /// The end of a login that the sidecar has done itself.
    pub(super) ready: Option<Ready>,
}

/// Where a server was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) host: usize,
    /// `None` for a Unix socket.
    pub(super) peer: Option<SocketAddr>,
}

/// Why none was met.
pub(super) enum Unmet {
    /// The server's own words: there is one, and it refuses.
    Said(BytesMut),
    Failed(String),
}

/// What is said to a server first.
#[derive(Clone, Copy)]
pub(super) enum Saying<'a> {
    /// A program's packet that begins a login.
    Login(&'a [u8]),
    /// A login that the sidecar does itself.
    Own(&'a Login),
    /// A request to cancel, which is answered by the end of the connection.
    Cancel(&'a [u8]),
}

/// Why a step failed.
enum Failure {
    Late,
    Unreachable(String),
    Handshake(String),
    Ours(String),
    Server(String),
    Refused(Refused),
}

impl Servers {
    /// Connects to the first of them that takes this.
    pub(super) async fn meet(&self, saying: Saying<'_>) -> Result<Met, Unmet> {
        let plan = Plan::new(Time::ZERO, self.plan(), &self.lineage());
        Dialing::new(self, saying, None).run(plan).await
    }

    /// Says it to the server at this place.
    pub(super) async fn meet_at(&self, place: Place, saying: Saying<'_>) -> Result<Met, Unmet> {
        let mut settings = self.plan();
        settings.hosts = vec![if place.peer.is_some() { Host::Address } else { Host::Socket }];
        let plan = Plan::new(Time::ZERO, settings, &self.lineage());
        Dialing::new(self, saying, Some(place)).run(plan).await
    }
}

/// A plan that is carried out.
struct Dialing<'a> {
    servers: &'a Servers,
    saying: Saying<'a>,
    only: Option<Place>,
    begin: Instant,
    peers: Vec<SocketAddr>,
    place: Place,
    /// Until it is known whether it is encrypted.
    tcp: Option<TcpStream>,
    stream: Option<Stream>,
    is_encrypted: bool,
    said: BytesMut,
    ready: Option<Ready>,
    /// The server's words of each failure.
    refusals: Vec<Option<BytesMut>>,
}

impl<'a> Dialing<'a> {
    fn new(servers: &'a Servers, saying: Saying<'a>, only: Option<Place>) -> Dialing<'a> {
        Dialing {
            servers,
            saying,
            only,
            begin: Instant::now(),
            peers: Vec::new(),
            place: only.unwrap_or(Place { host: 0, peer: None }),
            tcp: None,
            stream: None,
            is_encrypted: false,
            said: BytesMut::new(),
            ready: None,
            refusals: Vec::new(),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO.after(self.begin.elapsed())
    }

    async fn run(mut self, mut plan: Plan) -> Result<Met, Unmet> {
        let mut is_met = false;
        while !is_met && !matches!(plan.action(), Action::Done | Action::Failed) {
            match self.in_time(&mut plan).await {
                Ok(met) => is_met = met,
                Err(failure) => self.note(failure, &mut plan),
            }
        }
        let stream = self.stream.take().filter(|_| plan.action() != Action::Failed);
        if let Some(stream) = stream {
            return Ok(Met { stream, place: self.place, said: self.said, ready: self.ready });
        }
        let Some(verdict) = plan.verdict() else {
            return Err(Unmet::Failed("there is no server to connect to".to_owned()));
        };
        let said = self.refusals.get_mut(verdict.error).and_then(Option::take);
        Err(match said.filter(|_| !verdict.is_of_many) {
            Some(said) => Unmet::Said(said),
            None => Unmet::Failed(verdict.text),
        })
    }

    /// Carries out the next action, within its deadline. True once the server belongs to the
    /// program.
    async fn in_time(&mut self, plan: &mut Plan) -> Result<bool, Failure> {
        if plan.deadline() == Time::NEVER {
            return self.carry_out(plan).await;
        }
        let limit = plan.deadline().since(self.now());
        tokio::time::timeout(limit, self.carry_out(plan)).await.unwrap_or(Err(Failure::Late))
    }

    fn note(&mut self, failure: Failure, plan: &mut Plan) {
        let name = self.endpoint_name();
        let said = match &failure {
            Failure::Refused(refused) => Some(refused.said.clone()),
            _ => None,
        };
        let (fault, why) = match &failure {
            Failure::Late => (Fault::Late, "no answer within connect_timeout"),
            Failure::Unreachable(why) => (Fault::Unreachable, why.as_str()),
            Failure::Handshake(why) => (Fault::Handshake, why.as_str()),
            Failure::Ours(why) => (Fault::Ours, why.as_str()),
            Failure::Server(why) => (Fault::Server, why.as_str()),
            Failure::Refused(it) if it.was_taken => (Fault::Session(&it.code), it.text.as_str()),
            Failure::Refused(it) => (Fault::LogIn(&it.code), it.text.as_str()),
        };
        let text = match &failure {
            Failure::Unreachable(_) => format!("can't connect to {name} ({why}): is it running?"),
            // Core's words follow the server's name.
            _ if why.starts_with([' ', ':']) => format!("{name}{why}"),
            _ => format!("{name}: {why}"),
        };
        plan.handle_failed(self.now(), fault, text, &mut self.servers.lineage());
        self.refusals.push(said);
    }

    async fn carry_out(&mut self, plan: &mut Plan) -> Result<bool, Failure> {
        match plan.action() {
            Action::Resolve(host) => {
                self.place.host = host;
                self.peers = self.resolved().await.map_err(Failure::Server)?;
                plan.handle_resolved(self.now(), self.peers.len());
            }
            Action::Dial { host, address } => {
                self.stream = None;
                self.place = self.only.unwrap_or_else(|| self.place_of(host, address));
                self.dial().await.map_err(|error| Failure::Unreachable(error.to_string()))?;
                plan.handle_connected();
            }
            Action::AskForTls => {
                let Some(tcp) = &mut self.tcp else { return Ok(false) };
                let asked = ask(tcp).await;
                let (answer, is_early) = asked.map_err(|error| Failure::Server(lost(&error)))?;
                plan.handle_answer(answer, is_early).map_err(refused)?;
            }
            Action::BeginTls => {
                self.begin_tls().await?;
                plan.handle_secured();
            }
            _ => return self.say(plan).await,
        }
        Ok(false)
    }

    fn endpoint(&self) -> &'a Endpoint {
        let all = self.servers.resolved.endpoints();
        // There is one at least, and the plan names no other.
        all.get(self.place.host).unwrap_or(&all[0])
    }

    fn endpoint_name(&self) -> String {
        match &self.servers.socket {
            Some(path) => path.display().to_string(),
            None => self.endpoint().to_string(),
        }
    }

    async fn resolved(&self) -> Result<Vec<SocketAddr>, String> {
        let endpoint = self.endpoint();
        let Address::Tcp { host, .. } = endpoint.address() else { return Ok(Vec::new()) };
        let why = |why: &str| format!("the host can't be found ({why}): check its spelling");
        let found = tokio::net::lookup_host((host.as_str(), endpoint.port())).await;
        let found: Vec<_> = found.map_err(|error| why(&error.to_string()))?.collect();
        if found.is_empty() { Err(why("it has no address")) } else { Ok(found) }
    }

    fn place_of(&self, host: usize, address: usize) -> Place {
        let endpoint = self.servers.resolved.endpoints().get(host);
        let peer = match endpoint.map(|it| (it.address(), it.port())) {
            Some((Address::Tcp { address: Some(address), .. }, port)) => {
                Some(SocketAddr::new(*address, port))
            }
            Some((Address::Tcp { .. }, _)) => self.peers.get(address).copied(),
            _ => None,
        };
        Place { host, peer }
    }

    async fn dial(&mut self) -> io::Result<()> {
        let Some(peer) = self.place.peer else {
            let path = self.servers.socket.clone().or_else(|| self.endpoint().socket());
            let unix = UnixStream::connect(path.unwrap_or_default()).await?;
            self.stream = Some(Stream::Unix(unix));
            return Ok(());
        };
        let tcp = TcpStream::connect(peer).await?;
        tcp.set_nodelay(true)?;
        // Those of the program end here.
        set_socket_keepalive(&tcp, true)?;
        (self.tcp, self.is_encrypted) = (Some(tcp), false);
        Ok(())
    }

    /// A relay encrypts what goes to the server.
    async fn begin_tls(&mut self) -> Result<(), Failure> {
        let (Some(tcp), Some(peer)) = (self.tcp.take(), self.place.peer) else { return Ok(()) };
        let host = match self.endpoint().address() {
            Address::Tcp { host, .. } => host.as_str(),
            Address::Unix(_) => "",
        };
        let tls = self.servers.secured(host, peer.ip()).await.map_err(Failure::Ours)?;
        let mut encrypted =
            tls.connector.connect(tls.name.clone(), tcp).await.map_err(|error| {
                let why = tls.setup.explain(&error);
                let why = why.unwrap_or_else(|| format!("the TLS handshake failed ({error})"));
                Failure::Handshake(format!(
                    "{why}; --tls, --tls-root and the host say what is verified"
                ))
            })?;
        let settings = self.servers.resolved.settings();
        let is_direct = settings.sslnegotiation == SslNegotiation::Direct;
        if is_direct && encrypted.get_ref().1.alpn_protocol() != Some(b"postgresql") {
            return Err(refused(Refusal::NoAlpn));
        }
        let (ours, mut its) = UnixStream::pair().map_err(|error| Failure::Ours(lost(&error)))?;
        tokio::spawn(async move {
            // An error is the end of one of both; dropping them tells the other.
            let _ = copy_bidirectional_with_sizes(&mut its, &mut encrypted, BUFFER, BUFFER).await;
        });
        (self.stream, self.is_encrypted) = (Some(Stream::Unix(ours)), true);
        Ok(())
    }

    /// Says what the program has said first. True once the server belongs to the program.
    async fn say(&mut self, plan: &mut Plan) -> Result<bool, Failure> {
        let stream = match self.tcp.take() {
            Some(tcp) => self.stream.insert(Stream::Tcp(tcp)),
            None => match &mut self.stream {
                Some(stream) => stream,
                None => return Err(Failure::Server("it was lost".to_owned())),
            },
        };
        let failed = |error: io::Error| Failure::Server(lost(&error));
        let packet = match self.saying {
            Saying::Login(packet) => packet,
            Saying::Own(login) => return self.log_in(plan, login).await,
            Saying::Cancel(request) => {
                stream.write(request).await.map_err(failed)?;
                return Ok(true);
            }
        };
        stream.write(packet).await.map_err(failed)?;
        self.said.clear();
        loop {
            let has_ended = !stream.read(&mut self.said).await.map_err(failed)?;
            match greeting(&self.said) {
                Greeting::Incomplete if !has_ended => {}
                // With one server the program hears what it says, whatever that is.
                Greeting::Incomplete | Greeting::Other if !self.servers.are_several() => {
                    return Ok(true);
                }
                Greeting::Incomplete => {
                    return Err(Failure::Server("it ended the connection".to_owned()));
                }
                Greeting::Other => return Err(refused(Refusal::NotPostgres)),
                Greeting::Asks => return self.unbind().map(|()| true),
                Greeting::Refuses(refused) => return Err(Failure::Refused(refused)),
                Greeting::Welcomes(session) => return self.welcome(plan, session).map(|()| true),
            }
        }
    }

    /// Does the login itself.
    async fn log_in(&mut self, plan: &mut Plan, login: &Login) -> Result<bool, Failure> {
        let Some(stream) = &self.stream else { return Ok(false) };
        let failed = |error: io::Error| Failure::Server(lost(&error));
        let startup = login.startup(self.place, self.is_encrypted);
        let mut startup = startup.map_err(Failure::Ours)?;
        let mut heard = BytesMut::new();
        let ready = loop {
            while let Some(bytes) = startup.transmit() {
                stream.write(&bytes).await.map_err(failed)?;
            }
            let has_ended = !stream.read(&mut heard).await.map_err(failed)?;
            match startup.handle_bytes(&mut heard) {
                Ok(Some(ready)) => break ready,
                Ok(None) if has_ended => return Err(Failure::Server("it ended the login".into())),
                Ok(None) => {}
                Err(error) => {
                    let refused = refused_login(error);
                    return Err(refused.map_or_else(Failure::Server, Failure::Refused));
                }
            }
        };
        let mut session = Session::default();
        ready.parameters.iter().for_each(|(name, value)| session.note(name, value));
        self.welcome(plan, session)?;
        self.ready = Some(ready);
        Ok(true)
    }

    /// Takes what needs TLS up to the program out of the offer of how to log in.
    fn unbind(&mut self) -> Result<(), Failure> {
        if self.is_encrypted {
            self.said = match Offer::default().read(&self.said) {
                Step::Pass(said) | Step::Done(said) => said,
                Step::OnlyBound => return Err(Failure::Server(ONLY_BOUND.to_owned())),
            };
        }
        Ok(())
    }

    /// The server has asked nothing.
    fn welcome(&self, plan: &mut Plan, session: Session) -> Result<(), Failure> {
        plan.handle_logged_in(session, &mut self.servers.lineage()).map_err(refused)
    }
}

/// Asks for TLS: the answer, and whether more came with it.
async fn ask(tcp: &mut TcpStream) -> io::Result<(Option<Answer>, bool)> {
    tcp.write_all(&SSL_REQUEST).await?;
    let answer = Answer::from_byte(tcp.read_u8().await?);
    Ok((answer, matches!(tcp.try_read(&mut [0]), Ok(1))))
}

fn refused(refusal: Refusal) -> Failure {
    Failure::Server(refusal.text().to_owned())
}

fn lost(error: &io::Error) -> String {
    format!("the connection was lost before the login ({error})")
}

/// Bytes of one direction that a relay holds.
const BUFFER: usize = 16 << 10;

const ONLY_BOUND: &str = "the server offers SCRAM-SHA-256-PLUS only, which needs TLS up to the \
                          program: allow SCRAM-SHA-256 there";
