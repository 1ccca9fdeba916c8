//! What leaves a connection and when, whatever the protocol: the socket's writing half, and the driver
//! that is woken where something is left to do.
//!
//! The rules stand at the top of `core.rs`. All of it is behind the lock of the connection.

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
    /// Bytes of the server came since the last write, so that the next is a trip.
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

    /// Takes a read: decrypts it where there is TLS, and lets the engine have it. Returns the bytes that
    /// it brought, what the engine needs next, and why nothing more will come, if so.
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

    /// After a submission: see the top of `core.rs`. `was_idle` is what [`is_idle`] said before it.
    /// With `eager` nothing waits for the next reply.
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

    /// A caller awaits: what is unwritten leaves now, unless the driver is about to write.
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

    /// Whether awaiting changes nothing about what is written.
    pub(crate) fn nothing_to_write<P: Protocol>(&self, engine: &Connection<P>) -> bool {
        self.corked || engine.transmit().is_empty()
    }

    pub(crate) fn write_now<P: Protocol>(&mut self, engine: &mut Connection<P>, now: Time) {
        self.pace.written();
        while !engine.transmit().is_empty() {
            match self.writer.try_write(engine.transmit()) {
                Ok(bytes) if bytes > 0 => self.handle_written(engine, now, bytes),
                // The driver waits for room in the socket, and learns of errors.
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

    /// Whether something is to be written, or TLS still has something to write.
    pub(crate) fn is_unwritten<P: Protocol>(&self, engine: &Connection<P>) -> bool {
        !engine.transmit().is_empty() || !self.writer.is_flushed()
    }

    /// Whether a connection that has ended is done with: its goodbye is waited for, but not where the
    /// peer is `lost`.
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

    /// Says, behind the goodbye, that nothing more is sent.
    pub(crate) fn poll_shut_down(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer.poll_shut_down(cx)
    }

    /// The driver is over: its reading half goes, and this is the other one.
    pub(crate) fn let_go(&mut self) {
        self.writer.let_go();
    }

    pub(crate) fn is_corked(&self) -> bool {
        self.corked
    }

    /// Several callers were woken: holds writing back until they have run. Where new requests wait
    /// for the next reply anyway, nothing has to be done about it.
    pub(crate) fn cork<P: Protocol>(&mut self, engine: &Connection<P>, now: Time, eager: bool) {
        self.corked = eager || !self.pace.holds(now, engine);
    }

    /// Holds writing back: more is about to be submitted that leaves in the same write.
    pub(crate) fn hold(&mut self) {
        self.corked = true;
    }

    /// What was held back leaves.
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
            // Waking runs no code of a caller: it is the driver's own waker.
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

/// Whether nothing is on its way and nothing is to be written.
pub(crate) fn is_idle<P: Protocol>(engine: &Connection<P>) -> bool {
    engine.in_flight() == 0 && engine.transmit().is_empty()
}
