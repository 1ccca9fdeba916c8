//! Requests: their bytes, what the session has to expect, and the reply.

use bytes::{Bytes, BytesMut};
use onetrip_engine::SyncPoint;
use onetrip_postgres::message::{
    Close, Describe, EncodeError, Execute, Format, Formats, IsNull, Query, SYNC, Target, bind,
    parse,
};
use onetrip_postgres::{Expect, StatementId};

use super::Plan;
use super::reply::Part;
use crate::model::{Act, Fail, Statement, Verb};

/// A request without its bytes.
#[derive(Clone, Debug)]
pub struct Request {
    pub(super) sync: SyncPoint,
    pub(super) expect: Expect,
    /// The parts of a reply without an error.
    pub(super) reply: Vec<Part>,
    pub(super) fail: Option<Fail>,
    /// Its group, as an index into those of the host.
    pub(super) floor: Option<usize>,
    /// Whether it may share a sync point with neighbours that may, too.
    pub(super) joins: bool,
    /// Whether it is sent again if a cancel hits it that was meant for another request.
    pub(super) resend: bool,
    /// Whether it is cancelled at the server when its deadline passes.
    pub(super) cancel_late: bool,
    /// Whether it stays in the queue whatever its caller does.
    pub(super) pinned: bool,
    /// Whether it leaves state in its session.
    pub(super) leaves: bool,
    /// Whether it names a prepared statement or a portal of an earlier request.
    pub(super) depends: bool,
    /// The prepared statement that it makes.
    pub(super) prepares: Option<PreparedText>,
    pub(super) role: Role,
}

/// Its role in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    Begin,
    Commit,
    Rollback,
}

/// A prepared statement: its name and its text.
#[derive(Clone, Debug)]
pub(crate) struct PreparedText {
    pub(super) name: String,
    pub(super) text: String,
}

impl Request {
    /// A COMMIT is answered by ROLLBACK where the transaction has failed.
    pub(super) fn allow_rollback(&mut self) {
        for part in &mut self.reply {
            if let Part::Tag(tags) = part
                && tags[0] == "COMMIT"
            {
                tags.push("ROLLBACK".to_owned());
            }
        }
    }
}

impl PreparedText {
    /// The messages that prepare it again.
    pub(super) fn heal(&self) -> Bytes {
        let mut out = BytesMut::new();
        let target = Target::Statement(&self.name);
        Close { target }.encode(&mut out).expect("a short name");
        parse::write(&mut out, &self.name, &self.text, &[]).expect("a short text");
        Describe { target }.encode(&mut out).expect("a short name");
        out.freeze()
    }
}

/// Puts a request together, message by message.
pub(super) struct Build {
    out: BytesMut,
    plan: Plan,
}

impl Build {
    pub(super) fn new(id: u64, sync: SyncPoint) -> Build {
        let own = Request {
            sync,
            expect: Expect::sync(),
            reply: Vec::new(),
            fail: None,
            floor: None,
            joins: false,
            resend: false,
            cancel_late: false,
            pinned: false,
            leaves: false,
            depends: false,
            prepares: None,
            role: Role::Plain,
        };
        let plan = Plan::new(id, own);
        Build { out: BytesMut::new(), plan }
    }

    /// A Parse of a text.
    pub(super) fn parse(mut self, name: &str, text: &str) -> Build {
        parse::write(&mut self.out, name, text, &[]).expect("a short text");
        self.plan.own.expect = self.plan.own.expect.parse();
        self.plan.own.leaves |= Statement::parse(text).act != Act::Nothing;
        self.plan.own.reply.push(Part::ParseComplete);
        self
    }

    /// A Describe of a prepared statement.
    pub(super) fn describe_statement(mut self, prepared: &PreparedText) -> Build {
        let target = Target::Statement(&prepared.name);
        Describe { target }.encode(&mut self.out).expect("a short name");
        self.plan.own.expect = self.plan.own.expect.describe_statement();
        let parameters = Statement::parameter_types(&prepared.text).len();
        self.plan.own.reply.push(Part::Parameters(parameters));
        let statement = Statement::parse(&prepared.text);
        self.plan.own.reply.push(Part::of_columns(&statement, Format::Text));
        self
    }

    /// A Bind of the prepared statement `name` to `portal`.
    pub(super) fn bind(
        mut self,
        portal: &str,
        name: &str,
        parameters: &[i64],
        format: Format,
    ) -> Build {
        let results = if format == Format::Binary { Formats::AllBinary } else { Formats::AllText };
        let write = |at: usize, out: &mut BytesMut| {
            out.extend_from_slice(&parameters[at].to_be_bytes());
            Ok::<_, EncodeError>(IsNull::No)
        };
        let count = parameters.len();
        bind::write(&mut self.out, portal, name, Formats::AllBinary, count, write, results)
            .expect("few parameters");
        self.plan.own.expect = self.plan.own.expect.bind();
        self.plan.own.reply.push(Part::BindComplete);
        self
    }

    pub(super) fn of_statement(mut self, id: StatementId) -> Build {
        self.plan.own.expect = self.plan.own.expect.of_statement(id);
        self.plan.own.depends = true;
        self
    }

    pub(super) fn describe_portal(
        mut self,
        portal: &str,
        statement: &Statement,
        format: Format,
    ) -> Build {
        let target = Target::Portal(portal);
        Describe { target }.encode(&mut self.out).expect("a short name");
        self.plan.own.expect = self.plan.own.expect.describe_portal();
        self.plan.own.reply.push(Part::of_columns(statement, format));
        self
    }

    /// An Execute of all rows.
    pub(super) fn execute(self, statement: &Statement, format: Format) -> Build {
        self.execute_some("", statement, format, 0, 0)
    }

    /// An Execute of at most `rows_max` rows, from `first` on.
    pub(super) fn execute_some(
        mut self,
        portal: &str,
        statement: &Statement,
        format: Format,
        first: u32,
        rows_max: u32,
    ) -> Build {
        Execute { portal, rows_max: rows_max as i32 }.encode(&mut self.out).expect("a short name");
        self.plan.own.expect = self.plan.own.expect.execute();
        let left = statement.rows.saturating_sub(first);
        let suspended = rows_max > 0 && left >= rows_max;
        let count = if suspended { rows_max } else { left };
        self.plan.own.reply.push(Part::rows(statement, first, count, format));
        self.plan.own.reply.push(match suspended {
            true => Part::Suspended,
            false => Part::Tag(vec![statement.tag(count)]),
        });
        self
    }

    /// A simple query of these statements.
    pub(super) fn query(mut self, texts: &[String]) -> Build {
        Query { sql: &texts.join(";") }.encode(&mut self.out).expect("a short text");
        self.plan.own.expect = Expect::simple();
        let calls = texts.iter().any(|text| Statement::parse(text).verb == Verb::Call);
        if texts.len() > 1 || calls {
            self.plan.own.expect = self.plan.own.expect.partial_effects();
        }
        for text in texts {
            let statement = Statement::parse(text);
            self.plan.own.leaves |= statement.act != Act::Nothing;
            if statement.returns_rows {
                self.plan.own.reply.push(Part::of_columns(&statement, Format::Text));
            }
            self.plan.own.reply.push(Part::rows(&statement, 0, statement.rows, Format::Text));
            self.plan.own.reply.push(Part::Tag(vec![statement.tag(statement.rows)]));
        }
        self
    }

    /// Parse, Bind and Execute of one text.
    pub(super) fn unnamed(self, text: &str, describe: bool, format: Format) -> Build {
        let statement = Statement::parse(text);
        let build = self.parse("", text).bind("", "", &[], format);
        match describe {
            true => build.describe_portal("", &statement, format),
            false => build,
        }
        .execute(&statement, format)
    }

    /// The same in a portal with a name.
    pub(super) fn in_portal(self, portal: &str, text: &str) -> Build {
        let statement = Statement::parse(text);
        let build = self.parse("", text).bind(portal, "", &[], Format::Text);
        build.execute_some(portal, &statement, Format::Text, 0, 0)
    }

    /// Puts a guard in front: without this portal the request is skipped.
    pub(super) fn guarded(mut self, portal: &str) -> Build {
        let target = Target::Portal(portal);
        Describe { target }.encode(&mut self.out).expect("a short name");
        self.plan.own.expect = self.plan.own.expect.guarded();
        self.plan.own.reply.push(Part::NoData);
        self
    }

    /// A sync point in the middle of the request.
    pub(super) fn sync(mut self) -> Build {
        self.out.extend_from_slice(&SYNC);
        self.plan.own.reply.push(Part::Ready);
        self
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Plan)) -> Build {
        change(&mut self.plan);
        self
    }

    /// Ends the request with its sync point.
    pub(super) fn finish(mut self) -> Plan {
        if self.plan.own.sync != SyncPoint::Member {
            self.plan.own.reply.push(Part::Ready);
            // A simple query carries its own.
            if self.plan.own.expect != Expect::simple()
                && self.plan.own.expect != Expect::simple().partial_effects()
            {
                self.out.extend_from_slice(&SYNC);
            }
        }
        self.plan.bytes = self.out.freeze();
        self.plan
    }
}
