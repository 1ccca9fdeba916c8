//! Options of commands on places.

use onetrip_redis::{Command, ToArg};

use super::options;
use super::words::words;

options! {
    /// Options of `GEOSEARCH`: the data in its reply, and how much.
    GeoOptions;
}

words! {
    /// A unit of length.
    Unit {
        /// Metres.
        Metres = b"m",
        /// Kilometres.
        Kilometres = b"km",
        /// Feet.
        Feet = b"ft",
        /// Miles.
        Miles = b"mi",
    }
}

/// The area in which `GEOSEARCH` looks: around a member or a place, a circle or a box.
///
/// ```
/// use onetrip::redis::commands::{GeoArea, Unit};
///
/// let area = GeoArea::around("Palermo").radius(100.0, Unit::Kilometres);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeoArea {
    middle: Command,
    shape: Command,
}

impl GeoArea {
    /// Around a member.
    #[must_use]
    pub fn around(member: impl ToArg) -> GeoArea {
        GeoArea { middle: Command::new("FROMMEMBER").arg(member), shape: Command::new("") }
    }

    /// Around a position.
    #[must_use]
    pub fn around_place(longitude: f64, latitude: f64) -> GeoArea {
        let middle = Command::new("FROMLONLAT").arg(longitude).arg(latitude);
        GeoArea { middle, shape: Command::new("") }
    }

    /// At most this far away.
    #[must_use]
    pub fn radius(self, radius: f64, unit: Unit) -> GeoArea {
        GeoArea { shape: Command::new("BYRADIUS").arg(radius).arg(unit), ..self }
    }

    /// In a box of this width and height around it.
    #[must_use]
    pub fn within(self, width: f64, height: f64, unit: Unit) -> GeoArea {
        GeoArea { shape: Command::new("BYBOX").arg(width).arg(height).arg(unit), ..self }
    }

    pub(in crate::redis::commands) fn add(&self, command: Command) -> Command {
        command.args(self.middle.iter()).args(self.shape.iter())
    }
}

impl GeoOptions {
    /// `ASC`: the nearest first.
    #[must_use]
    pub fn asc(self) -> GeoOptions {
        GeoOptions(self.0.word(0, "ASC"))
    }

    /// `DESC`: the furthest first.
    #[must_use]
    pub fn desc(self) -> GeoOptions {
        GeoOptions(self.0.word(0, "DESC"))
    }

    /// `COUNT`: at most `count`, the nearest ones.
    #[must_use]
    pub fn count(self, count: u64) -> GeoOptions {
        GeoOptions(self.0.value(1, "COUNT", count))
    }

    /// `COUNT … ANY`: at most `count`, not necessarily the nearest ones.
    #[must_use]
    pub fn count_any(self, count: u64) -> GeoOptions {
        GeoOptions(self.0.set(1, Command::new("COUNT").arg(count).arg("ANY")))
    }

    /// `WITHCOORD`: with longitude and latitude. Not for `GEOSEARCHSTORE`.
    #[must_use]
    pub fn withcoord(self) -> GeoOptions {
        GeoOptions(self.0.word(2, "WITHCOORD"))
    }

    /// `WITHDIST`: with the distance, in the unit of the area. Not for `GEOSEARCHSTORE`.
    #[must_use]
    pub fn withdist(self) -> GeoOptions {
        GeoOptions(self.0.word(3, "WITHDIST"))
    }

    /// `WITHHASH`: with the geohash as an integer. Not for `GEOSEARCHSTORE`.
    #[must_use]
    pub fn withhash(self) -> GeoOptions {
        GeoOptions(self.0.word(4, "WITHHASH"))
    }

    /// `STOREDIST`: the scores are distances. For `GEOSEARCHSTORE` alone.
    #[must_use]
    pub fn storedist(self) -> GeoOptions {
        GeoOptions(self.0.word(5, "STOREDIST"))
    }
}
