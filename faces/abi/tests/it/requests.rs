//! What requests are answered with, and how they end.

use std::net::{Shutdown, TcpListener, TcpStream};

use onetrip_abi::completion::{close, end, event, kind, outcome};
use onetrip_abi::export::{
    flag, onetrip_begin_cancel, onetrip_cancel, onetrip_deadline, onetrip_in_flight,
    onetrip_is_between, onetrip_peer_closed, onetrip_postgres_status, onetrip_queued,
    onetrip_terminate, onetrip_time, onetrip_transmit_len, onetrip_want_cancel, refused,
};

use crate::host::{Host, parameters};

#[test]
fn a_statement_is_answered_by_its_description_its_rows_and_its_tag() {
    let mut host = Host::connect("");
    let answer = host.run("select generate_series(1, 3)", &[]);
    assert_eq!((answer.tags().as_str(), answer.end), ("12TDDDC", end::COMPLETE));
    assert_eq!(answer.values(), ["1", "2", "3"]);
}

#[test]
fn requests_that_leave_together_are_answered_each_by_its_own_reply() {
    let mut host = Host::connect("in_flight_max\x0064\0");
    let tokens: Vec<u32> = (0..1_000)
        .map(|number| host.submit(0, "select $1::int + 1", "", &[&number.to_string()]))
        .collect();
    // SAFETY: the connection lives.
    let (sent, queued) =
        unsafe { (onetrip_in_flight(host.connection), onetrip_queued(host.connection)) };
    assert_eq!((sent, queued), (64, 936));
    for (number, token) in tokens.into_iter().enumerate() {
        assert_eq!(host.answer(token).values(), [(number + 1).to_string()]);
    }
    let told: Vec<u32> = host.happened.iter().map(|it| it.kind).collect();
    assert_eq!(told, [kind::FULL, kind::DRAINED]);
}

#[test]
fn a_message_that_has_begun_is_told_until_it_has_come_whole() {
    let mut host = Host::connect("");
    let notice = [&b"N\0\0\0\x0dMlately\0\0"[..], &b"N\0\0\0\x05\0"[..]].concat();
    let between: Vec<bool> = notice
        .iter()
        .map(|&byte| {
            host.receive(&[byte]);
            // SAFETY: the connection lives.
            unsafe { onetrip_is_between(host.connection) }
        })
        .collect();
    let ends: Vec<usize> = (0..notice.len()).filter(|&at| between[at]).collect();
    assert_eq!(ends, [13, 19]);
}

#[test]
fn one_that_fails_leaves_its_neighbours_alone() {
    let mut host = Host::connect("");
    let before = host.submit(0, "select 'before'", "", &[]);
    let failing = host.submit(0, "select 1 / $1::int", "", &["0"]);
    let behind = host.submit(0, "select 'behind'", "", &[]);
    assert_eq!(host.answer(before).values(), ["before"]);
    let failed = host.answer(failing);
    assert_eq!((failed.end, failed.outcome), (end::SERVER, outcome::REJECTED));
    assert_eq!(
        (failed.error(b'C'), failed.error(b'M')),
        ("22012".into(), "division by zero".into())
    );
    assert_eq!(host.answer(behind).values(), ["behind"]);
}

#[test]
fn several_statements_in_one_text_are_a_simple_query_in_its_own_place() {
    let mut host = Host::connect("");
    let before = host.submit(0, "select 'before'", "", &[]);
    let several = host.submit(flag::SIMPLE, "select 'one'; select 'two'", "", &[]);
    let behind = host.submit(0, "select 'behind'", "", &[]);
    assert_eq!(host.answer(before).values(), ["before"]);
    let answer = host.answer(several);
    assert_eq!(
        (answer.tags().as_str(), answer.values()),
        ("TDCTDC", vec!["one".into(), "two".into()])
    );
    assert_eq!(host.answer(behind).values(), ["behind"]);
}

#[test]
fn several_statements_of_which_one_fails_may_have_taken_effect_in_part() {
    let mut host = Host::connect("");
    let failed = host.run_simple("select 1; select 1 / 0");
    assert_eq!((failed.end, failed.outcome), (end::SERVER, outcome::UNKNOWN));
}

#[test]
fn a_segment_fails_as_a_whole_and_its_neighbours_do_not() {
    let mut host = Host::connect("");
    host.run_simple("create temp table noted (it int primary key)");
    let insert = "insert into noted values ($1::int)";
    let first = host.submit(flag::MEMBER, insert, "", &["1"]);
    let failing = host.submit(flag::MEMBER, insert, "", &["1"]);
    let skipped = host.submit(flag::MEMBER, insert, "", &["2"]);
    let all = host.sync();
    let behind = host.submit(0, "select count(*)::text from noted", "", &[]);
    assert_eq!(host.answer(failing).error(b'C'), "23505");
    assert_eq!(host.answer(skipped).end, end::ABORTED);
    assert_ne!(host.answer(all).end, end::COMPLETE);
    assert_eq!(host.answer(first).end, end::PROVISIONAL);
    assert_eq!(host.answer(behind).values(), ["0"]);
}

#[test]
fn the_status_of_the_transaction_is_as_the_server_told_it() {
    let mut host = Host::connect("");
    // SAFETY: the connection lives.
    let status = |host: &Host| unsafe { onetrip_postgres_status(host.connection) } as u8;
    assert_eq!(status(&host), b'I');
    host.run("begin", &[]);
    assert_eq!(status(&host), b'T');
    host.run("select 1 / 0", &[]);
    assert_eq!(status(&host), b'E');
    host.run("rollback", &[]);
    assert_eq!(status(&host), b'I');
}

#[test]
fn a_copy_without_a_source_fails_and_the_connection_goes_on() {
    let mut host = Host::connect("");
    host.run_simple("create temp table copied (it text)");
    let failed = host.run_simple("copy copied from stdin");
    assert_eq!((failed.end, failed.error(b'C')), (end::SERVER, "57014".into()));
    assert!(failed.error(b'M').contains("No source stream defined"));
    let missing = host.run_simple("copy nothing_of_that_name from stdin");
    assert_eq!(missing.error(b'C'), "42P01");
    assert_eq!(host.run_simple("copy (values ('out')) to stdout").tags(), "HdcC");
    assert_eq!(host.run("select 'on'", &[]).values(), ["on"]);
}

#[test]
fn what_is_no_request_is_refused_and_nothing_of_it_sent() {
    let mut host = Host::connect("");
    let wrong: [(u32, &str, &str, &[u8]); 8] = [
        (0, "select 1\0", "", b""),
        (0, "select $1", "", b"\0\0\0\x01\0\0\0\x05abc"),
        (0, "select $1", "", b"\0\0\0\x01\0\0\0\x03abcd"),
        (0, "select $1", "", b"\0\x02\0\0\0\0\0\x01\0\0\0\x03abc"),
        (0, "select $1", "", b"\0\x01\0\x02\0\x01\0\0\0\x03abc"),
        (1 << 9, "select 1", "", b""),
        (flag::SIMPLE, "select 1", "name", b""),
        (flag::SIMPLE, "select $1", "", b"\0\0\0\0"),
    ];
    for (flags, text, name, parameters) in wrong {
        let (_, place) = host.try_submit(flags, text, name, parameters, 0.0);
        assert_eq!(place, refused::MALFORMED, "{text} {parameters:?}");
    }
    // SAFETY: the connection lives.
    assert_eq!(unsafe { onetrip_transmit_len(host.connection) }, 0);
    assert_eq!(host.run("select 'on'", &[]).values(), ["on"]);
}

#[test]
fn a_full_queue_refuses_and_what_was_taken_is_answered() {
    let mut host = Host::connect("in_flight_max\x001\0queue_max\x001\0");
    let taken = [host.submit(0, "select 'a'", "", &[]), host.submit(0, "select 'b'", "", &[])];
    assert_eq!(host.try_submit(0, "select 'c'", "", &[], 0.0).1, refused::FULL);
    assert_eq!(taken.map(|token| host.answer(token).values()), [["a"], ["b"]]);
}

#[test]
fn what_waits_can_be_taken_back_and_what_was_sent_can_not() {
    let mut host = Host::connect("in_flight_max\x001\0");
    let sent = host.try_submit(0, "select 'sent'", "", &[], 0.0);
    let queued = host.try_submit(0, "select 'queued'", "", &[], 0.0);
    // SAFETY: the connection lives.
    unsafe {
        assert!(!onetrip_cancel(host.connection, 0.0, sent.1));
        assert!(onetrip_cancel(host.connection, 0.0, queued.1));
        assert!(!onetrip_cancel(host.connection, 0.0, queued.1));
    }
    let answer = host.answer(queued.0);
    assert_eq!((answer.end, answer.outcome), (end::CANCELLED, outcome::NOT_SENT));
    assert_eq!(host.answer(sent.0).values(), ["sent"]);
}

#[test]
fn a_deadline_passes_when_the_host_says_so_and_the_late_reply_goes_to_nobody() {
    let mut host = Host::connect("");
    let (late, _) = host.try_submit(0, "select 'late'", "", &[], 5_000.0);
    let behind = host.submit(0, "select 'behind'", "", &[]);
    // SAFETY: the connection lives.
    unsafe {
        assert!(onetrip_deadline(host.connection) <= host.now() + 5_000.0);
        host.write();
        onetrip_time(host.connection, host.now() + 6_000.0);
    }
    let answer = host.answer(late);
    assert_eq!((answer.end, answer.outcome), (end::DEADLINE, outcome::UNKNOWN));
    assert_eq!(host.answer(behind).values(), ["behind"]);
    assert!(!host.happened.iter().any(|it| it.token == late));
}

#[test]
fn a_lost_connection_ends_each_request_once_with_what_is_known_of_it() {
    let mut host = Host::connect("in_flight_max\x001\0");
    let sent = host.submit(0, "select pg_sleep(100)", "", &[]);
    let queued = host.submit(0, "select 1", "", &[]);
    host.write();
    host.socket().shutdown(Shutdown::Both).unwrap();
    // SAFETY: the connection lives.
    unsafe { onetrip_peer_closed(host.connection) };
    assert_eq!(host.wait_for(kind::CLOSED).a, close::HOST);
    let ends = [sent, queued].map(|token| host.answer(token)).map(|it| (it.end, it.outcome));
    assert_eq!(ends, [(end::CLOSED, outcome::UNKNOWN), (end::CLOSED, outcome::NOT_SENT)]);
    assert_eq!(host.try_submit(0, "select 1", "", &[], 0.0).1, refused::CLOSED);
    host.take();
    assert!(host.happened.iter().all(|it| it.token == 0), "{:?}", host.happened);
}

#[test]
fn a_terminated_connection_is_ended_by_the_server_with_the_reason() {
    let mut host = Host::connect("");
    let mut other = Host::connect("");
    let process = host.run("select pg_backend_pid()", &[]).values();
    other.run("select pg_terminate_backend($1::int)", &[&process[0]]);
    let closed = host.wait_for(kind::CLOSED);
    assert_eq!(closed.a, close::SERVER);
    assert!(String::from_utf8_lossy(&closed.block).contains("57P01"));
}

#[test]
fn a_goodbye_waits_for_what_was_asked_before() {
    let mut host = Host::connect("");
    let asked = host.submit(0, "select 'asked'", "", &[]);
    // SAFETY: the connection lives.
    unsafe { onetrip_terminate(host.connection, host.now()) };
    assert_eq!(host.try_submit(0, "select 1", "", &[], 0.0).1, refused::CLOSED);
    assert_eq!(host.answer(asked).values(), ["asked"]);
    assert_eq!(host.wait_for(kind::CLOSED).a, close::HOST);
}

#[test]
fn notifications_notices_and_changed_settings_belong_to_no_request() {
    let mut host = Host::connect("");
    let texts = [
        ("listen abi_channel; notify abi_channel, 'told'", event::NOTIFICATION, "told"),
        ("do $$ begin raise notice 'noted'; end $$", event::NOTICE, "noted"),
        ("set application_name = 'named'", event::PARAMETER_STATUS, "named"),
    ];
    for (text, which, content) in texts {
        assert_eq!(host.run_simple(text).end, end::COMPLETE);
        let happened = host.wait_for(kind::EVENT);
        assert_eq!((happened.a, happened.token), (which, 0));
        assert!(String::from_utf8_lossy(&happened.block).contains(content));
    }
}

#[test]
fn a_token_is_free_again_when_its_request_has_ended() {
    let mut host = Host::connect("");
    let (token, _) = host.try_submit(0, "select 1", "", &[], 0.0);
    let request = onetrip_abi::export::onetrip_postgres_submit;
    // SAFETY: the connection lives, and its room still holds the request.
    let again = unsafe { request(host.connection, 0.0, token, 0, 8, 0, 8, 0.0, 0) };
    assert_eq!(again, refused::MALFORMED);
    host.answer(token);
    // SAFETY: as above.
    let again = unsafe { request(host.connection, 0.0, token, 0, 8, 0, 8, 0.0, 0) };
    assert_eq!((again, host.answer(token).values()), (0.0, vec!["1".into()]));
}

#[test]
fn binary_results_are_asked_for_by_a_flag() {
    let mut host = Host::connect("");
    let token = host.submit(flag::BINARY, "select 258", "", &[]);
    assert!(host.answer(token).messages.windows(4).any(|bytes| bytes == [0, 0, 1, 2]));
    assert_eq!(parameters(&["x"]).len(), 9);
}

#[test]
fn a_long_row_is_put_together_unless_pieces_are_asked_for() {
    let text = "select repeat('x', 300000)";
    let mut whole = Host::connect("");
    let token = whole.submit(0, text, "", &[]);
    let answer = whole.answer(token);
    assert_eq!((answer.tags().as_str(), answer.values()[0].len()), ("12TDC", 300_000));

    let mut pieces = Host::connect("pieces\x001\0");
    let token = pieces.submit(0, text, "", &[]);
    let first = pieces.wait_for(kind::PIECE);
    assert_eq!((first.token, first.block.len() + first.b as usize), (token, 300_000 + 11));
    pieces.answer(token);
}

#[test]
fn a_long_row_of_which_nobody_waits_any_more_is_not_mixed_into_the_next() {
    let mut host = Host::connect("");
    let text = "select repeat('x', 300000)";
    let (late, _) = host.try_submit(0, text, "", &[], 5_000.0);
    let next = host.submit(0, "select repeat('y', 300000)", "", &[]);
    host.turn();
    // SAFETY: the connection lives.
    unsafe { onetrip_time(host.connection, host.now() + 6_000.0) };
    assert_eq!(host.answer(late).end, end::DEADLINE);
    let values = host.answer(next).values();
    assert!(values[0].len() == 300_000 && values[0].bytes().all(|byte| byte == b'y'));
}

#[test]
fn a_server_that_gave_no_key_is_asked_for_no_cancel_and_holds_nothing_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut host = Host::on(socket, "user\0me\0");
    host.write();
    host.receive(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
    let token = host.submit(0, "select 1", "", &[]);
    host.write();
    // SAFETY: the connection lives.
    unsafe {
        onetrip_want_cancel(host.connection, 0.0, token);
        assert!(onetrip_begin_cancel(host.connection, 0.0).is_null());
        // What is left is the time for which the server may be silent: nobody waits any more.
        assert_eq!(onetrip_deadline(host.connection), 10_000.0);
    }
    assert_eq!(host.wait_for(kind::NOT_CANCELLED).token, token);
}

#[test]
fn a_caller_who_gave_a_request_up_waits_no_longer_than_a_cancel_may_take() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut host = Host::on(socket, "user\0me\0");
    host.write();
    host.receive(b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x07keysZ\0\0\0\x05I");
    host.share();
    let (head, behind) = (host.submit(0, "select 1", "", &[]), host.submit(0, "select 2", "", &[]));
    host.write();
    // Whole, since a time comes back with its nanoseconds rounded.
    let start = host.now().ceil();
    // SAFETY: the connection lives.
    unsafe {
        onetrip_want_cancel(host.connection, start, head);
        onetrip_want_cancel(host.connection, start + 1_000.0, behind);
        // The server never says that it has carried the cancel out.
        assert!(!onetrip_begin_cancel(host.connection, start).is_null());
        assert_eq!(onetrip_deadline(host.connection), start + 5_000.0);
        onetrip_time(host.connection, start + 5_000.0);
        assert_eq!(host.wait_for(kind::NOT_CANCELLED).token, head);
        assert_eq!(onetrip_deadline(host.connection), start + 6_000.0);
        onetrip_time(host.connection, start + 6_000.0);
    }
    assert_eq!(host.wait_for(kind::NOT_CANCELLED).token, behind);
    // They keep their places: what comes of them reaches nobody else.
    // SAFETY: the connection lives.
    assert_eq!(unsafe { onetrip_in_flight(host.connection) }, 2);
}

#[test]
fn reads_that_may_run_twice_share_a_sync_point_on_a_shared_connection_and_fail_alone() {
    let mut host = Host::connect("");
    // The server is known, so bytes that are sent ahead go out in one write.
    host.run("select 'first'", &[]);
    host.share();
    let flags = flag::REPEATABLE | flag::UNPREPARED;
    let tokens =
        ["select 'a'", "select 1 / 0", "select 'b'"].map(|text| host.submit(flags, text, "", &[]));
    assert_eq!(host.unsent_syncs(), 1);
    let [a, failed, b] = tokens.map(|token| host.answer(token));
    assert_eq!((a.values(), b.values()), (vec!["a".into()], vec!["b".into()]));
    assert_eq!((failed.error(b'C').as_str(), failed.outcome), ("22012", outcome::REJECTED));
    // A statement that writes, or that was not marked as repeatable, keeps its own sync point.
    let texts = [(flags, "insert into pg_temp.a select 1"), (flag::UNPREPARED, "select 1")];
    let tokens = texts.map(|(flags, text)| host.submit(flags, text, "", &[]));
    assert_eq!(host.unsent_syncs(), 2);
    tokens.into_iter().for_each(|token| drop(host.answer(token)));
}

/// The requests that the host may send on another connection, with their parameters.
fn unsent(host: &Host) -> Vec<(u32, Vec<u8>)> {
    let ended = |token: u32| {
        host.happened.iter().position(|it| it.kind == kind::END && it.token == token).unwrap()
    };
    let told = host.happened.iter().enumerate().filter(|(_, it)| it.kind == kind::UNSENT);
    told.map(|(at, it)| {
        assert_eq!(ended(it.token), at + 1, "it comes directly in front of the end");
        (it.token, it.block.clone())
    })
    .collect()
}

#[test]
fn what_was_not_sent_comes_back_with_its_parameters_whichever_way_it_was_to_go() {
    let mut host = Host::connect("in_flight_max\x001\0prepare_threshold\x002\0");
    let text = "select $1::text, $2::text";
    for _ in 0..3 {
        host.run(text, &["a", "b"]);
    }
    host.share();
    let sent = host.submit(0, "select pg_sleep(60)", "", &[]);
    host.write();
    let prepared = host.submit(flag::BINARY, text, "", &["one", ""]);
    let new = host.submit(0, "select $1::int", "", &["7"]);
    let plain = host.submit(0, "select 1", "", &[]);
    let simple = host.submit(flag::SIMPLE, "select 1; select 2", "", &[]);
    let question = host.submit(flag::DESCRIBE, "select $1::int", "", &[]);
    let member = host.submit(flag::MEMBER, "select 1", "", &[]);
    let all = host.sync();
    host.hang_up();
    let expected = [
        (prepared, parameters(&["one", ""])),
        (new, parameters(&["7"])),
        (plain, vec![0; 4]),
        (simple, Vec::new()),
        (question, Vec::new()),
    ];
    assert_eq!(unsent(&host), expected);
    assert_eq!(host.answer(sent).outcome, outcome::UNKNOWN);
    for token in [prepared, new, plain, simple, question, member, all] {
        let answer = host.answer(token);
        assert_eq!((answer.end, answer.outcome), (end::CLOSED, outcome::NOT_SENT));
    }
}

#[test]
fn what_belongs_to_one_caller_or_may_run_twice_or_was_to_be_cancelled_does_not_come_back() {
    let mut host = Host::connect("");
    host.submit(0, "select 1", "", &[]);
    host.hang_up();
    assert_eq!(unsent(&host), []);

    let mut host = Host::connect("");
    host.share();
    let (cancelled, other) =
        (host.submit(0, "select 1", "", &[]), host.submit(0, "select 2", "", &[]));
    host.submit(flag::REPEATABLE, "select 3", "", &[]);
    // SAFETY: the connection lives.
    unsafe { onetrip_want_cancel(host.connection, host.now(), cancelled) };
    host.hang_up();
    let tokens: Vec<u32> = unsent(&host).into_iter().map(|(token, _)| token).collect();
    assert_eq!(tokens, [other]);
}
