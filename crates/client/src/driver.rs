//! The task behind a connection: it reads, dispatches replies, writes what callers left, and
//! watches the clock. It ends with the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use onetrip_engine::Time;
use tokio::time::Sleep;

use crate::cancel;
use crate::core::Connection;
use crate::parting::hear_out;
use crate::socket::Reader;
use crate::trace;

/// Reads are at least this large. Small replies come in small reads whatever the buffer.
const READ_MIN: usize = 8 << 10;

/// Reads grow up to this while they fill the buffer, and fall back when they don't. A block of a
/// reply keeps its whole buffer alive, so a small reply must not sit in a large one.
const READ_MAX: usize = 128 << 10;

/// Reads in one turn, before other tasks get theirs.
const READS_PER_TURN: usize = 16;

/// Drives one connection until it has ended.
pub(crate) struct Driver {
    connection: Arc<Connection>,
    reader: Reader,
    input: BytesMut,
    read_size: usize,
    /// What the engine needs before it can go on.
    need: usize,
    /// Reading has stopped for a reader that is slower than the server.
    stopped: bool,
    timer: Pin<Box<Sleep>>,
    wakers: Vec<Waker>,
}

impl Driver {
    /// A driver that begins with the bytes that came behind the startup.
    pub(crate) fn new(connection: Arc<Connection>, reader: Reader, input: BytesMut) -> Driver {
        let timer = Box::pin(tokio::time::sleep_until(tokio::time::Instant::now()));
        Driver {
            connection,
            reader,
            input,
            read_size: READ_MIN,
            need: 1,
            stopped: false,
            timer,
            wakers: Vec::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
        if !self.connection.lock().is_lost() {
            let connection = &self.connection;
            hear_out(&mut self.reader, |cx| connection.lock().poll_shut_down(cx)).await;
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.connection.now();
        self.begin_turn(now, cx);
        let more = self.read(cx);
        let done = self.end_turn(cx);
        if more {
            cx.waker().wake_by_ref();
        }
        if done { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Writes what callers submitted since the last turn.
    fn begin_turn(&mut self, now: Time, cx: &mut Context<'_>) {
        let mut core = self.connection.lock();
        let now = core.set_clock(now);
        core.driver_runs(cx.waker());
        if core.handles == 0 {
            core.engine.terminate(now);
        }
        if let Err(error) = core.poll_write(now, cx) {
            let error = core.lost("writing failed").with_source(error);
            core.close(error);
        }
        if core.next_deadline() <= now {
            core.engine.handle_time(now);
            core.expire_pipelines(now);
            core.expire_in_line(now);
        }
        core.settle(now);
        self.stopped = !core.engine.wants_bytes();
        let reports = core.take_report();
        let cancels = std::mem::take(&mut core.cancel_due);
        std::mem::swap(&mut core.wakers, &mut self.wakers);
        drop(core);
        self.wakers.drain(..).for_each(Waker::wake);
        if reports {
            self.connection.seat.report();
        }
        if cancels {
            cancel::start(&self.connection);
        }
    }

    /// Reads and dispatches. Returns whether there is more to read at once.
    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..READS_PER_TURN {
            if self.stopped {
                return false;
            }
            let free = self.make_room();
            match self.reader.poll_read(cx, &mut self.input) {
                Poll::Pending => return false,
                Poll::Ready(read) => {
                    let (bytes, open) = self.dispatch(read);
                    if !open {
                        return false;
                    }
                    // A server's buffer is 8 KiB: less than half of that is no stream of rows.
                    if bytes == free || bytes >= READ_MIN {
                        self.read_size = (self.read_size * 2).min(READ_MAX);
                    } else if bytes < READ_MIN / 2 {
                        self.read_size = READ_MIN;
                    }
                }
            }
        }
        true
    }

    /// Makes room for a read, and says how much there is. A new buffer is begun only when the old
    /// one is nearly used up: small replies share one, and large reads are not cut short by its end.
    fn make_room(&mut self) -> usize {
        let needed = self.need.saturating_sub(self.input.len());
        let free = self.input.capacity() - self.input.len();
        if free < needed.clamp(self.read_size / 4, READ_MAX) {
            self.input.reserve(self.read_size.max(needed.min(READ_MAX)));
        }
        self.input.capacity() - self.input.len()
    }

    /// Hands what was read to the engine. Returns how much that was, and whether to go on reading.
    fn dispatch(&mut self, read: std::io::Result<usize>) -> (usize, bool) {
        let now = self.connection.now();
        let mut core = self.connection.lock();
        let now = core.set_clock(now);
        let (bytes, need) = core.receive(now, read, &mut self.reader, &mut self.input);
        self.need = need.unwrap_or(self.need);
        core.guard_session();
        core.settle(now);
        core.note_lost_statements();
        if core.wakers.len() > 1 {
            // Those who are woken will submit next: their requests leave in one write.
            core.cork(now);
        }
        self.stopped = !core.engine.wants_bytes();
        let (open, reports) = (!core.engine.is_closed(), core.take_report());
        std::mem::swap(&mut core.wakers, &mut self.wakers);
        let untold = core.untold.take();
        drop(core);
        self.wakers.drain(..).for_each(Waker::wake);
        untold.tell();
        if reports {
            self.connection.seat.report();
        }
        (bytes, open)
    }

    /// Sees that this task runs again when there is something to do. Returns whether there never
    /// will be.
    fn end_turn(&mut self, cx: &mut Context<'_>) -> bool {
        let mut core = self.connection.lock();
        if core.is_corked() && !core.engine.is_closed() {
            core.notify();
        } else if core.is_unwritten() {
            let now = core.clock();
            if let Err(error) = core.poll_write(now, cx) {
                let error = core.lost("writing failed").with_source(error);
                core.close(error);
                core.notify();
            }
            if !core.wakers.is_empty() {
                core.notify();
            }
        }
        if core.is_finished(cx) {
            return true;
        }
        let now = core.clock();
        // A timer that is set too early costs a turn; setting it anew at each turn costs more.
        if core.armed <= now {
            core.armed = Time::NEVER;
        }
        let next = core.next_deadline();
        if next < core.armed {
            core.armed = next;
            drop(core);
            self.timer.as_mut().reset(self.connection.context.instant(next).into());
            if self.timer.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
        false
    }
}

impl Drop for Driver {
    /// The task ends early when its runtime is shut down: nobody may wait for it then.
    fn drop(&mut self) {
        self.connection.with(|core, _| {
            if !core.engine.is_closed() {
                let error = core.lost("the runtime that drove it was shut down");
                core.close(error);
            }
            let waker = core.forget_notifications();
            core.wakers.extend(waker);
        });
        self.connection.context.totals.ended(&self.connection);
        trace::ended(&self.connection);
        self.connection.seat.lost();
    }
}
