//! What to do about each kind of finding: with any driver, and with onetrip.

/// Both as text, with code where there is any.
pub(super) fn of(kind: &str, is_redis: bool) -> (&'static str, &'static str) {
    match (kind, is_redis) {
        ("n+1" | "loop", false) => (
            "Ask for all rows at once: `… where id = any($1)` with an array, or a join. An ORM has \
            a setting for it: `select_related`, `prefetch_related`, `includes`, `with`.",
            "The same; or start all calls before the first is awaited, and they share a trip: \
            `rows = [db.fetch(sql, id) for id in ids]`.",
        ),
        ("n+1" | "loop" | "redis-run", true) => (
            "Use MGET, HMGET or the like, or a pipeline.",
            "Start all commands before the first is awaited, and they share a trip: \
            `values = [db.get(key) for key in keys]`.",
        ),
        ("protocol", false) => (
            "Send BEGIN and the first statement together, where the driver has a pipeline mode; \
            keep prepared statements; leave out checks of connections before each use.",
            "In Rust, Node.js, Python and C nothing to do: BEGIN, settings and resets leave with the \
            statement behind them, and statements stay prepared. For PHP, Ruby, Java, Go and others \
            `onetrip sidecar` answers these early, with the driver as it is.",
        ),
        ("protocol", true) => (
            "Send MULTI, the commands and EXEC as one pipeline; log in once.",
            "Nothing to do: `atomic()` sends all of it in one write.",
        ),
        ("independent", false) => (
            "Use the driver's pipeline mode, or several connections at once, or one statement \
            with CTEs.",
            "Start the calls before the first is awaited: `a = db.fetch(…); b = db.fetch(…)`, then \
            `await a`, `await b`. They share a trip.",
        ),
        ("independent", true) => (
            "Use a pipeline.",
            "Start the commands before the first is awaited. They share a trip.",
        ),
        ("duplicate", _) => (
            "Keep the first answer for as long as the unit runs.",
            "The same: no driver can know that the answer may be used again.",
        ),
        ("parse", _) => (
            "Let the driver keep prepared statements: `prepare_threshold`, `statement_cache_size`, \
            `prepareThreshold`. Not in PHP's PDO: it prepares anew for each statement, and pays two \
            trips for it.",
            "Nothing to do: a text is prepared by its count of uses.",
        ),
        ("connections", _) => (
            "Keep connections in a pool, or put PgBouncer in front.",
            "Keep one client for the life of the process: it is a pool.",
        ),
        ("idle", _) => (
            "Do what takes long before BEGIN or behind COMMIT. `idle_in_transaction_session_timeout` \
            bounds it.",
            "The same. A transaction whose statements are started together is open for one trip.",
        ),
        ("read-then-write", false) => (
            "Put the condition into the write: `insert … on conflict`, `update … where`, or a CTE.",
            "The same: a decision in the program costs a trip with any driver.",
        ),
        ("read-then-write", true) => (
            "Put the decision into a script, or use SET with NX or XX.",
            "The same: a decision in the program costs a trip with any client.",
        ),
        _ => ("", ""),
    }
}
