//! A BEGIN that is sent with the first statement of its transaction.

use std::net::{TcpListener, TcpStream};

use onetrip_abi::completion::{end, kind, outcome};
use onetrip_abi::export::{
    flag, onetrip_deadline, onetrip_in_flight, onetrip_peer_closed, onetrip_postgres_flush,
    onetrip_postgres_is_opening, onetrip_postgres_status, onetrip_queued, onetrip_terminate,
    onetrip_time, onetrip_transmit, onetrip_transmit_len, onetrip_want_cancel,
};

use crate::host::{Answer, Host};

fn connect() -> Host {
    Host::connect("hold_begin\x001\0")
}

fn status(host: &Host) -> char {
    // SAFETY: the connection lives.
    char::from(unsafe { onetrip_postgres_status(host.connection) } as u8)
}

fn unsent(host: &Host) -> usize {
    // SAFETY: the connection lives.
    unsafe { onetrip_transmit_len(host.connection) }
}

/// Runs a text that must be answered without a byte being sent.
fn answered_here(host: &mut Host, text: &str) {
    let token = host.submit(0, text, "", &[]);
    assert_eq!(unsent(host), 0, "{text}");
    let answer = host.answer(token);
    assert_eq!((answer.end, answer.tags().as_str()), (end::COMPLETE, "C"), "{text}");
}

#[test]
fn begin_is_answered_at_once_and_leaves_with_the_first_statement() {
    let mut host = connect();
    answered_here(&mut host, "BEGIN");
    assert_eq!(status(&host), 'T');
    let first = host.run("select now() = statement_timestamp(), txid_current()::text", &[]);
    assert_eq!(first.end, end::COMPLETE);
    assert_eq!(status(&host), 'T');
    let [a, b] = [0, 1].map(|_| host.run("select txid_current()::text", &[]).values());
    assert_eq!(a, b);
    assert_eq!(host.run("commit", &[]).end, end::COMPLETE);
    assert_eq!(status(&host), 'I');
    assert_ne!(host.run("select txid_current()::text", &[]).values(), a);
}

#[test]
fn a_transaction_in_which_nothing_happens_sends_nothing() {
    let mut host = connect();
    for last in ["COMMIT", "rollback", "end transaction;"] {
        answered_here(&mut host, "start transaction isolation level serializable");
        answered_here(&mut host, last);
        assert_eq!(status(&host), 'I');
    }
    assert_eq!(host.run("select 1", &[]).values(), ["1"]);
}

#[test]
fn the_modes_of_a_transaction_are_those_of_its_begin() {
    let mut host = connect();
    answered_here(&mut host, "begin isolation level repeatable read, read only");
    let level = host.run("show transaction_isolation", &[]);
    assert_eq!(level.values(), ["repeatable read"]);
    let failed = host.run("create table never (it int)", &[]);
    assert_eq!(failed.error(b'C'), "25006");
    assert_eq!(status(&host), 'E');
    host.run("rollback", &[]);
}

#[test]
fn a_first_statement_that_fails_leaves_a_failed_transaction() {
    let mut host = connect();
    answered_here(&mut host, "begin");
    assert_eq!(host.run("select 1 / 0", &[]).error(b'C'), "22012");
    assert_eq!(status(&host), 'E');
    assert_eq!(host.run("select 1", &[]).error(b'C'), "25P02");
    assert_eq!(host.run("commit", &[]).tags(), "12nC");
    assert_eq!(status(&host), 'I');
}

#[test]
fn begin_leaves_with_the_question_for_what_a_statement_takes() {
    let mut host = connect();
    for (text, then) in [("select $1::int", 'T'), ("select nothing", 'E')] {
        answered_here(&mut host, "begin");
        let asked = host.submit(flag::DESCRIBE, text, "", &[]);
        let failed = host.answer(asked).end != end::COMPLETE;
        assert_eq!((failed, status(&host)), (then == 'E', then), "{text}");
        assert_eq!(host.run("rollback", &[]).end, end::COMPLETE);
        assert_eq!(status(&host), 'I');
    }
}

/// A message of a server.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

/// A host and a simulated server, because no real server refuses a plain BEGIN.
struct Played {
    host: Host,
    /// Whether the server accepts BEGIN after all.
    begins: bool,
    /// The other end of the socket, which the test does not read.
    _listener: TcpListener,
}

/// ReadyForQuery outside a transaction.
const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];

impl Played {
    fn begin(extra: &str) -> Played {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut host = Host::on(socket, &format!("user\0me\0hold_begin\x001\0{extra}"));
        host.write();
        host.receive(&[&message(b'R', &[0; 4])[..], &READY].concat());
        host.wait_for(kind::READY);
        answered_here(&mut host, "begin");
        Played { host, begins: false, _listener: listener }
    }

    /// Takes the bytes to send and answers them like a server that refuses BEGIN. Such a server
    /// knows no portal afterwards.
    fn answer(&mut self) -> Vec<u8> {
        let host = &mut self.host;
        // SAFETY: the connection lives, and what is to be sent is copied.
        let sent = unsafe {
            let len = onetrip_transmit_len(host.connection);
            std::slice::from_raw_parts(onetrip_transmit(host.connection), len).to_vec()
        };
        host.write();
        let (mut answers, mut rest, mut skips) = (Vec::new(), &sent[..], false);
        while let Some((head, _)) = rest.split_first_chunk::<5>() {
            let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize + 1;
            let (whole, behind) = rest.split_at(len);
            rest = behind;
            let body = &whole[5..];
            let answer = match head[0] {
                b'S' => READY.to_vec(),
                b'f' => continue,
                _ if skips => continue,
                b'P' => message(b'1', b""),
                b'B' => message(b'2', b""),
                b'D' if body == b"P\0" => message(b'n', b""),
                b'E' if body[0] == 0 => message(b'C', b"SELECT 0\0"),
                b'E' if self.begins => message(b'C', b"BEGIN\0"),
                b'Q' => [&message(b'C', b"SELECT 0\0")[..], &READY].concat(),
                b'D' if self.begins => message(b'n', b""),
                b'D' => error("34000", "no such portal"),
                _ => error("53200", "out of memory"),
            };
            skips = head[0] != b'S' && answer[0] == b'E';
            answers.extend(answer);
        }
        host.receive(&answers);
        host.take();
        sent
    }

    /// Submits a text by the simple protocol, and returns how it ended.
    fn run(&mut self, text: &str) -> Answer {
        let token = self.host.submit(flag::SIMPLE, text, "", &[]);
        self.answer();
        self.host.answer(token)
    }
}

fn error(code: &str, text: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0VERROR\0C{code}\0M{text}\0\0").as_bytes())
}

fn is_refused(answer: &Answer, outcome: u32) -> bool {
    let how = (answer.end, answer.outcome);
    how == (end::BEGIN, outcome) && answer.error(b'C') == "53200"
}

#[test]
fn a_begin_that_fails_is_named_at_all_statements_of_its_transaction_none_of_which_run() {
    for extra in ["", "in_flight_max\x001\0"] {
        let mut played = Played::begin(extra);
        let host = &mut played.host;
        let texts = ["insert into t values (1)", "select 2", "commit"];
        let simple = [0, flag::SIMPLE, flag::SIMPLE];
        let tokens: Vec<u32> = std::iter::zip(simple, texts)
            .map(|(flags, text)| host.submit(flags, text, "", &[]))
            .collect();
        let behind = host.submit(0, "select 'outside'", "", &[]);
        (0..4).for_each(|_| drop(played.answer()));
        for token in tokens {
            let answer = played.host.answer(token);
            assert!(is_refused(&answer, outcome::REJECTED), "{answer:?}");
        }
        assert_eq!(played.host.answer(behind).end, end::COMPLETE);
        assert_eq!(status(&played.host), 'I');
    }
}

#[test]
fn behind_a_begin_that_failed_nothing_is_sent_before_the_end_of_the_transaction() {
    let mut played = Played::begin("");
    assert!(is_refused(&played.run("insert into t values (1)"), outcome::REJECTED));
    assert_eq!(status(&played.host), 'E');
    let texts = ["select 1", "begin", "rollback to a", "commit; select 1", "rollback and chain"];
    for text in texts {
        let token = played.host.submit(flag::SIMPLE, text, "", &[]);
        assert_eq!(unsent(&played.host), 0, "{text}");
        assert!(is_refused(&played.host.answer(token), outcome::NOT_SENT), "{text}");
    }
    assert_eq!(status(&played.host), 'E');
    for text in ["rollback; select 1", "select 1"] {
        assert_eq!(played.run(text).end, end::COMPLETE);
    }
    for last in ["rollback", "COMMIT;"] {
        let mut played = Played::begin("");
        played.run("select 1");
        let token = played.host.submit(flag::SIMPLE, last, "", &[]);
        assert_eq!(unsent(&played.host), 0);
        // As the server ends a failed transaction.
        assert!(played.host.answer(token).messages.windows(8).any(|it| it == b"ROLLBACK"));
        assert_eq!(status(&played.host), 'I');
        assert_eq!(played.run("select 1").end, end::COMPLETE);
    }
}

#[test]
fn what_can_not_be_guarded_waits_for_the_answer_to_begin_and_what_is_behind_it_too() {
    let texts = [
        "select 1; select 2",
        "copy t from stdin",
        "create function f() begin ATOMIC end; select 1",
        "select '$1'",
        "/* nothing */;",
        "commit and chain",
    ];
    for (text, begins) in texts.into_iter().flat_map(|text| [(text, true), (text, false)]) {
        let mut played = Played::begin("");
        played.begins = begins;
        let waits = played.host.submit(flag::SIMPLE, text, "", &[]);
        let behind = played.host.submit(0, "select 'behind'", "", &[]);
        let sync = played.host.sync();
        assert_eq!(status(&played.host), 'T');
        let sent = played.answer();
        assert!(!sent.windows(6).any(|it| it == b"behind"), "{text}");
        let sent = played.answer();
        assert_eq!(!sent.is_empty(), begins, "{text}");
        if begins {
            played.answer();
        }
        for token in [waits, behind, sync] {
            let answer = played.host.answer(token);
            match begins {
                true => assert_eq!(answer.end, end::COMPLETE, "{text}"),
                false => assert!(is_refused(&answer, outcome::NOT_SENT), "{text}"),
            }
        }
    }
}

#[test]
fn what_waits_for_begin_can_be_taken_back_and_has_a_deadline_and_ends_with_the_connection() {
    let mut played = Played::begin("");
    let host = &mut played.host;
    let (late, _) = host.try_submit(flag::SIMPLE, "select 1; select 2", "", &[], 5.0);
    let wanted = host.submit(0, "select 3", "", &[]);
    let last = host.submit(0, "select 4", "", &[]);
    host.write();
    // SAFETY: the connection lives.
    unsafe {
        assert!(onetrip_deadline(host.connection) <= host.now() + 5.0);
        onetrip_want_cancel(host.connection, host.now(), wanted);
        onetrip_time(host.connection, host.now() + 6.0);
        onetrip_peer_closed(host.connection);
    }
    let ends = [(late, end::DEADLINE), (wanted, end::CANCELLED), (last, end::CLOSED)];
    for (token, how) in ends {
        let answer = host.answer(token);
        assert_eq!((answer.end, answer.outcome), (how, outcome::NOT_SENT));
    }
}

#[test]
fn a_sync_point_tells_whether_a_transaction_has_begun() {
    let is_opening = |host: &Host| {
        // SAFETY: the connection lives.
        unsafe { onetrip_postgres_is_opening(host.connection) }
    };
    for begins in [true, false] {
        let mut played = Played::begin("");
        played.begins = begins;
        assert!(is_opening(&played.host));
        let sync = played.host.sync();
        assert!(!played.answer().is_empty());
        let answer = played.host.answer(sync);
        assert_eq!(is_opening(&played.host), !begins);
        if begins {
            assert_eq!(answer.end, end::COMPLETE);
            continue;
        }
        assert!(is_refused(&answer, outcome::REJECTED));
        let again = played.host.sync();
        assert!(is_refused(&played.host.answer(again), outcome::NOT_SENT));
        // The next caller is not affected.
        // SAFETY: the connection lives.
        unsafe { onetrip_postgres_flush(played.host.connection, played.host.now()) };
        assert_eq!((status(&played.host), is_opening(&played.host)), ('I', false));
        assert_eq!(played.run("select 1").end, end::COMPLETE);
    }
}

#[test]
fn a_begin_that_nobody_goes_on_with_concerns_nobody_when_it_fails() {
    let mut played = Played::begin("");
    // SAFETY: the connection lives.
    unsafe { onetrip_postgres_flush(played.host.connection, played.host.now()) };
    assert_eq!(played.run("select 'a stranger'").end, end::COMPLETE);
    assert_eq!(status(&played.host), 'I');
}

#[test]
fn one_at_a_time_begin_and_the_first_statement_share_a_trip_all_the_same() {
    let mut host = Host::connect("hold_begin\x001\0in_flight_max\x001\0");
    answered_here(&mut host, "begin");
    let texts = ["select 1", "select 2", "commit"];
    let tokens = texts.map(|text| host.submit(flag::SIMPLE, text, "", &[]));
    // SAFETY: the connection lives.
    let counts = unsafe { (onetrip_in_flight(host.connection), onetrip_queued(host.connection)) };
    assert_eq!(counts, (1, 2));
    let answers = tokens.map(|token| host.answer(token));
    assert_eq!(answers.map(|answer| answer.end), [end::COMPLETE; 3]);
    assert_eq!(status(&host), 'I');
}

#[test]
fn guards_let_a_transaction_through_that_has_begun_even_if_it_failed_since() {
    let steps = [
        ("select 1", "", ""),
        ("select 1", "", ""),
        ("select 'mine'", "mine", ""),
        ("savepoint a", "", ""),
        ("select 1 / 0", "", "22012"),
        ("select 1", "", "25P02"),
        ("rollback to a", "", ""),
        ("select 'mine'", "mine", ""),
        ("commit", "", ""),
        ("select 'behind it'", "", ""),
        ("savepoint a", "", "25P01"),
    ];
    for extra in ["", "prepare_threshold\x001\0", "in_flight_max\x001\0"] {
        let mut host = Host::connect(&format!("hold_begin\x001\0{extra}"));
        answered_here(&mut host, "begin");
        let tokens = steps.map(|(text, name, _)| host.submit(0, text, name, &[]));
        for (token, (text, _, code)) in std::iter::zip(tokens, steps) {
            let answer = host.answer(token);
            let seen = if answer.end == end::SERVER { answer.error(b'C') } else { String::new() };
            assert_eq!(seen, code, "{text}, {extra}");
        }
        assert_eq!(status(&host), 'I');
    }
}

#[test]
fn a_pipeline_of_members_may_be_the_first_of_a_transaction() {
    let mut host = connect();
    answered_here(&mut host, "begin");
    let members = ["select 1", "select 2"].map(|text| host.submit(flag::MEMBER, text, "", &[]));
    let sync = host.sync();
    let behind = host.submit(0, "select 3", "", &[]);
    assert_eq!(host.answer(sync).end, end::COMPLETE);
    let ends = [members[0], members[1], behind].map(|token| host.answer(token).end);
    assert_eq!(ends, [end::PROVISIONAL, end::PROVISIONAL, end::COMPLETE]);
    assert_eq!(status(&host), 'T');
    host.run("rollback", &[]);
}

#[test]
fn a_begin_behind_something_on_its_way_is_sent_so_that_answers_keep_their_order() {
    let mut host = connect();
    let first = host.submit(0, "select 1", "", &[]);
    let begin = host.submit(0, "begin", "", &[]);
    host.take();
    assert!(host.happened.is_empty());
    assert_eq!([first, begin].map(|token| host.answer(token).end), [end::COMPLETE; 2]);
    assert_eq!(status(&host), 'T');
    host.run("rollback", &[]);
}

#[test]
fn several_statements_in_one_text_run_inside_the_transaction() {
    let mut host = connect();
    answered_here(&mut host, "begin");
    let several = host.run_simple("select txid_current()::text; select txid_current()::text");
    let values = several.values();
    assert_eq!(values[0], values[1]);
    assert_eq!(host.run("select txid_current()::text", &[]).values(), [values[0].clone()]);
    assert_eq!(status(&host), 'T');
    host.run("rollback", &[]);
}

#[test]
fn a_begin_in_a_transaction_or_behind_one_on_its_way_is_sent_as_it_is() {
    let mut host = connect();
    answered_here(&mut host, "begin");
    let again = host.run("begin", &[]);
    assert_eq!(again.end, end::COMPLETE);
    // The server warns that a transaction is already open.
    assert!(String::from_utf8_lossy(&host.wait_for(kind::EVENT).block).contains("25001"));
    let commit = host.submit(0, "commit", "", &[]);
    let begin = host.submit(0, "begin", "", &[]);
    assert!(unsent(&host) > 0);
    host.answer(commit);
    assert_eq!(host.answer(begin).tags(), "12nC");
    assert_eq!(status(&host), 'T');
    host.run("rollback", &[]);
}

#[test]
fn transactions_that_follow_one_another_without_waiting_each_have_their_begin() {
    let mut host = connect();
    let mut tokens = Vec::new();
    for _ in 0..10 {
        for text in ["begin", "select txid_current()::text", "commit"] {
            tokens.push(host.submit(0, text, "", &[]));
        }
    }
    let answers: Vec<_> = tokens.into_iter().map(|token| host.answer(token)).collect();
    assert!(answers.iter().all(|answer| answer.end == end::COMPLETE), "{answers:?}");
    let mut ids: Vec<String> = answers.iter().flat_map(|answer| answer.values()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 10);
}

#[test]
fn a_flush_sends_what_is_held_and_a_goodbye_too() {
    let mut host = connect();
    answered_here(&mut host, "begin");
    // SAFETY: the connection lives.
    unsafe { onetrip_postgres_flush(host.connection, host.now()) };
    assert!(unsent(&host) > 0);
    host.run("select 1", &[]);
    assert_eq!(status(&host), 'T');
    host.run("rollback", &[]);
    answered_here(&mut host, "begin");
    // SAFETY: the connection lives.
    unsafe { onetrip_terminate(host.connection, host.now()) };
    host.wait_for(kind::CLOSED);
}

#[test]
fn a_statement_that_is_refused_leaves_the_transaction_to_the_next() {
    let mut host = connect();
    answered_here(&mut host, "begin");
    host.try_submit(0, "select 1\0", "", &[], 0.0);
    let first = host.run("select 'next'", &[]);
    assert_eq!(first.values(), ["next"]);
    assert_eq!(status(&host), 'T');
    host.run("rollback", &[]);
}

#[test]
fn begin_is_not_held_unless_that_was_asked_for() {
    let mut host = Host::connect("");
    let token = host.submit(0, "begin", "", &[]);
    assert!(unsent(&host) > 0);
    host.answer(token);
    let simple = host.submit(flag::SIMPLE, "rollback", "", &[]);
    assert_eq!(host.answer(simple).end, end::COMPLETE);
}

#[test]
fn a_row_that_answers_a_begin_is_nobodys() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut host = Host::on(socket, "user\0me\0hold_begin\x001\0pieces\x001\0");
    host.write();
    host.receive(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
    let begin = host.submit(0, "begin", "", &[]);
    let first = host.submit(0, "select 1", "", &[]);
    host.write();
    host.receive(b"1\0\0\0\x042\0\0\0\x04D\0\x04\0\0\0\x01");
    host.take();
    let mut tokens = host.happened.iter().map(|it| it.token);
    assert!(tokens.all(|token| [0, begin, first].contains(&token)));
}
