//! A connection to Redis in the turns of its driver.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::BytesMut;
use onetrip_engine::Time;

use super::link::{Core, Link};
use crate::driver::{Dispatched, Driven, Next};
use crate::socket::Reader;

impl Driven for Link {
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
        core.transport.driver_runs(cx.waker());
        if core.released {
            core.engine.terminate(now);
        }
        core.write(now, cx);
        if core.engine.poll_deadline().is_some_and(|deadline| deadline <= now) {
            core.engine.handle_time(now);
        }
        core.settle(now);
        let stopped = !core.engine.wants_bytes();
        let (gone, landed) = (core.take_gone(), core.take_landed());
        std::mem::swap(&mut core.wakers, wakers);
        drop(core);
        wakers.drain(..).for_each(Waker::wake);
        self.context.landed(landed);
        if let Some(why) = gone {
            self.pool_slot.lost(why.as_ref());
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
        let Core { transport, engine, .. } = &mut *core;
        let (bytes, need, end) = transport.receive(engine, now, read, reader, input);
        core.settle(now);
        if let Some(end) = end {
            let error = end.into_error(|why| core.lost(why));
            core.close(error);
            core.settle(now);
        }
        if core.wakers.len() > 1 {
            // The woken callers will submit next, so that their commands leave in one write.
            let Core { transport, engine, .. } = &mut *core;
            transport.cork(engine, now, false);
        }
        let (open, stopped) = (!core.engine.is_closed(), !core.engine.wants_bytes());
        let (gone, landed) = (core.take_gone(), core.take_landed());
        std::mem::swap(&mut core.wakers, wakers);
        drop(core);
        wakers.drain(..).for_each(Waker::wake);
        self.context.landed(landed);
        if let Some(why) = gone {
            self.pool_slot.lost(why.as_ref());
        }
        Dispatched { bytes, need, open, stopped }
    }

    fn end_turn(&self, cx: &mut Context<'_>) -> Next {
        let mut core = self.lock();
        if core.transport.is_corked() && !core.engine.is_closed() {
            core.transport.notify();
        } else if core.transport.is_unwritten(&core.engine) {
            let now = core.clock();
            core.write(now, cx);
        }
        let lost = core.is_lost();
        let Core { transport, engine, .. } = &mut *core;
        if transport.is_finished(engine, lost, cx) {
            return Next::Done;
        }
        let now = core.clock();
        // A timer that is set too early costs a turn; setting it again in each turn costs more.
        if core.armed <= now {
            core.armed = Time::NEVER;
        }
        let next = core.engine.poll_deadline().unwrap_or(Time::NEVER);
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
        self.lock().transport.poll_shut_down(cx)
    }

    fn ended(self: &Arc<Self>) {
        self.with(|core, _| {
            if !core.engine.is_closed() {
                let error = core.lost("the runtime of its driver was shut down");
                core.close(error);
            }
            core.transport.let_go();
        });
        self.context.totals.ended(self);
        self.pool_slot.lost(None);
    }
}

impl Core {
    /// Writes unwritten bytes. If that fails, the connection ends, and the next turn reports it.
    fn write(&mut self, now: Time, cx: &mut Context<'_>) {
        let Core { transport, engine, .. } = self;
        if let Err(error) = transport.poll_write(engine, now, false, cx) {
            let error = self.lost(&format!("writing failed: {error}")).with_source(error);
            self.close(error);
            self.transport.notify();
        }
    }
}
