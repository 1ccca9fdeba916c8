//! The messages of a reply that is taken as it comes: whole, or piece by piece.

use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use onetrip_postgres::message::Header;

use super::flow::Inflow;
use crate::Error;

/// Reads a reply message by message.
pub(super) struct Messages {
    pub(super) inflow: Inflow,
    /// How many bytes of the current message's body are still to come.
    left: usize,
    /// The tag of the message that is being put together, and the part of it that has come.
    tag: Option<u8>,
    gathered: BytesMut,
    /// The longest body that is put together.
    max: usize,
}

/// A message that was requested whole.
pub(super) enum Whole {
    Message(u8, Bytes),
    /// It is longer than the limit, and is skipped.
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

    /// The next message, whole; `None` at the end of the reply.
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

    /// Goes on putting together a message of which `gathered` was read already.
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

    /// The tag of the next message; [`poll_piece`](Self::poll_piece) then reads its body. `None` at
    /// the end of the reply. The rest of the previous message is skipped.
    pub(super) fn poll_head(&mut self, cx: &Context<'_>) -> Poll<Result<Option<u8>, Error>> {
        if let Some(tag) = self.tag.take() {
            // It was being put together, and is now read in pieces.
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

    /// The next bytes of the message's body, at most `max`; `None` at its end.
    #[inline]
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

    /// How many bytes of the message's body are still to come.
    pub(super) fn left(&self) -> usize {
        self.left
    }
}
