//! Classification of statement text, table by table, and what each place refuses.

use onetrip_postgres::sql::{
    Place, Refusal, Traits, can_be_prepared_by_sql, classify, is_shareable, parameters, refusal,
};

type Trait = fn(Traits) -> bool;

/// Checks one trait of many texts, and says which text is wrong.
fn check(what: &str, of: Trait, yes: &[&str], no: &[&str]) {
    for (texts, expected) in [(yes, true), (no, false)] {
        for text in texts {
            let traits = classify(text);
            assert_eq!(of(traits), expected, "{what} of {text:?}: {traits:?}");
            // White space, comments, case and a final semicolon change nothing.
            for variant in [
                format!(" \t\n-- begin\n/* set /* x */ ; */ {text} ; -- ; select 2"),
                format!("/**/{text}\n;;"),
                text.to_ascii_uppercase(),
            ] {
                if text.contains(['\'', '"', '$']) && variant == text.to_ascii_uppercase() {
                    continue;
                }
                let traits = classify(&variant);
                assert_eq!(of(traits), expected, "{what} of {variant:?}: {traits:?}");
            }
        }
    }
}

#[test]
fn transaction_control_is_seen() {
    check(
        "transaction_control",
        Traits::transaction_control,
        &[
            "begin",
            "begin isolation level serializable",
            "start transaction read only",
            "commit",
            "commit and chain",
            "end",
            "end work",
            "rollback",
            "rollback to savepoint a",
            "abort",
            "savepoint a",
            "release a",
            "release savepoint a",
            "prepare transaction 'x'",
            "set transaction isolation level repeatable read",
            "set session transaction read only",
            "set local transaction read only",
            "select 1; commit",
            "begin; select 1",
        ],
        &[
            "",
            ";",
            "select 'begin; commit'",
            "select e'\\'; begin; --'",
            "select $$; begin;$$",
            "select $a$ $$ ; begin; $b$ $a$",
            "select 1 as \"x; begin\"",
            "beginning",
            "begin_ 1",
            "commit prepared 'x'",
            "rollback prepared 'x'",
            "prepare p as select 1",
            "set session characteristics as transaction read only",
            "\"begin\"",
            "insert into t values ('rollback')",
            "select begin from t",
        ],
    );
}

#[test]
fn session_state_is_seen() {
    check(
        "session_state",
        Traits::session_state,
        &[
            "set x = 1",
            "set x to 'local'",
            "set session x = 1",
            "set role r",
            "set session authorization r",
            "set session characteristics as transaction read only",
            "set time zone 'UTC'",
            "reset all",
            "listen c",
            "unlisten *",
            "declare c cursor for select 1",
            "fetch 1 from c",
            "move c",
            "close all",
            "prepare p as select 1",
            "execute p(1)",
            "explain analyze execute p",
            "explain (costs off, analyze) execute p",
            "deallocate p",
            "discard temp",
            "discard all",
            "load 'x'",
            "lock t",
            "lock table only t in exclusive mode",
            "create temp table t (a int)",
            "create temporary sequence s",
            "create local temp table t as select 1",
            "create global temporary table t (a int)",
            "create or replace temp view v as select 1",
            "create temp recursive view v (a) as select 1",
            "create table pg_temp.t (a int)",
            "create table \"pg_temp\" . t (a int)",
            "create function pg_temp.f() returns int language sql return 1",
            "insert into pg_temp.t values (1)",
            "select 1 into temp t",
            "select a into temporary table t from x",
            "select a into local temp t from x",
            "with x as (select 1) select * into temp t from x",
            "select pg_advisory_lock(1)",
            "select pg_advisory_lock /* c */ (1, 2)",
            "select pg_catalog.pg_try_advisory_lock(1)",
            "select pg_advisory_lock_shared(1)",
            "select pg_try_advisory_lock_shared(1)",
            "select pg_advisory_unlock(1)",
            "select pg_advisory_unlock_shared(1)",
            "select pg_advisory_unlock_all()",
            "select \"pg_advisory_lock\"(1)",
            "select * from t where pg_try_advisory_lock(t.id)",
            "insert into t select pg_advisory_lock(1)",
            "create table t as select pg_advisory_lock(1)",
            "select 1; set x = 1",
        ],
        &[
            "select 'set x = 1'",
            "select 1 as \"set\"",
            "update t set x = 1",
            "insert into temp values (1)",
            "with x as (insert into temp values (1) returning *) select * from x",
            "select 1 into t",
            "set local x = 1",
            "set constraints all deferred",
            "select pg_advisory_xact_lock(1)",
            "select pg_try_advisory_xact_lock_shared(1)",
            "select pg_advisory_lock from t",
            "select 'pg_advisory_lock(1)'",
            "select my_pg_advisory_lock(1)",
            "create function f() returns void language sql as 'select pg_advisory_lock(1)'",
            "create view v as select pg_advisory_lock(1)",
            "create table temp (a int)",
            "create table t (temp int)",
            "create view v as select 1",
            "alter table t set (fillfactor = 10)",
            "notify c",
            "show x",
            "settle",
            "explain select 1",
        ],
    );
}

#[test]
fn what_ends_with_the_transaction_is_told_apart() {
    check(
        "transaction_local",
        Traits::transaction_local,
        &["set local x = 1", "set constraints all deferred", "set local role r"],
        &["set x = local", "set session x = 1", "set transaction read only", "select local"],
    );
}

#[test]
fn stand_alone_statements_are_seen() {
    check(
        "stand_alone",
        Traits::stand_alone,
        &[
            "vacuum",
            "vacuum (full, analyze) t",
            "create database d",
            "drop database if exists d",
            "create tablespace s location '/x'",
            "drop tablespace s",
            "create index concurrently on t (a)",
            "create unique index concurrently if not exists i on t (a)",
            "drop index concurrently i",
            "reindex table concurrently t",
            "reindex (verbose, concurrently) index i",
            "reindex (verbose) database d",
            "reindex schema s",
            "reindex system d",
            "alter system set x = 1",
            "alter database d set tablespace s",
            "alter table t detach partition p concurrently",
            "cluster",
            "cluster verbose",
            "cluster (verbose)",
            "repack (concurrently) t",
            "create subscription s connection 'x' publication p",
            "alter subscription s refresh publication",
            "drop subscription s",
            "commit prepared 'x'",
            "rollback prepared 'x'",
            "discard all",
        ],
        &[
            "analyze t",
            "create index i on t (a)",
            "create index \"concurrently\" on t (a)",
            "drop index i",
            "drop table database_",
            "reindex table t",
            "reindex (verbose) index i",
            "cluster t",
            "cluster (verbose) t using i",
            "alter database d set x = 1",
            "alter table t detach partition p",
            "alter table t set tablespace s",
            "refresh materialized view concurrently v",
            "alter type t add value 'x'",
            "select 'vacuum'",
            "discard plans",
        ],
    );
}

#[test]
fn copy_of_the_protocol_is_told_from_copy_of_files() {
    check(
        "copy",
        Traits::copy,
        &[
            "copy t from stdin",
            "copy t (a, b) from stdin with (format csv)",
            "copy t to stdout",
            "copy binary t to stdout",
            "copy (select a from stdin) to stdout",
            "copy (select 1) to /* x */ stdout",
            "copy \"from\" from stdin",
        ],
        &[
            "copy t from '/tmp/stdin'",
            "copy t to program 'cat > stdout'",
            "copy (select 1 from stdin) to '/x'",
            "select stdin from copy",
        ],
    );
}

#[test]
fn calls_are_seen_and_partial_effects_follow() {
    check(
        "call",
        Traits::call,
        &["call p(1)", "do $$ begin commit; end $$", "do language plpgsql 'begin end'"],
        &["select call()", "document", "insert into t values (1) on conflict do nothing"],
    );
    check(
        "partial_effects",
        Traits::partial_effects,
        &["call p()", "vacuum", "select 1; select 2"],
        &["select 1;", "begin", "set x = 1", "copy t from stdin"],
    );
}

#[test]
fn several_statements_are_counted() {
    check(
        "several",
        Traits::several,
        &[
            "select 1; select 2",
            ";select 1;;select 2;",
            "select 1;/* c */x",
            "select ';';select 1",
            "create table t (a int); insert into t values (1)",
            "create rule r as on insert to t do (select 1; select 2); select 3",
            "do $$ begin end $$; select 1",
            "begin; commit",
            "select $1;select 2",
            "select a$b$;$b$ ; $b$",
            "select $1$a$x$a$;select 2",
        ],
        &[
            "",
            ";",
            " ; ; -- x",
            "select 1;",
            "select 1; -- select 2",
            "select 1; /* select 2; /* nested */ ; */ ;",
            "select ';'';', \";\"\";\", $x$;$x$, e'\\';', u&';', b'1'",
            "select e'a'\n  '\\';'",
            "select e'a' -- c\n -- d\n '\\';'",
            "select 'it''s; fine'",
            "create rule r as on insert to t do (select 1; select 2)",
            "create function f() returns int language sql begin atomic select 1; select 2; end",
            "create or replace procedure p() begin atomic select case when a then 1 end; select 2; \
             end",
            "do $$ begin perform 1; perform 2; end $$",
            "create function f() returns int language sql as $f$ select 1; select 2; $f$",
        ],
    );
    for open in ["select 'a; x", "select /* a; x", "select $$ a; x", "select \"a; x", "(;x"] {
        assert!(!classify(open).several(), "{open:?}");
    }
}

#[test]
fn plain_reads_are_hinted() {
    check(
        "read_only_select",
        Traits::read_only_select,
        &[
            "select 1",
            "(select 1)",
            "/* hi */ (select 1)",
            "((select 1) union (values (2)))",
            "values (1)",
            "table t",
            "with x as (select 1) select * from x",
            "with recursive x as (select 1 union all select 2) table x",
            "select substring(a for 3) from t",
            "select 'for update', \"into\" from t",
            "select pg_advisory_xact_lock(1)",
        ],
        &[
            "",
            "select 1 into t",
            "select * from t for update",
            "select * from t for no key update skip locked",
            "select * from t for share",
            "select * from t for key share",
            "with x as (update t set a = 1 returning *) select * from x",
            "with x as (select 1) insert into t select * from x",
            "with x as (delete from t returning *) select * from x",
            "with x as (merge into t using s on true when matched then do nothing) select 1",
            "select pg_advisory_lock(1)",
            "select 1; select 2",
            "explain select 1",
            "explain analyze update t set a = 1",
            "update t set a = 1",
            "insert into t select 1",
            "show x",
        ],
    );
}

#[test]
fn what_is_shareable_is_one_query_that_shows_nothing_of_the_session() {
    let yes = [
        "select 1",
        "  SELECT ';' ; ",
        "(select 1) union (select 2)",
        "/* /* begin */ */ select 1 -- ; commit",
        "with a as (select 1) select * from a",
        "insert into t values (1)",
        "merge into t using s on true when matched then delete",
        "explain (analyze) update t set a = 1",
        "show search_path",
        "select pg_advisory_xact_lock(1)",
    ];
    let no = [
        "",
        ";",
        "begin",
        "select 1; begin",
        "select 1; select 2",
        "select 1 into temp t",
        "explain analyze create temp table t as select 1",
        "explain analyze execute p",
        "select pg_advisory_lock(1)",
        "select * from pg_temp.t",
        "select SET_CONFIG('a', 'b', false)",
        "set a = 1",
        "create table t ()",
        "do $$ begin end $$",
        "copy t from stdin",
        "selection",
    ];
    for text in yes {
        assert!(is_shareable(text, classify(text)), "{text}");
    }
    for text in no {
        assert!(!is_shareable(text, classify(text)), "{text}");
    }
}

#[test]
fn what_prepare_takes_begins_as_a_query_or_a_change_does() {
    let yes = [
        "select 1",
        " -- a\n/* b /* c */ */ ((select 1)) union all values (2)",
        "TABLE item",
        "with a as (select 1) select * from a",
        "insert into t values ($1)",
        "update t set a = 1",
        "delete from t",
        "merge into t using s on true when matched then delete",
    ];
    let no =
        ["", "-- select 1", ";select 1", "show a", "explain select 1", "create table t ()", "1"];
    assert!(
        yes.into_iter().all(can_be_prepared_by_sql) && !no.into_iter().any(can_be_prepared_by_sql)
    );
}

#[test]
fn each_place_refuses_what_it_must() {
    use Refusal as R;
    let shared = Place::Shared;
    let atomic = Place::Pipeline { alone: false };
    let alone = Place::Pipeline { alone: true };
    let session = Place::Session { in_transaction: false };
    let open = Place::Session { in_transaction: true };
    let table: [(&str, [Option<Refusal>; 5]); 12] = [
        ("select 1", [None; 5]),
        ("insert into t values (1)", [None; 5]),
        ("", [None; 5]),
        (
            "begin",
            [
                Some(R::TransactionControl),
                Some(R::TransactionControl),
                Some(R::TransactionControl),
                None,
                Some(R::TransactionOpen),
            ],
        ),
        (
            "select 1; commit",
            [
                Some(R::TransactionControl),
                Some(R::TransactionControl),
                Some(R::TransactionControl),
                None,
                Some(R::TransactionOpen),
            ],
        ),
        (
            "set x = 1",
            [Some(R::SessionState), Some(R::SessionState), Some(R::SessionState), None, None],
        ),
        (
            "set local x = 1",
            [Some(R::TransactionLocal), None, Some(R::TransactionLocal), None, None],
        ),
        ("copy t from stdin", [Some(R::Copy); 5]),
        ("select 1; select 2", [Some(R::Several), Some(R::Several), Some(R::Several), None, None]),
        ("vacuum", [None, Some(R::StandAlone), None, None, None]),
        ("call p()", [None, Some(R::Call), None, None, None]),
        (
            "discard all",
            [Some(R::SessionState), Some(R::SessionState), Some(R::SessionState), None, None],
        ),
    ];
    for (text, expected) in table {
        let places = [shared, atomic, alone, session, open];
        for (place, expected) in places.into_iter().zip(expected) {
            assert_eq!(refusal(classify(text), place), expected, "{text:?} in {place:?}");
        }
    }
}

#[test]
fn a_refusal_is_one_line_that_says_what_to_use() {
    for refusal in [
        Refusal::TransactionControl,
        Refusal::TransactionOpen,
        Refusal::SessionState,
        Refusal::TransactionLocal,
        Refusal::StandAlone,
        Refusal::Call,
        Refusal::Copy,
        Refusal::Several,
        Refusal::StreamOpen,
        Refusal::CopyOpen,
        Refusal::SavepointOpen,
        Refusal::BlockOpen,
        Refusal::AwaitedEarly,
    ] {
        let text = refusal.to_string();
        assert!(!text.contains('\n') && !text.contains("  "), "{text:?}");
        assert!(!refusal.code().is_empty());
    }
}

#[test]
fn random_text_never_panics() {
    const PIECES: [&str; 40] = [
        "select", "begin", "'", "''", "\"", "$$", "$a$", "$", "$1", "/*", "*/", "--", "\n", ";",
        "(", ")", "e'", "\\", "é", "into", "temp", "pg_temp", ".", "create", "function", "atomic",
        "explain", "analyze", "copy", "from", "stdin", "set", "local", "for", "update", " ", "1",
        "x", "reindex", "cluster",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for _ in 0..50_000 {
        let mut text = String::new();
        for _ in 0..random(24) {
            text.push_str(PIECES[random(PIECES.len())]);
            if random(2) == 0 {
                text.push(' ');
            }
        }
        let traits = classify(&text);
        let _ = refusal(traits, Place::Shared);
        assert!(!(traits.several() && traits.read_only_select()), "{text:?}");
    }
}

#[test]
fn deep_nesting_needs_no_stack() {
    for (piece, times) in
        [("(", 200_000), ("explain ", 100_000), ("/*", 200_000), ("explain (", 20_000)]
    {
        let _ = classify(&piece.repeat(times));
    }
}

#[test]
fn parameters_are_counted_where_the_server_counts_them() {
    for (text, expected) in [
        ("select 1", Some(0)),
        ("select $1, $2 + $1", Some(2)),
        ("select $10", Some(10)),
        ("select '$2', \"$3\", $$ $4 $$, $a$ $5 $a$, e'$6 \\' $7', a$8, $1 -- $9", Some(1)),
        ("select $1 /* $2 /* $3 */ $4 */ + '' || $2", Some(2)),
        // Whether the second quote ends the string depends on a setting.
        (r"select 'a\', $1, 'b\'", None),
        ("select $99999999999999999999", None),
    ] {
        assert_eq!(parameters(text), expected, "{text}");
    }
}

/// If the text can't show otherwise, a statement counts as leaving something behind, since any name
/// may stand for a user's own function.
#[test]
fn only_a_short_list_leaves_nothing_in_its_session() {
    let nothing = [
        "begin",
        "start transaction isolation level serializable",
        "commit",
        "end",
        "rollback",
        "rollback to a",
        "abort",
        "savepoint a",
        "release a",
        "set local work_mem = '1MB'",
        "set transaction read only",
        "show work_mem",
        "select 1",
        "select 'a', null, true",
        "begin; select 1; commit",
    ];
    let something = [
        "call p()",
        "call p",
        "do $$ begin end $$",
        "do 'begin end'",
        "select f()",
        "select 1 + 1",
        "select 'a'::mood",
        "select * from t",
        "select 1 where exists (select from t)",
        "table t",
        "values (f())",
        "with a as (select 1) select 1",
        "insert into t values (1)",
        "update t set a = 1",
        "delete from t",
        "set work_mem = '1MB'",
        "reset all",
        "listen a",
        "prepare a as select 1",
        "declare a cursor with hold for select 1",
        "create temp table t ()",
        "copy t from stdin",
        "explain analyze select 1",
        "begin; call p(); commit",
        "commit prepared 'a'",
        "vacuum",
        "nonsense",
    ];
    check("leaves nothing", Traits::leaves_nothing, &nothing, &something);
}

#[test]
fn more_parameters_than_the_protocol_counts_are_seen_and_refused_everywhere() {
    check(
        "too_many_parameters",
        Traits::too_many_parameters,
        &[
            "select $65536",
            "insert into t values ($1, $99999)",
            "explain select $99999999999999999999",
            "select a from b where (c = $1 and (d = $70000))",
        ],
        &[
            "select $65535",
            "select $00001",
            "select '$65536', \"$65536\", $$ $65536 $$, a$65536 -- $65536",
        ],
    );
    let places = [
        Place::Shared,
        Place::Pipeline { alone: false },
        Place::Session { in_transaction: false },
        Place::Session { in_transaction: true },
    ];
    for place in places {
        assert_eq!(refusal(classify("select $65536"), place), Some(Refusal::Parameters));
    }
}
