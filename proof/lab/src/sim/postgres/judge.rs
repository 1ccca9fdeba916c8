//! Checks whether an error is a valid answer to its request.

use std::collections::BTreeMap;

use onetrip_engine::SyncPoint;

use super::Record;
use super::book::Heard;
use super::plan::Role;
use super::reply;
use crate::model::{Fail, code};

/// Whether the server may have answered this request with this error.
pub(super) fn judge_error(
    all: &BTreeMap<u64, Record>,
    heard: &Heard,
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
        None if record.plan.own.depends || heard.guards_fail => {}
        None => return Err(format!("its error is about nothing: {error}")),
    }
    let fail = record.plan.own.fail;
    let fits = match error.code.as_str() {
        code::SYNTAX => fail == Some(Fail::Parse),
        code::INVALID_TEXT => fail == Some(Fail::Bind),
        code::DIVISION => fail == Some(Fail::Execute),
        code::UNIQUE => record.plan.own.sync != SyncPoint::Member,
        code::ABORTED => record.own.in_transaction && record.plan.own.role == Role::Plain,
        code::NO_STATEMENT if heard.guards_fail => true,
        code::NO_STATEMENT | code::NO_PORTAL => record.plan.own.depends,
        code::CANCELLED => heard.wishes_to_cancel.allow(record),
        // Even between a Parse and its Bind.
        code::STALE => true,
        _ => false,
    };
    if fits { Ok(()) } else { Err(format!("it has no reason to fail so: {error}")) }
}
