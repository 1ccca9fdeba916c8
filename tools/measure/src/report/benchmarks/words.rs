//! What a row is about, in words: its subject by the beginning of its name, and the rest of it.

use super::rows::Row;
use crate::report::format;

/// The tables of a page, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Rust,
    Node,
    Python,
    Redis,
    Memory,
    Correctness,
    Neighbours,
    Floor,
    Tools,
}

impl Group {
    pub(super) const ALL: [Group; 9] = [
        Group::Rust,
        Group::Node,
        Group::Python,
        Group::Redis,
        Group::Memory,
        Group::Correctness,
        Group::Neighbours,
        Group::Floor,
        Group::Tools,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Group::Rust => "PostgreSQL in Rust",
            Group::Node => "Node.js",
            Group::Python => "Python",
            Group::Redis => "Redis",
            Group::Memory => "Memory and limits",
            Group::Correctness => "Correctness under faults",
            Group::Neighbours => "Slow neighbours",
            Group::Floor => "Against the floor",
            Group::Tools => "Concurrency, and the tools themselves",
        }
    }

    /// A part of a file's name.
    pub(super) fn slug(self) -> &'static str {
        match self {
            Group::Rust => "rust",
            Group::Node => "node",
            Group::Python => "python",
            Group::Redis => "redis",
            Group::Memory => "memory",
            Group::Correctness => "correctness",
            Group::Neighbours => "neighbours",
            Group::Floor => "floor",
            Group::Tools => "tools",
        }
    }

    fn of(name: &str) -> Group {
        let begins = |with: &str| name.starts_with(with);
        match name {
            _ if begins("node_neighbours") => Group::Neighbours,
            _ if begins("node_") => Group::Node,
            _ if begins("python_") => Group::Python,
            _ if begins("redis_") => Group::Redis,
            _ => Group::Rust,
        }
    }
}

/// What names begin with, and what such rows are about. Of several that fit, the longest counts.
const SUBJECTS: [(&str, Group, &str); 86] = [
    ("transfer_one_by_one", Group::Rust, "a transfer over 100 ms, each statement awaited"),
    ("transfer_pipeline", Group::Rust, "a transfer over 100 ms, as one pipeline"),
    ("transfer_procedure", Group::Rust, "a transfer over 100 ms, as a PL/pgSQL procedure"),
    ("transfer_transaction", Group::Rust, "a transfer over 100 ms, awaited on a `Transaction`"),
    ("chatty_transaction_trips", Group::Rust, "begin, statements, commit, each awaited"),
    ("select_100_sync_each", Group::Rust, "point selects, 100 in flight, a Sync each"),
    ("select_100_one_sync", Group::Rust, "point selects, one Sync for 100"),
    ("select_sequential", Group::Rust, "point selects, one by one"),
    ("inserts_one_by_one", Group::Rust, "10,000 inserts of five columns, pipelined"),
    ("inserts_batch", Group::Rust, "10,000 inserts of five columns, as an atomic `batch`"),
    ("rows_100k", Group::Rust, "100,000 rows of six columns"),
    ("rows_100k_borrowed", Group::Rust, "100,000 rows of six columns, text and jsonb borrowed"),
    (
        "rows_100k_owned",
        Group::Rust,
        "100,000 rows of six columns, as `String` and `serde_json::Value`",
    ),
    ("repeatable", Group::Rust, "`repeatable` reads of 1,000 tasks, and the same isolated"),
    ("copy_in_binary", Group::Rust, "binary COPY in, five columns"),
    ("copy_out_binary", Group::Rust, "binary COPY out, five columns"),
    ("pool_select_100_tasks", Group::Rust, "point selects of 100 tasks over 10 connections"),
    ("checkout_return", Group::Rust, "checking a connection out and returning it"),
    ("checkout_waiters", Group::Rust, "waits of 100 tasks for 10 connections"),
    ("session_reset", Group::Rust, "a session of one statement, and its reset"),
    ("replica_reads", Group::Rust, "reads over a primary and two standbys"),
    ("replica_guard", Group::Rust, "what the guard of reads on replicas costs"),
    ("replica_stale", Group::Correctness, "reads on standbys that replay late"),
    ("prepared_join", Group::Rust, "a join of five tables, prepared and unprepared"),
    ("pipeline_100k_one_sync", Group::Memory, "100,000 statements with replies of 1 kB, one Sync"),
    (
        "pipeline_100k_sync_per_1000",
        Group::Memory,
        "100,000 statements with replies of 1 kB, a Sync for 1,000",
    ),
    ("stream_10m_rows_memory", Group::Memory, "a stream of 10,000,000 rows: growth of memory"),
    (
        "value_1gb_memory",
        Group::Memory,
        "a value of 1 GB, written and read in pieces: growth of memory",
    ),
    ("overload_rss", Group::Memory, "1,000 tasks overload a stalled server: growth of memory"),
    ("redis_stream", Group::Memory, "Redis: a stream of 10,000,000 commands over 10 ms"),
    ("redis_stream.rate", Group::Redis, "Redis: a stream of 10,000,000 commands over 10 ms"),
    (
        "redis_large_values",
        Group::Memory,
        "Redis: 100 values of 10 MiB at once on a line of 64 MiB/s",
    ),
    ("cancel_10000", Group::Correctness, "10,000 cancels on shared connections: neighbours harmed"),
    ("cancel_10000.hit", Group::Correctness, "10,000 cancels on shared connections"),
    (
        "kill_1000_in_flight",
        Group::Correctness,
        "the server is killed with 1,000 requests in flight: time to all outcomes",
    ),
    ("chaos", Group::Correctness, "chaos for a minute"),
    ("chaos_sessions", Group::Correctness, "chaos of sessions"),
    ("failover", Group::Correctness, "failovers under Patroni"),
    ("redis_sentinel", Group::Correctness, "failovers of Redis under Sentinels"),
    ("redis_chaos", Group::Correctness, "chaos of Redis for a minute"),
    ("redis_cluster", Group::Correctness, "chaos of a Redis cluster for a minute"),
    ("redis_crashes", Group::Correctness, "crashes of masters of a Redis cluster"),
    ("neighbours", Group::Neighbours, "Rust, with slow neighbours"),
    ("node_neighbours", Group::Neighbours, "Node.js, with slow neighbours"),
    ("redis_1000", Group::Redis, "Redis: GET and SET of 64 bytes, 1,000 in flight"),
    ("redis_100", Group::Redis, "Redis: GET and SET of 64 bytes, 100 in flight"),
    ("redis_sequential", Group::Redis, "Redis: GET and SET of 64 bytes, one by one"),
    ("redis_cached", Group::Redis, "Redis: GETs of 10,000 hot keys, cached"),
    ("redis_depth", Group::Redis, "Redis: GETs by depth"),
    ("redis_closed_loop", Group::Redis, "Redis: GETs of 1,000 callers in a closed loop over 50 ms"),
    ("node_in_flight_100", Group::Node, "Node.js: 100 in flight on one connection"),
    ("node_in_flight_1000", Group::Node, "Node.js: 1,000 in flight on one connection"),
    ("node_pool_100", Group::Node, "Node.js: 100 in flight over a pool of 10"),
    ("node_sequential", Group::Node, "Node.js: one after the other"),
    ("node_rows_1000", Group::Node, "Node.js: a select of 1,000 rows of six columns"),
    ("node_rows_100000", Group::Node, "Node.js: a select of 100,000 rows of six columns"),
    ("node_one_sync", Group::Node, "Node.js: `sql.pipeline` of 1,000 selects, one Sync"),
    ("node_proposal", Group::Node, "Node.js: the benchmark of the proposal for pg to pipeline"),
    ("node_package", Group::Node, "Node.js: the packages"),
    (
        "node_orm_trips",
        Group::Node,
        "Node.js: a transaction of two statements by an ORM over 10 ms",
    ),
    ("node_redis_get_1000", Group::Node, "Redis from Node.js: GET, 1,000 in flight"),
    ("node_replica_reads", Group::Node, "Node.js: reads over a primary and two standbys"),
    ("node_replica_guard", Group::Node, "Node.js: what the guard of reads on replicas costs"),
    ("node_replica_stale", Group::Correctness, "Node.js: reads on standbys that replay late"),
    ("node_redis_cached", Group::Node, "Redis from Node.js: GETs of hot keys, cached"),
    ("node_redis_1000", Group::Node, "Redis from Node.js: 1,000 in flight"),
    ("python_pool_1000", Group::Python, "Python: statements of 1,000 tasks over a pool of 8"),
    ("python_in_flight_100", Group::Python, "Python: 100 in flight on one connection, beside Rust"),
    ("python_sequential", Group::Python, "Python: one after the other"),
    ("python_pool_1ms", Group::Python, "Python: `pool.fetchrow` over 1 ms"),
    ("python_sqlalchemy_1ms", Group::Python, "Python: a transaction by SQLAlchemy over 1 ms"),
    ("python_rows_100k", Group::Python, "Python: 100,000 rows of six columns"),
    ("python_arrow_1m", Group::Python, "Python: a million rows as a table of Arrow"),
    ("python_many", Group::Python, "Python: 5,000 rows written"),
    ("python_shapes", Group::Python, "Python: the shapes of MagicStack's benchmark"),
    ("python_cancels", Group::Correctness, "Python: 10,000 cancels on shared connections"),
    ("python_redis_get_100", Group::Python, "Redis from Python: GET of 100 tasks"),
    ("python_replica_reads", Group::Python, "Python: reads over a primary and two standbys"),
    ("python_replica_guard", Group::Python, "Python: what the guard of reads on replicas costs"),
    ("python_replica_stale", Group::Correctness, "Python: reads on standbys that replay late"),
    ("python_redis_cached", Group::Python, "Redis from Python: GETs of hot keys, cached"),
    ("python_package", Group::Python, "Python: the package"),
    ("engine_depth", Group::Tools, "the engine: a request at a depth of 10,000"),
    ("tool_cost", Group::Tools, "`onetrip bench --script`, point selects"),
    ("concurrency", Group::Tools, "800 tasks on 10 connections"),
    ("proxy", Group::Tools, "the latency proxy"),
];

/// Parts of names that are no English.
const PARTS: [(&str, &str); 29] = [
    ("value", "`select $1::int`"),
    ("item", "a row by its key"),
    ("one", "`select $1::int`"),
    ("point", "a row by its key"),
    ("collected", "the peer collects, too"),
    ("clean", "nothing left behind"),
    ("touched", "something left behind"),
    ("10k", "10,000 rows"),
    ("1m", "1,000,000 rows"),
    ("get", "GET"),
    ("set", "SET"),
    ("one_tick", "ten issued right behind a slow one"),
    ("busy_but_one", "all connections but one are busy"),
    ("mixed", "1 % slow ones"),
    ("texts", "fifty texts, five slow at times"),
    ("modern", "the modern face"),
    ("drop_in", "the drop-in"),
    ("native", "the native calls"),
    ("numbers", "integers and texts"),
    ("values", "timestamps, numerics and uuids"),
    ("copy_in", "binary COPY"),
    ("mean", "the geometric mean of all"),
    ("harmed", "neighbours harmed"),
    ("lost", "connections lost"),
    ("drizzle", "Drizzle"),
    ("kysely", "Kysely"),
    ("with_fk", "`select_for_update_with_fk`"),
    ("onetrip_pg", "`onetrip-pg`"),
    ("onetrip_pg_path", "`onetrip/pg`"),
];

/// Parts that say who the peer is. The row does so with its version.
const PEERS: [&str; 13] = [
    "pg",
    "postgres_js",
    "redis_rs",
    "fred",
    "deadpool",
    "bb8",
    "sqlx",
    "asyncpg",
    "psycopg",
    "adbc",
    "redis_py",
    "coredis",
    "glide",
];

/// Parts that say what is measured.
const KINDS: [(&str, &str); 11] = [
    ("cpu", "CPU"),
    ("time", "time"),
    ("rate", "rate"),
    ("p50", "p50"),
    ("p99", "p99"),
    ("p999", "p99.9"),
    ("median", "median"),
    ("trips", "trips"),
    ("rss", "memory"),
    ("import", "import"),
    ("unpacked", "unpacked"),
];

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) group: Group,
    pub(super) subject: String,
    /// What tells it from other rows of its subject, but for its kind and its peer.
    pub(super) parts: Vec<String>,
    /// What was measured.
    pub(super) kind: Option<&'static str>,
}

impl About {
    pub(super) fn of(row: &Row) -> About {
        let name = row.name.strip_prefix("node_floor_").map(|rest| format!("node_{rest}"));
        let name = name.as_deref().or(row.name.strip_prefix("floor_")).unwrap_or(&row.name);
        let begins = |with: &str| {
            name.strip_prefix(with).is_some_and(|it| it.is_empty() || it.starts_with(['.', '_']))
        };
        let known = SUBJECTS.iter().filter(|(with, ..)| begins(with));
        let known = known.max_by_key(|(with, ..)| with.len());
        let (subject, rest) = match known {
            Some((with, _, subject)) => ((*subject).to_owned(), &name[with.len()..]),
            None => {
                let (first, rest) = name.split_once('.').unwrap_or((name, ""));
                (first.replace('_', " "), rest)
            }
        };
        let (group, subject) = match (known, row.is_beside_a_floor()) {
            (_, true) => (Group::Floor, format!("{subject}, beside its floor")),
            (Some((_, group, _)), false) => (*group, subject),
            (None, false) => (Group::of(&row.name), subject),
        };
        let parts: Vec<&str> = rest.split('.').map(|it| it.trim_matches('_')).collect();
        let kind = parts.iter().find_map(|part| KINDS.iter().find(|(it, _)| it == part));
        let is_said = |part: &&&str| {
            !part.is_empty()
                && kind.is_none_or(|(it, _)| it != *part)
                && !(row.peer_version.is_some() && PEERS.contains(part))
        };
        let parts = parts.iter().filter(is_said).map(|part| in_words(part)).collect();
        About { group, subject, parts, kind: kind.map(|(_, word)| *word) }
    }

    /// A name up to what was measured.
    pub(super) fn without_kind(name: &str) -> &str {
        let last = name.rsplit_once('.');
        last.filter(|(_, last)| KINDS.iter().any(|(it, _)| it == last)).map_or(name, |it| it.0)
    }

    /// As a phrase, but for its peer.
    pub(super) fn phrase(&self) -> String {
        let kind = self.kind.map(str::to_owned);
        let rest: Vec<String> = self.parts.iter().cloned().chain(kind).collect();
        let colon = if rest.is_empty() { "" } else { ": " };
        format!("{}{colon}{}", format::capital(&self.subject), rest.join(", "))
    }
}

/// A part of a name. A number at its end is one of connections, unless it says what it counts.
fn in_words(part: &str) -> String {
    let known = |part: &str| PARTS.iter().find(|(it, _)| *it == part).map(|(_, words)| *words);
    if let Some(words) = known(part) {
        return words.to_owned();
    }
    let number = part.rsplit_once('_').and_then(|(of, digits)| Some((of, digits.parse().ok()?)));
    match number {
        Some((of @ ("threads" | "statements" | "connections" | "in_flight"), count)) => {
            match of.strip_suffix('s') {
                Some(one) => format::several(count as usize, one),
                None => format!("{} {}", format::count(count), of.replace('_', " ")),
            }
        }
        Some((of, count)) if known(of).is_some() => {
            format!(
                "{}, {}",
                known(of).unwrap_or(of),
                format::several(count as usize, "connection")
            )
        }
        _ => part.replace('_', " "),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn about(name: &str, peer: &str) -> About {
        let row = format!(
            r#"{{"name":"{name}","unit":"","ours":1.0,"peer":null,"peer_version":"{peer}",
            "ratio":null,"spread":null,"bar":null,"holds":null}}"#
        );
        About::of(&serde_json::from_str(&row).unwrap())
    }

    #[test]
    fn the_longest_beginning_of_a_name_is_its_subject() {
        assert_eq!(
            about("select_100_one_sync.cpu", "").phrase(),
            "Point selects, one Sync for 100: CPU"
        );
        assert_eq!(about("redis_stream.rss", "").group, Group::Memory);
        assert_eq!(about("redis_stream.rate", "").group, Group::Redis);
        // No beginning ends within a number or a word.
        assert_eq!(about("redis_10000.cpu", "").phrase(), "Redis 10000: CPU");
        assert_eq!(about("node_new", "").group, Group::Node);
    }

    #[test]
    fn the_rest_of_a_name_is_in_words_and_without_the_peer() {
        let phrase = |name, peer| about(name, peer).parts.join("; ");
        assert_eq!(phrase("checkout_return.bb8.threads_1.rate", "bb8 0.9.1"), "1 thread");
        assert_eq!(phrase("neighbours.mixed_3.p99", ""), "1 % slow ones, 3 connections");
        assert_eq!(phrase("redis_depth.in_flight_10000", ""), "10,000 in flight");
        assert_eq!(phrase("chaos_sessions.rust.direct.1.calm", ""), "rust; direct; 1; calm");
    }

    #[test]
    fn a_floor_is_a_group_of_its_own_about_the_same() {
        let floor = about("node_floor_in_flight_100.value.cpu", "a bare net.Socket");
        assert_eq!(floor.group, Group::Floor);
        assert_eq!(floor.subject, "Node.js: 100 in flight on one connection, beside its floor");
    }
}
