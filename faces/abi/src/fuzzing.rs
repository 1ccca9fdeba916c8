//! A host for the fuzzers that keeps the rules of `MEMORY.md` in any case. It uses only the
//! exported functions.

#![allow(unsafe_code)]

use bytes::Bytes;
use onetrip_client::completion::Completion;
pub use onetrip_client::completion::Record;

use crate::export::*;
use crate::export_redis::*;
use crate::room::Connection;

/// A connection of the host.
#[derive(Debug)]
pub struct Host(*mut Connection);

/// The arguments of the functions that submit, except for the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The token.
    pub token: u32,
    /// The flags.
    pub flags: u32,
    /// For Redis: how many replies come.
    pub replies: u32,
    /// The lengths of the parts in front.
    pub lens: (usize, usize),
    /// The timeout, in milliseconds.
    pub timeout: f64,
}

impl Host {
    /// A connection to Redis with these settings.
    #[must_use]
    pub fn redis(settings: &[u8]) -> Host {
        // SAFETY: the settings are as long as they are.
        Host(unsafe { onetrip_redis_new(0.0, settings.as_ptr(), settings.len()) })
    }

    /// A connection to PostgreSQL with these settings.
    #[must_use]
    pub fn postgres(settings: &[u8]) -> Host {
        let nonce = [7_u8; 18];
        // SAFETY: both are as long as they are.
        let connection =
            unsafe { onetrip_postgres_new(0.0, settings.as_ptr(), settings.len(), nonce.as_ptr()) };
        Host(connection)
    }

    /// Submits commands.
    pub fn submit_redis(&mut self, now: f64, asked: Asked, bytes: &[u8]) -> f64 {
        let Asked { token, flags, replies, lens: (text_len, _), timeout } = asked;
        self.write_request(bytes);
        let len = bytes.len();
        // SAFETY: the connection lives.
        unsafe { onetrip_redis_submit(self.0, now, token, flags, replies, text_len, len, timeout) }
    }

    /// Submits a statement.
    pub fn submit_postgres(&mut self, now: f64, asked: Asked, bytes: &[u8]) -> f64 {
        let Asked { token, flags, lens: (text_len, name_len), timeout, .. } = asked;
        self.write_request(bytes);
        let len = bytes.len();
        // SAFETY: the connection lives.
        unsafe {
            onetrip_postgres_submit(self.0, now, token, flags, text_len, name_len, len, timeout, 0)
        }
    }

    fn write_request(&mut self, bytes: &[u8]) {
        // SAFETY: the connection lives, and there is room for as many bytes as were asked for.
        unsafe {
            let room = onetrip_request(self.0, bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len());
        }
    }

    /// Ends a segment.
    pub fn sync(&mut self, now: f64, token: u32) -> f64 {
        // SAFETY: the connection lives.
        unsafe { onetrip_postgres_sync(self.0, now, token) }
    }

    /// Flushes the requests of an open segment.
    pub fn flush(&mut self, now: f64) {
        // SAFETY: the connection lives.
        unsafe { onetrip_postgres_flush(self.0, now) }
    }

    /// Gives a password.
    pub fn password(&mut self, now: f64, password: &[u8]) {
        // SAFETY: the connection lives, and the password is as long as it is.
        unsafe {
            onetrip_postgres_password(self.0, now, true, password.as_ptr(), password.len());
        }
    }

    /// Bytes arrive. More room was asked for than they need.
    pub fn receive(&mut self, now: f64, bytes: &[u8], more: usize) {
        // SAFETY: the connection lives, and there is room for as many bytes as were asked for.
        unsafe {
            let room = onetrip_input(self.0, bytes.len() + more);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len());
            onetrip_received(self.0, now, bytes.len());
        }
    }

    /// The bytes to send.
    #[must_use]
    pub fn transmit(&self) -> Vec<u8> {
        // SAFETY: the connection lives, and nothing is called in between.
        unsafe {
            let len = onetrip_transmit_len(self.0);
            std::slice::from_raw_parts(onetrip_transmit(self.0), len).to_vec()
        }
    }

    /// This many bytes were written, or reported as written.
    pub fn written(&mut self, now: f64, len: usize) {
        // SAFETY: the connection lives.
        unsafe { onetrip_written(self.0, now, len) }
    }

    /// The time is now `now`.
    pub fn time(&mut self, now: f64) {
        // SAFETY: the connection lives.
        unsafe { onetrip_time(self.0, now) }
    }

    /// When to call `time` next.
    #[must_use]
    pub fn deadline(&self) -> f64 {
        // SAFETY: the connection lives.
        unsafe { onetrip_deadline(self.0) }
    }

    /// Takes back the request at this place.
    pub fn cancel(&mut self, now: f64, place: f64) -> bool {
        // SAFETY: the connection lives.
        unsafe { onetrip_cancel(self.0, now, place) }
    }

    /// Wants a request cancelled at the server, and does what that needs.
    pub fn want_cancel(&mut self, now: f64, token: u32, end: u32) {
        // SAFETY: the connection lives.
        unsafe {
            onetrip_want_cancel(self.0, now, token);
            if !onetrip_begin_cancel(self.0, now).is_null() {
                onetrip_cancel_ended(self.0, now, end);
            }
        }
    }

    /// Says goodbye.
    pub fn terminate(&mut self, now: f64) {
        // SAFETY: the connection lives.
        unsafe { onetrip_terminate(self.0, now) }
    }

    /// The peer closed the connection.
    pub fn peer_closed(&mut self) {
        // SAFETY: the connection lives.
        unsafe { onetrip_peer_closed(self.0) }
    }

    /// Requests in flight, and those that wait.
    #[must_use]
    pub fn pending(&self) -> (usize, usize) {
        // SAFETY: the connection lives.
        unsafe { (onetrip_in_flight(self.0), onetrip_queued(self.0)) }
    }

    /// The records of what happened.
    pub fn take(&mut self) -> Vec<Record> {
        // SAFETY: the connection lives, and nothing is called before all is copied.
        unsafe {
            let count = onetrip_take(self.0);
            if count == 0 {
                return Vec::new();
            }
            let records = std::slice::from_raw_parts(onetrip_completions(self.0), count);
            records.iter().map(|record| copy(record)).collect()
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: nothing uses it after this.
        unsafe { onetrip_connection_free(self.0) }
    }
}

/// # Safety
/// The record is one of those taken last.
unsafe fn copy(record: &Completion) -> Record {
    let Completion { kind, token, a, b, len, block } = *record;
    let block = match block.is_null() {
        true => &[][..],
        // SAFETY: a block lives until the next take.
        false => unsafe { std::slice::from_raw_parts(block, len) },
    };
    Record { kind, token, a, b, block: Bytes::copy_from_slice(block) }
}

/// What is known of a command. Must not fail for any bytes.
pub fn look(command: &[u8]) -> Option<Traits> {
    let mut traits = std::mem::MaybeUninit::uninit();
    // SAFETY: both are as long as they are, and where it was seen the traits were written.
    unsafe {
        onetrip_redis_look(command.as_ptr(), command.len(), traits.as_mut_ptr())
            .then(|| traits.assume_init())
    }
}

/// The outcome that an error means.
#[must_use]
pub fn outcome(error: &[u8], leaves: bool) -> u32 {
    // SAFETY: it is as long as it is.
    unsafe { onetrip_redis_outcome(error.as_ptr(), error.len(), leaves) }
}

/// What a text shows.
#[must_use]
pub fn classify(text: &[u8]) -> u32 {
    // SAFETY: it is as long as it is.
    unsafe { onetrip_postgres_classify(text.as_ptr(), text.len()) }
}
