//! The extended protocol: exec_parse_message and its neighbours in src/backend/tcop/postgres.c.

use onetrip_postgres::message::{
    Bind, CommandComplete, Execute, Format, Parse, ServerError, Target, empty,
    parameter_description,
};

use super::reply::{self, Routine, code};
use super::tables::analysis::{Analysed, Bound};
use super::{Effect, Fail, Server, Statement, Verb, rows};

/// A prepared statement.
pub(super) struct Prepared {
    text: String,
    types: Vec<u32>,
    /// Whether its plan now returns other columns than when it was prepared.
    pub(super) stale: bool,
    /// The types that its Parse names, and what it takes and returns, if it is on a table.
    named: Vec<u32>,
    analysed: Option<Analysed>,
}

/// A statement with its parameters, and how far it ran.
pub(super) struct Portal {
    statement: Statement,
    formats: [Format; 3],
    /// The number of the next row; `None` before it began.
    next: Option<u32>,
    /// What it is on a table.
    bound: Option<Bound>,
}

/// How a run of a portal ended.
pub(super) enum Ran {
    /// At its row limit.
    Suspended,
    Complete {
        tag: String,
    },
    Empty,
    /// The error, or the end of the session, was sent.
    Failed,
}

impl Portal {
    pub(super) fn new(statement: Statement, formats: [Format; 3]) -> Portal {
        Portal { statement, formats, next: None, bound: None }
    }
}

impl Server {
    pub(super) fn parse(&mut self, parse: Parse<'_>) {
        let statement = Statement::parse(parse.sql);
        self.log.received(statement.op);
        if self.skipping {
            return;
        }
        self.transaction.session.expect(&statement, &self.log);
        let refused = if self.is_hit() {
            Some(code::CANCELLED)
        } else if self.is_refused(statement.verb) {
            Some(code::ABORTED)
        } else if !parse.statement.is_empty()
            && self.statements.contains_key(&seen(parse.statement))
        {
            Some(code::STATEMENT_TAKEN)
        } else if statement.fail == Some(Fail::Parse) {
            Some(code::SYNTAX)
        } else {
            None
        };
        if let Some(code) = refused {
            return self.fail(code, statement.op);
        }
        if statement.verb == Verb::Empty {
            self.transaction.session.guard_reset(&self.log);
        }
        let (mut types, named) = (Statement::parameter_types(parse.sql), parse.parameter_types);
        let named: Vec<u32> = named.collect();
        for (at, oid) in named.iter().enumerate() {
            types.resize(types.len().max(at + 1), rows::INT8);
            if *oid != 0 {
                types[at] = *oid;
            }
        }
        let analysed = match self.analysed(parse.statement, parse.sql, &named) {
            Ok(analysed) => analysed,
            Err(code) => return self.fail(code, statement.op),
        };
        let text = parse.sql.to_owned();
        let prepared = Prepared { text, types, stale: false, named, analysed };
        self.statements.insert(seen(parse.statement), prepared);
        self.put_bytes(&empty::PARSE_COMPLETE);
    }

    pub(super) fn bind(&mut self, bind: Bind<'_>) {
        let prepared = self.statements.get(&seen(bind.statement));
        let parameters: Vec<Option<String>> = bind
            .parameters
            .enumerate()
            .map(|(at, value)| value.map(|value| read(value, bind.parameter_formats.of(at))))
            .collect();
        let statement = prepared.map(|prepared| Statement::bind(&prepared.text, &parameters));
        let op = statement.as_ref().and_then(|statement| statement.op);
        if !parameters.is_empty() {
            self.log.received(op);
        }
        if self.skipping {
            return;
        }
        match &statement {
            Some(statement) => self.transaction.session.expect(statement, &self.log),
            None if bind.statement.starts_with("onetrip_reset") => {
                self.transaction.session.miss_reset(&self.log);
            }
            None => {}
        }
        let hit = self.is_hit();
        let prepared = self.statements.get(&seen(bind.statement));
        let refused = match (&statement, prepared) {
            (Some(_), _) if hit => Some(code::CANCELLED),
            (Some(statement), _) if self.is_refused(statement.verb) => Some(code::ABORTED),
            (Some(_), Some(prepared)) if prepared.types.len() != parameters.len() => {
                Some(code::PROTOCOL)
            }
            (Some(statement), _) if statement.fail == Some(Fail::Bind) => Some(code::INVALID_TEXT),
            // A statement that returns no rows has no columns that could change.
            (Some(statement), Some(prepared)) if prepared.stale && statement.returns_rows => {
                Some(code::STALE)
            }
            (Some(_), _) if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) => {
                Some(code::PORTAL_TAKEN)
            }
            (Some(_), _) => None,
            (None, _) => Some(code::NO_STATEMENT),
        };
        match (statement, refused) {
            (Some(statement), None) => {
                let formats = [0, 1, 2].map(|at| bind.result_formats.of(at).unwrap_or_default());
                let mut portal = Portal::new(statement, formats);
                portal.bound = match self.bound_to_table(&bind, op) {
                    Ok(bound) => bound,
                    Err((code, routine)) => return self.fail_in(code, routine, op),
                };
                self.portals.insert(bind.portal.to_owned(), portal);
                self.put_bytes(&empty::BIND_COMPLETE);
            }
            (_, code) => self.fail(code.unwrap_or(code::NO_STATEMENT), op),
        }
    }

    /// What a Bind of a statement on a table makes; nothing of any other.
    fn bound_to_table(
        &mut self,
        bind: &Bind<'_>,
        op: Option<u64>,
    ) -> Result<Option<Bound>, (&'static str, Option<Routine>)> {
        let Some((text, analysed)) = self.of_table(bind.statement).map_err(|code| (code, None))?
        else {
            return Ok(None);
        };
        self.bound(&text, &analysed, bind, op).map(Some)
    }

    /// The text of a prepared statement on a table, and what it was parsed as. A pooler parses it
    /// first on a server that does not have it.
    fn of_table(&mut self, name: &str) -> Result<Option<(String, Analysed)>, &'static str> {
        let Some(prepared) = self.statements.get(&seen(name)) else { return Ok(None) };
        let Some(analysed) = prepared.analysed.clone() else { return Ok(None) };
        let (text, named) = (prepared.text.clone(), prepared.named.clone());
        match self.pooled {
            Some(_) if !name.is_empty() => {
                let analysed = self.analysed(name, &text, &named)?;
                Ok(analysed.map(|analysed| (text, analysed)))
            }
            _ => Ok(Some((text, analysed))),
        }
    }

    /// Describes a statement on a table.
    fn describe_of_table(&mut self, text: &str, analysed: &Analysed, op: Option<u64>) {
        let now = match self.revalidated(text, analysed) {
            Ok(now) => now,
            Err((code, routine)) => return self.fail_in(code, routine, op),
        };
        self.put(|out| parameter_description::write(out, &now.types).expect("few parameters"));
        match now.columns.is_empty() {
            false => self.put(|out| now.describe(out, &[])),
            true => self.put_bytes(&empty::NO_DATA),
        }
    }

    pub(super) fn describe(&mut self, target: Target<'_>) {
        if self.skipping {
            return;
        }
        if let Target::Statement(name) = target {
            match self.of_table(name) {
                Ok(None) => {}
                Ok(Some((text, analysed))) => {
                    return self.describe_of_table(&text, &analysed, Statement::parse(&text).op);
                }
                Err(code) => return self.fail(code, None),
            }
        }
        if let Target::Portal(name) = target
            && let Some(bound) = self.portals.get(name).and_then(|portal| portal.bound.clone())
        {
            return match bound.returns_rows() {
                true => self.put(|out| bound.describe(out)),
                false => self.put_bytes(&empty::NO_DATA),
            };
        }
        let (statement, formats) = match target {
            Target::Statement(name) => {
                let Some(prepared) = self.statements.get(&seen(name)) else {
                    return self.fail(code::NO_STATEMENT, None);
                };
                let statement = Statement::parse(&prepared.text);
                if prepared.stale && statement.returns_rows {
                    return self.fail(code::STALE, statement.op);
                }
                let types = prepared.types.clone();
                self.put(|out| {
                    parameter_description::write(out, &types).expect("few parameters");
                });
                (statement, [Format::Text; 3])
            }
            Target::Portal(name) => match self.portals.get(name) {
                Some(portal) => (portal.statement.clone(), portal.formats),
                None => return self.fail(code::NO_PORTAL, None),
            },
        };
        match statement.returns_rows {
            true => self.put(|out| rows::describe(out, &statement, formats)),
            false => self.put_bytes(&empty::NO_DATA),
        }
    }

    pub(super) fn execute(&mut self, execute: Execute<'_>) {
        if self.skipping {
            return;
        }
        let Some(mut portal) = self.portals.remove(execute.portal) else {
            return self.fail(code::NO_PORTAL, None);
        };
        let ran = self.run_portal(&mut portal, execute.rows_max.max(0) as u32);
        let op = portal.statement.op;
        let verb = portal.statement.verb;
        if !matches!(ran, Ran::Failed) {
            self.portals.insert(execute.portal.to_owned(), portal);
        }
        match ran {
            Ran::Suspended => self.put_bytes(&empty::PORTAL_SUSPENDED),
            Ran::Empty => self.put_bytes(&empty::EMPTY_QUERY_RESPONSE),
            Ran::Failed => {}
            Ran::Complete { tag } => {
                // COMMIT and ROLLBACK take effect before they are confirmed, not at the Sync.
                match self.end_block(verb, op) {
                    Ok(tag_of_end) => self.put_tag(&tag_of_end.unwrap_or(tag)),
                    Err(culprit) => self.fail(code::UNIQUE, culprit),
                }
            }
        }
    }

    pub(super) fn close(&mut self, target: Target<'_>) {
        if self.skipping {
            return;
        }
        match target {
            Target::Statement(name) => drop(self.statements.remove(&seen(name))),
            Target::Portal(name) => drop(self.portals.remove(name)),
        }
        self.put_bytes(&empty::CLOSE_COMPLETE);
    }

    pub(super) fn sync(&mut self) {
        self.log.sync();
        let mut failed = std::mem::take(&mut self.skipping);
        if self.is_outside_block() {
            self.portals.clear();
            let last = self.transaction.last();
            if last.is_some() && self.is_hit() {
                failed = true;
                self.transaction.roll_back(&self.log);
                self.put_error(&reply::error("ERROR", code::CANCELLED, last.flatten()));
            } else if let Err(culprit) = self.transaction.commit(&self.log) {
                failed = true;
                self.put_error(&reply::error("ERROR", code::UNIQUE, culprit));
            }
        }
        self.transaction.session.sync(failed, &self.log);
        if let (true, Some(schema)) = (self.is_outside_block(), &self.config.schema) {
            self.pooled = schema.next_server();
        }
        self.put_ready();
    }

    /// Runs a portal for at most `rows_max` rows; zero means all.
    pub(super) fn run_portal(&mut self, portal: &mut Portal, rows_max: u32) -> Ran {
        let Portal { statement, formats, next, bound } = portal;
        if statement.verb == Verb::Empty {
            return Ran::Empty;
        }
        if self.is_refused(statement.verb) {
            self.fail(code::ABORTED, statement.op);
            return Ran::Failed;
        }
        if next.is_none() {
            self.begin(statement);
        }
        if self.is_hit() || self.transaction.session.trips(statement) {
            self.fail_running(statement, code::CANCELLED);
            return Ran::Failed;
        }
        if self.finds_fault(statement) {
            self.fail_running(statement, code::DIVISION);
            return Ran::Failed;
        }
        if let Some(bound) = bound {
            return match self.run_on_table(statement, bound) {
                Ok(rows) => Ran::Complete { tag: statement.tag(rows) },
                Err(code) => {
                    self.fail_running(statement, code);
                    Ran::Failed
                }
            };
        }
        if self.put_answer(statement) {
            return Ran::Complete { tag: statement.tag(1) };
        }
        let first = next.unwrap_or(0);
        let mut row = first;
        loop {
            if matches!(statement.fail, Some(Fail::Execute | Fail::Fatal))
                && row >= statement.after.min(statement.rows)
            {
                let fatal = statement.fail == Some(Fail::Fatal);
                self.fail_running(statement, if fatal { code::SHUTDOWN } else { code::DIVISION });
                return Ran::Failed;
            }
            *next = Some(row);
            // As in ExecutePlan: the end shows only when one more row is asked for.
            if rows_max > 0 && row - first == rows_max {
                return Ran::Suspended;
            }
            if row >= statement.rows {
                return Ran::Complete { tag: statement.tag(row - first) };
            }
            self.put(|out| rows::put_row(out, statement, row, *formats));
            row += 1;
        }
    }

    /// Ends the transaction for COMMIT and ROLLBACK, and does nothing for other commands. Returns
    /// the tag to send if it is not the command's own.
    pub(super) fn end_block(
        &mut self,
        verb: Verb,
        op: Option<u64>,
    ) -> Result<Option<String>, Option<u64>> {
        let failed = self.transaction.has_failed();
        match verb {
            Verb::Commit if failed => {
                self.transaction.roll_back(&self.log);
                self.portals.clear();
                Ok(Some("ROLLBACK".to_owned()))
            }
            Verb::Commit => {
                self.portals.clear();
                self.transaction.commit(&self.log)?;
                if op.is_none() {
                    self.transaction.session.commit_reset();
                }
                Ok(None)
            }
            Verb::Rollback => {
                self.portals.clear();
                self.transaction.roll_back(&self.log);
                self.log.settled(op, Effect::Committed);
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    pub(super) fn put_tag(&mut self, tag: &str) {
        self.put(|out| CommandComplete { tag }.encode(out).expect("there is no NUL in a tag"));
    }

    /// Sends an error instead of the rest of the reply. Messages up to the next Sync are skipped.
    pub(super) fn fail(&mut self, code: &str, op: Option<u64>) {
        self.fail_in(code, None, op);
    }

    /// The same, with the function that reports it, if that matters.
    fn fail_in(&mut self, code: &str, routine: Option<Routine>, op: Option<u64>) {
        let mut error = reply::error("ERROR", code, op);
        if let Some(routine) = routine {
            error.routine = Some(routine.name().to_owned());
        }
        self.fail_with(error);
    }

    /// The same with an error that is there.
    pub(super) fn fail_with(&mut self, mut error: ServerError) {
        self.transaction.fail(&self.log);
        self.transaction.session.end_reset(true, &self.log);
        self.skipping = true;
        error.detail = self.config.schema.as_ref().map(|schema| schema.version().to_string());
        self.put_error(&error);
    }

    /// A statement begins to run.
    pub(super) fn begin(&mut self, statement: &Statement) {
        self.log.executed(statement.op);
        let fails_commit = statement.fail == Some(Fail::Commit)
            || self.transaction.session.fails_commit(statement);
        self.transaction.ran(statement.op, fails_commit);
        self.act(statement);
        for _ in 0..statement.notices {
            self.put_notice("NOTICE", "00000", statement.op);
        }
        match statement.verb {
            Verb::Begin if self.transaction.is_explicit() => {
                self.put_notice("WARNING", "25001", statement.op);
            }
            Verb::Begin => {
                self.transaction.block =
                    onetrip_postgres::message::TransactionStatus::InTransaction;
            }
            Verb::Commit | Verb::Rollback if !self.transaction.is_explicit() => {
                self.put_notice("WARNING", code::NO_TRANSACTION, statement.op);
            }
            Verb::Alter => self.make_stale(),
            _ => {}
        }
    }

    fn fail_running(&mut self, statement: &Statement, code: &str) {
        match code {
            code::SHUTDOWN => self.fatal(code, statement.op),
            _ => self.fail(code, statement.op),
        }
        if statement.verb == Verb::Call {
            self.log.settled(statement.op, Effect::Partial);
        }
    }

    /// Whether the command is refused: a failed transaction accepts only its end.
    fn is_refused(&self, verb: Verb) -> bool {
        self.transaction.has_failed() && !verb.ends_transaction()
    }
}

/// The part of a statement's name that a server looks at (NAMEDATALEN, as in
/// src/backend/commands/prepare.c).
fn seen(name: &str) -> String {
    (0..=63).rev().find_map(|end| name.get(..end)).unwrap_or(name).to_owned()
}

/// A parameter as text.
fn read(value: &[u8], format: Option<Format>) -> String {
    match (format, value.len()) {
        (Some(Format::Binary), 8) => {
            value.iter().fold(0, |number, byte| number << 8 | i64::from(*byte)).to_string()
        }
        (Some(Format::Binary), 4) => {
            (value.iter().fold(0, |number, byte| number << 8 | i64::from(*byte)) as i32).to_string()
        }
        _ => String::from_utf8_lossy(value).into_owned(),
    }
}
