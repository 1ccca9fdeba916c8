//! Which texts are prepared. Only the server can tell the difference.

use onetrip_abi::completion::{end, kind};
use onetrip_abi::export::{flag, refused};

use crate::host::Host;

/// The names of the statements that the session has prepared, in order.
fn prepared(host: &mut Host) -> Vec<String> {
    let text = "select name from pg_prepared_statements order by prepare_time, name";
    let token = host.submit(flag::UNPREPARED, text, "", &[]);
    host.answer(token).values()
}

#[test]
fn a_text_is_prepared_at_its_fifth_use_and_then_only_bound() {
    let mut host = Host::connect("");
    let tags: Vec<String> = (0..7).map(|_| host.run("select $1::text", &["x"]).tags()).collect();
    let unnamed = "12TDC";
    assert_eq!(tags, [unnamed, unnamed, unnamed, unnamed, "1tT2DC", "2DC", "2DC"]);
    assert_eq!(prepared(&mut host).len(), 1);
}

/// P47.
#[test]
fn the_names_of_two_connections_are_never_the_same() {
    let [first, second] = [(); 2].map(|()| {
        let mut host = Host::connect("prepare_threshold\x001\0");
        ["select 1", "select 2"].iter().for_each(|text| drop(host.run(text, &[])));
        prepared(&mut host)
    });
    assert_eq!((first.len(), second.len()), (2, 2));
    assert!(first.iter().all(|name| !second.contains(name)), "{first:?} {second:?}");
}

#[test]
fn rows_without_a_description_say_by_which_statement_they_were_described() {
    let mut host = Host::connect("prepare_threshold\x001\0");
    let first = host.run("select 'a', 1", &[]);
    let second = host.run("select 'a', 1", &[]);
    let other = host.run("select 'b', 2", &[]);
    assert_ne!(first.statement, 0);
    assert_eq!((second.statement, second.tags().as_str()), (first.statement, "2DC"));
    assert_ne!(other.statement, first.statement);
}

#[test]
fn those_that_come_before_the_parse_was_answered_depend_on_nobody() {
    let mut host = Host::connect("prepare_threshold\x001\0");
    let tokens: Vec<u32> = (0..5).map(|_| host.submit(0, "select 'x'", "", &[])).collect();
    let tags: Vec<String> = tokens.into_iter().map(|token| host.answer(token).tags()).collect();
    assert_eq!(tags, ["1tT2DC", "12TDC", "12TDC", "12TDC", "12TDC"]);
    assert_eq!(host.run("select 'x'", &[]).tags(), "2DC");
}

#[test]
fn on_a_shared_connection_those_behind_the_first_use_name_it_at_once() {
    let mut host = Host::connect("prepare_threshold\x001\0");
    // Names are used once the server is known. Columns are requested until they were received.
    host.run("select 'first'", &[]);
    host.share();
    let tokens: Vec<u32> = (0..3).map(|_| host.submit(0, "select 'x'", "", &[])).collect();
    let tags: Vec<String> = tokens.into_iter().map(|token| host.answer(token).tags()).collect();
    assert_eq!(tags, ["1tT2DC", "2TDC", "2TDC"]);
    // Each is healed or refused separately.
    let text = "select * from not_yet_there";
    let tokens: Vec<u32> = (0..3).map(|_| host.submit(0, text, "", &[])).collect();
    let codes: Vec<String> =
        tokens.into_iter().map(|token| host.answer(token).error(b'C')).collect();
    assert_eq!(codes, ["42P01", "42P01", "42P01"]);
    assert_eq!(host.run("select 'x'", &[]).tags(), "2DC");
}

/// Behind what a connection has changed itself it uses no name that was parsed before.
fn somebody_else(says: &str) {
    assert_eq!(Host::connect("").run_simple(says).end, end::COMPLETE, "{says}");
}

#[test]
fn a_parse_that_fails_fails_its_own_and_the_next_use_prepares_anew() {
    let mut host = Host::connect("prepare_threshold\x001\0");
    let failed = host.run("select * from not_there_yet", &[]);
    assert_eq!((failed.end, failed.error(b'C')), (end::SERVER, "42P01".into()));
    somebody_else("create table not_there_yet as select 'now' as it");
    assert_eq!(host.run("select * from not_there_yet", &[]).tags(), "31tT2DC");
    assert_eq!(host.run("select * from not_there_yet", &[]).values(), ["now"]);
}

#[test]
fn a_plan_that_went_stale_is_healed_and_described_anew() {
    let mut host = Host::connect("prepare_threshold\x001\0");
    somebody_else("create table changing as select 'a' as it");
    host.run("select * from changing", &[]);
    somebody_else("alter table changing add more int");
    let healed = host.run("select * from changing", &[]);
    assert_eq!(healed.end, end::COMPLETE);
    assert_eq!(healed.tags(), "31tT2DC");
    assert_eq!(host.run("select * from changing", &[]).tags(), "2DC");
}

#[test]
fn on_a_shared_connection_statements_are_healed_with_others_behind_them() {
    let [mut host, mut other] = ["prepare_threshold\x001\0", ""].map(Host::connect);
    // Behind DDL of its own it would use no names of before.
    other.run_simple("create table changed_by_others as select 'a' as it");
    host.run("select * from changed_by_others", &[]);
    other.run_simple("alter table changed_by_others add more text default 'b'");
    host.share();
    let texts =
        ["select * from changed_by_others", "select 'x'", "select * from changed_by_others"];
    let tokens = texts.map(|text| host.submit(0, text, "", &[]));
    let ends: Vec<u32> = tokens.into_iter().map(|token| host.answer(token).end).collect();
    assert_eq!(ends, [end::COMPLETE; 3]);
}

#[test]
fn statements_that_the_server_lost_are_prepared_again() {
    let mut host = Host::connect("prepare_threshold\x001\0");
    host.run("select 'kept'", &[]);
    host.run_simple("discard all");
    assert_eq!(host.run("select 'kept'", &[]).tags(), "31tT2DC");
    assert_eq!(host.run("select 'kept'", &[]).tags(), "2DC");
}

#[test]
fn no_more_are_kept_than_asked_for_and_the_oldest_go_first() {
    let mut host = Host::connect("prepare_threshold\x001\0statements_max\x002\0");
    let first = host.run("select 1", &[]);
    host.run("select 2", &[]);
    host.run("select 1", &[]);
    let oldest = host.run("select 2", &[]).statement;
    host.run("select 1", &[]);
    // The Close of the oldest is sent with the statement that replaces it.
    assert_eq!(host.run("select 3", &[]).tags(), "31tT2DC");
    assert_eq!(host.wait_for(kind::FORGOTTEN).a, oldest);
    assert_eq!(prepared(&mut host).len(), 2);
    assert_eq!(host.run("select 1", &[]).statement, first.statement);
}

#[test]
fn many_texts_that_come_once_are_neither_prepared_nor_kept() {
    let mut host = Host::connect("prepare_threshold\x002\0statements_max\x002\0");
    for number in 0..100 {
        host.run(&format!("select {number}"), &[]);
    }
    assert_eq!(prepared(&mut host), Vec::<String>::new());
}

#[test]
fn a_name_of_the_users_own_is_prepared_once_under_that_name() {
    let mut host = Host::connect("");
    let text = "select $1::text";
    // Names are used once it is known that the server itself is on the other end.
    let token = host.submit(0, "select 1", "first", &[]);
    host.answer(token);
    let tags: Vec<String> = ["a", "b"]
        .map(|value| host.submit(0, text, "mine", &[value]))
        .into_iter()
        .map(|token| host.answer(token).tags())
        .collect();
    assert_eq!(tags, ["1tT2DC", "12TDC"]);
    let token = host.submit(0, text, "mine", &["c"]);
    assert_eq!(host.answer(token).tags(), "2DC");
    assert_eq!(prepared(&mut host), ["first", "mine"]);
}

#[test]
fn a_name_stands_for_one_text() {
    let mut host = Host::connect("");
    host.submit(0, "select 1", "mine", &[]);
    assert_eq!(host.try_submit(0, "select 2", "mine", &[], 0.0).1, refused::NAME_TAKEN);
}

#[test]
fn a_name_whose_parse_failed_can_be_tried_again() {
    let mut host = Host::connect("");
    let text = "select * from named_later";
    let token = host.submit(0, text, "mine", &[]);
    assert_eq!(host.answer(token).error(b'C'), "42P01");
    host.run_simple("create table named_later as select 'now' as it");
    let token = host.submit(0, text, "mine", &[]);
    assert_eq!(host.answer(token).values(), ["now"]);
}

#[test]
fn a_name_whose_parse_failed_is_free_for_another_text_and_one_that_was_prepared_is_not() {
    let mut host = Host::connect("");
    let token = host.submit(0, "select nonsense", "mine", &[]);
    let meanwhile = host.try_submit(0, "select 'other'", "mine", &[], 0.0).1;
    assert_eq!(meanwhile, refused::NAME_TAKEN);
    assert_eq!(host.answer(token).error(b'C'), "42703");
    let token = host.submit(0, "select 'other'", "mine", &[]);
    assert_eq!(host.answer(token).values(), ["other"]);
    host.run_simple("deallocate all");
    assert_eq!(host.try_submit(0, "select 'third'", "mine", &[], 0.0).1, refused::NAME_TAKEN);
    let token = host.submit(0, "select 'other'", "mine", &[]);
    assert_eq!(host.answer(token).values(), ["other"]);
}

#[test]
fn of_those_that_share_a_name_a_parse_that_fails_fails_its_own_alone() {
    let mut host = Host::connect("");
    let text = "select 1 / (select count(*) from pg_class where relname = $1)";
    let first = host.submit(0, "select * from later", "mine", &[]);
    let made = host.submit(flag::SIMPLE, "create table later as select 'x' as it", "", &[]);
    let second = host.submit(0, "select * from later", "mine", &[]);
    assert_eq!(host.answer(first).error(b'C'), "42P01");
    assert_eq!(host.answer(made).end, end::COMPLETE);
    assert_eq!(host.answer(second).values(), ["x"]);
    // The statement ran and failed, but was prepared.
    let token = host.submit(0, text, "divides", &["no such"]);
    assert_eq!(host.answer(token).error(b'C'), "22012");
    assert_eq!(prepared(&mut host), ["divides"]);
}

#[test]
fn transaction_control_is_never_prepared_by_counting() {
    let mut host = Host::connect("prepare_threshold\x001\0");
    for text in ["begin", "commit", "begin", "commit", "set work_mem = '4MB'"] {
        host.run(text, &[]);
        host.run(text, &[]);
    }
    assert_eq!(prepared(&mut host), Vec::<String>::new());
}

#[test]
fn a_failed_transaction_prepares_nothing_and_goes_on_behind_its_end() {
    let mut host = Host::connect("prepare_threshold\x001\0");
    host.run("begin", &[]);
    host.run("select 1 / 0", &[]);
    assert_eq!(host.run("select 'inside'", &[]).error(b'C'), "25P02");
    host.run("rollback", &[]);
    assert_eq!(host.run("select 'inside'", &[]).values(), ["inside"]);
}
