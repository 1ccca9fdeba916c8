//! How a pipeline gets the exclusive right to send, and hands over its requests.

use bytes::Buf;
use onetrip_engine::{Request, SyncPoint, Time, Token};

use super::{
    Face, Io, Member, Pipeline, PipelineId, Pipelines, Refusal, Replies, Role, Source, Unsent, Why,
};

/// What a call of [`Pipelines::advance`] has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advanced {
    /// Anything at all: there may be bytes to write.
    pub moved: bool,
    /// Nothing was in flight before.
    pub was_idle: bool,
    /// There are bytes to write, and nothing else may cause that.
    pub unwritten: bool,
}

impl<F: Face> Pipelines<F> {
    pub(super) fn ask_for_right<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, id: PipelineId) {
        if io.engine.is_closed() {
            return self.fail_all(io);
        }
        let pipeline = self.get(id);
        let is_due =
            |it: &Pipeline<F>| it.group.is_none() && !it.waits_for_room && !it.requests.is_empty();
        if !pipeline.as_ref().is_some_and(|it| is_due(it)) {
            return;
        }
        // What undoes a pipeline that was given up is sent in any case.
        let is_meant = pipeline.is_some_and(|it| it.failure.is_none());
        if is_meant
            && io.engine.protocol().is_lent()
            && let Some(refusal) = self.refusal_of(Some(id))
        {
            return self.give_up_whole(io, id, &F::Why::refused(refusal));
        }
        let member = Member { pipeline: id, segment: 0, role: Role::SendRight };
        let token = io.replies.add(member, None);
        if io.engine.waiting() == 0 {
            return self.open_group(io, id, token);
        }
        // Its place is behind the callers that already wait for room in the queue.
        let waits = io.engine.wait(token, Time::NEVER).is_some();
        if let Some(pipeline) = self.get(id) {
            pipeline.waits_for_room = waits;
        }
        if !waits {
            io.replies.remove(token);
            self.give_up_whole(io, id, &F::Why::refused(Refusal::QueueFull));
        }
    }

    /// The turn came of a pipeline that waited for room in the queue.
    pub fn turn<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, token: Token) {
        let Some(Member { pipeline: id, role: Role::SendRight, .. }) = io.replies.member(token)
        else {
            return;
        };
        let Some(pipeline) = self.get(id) else { return io.replies.remove(token) };
        pipeline.waits_for_room = false;
        match pipeline.requests.is_empty() {
            true => io.replies.remove(token),
            false => self.open_group(io, id, token),
        }
    }

    fn open_group<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, id: PipelineId, token: Token) {
        let Some(pipeline) = self.get(id) else { return };
        match io.engine.open_group(io.now, token) {
            Some(group) => (pipeline.group, pipeline.last_group) = (Some(group), Some(group)),
            None => {
                io.replies.remove(token);
                self.fail_all(io);
            }
        }
    }

    /// The engine grants the right to send. Returns whether to a pipeline.
    pub fn granted<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, token: Token) -> bool {
        let member = io.replies.member(token);
        io.replies.remove(token);
        let Some(Member { pipeline: id, .. }) = member else { return false };
        let Some(pipeline) = self.get(id) else { return false };
        let Some(group) = pipeline.group else { return false };
        pipeline.granted = true;
        let finished = pipeline.finished;
        self.sender = Some(id);
        if finished {
            io.engine.stop_counting(io.now, group);
        }
        true
    }

    /// Lets the pipeline with the right to send hand over what the window takes.
    pub fn advance<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>) -> Advanced {
        let Some(id) = self.sender else { return Advanced::default() };
        let mut advanced = Advanced { was_idle: io.is_idle(), ..Advanced::default() };
        while self.hand_over(io, id) {
            advanced.moved = true;
        }
        advanced.unwritten = self.flush_if_closed(io, id);
        let stuck = io.is_stuck();
        let Some(pipeline) = self.get(id) else { return advanced };
        let Some(group) = pipeline.group else { return advanced };
        if pipeline.flush && (pipeline.requests.is_empty() || pipeline.waits_for_answer()) {
            pipeline.flush = false;
            io.engine.flush(io.now, group);
            advanced.moved = true;
        }
        if pipeline.has_room() || stuck && !pipeline.is_read {
            pipeline.ready.take().into_iter().for_each(|waker| io.replies.wake(waker));
        }
        if pipeline.finished && pipeline.requests.is_empty() {
            pipeline.group = None;
            if pipeline.references == 0 {
                self.forget(id);
            }
            self.sender = None;
            io.engine.close_group(io.now, group);
            advanced.moved = true;
        }
        advanced
    }

    /// Asks for the replies so far if unread ones have closed the window. Nothing else asks for
    /// them then, and until all have come it can't be seen that only the reader can open the
    /// window. Returns whether there are bytes to write.
    fn flush_if_closed<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, id: PipelineId) -> bool {
        let is_closed = io.engine.undelivered_bytes() > 0 && !io.engine.group_has_room();
        let pipeline = self.get(id).filter(|it| is_closed && !it.requests.is_empty());
        let Some(group) = pipeline.and_then(|it| it.group) else { return false };
        io.engine.flush(io.now, group);
        !io.engine.transmit().is_empty()
    }

    /// Hands the first request to the engine, if the engine takes one.
    fn hand_over<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, id: PipelineId) -> bool {
        let has_room = io.engine.group_has_room();
        let Some(pipeline) = self.get(id) else { return false };
        // A finished pipeline waits for no reader, so the engine may queue the rest.
        if !pipeline.finished && !has_room {
            return false;
        }
        let Some(Unsent { request, bytes: source }) = pipeline.requests.front() else {
            return false;
        };
        let bytes = match source {
            Source::Buffer(len) | Source::Describe(len) => &pipeline.bytes[..*len],
            Source::Own(bytes) => bytes,
            Source::Undescribed(_) => return false,
        };
        // The engine gets a copy, since it may refuse the request.
        let Request { token, expect, sync, deadline, .. } = *request;
        let (pinned, group) = (pipeline.around.is_some(), pipeline.group);
        let request = Request { sync, deadline, pinned, group, ..Request::isolated(token, expect) };
        let submitted = io.engine.submit(io.now, request, |out| {
            out.extend_from_slice(bytes);
            Ok::<(), std::convert::Infallible>(())
        });
        if submitted.is_err() {
            return false;
        }
        match *source {
            Source::Buffer(len) => pipeline.bytes.advance(len),
            Source::Describe(len) => {
                pipeline.bytes.advance(len);
                pipeline.flush = sync == SyncPoint::Member;
            }
            Source::Own(_) | Source::Undescribed(_) => {}
        }
        pipeline.mid_segment = sync == SyncPoint::Member;
        pipeline.requests.pop_front();
        true
    }
}
