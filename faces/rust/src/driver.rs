//! The task behind a connection, of either protocol: it reads, has replies dispatched, writes the
//! bytes that callers left, and watches the clock. It ends with the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::BytesMut;
use onetrip_engine::Time;
use tokio::time::Sleep;

use crate::parting::hear_out;
use crate::socket::Reader;

/// The smallest size of a read. Small replies arrive in small reads, however large the buffer is.
pub(crate) const READ_MIN: usize = 8 << 10;

/// Reads grow up to this size while they fill the buffer, and shrink again when they don't. A block
/// of a reply keeps its whole buffer alive, so a small reply must not lie in a large buffer.
const READ_MAX: usize = 128 << 10;

/// How many reads a turn makes before other tasks get theirs.
const READS_PER_TURN: usize = 16;

/// A connection as its driver sees it. Each method takes the connection's lock itself.
pub(crate) trait Driven: Send + Sync + 'static {
    /// The time by the clock.
    fn now(&self) -> Time;

    /// The runtime's instant of a time.
    fn instant(&self, time: Time) -> Instant;

    /// Begins a turn: writes what callers submitted since the last one, and handles deadlines that
    /// have passed. Returns whether reading stops for now. `wakers` is empty before and after: it
    /// lends its memory.
    fn begin_turn(
        self: &Arc<Self>,
        now: Time,
        cx: &mut Context<'_>,
        wakers: &mut Vec<Waker>,
    ) -> bool;

    /// Handles the result of a read. `wakers` as above.
    fn dispatch(
        self: &Arc<Self>,
        now: Time,
        read: std::io::Result<usize>,
        incoming: (&mut Reader, &mut BytesMut),
        wakers: &mut Vec<Waker>,
    ) -> Dispatched;

    /// Ends a turn: requests another one if there is work left, and returns what else to wait for.
    fn end_turn(&self, cx: &mut Context<'_>) -> Next;

    /// Whether the connection ended without our goodbye.
    fn is_lost(&self) -> bool;

    /// Shuts the writing half down.
    fn poll_shut_down(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>>;

    /// The task is over: all who wait for the connection must be answered.
    fn ended(self: &Arc<Self>);
}

/// The result of handling a read.
pub(crate) struct Dispatched {
    /// How many bytes it brought, after TLS.
    pub(crate) bytes: usize,
    /// How many bytes the engine needs before it can go on, if that changed.
    pub(crate) need: Option<usize>,
    /// Whether the connection is still open.
    pub(crate) open: bool,
    /// Whether reading stops for now.
    pub(crate) stopped: bool,
}

/// What a driver waits for, beside its socket and its callers.
pub(crate) enum Next {
    /// The connection has ended and all is said.
    Done,
    /// This moment.
    At(Time),
    /// Nothing that it does not wait for already.
    Same,
}

/// Drives one connection until it has ended.
pub(crate) struct Driver<C: Driven> {
    connection: Arc<C>,
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

impl<C: Driven> Driver<C> {
    /// A driver that begins with the bytes that came behind the startup.
    pub(crate) fn new(connection: Arc<C>, reader: Reader, input: BytesMut) -> Driver<C> {
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
        if !self.connection.is_lost() {
            let connection = &self.connection;
            hear_out(&mut self.reader, |cx| connection.poll_shut_down(cx)).await;
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.connection.now();
        self.stopped = self.connection.begin_turn(now, cx, &mut self.wakers);
        let more = self.read(now, cx);
        let done = self.end_turn(cx);
        if more {
            cx.waker().wake_by_ref();
        }
        if done { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Reads and dispatches. Returns whether there is more to read at once. The first read takes the
    /// time at which the turn began, since nothing long lies between them.
    fn read(&mut self, began: Time, cx: &mut Context<'_>) -> bool {
        for number in 0..READS_PER_TURN {
            if self.stopped {
                return false;
            }
            let free = self.make_room();
            match self.reader.poll_read(cx, &mut self.input) {
                Poll::Pending => return false,
                Poll::Ready(read) => {
                    let now = if number == 0 { began } else { self.connection.now() };
                    let (bytes, open) = self.dispatch(now, read);
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
    /// one is nearly used up: small replies share one, and large reads are not cut short by its
    /// end.
    fn make_room(&mut self) -> usize {
        let needed = self.need.saturating_sub(self.input.len());
        let free = self.input.capacity() - self.input.len();
        if free < needed.clamp(self.read_size / 4, READ_MAX) {
            self.input.reserve(self.read_size.max(needed.min(READ_MAX)));
        }
        self.input.capacity() - self.input.len()
    }

    /// Hands what was read to the engine. Returns how much that was, and whether to go on reading.
    fn dispatch(&mut self, now: Time, read: std::io::Result<usize>) -> (usize, bool) {
        let input = (&mut self.reader, &mut self.input);
        let done = self.connection.dispatch(now, read, input, &mut self.wakers);
        self.need = done.need.unwrap_or(self.need);
        self.stopped = done.stopped;
        (done.bytes, done.open)
    }

    /// Sees that this task runs again when there is something to do. Returns whether there never
    /// will be.
    fn end_turn(&mut self, cx: &mut Context<'_>) -> bool {
        match self.connection.end_turn(cx) {
            Next::Done => return true,
            Next::Same => {}
            Next::At(time) => {
                self.timer.as_mut().reset(self.connection.instant(time).into());
                if self.timer.as_mut().poll(cx).is_ready() {
                    cx.waker().wake_by_ref();
                }
            }
        }
        false
    }
}

impl<C: Driven> Drop for Driver<C> {
    /// The task ends early when its runtime is shut down: nobody may wait for it then.
    fn drop(&mut self) {
        self.connection.ended();
    }
}
