//! Ways to connect, and the errors when that fails. No error shows a password.

use std::net::TcpListener;
use std::time::Duration;

use crate::pooled::shared;
use onetrip::{Client, Config, Error, Kind, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

const SECRET: &str = "s3cr3t-w0rd";

/// The error of a failed connection, which must not show the password.
async fn refused(config: &str) -> Error {
    let error = error(Client::connect(config).await);
    assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
    let mut said = format!("{error} {error:?}");
    let mut source = std::error::Error::source(&error);
    while let Some(next) = source {
        said += &format!(" {next} {next:?}");
        source = next.source();
    }
    said += &error.server().map(|server| format!("{server:?}")).unwrap_or_default();
    assert!(!said.contains(SECRET) && !said.contains(shared().password()), "{said}");
    error
}

#[track_caller]
fn assert_says(error: &Error, words: &[&str]) {
    let text = error.to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
    assert!(!text.contains('\n'), "{text}");
}

#[test]
fn a_wrong_password_is_the_servers_word() {
    run(async {
        let port = shared().port();
        let url = format!("postgres://postgres:{SECRET}@127.0.0.1:{port}/postgres");
        let error = refused(&url).await;
        assert_eq!((error.kind(), error.sqlstate()), (Kind::Server, Some("28P01")));
        assert_says(&error, &["postgres", "password"]);
        let nobody = format!("postgres://nobody_here:{SECRET}@127.0.0.1:{port}/postgres");
        assert_eq!(refused(&nobody).await.sqlstate(), Some("28P01"));
        let without = format!("postgres://postgres@127.0.0.1:{port}/postgres?passfile=/dev/null");
        let error = refused(&without).await;
        assert_eq!((error.kind(), error.code()), (Kind::Misuse, "authentication"));
        assert_says(&error, &["password"]);
    });
}

#[test]
fn an_unknown_database_is_the_servers_word() {
    run(async {
        let error = refused(&shared().database_url("not_here")).await;
        assert_eq!(error.sqlstate(), Some("3D000"));
        assert_says(&error, &["not_here"]);
    });
}

#[test]
fn an_unknown_host_is_named() {
    run(async {
        let error = refused(&format!("postgres://u:{SECRET}@no-such-host.invalid/db")).await;
        assert_eq!((error.kind(), error.code()), (Kind::Transport, "unknown_host"));
        assert_says(&error, &["no-such-host.invalid", "DNS"]);
    });
}

#[test]
fn a_closed_port_is_named() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let error = refused(&format!("postgres://u:{SECRET}@127.0.0.1:{port}/db")).await;
        assert_eq!((error.kind(), error.code()), (Kind::Transport, "connect_failed"));
        assert_says(&error, &[&format!("127.0.0.1:{port}"), "is the server running"]);
        let url = shared().url().replace("127.0.0.1", &format!("127.0.0.1:{port},127.0.0.1"));
        assert_usable(&Client::connect(&url).await.unwrap()).await;
    });
}

/// On other threads the pool's own tasks run while it connects.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn connecting_fails_where_nobody_is_whatever_else_runs() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for bounds in ["", "?connections_min=1&connections_max=1", "?connections_min=2"] {
        for _ in 0..200 {
            refused(&format!("postgres://u:{SECRET}@127.0.0.1:{port}/db{bounds}")).await;
        }
    }
}

/// A server that reads once, sends `answer` and, if `hangs_up`, closes the connection.
async fn other_server(answer: &'static [u8], hangs_up: bool) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 1024];
        assert!(stream.read(&mut buffer).await.unwrap() > 0);
        stream.write_all(answer).await.unwrap();
        while !hangs_up && stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    });
    format!("postgres://u:{SECRET}@127.0.0.1:{port}/db")
}

#[test]
fn what_is_no_postgresql_server_is_found_out() {
    run(async {
        for answer in [
            &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"-ERR unknown command\r\n",
            b"J\0\0\0\x0a5.5.5-10.11\0",
            b"R\xff\xff\xff\xff",
            b"R\0\0\0\x08\0\0\0\x63",
        ] {
            // The first message is a startup packet, or a question for TLS.
            for (hangs_up, sslmode) in [(false, "disable"), (true, "disable"), (true, "prefer")] {
                let url = format!("{}?sslmode={sslmode}", other_server(answer, hangs_up).await);
                let error = refused(&url).await;
                // The greeting of SSH begins with the byte that consents to TLS.
                let code = match answer[0] == b'S' && sslmode == "prefer" {
                    true => "tls_failed",
                    false => "connect_failed",
                };
                assert_eq!(error.code(), code, "{answer:?}: {error}");
                assert_says(&error, &["127.0.0.1"]);
            }
        }
        let error = refused(&other_server(b"", true).await).await;
        assert_eq!((error.kind(), error.code()), (Kind::Transport, "connect_failed"));
    });
}

/// A server that refuses this many logins with an error of this code, and then takes them.
async fn reluctant(refusals: usize, code: &'static str) -> Config {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut come = 0;
        while let Ok((mut stream, _)) = listener.accept().await {
            come += 1;
            if come > refusals {
                let mut server =
                    tokio::net::TcpStream::connect(("127.0.0.1", shared().port())).await.unwrap();
                let both =
                    async move { tokio::io::copy_bidirectional(&mut stream, &mut server).await };
                tokio::spawn(both);
                continue;
            }
            assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
            let fields = format!("SFATAL\0C{code}\0Mnot yet\0\0");
            let mut answer = vec![b'E'];
            answer.extend((fields.len() as u32 + 4).to_be_bytes());
            answer.extend(fields.as_bytes());
            stream.write_all(&answer).await.unwrap();
        }
    });
    hosts(&[port], "sslmode=disable")
}

#[test]
fn who_connects_to_a_server_that_starts_waits_for_it() {
    run(async {
        for code in ["57P03", "53300"] {
            let client = Client::connect_with(&reluctant(2, code).await).await.unwrap();
            assert_usable(&client).await;
        }
        let config = reluctant(2, "3D000").await;
        assert_eq!(error(Client::connect_with(&config).await).sqlstate(), Some("3D000"));
        let config = reluctant(usize::MAX, "57P03").await.wait_timeout(Duration::from_secs(3));
        let error = error(Client::connect_with(&config).await);
        assert_eq!((error.outcome(), error.sqlstate()), (Outcome::NotSent, Some("57P03")));
    });
}

#[test]
fn a_server_that_says_nothing_is_given_up_in_time() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config: Config = format!("postgres://u:{SECRET}@127.0.0.1:{port}/db").parse().unwrap();
        let config = config.connect_timeout(std::time::Duration::from_millis(200));
        let error =
            failed(Client::connect_with(&config).await, Outcome::NotSent, "connect_timeout");
        assert_eq!(error.kind(), Kind::Timeout);
        assert_says(&error, &["connect_timeout", &format!("127.0.0.1:{port}"), "0.2 s"]);
        assert!(!format!("{error:?} {config:?}").contains(SECRET));
    });
}

/// A configuration of hosts with these ports, all at `127.0.0.1`.
fn hosts(ports: &[u16], settings: &str) -> Config {
    let hosts = vec!["127.0.0.1"; ports.len()].join(",");
    let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
    let text = format!("host={hosts} port={} {settings}", ports.join(","));
    let (user, password) = (shared().user(), shared().password());
    format!("{text} user={user} password={password} dbname=postgres").parse().unwrap()
}

#[test]
fn each_host_has_the_connect_timeout_for_itself_and_the_error_tells_of_all() {
    run(async {
        let silent = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let silent = silent.each_ref().map(|listener| listener.local_addr().unwrap().port());
        let config = hosts(&[silent[0], shared().port()], "connect_timeout=1");
        assert_usable(&Client::connect_with(&config).await.unwrap()).await;
        let config = hosts(&silent, "");
        let config = config.connect_timeout(std::time::Duration::from_millis(200));
        let error =
            failed(Client::connect_with(&config).await, Outcome::NotSent, "connect_timeout");
        for port in silent {
            assert_says(&error, &[&format!("127.0.0.1:{port}")]);
        }
    });
}

#[test]
fn hosts_are_tried_at_random_where_that_is_wanted() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        let settings = "load_balance_hosts=random connect_timeout=1";
        let config = hosts(&[port, shared().port()], settings);
        let mut firsts = [0, 0];
        // All of them connect to the same host first once in 2^29 times.
        while firsts.iter().sum::<usize>() < 30 && firsts.contains(&0) {
            assert_usable(&Client::connect_with(&config).await.unwrap()).await;
            firsts[usize::from(listener.accept().is_ok())] += 1;
        }
        assert!(!firsts.contains(&0), "{firsts:?}");
    });
}

#[test]
fn a_unix_socket_works_like_a_port() {
    run(async {
        let (dir, port) = (shared().socket_dir().display().to_string(), shared().port());
        let password = shared().password();
        let pairs =
            format!("host={dir} port={port} user=postgres password={password} dbname=postgres");
        let client = Client::connect(&pairs).await.unwrap();
        let row = client.query_one("select inet_server_addr() is null", &[]).await.unwrap();
        assert!(row.get::<bool>(0));
        let session = client.session().await.unwrap();
        assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
        let error = refused(&format!("host=/no/such/dir user=postgres password={SECRET}")).await;
        assert_eq!((error.kind(), error.code()), (Kind::Transport, "connect_failed"));
        assert_says(&error, &["/no/such/dir"]);
    });
}

#[test]
fn pairs_of_keywords_and_values_work_like_a_url() {
    run(async {
        let (port, password) = (shared().port(), shared().password());
        let pairs = format!(
            "hostaddr=127.0.0.1 port={port} user = 'postgres' password='{password}' \
             dbname=postgres application_name='a b' options='-c work_mem=5MB'"
        );
        let client = Client::connect(&pairs).await.unwrap();
        assert_eq!(client.parameter("application_name").as_deref(), Some("a b"));
        assert_eq!(client.query_one("show work_mem", &[]).await.unwrap().get::<&str>(0), "5MB");
    });
}

#[test]
fn a_newer_protocol_falls_back_to_what_the_server_speaks() {
    run(async {
        let client = client_with("max_protocol_version=3.2").await;
        assert_usable(&client).await;
        let session = client.session().await.unwrap();
        assert_eq!(session.query_one("select 1", &[]).await.unwrap().get::<i32>(0), 1);
    });
}

#[test]
fn a_configuration_that_cannot_be_honoured_is_refused() {
    run(async {
        for (config, says) in [
            ("postgres://u:s3cr3t-w0rd@h/db?sslmode=on", "sslmode"),
            ("postgres://u:s3cr3t-w0rd@h/db?sslnegotiation=direct", "sslnegotiation"),
            ("postgres://u:s3cr3t-w0rd@h/db?no_such_setting=1", "no_such_setting"),
            ("postgres://u:s3cr3t-w0rd@h:99999/db", "port"),
            ("host=h password=s3cr3t-w0rd connect_timeout=soon", "connect_timeout"),
            ("postgres://u:s3cr3t-w0rd@h/db?require_auth=gss", "require_auth"),
        ] {
            let error = refused(config).await;
            assert_eq!(error.kind(), Kind::Misuse, "{config}");
            assert_says(&error, &[says]);
        }
    });
}

#[test]
fn a_server_that_does_not_fit_the_target_is_refused() {
    run(async {
        let error = refused(&format!("{}?target_session_attrs=standby", shared().url())).await;
        assert_eq!(error.code(), "target_session_attrs");
        for fits in ["primary", "read-write", "prefer-standby", "any"] {
            let asks = matches!(fits, "primary" | "read-write");
            if asks && is_before(14, &format!("saying whether it is {fits}")) {
                continue;
            }
            assert_usable(&client_with(&format!("target_session_attrs={fits}")).await).await;
        }
    });
}

#[test]
fn a_server_too_old_to_say_what_it_is_is_refused_where_that_matters() {
    run(async {
        if shared().major() >= 14 {
            return skipped("needs a server older than PostgreSQL 14");
        }
        for asks in ["primary", "read-write", "read-only", "standby"] {
            let url = format!("{}?target_session_attrs={asks}", shared().url());
            let error = refused(&url).await;
            assert_eq!(error.code(), "target_session_attrs");
            assert!(error.to_string().contains("too old"), "{error}");
        }
    });
}

#[test]
fn a_password_is_in_no_debug_output() {
    run(async {
        let client = client().await;
        let mut session = client.session().await.unwrap();
        let (reply, statement) =
            (client.query("select 1", &[]), client.prepare("select 1").await.unwrap());
        let mut said = format!("{client:?} {session:?} {reply:?} {statement:?}");
        said += &format!("{:?} {:?}", client.pipeline(), client.pending());
        said += &format!("{:?}", session.begin().await.unwrap());
        said += &format!("{:?}", shared().url().parse::<Config>().unwrap());
        assert!(!said.contains(shared().password()));
        reply.await.unwrap();
    });
}

#[test]
fn a_connect_that_is_given_up_leaves_no_connection_behind() {
    run(async {
        let name = shared().new_name();
        let url = format!("{}?application_name={name}", shared().url());
        for polls in 0..10 {
            let mut connect = Box::pin(Client::connect(&url));
            for _ in 0..polls {
                if poll_once(&mut connect).await {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        let observer = session().await;
        let left = format!("pg_stat_activity where application_name = '{name}'");
        until(async || count(&observer, &left).await == 0).await;
    });
}
