//! Which nodes a command concerns, by its keys and its description.

use std::collections::HashMap;

use super::How;
use super::failed::Refused;
use super::flights::Goal;
use super::gather::{Gather, Kind};
use crate::command::Command;
use crate::slots::slot_of;
use crate::table::{RequestPolicy, ResponsePolicy, Spec};

pub(super) enum Plan {
    /// It goes to one node.
    One(Goal),
    /// Its parts go to those that have their slots.
    Split { parts: Vec<(u16, Command)>, gather: Gather },
    /// It goes to all masters, and to replicas too where it says so.
    Nodes { replicas: bool, kind: Kind },
}

pub(super) fn plan(command: &Command, spec: Option<&Spec>, how: How) -> Result<Plan, Refused> {
    if let Some(slot) = how.slot {
        return Ok(Plan::One(Goal::Slot(slot % crate::slots::SLOTS)));
    }
    let Some(spec) = spec.filter(|spec| spec.keys_known()) else {
        return Err(Refused::KeysUnknown(name_of(command)));
    };
    let mut keys = spec.keys(command);
    let Some(first) = keys.next() else { return keyless(spec) };
    let slot = slot_of(first);
    let other = keys.map(|key| (key, slot_of(key))).find(|(_, other)| *other != slot);
    match other {
        None => Ok(Plan::One(Goal::Slot(slot))),
        Some(_) if splits(spec, command) => Ok(split(spec, command)),
        Some(other) => Err(Refused::cross_slot((first, slot), other)),
    }
}

/// The one hash slot of all these keys. `None` where there are none.
pub fn slot_of_keys<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Result<Option<u16>, Refused> {
    let mut slots = keys.map(|key| (key, slot_of(key)));
    let Some(first) = slots.next() else { return Ok(None) };
    match slots.find(|(_, other)| *other != first.1) {
        Some(other) => Err(Refused::cross_slot(first, other)),
        None => Ok(Some(first.1)),
    }
}

/// Its first word, shortened.
fn name_of(command: &Command) -> String {
    let name = command.name();
    name[..name.len().min(32)].escape_ascii().to_string()
}

fn keyless(spec: &Spec) -> Result<Plan, Refused> {
    let replicas = match spec.request_policy() {
        RequestPolicy::AllNodes => true,
        RequestPolicy::AllShards => false,
        RequestPolicy::Special => return Err(Refused::NodeByNode(spec.name().to_owned())),
        RequestPolicy::Usual | RequestPolicy::MultiShard => return Ok(Plan::One(Goal::Any)),
    };
    let kind = match spec.response_policy() {
        // One key of any node.
        _ if spec.name() == "RANDOMKEY" => Kind::FirstKey,
        ResponsePolicy::Usual => Kind::Lists,
        ResponsePolicy::Special => Kind::ByNode,
        policy => Kind::Policy(policy),
    };
    Ok(Plan::Nodes { replicas, kind })
}

/// Whether a command keeps its meaning when it is split by slot. MSETNX sets all or none.
fn splits(spec: &Spec, command: &Command) -> bool {
    let whole = (command.count() - 1).is_multiple_of(step_of(spec));
    spec.request_policy() == RequestPolicy::MultiShard && spec.name() != "MSETNX" && whole
}

/// How many arguments belong to each key.
fn step_of(spec: &Spec) -> usize {
    if spec.name().starts_with("MSET") { 2 } else { 1 }
}

fn split(spec: &Spec, command: &Command) -> Plan {
    let step = step_of(spec);
    let mut parts: Vec<(u16, Command)> = Vec::new();
    let mut part_of = HashMap::new();
    let mut order = Vec::new();
    let mut args = command.iter().skip(1);
    while let Some(key) = args.next() {
        let slot = slot_of(key);
        let at = *part_of.entry(slot).or_insert_with(|| {
            parts.push((slot, Command::new(spec.name())));
            parts.len() - 1
        });
        order.push(at as u32);
        parts[at].1.push(key);
        args.by_ref().take(step - 1).for_each(|value| parts[at].1.push(value));
    }
    let kind = match spec.response_policy() {
        ResponsePolicy::Usual => Kind::Ordered(order),
        policy => Kind::Policy(policy),
    };
    let gather = Gather::new(kind, parts.len(), spec.is_readonly());
    Plan::Split { parts, gather }
}
