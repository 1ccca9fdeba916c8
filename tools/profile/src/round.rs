//! The round trip of the network, from what connections measured and from the cheapest trips.
//!
//! The handshake of a connection says how far the next machine is. Behind a proxy in user space the
//! server may be farther than that: then the cheapest trip says so, since no trip is shorter than
//! the network. So a range is known, and the estimate is one of its ends.

use crate::exchange::{Exchange, Kind, TextId};
use crate::piece::{Legs, Nanos};
use crate::unit::Unit;

/// What is known of the round trips of one protocol's connections.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// The least that connections measured.
    measured: Legs,
    /// The least that a trip took above what its connection had measured.
    least_above: Option<Nanos>,
    /// Trips of nothing but statements that cost the server next to nothing.
    cheap: u64,
    pub(crate) trips: u64,
    /// Different texts, up to as many as are enough.
    texts: Vec<TextId>,
}

/// Cheap trips that are enough to take the least trip for the network.
const CHEAP_MIN: u64 = 8;
/// Trips of any kind, and different texts in them, that are enough for the same: one of so many
/// takes a server that serves programs, and not reports, next to nothing.
const TRIPS_MIN: u64 = 200;
const TEXTS_MIN: usize = 5;
/// What the least trip may take above the handshake and still be the server's own work.
const ABOVE_MAX: Nanos = 100_000;

impl Round {
    /// Looks at a unit of a connection that measured these legs.
    pub(crate) fn add(&mut self, unit: &Unit, legs: Legs) {
        self.measured = self.measured.least(legs);
        self.trips += unit.trips.len() as u64;
        for exchange in &unit.exchanges {
            if self.texts.len() < TEXTS_MIN && !self.texts.contains(&exchange.text) {
                self.texts.push(exchange.text);
            }
        }
        let mut exchanges = &unit.exchanges[..];
        for trip in &unit.trips {
            let (own, rest) = exchanges.split_at((trip.exchanges as usize).min(exchanges.len()));
            exchanges = rest;
            // A pooler answers logins itself, though the server is farther.
            if own.iter().any(|it| it.kind == Kind::Login) {
                continue;
            }
            let above = (trip.end - trip.begin).saturating_sub(legs.server.unwrap_or(0));
            self.least_above = Some(self.least_above.map_or(above, |least| least.min(above)));
            self.cheap += u64::from(!own.is_empty() && own.iter().all(is_cheap));
        }
    }

    /// What a trip takes on the network beyond what its connection measured.
    pub(crate) fn hidden(&self) -> Nanos {
        let Some(above) = self.least_above else { return 0 };
        match self.measured.server {
            None => above,
            Some(leg) => {
                let is_farther = above > ABOVE_MAX.max(leg / 4);
                if is_farther && (self.has_cheap() || self.has_many()) { above } else { 0 }
            }
        }
    }

    fn has_cheap(&self) -> bool {
        self.cheap >= CHEAP_MIN
    }

    fn has_many(&self) -> bool {
        self.trips >= TRIPS_MIN && self.texts.len() >= TEXTS_MIN
    }

    /// From the program to the server and back.
    pub(crate) fn estimate(&self) -> Option<Nanos> {
        self.least_above?;
        Some(self.measured.whole().unwrap_or(0) + self.hidden())
    }

    /// The least and the most that it can be.
    pub(crate) fn range(&self) -> Option<[Nanos; 2]> {
        let least = self.measured.whole().unwrap_or(0);
        Some([least, least + self.least_above?])
    }

    /// Where the estimate comes from.
    pub(crate) fn source(&self) -> &'static str {
        match (self.measured.server, self.hidden()) {
            (None, _) => "least trip",
            (Some(_), 0) => "handshake",
            (Some(_), _) if self.has_cheap() => "least cheap trip",
            (Some(_), _) => "least of many trips",
        }
    }
}

fn is_cheap(exchange: &Exchange) -> bool {
    matches!(
        exchange.kind,
        Kind::Begin
            | Kind::Commit
            | Kind::Rollback
            | Kind::Savepoint
            | Kind::Session
            | Kind::Ping
            | Kind::Prepare
    )
}
