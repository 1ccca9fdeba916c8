//! The parts that every kind of chaos shares: tasks that write, one fault after another, and an
//! end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Options;
use crate::check::Window;
use crate::ledger::Ledger;
use crate::plan::{Kind, Plan, PlannedFault};

/// A fault that is over.
#[derive(Debug)]
pub(crate) struct FaultWindow {
    pub(crate) kind: Kind,
    /// When it struck. `None` if it may not lose any write.
    pub(crate) window: Option<Window>,
    /// How many connections it ended.
    pub(crate) broken: u64,
}

/// Tasks that write until they are told to stop.
pub(crate) struct Writers {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
}

impl Writers {
    pub(crate) fn new() -> Writers {
        Writers { tasks: JoinSet::new(), stop: Arc::default() }
    }

    /// Starts one more task, which ends soon after its flag is set.
    pub(crate) fn spawn<F>(&mut self, write_until: impl FnOnce(Arc<AtomicBool>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(write_until(self.stop.clone()));
    }

    /// Tells all tasks to stop. Returns whether they did in time; those that hang are abandoned.
    pub(crate) async fn stop(mut self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(PATIENCE, all).await.is_ok();
        self.tasks.shutdown().await;
        in_time
    }
}

/// The system that the faults are injected into.
pub(crate) trait Target {
    /// The kinds of fault that it can suffer.
    const KINDS: &'static [Kind];

    /// The last log lines of a component on the way that is not under test (a pooler). They help to
    /// explain a run that stopped making progress.
    fn said(&self) -> String {
        String::new()
    }

    /// Carries a fault out. Returns when the fault is over: both ends have closed each connection
    /// that it broke, and the server answers.
    fn carry_out<'a>(
        &'a mut self,
        ledger: &'a Ledger,
        fault: &'a PlannedFault,
    ) -> Pin<Box<dyn Future<Output = FaultWindow> + 'a>>;
}

/// Injects one fault after another until the time is over and each kind has come.
pub(crate) async fn inject_for<T: Target>(
    options: &Options,
    target: &mut T,
    ledger: &Ledger,
) -> Vec<FaultWindow> {
    let (start, mut faults) = (Instant::now(), Vec::new());
    let mut plan = Plan::new(options.seed, T::KINDS);
    while start.elapsed() < options.duration || faults.len() < T::KINDS.len() {
        let fault = plan.next();
        if !ledger.is_at_work().await {
            let (said, left) = (target.said(), ledger.under_way());
            panic!("no write is acknowledged any more: {said}{left:?}");
        }
        tokio::time::sleep(fault.pause).await;
        faults.push(target.carry_out(ledger, &fault).await);
    }
    faults
}

/// Checks `wish` until it is true, for `patience` at most.
pub(crate) async fn until(patience: Duration, mut wish: impl AsyncFnMut() -> bool) -> bool {
    let start = Instant::now();
    while !wish().await {
        if start.elapsed() > patience {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    true
}

/// Runs the future on a multi-threaded runtime of its own.
pub(crate) fn on_threads<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.unwrap().block_on(work)
}

/// A request that has not ended this long after the last fault hangs. Nothing here takes a second
/// by itself; the longest wait that a client has by default is that for a connection, 30 s.
const PATIENCE: Duration = Duration::from_secs(600);
