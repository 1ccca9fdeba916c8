//! Who runs the drivers of a blocking client: while calls wait, the calling threads themselves;
//! otherwise a thread of its own, the *driver thread*.
//!
//! The client has one runtime for one thread, and whoever blocks runs it. A caller reads the socket
//! and finds its reply on its own thread, so a call costs what an awaited one costs, and wakes no
//! other thread. If several callers block at once, one runs the runtime for all, and hands it on
//! when its own reply has come.
//!
//! Once no call was made for a while the driver thread runs the runtime, so that timers fire and
//! the server's messages are read. The next caller asks it to leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::thread::Thread;
use std::time::Duration;

use tokio::sync::Notify;

use crate::Error;

/// A handle; dropping the last one ends the driver thread.
#[derive(Clone, Debug)]
pub(super) struct Runtime(Arc<Owner>);

#[derive(Debug)]
struct Owner {
    shared: Arc<Shared>,
    driver_thread: Thread,
}

#[derive(Debug)]
struct Shared {
    runtime: tokio::runtime::Runtime,
    /// How many callers block.
    active: AtomicUsize,
    /// How many calls were made so far.
    calls: AtomicU64,
    /// Whether the driver thread runs the runtime, or is about to.
    in_charge: AtomicBool,
    /// Tells the driver thread to leave the runtime to callers.
    leave: Notify,
    /// Whether the last handle is gone.
    over: AtomicBool,
}

/// The driver thread takes over once no call was made for this long, or for twice as long at most.
/// With less, a program that calls seldom would wake the driver thread at each call.
const QUIET: Duration = Duration::from_millis(20);

impl Runtime {
    pub(super) fn new() -> Result<Runtime, Error> {
        refuse_inside_async()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let shared = Arc::new(Shared {
            runtime: runtime.map_err(failed)?,
            active: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            in_charge: AtomicBool::new(false),
            leave: Notify::new(),
            over: AtomicBool::new(false),
        });
        let kept = shared.clone();
        let thread = std::thread::Builder::new().name("onetrip-driver".into());
        let spawned = thread.spawn(move || take_care(kept)).map_err(failed)?;
        let driver_thread = spawned.thread().clone();
        Ok(Runtime(Arc::new(Owner { shared, driver_thread })))
    }

    /// Makes a future, and blocks until it has resolved.
    ///
    /// # Errors
    /// The error of the future. Inside asynchronous code the future is not even made.
    pub(super) fn wait<T, F: Future<Output = Result<T, Error>>>(
        &self,
        make: impl FnOnce() -> F,
    ) -> Result<T, Error> {
        refuse_inside_async()?;
        let shared = &self.0.shared;
        let _call = Call::begin(shared);
        shared.runtime.block_on(async { make().await })
    }

    /// Blocks until all connections are closed, if this is the last handle.
    pub(super) fn wait_for_the_end(&self) -> Result<(), Error> {
        if Arc::strong_count(&self.0) > 1 {
            return Ok(());
        }
        let shared = &self.0.shared;
        self.wait(|| async {
            shared.all_ended().await;
            Ok(())
        })
    }
}

/// A caller that blocks.
struct Call<'a>(&'a Shared);

impl Call<'_> {
    fn begin(shared: &Shared) -> Call<'_> {
        shared.active.fetch_add(1, SeqCst);
        shared.calls.fetch_add(1, SeqCst);
        if shared.in_charge.load(SeqCst) {
            shared.leave.notify_one();
        }
        Call(shared)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, SeqCst);
    }
}

impl Shared {
    /// Runs the runtime until a caller wants it.
    fn run_while_quiet(&self) {
        self.in_charge.store(true, SeqCst);
        // Either a caller sees that this thread is in charge, or this thread sees the caller.
        if self.active.load(SeqCst) == 0 && !self.over.load(SeqCst) {
            self.runtime.block_on(self.leave.notified());
        }
        self.in_charge.store(false, SeqCst);
    }

    /// Resolves when no task is left.
    async fn all_ended(&self) {
        while self.runtime.metrics().num_alive_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// The driver thread.
fn take_care(shared: Arc<Shared>) {
    let mut seen = 0;
    while !shared.over.load(SeqCst) {
        let calls = shared.calls.load(SeqCst);
        if calls == seen && shared.active.load(SeqCst) == 0 {
            shared.run_while_quiet();
        } else {
            seen = calls;
            std::thread::park_timeout(QUIET);
        }
    }
    // Submitted requests are still answered, and the connections say goodbye.
    shared.runtime.block_on(shared.all_ended());
    // A runtime must not be dropped inside another one, where the last handle may just be dropped;
    // so this thread is the last to release it.
    while Arc::strong_count(&shared) > 1 {
        std::thread::yield_now();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.over.store(true, SeqCst);
        self.shared.leave.notify_one();
        self.driver_thread.unpark();
    }
}

/// Whether this thread runs asynchronous code. A thread of `spawn_blocking` belongs to a runtime as
/// well, but may block. The difference: tokio limits how much a task does before it has to yield,
/// and only a task has such a budget, which runs out.
fn refuse_inside_async() -> Result<(), Error> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Ok(());
    }
    let mut cx = Context::from_waker(Waker::noop());
    let counts = (0..=u8::MAX)
        .any(|_| std::pin::pin!(tokio::task::consume_budget()).poll(&mut cx).is_pending());
    match counts {
        false => Ok(()),
        true => Err(Error::misuse(
            "blocking_in_async",
            "a blocking call inside asynchronous code would hold up everything else: use \
             onetrip::Client there, or make the call in spawn_blocking",
        )),
    }
}

fn failed(error: std::io::Error) -> Error {
    let message = format!("the blocking client can't be started: {error}");
    Error::new(crate::Kind::Transport, crate::Outcome::NotSent, "runtime", message)
        .with_source(error)
}
