//! The messages of a reply that is taken as it comes: whole, or piece by piece.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use onetrip_postgres::message::Header;

use super::flow::Inflow;
use crate::Error;

/// Reads a reply message by message.
pub(super) struct Messages {
    pub(super) inflow: Inflow,
    /// Bytes that are still to come of the body of the message that is being read.
    left: usize,
    /// The type of a message that is wanted whole and is being put together, and what has come of it.
    tag: Option<u8>,
    gathered: BytesMut,
    /// The longest body that is put together.
    max: usize,
}

/// A message that was wanted whole.
pub(super) enum Whole {
    Message(u8, Bytes),
    /// It is longer than what is kept, and is skipped.
    TooLong,
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inflow.fmt(f)
    }
}

impl Messages {
    pub(super) fn new(inflow: Inflow, max: usize) -> Messages {
        Messages { inflow, left: 0, tag: None, gathered: BytesMut::new(), max }
    }

    /// The next message; none at the end of the reply.
    #[inline]
    pub(super) fn poll_whole(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Whole>, Error>> {
        if self.tag.is_none()
            && self.left == 0
            && let Ok(Some(header)) = Header::peek(&self.inflow.chunk)
            && header.message_len() <= self.inflow.chunk.len()
        {
            let mut message = self.inflow.chunk.split_to(header.message_len());
            message.advance(Header::LEN);
            return Poll::Ready(Ok(Some(Whole::Message(header.tag, message))));
        }
        self.poll_gathered(cx)
    }

    /// The message that is being read is wanted whole after all: this has come of it.
    pub(super) fn resume(&mut self, tag: u8, gathered: BytesMut) {
        (self.tag, self.gathered) = (Some(tag), gathered);
    }

    fn poll_gathered(&mut self, cx: &Context<'_>) -> Poll<Result<Option<Whole>, Error>> {
        let tag = match self.tag {
            Some(tag) => tag,
            None => match ready!(self.poll_head(cx))? {
                Some(tag) => tag,
                None => return Poll::Ready(Ok(None)),
            },
        };
        self.tag = Some(tag);
        if self.gathered.len() + self.left > self.max {
            self.tag = None;
            return Poll::Ready(Ok(Some(Whole::TooLong)));
        }
        while let Some(piece) = ready!(self.poll_piece(usize::MAX, cx))? {
            self.gathered.extend_from_slice(&piece);
        }
        self.tag = None;
        let body = std::mem::take(&mut self.gathered).freeze();
        Poll::Ready(Ok(Some(Whole::Message(tag, body))))
    }

    /// The type of the next message, whose body is then read by [`poll_piece`](Self::poll_piece); none
    /// at the end of the reply. What was left of the one before is skipped.
    pub(super) fn poll_head(&mut self, cx: &Context<'_>) -> Poll<Result<Option<u8>, Error>> {
        if let Some(tag) = self.tag.take() {
            // It was to be put together, and is wanted in pieces now.
            self.left += self.gathered.len();
            self.gathered.extend_from_slice(&self.inflow.chunk);
            self.inflow.chunk = std::mem::take(&mut self.gathered).freeze();
            return Poll::Ready(Ok(Some(tag)));
        }
        while ready!(self.poll_piece(usize::MAX, cx))?.is_some() {}
        while self.inflow.chunk.is_empty() {
            if !ready!(self.inflow.poll_chunk(cx))? {
                return Poll::Ready(Ok(None));
            }
        }
        // A block of a reply begins with a message, and its header is never cut.
        let Ok(Some(header)) = Header::peek(&self.inflow.chunk) else {
            return Poll::Ready(Err(self.inflow.broken("a message of the reply can't be read")));
        };
        self.inflow.chunk.advance(Header::LEN);
        self.left = header.len as usize;
        Poll::Ready(Ok(Some(header.tag)))
    }

    /// Waits for the next message, or the end, without reading it.
    pub(super) fn poll_next_is_there(&mut self, cx: &Context<'_>) -> Poll<Result<(), Error>> {
        while self.inflow.chunk.is_empty() {
            if !ready!(self.inflow.poll_chunk(cx))? {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The next bytes of the message's body, at most so many; none at its end.
    pub(super) fn poll_piece(
        &mut self,
        max: usize,
        cx: &Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Error>> {
        if self.left == 0 {
            return Poll::Ready(Ok(None));
        }
        while self.inflow.chunk.is_empty() {
            if !ready!(self.inflow.poll_chunk(cx))? {
                return Poll::Ready(Err(self.inflow.broken("a reply ended within a message")));
            }
        }
        let len = self.left.min(max).min(self.inflow.chunk.len());
        self.left -= len;
        Poll::Ready(Ok(Some(self.inflow.chunk.split_to(len))))
    }

    /// Bytes of the message's body that are still to come.
    pub(super) fn left(&self) -> usize {
        self.left
    }
}
