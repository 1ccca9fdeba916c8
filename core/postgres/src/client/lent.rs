//! A connection that serves one program after another, each of which believes that it has just
//! logged in.
//!
//! Behind the login the server is asked what a program could see of the session: the settings that
//! it reports, who is logged in, and what is left open. Behind each program the session is reset
//! (`DISCARD ALL`, outside of any transaction) and asked again. Only the same answer lets it serve
//! another one: what is not proven is closed.

use bytes::{Buf, BytesMut};

use crate::message::{
    BackendMessage, EncodeError, Query, TransactionStatus, Violation, frame, max_len,
};
use crate::startup::Ready;

/// See the module's documentation.
#[derive(Debug)]
pub struct Lent {
    question: String,
    /// The answer behind the login, once it came.
    fresh: Option<Vec<u8>>,
    /// Statements that are not answered yet; the last one is the question.
    awaited: usize,
    answer: Option<Vec<u8>>,
}

/// Whether a session is as it was behind its login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// More has to come.
    Awaited,
    /// It is.
    Proven,
    /// It isn't, or it can't be known.
    Failed,
}

/// Bytes of an answer. PostgreSQL 18 reports 15 settings.
const ANSWER_MAX: usize = 64 << 10;

/// What else a program could see, or would leave.
const SEEN: &str = "pg_catalog.current_setting('role'), session_user, current_user, \
     (select pg_catalog.count(*) from pg_catalog.pg_prepared_statement()), \
     (select pg_catalog.count(*) from pg_catalog.pg_cursor()), \
     (select pg_catalog.count(*) from pg_catalog.pg_listening_channels())";

impl Lent {
    /// For a session that has just logged in. `None` if the server has reported a setting of a name
    /// that can't be asked for, or is in a transaction.
    #[must_use]
    pub fn new(ready: &Ready) -> Option<Lent> {
        if ready.status != TransactionStatus::Idle {
            return None;
        }
        let mut question = "select ".to_owned();
        for (name, _) in &ready.parameters {
            let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '.';
            if !name.chars().all(is_plain) {
                return None;
            }
            question.push_str(&format!("pg_catalog.current_setting('{name}'), "));
        }
        question.push_str(SEEN);
        Some(Lent { question, fresh: None, awaited: 0, answer: None })
    }

    /// Writes the question behind the login.
    ///
    /// # Errors
    /// The question is too long.
    pub fn ask(&mut self, out: &mut BytesMut) -> Result<(), EncodeError> {
        self.awaited = 1;
        Query { sql: &self.question }.encode(out)
    }

    /// Writes the reset and the question, behind a program that has left.
    ///
    /// # Errors
    /// As of [`ask`](Self::ask).
    pub fn reset(&mut self, in_transaction: bool, out: &mut BytesMut) -> Result<(), EncodeError> {
        // Not in one message, which would be a transaction, in which DISCARD ALL can't run.
        if in_transaction {
            Query { sql: "rollback" }.encode(out)?;
        }
        Query { sql: "discard all" }.encode(out)?;
        self.ask(out)?;
        self.awaited = 2 + usize::from(in_transaction);
        Ok(())
    }

    /// Takes whole messages off the front of `input`; an incomplete one stays.
    pub fn handle_bytes(&mut self, input: &mut BytesMut) -> Proof {
        loop {
            match self.handle_message(input) {
                Ok(true) if self.awaited > 0 => {}
                Ok(true) => return self.judge(input),
                Ok(false) if input.len() <= ANSWER_MAX => return Proof::Awaited,
                Ok(false) | Err(()) => return Proof::Failed,
            }
        }
    }

    /// False if none is whole.
    fn handle_message(&mut self, input: &mut BytesMut) -> Result<bool, ()> {
        let failed = |_: Violation| ();
        let Some(message) = frame(input, max_len).map_err(failed)? else { return Ok(false) };
        match BackendMessage::decode(message).map_err(failed)? {
            BackendMessage::DataRow(_) if self.awaited == 1 && self.answer.is_none() => {
                self.answer = Some(message.body.to_vec());
            }
            BackendMessage::ReadyForQuery(ready) if ready.status == TransactionStatus::Idle => {
                self.awaited -= 1;
            }
            // What was still on its way to the program is nobody's now.
            BackendMessage::NoticeResponse(_)
            | BackendMessage::NotificationResponse(_)
            | BackendMessage::ParameterStatus(_)
            | BackendMessage::RowDescription(_)
            | BackendMessage::CommandComplete(_) => {}
            _ => return Err(()),
        }
        let len = message.message_len();
        input.advance(len);
        Ok(true)
    }

    fn judge(&mut self, input: &BytesMut) -> Proof {
        let answer = self.answer.take();
        let is_same = answer.is_some() && (self.fresh.is_none() || self.fresh == answer);
        if self.fresh.is_none() {
            self.fresh = answer;
        }
        if is_same && input.is_empty() { Proof::Proven } else { Proof::Failed }
    }
}
