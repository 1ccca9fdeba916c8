//! Variables, branches and results.

use std::time::Duration;

use onetrip_measure::load::run;
use onetrip_measure::script::{Mix, Plan, Protocol, Script, ScriptOperation, Settings};

use crate::{Lab, each, test};

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
fn a_new_seed_draws_other_numbers_for_each_client() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table t (x text primary key)").await;
        let text = "\\set a random(1, 1000000000000)\ninsert into t (x) values (:a)";
        let plan = Plan::new(&Script::parse("a", text).unwrap().into(), Settings::default());
        let plan = plan.unwrap();
        for seed in 0..3 {
            let operations = ScriptOperation::on_sessions(&lab.client, &plan, 2).await.unwrap();
            let operations = operations.into_iter().map(|it| it.reseeded(seed << 32)).collect();
            let ran = onetrip_measure::load::run(operations, each(3), &|_| {}).await.unwrap();
            let errors = ran.recorder.errors;
            assert!(errors.is_empty(), "a number came twice: {errors:?}");
        }
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
