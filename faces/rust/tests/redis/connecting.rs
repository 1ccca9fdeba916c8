//! Ways to connect to a server, and to reconnect.

use std::net::TcpListener;

use onetrip::redis::{Client, Config, Protocol};
use onetrip::{Kind, Outcome};
use onetrip_lab::proxy::{Direction, Fault, Proxy, ProxyConfig, Scope};
use onetrip_lab::redis::Settings;

use crate::support::{config, key, server};

async fn refused(config: &Config) -> onetrip::Error {
    let error = Client::connect_with(config).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

#[tokio::test]
async fn a_wrong_password_is_said_at_once_and_not_shown() {
    let Some(config) = config() else { return };
    for config in [config.clone(), config.protocol(Protocol::Resp2)] {
        let error = refused(&config.password("hunter2")).await;
        assert_eq!(error.redis_code(), Some("WRONGPASS"), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn a_missing_password_is_asked_for() {
    let Some(server) = server(Settings::default()) else { return };
    let config = Config::new().server("127.0.0.1", server.port());
    for config in [config.clone(), config.protocol(Protocol::Resp2).database(1)] {
        let error = refused(&config).await;
        assert_eq!(error.redis_code(), Some("NOAUTH"), "{error}");
    }
}

#[tokio::test]
async fn a_peer_that_is_no_redis_is_named_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 64];
        let _ = stream.read(&mut buffer);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let error = refused(&Config::new().server("127.0.0.1", port)).await;
    assert_eq!(error.code(), "not_redis");
    assert!(error.to_string().contains("does not speak the protocol of Redis"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_said_with_the_address() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = refused(&Config::new().server("127.0.0.1", port)).await;
    assert_eq!((error.kind(), error.code()), (Kind::Transport, "connect_failed"));
    assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
}

/// On other threads the pool's own tasks run while it connects.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn connecting_fails_where_nobody_is_whatever_else_runs() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for _ in 0..500 {
        refused(&Config::new().server("127.0.0.1", port)).await;
    }
}

#[tokio::test]
async fn user_database_and_name_are_those_of_the_url() {
    let settings = Settings::default().user("app", "on >secret ~* &* +@all");
    let Some(server) = server(settings) else { return };
    for protocol in ["2", "3"] {
        let url = format!(
            "redis://app:secret@127.0.0.1:{}/5?client_name=till&protocol={protocol}",
            server.port()
        );
        let client = Client::connect(&url).await.unwrap();
        let info: String = client.cmd("CLIENT INFO").send().await.unwrap();
        for part in ["user=app", "db=5", "name=till"] {
            assert!(info.contains(part), "{part} is not in {info}");
        }
    }
}

/// P50.
#[tokio::test]
async fn a_user_without_a_password_is_that_user_or_nobody() {
    let rules = "~* &* +@all";
    let settings = Settings { password: false, ..Settings::default() };
    let settings = settings.user("limited", format!("on nopass {rules}"));
    let Some(server) = server(settings.user("app", format!("on >secret {rules}"))) else { return };
    for protocol in [Protocol::Best, Protocol::Resp2] {
        let url = |login: &str| format!("redis://{login}127.0.0.1:{}", server.port());
        let config = |login: &str| url(login).parse::<Config>().unwrap().protocol(protocol);
        for (config, user) in [
            (config("limited@"), "limited"),
            (config("limited:@"), "limited"),
            (config("").user("limited"), "limited"),
            (config("").user("limited").password(""), "limited"),
            (config("app:secret@"), "app"),
            (config(""), "default"),
            (config("").user("").password(""), "default"),
            (config("").user("default"), "default"),
        ] {
            let client = Client::connect_with(&config).await.unwrap();
            assert_eq!(client.cmd("ACL WHOAMI").send::<String>().await.unwrap(), user);
            let session = client.session().await.unwrap();
            assert_eq!(session.cmd("ACL WHOAMI").send::<String>().await.unwrap(), user);
        }
        for user in ["app", "nobody"] {
            let error = refused(&config("").user(user)).await;
            assert_eq!(error.redis_code(), Some("WRONGPASS"), "{error}");
            assert!(error.to_string().contains("given without a password"), "{error}");
        }
    }
}

#[tokio::test]
async fn of_several_servers_the_next_one_is_tried() {
    let Some(server) = server(Settings { password: false, ..Settings::default() }) else { return };
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("redis://127.0.0.1:{dead},127.0.0.1:{}", server.port());
    let client = Client::connect(&url).await.unwrap();
    assert_eq!(client.cmd("PING").send::<String>().await.unwrap(), "PONG");
}

#[tokio::test]
async fn a_unix_socket_does_as_well() {
    let Some(server) = server(Settings { unix_only: true, ..Settings::default() }) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    assert_eq!(client.cmd("PING").send::<String>().await.unwrap(), "PONG");
}

#[tokio::test]
async fn a_client_comes_back_when_its_server_does() {
    let Some(mut server) = server(Settings::default()) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    let key = key("n");
    assert_eq!(client.cmd("INCR").arg(&key).send::<i64>().await.unwrap(), 1);
    server.kill().unwrap();
    server.restart().unwrap();
    // The first command may still reach the old server.
    let mut last = client.cmd("INCR").arg(&key).send::<i64>().await;
    while let Err(error) = last {
        assert!(error.is_connection_lost(), "{error}");
        last = client.cmd("INCR").arg(&key).send::<i64>().await;
    }
    assert_eq!(last.unwrap(), 1, "the server came back empty");
}

#[tokio::test]
async fn calls_wait_for_a_server_that_is_away_in_their_order() {
    let Some(mut server) = server(Settings::default()) else { return };
    let client = Client::connect(&server.url()).await.unwrap();
    server.kill().unwrap();
    while client.metrics().open > 0 {
        tokio::task::yield_now().await;
    }
    let key = key("n");
    let replies: Vec<_> = (0..100).map(|_| client.cmd("INCR").arg(&key).send::<i64>()).collect();
    server.restart().unwrap();
    for (n, reply) in (1..).zip(replies) {
        assert_eq!(reply.await.unwrap(), n);
    }
}

#[tokio::test]
async fn what_waits_for_a_server_that_stays_away_ends_as_not_sent() {
    let Some(mut server) = server(Settings::default()) else { return };
    let config: Config = server.url().parse().unwrap();
    let config = config.limits(|limits| limits.wait_timeout = std::time::Duration::from_millis(50));
    let client = Client::connect_with(&config).await.unwrap();
    server.kill().unwrap();
    while client.metrics().open > 0 {
        tokio::task::yield_now().await;
    }
    let error = client.cmd("PING").send::<()>().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent);
    assert!(error.to_string().contains(&server.port().to_string()), "{error}");
}

#[tokio::test]
async fn what_may_be_repeated_survives_a_lost_connection() {
    let Some(config) = config() else { return };
    let client = Client::connect_with(&config.client_name("victim")).await.unwrap();
    let key = key("n");
    client.cmd("SET").arg(&key).arg("1").send::<()>().await.unwrap();
    let id: i64 = client.cmd("CLIENT ID").send().await.unwrap();
    let killer = crate::support::client().await.unwrap();
    // The server reads it when it is awake again, but its connection is gone by then.
    let read = client.repeatable().cmd("GET").arg(&key).send::<String>();
    killer.cmd("CLIENT KILL").arg("ID").arg(id).send::<i64>().await.unwrap();
    assert_eq!(read.await.unwrap(), "1");
}

#[tokio::test]
async fn what_was_repeated_and_fails_may_have_run_before() {
    let Some(server) = server(Settings::default()) else { return };
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], server.port()));
    let proxy = Proxy::start(ProxyConfig::new(address)).unwrap();
    let config: Config = server.url().parse().unwrap();
    let through = server.url().replace(&address.to_string(), &proxy.addr().to_string());
    let through: Config = through.parse().unwrap();
    let client = Client::connect_with(&through).await.unwrap();
    let direct = Client::connect_with(&config).await.unwrap();
    let direction = Direction::Down;
    proxy.fault(Fault::Stall { direction }, Scope::Present);
    let push = client.repeatable().cmd("RPUSH").arg("list").arg("x").send::<i64>();
    while direct.cmd("LLEN").arg("list").send::<i64>().await.unwrap() == 0 {}
    // The first attempt ran, and the next one will not.
    direct.cmd("SET").arg("list").arg("text").send::<()>().await.unwrap();
    proxy.fault(Fault::CutAfter { direction, bytes: 0 }, Scope::Present);
    proxy.fault(Fault::Resume { direction }, Scope::Present);
    let error = push.await.unwrap_err();
    assert_eq!((error.redis_code(), error.outcome()), (Some("WRONGTYPE"), Outcome::Unknown));
}

#[tokio::test]
async fn what_was_repeated_is_unknown_if_an_attempt_may_have_run() {
    let Some(mut server) = server(Settings::default()) else { return };
    let config: Config = server.url().parse().unwrap();
    let config = config.limits(|limits| limits.wait_timeout = std::time::Duration::from_millis(50));
    let client = Client::connect_with(&config).await.unwrap();
    // The server takes the command, but does not answer.
    let pid = server.pid().to_string();
    let stopped = std::process::Command::new("kill").args(["-STOP", &pid]).status();
    assert!(stopped.unwrap().success());
    let reply = client.repeatable().cmd("INCR").arg("n").send::<i64>();
    server.kill().unwrap();
    assert_eq!(reply.await.unwrap_err().outcome(), Outcome::Unknown);
    let error = client.repeatable().cmd("INCR").arg("n").send::<i64>().await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent, "this one never left");
}

#[tokio::test]
async fn connecting_in_vain_leaves_nothing_behind() {
    let Some(server) = server(Settings::default()) else { return };
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let config: Config = server.url().parse().unwrap();
    for config in [config.clone().cluster(true), config.password("wrong")] {
        let before = tasks();
        refused(&config).await;
        let none_left = async {
            while tasks() > before {
                tokio::task::yield_now().await;
            }
        };
        let limit = std::time::Duration::from_secs(600);
        tokio::time::timeout(limit, none_left).await.expect("its tasks end");
    }
}

#[tokio::test]
async fn a_server_with_too_many_clients_says_so() {
    let Some(server) = server(Settings::default()) else { return };
    let config: Config = server.url().parse().unwrap();
    let client = Client::connect_with(&config).await.unwrap();
    client.cmd("CONFIG SET").arg("maxclients").arg(1).send::<()>().await.unwrap();
    for config in [config.clone(), config.clone().database(1), config.protocol(Protocol::Resp2)] {
        let error = refused(&config).await;
        assert!(error.to_string().contains("max number of clients"), "{error}");
    }
}

/// In this state it accepts connections and logins, and refuses commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_loading_its_data_is_waited_for() {
    let slow = Settings::default()
        .setting("key-load-delay", "1000")
        .setting("loading-process-events-interval-bytes", "1024");
    let Some(mut server) = server(slow) else { return };
    let config: Config = server.url().parse().unwrap();
    let limit = std::time::Duration::from_secs(600);
    let patient = config.limits(|limits| limits.wait_timeout = limit);
    let resp2 = patient.clone().protocol(Protocol::Resp2);
    let client = Client::connect_with(&patient).await.unwrap();
    let all: Vec<_> =
        (0..1_000).map(|n| client.cmd("SET").arg(n).arg([b'x'; 100]).send::<()>()).collect();
    for reply in all {
        reply.await.unwrap();
    }
    client.cmd("SAVE").send::<()>().await.unwrap();
    server.kill().unwrap();
    while client.metrics().open > 0 {
        tokio::task::yield_now().await;
    }
    let again = tokio::task::spawn_blocking(move || {
        server.restart().unwrap();
        server
    });
    let new = async |config: Config| loop {
        match Client::connect_with(&config).await {
            Ok(client) => break client,
            Err(error) => assert_eq!(error.code(), "connect_failed", "{error}"),
        }
    };
    let (count, new, new_resp2) =
        tokio::join!(client.cmd("DBSIZE").send::<i64>(), new(patient), new(resp2));
    assert_eq!(count.unwrap(), 1_000);
    for client in [new, new_resp2] {
        assert_eq!(client.cmd("DBSIZE").send::<i64>().await.unwrap(), 1_000);
    }
    drop(again.await.unwrap());
}

#[tokio::test]
async fn a_user_who_may_not_ping_may_connect() {
    let settings = Settings::default().user("app", "on >secret ~* &* +@all -ping");
    let Some(server) = server(settings) else { return };
    for protocol in ["2", "3"] {
        let url = format!("redis://app:secret@127.0.0.1:{}/?protocol={protocol}", server.port());
        let client = Client::connect(&url).await.unwrap();
        assert_eq!(client.cmd("DBSIZE").send::<i64>().await.unwrap(), 0);
    }
}
