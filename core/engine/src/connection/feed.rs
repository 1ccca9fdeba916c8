//! Fed requests: the host hands over their bytes while they are in flight, so that no such request
//! has to be in memory whole.
//!
//! A fed request is the last on the wire until the host ends it; other requests wait in the queue.
//! The server may answer it early, with an error. It is then over, and takes no more.

use bytes::BytesMut;

use super::Connection;
use crate::{Protocol, Time, Token};

impl<P: Protocol> Connection<P> {
    /// Whether this request is on the wire and more of it may come.
    pub fn is_fed(&self, token: Token) -> bool {
        self.feeding.as_ref().is_some_and(|feeding| feeding.token == token)
    }

    /// Whether this request takes more now: it is being fed, and fewer than
    /// [`Limits::fed_bytes_max`](crate::Limits::fed_bytes_max) bytes lie unwritten. The answer is
    /// false while it waits in the queue, and once it has ended.
    pub fn can_feed(&self, token: Token) -> bool {
        self.is_fed(token) && self.transmit().len() < self.limits.fed_bytes_max
    }

    /// Writes more of a request that [takes it](Self::can_feed), with `encode`, which must only
    /// append. If the request is not being fed, nothing is written, and the answer is false.
    ///
    /// # Errors
    /// The error of `encode`; what it appended is taken back.
    pub fn feed<E>(
        &mut self,
        now: Time,
        token: Token,
        encode: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<bool, E> {
        if !self.is_fed(token) {
            return Ok(false);
        }
        self.wire.begin(now, &mut self.last_progress);
        self.wire.encode_more(encode)?;
        Ok(true)
    }

    /// All of the request has been handed over, so requests behind it may be sent.
    pub fn end_feed(&mut self, now: Time, token: Token) {
        if self.is_fed(token) {
            self.feeding = None;
            self.update_window();
            self.fill(now);
        }
    }
}
