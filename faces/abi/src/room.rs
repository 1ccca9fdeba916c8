//! A connection with the room that its host writes to. The bytes that arrive are copied once, to
//! where the engine frames them; a request is read where the host wrote it.

#![allow(unsafe_code)]

use std::ptr;

use bytes::BufMut;
use onetrip_client::Connection as Client;
use onetrip_client::postgres::{Part, Refused, Submission};
#[cfg(feature = "redis")]
use onetrip_client::redis::Submission as Commands;
use onetrip_engine::pool::TextKey;
use onetrip_engine::{Ticket, Time, memory};
#[cfg(feature = "reads")]
use onetrip_postgres::client::position::Position;

/// One connection. The host has a pointer to it, from `onetrip_…_new` until
/// `onetrip_connection_free`.
#[derive(Debug)]
pub struct Connection {
    /// What it is without that room.
    pub client: Client,
    /// Bytes of room behind the client's input that the host was promised.
    promised: usize,
    /// Memory into which the host writes a request.
    request: Vec<u8>,
}

/// The most room that is kept for the next request. More, needed once for a long value, is freed.
const ROOM_KEPT_MAX: usize = 1 << 20;

impl Connection {
    pub(crate) fn of(client: Client) -> Connection {
        Connection { client, promised: 0, request: Vec::new() }
    }

    /// Room for this many bytes that arrive. It does not move until the bytes are
    /// [received](Self::received). Null if there is no memory for it; the connection has then
    /// ended.
    pub(crate) fn input_room(&mut self, len: usize) -> *mut u8 {
        self.promised = 0;
        if !self.client.make_room(len) {
            return ptr::null_mut();
        }
        self.promised = len;
        self.client.input().spare_capacity_mut().as_mut_ptr().cast()
    }

    /// The host has written this many bytes into the room. No more count than it asked for.
    ///
    /// # Safety
    /// The host has written to the first `len` bytes of the room.
    pub(crate) unsafe fn received(&mut self, now: Time, len: usize) {
        let len = len.min(std::mem::take(&mut self.promised));
        // SAFETY: there is room for what was promised, and the host has written the first `len`.
        unsafe { self.client.input().advance_mut(len) };
        self.client.received(now);
    }

    /// Room for a request of this many bytes; null if there is no memory for it.
    pub(crate) fn request_room(&mut self, len: usize) -> *mut u8 {
        if self.request.len() < len {
            if !memory::is_there(len) {
                return ptr::null_mut();
            }
            // The old content belongs to an earlier request.
            self.request = vec![0; len];
        }
        self.request.as_mut_ptr()
    }

    /// Takes a request that the host has written to an echo.
    pub(crate) fn submit_echo(&mut self, token: u32, len: usize) -> bool {
        let Some(request) = self.request.get(..len) else { return false };
        self.client.submit_echo(token, request)
    }

    /// Takes a request that the host has written: a text, a name, and parameters.
    pub(crate) fn submit_postgres(
        &mut self,
        now: Time,
        (token, flags, key): (u32, u32, TextKey),
        (text_len, name_len, len): (usize, usize, usize),
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let written = self.request.get(..len).ok_or(Refused::Malformed)?;
        let submission = Submission::read(flags, written, text_len, name_len);
        let submission = submission.ok_or(Refused::Malformed)?;
        let result = self.client.submit(now, (token, key), submission, deadline);
        self.keep_little();
        result
    }

    /// Takes a read that the host has written: a text and parameters.
    #[cfg(feature = "reads")]
    pub(crate) fn submit_read(
        &mut self,
        now: Time,
        (token, flags, key): (u32, u32, TextKey),
        (text_len, len): (usize, usize),
        position: Option<&Position>,
    ) -> Result<Ticket, Refused> {
        let written = self.request.get(..len).ok_or(Refused::Malformed)?;
        let read = Submission::read(flags, written, text_len, 0).ok_or(Refused::Malformed)?;
        let result = self.client.submit_read(now, (token, key), read, position);
        self.keep_little();
        result
    }

    /// Takes more of a COPY that the host has written.
    pub(crate) fn feed(
        &mut self,
        now: Time,
        token: u32,
        part: u32,
        len: usize,
    ) -> Result<bool, Refused> {
        let written = self.request.get(..len).ok_or(Refused::Malformed)?;
        let part = match part {
            0 => Part::Data(written),
            1 => Part::Done,
            _ => Part::Failed(str::from_utf8(written).unwrap_or_default()),
        };
        let taken = self.client.feed(now, token, part);
        self.keep_little();
        taken
    }

    /// Takes commands that the host has written, behind the text of a script if there is one.
    #[cfg(feature = "redis")]
    pub(crate) fn submit_redis(
        &mut self,
        now: Time,
        (token, flags, replies): (u32, u32, u32),
        (text_len, len): (usize, usize),
        deadline: Time,
    ) -> Result<Ticket, Refused> {
        let written = self.request.get(..len).ok_or(Refused::Malformed)?;
        let commands = Commands::read(flags, replies, written, text_len);
        let commands = commands.ok_or(Refused::Malformed)?;
        let result = self.client.submit_redis(now, token, &commands, deadline);
        self.keep_little();
        result
    }

    fn keep_little(&mut self) {
        if self.request.capacity() > ROOM_KEPT_MAX {
            self.request = Vec::new();
        }
    }
}
