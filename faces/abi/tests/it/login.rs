//! From the first byte to READY, or to one clear reason for the failure.

use std::net::{Shutdown, TcpListener};

use onetrip_abi::completion::{close, end, kind, outcome};
use onetrip_abi::export::{onetrip_postgres_password, onetrip_transmit, onetrip_transmit_len};
use onetrip_lab::postgres::shared;

use crate::host::{Host, settings};

#[test]
fn a_login_tells_the_process_and_the_settings_of_the_server() {
    let server = shared();
    let mut host = Host::begin(server, &settings(server, server.password(), ""));
    let ready = host.wait_for(kind::READY);
    let texts: Vec<&str> =
        ready.block.split(|byte| *byte == 0).map(|it| str::from_utf8(it).unwrap()).collect();
    let version = texts.iter().position(|text| *text == "server_version").unwrap();
    assert!(texts[version + 1].starts_with(&server.major().to_string()), "{texts:?}");
    let process = host.run("select pg_backend_pid()", &[]);
    assert_eq!(process.values(), [ready.a.to_string()]);
}

#[test]
fn parameters_of_the_startup_packet_reach_the_server() {
    let mut host = Host::connect("parameter.application_name\0abi tests\0");
    assert_eq!(host.run("show application_name", &[]).values(), ["abi tests"]);
}

#[test]
fn requests_that_were_submitted_before_the_login_follow_it_in_order() {
    let server = shared();
    let mut host = Host::begin(server, &settings(server, server.password(), ""));
    let tokens: Vec<u32> = (0..50)
        .map(|number| host.submit(0, "select $1::text", "", &[&number.to_string()]))
        .collect();
    host.wait_for(kind::READY);
    for (number, token) in tokens.into_iter().enumerate() {
        assert_eq!(host.answer(token).values(), [number.to_string()]);
    }
}

#[test]
fn a_wrong_password_closes_with_the_servers_error_and_sends_nothing_else() {
    let server = shared();
    let mut host = Host::begin(server, &settings(server, "wrong", ""));
    let token = host.submit(0, "select 1", "", &[]);
    let closed = host.wait_for(kind::CLOSED);
    assert_eq!(closed.a, close::SERVER);
    let text = String::from_utf8_lossy(&closed.block).into_owned();
    assert!(text.contains("28P01") && !text.contains("wrong"), "{text}");
    let answer = host.answer(token);
    assert_eq!((answer.end, answer.outcome), (end::CLOSED, outcome::NOT_SENT));
}

fn say_password(host: &mut Host, password: Option<&str>) {
    let (given, text) = (password.is_some(), password.unwrap_or_default());
    // SAFETY: the connection lives, and the text is valid during the call.
    unsafe {
        onetrip_postgres_password(host.connection, 1.0, given, text.as_ptr(), text.len());
    }
}

#[test]
fn a_password_is_asked_for_when_the_server_asks() {
    let server = shared();
    let user = server.user();
    let settings = format!("user\0{user}\0database\0postgres\0ask_password\x001\0");
    let mut host = Host::begin(server, &settings);
    say_password(&mut host, Some("too early"));
    // By SASL.
    assert_eq!(host.wait_for(kind::PASSWORD).a, 10);
    say_password(&mut host, Some(server.password()));
    say_password(&mut host, Some("too late"));
    host.wait_for(kind::READY);
    assert_eq!(host.run("select 1", &[]).values(), ["1"]);
    let mut host = Host::begin(server, &settings);
    host.wait_for(kind::PASSWORD);
    say_password(&mut host, None);
    assert_eq!(host.wait_for(kind::CLOSED).a, close::LOGIN);
}

#[test]
fn a_password_is_asked_for_once_however_the_request_is_cut() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut host = Host::on(socket, "user\0me\0ask_password\x001\0allow_cleartext\x001\0");
    host.write();
    let notice = b"N\0\0\0\x1aSNOTICE\0C00000\0Mtold\0\0";
    let request = [&notice[..], b"R\0\0\0\x08\0\0\0\x03"].concat();
    let (last, front) = request.split_last().unwrap();
    for byte in front {
        host.receive(&[*byte]);
        host.take();
        assert!(host.happened.is_empty());
    }
    host.receive(&[*last]);
    host.receive(b"E\0");
    host.take();
    let kinds: Vec<u32> = host.happened.iter().map(|it| it.kind).collect();
    assert_eq!((kinds, host.happened[0].a), (vec![kind::PASSWORD], 3));
    say_password(&mut host, Some("secret"));
    // SAFETY: the connection lives, and the bytes are copied.
    let sent = unsafe {
        let len = onetrip_transmit_len(host.connection);
        std::slice::from_raw_parts(onetrip_transmit(host.connection), len).to_vec()
    };
    assert!(sent.ends_with(b"p\0\0\0\x0bsecret\0"), "{sent:?}");
}

#[test]
fn wrong_settings_are_one_line_and_take_no_request() {
    let server = shared();
    let mut host = Host::begin(server, "user\0me\0colour\0blue\0");
    let closed = host.wait_for(kind::CLOSED);
    assert_eq!((closed.a, &closed.block[..]), (close::LOGIN, &b"colour is not a setting"[..]));
    let (_, place) = host.try_submit(0, "select 1", "", &[], 0.0);
    assert_eq!(place, onetrip_abi::export::refused::CLOSED);
}

#[test]
fn a_peer_that_is_no_server_is_named_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut host = Host::on(socket, "user\0me\0");
    host.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let closed = host.wait_for(kind::CLOSED);
    assert_eq!((closed.a, closed.b), (close::LOGIN, 1));
    let text = String::from_utf8(closed.block).unwrap();
    assert!(text.contains("PostgreSQL") && !text.contains('\n'), "{text}");
}

#[test]
fn a_peer_that_leaves_during_the_login_ends_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut host = Host::on(socket, "user\0me\0");
    listener.accept().unwrap().0.shutdown(Shutdown::Both).unwrap();
    let closed = host.wait_for(kind::CLOSED);
    assert_eq!((closed.a, closed.b), (close::LOGIN, 0), "another attempt may succeed");
}
