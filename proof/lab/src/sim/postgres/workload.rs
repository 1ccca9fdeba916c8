//! The workload: plans the requests of a run.

use onetrip_engine::{SyncPoint, Time};
use onetrip_postgres::message::{Format, SYNC};

use super::plan::{Build, PreparedText, Role};
use super::reply::Part;
use super::{Plan, World};
use crate::model::{Fail, Statement, Verb, row_len};

impl World {
    /// A request that stands alone.
    pub(super) fn plan_isolated(&mut self) -> Plan {
        let mut plan = match self.rng.below(10) {
            0 => self.plan_simple(),
            5..=7 if self.settings.losses && self.side.prepared.is_empty() => self.plan_first_use(),
            1 if self.side.prepared.len() < PREPARED_MAX => self.plan_first_use(),
            2..=4 if !self.side.prepared.is_empty() => self.plan_prepared(SyncPoint::Own),
            _ => self.plan_statement(SyncPoint::Own),
        };
        plan.again = self.rng.one_in(2);
        plan.discard = plan.own.prepares.is_none() && self.rng.one_in(20);
        plan.deadline = if plan.discard { Time::NEVER } else { self.deadline() };
        plan.own.joins = self.settings.own.joins
            && plan.own.prepares.is_none()
            && !(plan.discard || plan.own.leaves || self.is_lent())
            && !plan.own.expect.has_partial_effects()
            && plan.bytes.ends_with(&SYNC)
            && !self.rng.one_in(4);
        if self.settings.own.cancels {
            plan.own.resend = plan.own.prepares.is_none()
                && !self.is_lent()
                && !plan.own.expect.has_partial_effects()
                && !self.rng.one_in(4);
            plan.own.cancel_late = plan.deadline != Time::NEVER && self.rng.one_in(2);
        }
        plan
    }

    /// Requests that share a sync point, including it.
    pub(super) fn plan_segment(&mut self) -> Vec<Plan> {
        let members = self.rng.up_to(SEGMENT_MAX);
        let mut plans: Vec<Plan> =
            (0..members).map(|_| self.plan_in_segment(SyncPoint::Member)).collect();
        plans.push(match self.rng.one_in(2) {
            true => self.plan_in_segment(SyncPoint::Own),
            false => self.plan_sync(),
        });
        plans
    }

    pub(super) fn plan_in_segment(&mut self, sync: SyncPoint) -> Plan {
        let mut plan = match self.rng.below(4) {
            0 if !self.side.prepared.is_empty() => self.plan_prepared(sync),
            _ => self.plan_statement(sync),
        };
        plan.deadline = self.deadline();
        plan
    }

    /// Nothing but a sync point.
    pub(super) fn plan_sync(&mut self) -> Plan {
        self.build(SyncPoint::Only).finish()
    }

    /// BEGIN, COMMIT or ROLLBACK.
    pub(super) fn plan_control(&mut self, role: Role, sync: SyncPoint) -> Plan {
        let build = self.build(sync);
        let id = self.last_id();
        let word = match role {
            Role::Begin => "begin",
            Role::Commit => "commit",
            _ => "rollback",
        };
        let build = build.unnamed(&format!("{word} op={id}"), false, Format::Text);
        let plan = build.with(|plan| {
            plan.own.role = role;
            plan.ops.push(id);
            plan.own.allow_rollback();
        });
        plan.finish()
    }

    /// A simple query, of several statements now and then.
    pub(super) fn plan_simple(&mut self) -> Plan {
        let count = if self.rng.one_in(3) { 2 + self.rng.index(2) } else { 1 };
        let build = self.build(SyncPoint::Own);
        let mut ops = vec![self.last_id()];
        ops.extend((1..count).map(|_| self.take_id()));
        let fail = self.fail(false);
        let mut texts: Vec<String> = ops.iter().map(|op| self.text(*op, None)).collect();
        let failing = self.rng.index(count);
        if fail.is_some() {
            texts[failing] = self.text(ops[failing], fail);
        }
        build
            .query(&texts)
            .with(|plan| {
                plan.ops = ops;
                plan.own.fail = fail;
            })
            .finish()
    }

    /// A statement that is parsed for one use.
    pub(super) fn plan_statement(&mut self, sync: SyncPoint) -> Plan {
        let build = self.build(sync);
        self.finish_statement(build)
    }

    /// Adds a statement to messages that come before it.
    pub(super) fn finish_statement(&mut self, build: Build) -> Plan {
        let id = self.last_id();
        let fail = self.fail(true);
        let text = self.text(id, fail);
        let (describe, format) = (self.rng.one_in(2), self.format());
        let build = build.unnamed(&text, describe, format).with(|plan| {
            plan.ops.push(id);
            plan.own.fail = fail;
            if Statement::parse(&text).verb == Verb::Call {
                plan.own.expect = plan.own.expect.partial_effects();
            }
        });
        build.finish()
    }

    /// The first use of a statement that stays prepared.
    fn plan_first_use(&mut self) -> Plan {
        let build = self.build(SyncPoint::Own);
        let id = self.last_id();
        let fail = if self.rng.one_in(6) { " fail=execute" } else { "" };
        let text = format!("insert op=$1 rows=$2 size=$3{fail}");
        let prepared = PreparedText { name: format!("s{id}"), text };
        let build = build.parse(&prepared.name, &prepared.text).describe_statement(&prepared);
        let mut plan = self.use_prepared(build, &prepared);
        plan.own.prepares = Some(prepared);
        // It may go stale at once.
        plan.own.depends = true;
        plan
    }

    /// A statement that was prepared before.
    fn plan_prepared(&mut self, sync: SyncPoint) -> Plan {
        let at = self.rng.index(self.side.prepared.len());
        let (statement, prepared) = self.side.prepared[at].clone();
        let build = self.build(sync).of_statement(statement);
        self.use_prepared(build, &prepared)
    }

    fn use_prepared(&mut self, build: Build, prepared: &PreparedText) -> Plan {
        let id = self.last_id();
        let (rows, size) = (self.rows() as i64, self.size() as i64);
        let parameters = [id as i64, rows, size];
        let texts = parameters.map(|number| Some(number.to_string()));
        let statement = Statement::bind(&prepared.text, &texts);
        let (describe, format) = (self.rng.one_in(2), self.format());
        let build = build.bind("", &prepared.name, &parameters, format);
        let build = match describe {
            true => build.describe_portal("", &statement, format),
            false => build,
        };
        build
            .execute(&statement, format)
            .with(|plan| {
                plan.ops.push(id);
                plan.own.fail = statement.fail;
            })
            .finish()
    }

    /// A statement whose rows are fetched in pieces: the first piece, and what to go on with.
    pub(super) fn plan_portal(&mut self) -> (Plan, OpenPortal) {
        let build = self.build(SyncPoint::Member);
        let id = self.last_id();
        let rows = 1 + self.rows();
        let text = format!("insert op={id} rows={rows} size={}", self.size());
        let portal = OpenPortal {
            name: format!("p{id}"),
            statement: Statement::parse(&text),
            format: self.format(),
            next: 0,
        };
        let build = build.parse("", &text).bind(&portal.name, "", &[], portal.format);
        let build = build.describe_portal(&portal.name, &portal.statement, portal.format);
        let build = build.with(|plan| plan.ops.push(id));
        let limit = self.rng.up_to(rows as usize) as u32;
        let OpenPortal { name, statement, format, next } = &portal;
        (build.execute_some(name, statement, *format, *next, limit).finish(), portal.after(limit))
    }

    /// The next piece of its rows.
    pub(super) fn plan_fetch(
        &mut self,
        portal: &OpenPortal,
        sync: SyncPoint,
    ) -> (Plan, OpenPortal) {
        let build = self.build(sync).with(|plan| plan.own.depends = true);
        let limit = self.rng.up_to(portal.statement.rows as usize) as u32;
        let OpenPortal { name, statement, format, next } = portal;
        let plan = build.execute_some(name, statement, *format, *next, limit).finish();
        (plan, portal.clone().after(limit))
    }

    pub(super) fn build(&mut self, sync: SyncPoint) -> Build {
        Build::new(self.take_id(), sync)
    }

    pub(super) fn last_id(&self) -> u64 {
        self.next_id - 1
    }

    fn text(&mut self, op: u64, fail: Option<Fail>) -> String {
        let rows = self.rows();
        let size = self.size();
        let (verb, rows) = match self.rng.below(8) {
            // Its tag has no identity, so it has rows.
            0 => ("select", format!(" rows={}", rows.max(1))),
            1 => ("insert", String::new()),
            2 if matches!(fail, None | Some(Fail::Execute)) => ("call", String::new()),
            _ => ("insert", format!(" rows={rows}")),
        };
        let text = format!("{verb} op={op}{rows} size={size}");
        // Some failures of a CALL tell of its effect.
        let leaves = if matches!(fail, None | Some(Fail::Execute)) {
            self.text_that_leaves(op)
        } else {
            None
        };
        let mut text = leaves.unwrap_or(text);
        if let Some(fail) = fail {
            text += &format!(" fail={}", fail.word());
            text += &format!(" after={}", self.rng.below(3));
        }
        if self.rng.one_in(12) {
            text += " notices=2";
        }
        if self.rng.one_in(6) {
            text += " ";
            text += &"x".repeat(self.rng.index(self.settings.own.size_max * 2));
        }
        text
    }

    fn fail(&mut self, extended: bool) -> Option<Fail> {
        if self.rng.one_in(1500) {
            return Some(Fail::Fatal);
        }
        if !self.rng.one_in(self.settings.failures) {
            return None;
        }
        let fail = self.rng.pick(&[Fail::Parse, Fail::Bind, Fail::Execute, Fail::Commit]);
        // Texts of CALL fail while they run, so that a part of them stands.
        (extended || fail != Fail::Bind).then_some(fail)
    }

    fn rows(&mut self) -> u64 {
        if self.rng.one_in(2) {
            self.rng.below(2)
        } else {
            self.rng.below(self.settings.own.rows_max as u64)
        }
    }

    fn size(&mut self) -> usize {
        if self.rng.one_in(2) { 8 } else { self.rng.index(self.settings.own.size_max) }
    }

    fn format(&mut self) -> Format {
        if self.rng.one_in(2) { Format::Binary } else { Format::Text }
    }
}

/// A portal with a name, in an open segment.
#[derive(Clone, Debug)]
pub(super) struct OpenPortal {
    name: String,
    statement: Statement,
    format: Format,
    next: u32,
}

impl OpenPortal {
    fn after(mut self, rows: u32) -> OpenPortal {
        self.next = (self.next + rows).min(self.statement.rows);
        self
    }
}

/// An upper bound of the bytes of a reply.
pub(super) fn reply_len_max(plan: &Plan) -> usize {
    let parts = plan.own.reply.iter().map(|part| match part {
        Part::Rows { count, size, .. } => *count as usize * row_len(*size),
        _ => PART_MAX,
    });
    // An error in its place, and the answer to what prepares its statement anew.
    parts.sum::<usize>() + 6 * PART_MAX
}

/// No message but a row is longer.
const PART_MAX: usize = 200;
const PREPARED_MAX: usize = 4;
const SEGMENT_MAX: usize = 6;
