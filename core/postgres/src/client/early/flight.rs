//! What was sent and is not answered yet: segments, each of which the server ends with
//! ReadyForQuery.

use std::collections::VecDeque;

use bytes::BytesMut;

use super::names::Named;
use super::told::Told;

/// Segments in the order in which they were sent.
#[derive(Debug, Default)]
pub(super) struct Flight {
    segments: VecDeque<Segment>,
}

/// Messages up to a Sync, or one that is answered with ReadyForQuery by itself.
#[derive(Debug, Default)]
pub(super) struct Segment {
    /// It ends by itself: Query, FunctionCall, the startup packet.
    pub(super) is_single: bool,
    /// Its last message was sent, or has begun to be.
    pub(super) has_ended: bool,
    /// What leaves in front of it, as far as the server has not confirmed it.
    pub(super) told: VecDeque<Told>,
    /// It begins with a use of the statement that was told last.
    pub(super) is_use: bool,
    /// What was told proved false, so the server skips the rest.
    pub(super) is_skipped: bool,
    /// Of what the program believes of its transaction and its savepoints, something is false.
    pub(super) is_lost: bool,
    /// It needs a Sync once it was sent.
    pub(super) needs_sync: bool,
    /// An error came.
    pub(super) has_failed: bool,
    /// The server reads data of a COPY, and takes no Sync.
    pub(super) is_copying: bool,
    /// It holds nothing but what was told, and the program hears nothing of its end.
    pub(super) is_alone: bool,
    /// It brings the server into a failed transaction; the program knows nothing of it.
    pub(super) is_own: bool,
    /// That transaction has begun.
    pub(super) has_begun: bool,
    /// Statements that it prepares and closes, as far as the server has not done so.
    pub(super) named: VecDeque<Named>,
    pub(super) effect: Effect,
    /// The columns and the number of rows that came, of a FETCH.
    pub(super) fetched: (BytesMut, Option<u64>),
    /// How many like this one follow one another, which say nothing more than that.
    times: u32,
}

/// What a segment does to savepoints and cursors if it succeeds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Effect {
    #[default]
    Nothing,
    /// Something that is not known.
    Unknown,
    Savepoint(Box<str>),
    Release(Box<str>),
    RollbackTo(Box<str>),
    /// DEALLOCATE of a statement.
    Deallocate(Box<str>),
    /// DEALLOCATE ALL, DISCARD ALL.
    Forget,
    /// DECLARE of a cursor, which may stay open behind its transaction.
    Cursor {
        name: Box<str>,
        is_held: bool,
    },
    /// FETCH of so many rows.
    Fetch {
        rows: u32,
        cursor: Box<str>,
    },
}

/// Segments that are told apart; those behind them are counted only.
const SEGMENTS_MAX: usize = 64;

impl Segment {
    /// What brings the server into a failed transaction.
    pub(super) fn own() -> Segment {
        Segment { is_own: true, ..Segment::single(Effect::Nothing) }
    }

    /// What was told, without a statement behind it.
    pub(super) fn alone(told: VecDeque<Told>) -> Segment {
        Segment { told, is_alone: true, has_ended: true, ..Segment::default() }
    }

    /// One that more messages follow.
    pub(super) fn open(is_use: bool) -> Segment {
        Segment { is_use, ..Segment::default() }
    }

    /// A message that is answered with ReadyForQuery.
    pub(super) fn single(effect: Effect) -> Segment {
        Segment { is_single: true, has_ended: true, effect, ..Segment::default() }
    }

    /// Nothing may follow before it is answered.
    fn is_awaited(&self) -> bool {
        !self.told.is_empty() || self.is_skipped || self.is_own || self.is_alone
    }

    /// Says nothing more than that it is there.
    fn is_plain(&self) -> bool {
        let does_nothing = self.named.is_empty() && self.effect == Effect::Nothing;
        self.has_ended && does_nothing && !self.is_awaited()
    }
}

impl Flight {
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Adds a segment. Returns whether all that is known of it is kept.
    pub(super) fn push(&mut self, mut segment: Segment) -> bool {
        segment.times = 1;
        let has_ended = segment.has_ended;
        self.segments.push_back(segment);
        !has_ended || self.merge()
    }

    /// The newest segment has ended. Returns whether all that is known of it is kept.
    pub(super) fn end(&mut self) -> bool {
        if let Some(last) = self.segments.back_mut() {
            last.has_ended = true;
        }
        self.merge()
    }

    /// Counts the newest segment with the one before it if neither says more.
    fn merge(&mut self) -> bool {
        let is_full = self.segments.len() > SEGMENTS_MAX;
        let Some(mut last) = self.segments.pop_back() else { return true };
        let was_plain = last.is_plain();
        if is_full && last.told.is_empty() {
            last.named.clear();
            last.effect = Effect::Nothing;
        }
        match self.segments.back_mut() {
            Some(before) if before.is_plain() && last.is_plain() => {
                before.times += last.times;
                before.is_single &= last.is_single;
                was_plain
            }
            _ => {
                let is_kept = was_plain || !last.is_plain();
                self.segments.push_back(last);
                is_kept
            }
        }
    }

    pub(super) fn front(&mut self) -> Option<&mut Segment> {
        self.segments.front_mut()
    }

    /// The newest segment, if it has not ended.
    pub(super) fn open(&mut self) -> Option<&mut Segment> {
        self.segments.back_mut().filter(|it| !it.has_ended)
    }

    /// The newest segment.
    pub(super) fn last(&mut self) -> Option<&mut Segment> {
        self.segments.back_mut()
    }

    /// Whether nothing may follow yet.
    pub(super) fn is_blocking(&self) -> bool {
        self.segments.back().is_some_and(|it| it.has_ended && it.is_awaited())
    }

    /// Whether answers are awaited to something that was told.
    pub(super) fn awaits_told(&self) -> bool {
        self.segments.iter().any(|it| !it.told.is_empty() || it.is_own)
    }

    /// Whether the front segment is the newest one and stands alone.
    pub(super) fn is_single(&self) -> bool {
        self.segments.len() == 1 && self.segments[0].times == 1
    }

    /// Takes the front segment, which the server has ended.
    pub(super) fn pop(&mut self) -> Option<Segment> {
        let front = self.segments.front_mut()?;
        if front.times > 1 {
            front.times -= 1;
            front.has_failed = false;
            return Some(Segment { has_ended: true, ..Segment::default() });
        }
        self.segments.pop_front()
    }
}
