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
/// - Unsolicited server bytes (a notice, a push) end a trip like any others, but a trip is counted
///   only when the client writes again.
/// - A client that keeps writing while replies stream in opens a trip at each alternation; what
///   that counts depends on timing, and such runs print time divided by RTT instead.
pub(super) struct TripCounter {
    trips: u64,
    /// Whether a trip is under way, so that the next client bytes belong to it.
    is_under_way: bool,
}

impl TripCounter {
    pub(super) fn new() -> Self {
        TripCounter { trips: 0, is_under_way: false }
    }

    /// Bytes came from the client, and bytes of this connection were on the line or not.
    pub(super) fn client_wrote(&mut self, on_the_line: bool, side_by_side: &mut SideBySide) {
        if !self.is_under_way {
            self.trips += 1;
            self.is_under_way = true;
            side_by_side.began(on_the_line);
        }
    }

    /// Bytes of the server were handed to the client, or the connection has ended.
    pub(super) fn ended(&mut self, side_by_side: &mut SideBySide) {
        if std::mem::take(&mut self.is_under_way) {
            side_by_side.ended();
        }
    }

    /// Begins to count anew: zero, and the next client bytes open a trip.
    pub(super) fn mark(&mut self) {
        *self = TripCounter::new();
    }

    pub(super) fn trips(&self) -> u64 {
        self.trips
    }
}

/// Counts the trips of all connections that were not waited for one after the other.
///
/// A trip is **under way** from its first client bytes until server bytes are delivered on its
/// connection. It is **side by side** with others if, while it was under way, a trip of another
/// connection was, too; or if it began while bytes of its own connection were on the line, sent and
/// not delivered, in either direction: what was asked before was not answered yet. All others were
/// waited for one after the other.
#[derive(Default)]
pub(super) struct SideBySide {
    trips: u64,
    under_way: u64,
    /// Whether the only trip under way is not counted yet.
    is_alone: bool,
}

impl SideBySide {
    fn began(&mut self, on_the_line: bool) {
        self.under_way += 1;
        if self.under_way > 1 {
            self.trips += 1 + u64::from(std::mem::take(&mut self.is_alone));
        } else if on_the_line {
            self.trips += 1;
        } else {
            self.is_alone = true;
        }
    }

    fn ended(&mut self) {
        self.under_way -= 1;
        // Each of the remaining trips ran beside the one that has ended.
        self.is_alone = false;
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
        let (mut counter, mut beside) = (TripCounter::new(), SideBySide::default());
        for event in events.chars() {
            match event {
                'c' => counter.client_wrote(false, &mut beside),
                's' => counter.ended(&mut beside),
                _ => {
                    counter.mark();
                    beside = SideBySide::default();
                }
            }
        }
        assert_eq!(beside.trips(), 0, "one connection waits for each: {events}");
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

    /// Plays the client bytes of connections `a` to `c`, `+` behind one that has bytes on the line,
    /// and the server bytes `A` to `C`; returns all trips and those side by side.
    fn play_several(events: &str) -> (u64, u64) {
        let mut counters = [(); 3].map(|()| TripCounter::new());
        let mut beside = SideBySide::default();
        let mut events = events.bytes().peekable();
        while let Some(event) = events.next() {
            match event {
                b'a'..=b'c' => {
                    let on_the_line = events.next_if_eq(&b'+').is_some();
                    counters[usize::from(event - b'a')].client_wrote(on_the_line, &mut beside);
                }
                _ => counters[usize::from(event - b'A')].ended(&mut beside),
            }
        }
        (counters.iter().map(TripCounter::trips).sum(), beside.trips())
    }

    #[test]
    fn trips_that_were_under_way_together_are_side_by_side() {
        for (events, trips, side_by_side) in [
            ("aAbBaA", 3, 0),
            ("abAB", 2, 2),
            ("abABaAbB", 4, 2),
            ("abAaBbAB", 4, 4),
            ("abcABCaA", 4, 3),
            ("aabA", 2, 2),
            ("abBbBA", 3, 3),
            // One that goes on writing while its replies stream in.
            ("aAa+Aa+AaA", 4, 2),
            ("a+bAB", 2, 2),
        ] {
            assert_eq!(play_several(events), (trips, side_by_side), "{events}");
        }
    }
}
