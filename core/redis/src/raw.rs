//! One value in bytes that are complete: its line, and where it ends. Nothing here allocates,
//! except for streamed aggregates inside others, which servers don't send.

use std::fmt;

use onetrip_engine::Violation;

use crate::head::{Head, UNKNOWN, head, length};
use crate::scan::{ScanLimits, quick};

/// The bytes are not a whole reply.
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
    /// The bytes after the line.
    pub(crate) behind: &'a [u8],
}

impl<'a> Raw<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Raw<'a>, Malformed> {
        let (kind, line, behind) = line(bytes)?;
        Ok(Raw { kind, line, head: head(kind, line)?, behind })
    }
}

/// A type, its line, and the bytes after it.
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

/// A string of this length, and the bytes after its end.
pub(crate) fn string(bytes: &[u8], len: u64) -> Result<(&[u8], &[u8]), Malformed> {
    let len = usize::try_from(len).map_err(|_| NOT_WHOLE)?;
    let (string, behind) = bytes.split_at_checked(len).ok_or(NOT_WHOLE)?;
    match behind {
        [b'\r', b'\n', behind @ ..] => Ok((string, behind)),
        [] | [b'\r'] => Err(NOT_WHOLE),
        _ => Err(Malformed("a string is longer than its length")),
    }
}

/// The next chunk of a string, which is empty at the string's end, and the bytes after it.
pub(crate) fn chunk(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (kind, line, behind) = line(bytes)?;
    match (kind, length(line)) {
        (b';', Ok(0)) => Ok((&[], behind)),
        (b';', Ok(len)) => string(behind, len),
        (b';', Err(violation)) => Err(violation.into()),
        _ => Err(Malformed("a string in chunks is interrupted")),
    }
}

/// The bytes after this many values.
pub(crate) fn skip_items(bytes: &[u8], items: u64) -> Result<&[u8], Malformed> {
    Skip { bytes, due: items, stream: None, around: Vec::new() }.run()
}

/// The items of a streamed aggregate, and the bytes after it.
pub(crate) fn skip_stream(bytes: &[u8], pairs: bool) -> Result<(&[u8], &[u8]), Malformed> {
    let stream = Some(Stream { count: 0, pairs });
    let behind = Skip { bytes, due: 0, stream, around: Vec::new() }.run()?;
    Ok((&bytes[..bytes.len() - behind.len() - STREAM_END.len()], behind))
}

/// The end of a streamed aggregate.
pub(crate) const STREAM_END: &[u8] = b".\r\n";

/// Skips values, however they are nested. The values that are due in all aggregates with a length
/// are one number.
struct Skip<'a> {
    bytes: &'a [u8],
    /// Values that are due, inside the innermost streamed aggregate if there is one.
    due: u64,
    stream: Option<Stream>,
    /// The same for the streamed aggregates around it.
    around: Vec<(u64, Option<Stream>)>,
}

/// A streamed aggregate.
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

    /// A value begins, which is either due or one more of the streamed aggregate.
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
            // The value behind the attributes is still due.
            (b'|', Head::Items(items)) => self.add(items.saturating_add(1))?,
            (_, Head::Items(items)) => self.add(items)?,
            (_, Head::Stream { pairs }) => {
                self.around.push((std::mem::take(&mut self.due), self.stream));
                self.stream = Some(Stream { count: 0, pairs });
            }
        }
        Ok(())
    }

    /// If the number overflows, the bytes can't hold that many values.
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
            return Err(Malformed("a map ends after a key"));
        }
        if !self.bytes.starts_with(STREAM_END) {
            return Err(Malformed("the end of an aggregate is cut off"));
        }
        self.bytes = &self.bytes[STREAM_END.len()..];
        (self.due, self.stream) = self.around.pop().unwrap_or_default();
        Ok(())
    }
}

/// A string. A verbatim one must begin with its format.
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
