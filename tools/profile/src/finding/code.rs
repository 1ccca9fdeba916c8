//! The mending of each kind of finding as code: with a plain driver, and with onetrip.
//!
//! The names of onetrip's API are those of `docs/guide`; a test looks for them there.

/// A piece of code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    pub(crate) language: Language,
    /// The driver.
    pub(crate) with: &'static str,
    pub(crate) text: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    /// For every program.
    Sql,
    Python,
    Node,
    Rust,
}

use Language::{Node, Python, Rust, Sql};

const fn code(language: Language, with: &'static str, text: &'static str) -> Code {
    Code { language, with, text }
}

/// With a plain driver, and with onetrip; nothing where the words say all.
pub(crate) fn of(kind: &str, is_redis: bool) -> (&'static [Code], &'static [Code]) {
    match (kind, is_redis) {
        ("n+1" | "loop", false) => (&ROWS_PLAIN, &ROWS),
        ("n+1" | "loop" | "redis-run", true) => (&KEYS_PLAIN, &KEYS),
        ("protocol", false) => (&PROTOCOL_PLAIN, &PROTOCOL),
        ("protocol", true) => (&ATOMIC_PLAIN, &ATOMIC),
        ("independent", false) => (&APART_PLAIN, &APART),
        ("independent", true) => (&COMMANDS_PLAIN, &COMMANDS),
        ("duplicate", _) => (&DUPLICATE, &[]),
        ("parse", _) => (&PARSE_PLAIN, &PARSE),
        ("connections", false) => (&POOL_PLAIN, &POOL),
        ("idle", _) => (&IDLE_PLAIN, &IDLE),
        ("read-then-write", false) => (&UPSERT, &[]),
        ("read-then-write", true) => (&LOCK_PLAIN, &LOCK),
        _ => (&[], &[]),
    }
}

const ROWS_PLAIN: [Code; 3] = [
    code(
        Python,
        "psycopg 3",
        "rows = conn.execute(\n    \"select * from line where order_id = any(%s)\", [ids]\n\
         ).fetchall()",
    ),
    code(
        Node,
        "pg",
        "const text = 'select * from line where order_id = any($1)'\n\
         const { rows } = await pool.query(text, [ids])",
    ),
    code(
        Rust,
        "tokio-postgres",
        "let text = \"select * from line where order_id = any($1)\";\n\
         let rows = client.query(text, &[&ids]).await?;",
    ),
];
const ROWS: [Code; 3] = [
    code(
        Python,
        "onetrip",
        "text = \"select * from line where order_id = $1\"\n\
         calls = [db.fetch(text, id) for id in ids]  # One trip.\n\
         lines = await asyncio.gather(*calls)",
    ),
    code(
        Node,
        "onetrip",
        "const lines = await Promise.all( // One trip.\n  \
         ids.map((id) => sql`select * from line where order_id = ${id}`),\n)",
    ),
    code(
        Rust,
        "onetrip",
        "let text = \"select * from line where order_id = $1\";\n\
         let replies: Vec<_> =\n    ids.iter().map(|id| client.query(text, &[id])).collect();\n\
         for reply in replies { // One trip for all of them.\n    let lines = reply.await?;\n}",
    ),
];
const KEYS_PLAIN: [Code; 3] = [
    code(Python, "redis-py", "values = r.mget(keys)"),
    code(Node, "ioredis", "const values = await redis.mget(keys)"),
    code(Rust, "redis", "let values: Vec<Option<String>> = con.mget(&keys).await?;"),
];
const KEYS: [Code; 3] = [
    code(
        Python,
        "onetrip",
        "calls = [cache.get(key) for key in keys]  # One trip.\n\
         values = await asyncio.gather(*calls)",
    ),
    code(
        Node,
        "onetrip",
        "const values = await Promise.all( // One trip.\n  keys.map((key) => cache.get(key)),\n)",
    ),
    code(
        Rust,
        "onetrip",
        "let replies: Vec<_> =\n    \
         keys.iter().map(|it| client.get::<Option<String>>(it)).collect();\n\
         for reply in replies { // One trip for all of them.\n    let value = reply.await?;\n}",
    ),
];
const PROTOCOL_PLAIN: [Code; 2] = [
    code(
        Sql,
        "SQL: a statement of its own needs no BEGIN and no COMMIT",
        "with debit as (\n  update account set balance = balance - 5 where id = 1\n)\n\
         update account set balance = balance + 5 where id = 2;",
    ),
    code(
        Python,
        "psycopg 3",
        "conn.autocommit = True  # It would wait for a BEGIN of its own.\n\
         text = \"update account set balance = balance + %s where id = %s\"\n\
         with conn.pipeline():\n    conn.execute(\"begin\")\n    \
         conn.execute(text, [-5, 1])\n    conn.execute(text, [5, 2])\n    \
         conn.execute(\"commit\")",
    ),
];
const PROTOCOL: [Code; 3] = [
    code(
        Python,
        "onetrip",
        "text = \"update account set balance = balance + $1 where id = $2\"\n\
         async with db.pipeline() as tx:  # One trip, one transaction.\n    \
         tx.execute(text, -5, 1)\n    tx.execute(text, 5, 2)",
    ),
    code(
        Node,
        "onetrip",
        "await sql.pipeline([ // One trip, one transaction.\n  \
         sql`update account set balance = balance - 5 where id = 1`,\n  \
         sql`update account set balance = balance + 5 where id = 2`,\n])",
    ),
    code(
        Rust,
        "onetrip",
        "let text = \"update account set balance = balance + $1 where id = $2\";\n\
         let mut tx = client.pipeline(); // One trip, one transaction.\n\
         let _debit = tx.execute(text, &[&-5, &1]);\n\
         let _credit = tx.execute(text, &[&5, &2]);\n\
         tx.finish().await?;",
    ),
];
const ATOMIC_PLAIN: [Code; 3] = [
    code(
        Python,
        "redis-py",
        "with r.pipeline() as p:  # MULTI and EXEC in one write.\n    \
         p.decrby(\"seats\", 1)\n    p.rpush(\"sales\", 1)\n    left, _ = p.execute()",
    ),
    code(
        Node,
        "ioredis",
        "const replies = await redis\n  .multi().decrby('seats', 1).rpush('sales', '1').exec()",
    ),
    code(
        Rust,
        "redis",
        "let (left, _): (i64, i64) = redis::pipe()\n    .atomic()\n    \
         .decr(\"seats\", 1)\n    .rpush(\"sales\", 1)\n    .query_async(&mut con)\n    .await?;",
    ),
];
const ATOMIC: [Code; 3] = [
    code(
        Python,
        "onetrip",
        "async with cache.atomic() as tx:  # MULTI … EXEC in one write.\n    \
         left = tx.decrby(\"seats\", 1)\n    tx.rpush(\"sales\", 1)\nprint(await left)",
    ),
    code(
        Node,
        "onetrip",
        "const [left] = await cache\n  .atomic().decrby('seats', 1).rpush('sales', '1').run()",
    ),
    code(
        Rust,
        "onetrip",
        "let tx = client.atomic();\nlet left = tx.decrby(\"seats\", 1);\n\
         tx.rpush(\"sales\", 1);\nlet left = tx.run().await?.get(left)?;",
    ),
];
const APART_PLAIN: [Code; 3] = [
    code(
        Python,
        "psycopg 3",
        "with conn.pipeline():\n    users = conn.execute(\"select * from users\")\n    \
         orders = conn.execute(\"select * from orders\")\n\
         users, orders = users.fetchall(), orders.fetchall()",
    ),
    code(
        Node,
        "pg: two connections",
        "const [users, orders] = await Promise.all([\n  pool.query('select * from users'),\n  \
         pool.query('select * from orders'),\n])",
    ),
    code(
        Rust,
        "tokio-postgres",
        "let (users, orders) = tokio::try_join!(\n    \
         client.query(\"select * from users\", &[]),\n    \
         client.query(\"select * from orders\", &[]),\n)?;",
    ),
];
const APART: [Code; 3] = [
    code(
        Python,
        "onetrip",
        "# Sent by the calls: one trip.\n\
         users = db.fetch(\"select * from users\")\n\
         orders = db.fetch(\"select * from orders\")\n\
         users, orders = await users, await orders",
    ),
    code(
        Node,
        "onetrip",
        "const [users, orders] = await Promise.all([ // One trip.\n  \
         sql`select * from users`,\n  sql`select * from orders`,\n])",
    ),
    code(
        Rust,
        "onetrip",
        "// Submitted by the calls: one trip.\n\
         let users = client.query(\"select * from users\", &[]);\n\
         let orders = client.query(\"select * from orders\", &[]);\n\
         let (users, orders) = (users.await?, orders.await?);",
    ),
];
const COMMANDS_PLAIN: [Code; 3] = [
    code(
        Python,
        "redis-py",
        "with r.pipeline(transaction=False) as p:\n    p.incr(\"visits\")\n    \
         p.get(\"name\")\n    visits, name = p.execute()",
    ),
    code(
        Node,
        "ioredis",
        "const replies = await redis\n  .pipeline().incr('visits').get('name').exec()",
    ),
    code(
        Rust,
        "redis",
        "let (visits, name): (i64, Option<String>) =\n    \
         redis::pipe().incr(\"visits\", 1).get(\"name\")\n        .query_async(&mut con).await?;",
    ),
];
const COMMANDS: [Code; 3] = [
    code(
        Python,
        "onetrip",
        "visits, name = cache.incr(\"visits\"), cache.get(\"name\")\n\
         visits, name = await visits, await name",
    ),
    code(
        Node,
        "onetrip",
        "const [visits, name] = await Promise.all([ // One trip.\n  \
         cache.incr('visits'),\n  cache.get('name'),\n])",
    ),
    code(
        Rust,
        "onetrip",
        "let visits = client.incr(\"visits\");\n\
         let name = client.get::<Option<String>>(\"name\"); // One trip for both.\n\
         let (visits, name) = (visits.await?, name.await?);",
    ),
];
const DUPLICATE: [Code; 3] = [
    code(
        Python,
        "any driver",
        "if id not in seen:  # A dict that lives as long as the unit.\n    seen[id] = load(id)\n\
         item = seen[id]",
    ),
    code(
        Node,
        "any driver",
        "// A Map that lives as long as the unit, of promises.\n\
         if (!seen.has(id)) seen.set(id, load(id))\nconst item = await seen.get(id)",
    ),
    code(
        Rust,
        "any driver",
        "// A HashMap that lives as long as the unit.\n\
         if !seen.contains_key(&id) {\n    seen.insert(id, load(id).await?);\n}\n\
         let item = &seen[&id];",
    ),
];
const PARSE_PLAIN: [Code; 3] = [
    code(Python, "psycopg 3", "conn.execute(text, [id], prepare=True)"),
    code(Node, "pg", "await pool.query({ name: 'item-by-id', text, values: [id] })"),
    code(
        Rust,
        "tokio-postgres",
        "// Once for each connection.\n\
         let statement = client.prepare(text).await?;\n\
         let rows = client.query(&statement, &[&id]).await?;",
    ),
];
const PARSE: [Code; 3] = [
    code(Python, "onetrip", "# Prepared at its fifth use.\nrows = await db.fetch(text, id)"),
    code(
        Node,
        "onetrip",
        "// Prepared at its fifth use.\n\
         const rows = await sql`select name from item where id = ${id}`",
    ),
    code(
        Rust,
        "onetrip",
        "// Prepared at its fifth use.\n\
         let rows = client.query(text, &[&id]).await?;",
    ),
];
const POOL_PLAIN: [Code; 2] = [
    code(
        Python,
        "psycopg_pool",
        "pool = ConnectionPool(url)  # Once for the process.\n\
         with pool.connection() as conn:\n    conn.execute(text)",
    ),
    code(
        Node,
        "pg",
        "const pool = new Pool({ connectionString }) // Once for the process.\n\
         const { rows } = await pool.query(text)",
    ),
];
const POOL: [Code; 3] = [
    code(
        Python,
        "onetrip",
        "db = await onetrip.connect(url)  # Once for the process.\nrows = await db.fetch(text)",
    ),
    code(
        Node,
        "onetrip",
        "const sql = postgres(url) // Once for the process.\n\
         const items = await sql`select * from item`",
    ),
    code(
        Rust,
        "onetrip",
        "let client = Client::connect(url).await?; // Once.\n\
         let rows = client.query(text, &[]).await?;",
    ),
];
const IDLE_PLAIN: [Code; 2] = [
    code(
        Sql,
        "SQL: the server ends what waits longer",
        "set idle_in_transaction_session_timeout = '5s';",
    ),
    code(
        Python,
        "psycopg 3",
        "price = ask_the_other_service()  # Before BEGIN.\n\
         with conn.transaction():\n    \
         conn.execute(\n        \"update item set price = %s where id = %s\", [price, id]\n    )",
    ),
];
const IDLE: [Code; 3] = [
    code(
        Python,
        "onetrip",
        "price = await ask_the_other_service()  # Before BEGIN.\n\
         async with db.pipeline() as tx:  # Open for one trip.\n    \
         tx.execute(\n        \"update item set price = $1 where id = $2\", price, id\n    )",
    ),
    code(
        Node,
        "onetrip",
        "const price = await askTheOtherService() // Before BEGIN.\n\
         await sql.pipeline([\n  sql`update item set price = ${price} where id = ${id}`,\n])",
    ),
    code(
        Rust,
        "onetrip",
        "let price = ask_the_other_service().await?; // Before BEGIN.\n\
         let mut tx = client.pipeline(); // Open for one trip.\n\
         let text = \"update item set price = $1 where id = $2\";\n\
         let _done = tx.execute(text, &[&price, &id]);\n\
         tx.finish().await?;",
    ),
];
const UPSERT: [Code; 1] = [code(
    Sql,
    "SQL, with any driver",
    "insert into visit (page, n) values ($1, 1)\n\
     on conflict (page) do update set n = visit.n + 1\nreturning n;",
)];
const LOCK_PLAIN: [Code; 2] = [
    code(Python, "redis-py", "is_mine = r.set(\"lock\", token, nx=True, px=30_000)"),
    code(
        Node,
        "ioredis",
        "const isMine = await redis.set(\n  'lock', token, 'PX', 30_000, 'NX',\n)",
    ),
];
const LOCK: [Code; 2] = [
    code(
        Python,
        "onetrip",
        "is_mine = await cache.set(\n    \"lock\", token, nx=True, px=30_000\n)",
    ),
    code(
        Node,
        "onetrip",
        "const isMine = await cache.set(\n  'lock', token, { nx: true, px: 30_000 },\n)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [&str; 10] = [
        "idle",
        "n+1",
        "loop",
        "redis-run",
        "protocol",
        "independent",
        "duplicate",
        "parse",
        "connections",
        "read-then-write",
    ];

    /// A name behind a full stop, as `fetch` in `db.fetch(`.
    fn calls(text: &str) -> Vec<&str> {
        let is_of_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let called = |rest: &'_ str| rest.find(|it| !is_of_name(it)).map_or(0, |end| end);
        let of = ["db.", "tx.", "sql.", "cache.", "client.", "onetrip.", "Client::"];
        of.iter()
            .flat_map(|receiver| text.split(receiver).skip(1))
            .map(|rest| &rest[..called(rest)])
            .filter(|it| !it.is_empty())
            .collect()
    }

    #[test]
    fn what_is_called_of_onetrip_stands_in_the_guides() {
        let guides = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide");
        let mut pages = String::new();
        for page in std::fs::read_dir(guides).expect("the guides are there") {
            pages += &std::fs::read_to_string(page.expect("a page").path()).expect("text");
        }
        for (kind, is_redis) in KINDS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
            for code in of(kind, is_redis).1 {
                for call in calls(code.text) {
                    let is_there =
                        ["(", "::<"].iter().any(|open| pages.contains(&format!("{call}{open}")));
                    assert!(is_there, "{kind}: {call} of {}", code.text);
                }
            }
        }
    }

    #[test]
    fn code_is_narrow_enough_for_half_a_page() {
        for (kind, is_redis) in KINDS.into_iter().flat_map(|it| [(it, false), (it, true)]) {
            let (plain, onetrip) = of(kind, is_redis);
            for line in plain.iter().chain(onetrip).flat_map(|it| it.text.lines()) {
                assert!(line.chars().count() <= 72, "{line}");
            }
        }
    }

    #[test]
    fn every_kind_has_code_for_a_plain_driver() {
        for kind in KINDS {
            let has_code = |is_redis| !of(kind, is_redis).0.is_empty();
            assert!(has_code(false) || has_code(true), "{kind}");
        }
        assert!(of("no such kind", false).0.is_empty());
    }
}
