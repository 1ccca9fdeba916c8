//! P20. People change their schema while programs run. What was learned of the server is wrong then,
//! and no value may be stored or read by it: a client behind a migration does as one that was started
//! after it.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::{BufMut, BytesMut};
use onetrip::types::{IsNull, ToSql, Type, to_sql_checked};
use onetrip::{Client, Error, Outcome, Session};
use onetrip_postgres::client::copy::{Guard, TYPES_CHANGED, guard};

use crate::support::*;

/// Uses a text so often that it is prepared wherever it runs.
const OFTEN: usize = 8;

/// What is stored, as the server prints it.
async fn stored(owner: &Session, t: &str) -> Vec<Option<String>> {
    let rows = owner.query(&format!("select a::text from {t}"), &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Stores these texts with a text that was prepared when the column had another type, and once more
/// with a client that was not there then. Returns both.
async fn behind(
    owner: &Session,
    (from, to): (&str, &str),
    before: &str,
    after: &[&str],
) -> [Vec<Option<String>>; 2] {
    let (client, t) = (client().await, table(&format!("a {from}")).await);
    let insert = format!("insert into {t} values ($1)");
    for _ in 0..OFTEN {
        client.execute(&insert, &[&before]).await.unwrap();
    }
    let change = format!("truncate {t}; alter table {t} alter a type {to} using null");
    owner.script(&change).await.unwrap();
    let store = async |client: &Client| {
        for value in after {
            client.execute(&insert, &[value]).await.unwrap();
        }
        let found = stored(owner, &t).await;
        owner.script(&format!("truncate {t}")).await.unwrap();
        found
    };
    let ours = store(&client).await;
    [ours, store(&self::client().await).await]
}

/// P56.
#[test]
fn a_text_is_stored_as_the_type_that_its_column_has_now() {
    run(async {
        let owner = session().await;
        for (from, to, before, after) in [
            (
                "timestamp",
                "timestamptz",
                "2020-01-01 12:00:00",
                &["2020-01-01 12:00:00+05:00", "2020-01-01T12:00:00Z"][..],
            ),
            ("timestamptz", "timestamp", "2020-01-01 12:00:00+00", &["2020-01-01 12:00:00+05:00"]),
            ("date", "timestamptz", "2020-01-01", &["2020-01-01 10:30:00+00", "2020-01-02"]),
            ("date", "timestamp", "2020-01-01", &["2020-01-01 10:30:00"]),
            ("int", "text", "7", &["007", "7", "+7", " 7"]),
            ("int", "bigint", "7", &["3000000000", "7"]),
            ("int", "numeric", "7", &["7.50", "1e3"]),
            ("smallint", "int", "7", &["70000"]),
            ("float4", "numeric", "0.5", &["0.12345678901234567", "1234567"]),
            ("float4", "float8", "0.5", &["0.1", "16777217"]),
            ("float8", "numeric", "0.5", &["12345678901234567890.123"]),
            ("numeric", "text", "1", &["1.50", "1e3"]),
            ("text", "char(4)", "a", &["b ", "cd"]),
            ("bool", "text", "true", &["t", "true"]),
            (
                "uuid",
                "text",
                "6f0c3c1a-8d1f-4f0e-9d6b-111111111111",
                &["6F0C3C1A8D1F4F0E9D6B111111111111"],
            ),
            ("jsonb", "text", "{\"a\":1}", &["{\"a\":1}"]),
            ("int[]", "text", "{1,2}", &["{1, 2}"]),
            ("int", "jsonb", "7", &["7", "{\"a\": 7}"]),
            ("int", "uuid", "7", &["6f0c3c1a-8d1f-4f0e-9d6b-111111111111"]),
            ("int", "int[]", "7", &["{7}"]),
            ("interval", "text", "1 day", &["24 hours"]),
        ] {
            let [ours, fresh] = behind(&owner, (from, to), before, after).await;
            assert_eq!(ours, fresh, "{from} to {to}");
        }
    });
}

/// P56. The type of a value is that of its column when the text was prepared, and a domain checks it.
#[test]
fn what_a_domain_refused_is_stored_once_its_column_has_left_it() {
    run(async {
        let (client, owner, t) = (client().await, session().await, table("a int").await);
        let leaves = format!("truncate {t}; alter table {t} alter a type bigint");
        // A text with NULL in place of each value has a name through a pooler, too, which keeps its own
        // statement of that name.
        let checks = ["check (value < 10)", "not null"];
        let known = if crate::pooled::shared().is_pooled() { 1 } else { 2 };
        for check in &checks[..known] {
            let joins = format!(
                "drop domain if exists {t}_d; create domain {t}_d as int {check}; \
                 truncate {t}; alter table {t} alter a type {t}_d"
            );
            owner.script(&joins).await.unwrap();
            let insert = format!("insert into {t} values ($1) returning a::text");
            for _ in 0..OFTEN {
                client.execute(&insert, &[&"7"]).await.unwrap();
            }
            let what = if *check == "not null" { None } else { Some("70") };
            let refused = client.execute(&insert, &[&what]).await.unwrap_err();
            assert!(["23514", "23502"].contains(&refused.sqlstate().unwrap()), "{refused}");
            for _ in 0..OFTEN {
                client.execute(&insert, &[&"7"]).await.unwrap();
            }
            owner.script(&leaves).await.unwrap();
            client.execute(&insert, &[&what]).await.unwrap();
            assert_eq!(stored(&owner, &t).await, [what.map(str::to_owned)], "{check}");
        }
    });
}

/// P56. A `SystemTime` goes to both types of moments, of which the server was asked before.
#[test]
fn a_moment_is_stored_as_the_type_that_its_column_has_now() {
    run(async {
        let owner = session().await;
        let moment = SystemTime::UNIX_EPOCH + Duration::from_micros(1_577_880_000_500_000);
        let types = [("timestamp", "timestamptz"), ("timestamptz", "timestamp")];
        for ((from, to), zone) in
            types.into_iter().flat_map(|it| [(it, "Asia/Karachi"), (it, "UTC")])
        {
            for uses in [1, OFTEN] {
                let client = client_with(&format!("options=-c%20TimeZone%3D{zone}")).await;
                let t = table(&format!("a {from}, b {from}[]")).await;
                let insert = format!("insert into {t} values ($1, $2)");
                let list = vec![moment];
                for _ in 0..uses {
                    client.execute(&insert, &[&moment, &list]).await.unwrap();
                    client.batch(&insert, [(moment, list.clone())]).atomic().await.unwrap();
                    client
                        .batch(&insert, [(moment, list.clone())])
                        .isolated()
                        .await
                        .into_result()
                        .unwrap();
                }
                let change = format!(
                    "set timezone = 'UTC'; truncate {t}; alter table {t} alter a type {to}, \
                     alter b type {to}[]"
                );
                owner.script(&change).await.unwrap();
                client.execute(&insert, &[&moment, &list]).await.unwrap();
                client.execute(&insert, &[&Some(moment), &Some(&list)]).await.unwrap();
                client.batch(&insert, [(moment, list.clone())]).atomic().await.unwrap();
                client
                    .batch(&insert, [(moment, list.clone())])
                    .isolated()
                    .await
                    .into_result()
                    .unwrap();
                let tx = client.begin().await.unwrap();
                tx.execute(&insert, &[&moment, &list]).await.unwrap();
                tx.commit().await.unwrap();
                let read = format!(
                    "select count(*) from {t} where a::text like \
                     '2020-01-01 12:00:00.5%' and b[1]::text like '2020-01-01 12:00:00.5%'"
                );
                let row = owner.query_one(&read, &[]).await.unwrap();
                assert_eq!(row.get::<i64>(0), 5, "{from} to {to} in {zone}, {uses} uses");
            }
        }
    });
}

#[test]
fn a_text_is_compared_as_the_type_that_its_column_has_now() {
    run(async {
        let (client, t) = (client().await, table("a int").await);
        let find = format!("select count(*) from {t} where a = $1");
        for _ in 0..OFTEN {
            client.query_one(&find, &[&"7"]).await.unwrap();
        }
        let change = format!("alter table {t} alter a type text; insert into {t} values ('007')");
        session().await.script(&change).await.unwrap();
        for (value, count) in [("7", 0), ("007", 1)] {
            let row = client.query_one(&find, &[&value]).await.unwrap();
            assert_eq!(row.get::<i64>(0), count, "{value}");
        }
    });
}

/// A migration is found out once, and not once by each connection and each text.
#[test]
fn a_change_costs_one_transaction_at_most() {
    run(async {
        let client = client_with("connections_max=4").await;
        let t = table("a int").await;
        let reads: Vec<String> =
            (0..3).map(|number| format!("select *, {number} as n from {t}")).collect();
        let mut sessions: Vec<Session> = Vec::new();
        for _ in 0..3 {
            let session = client.session().await.unwrap();
            for read in &reads {
                for _ in 0..OFTEN {
                    session.query(read, &[]).await.unwrap();
                }
            }
            sessions.push(session);
        }
        self::session().await.script(&format!("alter table {t} add b int")).await.unwrap();
        let mut failed = 0;
        for session in &mut sessions {
            for read in &reads {
                let tx = session.begin().await.unwrap();
                tx.query("select 1", &[]).await.unwrap();
                match tx.query(read, &[]).await {
                    Ok(_) => tx.commit().await.unwrap(),
                    Err(error) => {
                        assert_eq!(error.sqlstate(), Some("0A000"), "{error}");
                        failed += 1;
                        tx.rollback().await.unwrap();
                    }
                }
            }
        }
        assert!(failed <= 1, "{failed} transactions failed");
    });
}

/// The first error shows that a text has lost its meaning, and the next text is prepared anew.
#[test]
fn what_has_lost_its_meaning_in_a_transaction_costs_one_error() {
    run(async {
        let client = client_with("connections_max=1").await;
        let t = table("a text[]").await;
        let find = format!("select 1 from {t} where a = $1");
        let read = format!("select * from {t}");
        let within = async |text: &str, values: &[&(dyn ToSql + Sync)]| {
            let tx = client.begin().await?;
            tx.query("select 1", &[]).await?;
            tx.query(text, values).await?;
            tx.commit().await
        };
        let value = vec!["a"];
        // Its types are known by then, and it has no name.
        within(&find, &[&value]).await.unwrap();
        for _ in 0..OFTEN {
            within(&read, &[]).await.unwrap();
        }
        let change = format!(
            "create type {t}_e as enum ('a'); alter table {t} alter a type {t}_e[] using null"
        );
        self::session().await.script(&change).await.unwrap();
        let error = within(&find, &[&value]).await.unwrap_err();
        assert_eq!(error.sqlstate(), Some("42883"), "{error}");
        within(&read, &[]).await.unwrap();
    });
}

#[test]
fn a_transaction_is_run_again_whose_text_has_lost_its_meaning() {
    run(async {
        let (client, t) = (client().await, table("a bigint").await);
        let uuid = [7; 16];
        let find = format!("select count(*) from {t} where a = $1");
        let runs = AtomicUsize::new(0);
        let count = async || {
            let found = client.run(async |tx| {
                let is_late = runs.fetch_add(1, Ordering::Relaxed) > OFTEN;
                let key = if is_late { Key::Uuid(uuid) } else { Key::Number(7) };
                Ok::<i64, Error>(tx.query_one(&find, &[&key]).await?.get(0))
            });
            found.await.unwrap().value
        };
        for _ in 0..OFTEN {
            assert_eq!(count().await, 0);
        }
        let change = format!(
            "alter table {t} alter a type uuid using null; \
             insert into {t} values ('07070707-0707-0707-0707-070707070707')"
        );
        session().await.script(&change).await.unwrap();
        assert_eq!(count().await, 1);
        assert_eq!(runs.into_inner(), OFTEN + 2);
    });
}

/// P56. Each tenant has a schema of its own, and the same texts.
#[test]
fn a_text_means_what_its_names_mean_in_the_path_of_its_session() {
    run(async {
        let [one, two] = [shared_name(), shared_name()];
        let session = session().await;
        let schemas = format!(
            "create schema {one}; create type {one}.mood as enum ('happy');
             create table {one}.visit (at date, mood {one}.mood);
             create schema {two}; create type {two}.mood as enum ('sad');
             create table {two}.visit (at timestamp, mood {two}.mood)"
        );
        session.script(&schemas).await.unwrap();
        let insert = "insert into visit values ($1, $2)";
        let mut expected = Vec::new();
        for round in 0..OFTEN {
            for (schema, mood) in [(&one, "happy"), (&two, "sad")] {
                session.execute(&format!("set search_path = {schema}"), &[]).await.unwrap();
                session.execute(insert, &[&"2020-01-01 10:30:00", &mood]).await.unwrap();
                session.execute(insert, &[&"2020-01-01 10:30:00", &mood]).await.unwrap();
            }
            expected.push(round);
        }
        let read = |schema: &str| {
            format!("select distinct at::text, count(*) from {schema}.visit group by 1")
        };
        let rows = async |schema: &str| {
            let rows = session.query(&read(schema), &[]).await.unwrap();
            rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(String, i64)>>()
        };
        let count = 2 * OFTEN as i64;
        assert_eq!(rows(&one).await, [("2020-01-01".to_owned(), count)]);
        assert_eq!(rows(&two).await, [("2020-01-01 10:30:00".to_owned(), count)]);
    });
}

fn shared_name() -> String {
    crate::pooled::shared().new_name()
}

#[test]
fn two_sessions_with_their_own_paths_have_their_own_meanings() {
    run(async {
        let client = client_with("connections_max=3").await;
        let [one, two] = [shared_name(), shared_name()];
        let schemas = format!(
            "create schema {one}; create table {one}.visit (at date);
             create schema {two}; create table {two}.visit (at timestamp)"
        );
        session().await.script(&schemas).await.unwrap();
        let insert = "insert into visit values ($1) returning at::text";
        let mut sessions = Vec::new();
        for schema in [&one, &two] {
            let session = client.session().await.unwrap();
            session.execute(&format!("set search_path = {schema}"), &[]).await.unwrap();
            sessions.push(session);
        }
        for _ in 0..OFTEN {
            for (session, wanted) in sessions.iter().zip(["2020-01-01", "2020-01-01 10:30:00"]) {
                let row = session.query_one(insert, &[&"2020-01-01 10:30:00"]).await.unwrap();
                assert_eq!(row.get::<&str>(0), wanted);
            }
        }
    });
}

/// What a session has set is not there for the next, and the names of before mean what they meant.
#[test]
fn behind_a_session_with_another_path_the_usual_names_are_used_again() {
    run(async {
        let client = client_with("connections_max=1").await;
        let (t, schema) = (table("a text").await, shared_name());
        let there = format!("create schema {schema}; create table {schema}.{t} (a date)");
        session().await.script(&there).await.unwrap();
        let insert = format!("insert into {t} values ($1) returning a::text");
        let store = async |session: Option<&Session>| {
            let params: [&(dyn onetrip::types::ToSql + Sync); 1] = [&"2020-01-01 x"];
            match session {
                Some(session) => session.query_one(&insert, &params).await,
                None => client.query_one(&insert, &params).await,
            }
        };
        for _ in 0..3 {
            for _ in 0..OFTEN {
                assert_eq!(store(None).await.unwrap().get::<&str>(0), "2020-01-01 x");
            }
            let session = client.session().await.unwrap();
            session.execute(&format!("set search_path = {schema}"), &[]).await.unwrap();
            rejected(store(Some(&session)).await, "22007");
        }
    });
}

#[test]
fn rows_of_a_batch_are_stored_as_the_type_that_their_column_has_now() {
    run(async {
        let (client, t) = (client().await, table("a timestamp").await);
        let insert = format!("insert into {t} values ($1)");
        for _ in 0..OFTEN {
            client.execute(&insert, &[&"2020-01-01 12:00:00"]).await.unwrap();
        }
        let change = format!("truncate {t}; alter table {t} alter a type timestamptz");
        session().await.script(&change).await.unwrap();
        let rows = [("2020-01-01 12:00:00+05:00",); 20];
        client.batch(&insert, rows).isolated().await.into_result().unwrap();
        client.batch(&insert, rows).atomic().await.unwrap();
        let found = stored(&session().await, &t).await;
        assert_eq!(found.len(), 40);
        let moments = session()
            .await
            .query_one(
                &format!("select min(a) = max(a) and min(a) = '2020-01-01 07:00:00+00' from {t}"),
                &[],
            )
            .await
            .unwrap();
        assert!(moments.get::<bool>(0), "{found:?}");
    });
}

/// P56. No message of a COPY has its types, so a statement behind it looks at the table.
#[test]
fn the_guard_of_a_binary_copy_fails_unless_its_columns_have_the_types_it_was_made_for() {
    run(async {
        let (session, t) = (session().await, table("a bigint, b text, \"c'\" date").await);
        let (int8, text, date) = (20, 25, 1082);
        let columns = [("a", int8), ("b", text), ("c'", date)];
        let domain = format!("create domain {t}_d as text check (value <> '')");
        session.script(&domain).await.unwrap();
        for how in [Guard::ByRow, Guard::ByCatalog] {
            let guarded = async || {
                let guard = guard(how, &t, &columns);
                session.query_one(&guard, &[]).await.map(|row| row.get::<i32>(0))
            };
            let alter = async |change: &str| {
                session.script(&format!("alter table {t} {change}")).await.unwrap();
            };
            assert_eq!(guarded().await.unwrap(), 0, "{how:?}");
            alter(&format!("alter b type {t}_d")).await;
            assert_eq!(guarded().await.unwrap(), 0, "{how:?}: a domain is what it is based on");
            alter("alter b type text").await;
            alter("alter a type float8").await;
            let error = guarded().await.unwrap_err();
            assert_eq!(error.sqlstate(), Some("22P02"), "{how:?}: {error}");
            let said = format!("{TYPES_CHANGED}a is of type double precision");
            assert!(error.to_string().contains(&said), "{how:?}: {error}");
            alter("alter a type bigint").await;
            alter("rename b to d").await;
            assert!(guarded().await.is_err(), "{how:?}: a column is gone");
            alter("rename d to b").await;
        }
    });
}

/// P56. A pooler may have prepared the text for somebody else, before the change.
#[test]
fn a_client_that_begins_behind_a_change_stores_what_the_column_takes_however_often() {
    run(async {
        let t = table("a timestamp").await;
        let insert = format!("insert into {t} values ($1)");
        let before = client().await;
        for _ in 0..OFTEN {
            before.execute(&insert, &[&"2020-01-01 12:00:00"]).await.unwrap();
        }
        let owner = session().await;
        let change = format!("truncate {t}; alter table {t} alter a type timestamptz");
        owner.script(&change).await.unwrap();
        let behind = client().await;
        for _ in 0..2 * OFTEN {
            behind.execute(&insert, &[&"2020-01-01 12:00:00+05:00"]).await.unwrap();
        }
        let count = format!("select count(*) from {t} where a = '2020-01-01 07:00:00+00'");
        let right: i64 = owner.query_one(&count, &[]).await.unwrap().get(0);
        assert_eq!(right, 2 * OFTEN as i64);
    });
}

/// A value of a type that converts to several of the server's, and not each value to each.
#[derive(Clone, Copy, Debug)]
enum Key {
    Number(i64),
    Uuid([u8; 16]),
}

impl ToSql for Key {
    fn to_sql(
        &self,
        type_: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match (*self, type_) {
            (Key::Number(number), &Type::INT4) => out.put_i32(i32::try_from(number)?),
            (Key::Number(number), &Type::INT8) => out.put_i64(number),
            (Key::Uuid(bytes), &Type::UUID) => out.put_slice(&bytes),
            _ => return Err(format!("{self:?} is no {type_}").into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(type_: &Type) -> bool {
        [Type::INT4, Type::INT8, Type::UUID].contains(type_)
    }

    to_sql_checked!();
}

/// How a program stores one key.
const WAYS: [&str; 6] = ["alone", "transaction", "pipeline", "stream", "atomic", "isolated"];

async fn store(client: &Client, way: &str, text: &str, key: Key) -> Result<(), Error> {
    match way {
        "alone" => client.execute(text, &[&key]).await.map(drop),
        "transaction" => {
            let tx = client.begin().await?;
            tx.query("select 1", &[]).await?;
            tx.execute(text, &[&key]).await?;
            tx.commit().await
        }
        "pipeline" => {
            let mut pipeline = client.pipeline();
            let stored = pipeline.execute(text, &[&key]);
            pipeline.finish().await?;
            stored.await.map(drop)
        }
        "stream" => {
            let text = format!("{text} returning 1");
            let mut rows = client.query_stream(&text, &[&key]).await?;
            while rows.try_next().await?.is_some() {}
            Ok(())
        }
        "atomic" => client.batch(text, [(key,)]).atomic().await.map(drop).map_err(Error::from),
        _ => Ok(client.batch(text, [(key,)]).isolated().await.into_result().map(drop)?),
    }
}

/// P56.
#[test]
fn before_a_value_is_refused_by_a_remembered_type_the_server_is_asked_again() {
    run(async {
        let owner = session().await;
        let changes = [
            ("bigint", Key::Number(3_000_000_000), "3000000000"),
            ("uuid", Key::Uuid([7; 16]), "07070707-0707-0707-0707-070707070707"),
        ];
        for (way, (to, key, text)) in WAYS.iter().flat_map(|way| changes.map(|it| (way, it))) {
            let (client, t) = (client().await, table("a int").await);
            let insert = format!("insert into {t} values ($1)");
            for _ in 0..OFTEN {
                store(&client, way, &insert, Key::Number(7)).await.unwrap();
            }
            // The server takes none of the new type yet.
            let error = store(&client, way, &insert, key).await.unwrap_err();
            // Of a transaction BEGIN was sent with the question, and was rolled back.
            let whole = if *way == "transaction" { Outcome::Rejected } else { Outcome::NotSent };
            assert_eq!(error.outcome(), whole, "{way}, {to}: {error}");
            assert_eq!(error.code(), "unencodable_parameter", "{way}, {to}: {error}");
            let change = format!("truncate {t}; alter table {t} alter a type {to} using null");
            owner.script(&change).await.unwrap();
            store(&client, way, &insert, key).await.unwrap_or_else(|it| panic!("{way} {to}: {it}"));
            store(&client, way, &insert, key).await.unwrap();
            let found = stored(&owner, &t).await;
            assert_eq!(found, vec![Some(text.to_owned()); 2], "{way}, {to}");
        }
    });
}
