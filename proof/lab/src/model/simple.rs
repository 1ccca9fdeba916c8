//! The simple protocol: exec_simple_query in src/backend/tcop/postgres.c.

use onetrip_postgres::message::{Format, empty};

use super::extended::{Portal, Ran};
use super::reply::code;
use super::{Fail, Server, Statement, Verb, rows};

impl Server {
    /// Runs a text of any number of statements, separated by `;`: in one transaction, unless they
    /// say otherwise.
    pub(super) fn query(&mut self, sql: &str) {
        let texts: Vec<&str> = sql.split(';').filter(|text| !text.trim().is_empty()).collect();
        let statements: Vec<Statement> = texts.iter().map(|text| Statement::parse(text)).collect();
        statements.iter().for_each(|statement| self.log.received(statement.op));
        if self.skipping {
            return;
        }
        if statements.is_empty() {
            self.put_bytes(&empty::EMPTY_QUERY_RESPONSE);
        }
        // The whole text is read before anything of it runs.
        let broken = statements.iter().find(|statement| statement.fail == Some(Fail::Parse));
        if let Some(broken) = broken {
            self.fail(code::SYNTAX, broken.op);
        } else {
            let texts = texts.into_iter().map(str::to_owned).collect();
            return self.run_texts(texts);
        }
        self.end_query();
    }

    /// Runs these, one after the other, until one fails, or a COPY waits for its data.
    fn run_texts(&mut self, mut texts: Vec<String>) {
        while !texts.is_empty() {
            let text = texts.remove(0);
            let statement = Statement::parse(&text);
            if statement.verb == Verb::Copy {
                match self.begin_copy(statement, texts) {
                    true => return,
                    false => break,
                }
            }
            if !self.run_simply(&text, statement, texts.is_empty()) {
                break;
            }
        }
        self.end_query();
    }

    /// A COPY has ended, and what stands behind it in its text runs.
    pub(super) fn went_on(&mut self, ran: Ran, verb: Verb, op: Option<u64>, behind: Vec<String>) {
        match self.has_run(ran, verb, op, behind.is_empty()) {
            true => self.run_texts(behind),
            false => self.end_query(),
        }
    }

    pub(super) fn end_query(&mut self) {
        self.skipping = false;
        if !self.is_closed() {
            self.put_ready();
        }
    }

    /// Runs one statement; false if it failed.
    fn run_simply(&mut self, text: &str, statement: Statement, last: bool) -> bool {
        let (verb, op) = (statement.verb, statement.op);
        if let Some(ran) = self.run_guard(text) {
            return self.has_run(ran, verb, op, last);
        }
        if statement.fail == Some(Fail::Bind) {
            self.fail(code::INVALID_TEXT, op);
            return false;
        }
        let refused = self.transaction.has_failed() && !verb.ends_transaction();
        if statement.returns_rows && !refused {
            self.put(|out| rows::describe(out, &statement, [Format::Text; 3]));
        }
        let mut portal = Portal::new(statement, [Format::Text; 3]);
        let ran = self.run_portal(&mut portal, 0);
        self.has_run(ran, verb, op, last)
    }

    /// A statement has run, and is confirmed; false if it failed.
    fn has_run(&mut self, ran: Ran, verb: Verb, op: Option<u64>, last: bool) -> bool {
        let Ran::Complete { tag } = ran else { return false };
        let ended = match verb {
            Verb::Commit | Verb::Rollback => self.end_block(verb, op),
            // The last statement is confirmed when the commit is done.
            _ if last && self.is_outside_block() => {
                self.portals.clear();
                self.transaction.commit(&self.log).map(|()| None)
            }
            _ => Ok(None),
        };
        match ended {
            Ok(other) => self.put_tag(&other.unwrap_or(tag)),
            Err(culprit) => self.fail(code::UNIQUE, culprit),
        }
        // In either protocol a failure sets this.
        !self.skipping
    }
}
