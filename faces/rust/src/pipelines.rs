//! Connects [`onetrip_postgres::client::pipeline`] to a connection of this crate.

use std::sync::Arc;
use std::task::Waker;

use bytes::BytesMut;
use onetrip_engine::{Outcome, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::pipeline::{self, Around, Member, Refusal, Why, outcome_behind};
use onetrip_postgres::client::said;
use onetrip_postgres::message::EncodeError;

use crate::first_use::FirstUse;
use crate::lead::{Lead, Note};
use crate::replies::Replies;
use crate::{Error, Kind};

/// This crate, as the pipelines see it.
pub(crate) enum Face {}

/// The pipelines of a connection.
pub(crate) type Pipelines = pipeline::Pipelines<Face>;

impl pipeline::Face for Face {
    type Why = Error;
    type Around = Arc<Lead>;
    type Undescribed = FirstUse;
    type Waker = Waker;
}

impl Why for Error {
    fn refused(refusal: Refusal) -> Error {
        let kind = match refusal {
            Refusal::Late => Kind::Timeout,
            Refusal::Unencodable => Kind::Conversion,
            _ => Kind::Misuse,
        };
        Error::new(kind, Outcome::NotSent, refusal.code(), refusal.text())
    }

    fn is_late(&self) -> bool {
        self.kind() == Kind::Timeout
    }

    fn of_statement(self, number: u64) -> Error {
        self.about(format_args!("statement {number} of the pipeline"))
    }
}

impl Around<Error> for Arc<Lead> {
    fn write_guard(&self, out: &mut BytesMut) -> Result<Expect, EncodeError> {
        Lead::write_guard(self, out)
    }

    fn refusal(&self) -> Option<Error> {
        Lead::refusal(self)
    }
}

impl pipeline::Replies<Face> for Replies {
    fn add(&mut self, member: Member, around: Option<&Arc<Lead>>) -> Token {
        let token = Replies::add(self);
        if let Some(entry) = self.entry(token) {
            entry.member = Some(member);
            entry.note = around.cloned().map(Note::within);
        }
        token
    }

    fn member(&mut self, token: Token) -> Option<Member> {
        self.entry(token)?.member
    }

    fn abandon(&mut self, token: Token) {
        Replies::abandon(self, token);
    }

    fn remove(&mut self, token: Token) {
        Replies::remove(self, token);
    }

    fn fail(&mut self, token: Token, why: Error) {
        let waker = Replies::fail(self, token, why);
        self.wakers.extend(waker);
    }

    fn wake(&mut self, waker: Waker) {
        self.wakers.push(waker);
    }
}

/// The error of a statement that was completed, but whose segment failed.
pub(crate) fn rolled_back(cause: &Error) -> Error {
    Error::new(
        Kind::Server,
        outcome_behind(cause.outcome()),
        said::ROLLED_BACK.code,
        format!("{}: {cause}", said::ROLLED_BACK.text),
    )
}
