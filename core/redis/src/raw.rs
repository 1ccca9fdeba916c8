//! One value in bytes that are there as a whole: its line, and where it ends. Nothing here allocates, but for
//! streamed aggregates inside others, which servers don't send.

use std::fmt;

use onetrip_engine::Violation;

use crate::head::{Head, UNKNOWN, head, length};
use crate::scan::{ScanLimits, quick};

/// These bytes are not a whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

impl From<Violation> for Malformed {
    fn from(violation: Violation) -> Malformed {
        Malformed(violation.0)
    }
}

pub(crate) const NOT_WHOLE: Malformed = Malformed("a reply is not whole");

/// The beginning of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) kind: u8,
    pub(crate) line: &'a [u8],
    pub(crate) head: Head,
    /// What comes behind the line.
    pub(crate) behind: &'a [u8],
}

impl<'a> Raw<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Raw<'a>, Malformed> {
        let (kind, line, behind) = line(bytes)?;
        Ok(Raw { kind, line, head: head(kind, line)?, behind })
    }
}

/// A type, its line, and what comes behind.
fn line(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), Malformed> {
    let (&kind, rest) = bytes.split_first().ok_or(NOT_WHOLE)?;
    let mut from = 0;
    while let Some(at) = rest[from..].iter().position(|&byte| byte == b'\r') {
        from += at + 1;
        if rest.get(from) == Some(&b'\n') {
            return Ok((kind, &rest[..from - 1], &rest[from + 1..]));
        }
    }
    Err(NOT_WHOLE)
}

/// A string of this length, and what comes behind its end.
pub(crate) fn string(bytes: &[u8], len: u64) -> Result<(&[u8], &[u8]), Malformed> {
    let len = usize::try_from(len).map_err(|_| NOT_WHOLE)?;
    let (string, behind) = bytes.split_at_checked(len).ok_or(NOT_WHOLE)?;
    match behind {
        [b'\r', b'\n', behind @ ..] => Ok((string, behind)),
        [] | [b'\r'] => Err(NOT_WHOLE),
        _ => Err(Malformed("a string is longer than it said")),
    }
}

/// The next chunk of a string, which is empty at its end, and what comes behind.
pub(crate) fn chunk(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (kind, line, behind) = line(bytes)?;
    match (kind, length(line)) {
        (b';', Ok(0)) => Ok((&[], behind)),
        (b';', Ok(len)) => string(behind, len),
        (b';', Err(violation)) => Err(violation.into()),
        _ => Err(Malformed("a string in chunks is interrupted")),
    }
}

/// What comes behind so many values.
pub(crate) fn skip_items(bytes: &[u8], items: u64) -> Result<&[u8], Malformed> {
    Skip { bytes, due: items, stream: None, around: Vec::new() }.run()
}

/// What comes behind the items of an aggregate whose end is said; and the items.
pub(crate) fn skip_stream(bytes: &[u8], pairs: bool) -> Result<(&[u8], &[u8]), Malformed> {
    let stream = Some(Stream { count: 0, pairs });
    let behind = Skip { bytes, due: 0, stream, around: Vec::new() }.run()?;
    Ok((&bytes[..bytes.len() - behind.len() - STREAM_END.len()], behind))
}

/// What ends a streamed aggregate.
pub(crate) const STREAM_END: &[u8] = b".\r\n";

/// Passes over values, however they are nested: those of all aggregates that said their length are one
/// number.
struct Skip<'a> {
    bytes: &'a [u8],
    /// Values that are due, inside the innermost stream if there is one.
    due: u64,
    stream: Option<Stream>,
    /// The same, around the innermost stream.
    around: Vec<(u64, Option<Stream>)>,
}

/// An aggregate whose end is said.
#[derive(Clone, Copy)]
struct Stream {
    count: u64,
    pairs: bool,
}

impl<'a> Skip<'a> {
    fn run(mut self) -> Result<&'a [u8], Malformed> {
        while self.due > 0 || self.stream.is_some() {
            if self.due == 0 && self.bytes.starts_with(b".") {
                self.end_stream()?;
            } else if let Some(len) = quick::value(self.bytes, &ScanLimits::NONE) {
                self.one_came();
                self.bytes = &self.bytes[len..];
            } else {
                self.value()?;
            }
        }
        Ok(self.bytes)
    }

    /// A value begins: one that is due, or one more of the stream.
    fn one_came(&mut self) {
        match &mut self.stream {
            Some(stream) if self.due == 0 => stream.count += 1,
            _ => self.due -= 1,
        }
    }

    fn value(&mut self) -> Result<(), Malformed> {
        let raw = Raw::read(self.bytes)?;
        self.bytes = raw.behind;
        self.one_came();
        match (raw.kind, raw.head) {
            (b'>', _) => return Err(Malformed("a push is inside a reply")),
            (_, Head::Line | Head::Nil) => {}
            (kind, Head::String(len)) => self.bytes = verified_string(kind, raw.behind, len)?.1,
            (_, Head::Chunks) => self.skip_chunks()?,
            // What they stand in front of is still due.
            (b'|', Head::Items(items)) => self.add(items.saturating_add(1))?,
            (_, Head::Items(items)) => self.add(items)?,
            (_, Head::Stream { pairs }) => {
                self.around.push((std::mem::take(&mut self.due), self.stream));
                self.stream = Some(Stream { count: 0, pairs });
            }
        }
        Ok(())
    }

    /// No bytes hold as many values as would not fit.
    fn add(&mut self, items: u64) -> Result<(), Malformed> {
        self.due = self.due.checked_add(items).ok_or(NOT_WHOLE)?;
        Ok(())
    }

    fn skip_chunks(&mut self) -> Result<(), Malformed> {
        loop {
            let (bytes, behind) = chunk(self.bytes)?;
            self.bytes = behind;
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    fn end_stream(&mut self) -> Result<(), Malformed> {
        let Some(Stream { count, pairs }) = self.stream else { return Err(UNKNOWN.into()) };
        if pairs && count % 2 == 1 {
            return Err(Malformed("a map ends behind a key"));
        }
        if !self.bytes.starts_with(STREAM_END) {
            return Err(Malformed("the end of an aggregate is cut off"));
        }
        self.bytes = &self.bytes[STREAM_END.len()..];
        (self.due, self.stream) = self.around.pop().unwrap_or_default();
        Ok(())
    }
}

/// A string, of which a verbatim one begins with its format.
pub(crate) fn verified_string(
    kind: u8,
    bytes: &[u8],
    len: u64,
) -> Result<(&[u8], &[u8]), Malformed> {
    let (text, behind) = string(bytes, len)?;
    if kind == b'=' && text.get(3) != Some(&b':') {
        return Err(Malformed("a verbatim string has no format"));
    }
    Ok((text, behind))
}
