//! Redis Sentinel as the host holds it: the client's policy, over connections that the host opens.
//!
//! The host has two kinds of connections. A *line* goes to a Sentinel: the host opens it, sends the
//! bytes that it was given, and hands over what comes. A *seat* is a connection to a server, or an
//! attempt at one: the host says for which [role] its pool wants it, is told where to connect, and
//! is told when to leave. Which server that is, how long an attempt waits for one, and what is
//! reported of connections that were lost is decided here and below.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use onetrip_engine::{NumberMap, Time};
use onetrip_redis::client::login::Login;
use onetrip_redis::client::sentinel::{
    Limits, LineId, Output, Reads, Role, Sentinels, Server, Settings,
};
use onetrip_redis::redirect::Address;

use crate::completion::{Completion, Completions, Record, kind, role};
use crate::settings::{Invalid, millis, pairs};

/// The Sentinels of one client.
#[allow(missing_debug_implementations, reason = "it holds what nobody should read")]
pub struct Sentinel {
    policy: Sentinels,
    reads: Reads,
    /// How long an attempt waits for its server.
    wait: Duration,
    seats: NumberMap<u32, Seat>,
    armed: Time,
    completions: Completions,
}

/// A connection of the host's to a server.
struct Seat {
    role: Role,
    stage: Stage,
}

enum Stage {
    /// No server with its role is known; until when it waits for one.
    Waits(Time),
    /// It is being opened to the server with this number.
    Dials(u64),
    /// It is open. Whether the policy has heard that its server is of no use.
    Open(u64, bool),
}

impl Sentinel {
    /// A client that knows no server yet. The settings are pairs of name and value, each ended by a
    /// zero byte: `master`, the name of the master at the Sentinels; `sentinel`, for each Sentinel
    /// its host, a colon, and its port; `user` and `password` for the Sentinels; `reads`: `master`
    /// (default), `replica` or `prefer_replica`; `wait_timeout_ms`, how long calls wait for a
    /// connection, 5 s by default. `seed`: a different number for each client.
    ///
    /// # Errors
    /// What is wrong with a setting, in one line.
    pub fn new(settings: &[u8], seed: u64) -> Result<Sentinel, Invalid> {
        let (mut name, mut sentinels) = (String::new(), Vec::new());
        let (mut login, mut reads) = (Login::default(), Reads::Master);
        let mut wait = Duration::from_secs(5);
        for (setting, value) in pairs(settings)? {
            match setting {
                "master" => name = value.into(),
                "sentinel" => sentinels.push(address(value)?),
                "user" => login.user = Some(value.into()),
                "password" => login.password = Some(value.into()),
                "reads" => reads = Reads::of(value).ok_or(READS)?,
                "wait_timeout_ms" => wait = millis(setting, value)?,
                _ => return Err(format!("{setting} is not a setting of Sentinels")),
            }
        }
        if name.is_empty() || sentinels.is_empty() {
            return Err("the settings of Sentinels name them and the master".into());
        }
        let wants_replicas = reads != Reads::Master;
        let limits = Limits::default();
        let settings = Settings { name, sentinels, login, wants_replicas, limits };
        Ok(Sentinel {
            policy: Sentinels::new(settings, seed),
            reads,
            wait,
            seats: NumberMap::default(),
            armed: Time::NEVER,
            completions: Completions::default(),
        })
    }

    // --- servers ---

    /// The host wants a connection to the server that has this [role], under a number of its own
    /// that no other seat has. `SENTINEL_DIAL` says where it is, `SENTINEL_NOT_FOUND` that it was
    /// not found in time.
    pub fn connect(&mut self, now: Time, seat: u32, role: u32) {
        let role = role_of(role);
        let until = now.after(self.wait - self.wait / 8);
        self.seats.insert(seat, Seat { role, stage: Stage::Waits(until) });
        self.dial(role);
    }

    /// The connection that was asked for is open, and its server has its role.
    pub fn opened(&mut self, now: Time, seat: u32) {
        let Some(Seat { role, stage }) = self.seats.get_mut(&seat) else { return };
        if let Stage::Dials(number) = *stage {
            *stage = Stage::Open(number, false);
            let role = *role;
            self.policy.handle_ready(now, role, number);
            self.settle();
        }
    }

    /// The connection could not be opened, or was lost. `why` is for messages.
    pub fn lost(&mut self, now: Time, seat: u32, why: &str) {
        self.useless(now, seat, why);
        self.seats.remove(&seat);
    }

    /// The server of this connection says that it has lost its role. The connection takes nothing
    /// new; what it has is still answered, unless `SENTINEL_LEAVE` comes.
    pub fn useless(&mut self, now: Time, seat: u32, why: &str) {
        let Some(Seat { role, stage }) = self.seats.get_mut(&seat) else { return };
        let (role, number) = match *stage {
            Stage::Dials(number) | Stage::Open(number, false) => (*role, number),
            Stage::Waits(_) | Stage::Open(_, true) => return,
        };
        if let Stage::Open(_, is_told) = stage {
            *is_told = true;
        }
        self.policy.handle_lost(now, role, number, why);
        self.settle();
    }

    /// The connection ended as it should, or is wanted no more.
    pub fn left(&mut self, seat: u32) {
        self.seats.remove(&seat);
    }

    /// Whether a replica answers a command now. `only_reads`: that is all it does, it goes by
    /// itself, and on a connection that others share.
    pub fn is_for_replica(&self, only_reads: bool) -> bool {
        let is_connected =
            |it: &Seat| it.role == Role::Replica && matches!(it.stage, Stage::Open(..));
        let is_connected = self.seats.values().any(is_connected);
        self.reads.role_for(only_reads, is_connected) == Role::Replica
    }

    /// Whether a replica may answer a command, now or later.
    pub fn reads_replicas(&self) -> bool {
        self.reads != Reads::Master
    }

    /// Where the server with this [role] is, if it may be connected to.
    pub fn server(&self, role: u32) -> Option<Address> {
        self.policy.server(role_of(role)).map(|server| server.address)
    }

    /// What each Sentinel said last, in one line.
    pub fn explain(&self) -> String {
        self.policy.explain()
    }

    // --- lines ---

    /// Bytes came from a Sentinel.
    pub fn input(&mut self, now: Time, line: u32, bytes: &[u8]) {
        self.policy.handle_input(now, LineId(line.into()), bytes);
        self.settle();
    }

    /// A connection to a Sentinel could not be opened, or has ended. `why` is for messages.
    pub fn closed(&mut self, now: Time, line: u32, why: &str) {
        self.policy.handle_closed(now, LineId(line.into()), why);
        self.settle();
    }

    /// Asks nobody any more.
    pub fn close(&mut self) {
        self.policy.close();
        self.settle();
    }

    // --- time ---

    /// It is so late. The first call asks the Sentinels.
    pub fn time(&mut self, now: Time) {
        self.armed = Time::NEVER;
        self.policy.handle_time(now);
        self.settle();
        let is_late = |it: &Seat| matches!(it.stage, Stage::Waits(until) if until <= now);
        let late: Vec<_> = self.seats.iter().filter(|it| is_late(it.1)).map(|it| *it.0).collect();
        for seat in late {
            let Some(Seat { role, .. }) = self.seats.remove(&seat) else { continue };
            let text = self.policy.not_found(role);
            self.completions.push(kind::SENTINEL_NOT_FOUND, seat, (0, 0), Bytes::from(text));
        }
    }

    /// When that is to be said next.
    pub fn deadline(&self) -> Time {
        let waits = self.seats.values().filter_map(|it| match it.stage {
            Stage::Waits(until) => Some(until),
            Stage::Dials(_) | Stage::Open(..) => None,
        });
        waits.chain(self.policy.poll_deadline()).min().unwrap_or(Time::NEVER)
    }

    /// After which time that is to be said next, if that is sooner than what was returned last.
    pub fn wait(&mut self, now: Time) -> Option<Duration> {
        let at = self.deadline();
        let is_sooner = at < self.armed;
        self.armed = self.armed.min(at);
        is_sooner.then(|| at.since(now))
    }

    /// Frees the records that were taken before, and takes those that came since. Returns how many.
    pub fn take(&mut self) -> usize {
        self.completions.take().len()
    }

    /// The records that were taken last.
    pub fn taken(&self) -> &[Completion] {
        self.completions.taken()
    }

    /// The records since the last call, for hosts in Rust.
    pub fn drain(&mut self) -> impl Iterator<Item = Record> {
        self.completions.drain()
    }

    // --- outputs ---

    fn settle(&mut self) {
        while let Some(output) = self.policy.poll_output() {
            match output {
                Output::Open { line, address, send } => {
                    let numbers = (address.port.into(), address.host.len() as u32);
                    let mut block = BytesMut::from(address.host.as_bytes());
                    block.extend_from_slice(&send);
                    self.completions.push(
                        kind::SENTINEL_OPEN,
                        number(line),
                        numbers,
                        block.freeze(),
                    );
                }
                Output::Close { line } => {
                    self.completions.push(kind::SENTINEL_CLOSE, number(line), (0, 0), Bytes::new());
                }
                Output::Changed(role) => self.changed(role),
                // Attempts go on waiting until it is too late for them.
                Output::NotFound => {}
            }
        }
    }

    /// The server for this role is another one: connections to others are left.
    fn changed(&mut self, role: Role) {
        let number = self.policy.server(role).map(|server| server.number);
        let is_left = |it: &Seat| {
            it.role == role && matches!(it.stage, Stage::Open(of, _) if Some(of) != number)
        };
        let left: Vec<_> = self.seats.iter().filter(|it| is_left(it.1)).map(|it| *it.0).collect();
        for seat in left {
            self.seats.remove(&seat);
            self.completions.push(kind::SENTINEL_LEAVE, seat, (0, 0), Bytes::new());
        }
        self.dial(role);
    }

    /// Attempts that wait for the server of this role, or that go to another one, go to it.
    fn dial(&mut self, role: Role) {
        let Some(Server { address, number }) = self.policy.server(role) else { return };
        for (seat, it) in self.seats.iter_mut().filter(|it| it.1.role == role) {
            match it.stage {
                Stage::Waits(_) => {}
                Stage::Dials(of) if of != number => {}
                Stage::Dials(_) | Stage::Open(..) => continue,
            }
            it.stage = Stage::Dials(number);
            let numbers = (role_code(role), address.port.into());
            let host = Bytes::copy_from_slice(address.host.as_bytes());
            self.completions.push(kind::SENTINEL_DIAL, *seat, numbers, host);
        }
    }
}

const READS: &str = "reads takes master, replica or prefer_replica";

fn address(text: &str) -> Result<Address, Invalid> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    let address = port.parse().ok().and_then(|port| Address::new(host, port));
    address.ok_or_else(|| "a Sentinel has a host and a port".into())
}

/// The host's number of a line. Those of lines that are open at the same time differ.
fn number(line: LineId) -> u32 {
    line.0 as u32
}

fn role_of(code: u32) -> Role {
    if code == role::REPLICA { Role::Replica } else { Role::Master }
}

fn role_code(role: Role) -> u32 {
    match role {
        Role::Master => role::MASTER,
        Role::Replica => role::REPLICA,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SETTINGS: &[u8] =
        b"master\0m\0sentinel\0a:1\0reads\0prefer_replica\0wait_timeout_ms\x00800\0";

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    /// All records since the last call: their kinds, tokens, and blocks as text.
    fn told(sentinel: &mut Sentinel) -> Vec<(u32, u32, String)> {
        let text = |it: Record| (it.kind, it.token, String::from_utf8_lossy(&it.block).into());
        sentinel.drain().map(text).collect()
    }

    /// What a Sentinel says that knows itself, this master, and perhaps a replica.
    fn says(master: &str, epoch: u32, replica: Option<&str>) -> String {
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let list = |texts: &[&str]| {
            format!("*{}\r\n{}", texts.len(), texts.iter().map(|it| bulk(it)).collect::<String>())
        };
        let about = list(&["config-epoch", &epoch.to_string(), "num-other-sentinels", "0"]);
        let replicas = replica.map(|host| list(&["ip", host, "port", "7", "flags", "slave"]));
        let replicas = format!("*{}\r\n{}", replicas.iter().len(), replicas.unwrap_or_default());
        let address = list(&[master, "7"]);
        format!("{}{about}{address}*0\r\n{replicas}", bulk("id"))
    }

    /// One that has asked its Sentinel on this line.
    fn asked() -> (Sentinel, u32) {
        let mut sentinel = Sentinel::new(SETTINGS, 1).unwrap();
        sentinel.time(at(0));
        let told = told(&mut sentinel);
        let [(kind::SENTINEL_OPEN, line, block)] = &told[..] else { panic!("{told:?}") };
        assert!(block.starts_with("a*2\r\n$8\r\nSENTINEL\r\n"), "{block}");
        (sentinel, *line)
    }

    #[test]
    fn an_attempt_goes_where_the_sentinels_say_and_moves_with_them() {
        let (mut sentinel, line) = asked();
        sentinel.connect(at(0), 5, role::MASTER);
        assert_eq!(told(&mut sentinel), []);
        sentinel.input(at(1), line, says("one", 1, None).as_bytes());
        assert_eq!(told(&mut sentinel), [(kind::SENTINEL_DIAL, 5, "one".into())]);
        sentinel.opened(at(2), 5);
        sentinel.connect(at(2), 6, role::MASTER);
        assert_eq!(told(&mut sentinel), [(kind::SENTINEL_DIAL, 6, "one".into())]);

        // Another master: what is open leaves, and what is being opened goes there.
        sentinel.lost(at(100), 7, "no seat has this number");
        sentinel.useless(at(2_000), 5, "READONLY");
        let [(kind::SENTINEL_CLOSE, ..), (kind::SENTINEL_OPEN, line, _)] = told(&mut sentinel)[..]
        else {
            panic!("it is not asked again")
        };
        sentinel.input(at(2_001), line, says("two", 2, None).as_bytes());
        let said = told(&mut sentinel);
        assert_eq!(
            said,
            [(kind::SENTINEL_LEAVE, 5, String::new()), (kind::SENTINEL_DIAL, 6, "two".into())]
        );
    }

    #[test]
    fn an_attempt_that_finds_no_server_ends_before_those_who_wait_for_it() {
        let (mut sentinel, line) = asked();
        sentinel.connect(at(0), 5, role::REPLICA);
        sentinel.input(at(1), line, says("one", 1, None).as_bytes());
        assert_eq!(sentinel.wait(at(1)), Some(Duration::from_millis(699)));
        assert_eq!(sentinel.wait(at(1)), None);
        sentinel.time(at(700));
        let said = told(&mut sentinel);
        let [(kind::SENTINEL_NOT_FOUND, 5, text)] = &said[..] else { panic!("{said:?}") };
        assert!(text.starts_with("a replica was not found: "), "{text}");
    }

    #[test]
    fn a_replica_answers_reads_while_a_connection_to_one_stands() {
        let (mut sentinel, line) = asked();
        sentinel.connect(at(0), 5, role::REPLICA);
        sentinel.input(at(1), line, says("one", 1, Some("other")).as_bytes());
        assert_eq!(told(&mut sentinel), [(kind::SENTINEL_DIAL, 5, "other".into())]);
        assert!(!sentinel.is_for_replica(true));
        sentinel.opened(at(2), 5);
        assert!(sentinel.is_for_replica(true) && !sentinel.is_for_replica(false));
        sentinel.lost(at(3), 5, "it is gone");
        assert!(!sentinel.is_for_replica(true));
    }

    #[test]
    fn settings_are_refused_without_their_values() {
        for (settings, why) in [
            (&b"master\0m\0"[..], "name them"),
            (b"sentinel\0secret\0", "a host and a port"),
            (b"reads\0secret\0", "prefer_replica"),
            (b"colour\0secret\0", "colour is not"),
        ] {
            let error = Sentinel::new(settings, 1).err().unwrap();
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
        }
    }
}
