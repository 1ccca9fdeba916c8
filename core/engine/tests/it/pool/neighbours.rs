//! Quick statements don't wait for slow ones while another connection could take them.

use std::time::Duration;

use onetrip_engine::pool::{Expected, Limits, Load, TextKey, Timings, Workload, choose};
use onetrip_engine::{Time, Token};

use super::host::{Did, Host, IDLE, max, millis};

fn report() -> TextKey {
    TextKey::of("select report()")
}

fn lookup() -> TextKey {
    TextKey::of("select 1")
}

const MICROS_50: Duration = Duration::from_micros(50);

/// A host that knows `lookup` to be quick.
fn with(connections_max: usize, connections: usize) -> Host {
    let host = Host::with(max(connections_max), connections);
    host.took(lookup(), 100, MICROS_50);
    host
}

#[test]
fn texts_that_differ_in_numbers_and_strings_only_are_one() {
    let of = TextKey::of;
    assert_eq!(
        of("select * from t where a = 1 and b = 'x'"),
        of("select * from t where a = 22 and b = 'yy'")
    );
    assert_ne!(of("select * from t where a = 1"), of("select * from u where a = 1"));
    assert_ne!(of("select a from t"), of("select b from t"));
    for text in ["", "1", "''"] {
        assert!(![TextKey::UNTOLD, TextKey::ALONE].contains(&of(text)));
    }
}

#[test]
fn a_text_is_unsure_then_likely_then_quick() {
    let timings = Timings::new(&Limits::default());
    let key = lookup();
    assert_eq!(timings.expected(key), Expected::Unsure, "it was never seen");
    timings.took(key, millis(1), Duration::ZERO);
    assert_eq!(timings.expected(key), Expected::Likely(millis(1)));
    let likely = (1..1000)
        .take_while(|_| {
            timings.took(key, millis(1), Duration::ZERO);
            timings.expected(key) == Expected::Likely(millis(1))
        })
        .count();
    assert!((25..40).contains(&likely), "{likely}");
    assert_eq!(timings.expected(key), Expected::Quick(millis(1)));
}

#[test]
fn one_slow_call_of_a_new_text_or_two_of_a_proven_one_make_it_unsure() {
    let timings = Timings::new(&Limits::default());
    let (new, proven) = (report(), lookup());
    timings.took(new, millis(1), Duration::ZERO);
    assert!(timings.took(new, millis(11), Duration::ZERO), "that was long");
    assert_eq!(timings.expected(new), Expected::Unsure);
    for _ in 0..1000 {
        assert!(!timings.took(proven, millis(1), Duration::ZERO));
    }
    timings.took(proven, millis(11), Duration::ZERO);
    assert!(!timings.expected(proven).is_unsure(), "once may be chance");
    timings.took(proven, millis(11), Duration::ZERO);
    assert!(timings.expected(proven).is_unsure());
}

#[test]
fn nothing_is_slow_that_takes_no_longer_than_a_round_trip() {
    let timings = Timings::new(&Limits::default());
    assert!(!timings.took(lookup(), millis(40), millis(40)));
    assert!(timings.took(lookup(), millis(41), millis(40)));
}

#[test]
fn more_texts_than_are_kept_are_forgotten_and_none_is_taken_for_another() {
    let timings = Timings::new(&Limits::default());
    for round in 0..3 {
        for number in 0..50_000 {
            let letters: String =
                format!("{number}").bytes().map(|b| (b - b'0' + b'a') as char).collect();
            timings.took(TextKey::of(&format!("select {letters}")), MICROS_50, Duration::ZERO);
        }
        timings.took(report(), millis(100), Duration::ZERO);
        assert!(timings.expected(report()).is_unsure(), "round {round}");
    }
}

#[test]
fn what_is_behind_another_is_measured_from_its_end() {
    let timings = Timings::new(&Limits::default());
    let mut work = Workload::new(millis(2));
    let at = |ms| Time::ZERO.after(millis(ms));
    let (first, second) =
        (work.begin(at(10), report(), &timings), work.begin(at(10), lookup(), &timings));
    assert_eq!(work.unsure(), 2);
    let end = work.end(at(112), first, &timings);
    assert_eq!((end.took, end.behind, end.slow), (millis(100), 1, true));
    let end = work.end(at(113), second, &timings);
    assert_eq!((end.took, end.behind, end.slow), (millis(1), 0, false));
    let third = work.begin(at(120), lookup(), &timings);
    assert_eq!((work.unsure(), work.expected()), (0, millis(1)));
    work.leave(third);
    assert_eq!(work.expected(), Duration::ZERO);
}

#[test]
fn quick_statements_share_one_connection_though_others_are_idle() {
    let mut host = with(5, 5);
    let first = host.place_text(lookup());
    for _ in 1..20 {
        assert_eq!(host.place_text(lookup()), first);
    }
    assert_eq!(host.take(), [], "and none is opened");
}

#[test]
fn more_than_a_millisecond_of_work_is_spread() {
    let mut host = with(2, 2);
    let mut on = [0, 0];
    for _ in 0..60 {
        on[host.place_text(lookup()).unwrap()] += 1;
    }
    assert_eq!(host.take(), []);
    assert!(on[0] > 20 && on[1] > 20, "{on:?}");
}

#[test]
fn a_statement_that_is_only_likely_to_be_quick_goes_to_an_idle_connection_but_opens_none() {
    let mut host = Host::with(max(3), 2);
    host.took(lookup(), 2, MICROS_50);
    let both = [host.place_text(lookup()), host.place_text(lookup())];
    assert!(both.contains(&Some(0)) && both.contains(&Some(1)), "{both:?}");
    assert!(host.place_text(lookup()).is_some());
    assert_eq!(host.take(), []);
}

#[test]
fn nothing_goes_behind_a_statement_that_was_never_seen_while_another_connection_may_come() {
    let mut host = with(3, 1);
    assert_eq!(host.place_text(report()), Some(0));
    assert_eq!(host.place_text(lookup()), None);
    host.wait_for(1, lookup());
    host.wait_for(2, lookup());
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Shared(1), Did::Placed(1, 1), Did::Placed(2, 1)]);
}

#[test]
fn with_one_connection_there_is_no_other_way() {
    let mut host = with(1, 1);
    assert_eq!(host.place_text(report()), Some(0));
    assert_eq!(host.place_text(lookup()), Some(0));
    assert_eq!(host.place_text(report()), Some(0));
}

#[test]
fn quick_statements_overtake_one_that_waits_to_be_alone() {
    let mut host = with(2, 2);
    assert_eq!(host.place_text(report()), Some(1));
    assert_eq!(host.place_text(lookup()), Some(0));
    assert_eq!(host.place_text(report()), None);
    host.wait_for(1, report());
    assert_eq!(host.take(), [], "one connection is left to the quick ones");
    assert_eq!(host.pool.waiting_in_order(), 0);
    assert_eq!(host.place_text(lookup()), Some(0));
    assert_eq!(host.drained(1), [Did::Placed(1, 1)]);
}

#[test]
fn one_that_waits_to_be_alone_claims_a_connection_if_another_is_left_to_the_quick_ones() {
    let mut host = with(2, 2);
    host.busy(0);
    host.busy(1);
    host.wait_for(1, report());
    let did = host.take();
    let [Did::Drain(claimed)] = did[..] else { panic!("{did:?}") };
    assert_eq!(host.place_text(lookup()), Some(1 - claimed));
    assert_eq!(host.drained(claimed), [Did::Shared(claimed), Did::Placed(1, claimed)]);
    assert_eq!(host.place_text(lookup()), Some(1 - claimed));
}

#[test]
fn when_all_connections_are_slow_the_first_that_is_free_takes_what_waits() {
    let mut host = with(2, 2);
    assert_eq!(host.place_text(report()), Some(1));
    assert_eq!(host.place_text(report()), Some(0));
    for token in 1..=3 {
        assert_eq!(host.place_text(lookup()), None);
        host.wait_for(token, lookup());
    }
    assert_eq!(host.take(), []);
    assert_eq!(host.drained(1), [Did::Placed(1, 1), Did::Placed(2, 1), Did::Placed(3, 1)]);
}

#[test]
fn those_that_are_quick_overtake_the_slow_ones_that_wait_in_front_of_them() {
    let mut host = with(2, 2);
    assert_eq!(host.place_text(report()), Some(1));
    assert_eq!(host.place_text(report()), Some(0));
    for token in 1..=3 {
        host.wait_for(token, report());
    }
    assert_eq!(host.place_text(lookup()), None, "both connections run something slow");
    host.wait_for(4, lookup());
    assert_eq!(host.take(), []);
    assert_eq!(host.drained(1), [Did::Placed(4, 1)]);
    assert_eq!(host.drained(1), [Did::Placed(1, 1)]);
}

#[test]
fn quick_statements_overtake_a_long_line_of_however_many_texts_and_it_goes_on_in_order() {
    for texts in ["a", "abcdefghij", "abcdefghijklmnopqrstuvwxyz"] {
        let mut host = with(2, 2);
        assert_eq!(host.place_text(report()), Some(1));
        assert_eq!(host.place_text(lookup()), Some(0));
        let pairs = texts.chars().flat_map(|a| texts.chars().map(move |b| format!("{a}{b}")));
        let keys: Vec<TextKey> = pairs.map(|pair| TextKey::of(&pair)).take(200).collect();
        let line = (0..200).zip(keys.into_iter().cycle());
        let tickets: Vec<_> = line.map(|(token, key)| host.wait_for(token, key)).collect();
        for gone in tickets.iter().skip(1).step_by(2) {
            assert!(host.give_up(*gone));
        }
        for token in (0..200).step_by(2) {
            assert_eq!(host.take(), [], "{texts}");
            assert_eq!(host.pool.waiting_in_order(), 0, "{texts}");
            if token % 20 == 0 {
                assert_eq!(host.place_text(lookup()), Some(0), "{texts}");
                host.wait_for(500, lookup());
                assert_eq!(host.take(), [Did::Placed(500, 0)], "{texts}");
            }
            assert_eq!(host.drained(1), [Did::Placed(token, 1)], "{texts}");
        }
        assert_eq!(host.pool.waiting(), 0);
    }
}

#[test]
fn a_flood_is_not_choosy() {
    let mut host = with(2, 2);
    assert_eq!(host.place_text(report()), Some(1));
    assert_eq!(host.place_text(report()), Some(0));
    for token in 0..1025 {
        host.pool.wait_shared(host.now, Token(token), report(), None);
    }
    let placed = host.take().iter().filter(|did| matches!(did, Did::Placed(..))).count();
    assert!(placed > 0, "the line gets no longer");
    assert!(host.pool.waiting() <= 1024);
}

#[test]
fn the_texts_of_a_flood_go_on_together_as_soon_as_one_was_answered() {
    let mut host = Host::with(max(2), 2);
    let new = report();
    assert!(host.place_text(new).is_some() && host.place_text(new).is_some());
    for token in 0..100 {
        host.wait_for(token, new);
    }
    assert_eq!(host.take(), []);
    host.took(new, 1, MICROS_50);
    assert_eq!(host.drained(0).len(), 100);
}

#[test]
fn of_many_statements_of_one_new_text_one_is_tried_first() {
    let mut host = with(10, 1);
    assert_eq!(host.place_text(report()), Some(0));
    host.wait_for(1, TextKey::of("select another()"));
    for token in 2..=10 {
        host.wait_for(token, TextKey::of("select new()"));
    }
    assert_eq!(host.take(), [Did::Open(1), Did::Open(2)], "one for each text");
    assert_eq!(host.opened(1), [Did::Shared(1), Did::Placed(1, 1)]);
    assert_eq!(host.opened(2), [Did::Shared(2), Did::Placed(2, 2)]);
    // The first is late, so the text is slow: each of the others is worth a connection.
    let late = host.pool.poll_deadline().unwrap();
    assert!(late <= host.now.after(Limits::default().slow_head + millis(1)), "{late:?}");
    host.now = late;
    host.pool.handle_time(late);
    let all = [Did::Open(3), Did::Open(4), Did::Open(5), Did::Open(6)];
    assert_eq!(host.take(), all, "as many as may be opened at once");
}

#[test]
fn a_new_text_that_turns_out_quick_opens_no_more_connections() {
    let mut host = with(10, 1);
    assert_eq!(host.place_text(report()), Some(0));
    let new = TextKey::of("select new()");
    for token in 1..=10 {
        host.wait_for(token, new);
    }
    assert_eq!(host.take(), [Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Shared(1), Did::Placed(1, 1)]);
    host.took(new, 1, MICROS_50);
    let placed: Vec<_> = (2..=10).map(|token| Did::Placed(token, 1)).collect();
    assert_eq!(host.drained(1), placed);
}

#[test]
fn when_the_connection_of_the_statement_that_is_tried_is_lost_another_is_opened_at_once() {
    let mut host = with(10, 1);
    let new = TextKey::of("select new()");
    // One that is lost as soon as it was opened would be followed by a pause.
    host.now = host.now.after(millis(1_000));
    assert_eq!(host.place_text(new), Some(0));
    host.wait_for(1, new);
    host.wait_for(2, new);
    assert_eq!(host.take(), [], "they wait for what the first one shows");
    assert_eq!(host.lost(0), [Did::Open(1)]);
    assert_eq!(host.opened(1), [Did::Shared(1), Did::Placed(1, 1)]);
}

#[test]
fn where_nobody_may_wait_one_of_a_new_text_whose_like_is_tried_is_refused() {
    let mut host = Host::with(Limits { waiting_max: 0, ..max(10) }, 0);
    let new = TextKey::of("select new()");
    host.wait_for(1, new);
    assert_eq!(host.take(), [Did::Open(0)]);
    host.wait_for(2, new);
    assert!(matches!(host.take()[..], [Did::Failed(2, _)]), "no connection is opened for it");
    assert_eq!(host.opened(0), [Did::Shared(0), Did::Placed(1, 0)]);
}

#[test]
fn texts_that_are_never_measured_make_room_for_those_that_come() {
    let mut host = with(10, 1);
    for number in 0..100 {
        let lost = TextKey::of(&"x".repeat(number + 1));
        assert_eq!(host.place_text(lost), Some(0));
        host.now = host.now.after(millis(1_000));
        assert_eq!(host.drained(0), []);
    }
    assert_eq!(host.place_text(report()), Some(0));
    for token in 1..=5 {
        host.wait_for(token, TextKey::of("select new()"));
    }
    assert_eq!(host.take(), [Did::Open(1)]);
}

#[test]
fn a_statement_that_may_be_slow_leaves_the_connection_that_was_used_last_to_the_quick_ones() {
    let idle = |nanos| Load { since: Time::from_nanos(nanos), ..IDLE };
    let now = Time::from_nanos(10);
    let loads = [("middle", idle(2)), ("warm", idle(3)), ("cold", idle(1))];
    let on = |of| choose(now, &Limits::default(), of, loads).on;
    assert_eq!(on(Expected::Unsure), Some("middle"), "so that those not needed become cold");
    let alone = choose(now, &Limits::default(), Expected::Unsure, [("warm", idle(3))]);
    assert_eq!(alone.on, Some("warm"));
    assert_eq!(on(Expected::Quick(MICROS_50)), Some("warm"));
    assert_eq!(on(Expected::Untold), Some("warm"));
}

#[test]
fn a_caller_that_wants_to_be_alone_is_never_put_behind_nor_in_front_of_others() {
    let mut host = with(2, 2);
    let alone = host.place_text(TextKey::ALONE).unwrap();
    for _ in 0..5 {
        assert_eq!(host.place_text(lookup()), Some(1 - alone));
    }
    assert_eq!(host.place_text(TextKey::ALONE), None);
}

#[test]
fn a_choice_no_longer_holds_where_another_put_something_slow() {
    let limits = Limits::default();
    let timings = Timings::new(&limits);
    timings.took(lookup(), MICROS_50, Duration::ZERO);
    let choice =
        onetrip_engine::pool::choose(Time::ZERO, &limits, timings.expected(lookup()), [(0, IDLE)]);
    assert!(choice.holds(Time::ZERO, &limits, Load { unanswered: 1, ..IDLE }));
    assert!(!choice.holds(Time::ZERO, &limits, Load { unanswered: 1, unsure: 1, ..IDLE }));
    let alone = onetrip_engine::pool::choose(Time::ZERO, &limits, Expected::Unsure, [(0, IDLE)]);
    assert!(alone.holds(Time::ZERO, &limits, IDLE));
    assert!(!alone.holds(Time::ZERO, &limits, Load { unanswered: 1, ..IDLE }));
}

#[test]
fn twenty_quick_statements_share_a_connection_to_a_distant_server_whose_round_trips_differ() {
    let (trip, jitter) = (millis(5), Duration::from_micros(600));
    let mut workload = Workload::new(trip);
    let timings = Timings::new(&Limits::default());
    let mut now = Time::ZERO.after(millis(1));
    for call in 0..100 {
        let task = workload.begin(now, lookup(), &timings);
        now = now.after(trip + jitter * (call % 10) / 10);
        workload.end(now, task, &timings);
        now = now.after(millis(1));
    }
    let mut on = [0; 3];
    for _ in 0..20 {
        let load = |which: usize| Load {
            unanswered: on[which],
            expected: if which == 0 { workload.expected() } else { Duration::ZERO },
            since: now,
            trip,
            ..IDLE
        };
        let loads = [0, 1, 2].map(|which| (which, load(which)));
        let choice = choose(now, &Limits::default(), timings.expected(lookup()), loads);
        on[choice.on.unwrap()] += 1;
        workload.begin(now, lookup(), &timings);
    }
    assert_eq!(on, [20, 0, 0]);
}

#[test]
fn texts_that_run_in_pipelines_alone_become_quick_unless_the_pipeline_is_slow() {
    let timings = Timings::new(&Limits::default());
    let mut workload = Workload::new(millis(2));
    let mut now = Time::ZERO.after(millis(1));
    let mut run = |key: TextKey, takes: Duration, completed: bool| {
        let tasks = [key, key].map(|key| workload.begin(now, key, &timings));
        now = now.after(millis(2) + takes);
        for task in tasks {
            workload.end_member(now, task, completed);
        }
        if completed {
            workload.end_pipeline(now, &timings);
        }
        assert_eq!(workload.unsure(), 0);
        now = now.after(millis(1));
    };
    run(lookup(), millis(1), false);
    run(report(), millis(200), true);
    for key in [lookup(), report()] {
        assert_eq!(timings.expected(key), Expected::Unsure);
    }
    for _ in 0..20 {
        run(lookup(), millis(1), true);
    }
    let Expected::Quick(takes) = timings.expected(lookup()) else { panic!("it is not known") };
    assert!(takes <= millis(1), "{takes:?}");
}
