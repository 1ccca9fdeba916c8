//! The actions of a session's owners: runs, transactions, and changes of a shared session.

use onetrip_engine::SyncPoint;
use onetrip_postgres::Expect;
use onetrip_postgres::message::Format;

use super::plan::Role;
use super::{Plan, World};
use crate::model::{Kind, Statement};

impl World {
    /// A statement that leaves state in its session, openly or inside of a function.
    pub(super) fn text_that_leaves(&mut self, op: u64) -> Option<String> {
        let in_no_block = self.side.floors.is_empty();
        let owners = self.side.owners.as_mut()?;
        if !owners.wants_to_leave() {
            return None;
        }
        let kind = owners.rng.pick(&Kind::ALL).word();
        Some(match owners.rng.below(5) {
            // In a transaction, a later COMMIT might be skipped too.
            0 if in_no_block && !owners.in_block && owners.rng.one_in(6) => {
                owners.deallocates = true;
                format!("deallocate all op={op}")
            }
            0 | 1 => format!("{} op={op}", owners.rng.pick(&OPENLY)),
            2 => format!("call op={op} leaves={kind}"),
            3 => format!("do op={op} leaves={kind}"),
            _ => format!("select op={op} rows=1 leaves={kind}"),
        })
    }

    /// Rows of a batch as one request, each with a sync point of its own or with one for all.
    pub(super) fn submit_run(&mut self) {
        let isolated = !(self.settings.own.cancels || self.settings.losses) && self.rng.one_in(2);
        let times = self.rng.up_to(5);
        let mut build = self.build(SyncPoint::Own).parse("", RUN);
        let mut ops = Vec::new();
        for at in 0..times {
            let op = if at == 0 { self.last_id() } else { self.take_id() };
            ops.push(op);
            let parameters = [op as i64, self.rng.below(2) as i64];
            let texts = parameters.map(|number| Some(number.to_string()));
            let statement = Statement::bind(RUN, &texts);
            build = build.bind("", "", &parameters, Format::Text).execute(&statement, Format::Text);
            if isolated && at + 1 < times {
                build = build.sync();
            }
        }
        let expect = match isolated {
            true => Expect::isolated_run(times as u32),
            false => Expect::run(times as u32),
        };
        // Its Parse names none of them.
        let build = build.with(|plan| {
            (plan.ops, plan.own.expect, plan.own.depends) = (ops, expect.parse(), true);
        });
        self.book.report.count(if isolated { "run with sync points" } else { "run" });
        self.submit_if_room(build.finish());
    }

    /// A function that leaves state in the session.
    pub(super) fn submit_hidden(&mut self) {
        let build = self.build(SyncPoint::Own);
        let id = self.last_id();
        let kind = self.rng.pick(&Kind::ALL).word();
        let text = format!("select op={id} rows=1 leaves={kind}");
        let build = build.unnamed(&text, false, Format::Text).with(|plan| plan.ops.push(id));
        self.submit_if_room(build.finish());
    }

    /// A request changes a shared session, visibly by its tag or by a transaction that it begins.
    pub(super) fn submit_offence(&mut self) {
        let build = self.build(SyncPoint::Own);
        let id = self.last_id();
        let begins = self.rng.one_in(4);
        let command = if begins { "begin" } else { self.rng.pick(&TOLD) };
        let text = format!("{command} op={id}");
        let build = build.unnamed(&text, false, Format::Text).with(|plan| {
            plan.ops.push(id);
            plan.own.leaves = true;
            plan.own.role = if begins { Role::Begin } else { Role::Plain };
        });
        self.submit_if_room(build.finish());
    }

    fn submit_if_room(&mut self, plan: Plan) {
        if self.driven.has_room(1, plan.bytes.len()) {
            self.submit_alone(plan);
        }
    }

    /// A transaction whose statements are sent without waiting for its BEGIN. Now and then it is
    /// left open.
    pub(super) fn submit_transaction(&mut self) {
        if !(self.side.floors.is_empty() && self.parked.is_empty() && self.turn.is_none()) {
            return;
        }
        let begin = self.build(SyncPoint::Own);
        let id = self.last_id();
        let portal = format!("t{id}");
        let mut plans = vec![
            begin
                .in_portal(&portal, &format!("begin op={id}"))
                .with(of_role(id, Role::Begin))
                .finish(),
        ];
        self.set_in_block(true);
        for _ in 0..self.rng.up_to(3) {
            let build = self.build(SyncPoint::Own).guarded(&portal);
            plans.push(self.finish_statement(build));
        }
        self.set_in_block(false);
        let left_open = self.rng.one_in(3);
        if !left_open {
            let build = self.build(SyncPoint::Own).guarded(&portal);
            let id = self.last_id();
            let build = build.unnamed(&format!("commit op={id}"), false, Format::Text);
            plans.push(build.with(of_role(id, Role::Commit)).finish());
        }
        let bytes = plans.iter().map(|plan| plan.bytes.len()).sum();
        if !self.driven.has_room(plans.len(), bytes) {
            return;
        }
        self.book.report.count(match left_open {
            true => "transaction left open",
            false => "transaction that did not wait",
        });
        plans.iter_mut().for_each(|plan| (plan.own.pinned, plan.own.depends) = (true, true));
        let ids: Vec<u64> = plans.iter().map(|plan| plan.id).collect();
        self.submit_in_transaction(plans);
        self.side.transactions.push(ids);
        if left_open && let Some(owners) = &mut self.side.owners {
            owners.leaving = true;
        }
    }
}

/// Marks a request that begins or ends a transaction.
fn of_role(id: u64, role: Role) -> impl FnOnce(&mut Plan) {
    move |plan| {
        plan.ops.push(id);
        plan.own.role = role;
        plan.own.allow_rollback();
    }
}

/// A row of a run.
const RUN: &str = "insert op=$1 rows=$2";
/// Commands that change their session openly.
const OPENLY: [&str; 7] =
    ["set x", "set role r", "set local x", "create temp t", "prepare p", "declare c", "listen c"];
/// Commands whose tag shows the change.
const TOLD: [&str; 4] = ["set x", "prepare p", "declare c", "listen c"];
