//! Requests that are fed: their bytes come while they are on their way, so that none has to be in
//! memory whole.
//!
//! One that is fed is the last on the wire until its end is said: what else is submitted waits in the
//! queue. The server may answer it early, with an error; it is over then, and takes no more.

use bytes::BytesMut;

use super::Connection;
use crate::{Protocol, Time, Token};

impl<P: Protocol> Connection<P> {
    /// Whether this request is on the wire and more of it may come.
    pub fn is_fed(&self, token: Token) -> bool {
        self.feeding.as_ref().is_some_and(|feeding| feeding.token == token)
    }

    /// Whether this request takes more now: it is fed, and few enough of its bytes
    /// ([`Limits::fed_bytes_max`](crate::Limits::fed_bytes_max)) lie unwritten. It doesn't yet while it
    /// waits in the queue, and not any more once it has ended.
    pub fn can_feed(&self, token: Token) -> bool {
        self.is_fed(token) && self.transmit().len() < self.limits.fed_bytes_max
    }

    /// Writes more of a request that [takes it](Self::can_feed), with `encode`, which only appends.
    /// Nothing is written, and the answer is false, for one that is not being fed.
    ///
    /// # Errors
    /// That of `encode`; what it appended is taken back.
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

    /// All of a request is there: what waits behind it may be sent.
    pub fn end_feed(&mut self, now: Time, token: Token) {
        if self.is_fed(token) {
            self.feeding = None;
            self.update_window();
            self.fill(now);
        }
    }
}
