//! What `tracing` is told, and what not.

use onetrip::redis::Client;
use onetrip_lab::redis::{Settings, shared};

use crate::kept::Kept;
use crate::support::{client, key, server};

#[tokio::test]
async fn a_command_is_a_span_with_the_fields_of_the_conventions() {
    let Some(client) = client().await else { return };
    let key = key("text");
    let (kept, _guard) = Kept::start();
    client.cmd("SET").arg(&key).arg("x").send::<()>().await.unwrap();
    client.cmd("OBJECT ENCODING").arg(&key).send::<String>().await.unwrap();
    client.cmd("LPUSH").arg(&key).arg("y").send::<i64>().await.unwrap_err();
    client.cmd("BLPOP").arg("none").arg("0.001").send::<()>().await.unwrap();
    client.cmd("SELECT").arg(1).send::<()>().await.unwrap_err();
    let spans = kept.spans();
    let port = shared().unwrap().port().to_string();
    let of = |number: usize, field: &str| spans[number].get(field).map(String::as_str);
    for (number, operation) in
        ["SET", "OBJECT ENCODING", "LPUSH", "BLPOP", "SELECT"].into_iter().enumerate()
    {
        assert_eq!(of(number, "db.system.name"), Some("redis"));
        assert_eq!(of(number, "otel.kind"), Some("client"));
        assert_eq!(of(number, "db.operation.name"), Some(operation));
        // A command that was refused here was not sent anywhere.
        let is_sent = operation != "SELECT";
        assert_eq!(of(number, "server.address"), is_sent.then_some("127.0.0.1"));
        assert_eq!(of(number, "server.port"), is_sent.then_some(&*port));
        let (status, error) = match operation {
            "LPUSH" => (Some("WRONGTYPE"), Some("WRONGTYPE")),
            "SELECT" => (None, Some("wrong_place")),
            _ => (None, None),
        };
        assert_eq!(of(number, "db.response.status_code"), status);
        assert_eq!(of(number, "error.type"), error);
    }
    assert_eq!(spans.len(), 5);
}

#[tokio::test]
async fn no_key_no_value_and_no_password_is_told() {
    let Some(server) = server(Settings::default()) else { return };
    let (kept, _guard) = Kept::start();
    let client = Client::connect(&server.url()).await.unwrap();
    client.cmd("SET").arg("hidden_1").arg("hidden_2").send::<()>().await.unwrap();
    client.cmd("LPUSH").arg("hidden_1").arg("hidden_3").send::<()>().await.unwrap_err();
    let told = kept.everything();
    assert!(told.contains("LPUSH"), "{told}");
    assert!(!told.contains("hidden") && !told.contains(server.password()), "{told}");
}

#[tokio::test]
async fn what_happens_to_connections_is_told() {
    let Some(mut server) = server(Settings::default()) else { return };
    let (kept, _guard) = Kept::start();
    let client = Client::connect(&server.url()).await.unwrap();
    let connected = &kept.events("connected")[0];
    assert_eq!(connected["server.address"], "127.0.0.1");
    assert_eq!(connected["server.port"], server.port().to_string());
    server.kill().unwrap();
    let told = async |message: &str| {
        let told = async {
            while kept.events(message).is_empty() {
                tokio::task::yield_now().await;
            }
        };
        let limit = std::time::Duration::from_secs(600);
        tokio::time::timeout(limit, told).await.expect(message);
        kept.events(message).remove(0)
    };
    assert_eq!(told("connection lost").await["error.type"], "connection_lost");
    assert_eq!(told("connecting failed").await["error.type"], "connect_failed");
    server.restart().unwrap();
    while client.metrics().open == 0 {
        tokio::task::yield_now().await;
    }
    client.close();
    told("connection closed").await;
}

#[tokio::test]
async fn a_reply_that_is_dropped_ends_its_span() {
    let Some(client) = client().await else { return };
    let (kept, _guard) = Kept::start();
    drop(client.cmd("PING").send::<()>());
    assert_eq!(kept.spans().len(), 1);
}
