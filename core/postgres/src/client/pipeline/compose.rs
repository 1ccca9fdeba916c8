//! What the owner of a pipeline adds to it, and asks of it.

use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{Outcome, SyncPoint, Time, Token};

use super::{
    Around, CHUNK_BYTES, Face, Io, Limits, Member, Pipeline, PipelineId, PipelineStatus, Pipelines,
    Refusal, Replies, Role, Source, Unsent, Why,
};
use crate::client::statements::Scope;
use crate::client::transaction::verdict::Failure;
use crate::message::SYNC;
use crate::session::Expect;

impl<F: Face> Pipelines<F> {
    /// An empty pipeline. `timeout` is the time for each of its requests.
    pub fn open(&mut self, around: Option<F::Around>, timeout: Option<Duration>) -> PipelineId {
        let free = self.list.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.list.push(None);
            self.list.len() - 1
        });
        self.serials += 1;
        let id = PipelineId { place: place as u32, serial: self.serials };
        self.timed |= timeout.is_some();
        self.list[place] = Some(Pipeline::new(id, around, timeout));
        id
    }

    /// Adds a statement. Returns the token of its reply.
    ///
    /// # Errors
    /// The pipeline is finished or too long.
    pub fn push<R: Replies<F>>(
        &mut self,
        io: &mut Io<'_, F, R>,
        id: PipelineId,
        expect: Expect,
        bytes: &[u8],
        limits: Limits,
    ) -> Result<Token, F::Why> {
        let token = self.add_statement(io, id, limits)?;
        let Some(pipeline) = self.get(id) else { return Err(finished::<F>()) };
        let request = pipeline.request(io.now, token, expect);
        pipeline.add(request, bytes);
        if pipeline.group.is_none() && pipeline.bytes.len() >= CHUNK_BYTES {
            self.ask_for_right(io, id);
        }
        Ok(token)
    }

    /// Marks it as a batch: the error of a statement does not say its number.
    pub fn is_batch(&mut self, id: PipelineId) {
        if let Some(pipeline) = self.get(id) {
            pipeline.is_batch = true;
        }
    }

    /// The segment of a pipeline's next statement, for the prepared statement that it names.
    pub fn scope(&mut self, id: PipelineId) -> Scope {
        self.get(id).map_or(Scope::Fixed, |it| Scope::Segment {
            segment: (id.serial, it.current()),
            timed: it.timeout.is_some(),
        })
    }

    /// Whether another statement of this many bytes would only be kept for now.
    pub fn keeps(&mut self, id: PipelineId, bytes: usize) -> bool {
        let untimed = !self.timed;
        self.get(id)
            .is_some_and(|it| untimed && it.group.is_none() && it.bytes.len() + bytes < CHUNK_BYTES)
    }

    /// Adds a statement that the server must describe first. That costs a round trip, and
    /// everything behind it waits for the answer.
    ///
    /// # Errors
    /// The pipeline is finished or too long.
    /// It is finished or too long.
    pub fn push_undescribed<R: Replies<F>>(
        &mut self,
        io: &mut Io<'_, F, R>,
        id: PipelineId,
        (describe, expect): (&[u8], Expect),
        statement: Box<F::Undescribed>,
        limits: Limits,
    ) -> Result<Token, F::Why> {
        let token = self.add_statement(io, id, limits)?;
        let Some(pipeline) = self.get(id) else { return Err(finished::<F>()) };
        let asking = io.replies.add(pipeline.member(Role::Describe(token)), None);
        let reply = Expect::sync().parse().describe_statement();
        let mut ask = pipeline.request(io.now, asking, reply);
        pipeline.bytes.extend_from_slice(describe);
        let mut len = describe.len();
        if pipeline.begins_with_describe() {
            // It is then a segment of its own. With a Flush in place of the Sync, the server would
            // be occupied between the question and the statement. Also, PgBouncer before 1.21 gives
            // the server to others as soon as a segment in front is answered, and the Flush behind
            // it is then never answered.
            ask.sync = SyncPoint::Own;
            pipeline.bytes.extend_from_slice(&SYNC);
            len += SYNC.len();
        }
        let bytes = Source::Describe(len);
        pipeline.requests.push_back(Unsent { request: ask, bytes });
        let request = pipeline.request(io.now, token, expect);
        let bytes = Source::Undescribed(statement);
        pipeline.requests.push_back(Unsent { request, bytes });
        self.ask_for_right(io, id);
        Ok(token)
    }

    /// Counts another statement, unless it is refused.
    fn add_statement<R: Replies<F>>(
        &mut self,
        io: &mut Io<'_, F, R>,
        id: PipelineId,
        limits: Limits,
    ) -> Result<Token, F::Why> {
        if let Some(ended) = &io.ended {
            return Err(ended.clone());
        }
        let Some(pipeline) = self.get(id) else { return Err(finished::<F>()) };
        if pipeline.finished {
            return Err(pipeline.failure.clone().unwrap_or_else(finished::<F>));
        }
        let is_full =
            pipeline.requests.len() >= limits.requests || pipeline.bytes.len() >= limits.bytes;
        if pipeline.overrun || is_full {
            pipeline.overrun = true;
            return Err(pipeline.failure.get_or_insert_with(too_long::<F>).clone());
        }
        let begins = pipeline.segments.back().is_none_or(|segment| segment.statements == 0);
        let around = pipeline.around.clone();
        if let (true, Some(around)) = (begins, &around) {
            pipeline.add_guard(io, around)?;
        }
        pipeline.statements += 1;
        pipeline.references += 1;
        if let Some(segment) = pipeline.segments.back_mut() {
            segment.statements += 1;
            segment.replies += 1;
        }
        let member = pipeline.member(Role::Statement(pipeline.statements));
        Ok(io.replies.add(member, around.as_ref()))
    }

    /// Adds a sync point; `None` if there is nothing in front of it.
    pub fn sync<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, id: PipelineId) -> Option<Token> {
        let pipeline = self.get(id)?;
        if pipeline.finished || pipeline.segments.back()?.statements == 0 {
            return None;
        }
        let token = io.replies.add(pipeline.member(Role::Sync), None);
        pipeline.references += 1;
        pipeline.add_sync(io.now, token);
        Some(token)
    }

    /// Asks for the replies so far.
    pub fn flush<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, id: PipelineId) {
        let Some(pipeline) = self.get(id) else { return };
        if pipeline.covered < pipeline.statements {
            pipeline.covered = pipeline.statements;
            pipeline.flush = true;
        }
        self.ask_for_right(io, id);
    }

    /// A caller awaits the reply to a statement, so it must not be kept back.
    pub fn awaited<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, member: Member) {
        let Some(pipeline) = self.get(member.pipeline) else { return };
        pipeline.is_read = true;
        match member.role {
            Role::Statement(number) if pipeline.covered < number => self.flush(io, member.pipeline),
            _ => self.ask_for_right(io, member.pipeline),
        }
    }

    /// No more statements come. Everything is sent, and then the right to send is given back.
    /// Returns the token of the last sync point, if one had to be added.
    pub fn finish<R: Replies<F>>(
        &mut self,
        io: &mut Io<'_, F, R>,
        id: PipelineId,
    ) -> Option<Token> {
        let token = self.sync(io, id);
        let pipeline = self.get(id)?;
        pipeline.finished = true;
        if let Some(group) = pipeline.group {
            // From now on its replies may be taken only when all have come.
            io.engine.stop_counting(io.now, group);
        }
        self.ask_for_right(io, id);
        token
    }

    /// Sends a pipeline that is long enough although it is not finished.
    pub fn press<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, id: PipelineId, limits: Limits) {
        let Some(pipeline) = self.get(id) else { return };
        pipeline.kept_max = Limits {
            requests: (limits.requests / 2).max(1),
            bytes: CHUNK_BYTES.min(limits.bytes / 2).max(1),
        };
        if !pipeline.has_room() {
            self.ask_for_right(io, id);
        }
    }

    /// Whether another statement would be sent without waiting in memory. If not, `waker` is woken
    /// when it would.
    pub fn poll_ready<R: Replies<F>>(
        &mut self,
        io: &mut Io<'_, F, R>,
        id: PipelineId,
        waker: impl FnOnce() -> F::Waker,
    ) -> Poll<Result<(), F::Why>> {
        if let Some(ended) = &io.ended {
            return Poll::Ready(Err(ended.clone()));
        }
        let stuck = io.is_stuck();
        let Some(pipeline) = self.get(id) else { return Poll::Ready(Err(finished::<F>())) };
        if pipeline.overrun || pipeline.finished {
            return Poll::Ready(Err(pipeline.failure.clone().unwrap_or_else(too_long::<F>)));
        }
        if pipeline.has_room() {
            return Poll::Ready(Ok(()));
        }
        // A caller that has taken replies will take more. Without one, the pipeline would wait for
        // ever.
        if pipeline.granted && stuck && !pipeline.is_read {
            return Poll::Ready(Err(F::Why::refused(Refusal::UnreadReplies)));
        }
        pipeline.ready = Some(waker());
        Poll::Pending
    }

    /// Whether every segment has ended. If not, `waker` is woken when one has.
    pub fn poll_settled(&mut self, id: PipelineId, waker: impl FnOnce() -> F::Waker) -> Poll<()> {
        let Some(pipeline) = self.get(id) else { return Poll::Ready(()) };
        if !pipeline.segments.iter().any(|it| it.statements > 0 && it.result.is_none()) {
            return Poll::Ready(());
        }
        pipeline.settled = Some(waker());
        Poll::Pending
    }

    /// The state of the pipeline, according to the replies so far.
    pub fn status(&mut self, is_closed: bool, id: PipelineId) -> PipelineStatus {
        match self.get(id) {
            Some(pipeline) if !is_closed && !pipeline.finished => match pipeline.segments.back() {
                Some(segment) if segment.failed.is_some() => PipelineStatus::Aborted,
                _ => PipelineStatus::On,
            },
            _ => PipelineStatus::Off,
        }
    }

    /// The first failure of any of its statements or sync points. Its outcome is `NotSent` only if
    /// nothing of the pipeline may have run.
    pub fn failure(&mut self, id: PipelineId) -> Option<F::Why> {
        let pipeline = self.get(id)?;
        let failure = pipeline.failure.clone()?;
        Some(match failure.outcome() {
            Outcome::NotSent if pipeline.touched => failure.with_outcome(Outcome::Unknown),
            _ => failure,
        })
    }
}

impl<F: Face> Pipeline<F> {
    /// Begins a segment with a guard that fails unless its transaction is open: a pipeline that
    /// outlives its transaction must not commit by itself.
    fn add_guard<R: Replies<F>>(
        &mut self,
        io: &mut Io<'_, F, R>,
        around: &F::Around,
    ) -> Result<(), F::Why> {
        let mut bytes = BytesMut::new();
        let expect =
            around.write_guard(&mut bytes).map_err(|_| F::Why::refused(Refusal::Unencodable))?;
        let token = io.replies.add(self.member(Role::Guard), None);
        let request = self.request(io.now, token, expect);
        self.add(request, &bytes);
        io.replies.abandon(token);
        Ok(())
    }
}

fn finished<F: Face>() -> F::Why {
    F::Why::refused(Refusal::Finished)
}

fn too_long<F: Face>() -> F::Why {
    F::Why::refused(Refusal::TooLong)
}

impl<F: Face, R> Io<'_, F, R> {
    /// Whether the pipeline with the right to send can go on only when its replies are taken.
    pub(super) fn is_stuck(&self) -> bool {
        self.engine.in_flight() == 0
            && self.engine.group_queued() == 0
            && self.engine.undelivered_bytes() > 0
    }

    /// Whether nothing is in flight or about to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.engine.in_flight() == 0 && self.engine.transmit().is_empty()
    }

    /// The deadline of a request that is made now with this timeout.
    pub fn deadline(&self, timeout: Option<Duration>) -> Time {
        timeout.map_or(Time::NEVER, |timeout| self.now.after(timeout))
    }
}
