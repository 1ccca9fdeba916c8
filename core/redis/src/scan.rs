//! Finds the end of a reply without looking at a byte twice.
//!
//! A scanner keeps its position: the open aggregates around the next value, the missing bytes of a
//! string, and how far a line was searched for its end. Each call goes on where the last one
//! stopped. The bytes of a string are never looked at. A line is searched once and, when it is
//! whole, read once.
//!
//! A reply that is found to be whole can be read with [`Reply::read`](crate::Reply::read).

mod levels;
mod limits;
pub(crate) mod quick;
#[cfg(test)]
mod work;

use onetrip_engine::Violation;

use crate::head::{FORMAT_LEN, Head, UNKNOWN, head, is_kind, length};
use levels::{Ended, Levels};
pub use limits::ScanLimits;

/// Finds the end of one reply after another, of any RESP2 or RESP3 type.
///
/// It takes memory for open aggregates only: some bytes for each of at most
/// [`depth_max`](ScanLimits::depth_max). It takes none for lengths that a peer announces. After a
/// violation it reports the same violation again.
#[derive(Debug)]
pub struct Scanner {
    limits: ScanLimits,
    /// Whether a reply was begun.
    begun: bool,
    state: State,
    levels: Levels,
    /// Bytes at the front of the input that were scanned.
    at: usize,
    /// How far the present line was searched for its end, in bytes; 0 if the search has not begun.
    searched: usize,
    start: usize,
    kind: Option<u8>,
    #[cfg(test)]
    looked: usize,
}

/// The next thing in the input.
#[derive(Clone, Copy, Debug)]
enum State {
    /// The line of a value, or the end of an aggregate, unless attributes are in front of it.
    Value { attributed: bool },
    /// The format of a verbatim string of this many bytes.
    Format(u64),
    /// The rest of a string, including its line end.
    Body(u64),
    /// The line of a chunk; the number is the bytes of the string so far.
    ChunkLine(u64),
    /// The rest of a chunk, including its line end. `total` is the bytes of the string up to its
    /// end.
    Chunk { left: u64, total: u64 },
    /// Nothing: the input was not a reply.
    Refused(Violation),
}

/// The result of a step of the scanner.
enum Progress {
    Need(usize),
    More,
    Ended(Ended),
}

/// The result of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// The reply is not whole. At least this many bytes from the front of the input are needed
    /// before another scan can make progress. A peer chooses the number, so no memory may be
    /// allocated for it.
    Need(usize),
    /// The reply is whole. The next call looks for the next reply, behind it.
    Whole {
        /// Its bytes at the front of the input, including any attributes.
        len: usize,
        /// Where it begins after its attributes; 0 if it has none.
        start: usize,
        /// Its type: the first byte after any attributes.
        kind: u8,
    },
}

/// The shortest line: a type and a line end.
const LINE_MIN: usize = 3;

impl Scanner {
    /// A scanner at the beginning of a reply.
    #[must_use]
    pub fn new(limits: ScanLimits) -> Scanner {
        Scanner {
            limits,
            begun: false,
            state: State::Value { attributed: false },
            levels: Levels::default(),
            at: 0,
            searched: 0,
            start: 0,
            kind: None,
            #[cfg(test)]
            looked: 0,
        }
    }

    /// Scans the bytes that have arrived. `input` begins where it began in the last call, or after
    /// the bytes [consumed](Self::consumed) since. Bytes that were there before are not looked at
    /// again.
    ///
    /// # Errors
    /// The input is not RESP, or exceeds the limits. The result does not depend on how the input is
    /// split.
    #[inline]
    pub fn scan(&mut self, input: &[u8]) -> Result<Scan, Violation> {
        if !self.begun {
            self.count(quick::LOOKED_MAX.min(input.len()));
            if let Some(len) = quick::value(input, &self.limits) {
                return Ok(Scan::Whole { len, start: 0, kind: input[0] });
            }
            self.begun = true;
        }
        self.go_on(input).inspect_err(|violation| self.state = State::Refused(*violation))
    }

    /// How many bytes at the front of the input belong to the reply and were scanned, excluding an
    /// incomplete line.
    #[must_use]
    pub fn seen(&self) -> usize {
        self.at
    }

    /// The type of the reply being scanned: its first byte after any attributes, if it has come.
    #[must_use]
    pub fn kind(&self) -> Option<u8> {
        self.kind
    }

    /// The host took this many of the [scanned](Self::seen) bytes off the front of the input before
    /// the reply was whole.
    ///
    /// # Panics
    /// If fewer bytes were scanned.
    pub fn consumed(&mut self, len: usize) {
        assert!(len <= self.at, "only what was seen can be consumed");
        self.at -= len;
        self.start = self.start.saturating_sub(len);
    }

    fn go_on(&mut self, input: &[u8]) -> Result<Scan, Violation> {
        loop {
            let progress = match self.state {
                State::Value { attributed } => self.value(input, attributed)?,
                State::Format(len) => self.format(input, len)?,
                State::Body(left) => self.body(input, left)?,
                State::ChunkLine(total) => self.chunk_line(input, total)?,
                State::Chunk { left, total } => self.chunk(input, left, total)?,
                State::Refused(violation) => return Err(violation),
            };
            match progress {
                Progress::Need(need) => return self.need(need),
                Progress::More => {}
                Progress::Ended(Ended::Reply) => return self.whole(),
                Progress::Ended(ended) => {
                    self.state = State::Value { attributed: ended == Ended::Attributes };
                }
            }
        }
    }

    fn need(&self, need: usize) -> Result<Scan, Violation> {
        if self.kind.is_none_or(|kind| kind == b'>') {
            self.check_held(need)?;
        }
        Ok(Scan::Need(need))
    }

    fn whole(&mut self) -> Result<Scan, Violation> {
        let (len, start) = (self.at, self.start);
        let kind = self.kind.take().expect("what has ended has begun");
        if kind == b'>' {
            self.check_held(len)?;
        }
        self.begun = false;
        self.state = State::Value { attributed: false };
        (self.at, self.start) = (0, 0);
        Ok(Scan::Whole { len, start, kind })
    }

    /// Checks how many bytes a host would have to keep.
    pub(crate) fn check_held(&self, bytes: usize) -> Result<(), Violation> {
        if bytes as u64 > self.limits.push_bytes_max {
            return Err(Violation("a push, or the attributes of a reply, exceed push_bytes_max"));
        }
        Ok(())
    }

    fn value(&mut self, input: &[u8], attributed: bool) -> Result<Progress, Violation> {
        if self.searched == 0 {
            let rest = &input[self.at..];
            let Some(&kind) = rest.first() else {
                return Ok(Progress::Need(self.at + LINE_MIN));
            };
            self.begin(kind, attributed)?;
            self.count(quick::LOOKED_MAX.min(rest.len()));
            if let Some(len) = quick::value(rest, &self.limits) {
                self.at += len;
                return self.levels.value_ended(&self.limits).map(Progress::Ended);
            }
        }
        let Some(line) = self.line(input)? else { return Ok(unfinished_line(input)) };
        let kind = input[self.at];
        self.leave_line(line);
        self.read_line(kind, line)
    }

    /// The first byte of a value has come, or of attributes or of the end of an aggregate.
    #[inline]
    fn begin(&mut self, kind: u8, attributed: bool) -> Result<(), Violation> {
        match kind {
            b'|' => return Ok(()),
            b'.' if attributed => return Err(Violation("attributes have no value")),
            b'.' if !self.levels.is_empty() => return Ok(()),
            b'>' if !self.levels.is_empty() => return Err(Violation("a push is inside a reply")),
            _ if !is_kind(kind) => return Err(UNKNOWN),
            _ => {}
        }
        if self.levels.is_empty() {
            self.kind = Some(kind);
            self.start = self.at;
            self.check_held(self.at)?;
        }
        Ok(())
    }

    fn read_line(&mut self, kind: u8, line: &[u8]) -> Result<Progress, Violation> {
        if kind == b'.' {
            return match line {
                b"" => self.levels.end_stream(&self.limits).map(Progress::Ended),
                _ => Err(Violation("the end of an aggregate has a value")),
            };
        }
        let opened = match head(kind, line)? {
            Head::Line | Head::Nil => Some(self.levels.value_ended(&self.limits)?),
            Head::Items(items) => self.levels.open(kind, items, &self.limits)?,
            Head::Stream { pairs } => self.levels.open_stream(pairs, &self.limits)?,
            Head::Chunks => return Ok(self.turn_to(State::ChunkLine(0))),
            Head::String(len) => return self.begin_string(kind, len),
        };
        Ok(opened.map_or_else(|| self.turn_to(State::Value { attributed: false }), Progress::Ended))
    }

    fn begin_string(&mut self, kind: u8, len: u64) -> Result<Progress, Violation> {
        let max = match kind {
            b'!' => self.limits.line_bytes_max as u64,
            _ => self.limits.string_bytes_max,
        };
        check_string(len, max)?;
        Ok(self.turn_to(match kind {
            b'=' => State::Format(len),
            _ => State::Body(with_end(len)),
        }))
    }

    fn turn_to(&mut self, state: State) -> Progress {
        self.state = state;
        Progress::More
    }

    fn format(&mut self, input: &[u8], len: u64) -> Result<Progress, Violation> {
        let Some(format) = input.get(self.at..self.at + FORMAT_LEN) else {
            return Ok(need_body(self.at, with_end(len)));
        };
        if !format.ends_with(b":") {
            return Err(Violation("a verbatim string has no format"));
        }
        self.at += FORMAT_LEN;
        Ok(self.turn_to(State::Body(with_end(len - FORMAT_LEN as u64))))
    }

    fn body(&mut self, input: &[u8], left: u64) -> Result<Progress, Violation> {
        let left = self.skip(input, left)?;
        if left > 0 {
            self.state = State::Body(left);
            return Ok(need_body(self.at, left));
        }
        self.levels.value_ended(&self.limits).map(Progress::Ended)
    }

    fn chunk_line(&mut self, input: &[u8], total: u64) -> Result<Progress, Violation> {
        match input.get(self.at) {
            None => return Ok(Progress::Need(self.at + LINE_MIN + 1)),
            Some(b';') => {}
            Some(_) => return Err(Violation("a string in chunks is interrupted")),
        }
        let Some(line) = self.line(input)? else { return Ok(unfinished_line(input)) };
        self.leave_line(line);
        let len = length(line)?;
        if len == 0 {
            return self.levels.value_ended(&self.limits).map(Progress::Ended);
        }
        let total = total.saturating_add(len);
        check_string(total, self.limits.string_bytes_max)?;
        Ok(self.turn_to(State::Chunk { left: with_end(len), total }))
    }

    fn chunk(&mut self, input: &[u8], left: u64, total: u64) -> Result<Progress, Violation> {
        let left = self.skip(input, left)?;
        if left > 0 {
            self.state = State::Chunk { left, total };
            return Ok(need_body(self.at, left));
        }
        Ok(self.turn_to(State::ChunkLine(total)))
    }

    /// Skips the bytes of a string that have come, and checks only its line end. Returns how many
    /// are left.
    fn skip(&mut self, input: &[u8], left: u64) -> Result<u64, Violation> {
        let here = (input.len() - self.at) as u64;
        let passed = left.saturating_sub(LINE_END.len() as u64).min(here);
        self.at += passed as usize;
        let left = left - passed;
        let end = &input[self.at..];
        if left > LINE_END.len() as u64 || end.is_empty() {
            return Ok(left);
        }
        let due = &LINE_END[LINE_END.len() - left as usize..];
        let come = due.len().min(end.len());
        self.count(come);
        if end[..come] != due[..come] {
            return Err(Violation("a string is longer than its length"));
        }
        self.at += come;
        Ok(left - come as u64)
    }

    /// The next line, without its type and its line end, if it is whole.
    fn line<'a>(&mut self, input: &'a [u8]) -> Result<Option<&'a [u8]>, Violation> {
        let line = &input[self.at..];
        let from = self.searched.max(1).min(line.len());
        let (searched, whole) = search(line, from);
        self.count(searched - from);
        if searched > self.limits.line_bytes_max.saturating_add(1) {
            return Err(Violation("a line is too long"));
        }
        self.searched = searched;
        Ok(whole.then(|| &line[1..searched]))
    }

    /// Goes on after a whole line.
    fn leave_line(&mut self, line: &[u8]) {
        self.count(line.len());
        self.at += 1 + line.len() + LINE_END.len();
        self.searched = 0;
    }

    /// Counts the bytes that were looked at, for the tests.
    #[inline]
    fn count(&mut self, bytes: usize) {
        #[cfg(test)]
        {
            self.looked += bytes;
        }
        let _ = bytes;
    }
}

const LINE_END: &[u8; 2] = b"\r\n";

/// How far a line was searched, and whether its end is there.
fn search(line: &[u8], mut from: usize) -> (usize, bool) {
    while let Some(at) = line[from..].iter().position(|&byte| byte == b'\r') {
        from += at;
        match line.get(from + 1) {
            None => return (from, false),
            Some(b'\n') => return (from, true),
            Some(_) => from += 1,
        }
    }
    (line.len(), false)
}

fn check_string(len: u64, max: u64) -> Result<(), Violation> {
    if len > max { Err(Violation("a string is too long")) } else { Ok(()) }
}

fn with_end(len: u64) -> u64 {
    len.saturating_add(LINE_END.len() as u64)
}

fn need_body(at: usize, left: u64) -> Progress {
    Progress::Need(at.saturating_add(usize::try_from(left).unwrap_or(usize::MAX)))
}

/// At least the rest of the line end is missing.
fn unfinished_line(input: &[u8]) -> Progress {
    Progress::Need(input.len() + if input.ends_with(b"\r") { 1 } else { LINE_END.len() })
}
