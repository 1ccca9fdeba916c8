//! The functions of clusters that a host calls, each declared in `include/onetrip.h`.
//!
//! # Safety
//! As in [`export`](crate::export).

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use std::time::Duration;

use onetrip_client::Cluster;
use onetrip_client::cluster::Unanswered;
pub use onetrip_client::cluster::{AGAIN, flag};
use onetrip_client::completion::{Completion, outcome_of};
use onetrip_redis::client::router::Limits;
use onetrip_redis::slots::SLOTS;

use crate::export::made;
use crate::memory;
use crate::time::{deadline, millis, time};

/// Why a flight has no reply.
pub mod unanswered {
    /// Its connection was lost, or could not be opened.
    pub const LOST: u32 = 0;
    /// Its deadline passed on the connection.
    pub const EXPIRED: u32 = 1;
    /// It was taken back before it was sent, because its caller gave it up.
    pub const TAKEN_BACK: u32 = 2;
}

/// A cluster that knows no node yet. `redirects_max`: how many redirects one command follows.
/// `held_max`: how many commands may wait for a node, for at most `held_time_max` milliseconds.
/// `seed`: any number, a different one for each cluster; it sets the pauses between attempts. Null
/// if there is no memory for it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_new(
    redirects_max: u32,
    held_max: u32,
    held_time_max: f64,
    seed: f64,
) -> *mut Cluster {
    let limits = Limits {
        redirects_max,
        held_max: held_max as usize,
        held_time_max: Duration::from_nanos((held_time_max * 1e6) as u64),
        ..Limits::default()
    };
    match onetrip_engine::memory::is_there(MADE_BYTES) {
        true => made(|| Cluster::new(limits, seed.to_bits())),
        false => std::ptr::null_mut(),
    }
}

/// What a new cluster takes for its table of hash slots, in bytes.
const MADE_BYTES: usize = 512 << 10;

/// Frees a cluster. Its connections remain, and belong to the host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_free(cluster: *mut Cluster) {
    if !cluster.is_null() {
        // SAFETY: the host's promise at the top.
        drop(unsafe { Box::from_raw(cluster) });
    }
}

/// The cluster behind a pointer, for one call.
///
/// # Safety
/// As at the top.
unsafe fn of<'a>(cluster: *mut Cluster) -> &'a mut Cluster {
    // SAFETY: the host's promise at the top.
    unsafe { &mut *cluster }
}

/// Takes a command in wire format. `CLUSTER_REPLY`, `CLUSTER_ERROR` or `CLUSTER_FAILED` ends it.
/// `flags`: bits of [`flag`]. `timeout` is in milliseconds; 0 for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_submit(
    cluster: *mut Cluster,
    now: f64,
    token: u32,
    flags: u32,
    commands: *const u8,
    len: usize,
    timeout: f64,
) {
    let now = time(now);
    // SAFETY: the host's promise at the top.
    let (cluster, commands) = unsafe { (of(cluster), memory::bytes(commands, len)) };
    cluster.submit(now, token, flags, commands, deadline(now, timeout));
}

/// The length of a flight's command in wire format; 0 if there is no such flight. The command is
/// written to `to`, unless that is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_write(
    cluster: *mut Cluster,
    flight: u32,
    to: *mut u8,
) -> usize {
    // SAFETY: the host's promise at the top.
    let Some((head, body)) = unsafe { of(cluster) }.command(flight) else { return 0 };
    if !to.is_null() {
        // SAFETY: the host has room there for the length that it was told before.
        unsafe {
            to.copy_from_nonoverlapping(head.as_ptr(), head.len());
            to.add(head.len()).copy_from_nonoverlapping(body.as_ptr(), body.len());
        }
    }
    head.len() + body.len()
}

/// The whole reply to a flight has arrived, without attributes. `is_list`: it is all replies to
/// MULTI, a list and EXEC; replies among them that are not errors may be shortened. True if this
/// reply is the result of the command: the host takes it from its own memory, and no completion
/// follows for that command.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_replied(
    cluster: *mut Cluster,
    now: f64,
    flight: u32,
    reply: *const u8,
    len: usize,
    is_list: bool,
) -> bool {
    // SAFETY: the host's promise at the top.
    let (cluster, reply) = unsafe { (of(cluster), memory::bytes(reply, len)) };
    cluster.replied(time(now), flight, reply, is_list)
}

/// A flight has no reply. `why`: one of [`unanswered`]; `outcome`: what its connection knows of the
/// effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_unanswered(
    cluster: *mut Cluster,
    now: f64,
    flight: u32,
    why: u32,
    outcome: u32,
) {
    let outcome = outcome_of(outcome);
    let why = match why {
        unanswered::EXPIRED => Unanswered::Expired(outcome),
        unanswered::TAKEN_BACK => Unanswered::TakenBack,
        _ => Unanswered::Lost(outcome),
    };
    // SAFETY: the host's promise at the top.
    unsafe { of(cluster) }.unanswered(time(now), flight, why);
}

/// The answer to CLUSTER SLOTS of the node at this host and port, which `CLUSTER_ASK` asked for;
/// empty if there was none. False if it is not a topology.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_topology(
    cluster: *mut Cluster,
    now: f64,
    reply: *const u8,
    len: usize,
    host: *const u8,
    host_len: usize,
    port: u32,
) -> bool {
    // SAFETY: the host's promise at the top.
    let (cluster, reply) = unsafe { (of(cluster), memory::bytes(reply, len)) };
    // SAFETY: the host's promise at the top.
    let host = std::str::from_utf8(unsafe { memory::bytes(host, host_len) }).unwrap_or_default();
    cluster.topology(time(now), reply, (host, u16::try_from(port).unwrap_or_default()))
}

/// The caller of a command stops waiting. The command ends; parts that were sent may run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_give_up(cluster: *mut Cluster, now: f64, token: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(cluster) }.give_up(time(now), token);
}

/// The number of the node that serves a hash slot, or of any master if there is no such slot; 0 for
/// none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_node_at(cluster: *mut Cluster, slot: u32) -> u32 {
    let slot = u16::try_from(slot).ok().filter(|slot| *slot < SLOTS);
    // SAFETY: the host's promise at the top.
    unsafe { of(cluster) }.node_at(slot)
}

/// Subscribes to a sharded channel. What follows is as for a command, SSUBSCRIBE of this channel;
/// its confirmation is its reply. It is subscribed again wherever that ends, by commands with the
/// token [`AGAIN`], until it is unsubscribed. A failed call does not unsubscribe.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_subscribe(
    cluster: *mut Cluster,
    now: f64,
    token: u32,
    channel: *const u8,
    len: usize,
    timeout: f64,
) {
    let now = time(now);
    // SAFETY: the host's promise at the top.
    let (cluster, channel) = unsafe { (of(cluster), memory::bytes(channel, len)) };
    cluster.subscribe(now, token, channel, deadline(now, timeout));
}

/// Nobody reads a sharded channel any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_unsubscribe(
    cluster: *mut Cluster,
    channel: *const u8,
    len: usize,
) {
    // SAFETY: the host's promise at the top.
    let (cluster, channel) = unsafe { (of(cluster), memory::bytes(channel, len)) };
    cluster.unsubscribe(channel);
}

/// A node has a new connection for the commands of all callers, on which nothing was sent yet, or
/// has lost it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_connected(
    cluster: *mut Cluster,
    now: f64,
    node: u32,
    is_connected: bool,
) {
    // SAFETY: the host's promise at the top.
    unsafe { of(cluster) }.connected(time(now), node, is_connected);
}

/// A node has sent a push. True if it says that a channel was unsubscribed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_pushed(
    cluster: *mut Cluster,
    now: f64,
    node: u32,
    push: *const u8,
    len: usize,
) -> bool {
    // SAFETY: the host's promise at the top.
    let (cluster, push) = unsafe { (of(cluster), memory::bytes(push, len)) };
    cluster.pushed(time(now), node, push)
}

/// Closes the cluster: nothing is sent any more. Commands that wait end now; flights end as they
/// are reported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_close(cluster: *mut Cluster) {
    // SAFETY: the host's promise at the top.
    unsafe { of(cluster) }.close();
}

/// The time at which to call [`onetrip_cluster_time`]; infinity for never. Each call may change it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_deadline(cluster: *mut Cluster) -> f64 {
    // SAFETY: the host's promise at the top.
    millis(unsafe { of(cluster) }.deadline())
}

/// The time is `now`. The first call asks for the topology.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_time(cluster: *mut Cluster, now: f64) {
    // SAFETY: the host's promise at the top.
    unsafe { of(cluster) }.time(time(now));
}

/// As [`onetrip_take`](crate::export::onetrip_take), for a cluster.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_take(cluster: *mut Cluster) -> usize {
    // SAFETY: the host's promise at the top.
    unsafe { of(cluster) }.take()
}

/// As [`onetrip_completions`](crate::export::onetrip_completions), for a cluster.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_cluster_completions(cluster: *mut Cluster) -> *const Completion {
    // SAFETY: the host's promise at the top.
    unsafe { of(cluster) }.taken().as_ptr()
}
