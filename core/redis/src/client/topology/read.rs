//! Reads a topology from a node's reply to `CLUSTER SLOTS` or `CLUSTER SHARDS`.

use std::ops::RangeInclusive;

use onetrip_engine::Violation;

use super::{Node, Shard, Topology};
use crate::fields::{self, field, text};
use crate::redirect::Address;
use crate::reply::{Items, Reply};
use crate::slots::SLOTS;

type Ranges = Vec<RangeInclusive<u16>>;

impl Topology {
    /// Reads the reply to `CLUSTER SLOTS`. `asked` is the node that answered: a node without a host
    /// has the same host. Ports are those for the kind of connection (TLS or not) that it came
    /// over.
    ///
    /// # Errors
    /// The reply is not a list of slots with their nodes.
    pub fn from_slots(reply: &Reply<'_>, asked: &Address) -> Result<Topology, Violation> {
        let mut shards: Vec<(Shard, Ranges)> = Vec::new();
        // The index of each master's shard, sorted by the ids of the masters.
        let mut numbers: Vec<(Box<str>, usize)> = Vec::new();
        for range in items(reply)? {
            let mut fields = items(&range)?;
            let range = slot(fields.next())?..=slot(fields.next())?;
            let master = slots_node(fields.next(), asked)?;
            let number = match numbers.binary_search_by(|(id, _)| id.cmp(&master.id)) {
                Ok(at) => numbers[at].1,
                Err(at) => {
                    numbers.insert(at, (master.id.clone(), shards.len()));
                    let mut replicas = Vec::new();
                    for node in fields {
                        replicas.push(slots_node(Some(node), asked)?);
                    }
                    shards.push((Shard { master, replicas }, Vec::new()));
                    shards.len() - 1
                }
            };
            shards[number].1.push(range);
        }
        Topology::new(shards)
    }

    /// Reads the reply to `CLUSTER SHARDS`, which Redis has since 7.0. `asked` is the node that
    /// answered. With `tls`, the ports are those for TLS. Replicas that are not online are left
    /// out. Slots of a shard without a master belong to no shard.
    ///
    /// # Errors
    /// The reply is not a list of shards with slots and nodes.
    pub fn from_shards(
        reply: &Reply<'_>,
        asked: &Address,
        tls: bool,
    ) -> Result<Topology, Violation> {
        let shards = items(reply)?.filter_map(|shard| read_shard(&shard, asked, tls).transpose());
        Topology::new(shards.collect::<Result<Vec<_>, _>>()?)
    }
}

/// A node of `CLUSTER SLOTS`: host, port, since 4.0 its id, and since 7.0 further names.
fn slots_node(reply: Option<Reply<'_>>, asked: &Address) -> Result<Node, Violation> {
    let mut fields = items(&reply.ok_or(NOT_SLOTS)?)?;
    let host = fields.next().and_then(|host| text(&host));
    let port = number(fields.next().as_ref()).ok_or(NOT_SLOTS)?;
    let id = fields.next().and_then(|id| text(&id));
    let other = fields.next().and_then(|other| field(&other, "ip"));
    let other = other.and_then(|ip| text(&ip));
    let address = address(host, other, port, asked).ok_or(NO_ADDRESS)?;
    let id = id.unwrap_or_else(|| address.to_string());
    Ok(Node { id: checked_id(id)?, address })
}

/// `None` if it has no master.
fn read_shard(
    reply: &Reply<'_>,
    asked: &Address,
    tls: bool,
) -> Result<Option<(Shard, Ranges)>, Violation> {
    let ranges = ranges(&field(reply, "slots").ok_or(NOT_SHARDS)?)?;
    let mut members = Vec::new();
    for node in items(&field(reply, "nodes").ok_or(NOT_SHARDS)?)? {
        members.extend(read_member(&node, asked, tls)?);
    }
    // If a master has failed, the one that took its place is the master.
    let find = |is_online: bool| {
        members.iter().position(|it: &Member| it.is_master && (it.is_online || !is_online))
    };
    let Some(at) = find(true).or_else(|| find(false)) else { return Ok(None) };
    let first = members.remove(at);
    let replicas = members.into_iter().filter(|member| member.is_online).map(|member| member.node);
    Ok(Some((Shard { master: first.node, replicas: replicas.collect() }, ranges)))
}

struct Member {
    node: Node,
    is_master: bool,
    is_online: bool,
}

/// `None` if it does not listen for connections of this kind.
fn read_member(reply: &Reply<'_>, asked: &Address, tls: bool) -> Result<Option<Member>, Violation> {
    let named = |name| field(reply, name).and_then(|field| text(&field));
    let port = field(reply, if tls { "tls-port" } else { "port" });
    let Some(port) = number(port.as_ref()).filter(|port| *port != 0) else { return Ok(None) };
    let address = address(named("endpoint"), named("ip"), port, asked).ok_or(NO_ADDRESS)?;
    let id = checked_id(named("id").ok_or(NOT_SHARDS)?)?;
    let role = named("role").ok_or(NOT_SHARDS)?;
    let is_online = named("health").is_none_or(|health| health == "online");
    let node = Node { id, address };
    Ok(Some(Member { node, is_master: role == "master", is_online }))
}

/// The endpoint that the node prefers; none means the host that was asked. `?` means a name that
/// the node was not told; its IP is then used.
fn address(
    endpoint: Option<String>,
    ip: Option<String>,
    port: u16,
    asked: &Address,
) -> Option<Address> {
    let known = |host: &&str| !host.is_empty() && *host != "?";
    let endpoint = endpoint.as_deref();
    let named = if endpoint == Some("?") { ip.as_deref() } else { endpoint };
    Address::new(named.filter(known).unwrap_or(&asked.host), port)
}

/// First and last slots of ranges, alternating.
fn ranges(reply: &Reply<'_>) -> Result<Ranges, Violation> {
    let mut slots = items(reply)?;
    let mut ranges = Vec::new();
    while let Some(start) = slots.next() {
        ranges.push(slot(Some(start))?..=slot(slots.next())?);
    }
    Ok(ranges)
}

fn slot(reply: Option<Reply<'_>>) -> Result<u16, Violation> {
    let slot = number(reply.as_ref()).filter(|slot| *slot < SLOTS);
    slot.ok_or(Violation("a cluster has a slot that there is not"))
}

fn items<'a>(reply: &Reply<'a>) -> Result<Items<'a>, Violation> {
    fields::items(reply).ok_or(Violation("a cluster's answer is no list"))
}

fn number(reply: Option<&Reply<'_>>) -> Option<u16> {
    fields::number(reply?).and_then(|number| u16::try_from(number).ok())
}

/// An id of 40 hexadecimal digits, or an address if the server gives no ids.
fn checked_id(id: String) -> Result<Box<str>, Violation> {
    let fits =
        (1..=ID_LEN_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| id.into_boxed_str()).ok_or(Violation("a node of a cluster has no name"))
}

/// More bytes than the longest address with its port.
const ID_LEN_MAX: usize = 300;

const NOT_SLOTS: Violation = Violation("an answer to CLUSTER SLOTS lacks a node");
const NOT_SHARDS: Violation = Violation("an answer to CLUSTER SHARDS lacks a field");
const NO_ADDRESS: Violation = Violation("a node of a cluster has no address");
