//! What the tests of one binary have in common: one server, and one way to say that there is none.

use std::io::Write;
use std::sync::OnceLock;

use super::installation::Installation;
use super::server::Server;
use super::settings::Settings;

/// One server for the whole process, started with the default settings by whoever asks first; `None`,
/// with a line that names the test, where the machine has no program for it. It stops when the process
/// ends.
///
/// # Panics
/// When there is a program and it can't be started: without it no test that asks can say anything.
pub fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Server> = OnceLock::new();
    let installation = found_or_skipped()?;
    let settings = Settings { installation: Some(installation), ..Settings::default() };
    Some(SHARED.get_or_init(|| match Server::start(settings) {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }))
}

/// The program to test with; `None`, with a line that names the test, where the machine has none. The
/// line goes past the runner, which hides what a test that passes prints.
///
/// # Panics
/// When [`REDIS_SERVER_VARIABLE`](super::REDIS_SERVER_VARIABLE) is wrong.
pub fn found_or_skipped() -> Option<Installation> {
    let found = Installation::look().unwrap_or_else(|error| panic!("{error}"));
    if found.is_none() {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("a test");
        let line = format!("skipped: {name}: there is no Redis or Valkey here\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    found
}
