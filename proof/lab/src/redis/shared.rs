//! The server shared by the tests of one binary, and the message if none is installed.

use std::io::Write;
use std::sync::OnceLock;

use super::installation::Installation;
use super::server::Server;
use super::settings::Settings;

/// One server for the whole process, started with the default settings by the first call. It stops
/// when the process ends. If no program is installed, prints a line that names the test and returns
/// `None`.
///
/// # Panics
/// When a program is installed but can't be started.
pub fn shared() -> Option<&'static Server> {
    static SHARED: OnceLock<Server> = OnceLock::new();
    let installation = found_or_skipped()?;
    let settings = Settings { installation: Some(installation), ..Settings::default() };
    Some(SHARED.get_or_init(|| match Server::start(settings) {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }))
}

/// The program to test with. If none is installed, prints a line that names the test and returns
/// `None`. The line bypasses the test runner, which hides the output of tests that pass.
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
