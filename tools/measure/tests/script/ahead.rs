//! The pipelined form: what it leaves, how many trips it makes, and where it waits.

use onetrip_measure::load::run;
use onetrip_measure::script::{
    Form, Mix, Plan, Protocol, Script, ScriptOperation, Settings, builtin,
};

use crate::{Lab, each, test};

fn pipelined() -> Settings {
    Settings { form: Form::Pipelined, ..Settings::default() }
}

/// The trips of a run, prepared before, and where it waited.
async fn trips_and_waits(lab: &Lab, text: &str, settings: Settings) -> (f64, Vec<String>) {
    const RUNS: u64 = 10;
    let plan = Plan::new(&Script::parse("test.sql", text).unwrap().into(), settings).unwrap();
    let operation = ScriptOperation::on_session(lab.session().await, &plan, 0);
    operation.prepare().await.unwrap();
    let before = lab.client.metrics().counts.trips;
    let ran = run(vec![operation], each(RUNS), &|_| {}).await.unwrap();
    assert!(ran.recorder.errors.is_empty(), "{:?}: {text}", ran.recorder.errors);
    let trips = (lab.client.metrics().counts.trips - before) as f64 / RUNS as f64;
    let waits = plan.waits().into_iter().map(|it| format!("{} waits for {}", it.place, it.value));
    (trips, waits.collect())
}

#[test]
fn a_transaction_without_values_of_its_own_is_one_trip_and_leaves_the_same() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table item (id int primary key, n int); insert into item values (1, 0)")
            .await;
        let text = "\\set d random(1, 9)\nbegin;\nupdate item set n = n + :d where id = 1;\n\
                    select n from item where id = 1;\nupdate item set n = n - :d where id = 1;\nend;";
        let (trips, waits) = trips_and_waits(&lab, text, pipelined()).await;
        assert_eq!((trips, waits), (1.0, vec![]));
        assert_eq!(trips_and_waits(&lab, text, Settings::default()).await.0, 5.0);
        let extended = Settings { protocol: Protocol::Extended, ..pipelined() };
        assert_eq!(trips_and_waits(&lab, text, extended).await.0, 1.0);
        assert_eq!(lab.value("select n from item").await, "0");
    });
}

#[test]
fn a_statement_waits_for_the_values_that_it_needs_and_is_named() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table item (id int, price numeric, n int); insert into item values (1, 2.50, 7)")
            .await;
        lab.sql("create table sold (price numeric, n int, twice int)").await;
        let text = "\\set id 1\nbegin;\n\
                    select price, n from item where id = :id \\gset\n\
                    select n as other from item \\gset item_\n\
                    insert into sold (price) values (:price);\n\
                    \\set twice :item_other * 2\n\
                    insert into sold (n, twice) values (:n, :twice);\nend;";
        let (trips, waits) = trips_and_waits(&lab, text, pipelined()).await;
        let named = [
            "statement 4 waits for :price of statement 2",
            "\\set on line 6 waits for :item_other of statement 3",
        ];
        assert_eq!(waits, named);
        // Both selects; the first insert, unless the second select has come with the first; the rest.
        assert!((2.0..=3.0).contains(&trips), "{trips}");
        let sold =
            lab.value("select distinct sum(price) || ' ' || sum(n) || ' ' || sum(twice) from sold");
        assert_eq!(sold.await, "25.00 70 140");
    });
}

#[test]
fn a_value_decides_a_branch_and_is_overwritten_in_order() {
    test(async {
        let lab = Lab::new().await;
        let text = "select 1 as a \\gset\n\\set a 5\n\\if :a = 5\ninsert into t (x) values ('five');\n\
                    \\endif\nselect 2 as b \\gset\n\\if :b = 2\ninsert into t (x) values ('two');\n\\else\n\
                    insert into t (x) values ('other');\n\\endif\n\
                    select 3 as c where false \\aset\nselect 4 as c \\aset\n\\sleep 1 ms\n\
                    insert into t (x) values ('c' || :c);\ninsert into t (x) values (1) \\; select 1;";
        let settings = pipelined();
        lab.sql("create table t (id serial, x text)").await;
        let ran = lab.run_with(text, settings, 1).await.unwrap();
        assert!(ran.recorder.errors.is_empty(), "{:?}", ran.recorder.errors);
        let left = lab.value("select string_agg(x, ' ' order by id) from t").await;
        assert_eq!(left, "five two c4 1");
        let (_, waits) = trips_and_waits(&lab, text, pipelined()).await;
        let places: Vec<&str> = waits.iter().map(|it| it.split(" waits").next().unwrap()).collect();
        let wanted = ["\\set on line 2", "\\if on line 7", "\\sleep on line 14", "statement 9"];
        assert_eq!(places, wanted, "{waits:?}");
    });
}

#[test]
fn the_first_failure_is_that_of_the_run_and_nothing_of_its_transaction_stands() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table t (id serial, x text); create table u (x int unique)").await;
        let text = "begin;\ninsert into t (x) values ('a');\nselect 1 / 0 as none \\gset\n\
                    insert into t (x) values (:none);\nend;";
        let ran = lab.run_with(text, pipelined(), 3).await.unwrap();
        assert_eq!(ran.recorder.errors.into_iter().collect::<Vec<_>>(), [("22012".into(), 3)]);
        let text = "begin;\ninsert into t (x) values ('b');\nselect 1 / 0;\nselect 'x'::int;\nend;";
        let ran = lab.run_with(text, pipelined(), 3).await.unwrap();
        assert_eq!(ran.recorder.errors.into_iter().collect::<Vec<_>>(), [("22012".into(), 3)]);
        assert_eq!(lab.value("select count(*) from t").await, "0");
        let lab = &lab;
        let fatal =
            |text| async move { lab.run_with(text, pipelined(), 2).await.unwrap_err().to_string() };
        let error = fatal("select 1 as a where false \\gset\nselect :a + 1;").await;
        assert_eq!(error, "test.sql:1: \\gset: expected one row, got 0");
        let error = fatal("select 1;\nbegin;").await;
        assert!(
            error.starts_with("test.sql:2: the script ends inside of a transaction"),
            "{error}"
        );
    });
}

#[test]
fn a_conflict_has_the_run_done_again_with_the_same_numbers() {
    test(async {
        let lab = Lab::new().await;
        lab.sql(
            "create table seen (x int); create sequence tries; \
             create function fail() returns void language plpgsql as $$ begin \
             if nextval('tries') % 2 = 1 then raise exception 'again' using errcode = '40P01'; end if; \
             end $$",
        )
        .await;
        let text = "\\set n random(1, 1000000)\nbegin;\ninsert into seen values (:n);\nselect fail();\nend;";
        let ran = lab.run_with(text, pipelined(), 3).await.unwrap();
        assert_eq!(ran.recorder.retries.into_iter().collect::<Vec<_>>(), [("40P01".into(), 3)]);
        assert_eq!(ran.repetition.operations, 3);
        assert_eq!(lab.value("select count(distinct x) from seen").await, "3");
    });
}

#[test]
fn a_run_may_be_longer_than_the_window_and_the_queue() {
    test(async {
        let lab = Lab::new().await;
        lab.sql("create table t (id serial, x text)").await;
        let text =
            format!("begin;\n{}end;", "insert into t (x) values (:client_id);\n".repeat(5_000));
        let ran = lab.run_with(&text, pipelined(), 1).await.unwrap();
        assert!(ran.recorder.errors.is_empty(), "{:?}", ran.recorder.errors);
        assert_eq!(lab.value("select count(*) from t").await, "5000");
    });
}

#[test]
fn what_has_no_pipelined_form_says_why() {
    let mix = |text: &str| Mix::from(Script::parse("x.sql", text).unwrap());
    let why = |text: &str, protocol| mix(text).why_not_pipelined(protocol);
    let two = "select 1;\nselect 2;";
    assert_eq!(why(two, Protocol::Prepared), None);
    assert!(why(two, Protocol::Simple).unwrap().contains("the simple protocol"));
    assert_eq!(why("select 1;", Protocol::Extended), Some("has one statement"));
    let own = format!("\\startpipeline\n{two}\n\\endpipeline");
    assert_eq!(why(&own, Protocol::Extended), Some("has pipelines of its own"));
    assert_eq!(Mix::from(builtin("tpcb").unwrap()).why_not_pipelined(Protocol::Prepared), None);
}
