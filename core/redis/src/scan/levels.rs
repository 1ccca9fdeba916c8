//! The open aggregates around the next value, the outermost first.

use onetrip_engine::Violation;

use super::ScanLimits;

/// The open aggregates. They take memory only when opened, whatever length they announce.
#[derive(Debug, Default)]
pub(super) struct Levels(Vec<Level>);

#[derive(Debug)]
enum Level {
    /// Items that are still to come, at least one.
    Items(u64),
    /// The same for attributes, which are followed by a value.
    Attributes(u64),
    /// Items that have come of a streamed aggregate.
    Stream { count: u64, pairs: bool },
}

/// What has ended with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The reply.
    Reply,
    /// An item, and another value follows.
    Item,
    /// Attributes, and their value follows.
    Attributes,
}

impl Levels {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Opens an aggregate, or attributes, with this many items. If there are none, it has ended.
    pub(super) fn open(
        &mut self,
        kind: u8,
        items: u64,
        limits: &ScanLimits,
    ) -> Result<Option<Ended>, Violation> {
        if items > limits.items_max {
            return Err(TOO_MANY);
        }
        match (kind, items) {
            (b'|', 0) => Ok(Some(Ended::Attributes)),
            (_, 0) => self.value_ended(limits).map(Some),
            (b'|', _) => self.push(Level::Attributes(items), limits),
            _ => self.push(Level::Items(items), limits),
        }
    }

    /// Opens a streamed aggregate.
    pub(super) fn open_stream(
        &mut self,
        pairs: bool,
        limits: &ScanLimits,
    ) -> Result<Option<Ended>, Violation> {
        self.push(Level::Stream { count: 0, pairs }, limits)
    }

    fn push(&mut self, level: Level, limits: &ScanLimits) -> Result<Option<Ended>, Violation> {
        if self.0.len() >= limits.depth_max {
            return Err(Violation("a reply is nested too deep"));
        }
        self.0.push(level);
        Ok(None)
    }

    /// The end of a streamed aggregate has come.
    pub(super) fn end_stream(&mut self, limits: &ScanLimits) -> Result<Ended, Violation> {
        match self.0.pop() {
            Some(Level::Stream { count, pairs: true }) if count % 2 == 1 => {
                Err(Violation("a map ends after a key"))
            }
            Some(Level::Stream { .. }) => self.value_ended(limits),
            _ => Err(Violation("the end of a streamed aggregate came without one")),
        }
    }

    /// A value has ended, and with it each aggregate whose last item it is.
    #[inline]
    pub(super) fn value_ended(&mut self, limits: &ScanLimits) -> Result<Ended, Violation> {
        loop {
            let (left, ended) = match self.0.last_mut() {
                None => return Ok(Ended::Reply),
                Some(Level::Stream { count, .. }) => {
                    *count += 1;
                    let many = *count > limits.items_max;
                    return if many { Err(TOO_MANY) } else { Ok(Ended::Item) };
                }
                Some(Level::Items(left)) => (left, None),
                Some(Level::Attributes(left)) => (left, Some(Ended::Attributes)),
            };
            *left -= 1;
            if *left > 0 {
                return Ok(Ended::Item);
            }
            self.0.pop();
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }
}

const TOO_MANY: Violation = Violation("an aggregate has too many items");
