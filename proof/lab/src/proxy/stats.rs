//! What a proxy has counted.

/// Counts since the proxy started, or since [`Proxy::reset_stats`](super::Proxy::reset_stats).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections accepted.
    pub connections: u64,
    /// Bytes delivered to the server.
    pub bytes_up: u64,
    /// Bytes delivered to the client.
    pub bytes_down: u64,
    /// Trips of all connections: client writes that came after server bytes were delivered since
    /// the last one. See [the module](super#trips).
    pub trips: u64,
    /// Those of them that were under way together, or began while bytes of their own connection
    /// were on the line; all others were waited for one after the other. See [the
    /// module](super#trips).
    pub side_by_side: u64,
    /// Those of the above that belong to connections open now, in the order in which they were
    /// accepted.
    pub open: Vec<ConnectionStats>,
}

/// Counts of one open connection, for the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStats {
    /// 0 for the first connection that the proxy accepted, and so on; never used again.
    pub id: u64,
    /// Bytes delivered to the server.
    pub bytes_up: u64,
    /// Bytes delivered to the client.
    pub bytes_down: u64,
    /// Trips.
    pub trips: u64,
}

impl Stats {
    /// Adds one connection's counts to the totals.
    pub(super) fn add(&mut self, connection: &ConnectionStats) {
        self.bytes_up += connection.bytes_up;
        self.bytes_down += connection.bytes_down;
        self.trips += connection.trips;
    }
}
