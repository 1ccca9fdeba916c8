//! The functions of reads on replicas, and of positions. Each is declared in `include/onetrip.h`.
//!
//! # Safety
//! As in [`export`](crate::export), for the replicas of a client.

#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and said above")]

use std::time::Duration;

use onetrip_client::Replicas;
use onetrip_client::completion::outcome;
use onetrip_engine::Outcome;
use onetrip_engine::pool::TextKey;
use onetrip_postgres::client::moving::Step;
use onetrip_postgres::client::position::{self, Position};
use onetrip_postgres::client::replicas::{PROBE, Status};
use onetrip_postgres::message::{DataRow, Header};

use crate::export::{made, place};
use crate::export_pool::Pool;
use crate::memory;
use crate::room::Connection;
use crate::time::{deadline, time};

/// What a read must show.
pub mod shows {
    /// What this client wrote.
    pub const OWN: u32 = 0;
    /// What was acknowledged up to a position.
    pub const AFTER: u32 = 1;
    /// Whatever the replica has.
    pub const ANYTHING: u32 = 2;
}

/// What a read does next.
pub mod step {
    /// It is submitted on the primary, and stays there.
    pub const PRIMARY: u32 = 0;
    /// The next step is asked for after `onetrip_replicas_pause`.
    pub const PAUSE: u32 = 1;
    /// It fails: its deadline has passed.
    pub const LATE: u32 = 2;
    /// It fails: only replicas may serve it, and none could in time.
    pub const NO_REPLICA: u32 = 3;
    /// It is submitted on a replica, with `onetrip_replicas_submit`. Twice the number of the
    /// replica is added to this, and 1 if the read waits in line where no connection takes it at
    /// once. If it does not, the next step is asked for after `onetrip_replicas_pause`.
    pub const REPLICA: u32 = 4;
}

/// A text that `onetrip_replicas_say` says.
pub mod text {
    /// The position behind all writes that were acknowledged. Empty if it is not known: then the
    /// primary is asked.
    pub const NEWEST: u32 = 0;
    /// The question for it.
    pub const QUESTION: u32 = 1;
    /// What a replica is asked that is to be probed.
    pub const PROBE: u32 = 2;
}

/// A number that `onetrip_replicas_number` returns, of one server.
pub mod number {
    /// Reads that went there.
    pub const READS: u32 = 0;
    /// Those of them that it could not serve, since it had not replayed what they must show.
    pub const BEHIND: u32 = 1;
    /// 1 if reads go there now, 0 if not.
    pub const SERVES: u32 = 2;
    /// How far it was behind when it was last asked, in milliseconds; negative if it has not said.
    pub const LAG: u32 = 3;
}

/// Stands for the primary where the number of a replica is asked for.
pub const PRIMARY: u32 = u32::MAX;

/// The replicas of one client as a host holds them.
#[derive(Debug)]
pub struct Held {
    replicas: Replicas,
    /// The last text that was said.
    said: String,
    /// The position of the last read that named one, and its text: many reads name the same.
    named: Option<(Vec<u8>, Position)>,
}

impl Held {
    fn named(&mut self, token: &[u8]) -> Option<Position> {
        if let Some((text, position)) = &self.named
            && text == token
        {
            return Some(*position);
        }
        let position = parse(token)?;
        self.named = Some((token.to_vec(), position));
        Some(position)
    }
}

/// The replicas of a client, of which nothing is known. `reads`: the place of the setting's word, 0
/// for primary, 1 for prefer_replica, 2 for replica. `max_lag`, in milliseconds: 0 is no limit.
/// `wait_timeout`, in milliseconds: how long a read that only replicas may serve waits for one. Null
/// if there is no memory for them.
#[unsafe(no_mangle)]
pub extern "C" fn onetrip_replicas_new(
    count: u32,
    reads: u32,
    max_lag: f64,
    wait_timeout: f64,
) -> *mut Held {
    let [max_lag, wait_timeout] =
        [max_lag, wait_timeout].map(|it| duration(it).unwrap_or_default());
    let count = count.min(REPLICAS_MAX) as usize;
    made(|| Held {
        replicas: Replicas::new(count, reads as usize, max_lag, wait_timeout),
        said: String::new(),
        named: None,
    })
}

/// Frees them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_free(held: *mut Held) {
    if !held.is_null() {
        // SAFETY: the host's promise at the top.
        drop(unsafe { Box::from_raw(held) });
    }
}

/// The replicas behind a pointer, for one call.
///
/// # Safety
/// As at the top.
unsafe fn of<'a>(held: *mut Held) -> &'a mut Held {
    // SAFETY: the host's promise at the top.
    unsafe { &mut *held }
}

// --- reads ---

/// A read is made. `wanted`: one of [`shows`]; for `AFTER`, `token` is the text of the position.
/// `bound`: how many milliseconds it waits for a replica; negative for the default. `timeout`: in
/// how many it must be answered; 0 for no limit. Returns its number for the functions below, or 0 if
/// the text is no position.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_begin(
    held: *mut Held,
    now: f64,
    wanted: u32,
    token: *const u8,
    len: usize,
    bound: f64,
    timeout: f64,
) -> u32 {
    let now = time(now);
    let (bound, late) = (duration(bound), deadline(now, timeout));
    // SAFETY: the host's promise at the top.
    let (held, token) = unsafe { (of(held), memory::bytes(token, len)) };
    match wanted {
        shows::AFTER => match held.named(token) {
            Some(position) => held.replicas.begin_after(now, position, bound, late),
            None => 0,
        },
        shows::ANYTHING => held.replicas.begin_stale(now, bound, late),
        _ => held.replicas.begin_own(now, bound, late),
    }
}

/// Shows what a read whose text has this key would find in the pool of a replica, or of the
/// [`PRIMARY`]. Called for all of them in front of each step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_see(
    held: *mut Held,
    at: u32,
    pool: *const Pool,
    key: u32,
) {
    // SAFETY: the host's promise at the top.
    let (held, pool) = unsafe { (of(held), &*pool) };
    let at = (at != PRIMARY).then_some(at as usize);
    held.replicas.see(at, pool.outlook(TextKey::from_number(key)));
}

/// What a read does next: one of [`step`]. Asked for when it was made, behind each pause, and where
/// [`onetrip_replicas_ended`] says that it goes on. The number of one that goes to the primary or
/// fails is free again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_step(held: *mut Held, now: f64, read: u32) -> u32 {
    // SAFETY: the host's promise at the top.
    match unsafe { of(held) }.replicas.step(time(now), read) {
        Step::Primary => step::PRIMARY,
        Step::Pause => step::PAUSE,
        Step::Late => step::LATE,
        Step::NoReplica => step::NO_REPLICA,
        Step::Replica { at, waits } => step::REPLICA + 2 * at as u32 + u32::from(waits),
    }
}

/// How many milliseconds a read pauses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_pause(held: *mut Held) -> f64 {
    // SAFETY: the host's promise at the top.
    unsafe { of(held) }.replicas.pause().as_secs_f64() * 1e3
}

/// Submits a read on a shared connection to a replica, as `onetrip_postgres_submit` does, behind a
/// guard where it needs one. If that fails or shows something new, its end comes in front of that of
/// the read, under the same token: `GUARD_PASSED`, `GUARD_BEHIND` or `GUARD_FAILED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_submit(
    held: *mut Held,
    read: u32,
    connection: *mut Connection,
    now: f64,
    token: u32,
    flags: u32,
    text_len: usize,
    len: usize,
    key: u32,
) -> f64 {
    // SAFETY: the host's promise at the top.
    let (held, connection) = unsafe { (of(held), &mut *connection) };
    let position = held.replicas.position_of(read);
    let request = (token, flags, TextKey::from_number(key));
    place(connection.submit_read(time(now), request, (text_len, len), position.as_ref()))
}

/// A guard in front of a read has ended on a replica. `kind`, `a` and `b` are those of its record.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_guarded(
    held: *mut Held,
    now: f64,
    at: u32,
    read: u32,
    kind: u32,
    a: u32,
    b: u32,
) {
    // SAFETY: the host's promise at the top.
    unsafe { of(held) }.replicas.guard_ended(time(now), (at as usize, read), kind, a, b);
}

/// A read has ended on a replica. `outcome` is that of its record, and 0 if it has not failed.
/// `skipped`: it ended as `ABORTED`. `is_final`: its caller's deadline or cancel ended it, or the
/// client is closed. Returns whether it goes on with another step, since nothing of it has run; if
/// not, this end is its caller's, and its number is free again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_ended(
    held: *mut Held,
    now: f64,
    read: u32,
    outcome: u32,
    skipped: bool,
    is_final: bool,
) -> bool {
    let outcome = match outcome {
        outcome::NONE => None,
        outcome::NOT_SENT => Some(Outcome::NotSent),
        outcome::REJECTED => Some(Outcome::Rejected),
        outcome::APPLIED => Some(Outcome::Applied),
        _ => Some(Outcome::Unknown),
    };
    // SAFETY: the host's promise at the top.
    unsafe { of(held) }.replicas.ended(time(now), read, outcome, (skipped, is_final))
}

/// Nobody waits for a read any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_forget(held: *mut Held, read: u32) {
    // SAFETY: the host's promise at the top.
    unsafe { of(held) }.replicas.forget(read);
}

/// One of the [`number`]s of a replica, or of the primary ([`PRIMARY`]), which has the first alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_number(
    held: *mut Held,
    now: f64,
    at: u32,
    what: u32,
) -> f64 {
    // SAFETY: the host's promise at the top.
    let replicas = &unsafe { of(held) }.replicas;
    let status = match at {
        PRIMARY => Status { reads: replicas.counts().on_primary, ..Status::default() },
        at => replicas.status(time(now), at as usize),
    };
    match what {
        number::READS => status.reads as f64,
        number::BEHIND => status.behind as f64,
        number::SERVES => f64::from(u8::from(status.serves)),
        _ => status.lag.map_or(-1.0, |lag| lag.as_secs_f64() * 1e3),
    }
}

// --- probes ---

/// The replica to probe now, or [`PRIMARY`] for none. Asked behind each step, until there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_to_probe(held: *mut Held, now: f64) -> u32 {
    // SAFETY: the host's promise at the top.
    let at = unsafe { of(held) }.replicas.poll_probe(time(now));
    at.map_or(PRIMARY, |at| at as u32)
}

/// A probe has ended. `row`: the message with the row of its answer; empty if it failed. `seed`: any
/// number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_probed(
    held: *mut Held,
    now: f64,
    at: u32,
    row: *const u8,
    len: usize,
    seed: f64,
) {
    // SAFETY: the host's promise at the top.
    let (held, row) = unsafe { (of(held), memory::bytes(row, len)) };
    held.replicas.probed(time(now), at as usize, texts(row), seed.to_bits());
}

// --- positions ---

/// A record `UNCERTAIN` of a connection to the primary, with its `a`. If it returns true, all
/// connections to the primary are marked anew ([`onetrip_replicas_mark`]).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_uncertain(held: *mut Held, a: u32) -> bool {
    // SAFETY: the host's promise at the top.
    unsafe { of(held) }.replicas.uncertain(a)
}

/// A record `POSITION` of such a connection, with its `b` and its block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_positioned(
    held: *mut Held,
    b: u32,
    block: *const u8,
    len: usize,
) {
    // SAFETY: the host's promise at the top.
    let (held, block) = unsafe { (of(held), memory::bytes(block, len)) };
    held.replicas.positioned(b, block);
}

/// Marks a connection to the primary: a new one, and all of them when the losses have changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_mark(held: *mut Held, connection: *mut Connection) {
    // SAFETY: the host's promise at the top.
    let (held, connection) = unsafe { (of(held), &mut *connection) };
    connection.client.mark_positions(held.replicas.losses());
}

/// Says one of the [`text`]s, and returns its length. [`onetrip_replicas_text`] has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_say(held: *mut Held, what: u32) -> usize {
    // SAFETY: the host's promise at the top.
    let held = unsafe { of(held) };
    held.said = match what {
        text::QUESTION => position::QUESTION.into(),
        text::PROBE => PROBE.into(),
        _ => held.replicas.newest().map(|it| it.to_string()).unwrap_or_default(),
    };
    held.said.len()
}

/// Says the position that the message with the row of an answer to the question has, and returns
/// its length: 0 if it has none, as that of a standby.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_read(
    held: *mut Held,
    row: *const u8,
    len: usize,
) -> usize {
    // SAFETY: the host's promise at the top.
    let (held, row) = unsafe { (of(held), memory::bytes(row, len)) };
    held.said = texts(row).and_then(position::read).map(|it| it.to_string()).unwrap_or_default();
    held.said.len()
}

/// The last text that was said. Valid until the next one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_replicas_text(held: *mut Held) -> *const u8 {
    // SAFETY: the host's promise at the top.
    unsafe { of(held) }.said.as_ptr()
}

/// Which of two positions, whose texts follow one another, covers both: 0 for the first, 1 for the
/// second. -1 if one of the texts is no position.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onetrip_position_later(
    texts: *const u8,
    first_len: usize,
    len: usize,
) -> i32 {
    // SAFETY: the host's promise at the top.
    let texts = unsafe { memory::bytes(texts, len) };
    let both = texts.split_at_checked(first_len).map(|(a, b)| (parse(a), parse(b)));
    match both {
        Some((Some(first), Some(second))) => i32::from(first.max(second) != first),
        _ => -1,
    }
}

/// More servers than a list has.
const REPLICAS_MAX: u32 = 1024;

fn duration(millis: f64) -> Option<Duration> {
    (millis >= 0.0).then(|| Duration::from_nanos(time(millis).as_nanos()))
}

fn parse(token: &[u8]) -> Option<Position> {
    str::from_utf8(token).ok()?.parse().ok()
}

/// The texts of a row of so many columns, of the message with it.
fn texts<const N: usize>(message: &[u8]) -> Option<[Option<&str>; N]> {
    let row = DataRow::decode(message.get(Header::LEN..)?).ok()?;
    let mut values = row.values;
    let mut text = || str::from_utf8(values.next()??).ok();
    Some(std::array::from_fn(|_| text()))
}
