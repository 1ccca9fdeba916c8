//! What the tests share.

use onetrip::Outcome;
use onetrip::redis::{Client, Config, Value};
use onetrip_lab::redis::{Server, Settings, found_or_skipped, shared};

/// A client of the server that all tests share; `None`, with a message, if this machine has no
/// server.
pub(crate) async fn client() -> Option<Client> {
    Some(Client::connect_with(&config()?).await.unwrap())
}

pub(crate) fn config() -> Option<Config> {
    Some(shared()?.url().parse().unwrap())
}

/// A private server.
pub(crate) fn server(settings: Settings) -> Option<Server> {
    let installation = Some(found_or_skipped()?);
    Some(Server::start(Settings { installation, ..settings }).unwrap())
}

/// Whether the server lacks a command of this name. If so, it must have refused one.
pub(crate) async fn lacks(client: &Client, name: &str) -> bool {
    let described: Vec<Value> = client.cmd("COMMAND INFO").arg(name).send().await.unwrap();
    if described != [Value::Nil] {
        return false;
    }
    let refused = client.cmd(name).arg("key").arg("value").send::<Value>().await.unwrap_err();
    assert_eq!(refused.outcome(), Outcome::Rejected, "{refused}");
    assert!(refused.to_string().contains("unknown command"), "{refused}");
    true
}

/// A key that no other test uses.
pub(crate) fn key(name: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}:{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
