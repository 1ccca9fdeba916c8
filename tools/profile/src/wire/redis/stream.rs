//! Bytes of one direction of Redis, cut into commands or replies, however they were split.

use std::fmt;

use onetrip_redis::scan::{Scan, ScanLimits, Scanner};

use crate::piece::{Nanos, Side};
use crate::wire::Opaque;

/// One direction.
pub(super) struct Stream {
    side: Side,
    scanner: Scanner,
    buffer: Vec<u8>,
    /// The front of the item in the buffer, of which more was let go of than is kept.
    head: Vec<u8>,
    /// Bytes that were let go of.
    gone: u64,
    /// The scanner is within an item.
    is_amid: bool,
    /// When the first byte in the buffer came.
    begin: Nanos,
}

/// A command or a reply.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    /// With its type, which stands behind any attributes.
    Whole(&'a [u8], u8),
    /// A line of a command without a length.
    Inline(&'a [u8]),
    /// The front of one that is longer than what is kept, its type, and its length.
    Long(&'a [u8], u8, u64),
}

impl Default for Stream {
    fn default() -> Stream {
        Stream::new(Side::Client)
    }
}

/// Contents are a program's, so none are shown.
impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("len", &self.buffer.len()).finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn new(side: Side) -> Stream {
        Stream {
            side,
            scanner: Scanner::new(ScanLimits::default()),
            buffer: Vec::new(),
            head: Vec::new(),
            gone: 0,
            is_amid: false,
            begin: 0,
        }
    }

    /// Hands over each item that is whole, with the time of its first byte.
    pub(super) fn read(
        &mut self,
        at: Nanos,
        bytes: &[u8],
        kept_max: usize,
        mut each: impl FnMut(Nanos, Item<'_>) -> Result<(), Opaque>,
    ) -> Result<(), Opaque> {
        if self.buffer.is_empty() && self.gone == 0 {
            self.begin = at;
            let used = self.cut(at, bytes, &mut each)?;
            self.buffer.extend_from_slice(&bytes[used..]);
        } else {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.extend_from_slice(bytes);
            let used = self.cut(at, &buffer, &mut each)?;
            buffer.drain(..used);
            self.buffer = buffer;
        }
        if self.buffer.len() > kept_max && self.is_amid {
            self.let_go();
        }
        if self.buffer.is_empty() && self.buffer.capacity() > ROOM_MAX {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Returns how many bytes were handed over.
    fn cut(
        &mut self,
        at: Nanos,
        input: &[u8],
        each: &mut impl FnMut(Nanos, Item<'_>) -> Result<(), Opaque>,
    ) -> Result<usize, Opaque> {
        let mut used = 0;
        while let Some(first) = input.get(used) {
            let rest = &input[used..];
            let is_inline = self.side == Side::Client && !self.is_amid && *first != b'*';
            let len = if is_inline {
                let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                    return if rest.len() > INLINE_MAX { Err(Opaque::Unknown) } else { Ok(used) };
                };
                each(self.begin, Item::Inline(&rest[..end]))?;
                end + 1
            } else {
                match self.scanner.scan(rest).map_err(|_| Opaque::Unknown)? {
                    Scan::Need(_) => {
                        self.is_amid = true;
                        return Ok(used);
                    }
                    Scan::Whole { len, kind, .. } if self.gone > 0 => {
                        let head = std::mem::take(&mut self.head);
                        let whole = std::mem::take(&mut self.gone) + len as u64;
                        each(self.begin, Item::Long(&head, kind, whole))?;
                        len
                    }
                    Scan::Whole { len, kind, .. } => {
                        each(self.begin, Item::Whole(&rest[..len], kind))?;
                        len
                    }
                }
            };
            self.is_amid = false;
            used += len;
            // What is left came with this piece: what came before it was not whole.
            self.begin = at;
        }
        Ok(used)
    }

    /// Lets go of what the scanner has seen of a long item.
    fn let_go(&mut self) {
        let seen = self.scanner.seen().min(self.buffer.len());
        if self.gone == 0 {
            self.head = self.buffer[..seen.min(HEAD_MAX)].to_vec();
        }
        self.scanner.consumed(seen);
        self.buffer.drain(..seen);
        self.buffer.shrink_to(ROOM_MAX);
        self.gone += seen as u64;
    }

    /// Whether an item has begun and is not whole.
    pub(super) fn is_amid(&self) -> bool {
        !self.buffer.is_empty() || self.gone > 0
    }

    /// Bytes of memory.
    pub(super) fn held(&self) -> usize {
        self.buffer.capacity() + self.head.capacity()
    }
}

/// The longest inline command (PROTO_INLINE_MAX_SIZE in server.h).
const INLINE_MAX: usize = 64 << 10;
/// Bytes of the front of a long item that are kept.
const HEAD_MAX: usize = 1 << 10;
/// Room that a buffer keeps when it is empty.
const ROOM_MAX: usize = 4 << 10;
/// Words of a command that are looked at.
const WORDS_MAX: usize = 1 << 10;

impl<'a> Item<'a> {
    /// The words of a command, as far as they are there; `None` if it is none.
    pub(super) fn words(self) -> Option<Vec<&'a [u8]>> {
        let mut rest = match self {
            Item::Inline(line) => {
                let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
                return Some(words.take(WORDS_MAX).collect());
            }
            Item::Whole(bytes, _) | Item::Long(bytes, ..) => bytes,
        };
        let mut words = Vec::new();
        for _ in 0..number(&mut rest, b'*')?.min(WORDS_MAX) {
            if rest.is_empty() && matches!(self, Item::Long(..)) {
                break;
            }
            let len = number(&mut rest, b'$')?;
            match rest.get(..len) {
                Some(word) => words.push(word),
                // A long word, of which the beginning is there.
                None if matches!(self, Item::Long(..)) => {
                    words.push(rest);
                    break;
                }
                None => return None,
            }
            rest = rest.get(len + 2..).unwrap_or_default();
        }
        Some(words)
    }

    /// The number of words that a command says it has; `otherwise` for one in a line.
    pub(super) fn count(self, otherwise: usize) -> usize {
        match self {
            Item::Inline(_) => otherwise,
            Item::Whole(mut bytes, _) | Item::Long(mut bytes, ..) => {
                number(&mut bytes, b'*').unwrap_or(otherwise).max(1)
            }
        }
    }

    pub(super) fn is_inline(self) -> bool {
        matches!(self, Item::Inline(_))
    }

    /// The first byte behind attributes.
    pub(super) fn kind(self) -> u8 {
        match self {
            Item::Whole(_, kind) | Item::Long(_, kind, _) => kind,
            Item::Inline(_) => 0,
        }
    }

    pub(super) fn is_aggregate(self) -> bool {
        matches!(self.kind(), b'*' | b'~' | b'%')
    }

    pub(super) fn len(self) -> u64 {
        match self {
            Item::Whole(bytes, _) | Item::Inline(bytes) => bytes.len() as u64,
            Item::Long(_, _, len) => len,
        }
    }
}

/// Takes a line with a number.
fn number(rest: &mut &[u8], kind: u8) -> Option<usize> {
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    let (line, behind) = rest.split_at(end);
    let digits = line.strip_prefix(&[kind])?;
    *rest = behind.get(2..)?;
    match digits {
        // `*-1` is a command without words.
        [b'-', ..] => Some(0),
        digits => std::str::from_utf8(digits).ok()?.parse().ok(),
    }
}
