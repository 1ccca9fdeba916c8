//! How requests, segments and pipelines end.

use bytes::BytesMut;
use onetrip_engine::{Outcome, Request, SyncPoint, Token};

use super::{
    Around, Face, Io, Member, Pipeline, PipelineId, Pipelines, Refusal, Replies, Role, Source,
    Unsent, Why, failing,
};
use crate::client::transaction::verdict::Failure;
use crate::message::{EncodeError, Formats, TransactionStatus, bind, execute, parse};
use crate::session::Expect;

impl<F: Face> Pipelines<F> {
    /// Ends a pipeline before its end. Requests that were not handed over are not sent. A segment
    /// left open on the wire is undone: if it is a transaction of its own, by ROLLBACK; inside
    /// another transaction, by making the server fail, so that the owner learns of it at the commit
    /// at the latest.
    pub fn give_up<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, id: PipelineId, why: &F::Why) {
        let outside = io.engine.protocol().status() != TransactionStatus::Idle;
        let Some(pipeline) = self.get(id) else { return };
        if pipeline.finished {
            return;
        }
        pipeline.finished = true;
        pipeline.failure.get_or_insert_with(|| why.clone());
        let requests = std::mem::take(&mut pipeline.requests);
        pipeline.bytes.clear();
        // A transaction must not be committed without these statements, unless its owner wanted
        // that.
        let in_transaction = pipeline.around.is_some();
        let unwanted = why.is_late() && in_transaction && !requests.is_empty();
        let undo = (pipeline.mid_segment || unwanted).then(|| match in_transaction || outside {
            true => (Expect::sync().execute(), failing()),
            false => rollback().unwrap_or_else(|_| (Expect::sync().execute(), failing())),
        });
        for Unsent { request, .. } in requests {
            if let Some(why) = self.ended(io, request.token, Some(why.clone())) {
                io.replies.fail(request.token, why);
            }
        }
        let Some(pipeline) = self.get(id) else { return };
        if let Some((expect, undo)) = undo {
            let request = pipeline.request(io.now, Token::DISCARD, expect);
            pipeline.add(request, &undo);
            // A caller that takes a reply from now on learns that it does not stand.
            let segment = pipeline.segments.iter_mut().rev().find(|it| it.statements > 0);
            if let Some(segment) = segment {
                segment.result.get_or_insert_with(|| Err(why.clone()));
            }
            pipeline.add_sync(io.now, Token::DISCARD);
        }
        pipeline.ready.take().into_iter().for_each(|waker| io.replies.wake(waker));
        if let Some(group) = pipeline.group {
            io.engine.stop_counting(io.now, group);
        }
        self.ask_for_right(io, id);
    }

    /// Gives up a pipeline that can't be sent, even if it is finished.
    pub(super) fn give_up_whole<R: Replies<F>>(
        &mut self,
        io: &mut Io<'_, F, R>,
        id: PipelineId,
        why: &F::Why,
    ) {
        if let Some(pipeline) = self.get(id) {
            pipeline.finished = false;
        }
        self.give_up(io, id, why);
    }

    /// The owner of a batch is gone. Unless its end was sent, the batch is given up, even if it is
    /// finished. What undoes the part that was sent is sent at once. Returns whether it was given up.
    pub fn abandon<R: Replies<F>>(
        &mut self,
        io: &mut Io<'_, F, R>,
        id: PipelineId,
        why: &F::Why,
    ) -> bool {
        let Some(pipeline) = self.get(id) else { return false };
        let taken_back = pipeline.last_group.and_then(|group| io.engine.take_back(group));
        if let Some(is_open) = taken_back {
            // It may have given the right to send back, behind what was taken back.
            (pipeline.group, pipeline.mid_segment) = (pipeline.last_group, is_open);
            self.sender = Some(id);
        } else if pipeline.finished && pipeline.requests.is_empty() {
            return false;
        }
        self.give_up_whole(io, id, why);
        let group = self.get(id).and_then(|it| it.group).filter(|_| self.sender == Some(id));
        if let Some(group) = group {
            self.advance(io);
            io.engine.send_all(io.now, group);
        }
        true
    }

    /// Gives up each pipeline whose first unsent request is late.
    pub fn expire<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>) {
        for index in 0..self.list.len() {
            let Some(pipeline) = &mut self.list[index] else { continue };
            let first = pipeline.requests.front();
            if first.is_none_or(|unsent| unsent.request.deadline > io.now) {
                continue;
            }
            pipeline.timeout = None;
            let id = pipeline.id;
            // A finished pipeline has not been sent to its end, either.
            self.give_up_whole(io, id, &F::Why::refused(Refusal::Late));
        }
    }

    /// One reference to the pipeline is gone.
    pub fn release<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, id: PipelineId) {
        let is_sender = self.sender == Some(id);
        let Some(pipeline) = self.get(id) else { return };
        pipeline.references -= 1;
        if pipeline.references > 0 || is_sender || !pipeline.requests.is_empty() {
            return;
        }
        if let Some(group) = pipeline.group {
            io.engine.close_group(io.now, group);
        }
        self.forget(id);
    }

    /// Bytes of the reply to this request were freed.
    pub fn consumed<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>, token: Token, bytes: usize) {
        if let Some(member) = io.replies.member(token)
            && let Some(group) = self.get(member.pipeline).and_then(|it| it.group)
        {
            io.engine.handle_consumed(io.now, group, bytes);
        }
    }

    /// A reply with this many bytes was taken or given up. Returns how its segment ended.
    pub fn taken<R: Replies<F>>(
        &mut self,
        io: &mut Io<'_, F, R>,
        member: Member,
        bytes: usize,
    ) -> Option<Result<(), F::Why>> {
        let pipeline = self.get(member.pipeline)?;
        pipeline.is_read = true;
        let segment = pipeline.segment(member.segment);
        let result = segment.as_ref().and_then(|segment| segment.result.clone());
        if let (Role::Statement(_), Some(segment)) = (member.role, segment) {
            segment.replies -= 1;
        }
        pipeline.trim();
        if let Some(group) = pipeline.group
            && bytes > 0
        {
            io.engine.handle_consumed(io.now, group, bytes);
        }
        self.release(io, member.pipeline);
        result
    }

    /// The server described a statement, or refused to; its answer had this many bytes. The
    /// statement is encoded now.
    pub fn described<R: Replies<F>>(
        &mut self,
        io: &mut Io<'_, F, R>,
        member: Member,
        bytes: usize,
        encode: impl FnOnce(&F::Undescribed) -> Result<BytesMut, F::Why>,
    ) {
        let Role::Describe(token) = member.role else { return };
        let Some(pipeline) = self.get(member.pipeline) else { return };
        if let Some(group) = pipeline.group {
            io.engine.handle_consumed(io.now, group, bytes);
        }
        let mut unsent = pipeline.requests.iter_mut();
        let Some(unsent) = unsent.find(|unsent| unsent.request.token == token) else { return };
        let Source::Undescribed(statement) = &unsent.bytes else { return };
        match encode(statement) {
            Ok(bytes) => unsent.bytes = Source::Own(bytes),
            Err(why) => {
                // The requests behind it in the segment must not run without it.
                unsent.bytes = Source::Own(failing());
                unsent.request = Request {
                    sync: SyncPoint::Member,
                    ..Request::isolated(Token::DISCARD, Expect::sync().execute())
                };
                if let Some(why) = self.ended(io, token, Some(why)) {
                    io.replies.fail(token, why);
                }
            }
        }
    }

    /// A request ended. Updates its pipeline, and makes an error name the statement. Returns the
    /// error for its caller; `None` if no caller asked for the request.
    pub fn ended<R: Replies<F>>(
        &mut self,
        io: &mut Io<'_, F, R>,
        token: Token,
        why: Option<F::Why>,
    ) -> Option<F::Why> {
        let Some(member) = io.replies.member(token) else { return why };
        let Some(pipeline) = self.get(member.pipeline) else { return why };
        match member.role {
            Role::Describe(_) => why,
            Role::SendRight => {
                io.replies.remove(token);
                None
            }
            Role::Guard => Some(pipeline.guard_failed(member, why?)),
            Role::Statement(number) => pipeline.statement_ended(member, number, why),
            Role::Sync => {
                pipeline.settled.take().into_iter().for_each(|waker| io.replies.wake(waker));
                pipeline.segment_ended(member, why)
            }
        }
    }

    /// The connection ended, so requests that pipelines still keep were not sent.
    pub fn fail_all<R: Replies<F>>(&mut self, io: &mut Io<'_, F, R>) {
        let Some(why) = io.ended.clone() else { return };
        self.sender = None;
        for index in 0..self.list.len() {
            let Some(pipeline) = &mut self.list[index] else { continue };
            pipeline.group = None;
            let wakers = [pipeline.ready.take(), pipeline.settled.take()];
            wakers.into_iter().flatten().for_each(|waker| io.replies.wake(waker));
            let requests = std::mem::take(&mut pipeline.requests);
            pipeline.bytes.clear();
            if !requests.is_empty() {
                pipeline.failure.get_or_insert_with(|| why.clone());
            }
            // Its sync point was never sent, so what was completed in it does not stand.
            if let Some(open) = pipeline.segments.back_mut().filter(|it| it.statements > 0) {
                let failed = open.failed.clone().unwrap_or_else(|| why.clone());
                open.result.get_or_insert(Err(failed));
            }
            for Unsent { request, .. } in requests {
                if let Some(why) = self.ended(io, request.token, Some(why.clone())) {
                    io.replies.fail(request.token, why);
                }
            }
            if self.list[index].as_ref().is_some_and(|it| it.references == 0) {
                self.list[index] = None;
            }
        }
    }
}

impl<F: Face> Pipeline<F> {
    /// The transaction around the pipeline is not open.
    fn guard_failed(&mut self, member: Member, why: F::Why) -> F::Why {
        if why.answer().is_none() {
            return why;
        }
        let refusal = self.around.as_ref().and_then(Around::refusal);
        let why = refusal
            .unwrap_or_else(|| why.about("the transaction of the pipeline is not open any more"));
        self.failed(member.segment, &why);
        why
    }

    fn statement_ended(
        &mut self,
        member: Member,
        number: u64,
        why: Option<F::Why>,
    ) -> Option<F::Why> {
        self.touched |= why.as_ref().is_none_or(|why| why.outcome() == Outcome::Unknown);
        let why = why?;
        if why.is_skipped() {
            return Some(why);
        }
        // A statement that is the whole pipeline is not called "statement 1".
        let why = match self.statements == 1 || self.is_batch {
            true => why,
            false => why.of_statement(number),
        };
        self.failed(member.segment, &why);
        Some(why)
    }

    /// The sync point of a segment was answered.
    fn segment_ended(&mut self, member: Member, why: Option<F::Why>) -> Option<F::Why> {
        let segment = self.segment(member.segment);
        let failed = segment.as_ref().and_then(|segment| segment.failed.clone());
        let why = match (why, failed) {
            (Some(why), Some(failed)) if why.is_skipped() => Some(failed),
            (why, _) => why,
        };
        if let Some(segment) = segment {
            segment.result = Some(why.clone().map_or(Ok(()), Err));
        }
        if let Some(why) = &why {
            self.failure.get_or_insert_with(|| why.clone());
        }
        self.trim();
        why
    }
}

/// The request that undoes a segment that is a transaction of its own.
fn rollback() -> Result<(Expect, BytesMut), EncodeError> {
    let mut out = BytesMut::new();
    parse::write(&mut out, "", "ROLLBACK", &[])?;
    let nothing = |_: usize, _: &mut BytesMut| Ok(bind::IsNull::Yes);
    bind::write::<EncodeError>(&mut out, "", "", Formats::AllText, 0, nothing, Formats::AllText)?;
    out.extend_from_slice(&execute::UNNAMED_ALL);
    Ok((Expect::sync().parse().bind().execute(), out))
}
