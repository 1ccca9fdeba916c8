//! A connection to PostgreSQL in the turns of its driver.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::BytesMut;
use onetrip_engine::Time;

use crate::core::Connection;
use crate::driver::{Dispatched, Driven, Next};
use crate::socket::Reader;
use crate::trace;

impl Driven for Connection {
    fn now(&self) -> Time {
        self.context.now()
    }

    fn instant(&self, time: Time) -> Instant {
        self.context.instant(time)
    }

    fn begin_turn(
        self: &Arc<Self>,
        now: Time,
        cx: &mut Context<'_>,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        let mut core = self.lock();
        let now = core.set_clock(now);
        core.driver_runs(cx.waker());
        // A turn that only reads changes nothing before that.
        let is_due = core.next_deadline <= now;
        let mut changes = is_due || core.handles == 0 || core.is_unwritten();
        if core.handles == 0 {
            core.engine.terminate(now);
        }
        if let Err(error) = core.poll_write(now, cx) {
            let error = core.lost(&format!("writing failed: {error}")).with_source(error);
            core.close(error);
            changes = true;
        }
        if is_due {
            core.engine.handle_time(now);
            core.pipelined(now, |pipelines, io| pipelines.expire(io));
            core.expire_room_waiters(now);
            core.expire_look_ups(now);
        }
        if changes {
            core.settle(now);
        }
        let stopped = !core.engine.wants_bytes();
        let reports = core.take_report();
        let cancels = std::mem::take(&mut core.cancel_due);
        std::mem::swap(&mut core.wakers, wakers);
        drop(core);
        wakers.drain(..).for_each(Waker::wake);
        if reports {
            self.pool_slot.report();
        }
        if cancels {
            crate::core::cancelling::start(self);
        }
        stopped
    }

    fn dispatch(
        self: &Arc<Self>,
        now: Time,
        read: std::io::Result<usize>,
        (reader, input): (&mut Reader, &mut BytesMut),
        wakers: &mut Vec<Waker>,
    ) -> Dispatched {
        let mut core = self.lock();
        let now = core.set_clock(now);
        let (bytes, need) = core.receive(now, read, reader, input);
        core.settle(now);
        core.note_lost_statements();
        if core.wakers.len() > 1 {
            // The woken callers will submit next, so that their requests leave in one write.
            core.cork(now);
        }
        let (open, stopped) = (!core.engine.is_closed(), !core.engine.wants_bytes());
        let reports = core.take_report();
        std::mem::swap(&mut core.wakers, wakers);
        let untold = core.untold.take();
        drop(core);
        // Before anybody is woken, who would else come back to a connection that is about to be left.
        if reports {
            self.pool_slot.report();
        }
        wakers.drain(..).for_each(Waker::wake);
        untold.tell();
        Dispatched { bytes, need, open, stopped }
    }

    fn end_turn(&self, cx: &mut Context<'_>) -> Next {
        let mut core = self.lock();
        if core.is_corked() && !core.engine.is_closed() {
            core.notify();
        } else if core.is_unwritten() {
            let now = core.clock();
            if let Err(error) = core.poll_write(now, cx) {
                let error = core.lost(&format!("writing failed: {error}")).with_source(error);
                core.close(error);
                core.notify();
            }
            // What was written may be due for a cancel, and has deadlines of its own.
            core.settle(now);
            if !core.wakers.is_empty() {
                core.notify();
            }
        }
        if core.is_finished(cx) {
            return Next::Done;
        }
        let now = core.clock();
        // A timer that is set too early costs a turn; setting it again in each turn costs more.
        if core.armed <= now {
            core.armed = Time::NEVER;
        }
        let next = core.next_deadline;
        if next < core.armed {
            core.armed = next;
            return Next::At(next);
        }
        Next::Same
    }

    fn is_lost(&self) -> bool {
        self.lock().is_lost()
    }

    fn poll_shut_down(&self, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.lock().poll_shut_down(cx)
    }

    fn ended(self: &Arc<Self>) {
        self.with(|core, _| {
            if !core.engine.is_closed() {
                let error = core.lost("the runtime of its driver was shut down");
                core.close(error);
            }
            core.let_go();
            let waker = core.forget_notifications();
            core.wakers.extend(waker);
        });
        self.context.totals.ended(self);
        trace::ended(self);
        self.pool_slot.lost();
    }
}
