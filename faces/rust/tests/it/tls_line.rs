//! TLS on a bad line, with other parties in between, and under load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use onetrip::{Client, Config, Error, Kind, Outcome};
use onetrip_lab::proxy::{Direction, Fault, Proxy, ProxyConfig, Scope};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::certificates::*;
use crate::support::*;
use crate::tls_relay::Relay;

const VERIFIED: &str = "sslmode=verify-full ROOT";

async fn connect(config: &Config) -> Result<Client, Error> {
    Client::connect_with(config).await
}

async fn client() -> Client {
    server().connect(VERIFIED).await.unwrap()
}

/// A proxy in front of the server, and how to connect through it.
fn behind_proxy(settings: &str) -> (Proxy, Config) {
    let address = SocketAddr::from(([127, 0, 0, 1], server().postgres.port()));
    let proxy = Proxy::start(ProxyConfig::new(address)).unwrap();
    let settings = format!("{VERIFIED} port={} {settings}", proxy.addr().port());
    let config = server().config(&settings);
    (proxy, config)
}

/// Both sides send much at once: neither may wait for the other.
#[test]
fn much_goes_both_ways_at_once() {
    run_threads(async {
        let client = client().await;
        let text = "z".repeat(300_000);
        let replies: Vec<_> =
            (0..60).map(|i| client.query_one("select $1, $2 || $2", &[&i, &text])).collect();
        for (i, reply) in (0..60).zip(replies) {
            let row = reply.await.unwrap();
            assert_eq!((row.get::<i32>(0), row.get::<&str>(1).len()), (i, 600_000));
        }
    });
}

#[test]
fn a_value_of_many_megabytes_comes_back_as_it_was_sent() {
    run_threads(async {
        let mut random = Random(7);
        println!("seed 7");
        let bytes: Vec<u8> = (0..20 << 20).map(|_| random.below(256) as u8).collect();
        for version in ["TLSv1.2", "TLSv1.3"] {
            let settings = format!("{VERIFIED} ssl_max_protocol_version={version}");
            let client = server().connect(&settings).await.unwrap();
            let row = client.query_one("select $1::bytea", &[&bytes]).await.unwrap();
            assert!(row.get::<&[u8]>(0) == bytes, "{version}");
        }
    });
}

#[test]
fn many_rows_arrive_in_order() {
    run(async {
        let sql = "select i, repeat('x', 100) from generate_series(1, 200000) i";
        let rows = client().await.query(sql, &[]).await.unwrap();
        assert!(rows.iter().map(|row| row.get::<i32>(0)).eq(1..=200_000));
    });
}

#[test]
fn pipelines_and_transactions_work_over_tls() {
    run(async {
        let client = client().await;
        let table = server().postgres.new_name();
        let mut session = client.session().await.unwrap();
        session.script(&format!("create table {table} (id int primary key)")).await.unwrap();
        let insert = format!("insert into {table} values ($1)");
        let mut pipeline = client.pipeline();
        let replies: Vec<_> = (0..2000).map(|id| pipeline.execute(&insert, &[&id])).collect();
        pipeline.finish().await.unwrap();
        for reply in replies {
            assert_eq!(reply.await.unwrap(), 1);
        }
        let tx = session.begin().await.unwrap();
        tx.execute(&insert, &[&5000]).await.unwrap();
        rejected(tx.execute(&insert, &[&1]).await, "23505");
        tx.rollback().await.unwrap();
        assert_eq!(count(&session, &table).await, 2000);
    });
}

#[test]
fn all_is_right_one_byte_at_a_time_under_tls() {
    run(async {
        let (proxy, config) = behind_proxy("");
        for direction in [Direction::Up, Direction::Down] {
            proxy.fault(Fault::ByteAtATime { direction, on: true }, Scope::All);
        }
        let client = connect(&config).await.unwrap();
        let replies: Vec<_> =
            (0..20).map(|i| client.query_one("select $1, repeat('x', $1)", &[&i])).collect();
        for (i, reply) in (0..20).zip(replies) {
            let row = reply.await.unwrap();
            assert_eq!((row.get::<i32>(0), row.get::<&str>(1).len()), (i, i as usize));
        }
    });
}

/// New keys, and the tickets that a server sends behind the handshake.
#[test]
fn new_keys_and_tickets_are_taken_as_they_come() {
    run(async {
        let identity = server().authority.server(&[HOST]);
        let relay = Relay { changes_keys: true, ..Relay::default() };
        let relay = relay.listen(&identity, server()).await;
        let config = relay.instead(server(), &format!("{VERIFIED} channel_binding=disable"));
        let client = connect(&config).await.unwrap();
        for i in 0..12 {
            let row = client.query_one("select $1", &[&i]).await.unwrap();
            assert_eq!(row.get::<i32>(0), i);
        }
    });
}

#[test]
fn tls_that_begins_at_once_has_to_be_postgresqls() {
    run(async {
        let identity = server().authority.server(&[HOST]);
        let settings = format!("{VERIFIED} sslnegotiation=direct");
        let relay = Relay { direct: true, agrees: true, ..Relay::default() };
        let agreeing = relay.listen(&identity, server()).await;
        assert_usable(&connect(&agreeing.instead(server(), &settings)).await.unwrap()).await;
        let other = Relay { agrees: false, ..relay }.listen(&identity, server()).await;
        let refused = connect(&other.instead(server(), &settings)).await;
        let error = failed(refused, Outcome::NotSent, "tls_failed");
        assert!(error.to_string().contains("ALPN"), "{error}");
    });
}

#[test]
fn the_hosts_name_is_sent_where_it_is_one_and_may_be() {
    run(async {
        let identity = server().authority.server(&[HOST, "127.0.0.1"]);
        let relay = Relay::default().listen(&identity, server()).await;
        for (settings, name) in [
            ("", Some(HOST)),
            ("sslsni=1", Some(HOST)),
            ("sslsni=0", None),
            ("host=127.0.0.1", None),
        ] {
            let config = relay.instead(server(), &format!("{VERIFIED} {settings}"));
            drop(connect(&config).await.unwrap());
            let heard = || relay.names.lock().unwrap().pop();
            let mut last = None;
            until(async || {
                last = heard();
                last.is_some()
            })
            .await;
            assert_eq!(last.flatten().as_deref(), name, "{settings}");
        }
    });
}

#[test]
fn a_stranger_who_passes_the_login_on_is_found_out() {
    run(async {
        if is_before(11, "channel binding") {
            return;
        }
        // The stranger's certificate passes verify-ca: the same authority, another host.
        let identity = server().authority.server(&["stranger.example"]);
        let settings = |binding: &str| format!("sslmode=verify-ca ROOT channel_binding={binding}");
        let relay = Relay { server_tls: true, ..Relay::default() };
        let in_between = relay.listen(&identity, server()).await;
        for binding in ["prefer", "require"] {
            let config = in_between.instead(server(), &settings(binding));
            let error = error(connect(&config).await);
            assert_eq!(error.sqlstate(), Some("28000"), "{error}");
            assert!(error.to_string().contains("channel binding"), "{error}");
        }
        // Without binding nobody notices; verify-full does at once.
        let config = in_between.instead(server(), &settings("disable"));
        assert_usable(&connect(&config).await.unwrap()).await;
        let error = error(connect(&in_between.instead(server(), VERIFIED)).await);
        assert_eq!(error.code(), "tls_failed", "{error}");
    });
}

/// The client declares that it would have bound its login, and a server that offered binding
/// objects.
#[test]
fn a_stranger_who_hides_the_offer_to_bind_is_found_out() {
    run(async {
        if is_before(11, "channel binding") {
            return;
        }
        let identity = server().authority.server(&["stranger.example"]);
        let relay = Relay { server_tls: true, hides_binding: true, ..Relay::default() };
        let in_between = relay.listen(&identity, server()).await;
        let settings = "sslmode=verify-ca ROOT channel_binding";
        let config = in_between.instead(server(), &format!("{settings}=prefer"));
        let error = error(connect(&config).await);
        assert!(error.sqlstate().is_some(), "{error}");
        assert!(error.to_string().contains("channel binding"), "{error}");
        let config = in_between.instead(server(), &format!("{settings}=require"));
        failed(connect(&config).await, Outcome::NotSent, "authentication");
    });
}

/// A pooler that has no TLS to its server can't offer binding; the client then logs in without.
#[test]
fn a_pooler_without_tls_behind_it_is_good_enough_where_binding_is_not_demanded() {
    run(async {
        let identity = server().authority.server(&[HOST]);
        let pooler = Relay::default().listen(&identity, server()).await;
        assert_usable(&connect(&pooler.instead(server(), VERIFIED)).await.unwrap()).await;
        let config = pooler.instead(server(), &format!("{VERIFIED} channel_binding=require"));
        failed(connect(&config).await, Outcome::NotSent, "authentication");
    });
}

#[test]
fn a_client_that_leaves_ends_tls_in_the_orderly_way() {
    run(async {
        let identity = server().authority.server(&[HOST]);
        let relay = Relay::default().listen(&identity, server()).await;
        let client = connect(&relay.instead(server(), VERIFIED)).await.unwrap();
        let last = client.query_one("select 1", &[]);
        drop(client);
        assert_eq!(last.await.unwrap().get::<i32>(0), 1);
        until(async || relay.client_said_goodbye.load(Ordering::SeqCst)).await;
    });
}

/// A server that answers the first message with some bytes, and sends no more. Counts the
/// connections.
async fn stranger(answer: &'static [u8], hangs_up: bool) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let visits = Arc::new(AtomicUsize::new(0));
    let visitors = visits.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            visitors.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(answer_once(stream, answer, hangs_up));
        }
    });
    (port, visits)
}

async fn answer_once(mut stream: TcpStream, answer: &'static [u8], hangs_up: bool) {
    let mut buffer = [0; 4096];
    let _ = stream.read(&mut buffer).await;
    let _ = stream.write_all(answer).await;
    while !hangs_up && stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
}

#[test]
fn bytes_between_the_consent_and_the_handshake_end_the_connection() {
    run(async {
        for answer in [&b"Sx"[..], b"SR\0\0\0\x08\0\0\0\0", b"S\x15\x03\x03\0\x02\x01\x00"] {
            for mode in ["prefer", "require ROOT", VERIFIED.trim_start_matches("sslmode=")] {
                let (port, visits) = stranger(answer, false).await;
                let config = server().config(&format!("sslmode={mode} port={port}"));
                let error = failed(connect(&config).await, Outcome::NotSent, "tls_failed");
                assert!(error.to_string().contains("tampered"), "{mode}: {error}");
                assert_eq!(visits.load(Ordering::SeqCst), 1, "{mode}");
            }
        }
    });
}

#[test]
fn bytes_behind_a_refusal_of_tls_end_the_connection_too() {
    run(async {
        for answer in [&b"Nx"[..], b"NR\0\0\0\x08\0\0\0\0"] {
            let (port, visits) = stranger(answer, false).await;
            let config = server().config(&format!("sslmode=prefer port={port}"));
            let error = failed(connect(&config).await, Outcome::NotSent, "tls_failed");
            assert!(error.to_string().contains("tampered"), "{error}");
            assert_eq!(visits.load(Ordering::SeqCst), 1);
        }
    });
}

#[test]
fn an_error_in_the_place_of_consent_is_not_shown() {
    run(async {
        const ANSWER: &[u8] = b"E\0\0\0\x32SFATAL\0C28000\0Myour password, please\0\0";
        for mode in ["prefer", "require ROOT", "verify-full ROOT"] {
            for hangs_up in [true, false] {
                let (port, visits) = stranger(ANSWER, hangs_up).await;
                let config = server().config(&format!("sslmode={mode} port={port}"));
                let error = failed(connect(&config).await, Outcome::NotSent, "tls_failed");
                let said = format!("{error} {error:?}");
                assert!(!said.contains("please") && error.server().is_none(), "{said}");
                assert!(said.contains("not shown"), "{said}");
                assert_eq!(visits.load(Ordering::SeqCst), 1);
            }
        }
    });
}

#[test]
fn nothing_that_an_unencrypted_server_says_is_shown_where_tls_is_required() {
    run(async {
        const ANSWER: &[u8] = b"NE\0\0\0\x32SFATAL\0C28000\0Myour password, please\0\0";
        for mode in ["require ROOT", "verify-full ROOT"] {
            let (port, _) = stranger(ANSWER, true).await;
            let config = server().config(&format!("sslmode={mode} port={port}"));
            let error = failed(connect(&config).await, Outcome::NotSent, "tls_missing");
            assert!(!format!("{error:?}").contains("please"), "{error}");
        }
    });
}

#[test]
fn what_is_no_tls_is_told_of() {
    run(async {
        for (answer, negotiation) in [
            (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "direct"),
            (b"E\0\0\0\x32SFATAL\0Mno\0\0", "direct"),
            (b"\x15\x03\x01\0\x02\x02\x28", "direct"),
        ] {
            let (port, _) = stranger(answer, false).await;
            let settings = format!("{VERIFIED} port={port} sslnegotiation={negotiation}");
            let config = server().config(&settings);
            let error = failed(connect(&config).await, Outcome::NotSent, "tls_failed");
            assert!(!error.to_string().contains("FATAL"), "{error}");
        }
    });
}

#[test]
fn a_server_that_hangs_in_the_handshake_is_given_up_in_time() {
    run(async {
        for (answer, settings) in [
            (&b"S"[..], VERIFIED.to_owned()),
            (b"S", "sslmode=prefer".to_owned()),
            (b"", VERIFIED.to_owned()),
            (b"", format!("{VERIFIED} sslnegotiation=direct")),
        ] {
            let (port, _) = stranger(answer, false).await;
            let config = server().config(&format!("{settings} port={port}"));
            let config = config.connect_timeout(Duration::from_millis(200));
            let error = failed(connect(&config).await, Outcome::NotSent, "connect_timeout");
            assert_eq!(error.kind(), Kind::Timeout);
        }
    });
}

#[test]
fn a_handshake_that_is_cut_at_any_byte_fails_or_comes_to_its_end() {
    run(async {
        // Time may mend a line that is cut, so until then it is tried again.
        let (proxy, config) = behind_proxy("connect_timeout=5 wait_timeout_ms=1");
        let mut connected = 0;
        for bytes in (0..4000).step_by(230) {
            for direction in [Direction::Up, Direction::Down] {
                for fault in
                    [Fault::CutAfter { direction, bytes }, Fault::ResetAfter { direction, bytes }]
                {
                    proxy.fault(fault, Scope::Future);
                    match connect(&config).await {
                        Ok(_) => connected += 1,
                        Err(error) => {
                            assert_eq!(error.outcome(), Outcome::NotSent, "{fault:?}: {error}");
                            let code = error.code();
                            assert!(
                                ["tls_failed", "connect_failed"].contains(&code),
                                "{fault:?}: {code}: {error}"
                            );
                        }
                    }
                }
            }
        }
        assert!(connected > 0, "4,000 bytes are no more enough");
    });
}

#[test]
fn a_line_that_is_cut_without_a_goodbye_is_lost_and_said_so() {
    run(async {
        let (proxy, config) = behind_proxy("");
        let client = connect(&config).await.unwrap();
        // A session stays on its connection; a client would open another one.
        let session = client.session().await.unwrap();
        let waiting = session.query("select pg_sleep(100)", &[]);
        let fault = Fault::CutAfter { direction: Direction::Down, bytes: 0 };
        proxy.fault(fault, Scope::Present);
        let error = failed(waiting.await, Outcome::Unknown, "connection_lost");
        assert!(error.to_string().contains("TLS was cut off"), "{error}");
        let error =
            failed(session.query("select 1", &[]).await, Outcome::NotSent, "connection_lost");
        assert!(error.is_connection_lost());
    });
}

#[test]
fn what_the_server_says_at_the_end_is_heard() {
    run(async {
        let client = client().await;
        let pid = pid_of(&client).await;
        let waiting = client.query("select pg_sleep(100)", &[]);
        let sql = "select pg_terminate_backend($1)";
        let killer = server().connect(VERIFIED).await.unwrap();
        assert!(killer.query_one(sql, &[&pid]).await.unwrap().get::<bool>(0));
        let error = error(waiting.await);
        assert_eq!(error.sqlstate(), Some("57P01"), "{error}");
    });
}

#[test]
fn a_goodbye_of_the_server_is_told_from_a_cut() {
    run(async {
        let identity = server().authority.server(&[HOST]);
        for (just_hangs_up, words) in [(false, "the server closed it"), (true, "TLS was cut off")] {
            let relay = Relay { just_hangs_up, ..Relay::default() };
            let relay = relay.listen(&identity, server()).await;
            let client = connect(&relay.instead(server(), VERIFIED)).await.unwrap();
            let session = client.session().await.unwrap();
            relay.hang_up.notify_one();
            until(async || session.is_closed()).await;
            let late = session.query("select 1", &[]).await;
            let error = failed(late, Outcome::NotSent, "connection_lost");
            assert!(error.to_string().contains(words), "{error}");
        }
    });
}

/// A byte that was changed on the way ends the connection; nothing wrong is ever handed out.
#[test]
fn what_was_changed_on_the_way_is_refused() {
    run(async {
        let (port, config) =
            (server().postgres.port(), |at: u16| server().config(&format!("{VERIFIED} port={at}")));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            flip_later(&mut client, &mut server).await;
        });
        let client = connect(&config(at)).await.unwrap();
        let error = failed(
            client.query("select repeat('x', 100000)", &[]).await,
            Outcome::Unknown,
            "connection_lost",
        );
        assert!(error.to_string().contains("can't be decrypted"), "{error}");
    });
}

/// Passes bytes on, and changes a bit of the first large piece.
async fn flip_later(client: &mut TcpStream, server: &mut TcpStream) {
    let (mut up, mut down) = ([0; 16 << 10], [0; 64 << 10]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => match read {
                Ok(read @ 1..) => server.write_all(&up[..read]).await.unwrap(),
                _ => return,
            },
            read = server.read(&mut down) => match read {
                Ok(read @ 1..) => {
                    if read > 4096 {
                        down[4000] ^= 1;
                    }
                    let _ = client.write_all(&down[..read]).await;
                }
                _ => return,
            },
        }
    }
}
