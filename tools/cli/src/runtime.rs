//! The asynchronous runtime of a command.

use tokio::runtime::{Builder, Runtime};

/// Builds a runtime. With one thread, all work runs on the caller's thread.
///
/// # Errors
/// The system allows no more threads or descriptors: one line.
pub(crate) fn runtime(threads: usize) -> Result<Runtime, String> {
    let built = match threads {
        1 => Builder::new_current_thread().enable_all().build(),
        _ => Builder::new_multi_thread().worker_threads(threads).enable_all().build(),
    };
    built.map_err(|error| format!("can't start the runtime ({error}): try again"))
}
