//! The host of the client's policy: its connections to Sentinels and to the master.

use std::time::Duration;

use bytes::Bytes;
use onetrip_redis::Reply;
use onetrip_redis::client::sentinel::{LineId, Output, Role, unfit};
use onetrip_redis::redirect::Address;

use super::events::Event;
use super::{ASKED_MAX, OfSentinel, World};

/// The connection to the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    None,
    Opening { server: usize, number: u64 },
    Open { server: usize, number: u64 },
}

impl Connection {
    fn number(self) -> Option<u64> {
        match self {
            Connection::None => None,
            Connection::Opening { number, .. } | Connection::Open { number, .. } => Some(number),
        }
    }
}

fn digits(number: u64) -> usize {
    number.to_string().len()
}

impl World {
    /// Does what the client says, and connects to the master if there is no connection.
    pub(super) fn drive(&mut self) {
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Open { line, address, .. } => self.open_line(line, &address),
                Output::Close { line } => drop(self.lines.remove(&line)),
                Output::Changed(Role::Master) => self.follow(),
                Output::Changed(Role::Replica) => self.report.count("replica chosen"),
                Output::NotFound => self.report.count("not found"),
            }
        }
        if self.connection == Connection::None
            && let Some(server) = self.client.server(Role::Master)
            && let Some(at) = self.servers.iter().position(|it| it.address == server.address)
        {
            let is_early = |(number, at)| number == server.number && self.last_asked < at;
            if self.lost.is_some_and(is_early) {
                self.find(format!("{} was connected to again unasked", server.address));
            }
            self.connection = Connection::Opening { server: at, number: server.number };
            let wait = 1 + self.rng.below(20);
            self.schedule(wait, Event::Connect(server.number));
        }
    }

    /// Another master was learned.
    fn follow(&mut self) {
        let Some(server) = self.client.server(Role::Master) else { return };
        self.say(&format!("the master is {}", server.address));
        if self.connection.number() != Some(server.number)
            && self.mutation != Some(OfSentinel::KeepsTheOld)
        {
            self.connection = Connection::None;
        }
    }

    fn open_line(&mut self, line: LineId, address: &Address) {
        let times = self.asked.entry(address.clone()).or_default();
        times.push(self.now);
        let now = self.now;
        times.retain(|time| now.since(*time) < Duration::from_secs(10));
        if times.len() > ASKED_MAX {
            let count = times.len();
            self.find(format!("{address} was asked {count} times in 10 s"));
        }
        self.report.count("asked");
        self.last_asked = self.now;
        if let Some(at) = self.sentinels.iter().position(|it| it.address == *address) {
            self.lines.insert(line, at);
            let wait = 1 + self.rng.below(30);
            self.schedule(wait, Event::Answer(line));
        }
    }

    /// A Sentinel answers, or can't be reached.
    pub(super) fn answer(&mut self, line: LineId) {
        let Some(&at) = self.lines.get(&line) else { return };
        if !self.sentinels[at].is_reached {
            if self.rng.one_in(2) {
                self.lines.remove(&line);
                self.client.handle_closed(self.now, line, "it can't be reached");
            }
            return;
        }
        let mut text = self.sentinels[at].answers(&self.sentinels, &self.servers);
        if self.mutation == Some(OfSentinel::LastAnswer) {
            let told = |epoch: u64| format!("config-epoch\r\n${}\r\n{epoch}\r\n", digits(epoch));
            let (old, new) = (told(self.sentinels[at].epoch), told(1000 + self.scheduled));
            text = text.replace(&old, &new);
        }
        let master = self.servers[self.sentinels[at].master].address.clone();
        let epoch = self.sentinels[at].epoch;
        self.say(&format!("sentinel-{at} says {master} (epoch {epoch})"));
        let cut = self.rng.index(text.len());
        for part in [&text[..cut], &text[cut..]] {
            self.client.handle_input(self.now, line, part.as_bytes());
        }
        self.subscribed.insert(line);
        self.learned = self.learned.max(epoch);
    }

    /// The connection to the master is there, or fails.
    pub(super) fn connected(&mut self, number: u64) {
        let Connection::Opening { server, number: of } = self.connection else { return };
        if of != number {
            return;
        }
        if !self.servers[server].is_open() {
            // Refused at once, or after the host's limit.
            if self.rng.one_in(2) {
                return self.schedule(1000, Event::Timeout(number));
            }
            return self.lose("its connection was refused");
        }
        let role = Bytes::from(self.servers[server].role());
        let why = Reply::read(&role).ok().and_then(|(role, _)| unfit(Role::Master, &role));
        match why {
            Some(why) if self.mutation != Some(OfSentinel::NoRole) => {
                self.report.count("not the master");
                self.lose(&why);
            }
            _ => {
                self.say(&format!("connected to server-{server}"));
                self.report.count("connected");
                self.was_connected = true;
                self.connection = Connection::Open { server, number };
                self.client.handle_ready(self.now, Role::Master, number);
                if !self.servers[server].is_master {
                    self.find(format!("server-{server} is a replica, and was connected to"));
                }
            }
        }
    }

    pub(super) fn timed_out(&mut self, number: u64) {
        if matches!(self.connection, Connection::Opening { number: of, .. } if of == number) {
            self.lose("it did not answer");
        }
    }

    /// The connection to the master is lost.
    pub(super) fn lose(&mut self, why: &str) {
        let Some(number) = self.connection.number() else { return };
        self.say(&format!("lost: {why}"));
        self.report.count("lost");
        self.lost = Some((number, self.now));
        self.connection = Connection::None;
        if self.mutation != Some(OfSentinel::NoLoss) {
            self.client.handle_lost(self.now, Role::Master, number, why);
        }
    }

    /// A write, if there is a connection.
    pub(super) fn write(&mut self) {
        let Connection::Open { server, .. } = self.connection else { return };
        let of = &self.servers[server];
        if !of.is_open() {
            return self.lose("the server is away");
        }
        if !of.is_master {
            self.report.count("answered READONLY");
            return self.lose("READONLY");
        }
        self.report.count("written");
        let (epoch, learned) = (of.epoch, self.learned);
        if server != self.master {
            self.report.count("written to a former master that was not known to be one");
        }
        if epoch < learned {
            self.find(format!(
                "server-{server} was written to, the master of epoch {epoch}, after that of epoch \
                 {learned} was learned"
            ));
        }
    }
}
