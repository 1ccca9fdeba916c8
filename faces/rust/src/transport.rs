//! What leaves a connection, and when, in either protocol: the writing half of the socket, and the
//! waker of the driver, which does what is left to do.
//!
//! `core.rs` has the rules at its top. Everything here is behind the lock of the connection.

use std::io;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use onetrip_engine::{Connection, Pace, Protocol, Time};

use crate::metrics::counts::Counts;
use crate::socket::{Ending, Reader, Received, Writer};

/// The outgoing side of one connection.
#[derive(Debug)]
pub(crate) struct Transport {
    writer: Writer,
    driver: Option<Waker>,
    notified: bool,
    corked: bool,
    pace: Pace,
    /// Whether bytes of the server came since the last write, so that the next write is a trip.
    heard: bool,
    pub(crate) counts: Counts,
}

impl Transport {
    pub(crate) fn new(writer: Writer) -> Transport {
        Transport {
            writer,
            driver: None,
            notified: false,
            corked: false,
            pace: Pace::default(),
            heard: true,
            counts: Counts::default(),
        }
    }

    // --- reading ---

    /// Handles a read: decrypts it if there is TLS, and gives it to the engine. Returns the number
    /// of bytes, how many the engine needs next, and why nothing more will come, if so.
    pub(crate) fn receive<P: Protocol>(
        &mut self,
        engine: &mut Connection<P>,
        now: Time,
        read: io::Result<usize>,
        reader: &mut Reader,
        input: &mut BytesMut,
    ) -> (usize, Option<usize>, Option<Ending>) {
        let Received { bytes, end } = self.writer.receive(read, reader, input);
        let need = (bytes > 0).then(|| {
            self.heard = true;
            self.counts.bytes_received += bytes as u64;
            self.pace.replied(now);
            engine.handle_bytes(now, input)
        });
        (bytes, need, end)
    }

    // --- writing ---

    /// After a submission: see the top of `core.rs`. `was_idle` is what [`is_idle`] returned before
    /// it. If `eager`, nothing waits for the next reply.
    pub(crate) fn wrote<P: Protocol>(
        &mut self,
        engine: &mut Connection<P>,
        now: Time,
        was_idle: bool,
        eager: bool,
    ) {
        self.pace.submitted(now);
        if was_idle && !self.corked {
            self.write_now(engine, now);
        } else if eager || !self.pace.holds(now, engine) {
            self.notify();
        }
    }

    /// A caller awaits: unwritten bytes leave now, unless the driver is about to write.
    pub(crate) fn write_on_await<P: Protocol>(
        &mut self,
        engine: &mut Connection<P>,
        now: Time,
        eager: bool,
    ) {
        let nothing = self.corked || engine.transmit().is_empty();
        if !nothing && (eager || !self.pace.holds(now, engine)) {
            self.write_now(engine, now);
        }
    }

    /// Whether awaiting would write nothing.
    pub(crate) fn nothing_to_write<P: Protocol>(&self, engine: &Connection<P>) -> bool {
        self.corked || engine.transmit().is_empty()
    }

    pub(crate) fn write_now<P: Protocol>(&mut self, engine: &mut Connection<P>, now: Time) {
        self.pace.written();
        engine.end_flight(now);
        while !engine.transmit().is_empty() {
            match self.writer.try_write(engine.transmit()) {
                Ok(bytes) if bytes > 0 => self.handle_written(engine, now, bytes),
                // The driver waits for room in the socket, and handles errors.
                _ => {
                    self.pace.interrupted();
                    return self.notify();
                }
            }
        }
        if !self.writer.is_flushed() {
            self.notify();
        }
    }

    fn handle_written<P: Protocol>(&mut self, engine: &mut Connection<P>, now: Time, bytes: usize) {
        self.counts.wrote(bytes, std::mem::take(&mut self.heard));
        engine.handle_written(now, bytes);
    }

    /// Writes for the driver, which is woken when the socket takes more.
    pub(crate) fn poll_write<P: Protocol>(
        &mut self,
        engine: &mut Connection<P>,
        now: Time,
        eager: bool,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        self.corked = false;
        let held = !eager && self.pace.holds(now, engine);
        if self.writer.poll_flush(cx)?.is_pending() || held {
            return Ok(());
        }
        self.pace.written();
        engine.end_flight(now);
        while !engine.transmit().is_empty() {
            match self.writer.poll_write(cx, engine.transmit()) {
                Poll::Ready(bytes) => match bytes? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    bytes => self.handle_written(engine, now, bytes),
                },
                Poll::Pending => {
                    self.pace.interrupted();
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether bytes, of ours or of TLS, are still to be written.
    pub(crate) fn is_unwritten<P: Protocol>(&self, engine: &Connection<P>) -> bool {
        !engine.transmit().is_empty() || !self.writer.is_flushed()
    }

    /// Whether a connection that has ended is finished: its goodbye is written, or the peer is
    /// `lost`.
    pub(crate) fn is_finished<P: Protocol>(
        &mut self,
        engine: &Connection<P>,
        lost: bool,
        cx: &mut Context<'_>,
    ) -> bool {
        if !engine.is_closed() || (!lost && !engine.transmit().is_empty()) {
            return false;
        }
        self.writer.poll_goodbye(cx).is_ready() || lost
    }

    /// Shuts the writing half down, behind the goodbye.
    pub(crate) fn poll_shut_down(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer.poll_shut_down(cx)
    }

    /// The driver has ended and dropped the reading half; this drops the writing half.
    pub(crate) fn let_go(&mut self) {
        self.writer.let_go();
    }

    pub(crate) fn is_corked(&self) -> bool {
        self.corked
    }

    /// Several callers were woken: holds writing back until they have run. Not needed while new
    /// requests wait for the next reply anyway.
    pub(crate) fn cork<P: Protocol>(&mut self, engine: &Connection<P>, now: Time, eager: bool) {
        self.corked = eager || !self.pace.holds(now, engine);
    }

    /// Holds writing back, because more is about to be submitted that should leave in the same
    /// write.
    pub(crate) fn hold(&mut self) {
        self.corked = true;
    }

    /// Lets bytes that were held back leave.
    pub(crate) fn unhold<P: Protocol>(
        &mut self,
        engine: &mut Connection<P>,
        now: Time,
        eager: bool,
    ) {
        self.corked = false;
        self.write_on_await(engine, now, eager);
    }

    // --- the driver ---

    /// Wakes the driver once.
    pub(crate) fn notify(&mut self) {
        if !self.notified
            && let Some(driver) = &self.driver
        {
            self.notified = true;
            // No code of a caller runs here: this is the driver's own waker.
            driver.wake_by_ref();
        }
    }

    pub(crate) fn driver_runs(&mut self, waker: &Waker) {
        self.notified = false;
        match &mut self.driver {
            Some(driver) => driver.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }
}

/// Whether nothing is in flight and nothing is to be written.
pub(crate) fn is_idle<P: Protocol>(engine: &Connection<P>) -> bool {
    engine.in_flight() == 0 && engine.transmit().is_empty()
}
