//! One connection: the engine, what is prepared on it, the server, and the bytes in between.

use std::collections::BTreeSet;

use onetrip_engine::{Connection, Time};
use onetrip_postgres::Postgres;
use onetrip_postgres::client::named::Named;
use onetrip_postgres::client::statements::Statements;
use onetrip_postgres::message::TransactionStatus;

use super::remembered::Learned;
use super::{OfMigrations, World};
use crate::model::{Config, Noise, Server};
use crate::sim::link::Link;

pub(super) struct Line {
    pub(super) engine: Connection<Postgres>,
    pub(super) statements: Statements<Learned>,
    pub(super) named: Named<Learned>,
    pub(super) link: Link<Server>,
    /// Calls that have not ended.
    pub(super) open: BTreeSet<u64>,
    /// Whether one caller has it to himself, and the path that he has set, in the order of what was
    /// sent.
    pub(super) is_lent: bool,
    pub(super) path: usize,
    /// The transaction that is open, by the number of its unit.
    pub(super) block: Option<u64>,
    pub(super) segments: u64,
    /// The COPY whose end the host has to send.
    pub(super) copying: Option<u64>,
    pub(super) is_closed: bool,
}

/// The process that the model server says it is.
const PROCESS_ID: i32 = 4711;

impl Line {
    pub(super) fn new(world: &mut World, number: usize) -> Line {
        let (settings, unique) = (&world.settings, number as u64 + 1);
        let mut protocol = Postgres::new(TransactionStatus::Idle);
        protocol.identify(PROCESS_ID, unique);
        let zone = if world.schema.zone() == 0 { "UTC" } else { "Etc/GMT-3" };
        protocol.greeted(&[("TimeZone".to_owned(), zone.to_owned())]);
        protocol.share();
        let noise = Noise { rng: world.rng.split(), one_in: settings.noise };
        let config =
            Config { noise: Some(noise), schema: Some(world.schema.clone()), ..Config::default() };
        let mut server = Server::ready(config, world.log.clone());
        if settings.is_pooled {
            server.rename_statements();
        }
        let mut link = Link::new(server, &settings.network);
        link.down.cut_at = settings.cut.filter(|(of, _)| *of == number).map(|(_, byte)| byte);
        let mut statements = Statements::new(settings.statements_max, unique);
        if world.mutation != Some(OfMigrations::NoGeneration) {
            statements.share(world.texts.generation());
        }
        let limits = settings.network.limits.clone();
        Line {
            engine: Connection::new(Time::ZERO, protocol, limits),
            statements,
            named: Named::default(),
            link,
            open: BTreeSet::new(),
            is_lent: false,
            path: 0,
            block: None,
            segments: 0,
            copying: None,
            is_closed: false,
        }
    }
}

impl World {
    /// Some bytes move, or time passes until some can.
    pub(super) fn shuffle(&mut self) {
        let mut moved = false;
        for at in 0..self.lines.len() {
            for way in 0..4 {
                moved |= self.rng.one_in(2) && self.moves(at, way);
            }
        }
        let all = || (0..4).flat_map(|way| (0..self.lines.len()).map(move |at| (at, way)));
        let all: Vec<_> = all().collect();
        if !moved && !all.into_iter().fold(false, |moved, (at, way)| moved | self.moves(at, way)) {
            let next = self.lines.iter().map(|line| line.link.next()).min();
            if let Some(next) = next.filter(|next| *next != Time::NEVER) {
                self.now = self.now.max(next);
            }
        }
        self.drain();
    }

    /// Moves some bytes; false if there are none.
    fn moves(&mut self, at: usize, way: u64) -> bool {
        let (now, max) = (self.now, self.rng.up_to(self.settings.network.chunk_max));
        let line = &mut self.lines[at];
        match way {
            0 => {
                let len = line.engine.transmit().len().min(max);
                if len > 0 {
                    line.link.up.push(now, &line.engine.transmit()[..len]);
                    line.engine.handle_written(now, len);
                }
                len > 0
            }
            1 if line.link.server.wants_bytes() => {
                let bytes = line.link.up.pop(now, max);
                line.link.server.handle_bytes(&bytes);
                !bytes.is_empty()
            }
            2 => {
                let link = &mut line.link;
                let len = link.server.transmit().len().min(max);
                if len > 0 {
                    link.down.push(now, &link.server.transmit()[..len]);
                    link.server.handle_written(len);
                }
                len > 0
            }
            3 if !line.is_closed => self.reads(at, max),
            _ => false,
        }
    }

    fn reads(&mut self, at: usize, max: usize) -> bool {
        let (now, line) = (self.now, &mut self.lines[at]);
        let bytes = line.link.down.pop(now, max);
        if !bytes.is_empty() {
            line.link.input.extend_from_slice(&bytes);
            line.engine.handle_bytes(now, &mut line.link.input);
            return true;
        }
        if line.link.down.is_over() {
            line.engine.handle_closed();
            line.is_closed = true;
            line.link.hang_up(0);
            return true;
        }
        false
    }
}
