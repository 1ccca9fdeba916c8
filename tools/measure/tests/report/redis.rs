//! What is shown of commands of Redis, alone and beside a PostgreSQL.

use onetrip_measure::report::{compare, terminal};

use crate::odd;
use crate::page::page;
use crate::synthetic::rich;

/// Without the ends of its lines.
fn shown(name: &str) -> String {
    terminal(odd::named(name)).replace('\n', " ")
}

#[test]
fn the_published_figures_of_the_pings_stand_beside_those_measured() {
    let (text, page) = (shown("redis"), page(odd::named("redis")));
    assert!(text.contains("as one pipeline, which is "), "{text}");
    assert!(text.contains("(1.19\u{a0}s and 251\u{a0}ms in Redis' own documentation)"), "{text}");
    assert!(text.contains("one by one, published") && text.contains("1,185"), "{text}");
    assert!(page.contains("pipeline, published") && page.contains("for 10,000 PINGs."), "{page}");
}

#[test]
fn each_command_by_depth_has_ten_times_depth_1_as_a_line_and_is_told_where_it_reaches_it() {
    let page = page(odd::named("redis"));
    assert_eq!(
        page.matches(">10 × depth 1<").count() + page.matches("\n10 × depth 1\n").count(),
        4
    );
    let note = "Ten times depth 1 with 0 ms added is reached at depth 100; the best is ";
    assert_eq!(page.matches(note).count(), 4, "{page}");
    assert!(!self::page(rich()).contains("10 × depth 1"));
}

#[test]
fn a_trip_that_a_script_saves_is_told_of_one_call_and_not_of_a_hundred() {
    let text = shown("redis");
    assert!(
        text.contains("in 2 trips (GET then SET)") || text.contains("(WATCH and MULTI)"),
        "{text}"
    );
    assert!(text.contains("in 1 trip (script)"), "{text}");
}

#[test]
fn a_run_on_two_servers_names_both_and_each_has_its_own_round_trips() {
    let (text, page) = (shown("two_servers"), page(odd::named("two_servers")));
    assert!(text.contains("PostgreSQL 17.2") && text.contains("Valkey 8.0.1"), "{text}");
    assert!(text.contains("At a round trip of 5.06\u{a0}ms each trip"), "{text}");
    assert!(text.contains("At a round trip of 10.1\u{a0}ms each trip"), "{text}");
    assert!(page.contains("Round trips of an empty request, as measured, in ms"), "{page}");
    assert!(page.contains("Round trips of PING (Valkey), as measured, in ms"), "{page}");
    assert!(page.contains("Settings of the server (Valkey)"), "{page}");
    assert!(page.contains("<h1>onetrip bench: PostgreSQL 17.2 and Valkey 8.0.1</h1>"), "{page}");
}

#[test]
fn two_products_are_not_compared_without_a_word() {
    let redis = odd::named("redis");
    let mut other = redis.clone();
    "Redis".clone_into(&mut other.server.product);
    let said = compare(redis, &other).to_string();
    assert!(
        said.contains("the server's version differs: Valkey 8.0.1 in A, Redis 8.0.1 in B"),
        "{said}"
    );
    assert!(said.contains("within the noise"), "{said}");
}
