//! What a caller leaves in its own session never reaches the next user: not openly, not from inside
//! a function, and not if the reset itself fails.

use onetrip::{Client, Outcome, Session};

use crate::pooled::shared;
use crate::support::*;

/// Functions, and objects that call one indirectly, in a schema of their own.
struct Hidden {
    schema: String,
}

impl Hidden {
    /// Makes the objects; `leave` leaves something in the session: a setting, a lock, a temporary
    /// table.
    async fn new(leave: &str) -> Hidden {
        let schema = shared().new_name();
        let set_up = format!(
            "create schema {schema};
             set search_path = {schema}, public;
             create function leave() returns int language plpgsql as
                $f$ begin {leave}; return 1; end $f$;
             create procedure leave_too() language plpgsql as $f$ begin perform {schema}.leave(); end $f$;
             create view v as select {schema}.leave() as id;
             create table t (id int default 1);
             create function on_insert() returns trigger language plpgsql as
                $f$ begin perform {schema}.leave(); return new; end $f$;
             create trigger tr before insert on t for each row execute function on_insert();
             create table d (id int default {schema}.leave());
             create function op(int, int) returns int language sql as $f$ select {schema}.leave() $f$;
             create operator #-# (leftarg = int, rightarg = int, function = {schema}.op);
             create type mood as enum ('a');
             create function to_int(mood) returns int language sql as $f$ select {schema}.leave() $f$;
             create cast (mood as int) with function {schema}.to_int(mood);
             create table r (id int);
             create rule ru as on insert to r do instead select {schema}.leave();
             create domain dom as int check ({schema}.leave() = 1)"
        );
        session().await.script(&set_up).await.unwrap();
        Hidden { schema }
    }

    /// Statements whose text shows nothing of this.
    fn statements(&self) -> Vec<String> {
        [
            "select {s}.leave()",
            "call {s}.leave_too()",
            "do $$ begin perform {s}.leave(); end $$",
            "select * from {s}.v",
            "insert into {s}.t values (1)",
            "insert into {s}.d default values",
            "select 1 operator({s}.#-#) 2",
            "select 'a'::{s}.mood::int",
            "insert into {s}.r values (1)",
            "select 1::{s}.dom",
        ]
        .map(|sql| sql.replace("{s}", &self.schema))
        .into()
    }
}

/// Whether a connection is in its initial state, asked by a statement that shares it.
async fn is_clean(client: &Client) -> bool {
    let sql = "select current_setting('search_path') = '\"$user\", public'
            and current_setting('statement_timeout') = '0'
            and current_user = session_user
            and not exists (select from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())
            and not exists (select from pg_listening_channels())
            and not exists (select from pg_cursors where is_holdable)
            and not exists (select from pg_prepared_statements where from_sql)
            and not exists (select from pg_class where relpersistence = 't' and relkind = 'r'
                and relnamespace = pg_my_temp_schema())";
    client.query_one(&onetrip::unprepared(sql), &[]).await.unwrap().get(0)
}

async fn assert_clean(client: &Client, after: &str) {
    assert!(is_clean(client).await, "something was left by {after}");
}

/// P45.
#[test]
fn what_a_function_left_in_a_session_is_gone_for_the_next_user() {
    run_long(PATIENCE * 3, async {
        let client = client_with("connections_max=1").await;
        for leave in [
            "perform set_config('search_path', 'nowhere', false)",
            "perform pg_advisory_lock(4501)",
            "create temp table if not exists left_behind (id int)",
            "execute 'listen something'",
            "if not exists (select from pg_prepared_statements where name = 'mine') then
                execute 'prepare mine as select 1'; end if",
        ] {
            let hidden = Hidden::new(leave).await;
            for sql in hidden.statements() {
                let session = client.session().await.unwrap();
                session.query(&onetrip::unprepared(&sql), &[]).await.unwrap();
                drop(session);
                assert_clean(&client, &format!("{sql}, where {leave}")).await;
            }
        }
    });
}

/// P45. Settings that change the meaning of the reset's statements, or whether they may run.
#[test]
fn no_setting_of_its_own_keeps_a_session_from_being_reset() {
    run_long(PATIENCE * 2, async {
        let client = client_with("connections_max=1").await;
        let evil = shared().new_name();
        let set_up = format!(
            "create schema {evil};
             create function {evil}.stop(text, text) returns text language plpgsql as
                $f$ begin raise exception 'stopped'; end $f$;
             create operator {evil}.|| (leftarg = text, rightarg = text, function = {evil}.stop);
             create function {evil}.pg_advisory_unlock_all() returns void language plpgsql as
                $f$ begin raise exception 'stopped'; end $f$;
             create domain {evil}.text as pg_catalog.int4"
        );
        session().await.script(&set_up).await.unwrap();
        for setting in [
            "set default_transaction_read_only = on",
            "set default_transaction_isolation = serializable; set default_transaction_deferrable = on",
            "set role pg_monitor",
            "set session authorization pg_monitor",
            "set session_replication_role = replica",
            "set standard_conforming_strings = off; set backslash_quote = off",
            "set client_min_messages = error",
            "set exit_on_error = on",
            "set plan_cache_mode = force_generic_plan",
            "set row_security = off",
            "set lock_timeout = 1",
            "set plpgsql.extra_errors = 'all'",
            &format!("set search_path = {evil}, pg_catalog"),
            "begin; create temp table t on commit drop as select 1",
            "begin; select 1 / 0",
        ] {
            let session = client.session().await.unwrap();
            let mine = pid(&session).await;
            let _ = session.script(setting).await;
            let _ = session.execute("prepare mine as select 1", &[]).await;
            drop(session);
            assert_clean(&client, setting).await;
            assert_eq!(pid_of(&client).await, mine, "{setting} ended the connection");
        }
    });
}

/// P72. A function hides it, so that no text shows it.
#[test]
fn a_session_with_another_encoding_ends_and_says_why() {
    run(async {
        let client = client_with("connections_max=1").await;
        for sql in [
            "set client_encoding = latin1",
            "select set_config('client_encoding', 'latin1', false)",
        ] {
            let session = client.session().await.unwrap();
            session.query(sql, &[]).await.unwrap();
            let error = error(session.query("select $1::text", &[&"ä"]).await);
            assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
            assert!(error.to_string().contains("client_encoding"), "{error}");
            drop(session);
            assert_clean(&client, sql).await;
        }
        let session = client.session().await.unwrap();
        session.query("set client_encoding = 'utf8'", &[]).await.unwrap();
        let row = session.query_one("select $1::text, chr(228)", &[&"ä"]).await.unwrap();
        assert_eq!(row.get::<&str>(0), row.get::<&str>(1));
    });
}

/// P45. For each use that a connection is lent for.
#[test]
fn what_a_function_left_is_gone_whatever_the_connection_was_lent_for() {
    run_long(PATIENCE * 2, async {
        let client = client_with("connections_max=1").await;
        let Hidden { schema } =
            Hidden::new("perform set_config('search_path', 'nowhere', false)").await;
        let (leave, t) = (format!("select {schema}.leave()"), format!("{schema}.t"));

        let tx = client.begin().await.unwrap();
        tx.query(&leave, &[]).await.unwrap();
        tx.commit().await.unwrap();
        assert_clean(&client, "a transaction").await;

        let session = client.session().await.unwrap();
        let mut pipeline = session.pipeline();
        let reply = pipeline.query(&leave, &[]);
        pipeline.finish().await.unwrap();
        reply.await.unwrap();
        drop(session);
        assert_clean(&client, "a pipeline").await;

        let session = client.session().await.unwrap();
        let insert = format!("insert into {t} values ($1)");
        session.batch(&insert, [(1,), (2,)]).atomic().await.unwrap();
        drop(session);
        assert_clean(&client, "a batch").await;

        let mut copy = client.copy_in(&format!("copy {t} from stdin")).await.unwrap();
        copy.send("1\n").await.unwrap();
        copy.finish().await.unwrap();
        assert_clean(&client, "a COPY").await;

        let mut rows = client.query_stream(&leave, &[]).await.unwrap();
        while rows.try_next().await.unwrap().is_some() {}
        drop(rows);
        assert_clean(&client, "a stream").await;

        let session = client.session().await.unwrap();
        session.script(&leave).await.unwrap();
        drop(session);
        assert_clean(&client, "a script").await;
    });
}

/// P45. The first statement of a session may change it like any other, even if its connection still
/// owed a reset from the previous user.
#[test]
fn the_first_change_of_a_session_counts_where_its_connection_still_owed_a_reset() {
    run(async {
        let client = client_with("connections_max=1").await;
        let t = shared().new_name();
        session().await.script(&format!("create table {t} (id int)")).await.unwrap();
        for n in 0..20 {
            let one = client.session().await.unwrap();
            one.execute("set work_mem = '99kB'", &[]).await.unwrap();
            drop(one);
            let other = client.session().await.unwrap();
            other.execute(&format!("create temp table {t} (id int)"), &[]).await.unwrap();
            drop(other);
            let insert = format!("insert into {t} values ($1)");
            assert_eq!(client.execute(&insert, &[&n]).await.unwrap(), 1);
        }
        assert_eq!(ids(&t).await, (0..20).collect());
    });
}

/// A client whose first resets fail, so many of each connection, and a table of its user. One fails
/// where a function prepared a statement, which no tag tells; one more if the user may not use
/// PL/pgSQL.
async fn client_whose_resets_fail(times: usize) -> (Client, String) {
    let [role, database, table] = [(); 3].map(|()| shared().new_name());
    let admin = session().await;
    admin.script(&format!("create role {role} login password 'word'")).await.unwrap();
    admin.execute(&format!("create database {database}"), &[]).await.unwrap();
    let port = shared().port();
    let at =
        |user: &str| format!("postgres://{user}@127.0.0.1:{port}/{database}?connections_max=1");
    let url = shared().url();
    let (_, rest) = url.split_once("//").unwrap();
    let (owner, _) = rest.split_once('@').unwrap();
    let revoke = ["", "revoke usage on language plpgsql from public;"][times - 1];
    let set_up = format!(
        "create function leave_name() returns int language plpgsql as
            $f$ begin execute 'prepare a_name as select 1'; return 1; end $f$;
         {revoke}
         create table {table} (id int); grant all on {table} to {role};
         grant temporary on database {database} to {role}"
    );
    let owner = Client::connect(&at(owner)).await.unwrap();
    owner.session().await.unwrap().script(&set_up).await.unwrap();
    (Client::connect(&at(&format!("{role}:word"))).await.unwrap(), table)
}

/// Hides a temporary table in front of the real one.
async fn hide(client: &Client, table: &str) -> i32 {
    let session = client.session().await.unwrap();
    session.execute("select leave_name()", &[]).await.unwrap();
    session.execute(&format!("create temp table {table} (id int)"), &[]).await.unwrap();
    pid(&session).await
}

/// P46. Statements behind a reset that failed were skipped, and are sent again behind the reset
/// that succeeds.
#[test]
fn what_was_sent_behind_a_reset_that_failed_runs_behind_the_one_that_succeeds() {
    run_long(PATIENCE * 3, async {
        for times in 1..=2 {
            let (client, t) = client_whose_resets_fail(times).await;
            let mine = hide(&client, &t).await;
            let insert = format!("insert into {t} values ($1)");
            let numbers: Vec<i32> = (0..10).collect();
            let inserts: Vec<_> = numbers.iter().map(|n| client.execute(&insert, &[n])).collect();
            for reply in inserts {
                assert_eq!(reply.await.unwrap(), 1);
            }
            let kept = client.query_one(&format!("select count(*) from public.{t}"), &[]).await;
            assert_eq!(kept.unwrap().get::<i64>(0), 10);
            assert_eq!(pid_of(&client).await, mine, "another connection was opened");
            assert_clean(&client, "a session").await;
        }
    });
}

/// P46. A statement that can't be sent again reports that it did not run, and it did not.
#[test]
fn a_transaction_behind_a_reset_that_failed_has_not_run() {
    run_long(PATIENCE * 2, async {
        let (client, t) = client_whose_resets_fail(1).await;
        hide(&client, &t).await;
        let insert = format!("insert into {t} values (1)");
        let tx = client.begin().await.unwrap();
        let [one, two] = [tx.execute(&insert, &[]), tx.execute(&insert, &[])];
        for reply in [one, two] {
            // Not sent where the failure of the reset was read first.
            let error = reply.await.unwrap_err();
            assert!(matches!(error.outcome(), Outcome::NotSent | Outcome::Rejected), "{error}");
            assert_eq!(error.sqlstate(), Some("26000"), "{error}");
            assert!(error.to_string().contains("reset failed, not run, try again"), "{error}");
        }
        assert!(tx.commit().await.is_err());
        let tx = client.begin().await.unwrap();
        tx.execute(&insert, &[]).await.unwrap();
        tx.commit().await.unwrap();
        let kept = client.query_one(&format!("select count(*) from public.{t}"), &[]).await;
        assert_eq!(kept.unwrap().get::<i64>(0), 1);
    });
}

/// P46. A request that the server would not skip waits for the answer to the reset.
#[test]
fn what_can_not_be_guarded_waits_until_the_session_is_reset() {
    run_long(PATIENCE * 3, async {
        let way = async |way: usize| {
            let (client, t) = client_whose_resets_fail(1).await;
            hide(&client, &t).await;
            match way {
                0 => {
                    let mut copy = client.copy_in(&format!("copy {t} from stdin")).await.unwrap();
                    copy.send("1\n").await.unwrap();
                    copy.finish().await.unwrap();
                }
                1 => {
                    let insert = format!("insert into {t} values (1); select 1");
                    client.session().await.unwrap().script(&insert).await.unwrap();
                }
                _ => {
                    let insert = format!("insert into {t} values ($1)");
                    let session = client.session().await.unwrap();
                    session.batch(&insert, [(1,)]).isolated().await.into_result().unwrap();
                }
            }
            let kept = client.query_one(&format!("select count(*) from public.{t}"), &[]).await;
            assert_eq!(kept.unwrap().get::<i64>(0), 1, "way {way}");
        };
        for number in 0..3 {
            way(number).await;
        }
    });
}

/// P46. A session that deallocates what it finds is reset like any other: what the client keeps for
/// its resets goes with the rest.
#[test]
fn a_session_that_deallocates_all_is_reset_without_a_failure() {
    run(async {
        let client = client_with("connections_max=1").await;
        let t = table("id int").await;
        let insert = format!("insert into {t} values ($1)");
        let texts = ["deallocate all", "prepare mine as select 1", "discard all", "select 1"];
        for (n, sql) in (0..).zip(texts) {
            for again in 0..2 {
                let session = client.session().await.unwrap();
                session.execute("set work_mem = '99kB'", &[]).await.unwrap();
                session.execute(sql, &[]).await.unwrap();
                drop(session);
                // Behind a reset that fails it would have to be begun again.
                let tx = client.begin().await.unwrap();
                tx.execute(&insert, &[&(n * 2 + again)]).await.unwrap();
                tx.commit().await.unwrap();
            }
        }
        assert_eq!(ids(&t).await, (0..8).collect());
    });
}

/// P46. A session's own `statement_timeout` may stop the reset.
#[test]
fn nobody_works_in_a_session_whose_reset_was_stopped_by_its_own_timeout() {
    run_long(PATIENCE * 3, async {
        let client = client_with("connections_max=1").await;
        let t = table("id int").await;
        let mut acknowledged = std::collections::BTreeSet::new();
        for n in 0..300 {
            let session = client.session().await.unwrap();
            session.execute("set search_path = pg_catalog", &[]).await.unwrap();
            // The timeout may hit this statement itself.
            let _ = session.execute("set statement_timeout = 1", &[]).await;
            drop(session);
            let seen = client.query_one("select current_setting('statement_timeout')", &[]);
            let insert = client.execute(&format!("insert into public.{t} values ($1)"), &[&n]);
            if let Ok(row) = seen.await {
                assert_eq!(row.get::<&str>(0), "0");
            }
            match insert.await {
                Ok(_) => drop(acknowledged.insert(n)),
                Err(error) => assert_ne!(error.outcome(), Outcome::Applied),
            }
        }
        assert_eq!(ids(&t).await, acknowledged);
        assert!(acknowledged.len() > 200, "{}", acknowledged.len());
    });
}

/// P45. A statement that can't leave anything behind costs nothing; after any other, the session is
/// reset, without an extra trip.
#[test]
fn only_what_is_known_to_leave_nothing_is_spared_the_reset() {
    run(async {
        let proxy = proxy();
        let client = client_through(&proxy, "connections_max=1&prepare_threshold=0").await;
        client.session().await.unwrap().execute("select 0", &[]).await.unwrap();
        let mut sent = Vec::new();
        for sql in ["select 1", "select 2", "select set_config('a.b', '', false)", "select 3"] {
            let session = client.session().await.unwrap();
            proxy.reset_stats();
            session.execute(sql, &[]).await.unwrap();
            let stats = proxy.stats();
            assert_eq!(stats.trips, 1, "{sql}");
            sent.push(stats.bytes_up);
        }
        assert_eq!(sent[0], sent[1]);
        assert!(sent[3] > sent[1], "the third session was not reset: {sent:?}");
    });
}

async fn pid(session: &Session) -> i32 {
    session.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0)
}

/// A prepared statement keeps the table that it was parsed with, even if its session had temporary
/// tables before: PostgreSQL compares the search path, which is the same.
#[test]
fn a_statement_that_others_prepared_finds_the_temporary_table_of_a_session() {
    run(async {
        let client = client_with("connections_max=1").await;
        let name = shared().new_name();
        let statement = format!("insert into {name} values ($1)");
        let temporary = format!("create temp table {name} (n int)");
        client.execute(&format!("create table {name} (n int)"), &[]).await.unwrap();
        for round in 0..3 {
            for n in 0..8 {
                client.execute(&statement, &[&n]).await.unwrap();
            }
            let session = client.session().await.unwrap();
            match round {
                2 => {
                    drop(session.script(&format!("do $$ begin {temporary}; end $$")).await.unwrap())
                }
                _ => drop(session.execute(&temporary, &[]).await.unwrap()),
            }
            assert_eq!(session.execute(&statement, &[&99]).await.unwrap(), 1);
            drop(session);
        }
        let strayed = format!("select count(*) from {name} where n = 99");
        assert_eq!(client.query_one(&strayed, &[]).await.unwrap().get::<i64>(0), 0);
    });
}
