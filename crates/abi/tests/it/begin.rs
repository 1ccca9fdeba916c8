//! A BEGIN that leaves with the first statement of its transaction.

use std::net::{TcpListener, TcpStream};

use onetrip_abi::completion::{end, kind, outcome};
use onetrip_abi::export::{
    flag, onetrip_postgres_flush, onetrip_postgres_status, onetrip_terminate, onetrip_transmit_len,
    refused,
};

use crate::host::Host;

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

/// Runs a text that is to be answered without a byte being sent.
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

/// A message of a server.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

#[test]
fn a_begin_that_fails_is_named_at_the_first_statement_which_did_not_run() {
    // No server refuses a plain BEGIN by itself, so this one is played.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut host = Host::on(socket, "user\0me\0hold_begin\x001\0");
    host.write();
    let ready = message(b'Z', b"I");
    host.receive(&[message(b'R', &[0; 4]), ready.clone()].concat());
    host.wait_for(kind::READY);
    answered_here(&mut host, "begin");
    let first = host.submit(0, "insert into t values (1)", "", &[]);
    let second = host.submit(0, "select 2", "", &[]);
    host.write();
    let error = message(b'E', b"SERROR\0VERROR\0C53200\0Mout of memory\0\0");
    let refused = [message(b'1', b""), message(b'2', b""), error, ready.clone()].concat();
    let answered = [
        message(b'1', b""),
        message(b'2', b""),
        message(b'n', b""),
        message(b'C', b"SELECT 0\0"),
        ready,
    ];
    host.receive(&[refused, answered.concat()].concat());
    let answer = host.answer(first);
    assert_eq!((answer.end, answer.outcome), (end::BEGIN, outcome::REJECTED));
    assert_eq!(answer.error(b'C'), "53200");
    assert_eq!(status(&host), 'I');
    assert_eq!(host.answer(second).end, end::COMPLETE);
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
    // The server warns that there is a transaction already.
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
fn a_statement_for_whose_begin_there_is_no_room_is_prepared_when_there_is() {
    let extra = "hold_begin\x001\0prepare_threshold\x001\0in_flight_max\x001\0queue_max\x001\0";
    let mut host = Host::connect(extra);
    let taken = [host.submit(0, "select 1", "", &[]), host.submit(0, "select 2", "", &[])];
    host.write();
    answered_here(&mut host, "begin");
    let (_, refused_place) = host.try_submit(0, "select 'late'", "", &[], 0.0);
    assert_eq!(refused_place, refused::FULL);
    taken.into_iter().for_each(|token| drop(host.answer(token)));
    assert_eq!(host.run("select 'late'", &[]).tags(), "31tT2DC");
    assert_eq!(host.run("select 'late'", &[]).tags(), "2DC");
    assert_eq!(status(&host), 'T');
    host.run("rollback", &[]);
}
