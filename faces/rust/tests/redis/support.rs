//! What the tests share.

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

/// Whether the server has a command of this name.
pub(crate) async fn has_command(client: &Client, name: &str) -> bool {
    let described: Vec<Value> = client.cmd("COMMAND INFO").arg(name).send().await.unwrap();
    described != [Value::Nil]
}

/// A key that no other test uses.
pub(crate) fn key(name: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("{name}:{}", NEXT.fetch_add(1, Ordering::Relaxed))
}
