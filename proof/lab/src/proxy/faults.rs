//! Faults on command: what may be asked for, and the pure rule of how they change what one
//! direction delivers.

use super::config::Direction;
use super::queue::End;

/// Something that goes wrong on the line, from the moment [`Proxy::fault`](super::Proxy::fault)
/// returns. Byte counts are bytes delivered in that direction from then on, whether they were
/// already on the line or not. A fault applies at the moment of delivery; it has no delay of its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// After exactly `bytes` more bytes both sides see an orderly end of stream; the rest, of
    /// either direction, is dropped.
    CutAfter {
        /// The direction whose bytes are counted.
        direction: Direction,
        /// Bytes still delivered; 0 cuts at once.
        bytes: u64,
    },
    /// After `bytes` more bytes both sides see a connection reset. The kernel may drop delivered
    /// bytes that it has not transmitted when the reset comes, so fewer than `bytes` can arrive,
    /// never more.
    ResetAfter {
        /// The direction whose bytes are counted.
        direction: Direction,
        /// Bytes still delivered; 0 resets at once.
        bytes: u64,
    },
    /// Deliver nothing (no bytes, no end of stream) until [`Fault::Resume`]. Reading goes on up to
    /// the byte cap.
    Stall {
        /// The direction that stalls.
        direction: Direction,
    },
    /// Deliver again; what became due during the stall leaves at once.
    Resume {
        /// The direction that stalled.
        direction: Direction,
    },
    /// Deliver each byte by a write of its own. The receiver's kernel may still join them if the
    /// receiver reads late.
    ByteAtATime {
        /// The direction it applies to.
        direction: Direction,
        /// On or off.
        on: bool,
    },
}

impl Fault {
    /// The direction that the fault names.
    pub fn direction(&self) -> Direction {
        match *self {
            Fault::CutAfter { direction, .. }
            | Fault::ResetAfter { direction, .. }
            | Fault::Stall { direction }
            | Fault::Resume { direction }
            | Fault::ByteAtATime { direction, .. } => direction,
        }
    }
}

/// Which connections a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those open now.
    Present,
    /// Those accepted from now on.
    Future,
    /// Both.
    All,
    /// The one with this [id](super::ConnectionStats::id), if it is open.
    Connection(u64),
}

/// The faults in force in one direction of one connection, or kept for future connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    stalled: bool,
    byte_at_a_time: bool,
    /// Bytes left until the connection ends, and how it does.
    end_after: Option<(u64, End)>,
}

impl Faults {
    /// Puts a fault in force; a second cut or reset replaces the first.
    pub(super) fn apply(&mut self, fault: Fault) {
        match fault {
            Fault::CutAfter { bytes, .. } => self.end_after = Some((bytes, End::Eof)),
            Fault::ResetAfter { bytes, .. } => self.end_after = Some((bytes, End::Reset)),
            Fault::Stall { .. } => self.stalled = true,
            Fault::Resume { .. } => self.stalled = false,
            Fault::ByteAtATime { on, .. } => self.byte_at_a_time = on,
        }
    }

    pub(super) fn stalled(&self) -> bool {
        self.stalled
    }

    /// How many of `due` bytes the next write may carry.
    pub(super) fn allowed(&self, due: usize) -> usize {
        if self.stalled {
            return 0;
        }
        let until_end = self.end_after.map_or(u64::MAX, |(bytes, _)| bytes);
        let write_max = if self.byte_at_a_time { 1 } else { usize::MAX };
        due.min(write_max).min(usize::try_from(until_end).unwrap_or(usize::MAX))
    }

    /// `bytes` were delivered.
    pub(super) fn delivered(&mut self, bytes: usize) {
        if let Some((left, _)) = &mut self.end_after {
            *left = left.saturating_sub(bytes as u64);
        }
    }

    /// How the connection ends now, if a fault says so. A stall comes first: a stalled direction
    /// ends when it is resumed.
    pub(super) fn end(&self) -> Option<End> {
        match self.end_after {
            Some((0, end)) if !self.stalled => Some(end),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTION: Direction = Direction::Up;

    #[test]
    fn without_faults_everything_due_is_allowed() {
        let faults = Faults::default();
        assert_eq!((faults.allowed(10), faults.end()), (10, None));
    }

    #[test]
    fn a_cut_allows_exactly_its_bytes_and_then_ends() {
        let mut faults = Faults::default();
        faults.apply(Fault::CutAfter { direction: DIRECTION, bytes: 5 });
        assert_eq!((faults.allowed(10), faults.end()), (5, None));
        faults.delivered(3);
        assert_eq!((faults.allowed(10), faults.end()), (2, None));
        faults.delivered(2);
        assert_eq!((faults.allowed(10), faults.end()), (0, Some(End::Eof)));
    }

    #[test]
    fn a_stall_holds_bytes_and_a_reset_until_resumed() {
        let mut faults = Faults::default();
        faults.apply(Fault::Stall { direction: DIRECTION });
        faults.apply(Fault::ResetAfter { direction: DIRECTION, bytes: 0 });
        assert_eq!((faults.allowed(10), faults.end()), (0, None));
        faults.apply(Fault::Resume { direction: DIRECTION });
        assert_eq!(faults.end(), Some(End::Reset));
    }

    #[test]
    fn byte_at_a_time_allows_one() {
        let mut faults = Faults::default();
        faults.apply(Fault::ByteAtATime { direction: DIRECTION, on: true });
        assert_eq!((faults.allowed(10), faults.allowed(0)), (1, 0));
        faults.apply(Fault::ByteAtATime { direction: DIRECTION, on: false });
        assert_eq!(faults.allowed(10), 10);
    }
}
