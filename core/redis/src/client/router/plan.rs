//! Which nodes a command goes to, by its keys and its description.

use super::How;
use super::failed::{Refused, escaped};
use super::flight::Goal;
use super::gather::{Gather, Kind};
use crate::command::Command;
use crate::slots::{SLOTS, slot_of};
use crate::table::{RequestPolicy, ResponsePolicy, Spec};

pub(super) enum Plan {
    /// To one node.
    One(Goal),
    /// In parts to the nodes that have their slots.
    Split { parts: Vec<(Goal, Command)>, gather: Gather },
    /// To all masters, and if `replicas` is set to all replicas, too.
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

/// The one hash slot of all these keys; `None` if there are none.
pub fn slot_of_keys(keys: &mut dyn Iterator<Item = &[u8]>) -> Result<Option<u16>, Refused> {
    let Some(first) = keys.next() else { return Ok(None) };
    let slot = slot_of(first);
    for other in keys {
        if slot_of(other) != slot {
            return Err(Refused::cross_slot((first, slot), (other, slot_of(other))));
        }
    }
    Ok(Some(slot))
}

/// The one hash slot of all keys of these commands, which run as a whole; 0 if they have none.
pub fn slot_of_all(commands: &[Command]) -> Result<u16, Refused> {
    let mut keys = Vec::new();
    for command in commands {
        if let Some(spec) = Spec::of(command) {
            keys.extend(spec.keys(command));
        }
    }
    Ok(slot_of_keys(&mut keys.into_iter())?.unwrap_or(0))
}

/// The first word of a command, shortened.
fn name_of(command: &Command) -> String {
    let name = command.name();
    escaped(&name[..name.len().min(32)])
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

/// Whether a command keeps its meaning when it is split by slot. MSETNX does not, since it sets all
/// keys or none.
fn splits(spec: &Spec, command: &Command) -> bool {
    let whole = (command.count() - 1).is_multiple_of(step_of(spec));
    spec.request_policy() == RequestPolicy::MultiShard && spec.name() != "MSETNX" && whole
}

/// How many arguments belong to each key.
fn step_of(spec: &Spec) -> usize {
    if spec.name().starts_with("MSET") { 2 } else { 1 }
}

const NONE: usize = usize::MAX;

fn split(spec: &Spec, command: &Command) -> Plan {
    let step = step_of(spec);
    let mut parts: Vec<(Goal, Command)> = Vec::new();
    let mut part_of = vec![NONE; usize::from(SLOTS)];
    let mut order = Vec::new();
    let mut args = command.iter().skip(1);
    while let Some(key) = args.next() {
        let slot = slot_of(key);
        let mut at = part_of[usize::from(slot)];
        if at == NONE {
            at = parts.len();
            part_of[usize::from(slot)] = at;
            parts.push((Goal::Slot(slot), Command::new(spec.name())));
        }
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
