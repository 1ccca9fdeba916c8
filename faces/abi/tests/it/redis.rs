//! Redis as a host uses it, from the login to the end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_abi::completion::{close, end, event, kind, outcome};
use onetrip_abi::export::{onetrip_peer_closed, onetrip_request, refused};
use onetrip_abi::export_redis::{
    flag, onetrip_redis_new, onetrip_redis_scripts_as_texts, onetrip_redis_submit,
};
use onetrip_lab::redis::{Server, Settings, found_or_skipped, shared};
use onetrip_redis::Command;

use crate::host::Host;

/// A connection to the server that all tests share; `None` if no server program is installed.
fn connect(extra: &str) -> Option<Host> {
    let server = shared()?;
    let settings = format!("password\0{}\0{extra}", server.password());
    let mut host = begin(server.port(), &settings);
    host.wait_for(kind::READY);
    Some(host)
}

fn begin(port: u16, settings: &str) -> Host {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
    // SAFETY: the settings are valid for their length.
    let connection = unsafe { onetrip_redis_new(0.0, settings.as_ptr(), settings.len()) };
    Host::over(socket, connection)
}

fn encoded(commands: &[&[&str]]) -> Vec<u8> {
    let mut out = BytesMut::new();
    for words in commands {
        Command::new("").args(*words).encode(&mut out);
    }
    out.to_vec()
}

/// Submits commands under a token, and returns the result of the function.
fn submit(
    host: &mut Host,
    (token, flags, replies): (u32, u32, u32),
    text: &str,
    commands: &[&[&str]],
) -> f64 {
    let request = [text.as_bytes(), &encoded(commands)].concat();
    let now = host.now();
    // SAFETY: the connection lives, and there is room for the request.
    unsafe {
        let room = onetrip_request(host.connection, request.len());
        std::ptr::copy_nonoverlapping(request.as_ptr(), room, request.len());
        onetrip_redis_submit(
            host.connection,
            now,
            token,
            flags,
            replies,
            text.len(),
            request.len(),
            0.0,
        )
    }
}

/// A server that answers each read with the next of these.
fn scripted(answers: &'static [&'static [u8]]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        for answer in answers {
            let mut chunk = [0; 4096];
            if socket.read(&mut chunk).unwrap_or_default() == 0 {
                return;
            }
            let _ = socket.write_all(answer);
        }
        let _ = socket.read(&mut [0; 16]);
    });
    port
}

#[test]
fn commands_of_one_request_are_answered_in_one_block_errors_among_them() {
    let Some(mut host) = connect("client_name\0abi\0") else { return };
    let commands: [&[&str]; 4] = [
        &["SET", "abi:a", "1"],
        &["INCR", "abi:a"],
        &["LPUSH", "abi:a", "x"],
        &["CLIENT", "GETNAME"],
    ];
    assert_eq!(submit(&mut host, (1, 0, 4), "", &commands), 0.0);
    let answer = host.answer(1);
    assert_eq!((answer.end, answer.outcome), (end::COMPLETE, outcome::NONE));
    let text = String::from_utf8(answer.messages).unwrap();
    assert!(text.starts_with("+OK\r\n:2\r\n-WRONGTYPE "), "{text}");
    assert!(text.ends_with("$3\r\nabi\r\n"), "{text}");
}

#[test]
fn an_error_of_one_command_ends_its_request_with_what_it_left_behind() {
    let Some(mut host) = connect("") else { return };
    submit(&mut host, (1, 0, 0), "", &[&["GET"]]);
    submit(&mut host, (2, flag::LEAVES, 0), "", &[&["EVAL", "return redis.error_reply('X')", "0"]]);
    let (first, second) = (host.answer(1), host.answer(2));
    assert_eq!((first.end, first.outcome), (end::SERVER, outcome::REJECTED));
    assert!(first.messages.starts_with(b"-ERR "));
    assert_eq!((second.end, second.outcome), (end::SERVER, outcome::UNKNOWN));
}

/// How often the server has run this command.
fn calls(host: &mut Host, token: u32, command: &str) -> usize {
    submit(host, (token, 0, 0), "", &[&["INFO", "commandstats"]]);
    let stats = String::from_utf8(host.answer(token).messages).unwrap();
    let line =
        stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[test]
fn a_script_goes_as_a_text_once_and_is_loaded_where_the_server_has_forgotten_it() {
    // Other tests flush scripts, and call some.
    let Some(installation) = found_or_skipped() else { return };
    let settings = Settings { installation: Some(installation), ..Settings::default() };
    let server = Server::start(settings).unwrap();
    let settings = format!("password\0{}\0", server.password());
    let mut host = begin(server.port(), &settings);
    host.wait_for(kind::READY);
    let text = "return 'abi' .. KEYS[1]";
    submit(&mut host, (1, 0, 0), "", &[&["SCRIPT", "LOAD", text]]);
    let sha = String::from_utf8(host.answer(1).messages[5..45].to_vec()).unwrap();
    let call = |host: &mut Host, token| {
        submit(host, (token, flag::LEAVES, 0), text, &[&["EVALSHA", &sha, "1", "k"]]);
        let answer = host.answer(token);
        assert_eq!((answer.end, answer.messages), (end::COMPLETE, b"$4\r\nabik\r\n".to_vec()));
    };
    call(&mut host, 2);
    assert_eq!((calls(&mut host, 3, "eval"), calls(&mut host, 4, "evalsha")), (1, 0));
    call(&mut host, 5);
    assert_eq!((calls(&mut host, 6, "eval"), calls(&mut host, 7, "evalsha")), (1, 1));
    submit(&mut host, (8, 0, 1), "", &[&["SCRIPT", "FLUSH"]]);
    host.answer(8);
    call(&mut host, 9);
    assert_eq!((calls(&mut host, 10, "eval"), calls(&mut host, 11, "evalsha")), (1, 3));
    // SAFETY: the connection lives.
    unsafe { onetrip_redis_scripts_as_texts(host.connection) };
    call(&mut host, 12);
    call(&mut host, 13);
    assert_eq!((calls(&mut host, 14, "eval"), calls(&mut host, 15, "evalsha")), (3, 3));
}

#[test]
fn a_list_that_runs_as_a_whole_ends_the_connection_where_exec_is_refused() {
    let list: [&[&str]; 3] = [&["MULTI"], &["INCR", "abi:n"], &["EXEC"]];
    let Some(mut host) = connect("") else { return };
    submit(&mut host, (1, flag::ATOMIC, 3), "", &list);
    submit(&mut host, (2, flag::ATOMIC, 4), "", &[&[&["ASKING"][..]], &list[..]].concat());
    assert_eq!((host.answer(1).end, host.answer(2).end), (end::COMPLETE, end::COMPLETE));

    const ANSWERS: &[&[u8]] =
        &[b"%0\r\n+PONG\r\n", b"+OK\r\n+QUEUED\r\n-ERR unknown command 'EXEC'\r\n"];
    let mut host = begin(scripted(ANSWERS), "");
    host.wait_for(kind::READY);
    submit(&mut host, (1, flag::ATOMIC, 3), "", &list);
    submit(&mut host, (2, 0, 0), "", &[&["GET", "a"]]);
    assert_eq!((host.answer(1).end, host.answer(2).end), (end::CLOSED, end::CLOSED));
}

#[test]
fn a_long_reply_comes_whole() {
    let Some(mut host) = connect("") else { return };
    let long = "x".repeat(200_000);
    submit(&mut host, (1, 0, 2), "", &[&["SET", "abi:long", &long], &["GET", "abi:long"]]);
    host.answer(1);
    submit(&mut host, (2, 0, 2), "", &[&["GET", "abi:long"], &["DEL", "abi:long"]]);
    while !host.happened.iter().any(|it| it.kind == kind::END) {
        host.turn();
    }
    for it in &host.happened {
        assert!(it.block.starts_with(b"$200000\r\nx") || it.block.starts_with(b":1\r\n"));
        assert!(it.block.ends_with(b"\r\n"));
    }
}

#[test]
fn messages_are_events_and_confirmations_are_the_reply() {
    let Some(mut host) = connect("") else { return };
    submit(&mut host, (1, flag::CONFIRMED, 2), "", &[&["SUBSCRIBE", "abi:1", "abi:2"]]);
    assert_eq!(host.answer(1).end, end::COMPLETE);
    submit(&mut host, (2, 0, 0), "", &[&["PUBLISH", "abi:2", "hello"]]);
    host.answer(2);
    let message = host.wait_for(kind::EVENT);
    assert_eq!(message.a, event::PUSH);
    assert!(message.block.ends_with(b"$5\r\nabi:2\r\n$5\r\nhello\r\n"));
}

#[test]
fn a_login_tells_the_protocol_and_the_server() {
    let Some(server) = shared() else { return };
    for (protocol, extra) in [(3, ""), (2, "protocol\x002\0database\x003\0")] {
        let settings = format!("password\0{}\0{extra}", server.password());
        let mut host = begin(server.port(), &settings);
        let ready = host.wait_for(kind::READY);
        assert_eq!(ready.a, protocol);
        let told = String::from_utf8(ready.block).unwrap();
        assert_eq!(
            told.contains(&format!("version\0{}\0", server.version())),
            protocol == 3,
            "{told}"
        );
    }
}

#[test]
fn a_wrong_password_closes_for_good_with_the_servers_error() {
    let Some(server) = shared() else { return };
    let mut host = begin(server.port(), "password\0wrong\0");
    submit(&mut host, (1, 0, 0), "", &[&["PING"]]);
    let closed = host.wait_for(kind::CLOSED);
    assert_eq!((closed.a, closed.b), (close::SERVER, 1));
    assert!(closed.block.starts_with(b"WRONGPASS "));
    let answer = host.answer(1);
    assert_eq!((answer.end, answer.outcome), (end::CLOSED, outcome::NOT_SENT));
}

#[test]
fn a_server_without_hello_is_spoken_to_in_resp2() {
    let port = scripted(&[b"-ERR unknown command `HELLO`\r\n+PONG\r\n", b"+OK\r\n+PONG\r\n"]);
    let mut host = begin(port, "password\0old\0");
    assert_eq!(host.wait_for(kind::READY).a, 2);
}

#[test]
fn what_is_no_redis_and_what_still_loads_is_told_apart() {
    let cases: [(&'static [&'static [u8]], u32, u32); 3] = [
        (&[b"HTTP/1.1 400 Bad Request\r\n\r\n"], close::LOGIN, 1),
        (&[b"%0\r\n-LOADING Redis is loading the dataset in memory\r\n"], close::SERVER, 0),
        (&[], close::LOGIN, 0),
    ];
    for (answers, reason, is_final) in cases {
        let mut host = begin(scripted(answers), "");
        if answers.is_empty() {
            host.write();
            // SAFETY: the connection lives.
            unsafe { onetrip_peer_closed(host.connection) };
        }
        let closed = host.wait_for(kind::CLOSED);
        assert_eq!((closed.a, closed.b), (reason, is_final), "{closed:?}");
    }
}

#[test]
fn what_was_sent_to_a_server_that_goes_is_unknown_and_what_was_not_is_not_sent() {
    let port = scripted(&[b"%0\r\n+PONG\r\n", b":1\r\n"]);
    let mut host = begin(port, "in_flight_max\x001\0");
    host.wait_for(kind::READY);
    submit(&mut host, (1, 0, 2), "", &[&["INCR", "a"], &["INCR", "a"]]);
    assert!(submit(&mut host, (2, 0, 0), "", &[&["INCR", "a"]]) > 0.0);
    host.turn();
    // SAFETY: the connection lives.
    unsafe { onetrip_peer_closed(host.connection) };
    let (first, second) = (host.answer(1), host.answer(2));
    assert_eq!((first.end, first.outcome), (end::CLOSED, outcome::UNKNOWN));
    assert_eq!(first.messages, b":1\r\n");
    assert_eq!((second.end, second.outcome), (end::CLOSED, outcome::NOT_SENT));
}

#[test]
fn what_is_no_request_is_refused() {
    let mut host = begin(scripted(&[]), "");
    let cases = [
        ((0, 0, 1), ""),
        ((1 << 21, 0, 1), ""),
        ((1, 8, 1), ""),
        ((1, flag::ATOMIC, 0), ""),
        ((1, flag::ATOMIC, 1), ""),
        ((1, 0, 2), "return 1"),
        ((1, flag::CONFIRMED, 1), "return 1"),
    ];
    for (numbers, text) in cases {
        assert_eq!(submit(&mut host, numbers, text, &[&["PING"]]), refused::MALFORMED);
    }
    let without_exec = submit(&mut host, (1, flag::ATOMIC, 2), "", &[&["ASKING"], &["MULTI"]]);
    assert_eq!(without_exec, refused::MALFORMED);
    assert_eq!(submit(&mut host, (1, 0, 1), "", &[]), refused::MALFORMED);
    assert_eq!(submit(&mut host, (1, 0, 1), "", &[&["PING"]]), 0.0);
    assert_eq!(submit(&mut host, (1, 0, 1), "", &[&["PING"]]), refused::MALFORMED);
}
