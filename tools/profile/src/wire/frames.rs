//! Bytes of one direction of PostgreSQL, cut into messages, however they were split.
//!
//! A message that is whole in a piece is read where it lies. Only what is split is copied.

use std::fmt;

use crate::piece::Nanos;
use crate::wire::Opaque;

/// What has come of one direction and is not read yet.
#[derive(Default)]
pub(super) struct Inbox {
    buffer: Vec<u8>,
    /// The message in the buffer was handed out.
    is_spent: bool,
    /// Bytes to come that nobody reads.
    skip: u64,
    /// When the first byte in the buffer came.
    begin: Nanos,
}

/// Contents are a program's, so none are shown.
impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("len", &self.buffer.len()).finish_non_exhaustive()
    }
}

/// A message.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    /// When its first byte came.
    pub(super) begin: Nanos,
    pub(super) bytes: &'a [u8],
    /// False if it is longer than what is kept: then these are its first bytes.
    pub(super) is_whole: bool,
}

impl Inbox {
    /// The next message of what is kept and of `rest`, from which it is taken. `size` tells the
    /// length of the message that bytes begin with, as soon as it can be told, from at most
    /// [`HEAD_MAX`] bytes; `kept_max` is how long one may be that is kept.
    pub(super) fn next<'a, 'rest: 'a>(
        &'a mut self,
        at: Nanos,
        rest: &mut &'rest [u8],
        kept_max: usize,
        size: impl Fn(&[u8]) -> Result<Option<usize>, Opaque>,
    ) -> Result<Option<Message<'a>>, Opaque> {
        if std::mem::take(&mut self.is_spent) {
            self.forget();
        }
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(rest.len());
        self.skip -= skipped as u64;
        *rest = &rest[skipped..];
        if self.buffer.is_empty() {
            return self.next_of_rest(at, rest, kept_max, size);
        }
        while size(&self.buffer)?.is_none() && !rest.is_empty() && self.buffer.len() < HEAD_MAX {
            self.keep(rest, 1);
        }
        let Some(len) = size(&self.buffer)? else { return Ok(None) };
        let begin = self.begin;
        if len > kept_max.max(self.buffer.len()) {
            self.is_spent = true;
            self.skip = (len - self.buffer.len()) as u64;
            return Ok(Some(Message { begin, bytes: &self.buffer, is_whole: false }));
        }
        self.keep(rest, len - self.buffer.len());
        self.is_spent = self.buffer.len() == len;
        let message = Message { begin, bytes: &self.buffer, is_whole: true };
        Ok(self.is_spent.then_some(message))
    }

    fn next_of_rest<'rest>(
        &mut self,
        at: Nanos,
        rest: &mut &'rest [u8],
        kept_max: usize,
        size: impl Fn(&[u8]) -> Result<Option<usize>, Opaque>,
    ) -> Result<Option<Message<'rest>>, Opaque> {
        if rest.is_empty() {
            return Ok(None);
        }
        match size(rest)? {
            Some(len) if len <= rest.len() => {
                let (bytes, behind) = rest.split_at(len);
                *rest = behind;
                Ok(Some(Message { begin: at, bytes, is_whole: true }))
            }
            Some(len) if len > kept_max => {
                self.skip = (len - rest.len()) as u64;
                let bytes = std::mem::take(rest);
                Ok(Some(Message { begin: at, bytes, is_whole: false }))
            }
            _ => {
                self.begin = at;
                self.keep(rest, rest.len());
                Ok(None)
            }
        }
    }

    fn keep(&mut self, rest: &mut &[u8], len: usize) {
        let (bytes, behind) = rest.split_at(len.min(rest.len()));
        self.buffer.extend_from_slice(bytes);
        *rest = behind;
    }

    fn forget(&mut self) {
        self.buffer.clear();
        if self.buffer.capacity() > ROOM_MAX {
            self.buffer = Vec::new();
        }
    }

    /// Whether a message has begun and is not whole.
    pub(super) fn is_amid(&self) -> bool {
        (!self.buffer.is_empty() && !self.is_spent) || self.skip > 0
    }

    /// Bytes of memory.
    pub(super) fn held(&self) -> usize {
        self.buffer.capacity()
    }
}

/// Bytes that tell the length of a message.
pub(super) const HEAD_MAX: usize = 8;
/// Room that a buffer keeps when it is empty.
const ROOM_MAX: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of a byte for their length and that many more.
    fn messages(pieces: &[&[u8]], kept_max: usize) -> Vec<(Nanos, Vec<u8>, bool)> {
        let (mut inbox, mut found) = (Inbox::default(), Vec::new());
        for (at, piece) in pieces.iter().enumerate() {
            let mut rest = *piece;
            let size = |bytes: &[u8]| Ok(bytes.first().map(|len| 1 + usize::from(*len)));
            while let Some(it) = inbox.next(at as Nanos, &mut rest, kept_max, size).expect("valid")
            {
                found.push((it.begin, it.bytes.to_vec(), it.is_whole));
            }
            assert!(rest.is_empty());
        }
        assert!(!inbox.is_amid());
        found
    }

    #[test]
    fn a_message_is_the_same_however_it_was_split() {
        let all = [2, 7, 8, 0, 1, 9];
        for at in 0..=all.len() {
            let found = messages(&[&all[..at], &all[at..]], 100);
            let bytes: Vec<_> = found.iter().map(|it| it.1.clone()).collect();
            assert_eq!(bytes, [vec![2, 7, 8], vec![0], vec![1, 9]]);
        }
    }

    #[test]
    fn of_a_long_message_the_beginning_is_seen() {
        let found = messages(&[&[5, 1, 2], &[3, 4], &[5, 1, 9]], 4);
        assert_eq!(found, [(0, vec![5, 1, 2], false), (2, vec![1, 9], true)]);
    }
}
