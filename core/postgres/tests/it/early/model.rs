//! A small model of the server: statements that do work, transactions, the two protocols.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Buf, BytesMut};
use onetrip_postgres::message::error_response::{self, field};
use onetrip_postgres::message::tag::{backend, frontend};
use onetrip_postgres::message::{
    BackendKeyData, Bind, Close, CommandComplete, Describe, Execute, Frame, Parse, Query,
    ReadyForQuery, Secret, Target, TransactionStatus, frame, frontend_max_len,
};

/// What a statement that is not what it should be does instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails with this code.
    Error(&'static str),
    /// The connection is ended with this code.
    Fatal(&'static str),
    /// The connection is cut.
    Cut,
}

/// One `work N` that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) number: u32,
    /// The transaction, and whether it was begun by a statement.
    pub(crate) transaction: u64,
    pub(crate) is_explicit: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Server {
    input: BytesMut,
    pub(crate) out: BytesMut,
    was_begun: bool,
    is_explicit: bool,
    is_failed: bool,
    skips: bool,
    transaction: u64,
    statements: BTreeMap<String, String>,
    portal: Option<String>,
    savepoints: Vec<(String, usize)>,
    /// What the transaction has done until now.
    pending: Vec<u32>,
    pub(crate) committed: Vec<u32>,
    pub(crate) ran: Vec<Work>,
    /// Statements that begin so fail, one after the other.
    pub(crate) faults: VecDeque<(&'static str, Fault)>,
    /// All texts that were executed.
    pub(crate) log: Vec<String>,
    pub(crate) is_closed: bool,
    copies: bool,
    /// How many Syncs it has taken.
    pub(crate) syncs: u32,
}

type Failure = (String, &'static str);

impl Server {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        if !self.was_begun {
            let Some(len) = self.input.first_chunk().map(|it| u32::from_be_bytes(*it) as usize)
            else {
                return;
            };
            if self.input.len() < len {
                return;
            }
            self.input.advance(len);
            self.was_begun = true;
            self.out.extend_from_slice(&[backend::AUTHENTICATION, 0, 0, 0, 8, 0, 0, 0, 0]);
            let key = BackendKeyData { process_id: 7, secret_key: Secret(b"abcd") };
            key.encode(&mut self.out).unwrap();
            self.ready();
        }
        while !self.is_closed {
            let input = self.input.split();
            let Some(message) = frame(&input, frontend_max_len).unwrap() else {
                self.input = input;
                return;
            };
            self.take(message);
            self.input = input;
            self.input.advance(message_len(&self.input));
        }
    }

    fn take(&mut self, message: Frame<'_>) {
        let body = message.body;
        if message.tag == frontend::SYNC {
            self.syncs += 1;
            self.skips = false;
            if self.copies {
                return;
            }
            self.end_implicit(true);
            return self.ready();
        }
        if self.skips {
            return;
        }
        let done = match message.tag {
            frontend::QUERY => return self.query(Query::decode(body).unwrap().sql),
            frontend::PARSE => self.parse(Parse::decode(body).unwrap()),
            frontend::BIND => self.bind(Bind::decode(body).unwrap()),
            frontend::DESCRIBE => self.describe(Describe::decode(body).unwrap().target),
            frontend::EXECUTE => self.execute(Execute::decode(body).unwrap()),
            frontend::CLOSE => {
                if let Target::Statement(name) = Close::decode(body).unwrap().target {
                    self.statements.remove(name);
                }
                self.empty(backend::CLOSE_COMPLETE);
                Ok(())
            }
            frontend::COPY_DONE if std::mem::take(&mut self.copies) => {
                self.complete("COPY 0");
                Ok(())
            }
            frontend::TERMINATE => {
                self.is_closed = true;
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(failure) = done {
            self.fail(failure);
            self.skips = true;
        }
    }

    fn query(&mut self, sql: &str) {
        self.statements.remove("");
        self.portal = None;
        let parts: Vec<&str> = sql.split(';').map(str::trim).filter(|it| !it.is_empty()).collect();
        if let Some(bad) = parts.iter().find(|it| it.starts_with("bad")) {
            self.fail((format!("syntax error in {bad}"), "42601"));
        } else if parts.is_empty() {
            self.empty(backend::EMPTY_QUERY_RESPONSE);
        } else {
            for part in parts {
                match self.run(part) {
                    Ok(tag) => self.complete(&tag),
                    Err(failure) => {
                        self.fail(failure);
                        break;
                    }
                }
            }
        }
        if self.is_closed {
            return;
        }
        self.end_implicit(true);
        self.ready();
    }

    fn parse(&mut self, parse: Parse<'_>) -> Result<(), Failure> {
        self.statements.remove("");
        if parse.sql.starts_with("bad") {
            return Err((format!("syntax error in {}", parse.sql), "42601"));
        }
        self.allow(parse.sql)?;
        if self.statements.contains_key(parse.statement) {
            return Err((format!("{} already exists", parse.statement), "42P05"));
        }
        self.statements.insert(parse.statement.to_owned(), parse.sql.to_owned());
        self.empty(backend::PARSE_COMPLETE);
        Ok(())
    }

    fn bind(&mut self, bind: Bind<'_>) -> Result<(), Failure> {
        let Some(sql) = self.statements.get(bind.statement).cloned() else {
            return Err((format!("{} does not exist", bind.statement), "26000"));
        };
        self.allow(&sql)?;
        self.portal = Some(sql);
        self.empty(backend::BIND_COMPLETE);
        Ok(())
    }

    fn describe(&mut self, target: Target<'_>) -> Result<(), Failure> {
        if let Target::Statement(name) = target {
            if !self.statements.contains_key(name) {
                return Err((format!("{name} does not exist"), "26000"));
            }
            self.out.extend_from_slice(&[backend::PARAMETER_DESCRIPTION, 0, 0, 0, 6, 0, 0]);
        }
        self.empty(backend::NO_DATA);
        Ok(())
    }

    fn execute(&mut self, execute: Execute<'_>) -> Result<(), Failure> {
        let Some(sql) = self.portal.clone() else {
            return Err((format!("portal {} does not exist", execute.portal), "34000"));
        };
        let tag = self.run(&sql)?;
        if self.copies {
            self.out.extend_from_slice(&[backend::COPY_IN_RESPONSE, 0, 0, 0, 7, 0, 0, 0]);
        } else {
            self.complete(&tag);
        }
        Ok(())
    }

    /// Refuses what a failed transaction refuses.
    fn allow(&self, sql: &str) -> Result<(), Failure> {
        let ends = ["rollback", "commit"].iter().any(|it| sql.to_lowercase().starts_with(it));
        match self.is_failed && !ends {
            true => Err(("current transaction is aborted".to_owned(), "25P02")),
            false => Ok(()),
        }
    }

    fn run(&mut self, sql: &str) -> Result<String, Failure> {
        self.allow(sql)?;
        self.log.push(sql.to_owned());
        if let Some((begins, fault)) = self.faults.front().copied()
            && sql.starts_with(begins)
        {
            self.faults.pop_front();
            match fault {
                Fault::Error(code) => return Err((format!("{sql} was made to fail"), code)),
                Fault::Fatal(code) => {
                    self.error("FATAL", &format!("{sql} met the end"), code);
                    self.is_closed = true;
                }
                Fault::Cut => self.is_closed = true,
            }
            return Ok(String::new());
        }
        let words: Vec<&str> = sql.split_whitespace().collect();
        match words[..] {
            ["begin" | "BEGIN", ..] => {
                self.begin_explicit();
                Ok("BEGIN".to_owned())
            }
            ["set", "transaction", ..] => Ok("SET".to_owned()),
            ["savepoint", name] => {
                self.explicitly("SAVEPOINT")?;
                self.savepoints.push((name.to_owned(), self.pending.len()));
                Ok("SAVEPOINT".to_owned())
            }
            ["release" | "RELEASE", .., name] => {
                self.explicitly("RELEASE")?;
                let at = self.savepoint(name)?;
                self.savepoints.truncate(at);
                Ok("RELEASE".to_owned())
            }
            ["rollback", "to", name] => {
                self.explicitly("ROLLBACK TO")?;
                let at = self.savepoint(name)?;
                self.pending.truncate(self.savepoints[at].1);
                self.savepoints.truncate(at + 1);
                self.is_failed = false;
                Ok("ROLLBACK".to_owned())
            }
            ["commit"] => Ok(self.end_explicit(true)),
            ["rollback" | "ROLLBACK"] => Ok(self.end_explicit(false)),
            ["work", number] => {
                let number = number.parse().unwrap();
                let transaction = self.transaction();
                self.ran.push(Work { number, transaction, is_explicit: self.is_explicit });
                self.pending.push(number);
                Ok("INSERT 0 1".to_owned())
            }
            ["copy"] => {
                self.copies = true;
                Ok("COPY".to_owned())
            }
            ["deallocate", name] => match self.statements.remove(name) {
                Some(_) => Ok("DEALLOCATE".to_owned()),
                None => Err((format!("{name} does not exist"), "26000")),
            },
            _ => Err((format!("unknown: {sql}"), "42704")),
        }
    }

    fn transaction(&mut self) -> u64 {
        if self.transaction.is_multiple_of(2) {
            self.transaction += 1;
        }
        self.transaction
    }

    fn begin_explicit(&mut self) {
        self.transaction();
        self.is_explicit = true;
    }

    fn explicitly(&self, what: &str) -> Result<(), Failure> {
        match self.is_explicit {
            true => Ok(()),
            false => Err((format!("{what} needs a transaction"), "25P01")),
        }
    }

    fn savepoint(&self, name: &str) -> Result<usize, Failure> {
        let at = self.savepoints.iter().rposition(|it| it.0 == name);
        at.ok_or_else(|| (format!("savepoint {name} does not exist"), "3B001"))
    }

    fn end_explicit(&mut self, commits: bool) -> String {
        let commits = commits && !self.is_failed;
        self.is_explicit = false;
        self.is_failed = false;
        self.savepoints.clear();
        self.end_implicit(commits);
        if commits { "COMMIT" } else { "ROLLBACK" }.to_owned()
    }

    fn end_implicit(&mut self, commits: bool) {
        if self.is_explicit {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        if commits {
            self.committed.extend(pending);
        }
        if !self.transaction.is_multiple_of(2) {
            self.transaction += 1;
        }
    }

    fn fail(&mut self, (message, code): Failure) {
        self.error("ERROR", &message, code);
        if self.is_explicit {
            self.is_failed = true;
        } else {
            self.end_implicit(false);
        }
    }

    fn error(&mut self, severity: &str, message: &str, code: &str) {
        let fields = [
            (field::SEVERITY, severity.as_bytes()),
            (field::SEVERITY_NONLOCALIZED, severity.as_bytes()),
            (field::CODE, code.as_bytes()),
            (field::MESSAGE, message.as_bytes()),
            (field::POSITION, b"5"),
        ];
        error_response::write(&mut self.out, fields).unwrap();
    }

    fn complete(&mut self, tag: &str) {
        if !self.is_closed {
            CommandComplete { tag }.encode(&mut self.out).unwrap();
        }
    }

    fn empty(&mut self, tag: u8) {
        self.out.extend_from_slice(&[tag, 0, 0, 0, 4]);
    }

    fn ready(&mut self) {
        let status = match (self.is_explicit, self.is_failed) {
            (_, true) => TransactionStatus::Failed,
            (true, _) => TransactionStatus::InTransaction,
            (false, _) => TransactionStatus::Idle,
        };
        ReadyForQuery { status }.encode(&mut self.out);
    }
}

/// The length of the message at the front.
fn message_len(bytes: &[u8]) -> usize {
    1 + u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize
}
