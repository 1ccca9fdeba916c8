//! Positions in the write-ahead log: where a cluster was when writes were acknowledged, as a token
//! that programs can hand on; and what a client knows of those of its own writes.
//!
//! A position holds for one branch of a cluster's history. Behind a promotion the log goes on under
//! a new timeline, and a former primary may have written more than its successor has. So positions
//! of different timelines are not compared by their numbers alone.

use std::fmt;
use std::str::FromStr;

/// A place in the write-ahead log of a cluster, as a token: a server that has replayed up to it
/// shows all writes that were acknowledged before it was taken.
///
/// Its text is some 40 letters, digits and `-`, which a cookie or a header can carry as they are. It
/// ends with a check of the rest, so that one that was cut short or mistyped is no position rather
/// than an older one. It is no secret, and proves nothing: who forges one sees less, or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The cluster's system identifier, the same on all of its servers.
    pub system: u64,
    /// The timeline that was written to.
    pub timeline: u32,
    /// The place in the log (LSN).
    pub lsn: u64,
}

impl Position {
    /// Whether a server shows all writes up to `other` if it has replayed up to `self`. `self` may
    /// be on a later timeline: then what `other` names either came along, or was lost in the
    /// failover, and no server has it.
    #[must_use]
    pub fn covers(&self, other: &Position) -> bool {
        self.system == other.system && self.timeline >= other.timeline && self.lsn >= other.lsn
    }

    /// The position that covers both, as far as one does: the one on the later timeline, else the
    /// larger one. Of two clusters it is `other`.
    #[must_use]
    pub fn max(self, other: Position) -> Position {
        let is_later = (self.timeline, self.lsn) > (other.timeline, other.lsn);
        if self.system == other.system && is_later { self } else { other }
    }

    fn is_of_later_timeline_than(&self, other: &Position) -> bool {
        self.system == other.system && self.timeline > other.timeline
    }

    /// What the text ends with: FNV-1a of the numbers.
    fn check(&self) -> u32 {
        let numbers = [self.system, self.timeline.into(), self.lsn].map(u64::to_le_bytes);
        numbers
            .as_flattened()
            .iter()
            .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
    }

    /// Reads the texts of a row: the system identifier, the timeline, and the place in the log as
    /// PostgreSQL writes it (`0/30A1F28`).
    fn read(system: &str, timeline: &str, lsn: &str) -> Option<Position> {
        let (system, timeline) = (system.parse().ok()?, timeline.parse().ok()?);
        Some(Position { system, timeline, lsn: read_lsn(lsn)? })
    }

    /// The place in the log as PostgreSQL writes it.
    #[must_use]
    pub fn lsn_text(&self) -> String {
        format!("{:X}/{:X}", self.lsn >> 32, self.lsn as u32)
    }
}

/// Reads a place in the log as PostgreSQL writes it: two numbers in hexadecimal.
pub fn read_lsn(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let part = |text: &str| u32::from_str_radix(text, 16).ok();
    Some(u64::from(part(high)?) << 32 | u64::from(part(low)?))
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}-{:x}-{:08x}", self.system, self.timeline, self.lsn, self.check())
    }
}

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Position, PositionError> {
        let mut parts = text.split('-');
        let mut part = || {
            let part = parts.next().ok_or(PositionError(()))?;
            // `from_str_radix` would take a sign.
            let is_number = part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u64::from_str_radix(part, 16).ok().filter(|_| is_number);
            number.ok_or(PositionError(()))
        };
        let (system, timeline, lsn, check) = (part()?, part()?, part()?, part()?);
        let timeline = u32::try_from(timeline).map_err(|_| PositionError(()))?;
        let position = Position { system, timeline, lsn };
        match parts.next() {
            None if check == u64::from(position.check()) => Ok(position),
            _ => Err(PositionError(())),
        }
    }
}

/// A text is no [`Position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionError(());

impl fmt::Display for PositionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NO_TOKEN)
    }
}

impl std::error::Error for PositionError {}

/// What is said of a text that is no position.
pub const NO_TOKEN: &str = "this is no position, or not all of one: four numbers in hexadecimal are \
     expected, with - between, of which the last is a check of the others";

/// The question for the position of everything that was acknowledged before it was asked. Its row
/// has three texts, which [`read`] takes. On a standby, which writes nothing, two of them are NULL.
pub const QUESTION: &str = "select s.system_identifier::pg_catalog.text, \
     ('x' operator(pg_catalog.||) pg_catalog.substr(pg_catalog.pg_walfile_name(l.lsn), 1, 8))\
     ::pg_catalog.bit(32)::pg_catalog.int8::pg_catalog.text, l.lsn::pg_catalog.text \
     from pg_catalog.pg_control_system() s, \
     (select case when pg_catalog.pg_is_in_recovery() then null \
     else pg_catalog.pg_current_wal_insert_lsn() end as lsn) l";

/// What is said of a server whose answer is none, behind the code `no_position`.
pub const NO_POSITION: &str = "the server is a standby, which writes nothing, so there is no \
     position: connect to the primary (target_session_attrs=primary)";

/// Reads the texts of the row. `None` if they can't be the answer of a primary.
pub fn read(row: [Option<&str>; 3]) -> Option<Position> {
    let [system, timeline, lsn] = row;
    Position::read(system?, timeline?, lsn?)
}

/// What a client knows of the position of its acknowledged writes, over all of its connections.
///
/// A connection asks behind its writes. While a write was acknowledged and the question behind it
/// was not answered, the connection is *uncertain*, and the position of that write is not known.
#[derive(Debug, Default)]
pub struct Newest {
    position: Option<Position>,
    /// How many connections are uncertain.
    uncertain: usize,
    /// An uncertain connection was lost.
    is_unknown: bool,
    losses: u64,
}

/// What a read has to wait for to show all acknowledged writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing was written.
    Nothing,
    /// A server that has replayed up to this position.
    At(Position),
    /// It is not known: only the primary will do.
    Unknown,
}

impl Newest {
    /// A connection has become uncertain, or is no longer. To be called before anybody is told that
    /// a write was acknowledged, and behind [`handle_position`](Self::handle_position).
    pub fn handle_uncertain(&mut self, is_uncertain: bool) {
        self.uncertain = match is_uncertain {
            true => self.uncertain + 1,
            false => self.uncertain.saturating_sub(1),
        };
    }

    /// A connection ended while it was uncertain.
    pub fn handle_lost(&mut self) {
        self.handle_uncertain(false);
        self.is_unknown = true;
        self.losses += 1;
    }

    /// A question was answered. `losses` is what [`losses`](Self::losses) returned before it was
    /// sent: if no connection was lost since, the answer covers all writes of those that were.
    ///
    /// An answer from an earlier timeline than one that was seen is that of a former primary, to
    /// which a pooler still has connections. The write that it was asked about may have gone to the
    /// next one, so where that stands is not known.
    pub fn handle_position(&mut self, position: Position, losses: u64) {
        if self.position.is_some_and(|it| it.is_of_later_timeline_than(&position)) {
            self.is_unknown = true;
            self.losses += 1;
            return;
        }
        self.position = Some(self.position.map_or(position, |newest| newest.max(position)));
        self.is_unknown &= losses != self.losses;
    }

    /// How often an uncertain connection was lost.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// What a read has to wait for now.
    pub fn wanted(&self) -> Wanted {
        match self.position {
            _ if self.uncertain > 0 || self.is_unknown => Wanted::Unknown,
            Some(position) => Wanted::At(position),
            None => Wanted::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(timeline: u32, lsn: u64) -> Position {
        Position { system: 7, timeline, lsn }
    }

    #[test]
    fn the_text_of_a_position_reads_back() {
        for position in [
            Position { system: 7_712_198_474_217_982_495, timeline: 3, lsn: 0x30A_1F28 },
            Position { system: u64::MAX, timeline: u32::MAX, lsn: u64::MAX },
            Position { system: 0, timeline: 0, lsn: 0 },
        ] {
            let text = position.to_string();
            assert_eq!(text.parse(), Ok(position));
            assert!(
                text.len() <= 51 && text.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-')
            );
        }
        assert_eq!(Position { system: 26, timeline: 1, lsn: 1 << 32 | 10 }.lsn_text(), "1/A");
        let read = Position::read("26", "1", "1/A").map(|it| it.to_string());
        assert_eq!(read.as_deref(), Some("1a-1-10000000a-e488ce05"));
    }

    #[test]
    fn a_text_that_was_cut_short_or_has_another_digit_is_no_position() {
        let text = at(3, 0x30A_1F28).to_string();
        for end in 0..text.len() {
            assert!(text[..end].parse::<Position>().is_err(), "{}", &text[..end]);
        }
        for (place, digit) in
            (0..text.len()).flat_map(|at| "0123456789abcdef-".chars().map(move |it| (at, it)))
        {
            let other = format!("{}{digit}{}", &text[..place], &text[place + 1..]);
            assert!(other == text || other.parse::<Position>().is_err(), "{other}");
        }
    }

    #[test]
    fn anything_else_is_no_position() {
        for text in [
            "",
            "1",
            "1-2",
            "1-2-3",
            "1-2-3-4",
            "1-2-3-4-5",
            "1--3",
            "g-1-1",
            "+1-1-1",
            "1-100000000-1",
            " 1-1-1",
            "1-1-1 ",
        ] {
            assert_eq!(text.parse::<Position>(), Err(PositionError(())), "{text}");
        }
    }

    #[test]
    fn a_larger_number_on_an_older_timeline_covers_nothing() {
        assert!(at(1, 20).covers(&at(1, 20)) && at(2, 20).covers(&at(1, 10)));
        assert!(!at(1, 90).covers(&at(2, 20)) && !at(2, 10).covers(&at(1, 20)));
        assert!(!at(1, 20).covers(&Position { system: 8, ..at(1, 20) }));
        assert_eq!(at(1, 90).max(at(2, 20)), at(2, 20));
        assert_eq!(at(2, 20).max(at(1, 90)), at(2, 20));
        assert_eq!(at(2, 20).max(at(2, 30)), at(2, 30));
    }

    #[test]
    fn an_acknowledged_write_is_wanted_at_an_unknown_place_until_its_position_is_known() {
        let mut newest = Newest::default();
        assert_eq!(newest.wanted(), Wanted::Nothing);
        newest.handle_uncertain(true);
        newest.handle_uncertain(true);
        newest.handle_position(at(1, 10), 0);
        newest.handle_uncertain(false);
        assert_eq!(newest.wanted(), Wanted::Unknown, "the other connection is uncertain");
        newest.handle_position(at(1, 8), 0);
        newest.handle_uncertain(false);
        assert_eq!(newest.wanted(), Wanted::At(at(1, 10)), "answers may overtake one another");
    }

    #[test]
    fn what_a_former_primary_answers_behind_a_pooler_settles_nothing() {
        let mut newest = Newest::default();
        newest.handle_position(at(2, 10), 0);
        let before = newest.losses();
        newest.handle_uncertain(true);
        newest.handle_position(at(1, 90), before);
        newest.handle_uncertain(false);
        assert_eq!(newest.wanted(), Wanted::Unknown, "the write went to some server");
        newest.handle_position(at(2, 12), before);
        assert_eq!(newest.wanted(), Wanted::Unknown, "asked before that was noticed");
        newest.handle_position(at(2, 12), newest.losses());
        assert_eq!(newest.wanted(), Wanted::At(at(2, 12)));
    }

    #[test]
    fn the_writes_of_a_lost_connection_are_covered_by_a_question_asked_afterwards_only() {
        let mut newest = Newest::default();
        let before = newest.losses();
        newest.handle_uncertain(true);
        newest.handle_lost();
        newest.handle_position(at(1, 10), before);
        assert_eq!(newest.wanted(), Wanted::Unknown);
        newest.handle_position(at(1, 12), newest.losses());
        assert_eq!(newest.wanted(), Wanted::At(at(1, 12)));
    }
}
