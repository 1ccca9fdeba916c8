//! Counting trips. Pure.

/// Counts the trips of one connection.
///
/// A **trip** is a client write that comes after server bytes were delivered since the last one.
/// The proxy stands next to the client, so it sees both as the client does:
///
/// - The first client bytes of a connection, and the first after a [`mark`](Self::mark), open a
///   trip: nothing is unanswered.
/// - Further client bytes belong to that trip until server bytes are delivered, in however many
///   writes or reads they come.
/// - Bytes that the client wrote before server bytes reached it belong to the trip before: the
///   proxy reads the client's socket right before it delivers.
/// - Server bytes that nobody asked for (a notice, a push) end a trip like any others, but a trip
///   is counted only when the client writes again.
/// - A client that keeps writing while replies stream in opens a trip at each alternation; what
///   that counts depends on timing, and such runs print time divided by RTT instead.
pub(super) struct TripCounter {
    trips: u64,
    /// Whether the next client bytes open a trip.
    open_next: bool,
}

impl TripCounter {
    pub(super) fn new() -> Self {
        TripCounter { trips: 0, open_next: true }
    }

    /// Bytes came from the client.
    pub(super) fn client_wrote(&mut self) {
        if self.open_next {
            self.trips += 1;
            self.open_next = false;
        }
    }

    /// Bytes of the server were handed to the client.
    pub(super) fn server_delivered(&mut self) {
        self.open_next = true;
    }

    /// Begins to count anew: zero, and the next client bytes open a trip.
    pub(super) fn mark(&mut self) {
        *self = TripCounter::new();
    }

    pub(super) fn trips(&self) -> u64 {
        self.trips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays `c` (client bytes), `s` (server bytes delivered) and `m` (mark); returns the count.
    fn play(events: &str) -> u64 {
        let mut counter = TripCounter::new();
        for event in events.chars() {
            match event {
                'c' => counter.client_wrote(),
                's' => counter.server_delivered(),
                _ => counter.mark(),
            }
        }
        counter.trips()
    }

    #[test]
    fn a_trip_is_a_client_write_after_server_bytes() {
        for (events, trips) in [
            ("", 0),
            ("c", 1),
            ("ccc", 1),
            ("cs", 1),
            ("cscs", 2),
            ("cccsss", 1),
            ("cssccs", 2),
            ("sc", 1),
            ("s", 0),
            ("csm", 0),
            ("csmc", 1),
            ("cmc", 1),
            ("csmcscs", 2),
        ] {
            assert_eq!(play(events), trips, "{events}");
        }
    }
}
