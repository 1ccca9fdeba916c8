//! Scripts against a real server.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use onetrip::{Client, Config, Session};
use onetrip_lab::postgres::shared;
use onetrip_measure::error::Result;
use onetrip_measure::load::{Load, Ran, Until, run};
use onetrip_measure::script::{
    self, Mix, Plan, Protocol, Script, ScriptOperation, Settings, builtin, tables,
};

const ALL: [Protocol; 3] = [Protocol::Simple, Protocol::Extended, Protocol::Prepared];

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn test(body: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, body).await });
    assert!(ended.is_ok(), "something never ended");
}

/// A schema of one test, and clients that look there first.
struct Lab {
    schema: String,
    client: Client,
}

impl Lab {
    async fn new() -> Lab {
        let schema = shared().new_name();
        let url = format!("{}?options=-csearch_path%3D{schema}", shared().url());
        let config: Config = url.parse().unwrap();
        let client = Client::connect_with(&config).await.unwrap();
        let lab = Lab { schema, client };
        lab.session().await.script(&format!("create schema {}", lab.schema)).await.unwrap();
        lab
    }

    async fn session(&self) -> Session {
        self.client.session().await.unwrap()
    }

    async fn sql(&self, sql: &str) {
        self.session().await.script(sql).await.unwrap();
    }

    /// The only value of a result, as text.
    async fn value(&self, sql: &str) -> String {
        let results = self.session().await.script(sql).await.unwrap();
        results[0].rows[0][0].clone().unwrap_or_else(|| "NULL".into())
    }

    async fn run_with(&self, text: &str, settings: Settings, times: u64) -> Result<Ran> {
        let plan = Plan::new(&Script::parse("test.sql", text)?.into(), settings)?;
        let operation = ScriptOperation::on_session(self.session().await, &plan, 3);
        run(vec![operation], each(times), &|_| {}).await
    }

    /// Runs a script once, by each protocol, on a table `t` that is new each time; what is in the
    /// table then is the same each time.
    async fn leaves(&self, text: &str, wanted: &str) {
        for protocol in ALL {
            self.leaves_by(protocol, text, wanted).await;
        }
    }

    async fn leaves_by(&self, protocol: Protocol, text: &str, wanted: &str) {
        self.sql("drop table if exists t; create table t (id serial, x text)").await;
        let settings = Settings { protocol, ..Settings::default() };
        let ran = self.run_with(text, settings, 1).await;
        assert!(ran.unwrap().recorder.errors.is_empty(), "{protocol:?}: {text}");
        let left = self.value("select string_agg(x, ' ' order by id) from t").await;
        assert_eq!(left, wanted, "{protocol:?}: {text}");
    }

    async fn error(&self, protocol: Protocol, text: &str) -> String {
        let settings = Settings { protocol, ..Settings::default() };
        let error = self.run_with(text, settings, 2).await.unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }
}

fn each(times: u64) -> Load {
    Load { until: Until::Each(times), rate: None, seed: 1 }
}

#[test]
fn variables_are_replaced_in_each_protocol() {
    test(async {
        let lab = Lab::new().await;
        lab.leaves(
            "\\set a 1 + 2\n\\set b :a * 1.5\n\\set c :a = 3\n\\set d null\n\
             insert into t (x) values ((:a)::int + 1);\n\
             insert into t (x) values ((:b)::float8), ((:c)::bool::text), (:client_id::int);\n\
             insert into t (x) values (coalesce(:d, 'none'));\n\
             insert into t (x) select (array[1, 2, 3])[1:2] -- :a\n;",
            "4 4.5 true 3 none {1,2}",
        )
        .await;
    });
}

#[test]
fn what_can_never_be_a_variable_stays_as_it_is() {
    test(async {
        let lab = Lab::new().await;
        let text = "insert into t (x) select a[1:n] from (select array[5, 6, 7] a, 2 n) s;\n\
                    insert into t (x) values ('12:30:mi'), ('::a')";
        lab.leaves(text, "{5,6} 12:30:mi ::a").await;
    });
}

#[test]
fn a_variable_between_quotes_is_replaced_by_the_simple_protocol_and_refused_by_others() {
    test(async {
        let lab = Lab::new().await;
        let text = "\\set a 5\ninsert into t (x) values ('<:a>')";
        lab.leaves_by(Protocol::Simple, text, "<5>").await;
        let error = lab.error(Protocol::Prepared, text).await;
        assert!(error.starts_with("test.sql:2: :a stands between quotes"), "{error}");
    });
}

#[test]
fn branches_are_taken_by_their_conditions() {
    test(async {
        let lab = Lab::new().await;
        let text = "\\set n 2\n\\if :n = 1\ninsert into t (x) values ('one');\n\\elif :n = 2\n\
                    insert into t (x) values ('two');\n\\if 0\ninsert into t (x) values ('no');\n\
                    \\else\ninsert into t (x) values ('yes');\n\\endif\n\\else\n\
                    insert into t (x) values ('other');\n\\endif\ninsert into t (x) values ('end');";
        lab.leaves(text, "two yes end").await;
    });
}

#[test]
fn results_become_variables() {
    test(async {
        let lab = Lab::new().await;
        let text = "select 5 as a, 'x' as b, true as c, null::int as d \\gset\n\
                    select 2.50::numeric as num, date '2026-01-02' as day \\gset p_\n\
                    \\set e :a + :p_num\n\
                    insert into t (x) values (:a::int + 1), ('' || :e), (:p_num::numeric);\n\
                    select i as last from generate_series(1, 3) i \\aset\n\
                    insert into t (x) values (:last::int);\n\
                    select i as never from generate_series(1, 0) i \\aset\n";
        lab.leaves(text, "6 7.5 2.50 3").await;
        // A text is put between quotes by the one who sends it as a parameter.
        let text = "select 'it''s' as a, date '2026-01-02' as b, null as c \\gset\n\
                    select :a as a, now() as t \\gset again_\n\
                    insert into t (x) values (:again_a), (:b), ('<' || :c || '>')";
        lab.leaves_by(Protocol::Prepared, text, "it's 2026-01-02 <>").await;
        lab.leaves_by(Protocol::Extended, text, "it's 2026-01-02 <>").await;
        let error = lab.error(Protocol::Prepared, "select 1 where false \\gset").await;
        assert_eq!(error, "test.sql:1: \\gset: expected one row, got 0");
    });
}

#[test]
fn statements_that_are_joined_go_by_the_simple_protocol() {
    test(async {
        let lab = Lab::new().await;
        let text = "\\set a 1\ninsert into t (x) values (:a) \\; insert into t (x) values (2);\n\
                    select 7 as b \\; select 8 as c \\aset\ninsert into t (x) values (:b::int), (:c::int)";
        lab.leaves(text, "1 2 7 8").await;
    });
}

#[test]
fn variables_and_definitions_outlive_a_run() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table t (id serial, x text)").await;
        let defines = vec![("first".into(), "10".into()), ("scale".into(), "7".into())];
        let settings = Settings { defines, ..Settings::default() };
        let text = "\\set first :first + :scale\ninsert into t (x) values (:first)";
        lab.run_with(text, settings, 3).await.unwrap();
        assert_eq!(lab.value("select string_agg(x, ' ' order by id) from t").await, "17 24 31");
        let settings =
            Settings { defines: vec![("1a".into(), String::new())], ..Settings::default() };
        let error = lab.run_with("select 1", settings, 1).await.unwrap_err().to_string();
        assert!(error.contains("\"1a\" is no name of a variable"), "{error}");
    });
}

#[test]
fn the_same_seed_and_client_choose_the_same_numbers() {
    test(async {
        let lab = Lab::new().await;
        let text = "\\set a random(1, 1000000000)\ninsert into t (x) values (:a)";
        let run = async |seed, client_id| {
            lab.sql("drop table if exists t; create table t (id serial, x text)").await;
            let settings = Settings { seed, ..Settings::default() };
            let plan = Plan::new(&Script::parse("a", text).unwrap().into(), settings).unwrap();
            let operation = ScriptOperation::on_session(lab.session().await, &plan, client_id);
            onetrip_measure::load::run(vec![operation], each(3), &|_| {}).await.unwrap();
            lab.value("select string_agg(x, ' ' order by id) from t").await
        };
        let first = run(1, 0).await;
        assert_eq!(run(1, 0).await, first);
        assert_ne!(run(1, 1).await, first);
        assert_ne!(run(2, 0).await, first);
    });
}

#[test]
fn scripts_are_chosen_by_their_weights() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table t (id serial, x text)").await;
        let script = |name: &str, weight| {
            let text = format!("insert into t (x) values ('{name}')");
            (Script::parse(name, &text).unwrap(), weight)
        };
        let mix = Mix::new(vec![script("a", 1), script("b", 0), script("c", 3)]).unwrap();
        let plan = Plan::new(&mix, Settings::default()).unwrap();
        let operation = ScriptOperation::on_session(lab.session().await, &plan, 0);
        run(vec![operation], each(400), &|_| {}).await.unwrap();
        let count = async |name| {
            let count = lab.value(&format!("select count(*) from t where x = '{name}'")).await;
            count.parse::<u32>().unwrap()
        };
        let (a, b, c) = (count("a").await, count("b").await, count("c").await);
        assert!((a + c, b) == (400, 0) && (50..150).contains(&a), "{a} {b} {c}");
    });
}

#[test]
fn a_pipeline_is_one_transaction_from_sync_point_to_sync_point() {
    test(async {
        let lab = Lab::new().await;
        for protocol in [Protocol::Extended, Protocol::Prepared] {
            lab.leaves_by(
                protocol,
                "insert into t (x) values ('a');\n\\startpipeline\ninsert into t (x) values ('b');\n\
                 \\set v 3\ninsert into t (x) values (:v);\n\\syncpipeline\n\\syncpipeline\n\
                 insert into t (x) values ('c');\n\\endpipeline\n\
                 \\startpipeline\n\\endpipeline\ninsert into t (x) values ('d');",
                "a b 3 c d",
            )
            .await;
            let text = "\\startpipeline\ninsert into t (x) values ('a');\n\\syncpipeline\n\
                        insert into t (x) values ('b');\nselect 1 / 0;\ninsert into t (x) values ('c');\n\
                        \\endpipeline";
            lab.sql("truncate t").await;
            let settings = Settings { protocol, ..Settings::default() };
            let ran = lab.run_with(text, settings, 2).await.unwrap();
            // Once for each run, whatever was skipped.
            assert_eq!(ran.recorder.errors.into_iter().collect::<Vec<_>>(), [("22012".into(), 2)]);
            assert_eq!(lab.value("select string_agg(x, '') from t").await, "aa");
        }
        let error = lab.error(Protocol::Simple, "\\startpipeline\nselect 1;\n\\endpipeline").await;
        assert!(error.starts_with("test.sql:1: \\startpipeline: not with the simple"), "{error}");
    });
}

#[test]
fn a_pipeline_may_begin_and_end_transactions() {
    test(async {
        let lab = Lab::new().await;
        let text = "\\startpipeline\nbegin;\ninsert into t (x) values ('a');\n\
                    insert into t (x) values ('b');\nend;\n\\endpipeline";
        lab.leaves_by(Protocol::Prepared, text, "a b").await;
        lab.leaves_by(Protocol::Extended, text, "a b").await;
        let failing = "\\startpipeline\nbegin;\ninsert into t (x) values ('c');\nselect 1 / 0;\n\
                       insert into t (x) values ('d');\nend;\n\\endpipeline";
        let ran = lab.run_with(failing, Settings::default(), 3).await.unwrap();
        assert_eq!(ran.recorder.errors.into_iter().collect::<Vec<_>>(), [("22012".into(), 3)]);
        assert_eq!(lab.value("select string_agg(x, '') from t").await, "ab");
        let inside =
            "begin;\n\\startpipeline\ninsert into t (x) values ('e');\n\\endpipeline\nend;";
        lab.leaves_by(Protocol::Prepared, inside, "e").await;
    });
}

#[test]
fn a_pipeline_may_be_longer_than_the_window_and_the_queue() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table t (id serial, x text)").await;
        let text = format!(
            "\\startpipeline\n{}\\endpipeline",
            "insert into t (x) values (:client_id);\n".repeat(20_000)
        );
        let ran = lab.run_with(&text, Settings::default(), 1).await.unwrap();
        assert!(ran.recorder.errors.is_empty(), "{:?}", ran.recorder.errors);
        assert_eq!(lab.value("select count(*) from t").await, "20000");
        let text = text.replacen("insert", "begin;\ninsert", 1).replace("\\endp", "end;\n\\endp");
        let ran = lab.run_with(&text, Settings::default(), 1).await.unwrap();
        assert!(ran.recorder.errors.is_empty(), "{:?}", ran.recorder.errors);
        assert_eq!(lab.value("select count(*) from t").await, "40000");
    });
}

#[test]
fn a_failed_statement_is_counted_and_the_next_run_goes_on() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table t (x int unique)").await;
        for protocol in ALL {
            lab.sql("truncate t").await;
            let settings = Settings { protocol, ..Settings::default() };
            let text = "begin;\ninsert into t values (1);\nend;";
            let ran = lab.run_with(text, settings, 3).await.unwrap();
            assert_eq!(ran.recorder.errors.into_iter().collect::<Vec<_>>(), [("23505".into(), 2)]);
            assert_eq!((ran.repetition.operations, ran.repetition.errors), (1, 2));
        }
    });
}

#[test]
fn what_would_fail_each_time_ends_the_run_with_script_and_line() {
    test(async {
        let lab = Lab::new().await;
        for protocol in ALL {
            for (text, what) in [
                (
                    "select 1;\nselect *\nfrom nowhere",
                    "test.sql:2: relation \"nowhere\" does not exist",
                ),
                ("selec 1", "test.sql:1: syntax error at or near \"selec\""),
                ("select * from nowhere.t", "test.sql:1: relation \"nowhere.t\" does not exist"),
                ("begin;\nselect 1;", "test.sql:2: the script ends inside of a transaction"),
                ("\\set a 0\n\\set b 1 / :a", "test.sql:2: division by zero"),
                ("\\if :x\n\\endif", "test.sql:1: undefined variable \"x\""),
                ("\\sleep :x ms", "test.sql:1: \\sleep: undefined variable \"x\""),
                ("select pg_terminate_backend(pg_backend_pid())", "test.sql:1: 127.0.0.1"),
            ] {
                let error = lab.error(protocol, text).await;
                assert!(error.starts_with(what), "{protocol:?}: {error}");
            }
        }
        for (text, what) in [
            (
                "\\if 1\n\\startpipeline\n\\endif",
                "test.sql:2: the script ends inside of a pipeline",
            ),
            ("\\if 1\n\\endpipeline\n\\endif", "test.sql:2: not in a pipeline"),
            (
                "\\if 1\n\\startpipeline\n\\startpipeline\n\\endif",
                "test.sql:3: \\startpipeline inside",
            ),
            (
                "\\startpipeline\nselect 1 \\; select 2;\n\\endpipeline",
                "test.sql:2: several statements",
            ),
            ("\\startpipeline\nselect 1;\nselec;\n\\endpipeline", "test.sql:3: syntax error"),
            ("select :nothing", "test.sql:1: syntax error at or near \":\""),
        ] {
            let error = lab.error(Protocol::Prepared, text).await;
            assert!(error.starts_with(what), "{error}");
        }
    });
}

#[test]
fn a_conflict_is_tried_again_with_the_same_numbers() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table seen (n bigint, v bigint); create sequence tries").await;
        // Sequences aren't rolled back: the first two tries of each run fail.
        let text = "\\set v :v + 1\n\\set n random(1, 1000000000)\nbegin;\n\
                    insert into seen values (:n, :v);\n\
                    do $$ begin raise notice '%', 1; end $$;\n\
                    select fail(:n, :v);\nend;";
        lab.sql(
            "create table log (n bigint, v bigint); \
             create function fail(n bigint, v bigint) returns void language plpgsql as $$ begin \
             perform setval('last_n', n); \
             if nextval('tries') % 3 <> 0 then raise exception 'again' using errcode = '40001'; end if; \
             end $$; create sequence last_n",
        )
        .await;
        for protocol in ALL {
            lab.sql("truncate seen; alter sequence tries restart").await;
            let defines = vec![("v".into(), "0".into())];
            let settings = Settings { protocol, defines: defines.clone(), ..Settings::default() };
            let ran = lab.run_with(text, settings, 4).await.unwrap();
            assert_eq!(
                ran.recorder.retries.clone().into_iter().collect::<Vec<_>>(),
                [("40001".into(), 8)]
            );
            assert_eq!((ran.repetition.operations, ran.repetition.errors), (4, 0));
            // What a try has set is undone for the next.
            assert_eq!(
                lab.value("select string_agg(v::text, ' ' order by v) from seen").await,
                "1 2 3 4"
            );
            let tried = lab.value("select string_agg(n::text, ' ' order by v) from seen").await;
            lab.sql("truncate seen; alter sequence tries restart").await;
            let text = text.replace("select fail(:n, :v);\n", "");
            let settings = Settings { protocol, defines, ..Settings::default() };
            lab.run_with(&text, settings, 4).await.unwrap();
            assert_eq!(
                lab.value("select string_agg(n::text, ' ' order by v) from seen").await,
                tried
            );
        }
        lab.sql("truncate seen; alter sequence tries restart").await;
        let defines = vec![("v".into(), "0".into())];
        let settings = Settings { max_tries: 2, defines, ..Settings::default() };
        let ran = lab.run_with(text, settings, 3).await.unwrap();
        // Of the five tries the third succeeds, which is the second run.
        assert_eq!(ran.recorder.retries.into_iter().collect::<Vec<_>>(), [("40001".into(), 2)]);
        assert_eq!((ran.repetition.operations, ran.repetition.errors), (1, 2));
    });
}

#[test]
fn a_conflict_in_a_pipeline_is_tried_again_as_a_whole() {
    test(async {
        let lab = Lab::new().await;
        lab.sql(
            "create table seen (x int); create sequence tries; \
             create function fail() returns void language plpgsql as $$ begin \
             if nextval('tries') % 2 = 1 then raise exception 'again' using errcode = '40P01'; end if; \
             end $$",
        )
        .await;
        let text = "\\startpipeline\ninsert into seen values (1);\nselect fail();\n\
                    insert into seen values (2);\n\\endpipeline";
        let ran = lab.run_with(text, Settings::default(), 3).await.unwrap();
        assert_eq!(ran.recorder.retries.into_iter().collect::<Vec<_>>(), [("40P01".into(), 3)]);
        assert_eq!(ran.repetition.operations, 3);
        assert_eq!(lab.value("select count(*) || ' ' || sum(x) from seen").await, "6 9");
    });
}

#[test]
fn the_built_in_scripts_run_on_pgbenchs_tables_and_keep_their_sums() {
    test(async {
        let lab = Lab::new().await;
        tables::create(&lab.session().await, &lab.schema, 2).await.unwrap();
        let tables = "select (select count(*) from pgbench_branches) || ' ' || \
                      (select count(*) from pgbench_tellers) || ' ' || \
                      (select count(*) || ' ' || max(bid) from pgbench_accounts)";
        assert_eq!(lab.value(tables).await, "2 20 200000 2");
        let settings = |protocol| Settings { protocol, scale: 2, ..Settings::default() };
        for protocol in ALL {
            let scripts = script::BUILTINS.map(|name| (builtin(name).unwrap(), 1));
            let plan = Plan::new(&Mix::new(scripts.into()).unwrap(), settings(protocol)).unwrap();
            let mut operations = Vec::new();
            for client_id in 0..3 {
                operations.push(ScriptOperation::on_session(lab.session().await, &plan, client_id));
            }
            let ran = run(operations, each(50), &|_| {}).await.unwrap();
            assert_eq!((ran.repetition.operations, ran.repetition.errors), (150, 0));
        }
        let sums = "select (select sum(abalance) from pgbench_accounts) = \
                    (select sum(delta) from pgbench_history) and \
                    (select sum(tbalance) from pgbench_tellers) = \
                    (select sum(bbalance) from pgbench_branches)";
        assert_eq!(lab.value(sums).await, "t");
        let again = tables::create(&lab.session().await, &lab.schema, 1).await.unwrap_err();
        assert!(again.to_string().starts_with("making pgbench's tables: relation"), "{again}");
        assert!(tables::create(&lab.session().await, &lab.schema, 0).await.is_err());
    });
}

#[test]
fn more_tasks_than_connections_take_turns_and_share_what_is_prepared() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table t (x int, y int)").await;
        let config: Config =
            format!("{}?options=-csearch_path%3D{}", shared().url(), lab.schema).parse().unwrap();
        let client = Client::connect_with(&config.connections_max(2)).await.unwrap();
        let text = "begin;\ninsert into t values (:client_id, 1);\n\
                    insert into t values (:client_id, 2);\nend;";
        let plan = plan(text);
        let operations = ScriptOperation::on_client(&client, &plan, 20);
        let ran = run(operations, each(10), &|_| {}).await.unwrap();
        assert_eq!((ran.repetition.operations, ran.repetition.errors), (200, 0));
        assert!(client.connections() <= 2);
        let counts = "select count(*) || ' ' || count(distinct x) || ' ' || max(x) from t";
        assert_eq!(lab.value(counts).await, "400 20 19");
        let session = client.session().await.unwrap();
        let prepared = session.script("select count(*) from pg_prepared_statements").await.unwrap();
        // Four of the script, whoever ran it.
        let prepared: u32 = prepared[0].rows[0][0].as_ref().unwrap().parse().unwrap();
        assert!(prepared <= 4, "{prepared}");
    });
}

#[test]
fn a_sleep_lasts_at_least_as_long_as_it_says() {
    test(async {
        let lab = Lab::new().await;
        let began = std::time::Instant::now();
        lab.run_with(
            "\\set t 20\n\\sleep :t ms\n\\sleep 20000 us\nselect 1",
            Settings::default(),
            1,
        )
        .await
        .unwrap();
        assert!(began.elapsed() >= Duration::from_millis(40));
    });
}

fn plan(text: &str) -> Arc<Plan> {
    Plan::new(&Script::parse("test.sql", text).unwrap().into(), Settings::default()).unwrap()
}
