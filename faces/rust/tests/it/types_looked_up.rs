//! Types that are not built in are looked up automatically, whenever a result has them, and no
//! caller waits for ever.

use std::time::Duration;

use crate::pooled::shared;
use onetrip::types::{Interval, Kind, Range, Type};
use onetrip::{Client, Error, FromReply, Outcome, Reply, Rows};
use onetrip_lab::proxy::Link;
use postgres_types::{FromSql as DeriveFromSql, ToSql as DeriveToSql};

use crate::support::*;

#[derive(Clone, Copy, Debug, PartialEq, DeriveToSql, DeriveFromSql)]
#[postgres(name = "mood", rename_all = "snake_case")]
enum Mood {
    Sad,
    VeryGlad,
}

#[derive(Clone, Debug, PartialEq, DeriveToSql, DeriveFromSql)]
#[postgres(name = "good_mood")]
struct GoodMood(Mood);

#[derive(Clone, Debug, PartialEq, DeriveToSql, DeriveFromSql)]
#[postgres(name = "place")]
struct Place {
    street: String,
    mood: Option<GoodMood>,
}

#[derive(Clone, Debug, PartialEq, DeriveToSql, DeriveFromSql)]
#[postgres(name = "person")]
struct Person {
    home: Place,
    others: Vec<Place>,
}

/// A schema of its own with types in it.
async fn schema() -> String {
    let name = shared().new_name();
    let create = format!(
        "create schema {name}; set search_path = {name};
         create type mood as enum ('sad', 'very_glad');
         create domain good_mood as mood check (value <> 'sad');
         create type place as (street text, mood good_mood);
         create type person as (home place, others place[]);
         create type times as range (subtype = interval);
         create table diary (id int, mood mood, at place, fine good_mood)"
    );
    session().await.script(&create).await.unwrap();
    name
}

fn select_mood(schema: &str) -> String {
    format!("select 'very_glad'::{schema}.mood")
}

#[track_caller]
fn assert_glad(rows: &Rows) {
    assert_eq!(rows.columns()[0].type_().name(), "mood");
    assert_eq!(rows.iter().next().unwrap().get::<Mood>(0), Mood::VeryGlad);
}

#[test]
fn results_have_the_full_types_of_their_columns() {
    run(async {
        let (client, s) = (client().await, schema().await);
        let sql = format!(
            "select 'sad'::{s}.mood, row(row('Am Hang', null), array[row('', 'very_glad')::{s}.place])\
             ::{s}.person, array[row('x', null)::{s}.place], {s}.times('1 s', '2 s')"
        );
        // Looked up the first time, then known, by text and prepared.
        for _ in 0..8 {
            let row = client.query_one(&sql, &[]).await.unwrap();
            assert_eq!(row.get::<Mood>(0), Mood::Sad);
            let home = Place { street: "Am Hang".into(), mood: None };
            let other = Place { street: "".into(), mood: Some(GoodMood(Mood::VeryGlad)) };
            assert_eq!(row.get::<Person>(1), Person { home, others: vec![other] });
            assert_eq!(row.get::<Vec<Place>>(2)[0].street, "x");
            assert_eq!(*row.columns()[3].type_().kind(), Kind::Range(Type::INTERVAL));
            assert!(row.get::<Range<Interval>>(3) != Range::Empty);
        }
        let statement = client.prepare(&sql).await.unwrap();
        assert_eq!(statement.columns()[0].type_().name(), "mood");
        assert_eq!(client.types().get(statement.columns()[0].type_().oid()).unwrap().schema(), s);
    });
}

#[test]
fn a_look_up_costs_one_trip_once() {
    run(async {
        let (proxy, s) = (proxy(), schema().await);
        // So that all are sent before the first is answered.
        let (up, down) = Link::pair(Duration::from_millis(100));
        proxy.set_links(up, down).unwrap();
        let client = client_through(&proxy, "connections_max=1").await;
        // Many replies at once share one query.
        for trips in [2, 1, 1] {
            proxy.reset_stats();
            let replies: Vec<_> = (0..100).map(|_| client.query(&select_mood(&s), &[])).collect();
            for reply in replies {
                assert_glad(&reply.await.unwrap());
            }
            assert!(proxy.stats().trips <= trips, "{} trips", proxy.stats().trips);
        }
        // Types whose columns nobody reads are not looked up.
        let other = client_through(&proxy, "connections_max=1").await;
        proxy.reset_stats();
        other.execute(&select_mood(&s), &[]).await.unwrap();
        assert_eq!((proxy.stats().trips, other.types().len()), (1, 0));
    });
}

#[test]
fn many_first_uses_on_several_connections_end() {
    run_threads(async {
        let (client, s) = (client_with("connections_max=4").await, schema().await);
        let sql = select_mood(&s);
        let calls: Vec<_> = (0..100)
            .map(|_| {
                let (client, sql) = (client.clone(), sql.clone());
                tokio::spawn(async move { assert_glad(&client.query(&sql, &[]).await.unwrap()) })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
    });
}

/// P24. Nor does it wait for a second connection, which a pool of one does not have.
#[test]
fn a_look_up_needs_no_second_connection() {
    run(async {
        let (client, s) = (client_with("connections_max=1").await, schema().await);
        let mut session = client.session().await.unwrap();
        assert_glad(&session.query(&select_mood(&s), &[]).await.unwrap());
        client.types().clear();
        let tx = session.begin().await.unwrap();
        assert_glad(&tx.query(&select_mood(&s), &[]).await.unwrap());
        tx.commit().await.unwrap();
        drop(session);
        assert_usable(&client).await;
    });
}

/// In this state no query is possible, so the type stays known by its number, and is looked up
/// later.
#[test]
fn in_a_failed_transaction_types_stay_known_by_number() {
    run(async {
        let (client, s) = (client_with("connections_max=1").await, schema().await);
        let mut session = client.session().await.unwrap();
        let tx = session.begin().await.unwrap();
        let (mood, fails) = (tx.query(&select_mood(&s), &[]), tx.query("select 1/0", &[]));
        rejected(fails.await, "22012");
        let rows = mood.await.unwrap();
        let error = rows.iter().next().unwrap().try_get::<Mood>(0).unwrap_err();
        assert_eq!(error.outcome(), Outcome::Applied);
        assert_eq!(rows.iter().next().unwrap().columns()[0].type_().kind(), &Kind::Simple);
        tx.rollback().await.unwrap();
        assert_glad(&session.query(&select_mood(&s), &[]).await.unwrap());
    });
}

/// Cancels queries for types, one by one, until the reply has come.
async fn cancelled<T: FromReply>(apart: &Apart, mut reply: Reply<T>) -> Result<T, Error> {
    let cancel = "select pg_cancel_backend(pid) from pg_locks where relation = \
                  'pg_catalog.pg_range'::regclass and not granted";
    loop {
        tokio::select! {
            biased;
            ended = &mut reply => return ended,
            rows = apart.watcher.query(cancel, &[]) => drop(rows.unwrap()),
        }
    }
}

/// The types in a reply are asked for in vain: it fails as the question did, where that has ended
/// its transaction, and so nothing says 25P02 instead.
#[test]
fn the_cancel_of_a_look_up_in_a_transaction_is_the_error_of_its_statement() {
    run(async {
        let apart = Apart::new().await;
        apart.watcher.script("create type mood as enum ('sad', 'very_glad')").await.unwrap();
        let client = apart.client_with("connections_max=1").await;
        let mut session = client.session().await.unwrap();
        apart.watcher.script("begin; lock table pg_catalog.pg_range").await.unwrap();
        let sql = select_mood("public");
        let tx = session.begin().await.unwrap();
        rejected(cancelled(&apart, tx.query(&sql, &[])).await, "57014");
        tx.rollback().await.unwrap();
        // Outside of one it is asked several times, and the statement has taken effect.
        let error = error(cancelled(&apart, session.query(&sql, &[])).await);
        assert_eq!((error.sqlstate(), error.outcome()), (Some("57014"), Outcome::Applied));
        apart.watcher.script("rollback").await.unwrap();
        assert_glad(&session.query(&sql, &[]).await.unwrap());
    });
}

#[test]
fn another_connection_is_asked_where_one_is_free() {
    run(async {
        let (client, s) = (client_with("connections_max=2").await, schema().await);
        let mut session = client.session().await.unwrap();
        assert_usable(&client).await;
        let tx = session.begin().await.unwrap();
        let (mood, fails) = (tx.query(&select_mood(&s), &[]), tx.query("select 1/0", &[]));
        rejected(fails.await, "22012");
        assert_glad(&mood.await.unwrap());
    });
}

async fn one(max: &str) -> (Client, String) {
    (client_with(max).await, schema().await)
}

/// P24. The query is not queued behind what its caller has yet to do.
#[test]
fn a_pipeline_looks_types_up_between_its_statements() {
    run(async {
        let (client, s) = one("connections_max=1").await;
        let sql = select_mood(&s);
        // In an open segment, between two, and behind the end.
        let mut pipeline = client.pipeline();
        let first = pipeline.query(&sql, &[]);
        let rows = first.await.unwrap();
        assert!(rows.is_provisional());
        assert_glad(&rows);
        let one = pipeline.query("select 1", &[]);
        pipeline.finish().await.unwrap();
        one.await.unwrap();
        client.types().clear();
        let mut pipeline = client.pipeline();
        let second = pipeline.query(&sql, &[]);
        pipeline.sync().await.unwrap();
        assert_glad(&second.await.unwrap());
        let third = pipeline.query("select 1", &[]);
        pipeline.finish().await.unwrap();
        third.await.unwrap();
        client.types().clear();
        let mut pipeline = client.pipeline();
        let last = pipeline.query(&sql, &[]);
        pipeline.finish().await.unwrap();
        assert_glad(&last.await.unwrap());
        assert_usable(&client).await;
    });
}

#[test]
fn a_reply_in_front_of_an_open_pipeline_gets_its_types() {
    run(async {
        let (client, s) = one("connections_max=1").await;
        for flushed in [true, false] {
            client.types().clear();
            let mood = client.query(&select_mood(&s), &[]);
            let mut pipeline = client.pipeline();
            let one = pipeline.query("select 1", &[]);
            if flushed {
                pipeline.flush();
            }
            assert_glad(&mood.await.unwrap());
            one.await.unwrap();
            pipeline.finish().await.unwrap();
        }
        // The query is queued before the pipeline gets the exclusive right to send.
        client.types().clear();
        let mut mood = client.query(&select_mood(&s), &[]);
        let mut pipeline = client.pipeline();
        while !poll_once(&mut mood).await && client.types().is_empty() {
            drop(pipeline.query("select 1", &[]));
            pipeline.flush();
            tokio::task::yield_now().await;
        }
        pipeline.finish().await.unwrap();
        assert_usable(&client).await;
    });
}

#[test]
fn an_aborted_pipeline_leaves_types_known_by_number() {
    run(async {
        let (client, s) = one("connections_max=1").await;
        let mut pipeline = client.pipeline();
        let mood = pipeline.query(&select_mood(&s), &[]);
        let fails = pipeline.query("select 1/0", &[]);
        rejected(fails.await, "22012");
        let _ = mood.await;
        error(pipeline.finish().await);
        assert_glad(&client.query(&select_mood(&s), &[]).await.unwrap());
    });
}

#[test]
fn values_of_derived_types_are_parameters_once_their_type_is_known() {
    run(async {
        let (client, s) = one("").await;
        let insert = format!("insert into {s}.diary (id, mood, at) values ($1, $2, $3)");
        let at = Place { street: "here".into(), mood: None };
        let error = client.execute(&insert, &[&1, &Mood::Sad, &at]).await.unwrap_err();
        assert_eq!((error.code(), error.outcome()), ("unknown_parameter_type", Outcome::NotSent));
        assert!(error.to_string().contains("learn_types"), "{error}");
        // Preparing a statement learns its types.
        let prepared = client.prepare(&insert).await.unwrap();
        client.execute(&prepared, &[&1, &Mood::Sad, &at]).await.unwrap();
        client.execute(&insert, &[&2, &Mood::VeryGlad, &at]).await.unwrap();
        // A batch looks types up itself.
        let other = client_with("connections_max=1").await;
        let rows = (3..100).map(|id| (id, Mood::VeryGlad, at.clone()));
        other.batch(&insert, rows).atomic().await.unwrap();
        // So does a client that is told to.
        let third = client_with("").await;
        let names = [format!("{s}.mood"), format!("{s}.place")];
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let learned = third.learn_types(&names).await.unwrap();
        assert_eq!((learned[0].name(), learned[1].name()), ("mood", "place"));
        third.execute(&insert, &[&100, &Mood::Sad, &at]).await.unwrap();
        failed(third.learn_types(&["there_is_none"]).await, Outcome::NotSent, "unknown_type");
        let count = format!("select count(*), count(distinct mood) from {s}.diary");
        let row = third.query_one(&count, &[]).await.unwrap();
        assert_eq!((row.get::<i64>(0), row.get::<i64>(1)), (100, 2));
        // An enum goes as text without any of this.
        let fine = format!("insert into {s}.diary (fine) values ($1)");
        client_with("").await.execute(&fine, &[&"very_glad"]).await.unwrap();
    });
}

/// If a value does not fit the learned type, the type is learned again, at most once a second.
#[test]
fn a_type_that_was_altered_is_learned_anew() {
    run(async {
        let (client, s) = one("connections_max=1").await;
        let owner = session().await;
        let alter = format!("alter type {s}.place drop attribute mood, add attribute no int");
        let sql = format!("select at from {s}.diary");
        owner
            .execute(&format!("insert into {s}.diary (at) values (row('a', null))"), &[])
            .await
            .unwrap();
        assert_eq!(client.query_one(&sql, &[]).await.unwrap().get::<Place>(0).street, "a");
        owner.execute(&alter, &[]).await.unwrap();
        until(async || {
            let row = client.query_one(&sql, &[]).await.unwrap();
            row.try_get::<NewPlace>(0).is_ok_and(|place| place.0 == "a")
        })
        .await;
        // Another type of the same name has another number.
        let recreate =
            format!("drop type {s}.mood cascade; create type {s}.mood as enum ('very_glad')");
        owner.script(&recreate).await.unwrap();
        let rows = client.query(&select_mood(&s), &[]).await.unwrap();
        assert_eq!(*rows.columns()[0].type_().kind(), Kind::Enum(vec!["very_glad".into()]));
    });
}

#[derive(Debug)]
struct NewPlace(String);

impl<'a> onetrip::types::FromSql<'a> for NewPlace {
    fn from_sql(
        type_: &Type,
        raw: &'a [u8],
    ) -> Result<NewPlace, Box<dyn std::error::Error + Sync + Send>> {
        #[derive(DeriveFromSql)]
        #[postgres(name = "place")]
        struct Fields {
            street: String,
            no: Option<i32>,
        }
        if !<Fields as onetrip::types::FromSql>::accepts(type_) {
            return Err("of another shape".into());
        }
        let fields = Fields::from_sql(type_, raw)?;
        assert_eq!(fields.no, None);
        Ok(NewPlace(fields.street))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
