//! Commands on places: a sorted set of members with longitude and latitude.

use onetrip_redis::{Command, ToArg};

use super::args::put_triples;
use super::options::{GeoArea, GeoOptions, Unit};
use crate::redis::{FromReply, Sends};

/// Commands on places: a sorted set of members with longitude and latitude.
///
/// Implemented for everything that [`Sends`].
pub trait GeoCommands: Sends {
    /// `GEOADD`: adds places, each a longitude, a latitude and a member. Replies with how many are
    /// new.
    fn geoadd(
        &self,
        key: impl ToArg,
        places: impl IntoIterator<Item = (impl ToArg, impl ToArg, impl ToArg)>,
    ) -> Self::Answer<u64> {
        self.send(put_triples(Command::new("GEOADD").arg(key), places))
    }

    /// `GEODIST`: the distance between two members; nil if one of them is missing.
    fn geodist(
        &self,
        key: impl ToArg,
        member1: impl ToArg,
        member2: impl ToArg,
        unit: Unit,
    ) -> Self::Answer<Option<f64>> {
        self.send(Command::new("GEODIST").arg(key).arg(member1).arg(member2).arg(unit))
    }

    /// `GEOHASH`: the geohashes of members in their order, nil for each that is missing.
    fn geohash<T: FromReply>(
        &self,
        key: impl ToArg,
        members: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(Command::new("GEOHASH").arg(key).args(members))
    }

    /// `GEOPOS`: longitude and latitude of members in their order.
    fn geopos(
        &self,
        key: impl ToArg,
        members: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<Vec<Option<(f64, f64)>>> {
        self.send(Command::new("GEOPOS").arg(key).args(members))
    }

    /// `GEOSEARCH`: the members within an area, with the data that the options request.
    fn geosearch<T: FromReply>(
        &self,
        key: impl ToArg,
        area: GeoArea,
        options: GeoOptions,
    ) -> Self::Answer<T> {
        self.send(options.add(area.add(Command::new("GEOSEARCH").arg(key))))
    }

    /// `GEOSEARCHSTORE`: makes a sorted set of the members within an area. Replies with how many
    /// there are.
    fn geosearchstore(
        &self,
        destination: impl ToArg,
        source: impl ToArg,
        area: GeoArea,
        options: GeoOptions,
    ) -> Self::Answer<u64> {
        self.send(
            options.add(area.add(Command::new("GEOSEARCHSTORE").arg(destination).arg(source))),
        )
    }
}

impl<S: Sends + ?Sized> GeoCommands for S {}
