//! Which server a read goes to: the primary, or a replica that may show what the read must show.
//!
//! Each server of the list has a pool of its own, which the host keeps and whose outlook it passes
//! in. A read that must show writes up to a [`Position`] has a *guard* in front of it on a replica:
//! a statement in the same implicit transaction, with no sync point between, that fails unless the
//! server has replayed that far. Behind a guard that fails the server runs nothing, so the read can
//! go elsewhere. Everything that is remembered here only saves guards that would fail: whether a
//! read is stale is decided by the server, or by the [`Proof`] of its connection.
//!
//! Servers that are down, that are no standby, or that are too far behind are out. They are probed
//! when reads come and it is time, and so come back. No clock runs for that while nobody reads.

use std::time::Duration;

use onetrip_engine::{Outcome, Time};

use super::identity::Identity;
use super::position::{Position, Wanted, read_lsn};

/// A guard, as a statement. Its parameters are the values of [`Proof::guard`] as text; its row has
/// one text, how far the server has replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardText {
    /// Fails unless
    ///
    /// - the server belongs to the cluster of the position, and its history to the timeline: what a
    ///   server says of its timeline may be older than what it replays, never newer;
    /// - it has replayed the position;
    /// - the statement behind it takes a snapshot of its own. At REPEATABLE READ it would see with
    ///   the snapshot that was taken before the guard was evaluated.
    Whole,
    /// The same without cluster and timeline, for a connection that has proven both. The functions
    /// that say them read a file each, which costs more than a read of a row.
    Proven,
}

/// The text of a guard, with more conditions and where they come from.
macro_rules! guard {
    ($conditions:literal, $from:literal) => {
        concat!(
            "select case when ",
            $conditions,
            "pg_catalog.pg_last_wal_replay_lsn() operator(pg_catalog.>=) \
             $1::pg_catalog.pg_lsn and pg_catalog.starts_with(\
             pg_catalog.current_setting('transaction_isolation'), 'read ') \
             then pg_catalog.pg_last_wal_replay_lsn()::pg_catalog.text \
             else ('onetrip: not replayed yet, not run, replayed so far: ' \
             operator(pg_catalog.||) \
             coalesce(pg_catalog.pg_last_wal_replay_lsn()::pg_catalog.text, ''))\
             ::pg_catalog.int4::pg_catalog.text end",
            $from
        )
    };
}

impl GuardText {
    /// Both.
    pub const ALL: [GuardText; 2] = [GuardText::Whole, GuardText::Proven];

    /// The text. All names in it are those of the catalogue, so that nothing in a search path stands
    /// in for them. The conversion that fails names how far the server is, and holds a function's
    /// result, since the planner would evaluate a constant one.
    pub fn sql(self) -> &'static str {
        match self {
            GuardText::Whole => guard!(
                "s.system_identifier::pg_catalog.text operator(pg_catalog.=) $2 \
                 and greatest(c.timeline_id, r.min_recovery_end_timeline) \
                 operator(pg_catalog.>=) $3::pg_catalog.int8 and ",
                " from pg_catalog.pg_control_system() s, pg_catalog.pg_control_checkpoint() c, \
                 pg_catalog.pg_control_recovery() r"
            ),
            GuardText::Proven => guard!("", ""),
        }
    }

    /// The types of its parameters.
    pub fn types(self) -> &'static [u32] {
        match self {
            GuardText::Whole => &[TEXT; 3],
            GuardText::Proven => &[TEXT],
        }
    }
}

/// The number of the type of a guard's parameters and of its column: text.
const TEXT: u32 = 25;

/// What a probe asks: who the server is, how far it has replayed, and how many milliseconds it is
/// behind. A standby that has replayed all that it received, and receives, is not behind.
pub const PROBE: &str = "select s.system_identifier::pg_catalog.text, \
     pg_catalog.pg_is_in_recovery()::pg_catalog.text, \
     greatest(c.timeline_id, r.min_recovery_end_timeline)::pg_catalog.text, \
     pg_catalog.pg_last_wal_replay_lsn()::pg_catalog.text, \
     (case when pg_catalog.pg_last_wal_receive_lsn() \
     operator(pg_catalog.=) pg_catalog.pg_last_wal_replay_lsn() \
     and exists (select from pg_catalog.pg_stat_wal_receiver w \
     where coalesce(w.status, 'streaming') operator(pg_catalog.=) 'streaming') \
     then 0 else pg_catalog.ceil(extract(epoch from pg_catalog.clock_timestamp() \
     operator(pg_catalog.-) pg_catalog.pg_last_xact_replay_timestamp()) \
     operator(pg_catalog.*) 1000) end)::pg_catalog.int8::pg_catalog.text \
     from pg_catalog.pg_control_system() s, pg_catalog.pg_control_checkpoint() c, \
     pg_catalog.pg_control_recovery() r";

/// The answer to a [`PROBE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Who the server is.
    pub identity: Identity,
    /// How far it has replayed; `None` on a server that replays nothing.
    pub replayed: Option<u64>,
    /// How far it is behind; `None` if it can't say.
    pub lag: Option<Duration>,
}

impl Report {
    /// Reads the texts of the row. `None` if they can't be the answer.
    pub fn read(row: [Option<&str>; 5]) -> Option<Report> {
        let [system, is_standby, timeline, replayed, lag] = row;
        let lag = lag.and_then(|lag| lag.parse::<i64>().ok());
        Some(Report {
            identity: Identity::read(system?, is_standby?, timeline?)?,
            replayed: replayed.and_then(read_lsn),
            // The clock of the primary may be ahead.
            lag: lag.map(|lag| Duration::from_millis(lag.max(0) as u64)),
        })
    }
}

/// What the answers on a connection have proven. A connection leads to one process of one server
/// for its whole life, and a server never goes back: so what was replayed once needs no guard
/// again. That holds for a connection to the server itself, not behind a pooler, and for no other
/// connection to the same address.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proof(Option<Position>);

impl Proof {
    /// Whether a read needs no guard.
    pub fn covers(&self, position: &Position) -> bool {
        self.0.is_some_and(|proven| proven.covers(position))
    }

    /// The guard for this position, and its values.
    pub fn guard(&self, position: &Position) -> (GuardText, Vec<String>) {
        let is_proven = self.0.is_some_and(|proven| {
            proven.system == position.system && proven.timeline >= position.timeline
        });
        let lsn = position.lsn_text();
        match is_proven {
            true => (GuardText::Proven, vec![lsn]),
            false => {
                let values = vec![lsn, position.system.to_string(), position.timeline.to_string()];
                (GuardText::Whole, values)
            }
        }
    }

    /// A guard for this position has passed, and told how far the server is. `is_direct`: the
    /// connection leads to the server itself. Whether that is news for
    /// [`Replicas::handle_guard`]: most guards of a flight show what the first of them has shown.
    pub fn handle_passed(
        &mut self,
        position: &Position,
        replayed: Option<u64>,
        is_direct: bool,
    ) -> bool {
        if !is_direct {
            return true;
        }
        let mut proven = *position;
        if let Some(before) = self.0.filter(|before| before.system == proven.system) {
            proven.timeline = proven.timeline.max(before.timeline);
            proven.lsn = proven.lsn.max(before.lsn);
        }
        proven.lsn = proven.lsn.max(replayed.unwrap_or(0));
        self.0.replace(proven) != Some(proven)
    }
}

/// Where reads may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// To the primary, as all else.
    #[default]
    Primary,
    /// To replicas; to the primary if no replica will do, or if all of them are busy.
    PreferReplica,
    /// To replicas only.
    Replica,
}

impl Reads {
    /// In the order of the words for them.
    #[doc(hidden)]
    pub const ALL: [Reads; 3] = [Reads::Primary, Reads::PreferReplica, Reads::Replica];
}

/// How servers are chosen.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How far behind a replica may be; `None` is no limit.
    pub max_lag: Option<Duration>,
    /// The first pause before a server that is out is probed again. It doubles up to the second.
    pub retry_min: Duration,
    /// The longest such pause.
    pub retry_max: Duration,
    /// The first pause before a replica that was behind is tried again with a guard that it has not
    /// passed yet. It doubles up to the second. Meanwhile it serves what it is known to show.
    pub behind_min: Duration,
    /// The longest such pause.
    pub behind_max: Duration,
    /// By how much less a read must wait on the primary to go there rather than to a replica whose
    /// connections are all busy.
    pub preference: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_lag: None,
            retry_min: Duration::from_millis(100),
            retry_max: Duration::from_secs(10),
            behind_min: Duration::from_millis(2),
            behind_max: Duration::from_millis(50),
            preference: Duration::from_millis(1),
        }
    }
}

/// A read, as far as it matters to where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Where it may go.
    pub reads: Reads,
    /// What it must show.
    pub wanted: Wanted,
    /// Until when it waits for a replica.
    pub until: Time,
}

impl Read {
    /// Whether it is sent elsewhere after this end on a replica: nothing of it has run. `skipped`:
    /// its guard has failed.
    pub fn goes_elsewhere(outcome: Outcome, skipped: bool) -> bool {
        skipped || outcome == Outcome::NotSent
    }

    /// Whether it then goes to the primary, and not to another replica.
    pub fn gives_up(&self, now: Time) -> bool {
        self.reads != Reads::Replica && now >= self.until
    }
}

/// What a read would find at a server now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outlook {
    /// A connection is open.
    pub is_open: bool,
    /// A connection is idle, or one may be opened.
    pub has_room: bool,
    /// How long it is expected to wait, the round trip included.
    pub wait: Duration,
    /// How many statements are unanswered there.
    pub unanswered: usize,
}

/// Waits that differ by less are taken for the same, so that replicas at the same distance take
/// turns.
const JITTER_US: u32 = 500;

/// How many of these a wait has.
fn jitters(wait: Duration) -> u64 {
    let in_second = u64::from(1_000_000 / JITTER_US);
    let rest = u64::from(wait.subsec_micros() / JITTER_US);
    wait.as_secs().saturating_mul(in_second).saturating_add(rest)
}

/// One read of so many goes to any replica that has room.
const EXPLORE_EVERY: usize = 16;

/// Where a read goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the replica with this number, behind a guard if it must show a position.
    Replica(usize),
    /// To the primary.
    Primary,
    /// Nowhere yet: it waits a while ([`Replicas::retry_pause`]) and is tried again.
    Wait,
    /// Nowhere: only replicas may serve it, none will do, and it has waited for long enough.
    Nowhere,
}

/// How a guard ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// It passed; the server has replayed this far.
    Passed(Option<u64>),
    /// The server is not there yet; it has replayed this far.
    Behind(Option<u64>),
    /// It was not answered, or failed in another way.
    Failed,
}

impl Guarded {
    /// A guard was answered with a row that has this text.
    pub fn with_row(text: Option<&str>) -> Guarded {
        Guarded::Passed(text.and_then(read_lsn))
    }

    /// A guard failed with this code and message. The code is that of the conversion which is made
    /// to fail; the message names how far the server is, in any language.
    pub fn with_error(sqlstate: &str, message: &str) -> Guarded {
        // The only word of it that is a place in the log, whatever quotes stand around.
        let place = |word: &str| read_lsn(word.trim_matches(|it: char| !it.is_ascii_hexdigit()));
        let replayed = || message.rsplit(' ').find_map(place);
        match sqlstate {
            "22P02" => Guarded::Behind(replayed()),
            _ => Guarded::Failed,
        }
    }
}

/// The replicas of a client. See the module's documentation.
#[derive(Debug)]
pub struct Replicas {
    servers: Vec<Server>,
    limits: Limits,
    /// Where the search begins, so that equals take turns.
    turn: usize,
    /// Reads that went to the primary.
    on_primary: u64,
}

/// Where reads that replicas may serve have gone since the client was made. A read that is sent to
/// several servers, one after the other, counts at each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCounts {
    /// To the primary: none of the replicas would do, or all were busy.
    pub on_primary: u64,
    /// To replicas.
    pub on_replicas: u64,
    /// To a replica that had not replayed what they must show.
    pub behind: u64,
}

/// How a replica stands, and what became of the reads that went to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether reads go there: it is a standby that can be reached, and not further behind than
    /// they allow.
    pub serves: bool,
    /// How far it was behind when it was last asked; `None` if it has not said.
    pub lag: Option<Duration>,
    /// Reads that went there.
    pub reads: u64,
    /// Those of them that it could not serve, since it had not replayed what they must show.
    pub behind: u64,
}

#[derive(Debug, Default)]
struct Server {
    reads: u64,
    reads_behind: u64,
    is_in: bool,
    is_probing: bool,
    /// How far it has replayed at least; the timeline is one that it has reached.
    replayed: Option<Position>,
    /// How far it was behind at the last probe, and when that was answered.
    lag: Option<Duration>,
    probed: Time,
    /// A read wanted a later timeline.
    wants_probe: bool,
    behind: Option<Behind>,
    /// How often probes failed, and when the next is sent.
    failed: u32,
    retry_at: Time,
}

/// A guard has failed, and the server is not known to have come that far since.
#[derive(Clone, Copy, Debug)]
struct Behind {
    /// The first position for which one has failed. What lies before it may be there.
    lsn: u64,
    pause: Duration,
    until: Time,
    /// A read is on its way that tries whether the server still is behind.
    is_tried: bool,
}

impl Replicas {
    /// This many servers, of which nothing is known.
    pub fn new(servers: usize, limits: Limits) -> Replicas {
        let servers = (0..servers).map(|_| Server::default()).collect();
        Replicas { servers, limits, turn: 0, on_primary: 0 }
    }

    /// Where a read goes. `outlooks` are those of the servers.
    pub fn choose(
        &mut self,
        now: Time,
        read: Read,
        outlooks: &[Outlook],
        primary: Outlook,
    ) -> Route {
        let Read { reads, wanted, until } = read;
        if reads == Reads::Primary {
            return Route::Primary;
        }
        let elsewhere = match reads {
            _ if now < until => Route::Wait,
            Reads::Replica => Route::Nowhere,
            Reads::Primary | Reads::PreferReplica => Route::Primary,
        };
        if wanted == Wanted::Unknown {
            return elsewhere;
        }
        self.turn = self.turn.wrapping_add(1);
        // Now and then the wait does not count: a round trip that was measured as too long is
        // measured again only if something goes there.
        let explores = self.turn.is_multiple_of(EXPLORE_EVERY);
        let begin = if explores { self.turn / EXPLORE_EVERY } else { self.turn };
        let count = self.servers.len();
        let mut best: Option<(usize, Outlook)> = None;
        for at in (0..count).map(|it| (it + begin) % count) {
            let (Some(server), Some(outlook)) = (self.servers.get_mut(at), outlooks.get(at)) else {
                continue;
            };
            if server.is_in && !outlook.is_open {
                // All of its connections have ended. Why, the probe will show.
                server.leave(now, &self.limits, 0);
            }
            let serves = server.is_in && server.is_recent(now, &self.limits);
            if !serves || !server.may_show(now, wanted) {
                continue;
            }
            // Differences within the jitter of a round trip don't count.
            let rank = |it: &Outlook| match explores && it.has_room {
                true => (0, 0),
                false => (jitters(it.wait).saturating_add(1), it.unanswered),
            };
            if best.as_ref().is_none_or(|(_, best)| rank(outlook) < rank(best)) {
                best = Some((at, *outlook));
            }
        }
        let Some((at, outlook)) = best else { return elsewhere };
        let is_better = primary.is_open && primary.wait + self.limits.preference < outlook.wait;
        if reads == Reads::PreferReplica && !outlook.has_room && is_better {
            return Route::Primary;
        }
        self.servers[at].goes(now, wanted);
        Route::Replica(at)
    }

    /// A server to probe now. It is asked for while reads come.
    pub fn poll_probe(&mut self, now: Time) -> Option<usize> {
        let refresh = self.limits.max_lag.map(|lag| (lag / 4).max(Duration::from_millis(5)));
        let retry = self.limits.retry_min;
        let is_due = |server: &Server| {
            let age = now.since(server.probed);
            !server.is_probing
                && match server.is_in {
                    false => now >= server.retry_at,
                    true => {
                        refresh.is_some_and(|refresh| age >= refresh)
                            || server.wants_probe && age >= retry
                    }
                }
        };
        let at = self.servers.iter().position(is_due)?;
        let server = &mut self.servers[at];
        (server.is_probing, server.wants_probe) = (true, false);
        Some(at)
    }

    /// A probe was answered; `None` if it failed. `random` spreads the pauses of many clients.
    pub fn handle_probe(&mut self, now: Time, at: usize, report: Option<Report>, random: u64) {
        let Some(server) = self.servers.get_mut(at) else { return };
        server.is_probing = false;
        let Some(Report { identity, replayed, lag }) =
            report.filter(|report| report.identity.is_standby)
        else {
            return server.leave(now, &self.limits, random);
        };
        let seen = Position {
            system: identity.system,
            timeline: identity.timeline,
            lsn: replayed.unwrap_or(0),
        };
        let goes_on = server.replayed.is_some_and(|before| seen.covers(&before));
        server.replayed = Some(seen);
        // Otherwise it is another server.
        server.behind = server.still_behind().filter(|_| goes_on);
        (server.is_in, server.failed) = (true, 0);
        (server.lag, server.probed) = (lag, now);
    }

    /// A guard for this position has ended at a server.
    pub fn handle_guard(&mut self, now: Time, at: usize, position: &Position, guarded: Guarded) {
        let Some(server) = self.servers.get_mut(at) else { return };
        let told = match guarded {
            Guarded::Passed(replayed) => Some(replayed.unwrap_or(0).max(position.lsn)),
            Guarded::Behind(replayed) => replayed,
            Guarded::Failed => None,
        };
        if let (Some(told), Some(replayed)) = (told, &mut server.replayed)
            && replayed.system == position.system
        {
            replayed.lsn = replayed.lsn.max(told);
        }
        if matches!(guarded, Guarded::Behind(_)) {
            server.reads_behind += 1;
            server.fails(now, position.lsn, &self.limits);
        } else {
            server.behind = server.still_behind();
        }
    }

    /// A server has lost all its connections, is no standby any more, or could not be reached.
    pub fn handle_lost(&mut self, now: Time, at: usize, random: u64) {
        if let Some(server) = self.servers.get_mut(at)
            && server.is_in
        {
            server.leave(now, &self.limits, random);
        }
    }

    /// Whether a server serves reads, as far as it is known.
    pub fn is_in(&self, at: usize) -> bool {
        self.servers.get(at).is_some_and(|server| server.is_in)
    }

    /// A read goes to the replica with this number, or to the primary.
    pub(super) fn count(&mut self, replica: Option<usize>) {
        match replica.and_then(|at| self.servers.get_mut(at)) {
            Some(server) => server.reads += 1,
            None => self.on_primary += 1,
        }
    }

    /// Where reads have gone.
    pub fn counts(&self) -> ReadCounts {
        let sum = |of: fn(&Server) -> u64| self.servers.iter().map(of).sum();
        ReadCounts {
            on_primary: self.on_primary,
            on_replicas: sum(|server| server.reads),
            behind: sum(|server| server.reads_behind),
        }
    }

    /// How a replica stands now.
    pub fn status(&self, now: Time, at: usize) -> Status {
        self.servers.get(at).map_or_else(Status::default, |server| Status {
            serves: server.is_in && server.is_recent(now, &self.limits),
            lag: server.lag,
            reads: server.reads,
            behind: server.reads_behind,
        })
    }

    /// When a read that nobody could serve is tried again.
    pub fn retry_pause(&self) -> Duration {
        self.limits.behind_min
    }
}

impl Server {
    /// It is out until a probe succeeds.
    fn leave(&mut self, now: Time, limits: &Limits, random: u64) {
        let doubled = limits.retry_min.saturating_mul(1 << self.failed.min(16));
        let pause = doubled.min(limits.retry_max);
        // Between half of it and all of it.
        let part = (random % 1024) as u32;
        let pause = pause / 2 + pause / 2 * part / 1024;
        (self.is_in, self.behind) = (false, None);
        self.failed = self.failed.saturating_add(1);
        self.retry_at = now.after(pause);
    }

    /// Whether it is known to be no more than `max_lag` behind.
    fn is_recent(&self, now: Time, limits: &Limits) -> bool {
        let Some(max) = limits.max_lag else { return true };
        self.lag.is_some_and(|lag| lag + now.since(self.probed) <= max)
    }

    /// Whether it is known to show what is wanted, or may be asked.
    fn may_show(&mut self, now: Time, wanted: Wanted) -> bool {
        let position = match wanted {
            Wanted::Nothing => return true,
            Wanted::At(position) => position,
            Wanted::Unknown => return false,
        };
        let Some(replayed) = &self.replayed else { return false };
        if replayed.covers(&position) {
            return true;
        }
        if replayed.system != position.system || replayed.timeline < position.timeline {
            self.wants_probe = true;
            return false;
        }
        self.behind.is_none_or(|behind| now >= behind.until || position.lsn < behind.lsn)
    }

    /// What of it is not over, by how far the server has replayed.
    fn still_behind(&self) -> Option<Behind> {
        let replayed = self.replayed.map_or(0, |replayed| replayed.lsn);
        self.behind.filter(|behind| behind.lsn > replayed)
    }

    /// A guard for this position has failed. The pause is longer than the last one only where a read
    /// has tried behind that, not for the others of the same flight.
    fn fails(&mut self, now: Time, lsn: u64, limits: &Limits) {
        let (first, last) = (self.still_behind(), self.behind);
        let pause = match last {
            None => limits.behind_min,
            Some(last) if last.is_tried => (last.pause * 2).min(limits.behind_max),
            Some(last) => last.pause,
        };
        let lsn = first.map_or(lsn, |first| first.lsn.min(lsn));
        self.behind = Some(Behind { lsn, pause, until: now.after(pause), is_tried: false });
    }

    /// A read goes there. While the server is behind, one read at a time tries whether it still is.
    fn goes(&mut self, now: Time, wanted: Wanted) {
        let Wanted::At(position) = wanted else { return };
        let is_known = self.replayed.is_some_and(|replayed| replayed.covers(&position));
        if let Some(behind) = self.behind.as_mut().filter(|it| !is_known && position.lsn >= it.lsn)
        {
            (behind.until, behind.is_tried) = (now.after(behind.pause), true);
        }
    }
}
