//! A runtime on threads of its own.

use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};

/// The runtime. Dropping this ends it in the background, because a task must not drop a runtime
/// itself.
#[derive(Debug)]
pub(super) struct Threads {
    handle: Handle,
    /// Dropping it makes the keeper thread end.
    stop: oneshot::Sender<()>,
    keeper: thread::JoinHandle<()>,
}

impl Threads {
    /// Starts the runtime with this many threads of this name. Each thread calls `begin` first.
    pub(super) fn start(
        name: &str,
        workers: usize,
        begin: impl Fn() + Send + Sync + 'static,
    ) -> Result<Threads> {
        let failed = |error| Error::new(format!("can't start threads ({error}): try again"));
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers).thread_name(name).on_thread_start(begin).enable_all();
        let runtime = builder.build().map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let keeper = thread::Builder::new().name(format!("{name}-keeper"));
        let keeper = keeper.spawn(move || keep(runtime, stopped)).map_err(failed)?;
        Ok(Threads { handle, stop, keeper })
    }

    /// Runs a future on the runtime.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(future)
    }

    /// Ends the runtime, and returns when its last thread has ended. Running work has [`END_MAX`]
    /// to end by itself.
    pub(super) async fn stop(self) {
        drop(self.stop);
        let keeper = self.keeper;
        // It has nothing to say.
        let _ = tokio::task::spawn_blocking(|| keeper.join()).await;
    }
}

const END_MAX: Duration = Duration::from_secs(2);

fn keep(runtime: Runtime, stopped: oneshot::Receiver<()>) {
    let _ = stopped.blocking_recv();
    let begin = Instant::now();
    while runtime.metrics().num_alive_tasks() > 0 && begin.elapsed() < END_MAX {
        thread::sleep(Duration::from_millis(1));
    }
    runtime.shutdown_timeout(END_MAX);
}
