//! Memory that is not available: the request or connection that needs it ends, and nothing else.

use onetrip_abi::Connection;
use onetrip_abi::completion::{close, end, kind, outcome};
use onetrip_abi::export::{
    onetrip_alloc, onetrip_completions, onetrip_connection_free, onetrip_input,
    onetrip_postgres_new, onetrip_request, onetrip_take, onetrip_transmit_len,
};
use onetrip_abi::export_redis::onetrip_redis_new;

use crate::host::Host;

/// More memory than any system has, and a length that no address space has.
const TOO_MUCH: [usize; 2] = [isize::MAX as usize, usize::MAX];

#[test]
fn memory_that_is_not_there_is_refused_and_the_connection_goes_on() {
    let mut host = Host::connect("");
    for len in TOO_MUCH {
        assert!(onetrip_alloc(len).is_null());
        // SAFETY: the connection lives, and nothing is written.
        let room = unsafe { onetrip_request(host.connection, len) };
        assert!(room.is_null());
    }
    // SAFETY: the connection lives.
    assert_eq!(unsafe { onetrip_transmit_len(host.connection) }, 0);
    assert_eq!(host.run("select 'on'", &[]).values(), ["on"]);
}

#[test]
fn a_chunk_for_which_there_is_no_memory_ends_its_connection_and_no_other() {
    let (mut host, mut neighbour) = (Host::connect(""), Host::connect(""));
    let beside = neighbour.submit(0, "select 'beside'", "", &[]);
    let sent = host.submit(0, "select 'sent'", "", &[]);
    host.write();
    let waiting = host.submit(0, "select 'waits'", "", &[]);
    // SAFETY: the connection lives, and nothing is written.
    assert!(unsafe { onetrip_input(host.connection, TOO_MUCH[0]) }.is_null());
    let closed = host.wait_for(kind::CLOSED);
    assert_eq!(closed.a, close::NO_MEMORY);
    let why = String::from_utf8(closed.block).unwrap();
    assert!(why.contains(&TOO_MUCH[0].to_string()) && why.contains("ask for less"), "{why}");
    let (first, second) = (host.answer(sent), host.answer(waiting));
    assert_eq!((first.end, first.outcome), (end::CLOSED, outcome::UNKNOWN));
    assert_eq!((second.end, second.outcome), (end::CLOSED, outcome::NOT_SENT));
    assert_eq!(neighbour.answer(beside).values(), ["beside"]);
}

#[test]
fn a_chunk_that_is_too_large_ends_a_connection_to_redis() {
    // SAFETY: there are no settings, and the connection is freed at the end.
    let connection: *mut Connection = unsafe { onetrip_redis_new(0.0, std::ptr::null(), 0) };
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = std::net::TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    let mut host = Host::over(socket, connection);
    // SAFETY: the connection lives, and nothing is written.
    assert!(unsafe { onetrip_input(host.connection, TOO_MUCH[0]) }.is_null());
    let closed = host.wait_for(kind::CLOSED);
    assert_eq!((closed.a, closed.b), (close::NO_MEMORY, 0));
}

#[test]
fn a_row_that_is_too_long_ends_its_connection_and_no_other() {
    let mut host = Host::connect("message_bytes_max\x00300000\0");
    let mut neighbour = Host::connect("");
    let row = "select repeat('x', $1::int)";
    assert_eq!(host.run(row, &["299000"]).values()[0].len(), 299_000);
    let failed = host.run(row, &["300000"]);
    assert_eq!((failed.end, failed.outcome), (end::CLOSED, outcome::UNKNOWN));
    let closed = host.wait_for(kind::CLOSED);
    assert_eq!(closed.a, close::NO_MEMORY);
    assert!(String::from_utf8(closed.block).unwrap().contains("ask for less at once"));
    assert_eq!(neighbour.run(row, &["300000"]).values()[0].len(), 300_000);
}

#[test]
fn a_long_text_is_not_kept_and_so_never_prepared() {
    let mut host = Host::connect("prepare_threshold\x002\0");
    let long = format!("select 1 /* {} */", "x".repeat(64 << 10));
    for (text, prepared) in [("select 1", "2DC"), (&long, "12TDC")] {
        let tags: Vec<String> = (0..4).map(|_| host.run(text, &[]).tags()).collect();
        assert_eq!(tags[3], prepared, "{tags:?}");
    }
}

#[test]
fn settings_that_are_too_long_are_refused() {
    let long = format!("user\0me\0parameter.options\0{}\0", "x".repeat(1 << 20));
    // SAFETY: both are valid for their lengths, and the connection is freed at the end.
    let connection =
        unsafe { onetrip_postgres_new(0.0, long.as_ptr(), long.len(), [0; 18].as_ptr()) };
    // SAFETY: the connection lives until the last line, and a record until the next take.
    unsafe {
        assert_eq!(onetrip_take(connection), 1);
        let record = *onetrip_completions(connection);
        assert_eq!((record.kind, record.a), (kind::CLOSED, close::LOGIN));
        onetrip_connection_free(connection);
    }
}
