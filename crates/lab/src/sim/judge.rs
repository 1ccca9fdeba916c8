//! Errors: whether the server may have answered so.

use std::collections::BTreeMap;

use onetrip_engine::SyncPoint;

use super::book::Record;
use super::cancels::Wishes;
use super::plan::Role;
use super::reply;
use crate::model::{Fail, code};

/// Whether the server may have answered this request with this error.
///
/// `guards_fail`: the server may have skipped what came behind a reset.
pub(super) fn judge_error(
    all: &BTreeMap<u64, Record>,
    (wishes, guards_fail): (&Wishes, bool),
    record: &Record,
    block: &[u8],
) -> Result<(), String> {
    let Some(error) = reply::error_in(block) else {
        return Err("it comes without the server's error".into());
    };
    let of_neighbour = |op: u64| {
        let owner = all.values().find(|other| other.plan.ops.contains(&op));
        owner.is_some_and(|owner| owner.run == record.run)
    };
    match reply::op_of(&error) {
        Some(op) if record.plan.ops.contains(&op) => {}
        Some(op) if error.code == code::UNIQUE && of_neighbour(op) => {}
        // It hit the sync point, or a portal that a neighbour has opened.
        Some(op) if error.code == code::CANCELLED && of_neighbour(op) => {}
        Some(op) => return Err(format!("its error is about {op}")),
        None if record.plan.depends || guards_fail => {}
        None => return Err(format!("its error is about nothing: {error}")),
    }
    let fail = record.plan.fail;
    let fits = match error.code.as_str() {
        code::SYNTAX => fail == Some(Fail::Parse),
        code::INVALID_TEXT => fail == Some(Fail::Bind),
        code::DIVISION => fail == Some(Fail::Execute),
        code::UNIQUE => record.plan.sync != SyncPoint::Member,
        code::ABORTED => record.in_transaction && record.plan.role == Role::Plain,
        code::NO_STATEMENT if guards_fail => true,
        code::NO_STATEMENT | code::NO_PORTAL => record.plan.depends,
        code::CANCELLED => wishes.allow(record),
        // Even between a Parse and its Bind.
        code::STALE => true,
        _ => false,
    };
    if fits { Ok(()) } else { Err(format!("it has no reason to fail so: {error}")) }
}
