//! The value of a call: a future of its reply.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use onetrip_engine::{Outcome, Token};
use onetrip_postgres::message::CommandComplete;
use onetrip_postgres::message::tag::backend;

use crate::Error;
use crate::core::Shared;
use crate::first_use::FirstUse;
use crate::pipelines::rolled_back;
use crate::replies::Finished;
use crate::rows::{Blocks, Columns, Row, Rows, columns_of};

/// The reply to a statement that was submitted when this was made. Await it for the result.
///
/// Dropping it does not disturb anybody: a statement that has been sent runs, and its reply is read
/// and dropped; one that still waits in the queue is taken back and never sent.
#[must_use = "a reply does nothing by itself: await it, or drop it where the result doesn't matter"]
#[derive(Debug)]
pub struct Reply<T> {
    shared: Arc<Shared>,
    stage: Stage,
    /// The columns of a prepared statement; others come with the reply.
    columns: Option<Columns>,
    /// What a statement whose text was not seen before needs if the server refuses the guess.
    first_use: Option<Box<FirstUse>>,
    /// The BEGIN that went in front.
    lead: Option<Token>,
    result: PhantomData<fn() -> T>,
}

#[derive(Debug)]
enum Stage {
    /// Refused before anything was sent.
    Refused(Error),
    /// The statement is on its way.
    Waiting(Token),
    /// Its description is on its way; the statement follows.
    Describing(Token),
    Taken,
}

impl<T> Reply<T> {
    pub(crate) fn refused(shared: &Arc<Shared>, error: Error) -> Reply<T> {
        Reply::new(shared, Stage::Refused(error))
    }

    pub(crate) fn waiting(
        shared: &Arc<Shared>,
        token: Token,
        columns: Option<Columns>,
    ) -> Reply<T> {
        let mut reply = Reply::new(shared, Stage::Waiting(token));
        reply.columns = columns;
        reply
    }

    pub(crate) fn describing(shared: &Arc<Shared>, token: Token) -> Reply<T> {
        Reply::new(shared, Stage::Describing(token))
    }

    pub(crate) fn behind(mut self, lead: Option<Token>) -> Reply<T> {
        self.lead = lead;
        self
    }

    pub(crate) fn first_use(mut self, first_use: Option<Box<FirstUse>>) -> Reply<T> {
        self.first_use = first_use;
        self
    }

    fn new(shared: &Arc<Shared>, stage: Stage) -> Reply<T> {
        Reply {
            shared: shared.clone(),
            stage,
            columns: None,
            first_use: None,
            lead: None,
            result: PhantomData,
        }
    }
}

impl<T: FromReply> Future for Reply<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let this = &mut *self;
            let token = match std::mem::replace(&mut this.stage, Stage::Taken) {
                Stage::Refused(error) => return Poll::Ready(Err(error)),
                Stage::Taken => panic!("a reply was polled again after it had been taken"),
                Stage::Waiting(token) | Stage::Describing(token)
                    if !this.shared.is_ready(token, cx) =>
                {
                    self.stage = match this.first_use.as_deref() {
                        Some(first_use) if first_use.describes() => Stage::Describing(token),
                        _ => Stage::Waiting(token),
                    };
                    return Poll::Pending;
                }
                Stage::Waiting(token) | Stage::Describing(token) => token,
            };
            let (blocks, result) = this.shared.take_reply(token, this.lead.take());
            let (result, first_use) = match this.first_use.take() {
                Some(first_use) => first_use.next(&this.shared, &blocks, result),
                None => (result, None),
            };
            if let Some((token, first_use)) = first_use {
                let describes = first_use.describes();
                this.first_use = Some(first_use);
                this.stage =
                    if describes { Stage::Describing(token) } else { Stage::Waiting(token) };
                continue;
            }
            let columns = this.columns.take();
            return Poll::Ready(
                result.and_then(|it| T::read(columns, blocks, it == Finished::Provisional)),
            );
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let (Stage::Waiting(token) | Stage::Describing(token)) = self.stage else { return };
        let lead = self.lead.take();
        self.shared.with(|core, now| {
            if let Some(lead) = lead {
                core.replies.abandon(lead);
            }
            let (bytes, member, ticket) = core.replies.abandon(token);
            if let Some(member) = member {
                core.pipeline_taken(now, member, bytes);
            }
            if let Some(ticket) = ticket {
                core.cancel(now, ticket);
            }
        });
    }
}

impl Shared {
    /// Whether a reply has ended. If it hasn't, what is unwritten leaves now, and the task is woken
    /// when it has.
    fn is_ready(&self, token: Token, cx: &mut Context<'_>) -> bool {
        let mut core = self.lock();
        if core.replies.poll_ended(token, cx) {
            return true;
        }
        let member = core.replies.entry(token).and_then(|entry| entry.member);
        if member.is_none() && core.nothing_to_write() {
            return false;
        }
        drop(core);
        self.with(|core, now| {
            if let Some(member) = member {
                core.pipeline_awaited(now, member);
            }
            core.settle(now);
            core.write_on_await(now);
            core.replies.poll_ended(token, cx)
        })
    }

    /// Takes a reply that has ended.
    fn take_reply(&self, token: Token, lead: Option<Token>) -> (Blocks, Result<Finished, Error>) {
        let mut core = self.lock();
        let (blocks, mut result, member) = core.replies.take(token);
        if let Some(lead) = lead
            && let Some(begin) = core.replies.take_error(lead)
            && result.is_err()
        {
            result = Err(begin.about("BEGIN"));
        }
        let Some(member) = member else { return (blocks, result) };
        drop(core);
        let segment = self.with(|core, now| core.pipeline_taken(now, member, blocks.len()));
        let result = match (result, segment) {
            (Ok(_), Some(Err(error))) => Err(rolled_back(&error)),
            (Ok(_), Some(Ok(()))) => Ok(Finished::Settled),
            (result, _) => result,
        };
        (blocks, result)
    }
}

/// What a reply can be read as.
pub trait FromReply: Sized + sealed::Sealed {
    #[doc(hidden)]
    #[allow(private_interfaces)] // Sealed: only this crate calls it.
    fn read(columns: Option<Columns>, blocks: Blocks, provisional: bool) -> Result<Self, Error>;
}

impl FromReply for Rows {
    #[allow(private_interfaces)]
    fn read(columns: Option<Columns>, blocks: Blocks, provisional: bool) -> Result<Rows, Error> {
        let mut columns = columns;
        let mut len = 0;
        for (tag, body) in blocks.messages() {
            match tag {
                backend::DATA_ROW => len += 1,
                backend::ROW_DESCRIPTION => {
                    let Some(described) = columns_of(body, None) else {
                        return Err(Error::unreadable("the columns of the result can't be read"));
                    };
                    columns = Some(described);
                }
                _ => {}
            }
        }
        Ok(Rows::new(columns.unwrap_or_default(), blocks, len, provisional))
    }
}

impl FromReply for Option<Row> {
    #[allow(private_interfaces)]
    fn read(columns: Option<Columns>, blocks: Blocks, provisional: bool) -> Result<Self, Error> {
        let rows = Rows::read(columns, blocks, provisional)?;
        match rows.len() {
            0 => Ok(None),
            1 => Ok(rows.into_first()),
            rows => Err(Error::new(
                crate::Kind::Misuse,
                Outcome::Applied,
                "several_rows",
                format!("the statement returned {rows} rows where at most one was asked for"),
            )),
        }
    }
}

impl FromReply for Row {
    #[allow(private_interfaces)]
    fn read(columns: Option<Columns>, blocks: Blocks, provisional: bool) -> Result<Row, Error> {
        Option::<Row>::read(columns, blocks, provisional)?.ok_or_else(|| {
            Error::new(
                crate::Kind::Misuse,
                Outcome::Applied,
                "no_row",
                "the statement returned no row where one was asked for",
            )
        })
    }
}

/// The number of rows that the statement inserted, updated, deleted or returned; 0 for one that
/// does not say.
impl FromReply for u64 {
    #[allow(private_interfaces)]
    fn read(_: Option<Columns>, blocks: Blocks, _: bool) -> Result<u64, Error> {
        let complete = blocks.messages().find(|(tag, _)| *tag == backend::COMMAND_COMPLETE);
        let Some((_, body)) = complete else { return Ok(0) };
        let complete =
            CommandComplete::decode(body).map_err(|error| Error::unreadable(error.to_string()))?;
        Ok(complete.rows().unwrap_or(0))
    }
}

impl FromReply for () {
    #[allow(private_interfaces)]
    fn read(_: Option<Columns>, _: Blocks, _: bool) -> Result<(), Error> {
        Ok(())
    }
}

/// The whole reply, for this crate's own requests.
impl FromReply for Blocks {
    #[allow(private_interfaces)]
    fn read(_: Option<Columns>, blocks: Blocks, _: bool) -> Result<Blocks, Error> {
        Ok(blocks)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Rows {}
    impl Sealed for super::Row {}
    impl Sealed for Option<super::Row> {}
    impl Sealed for u64 {}
    impl Sealed for () {}
    impl Sealed for super::Blocks {}
}
