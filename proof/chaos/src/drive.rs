//! What every kind of chaos does alike: tasks that write, one fault after the other, and an end.

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
    /// When it struck; `None` if nothing may be lost by it.
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

    /// One more, which ends soon after its flag is set.
    pub(crate) fn spawn<F>(&mut self, write_until: impl FnOnce(Arc<AtomicBool>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(write_until(self.stop.clone()));
    }

    /// Tells all to stop. Whether they did in time; those that hang are given up.
    pub(crate) async fn stop(mut self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(PATIENCE, all).await.is_ok();
        self.tasks.shutdown().await;
        in_time
    }
}

/// What a fault befalls.
pub(crate) trait Target {
    /// What can befall it.
    const KINDS: &'static [Kind];

    /// The last words of what stands on the way and is not under test, for those who read why all
    /// stands still.
    fn said(&self) -> String {
        String::new()
    }

    /// Carries a fault out, and returns when it is over: each connection that it broke has been let
    /// go, and the server answers.
    fn carry_out<'a>(
        &'a mut self,
        ledger: &'a Ledger,
        fault: &'a PlannedFault,
    ) -> Pin<Box<dyn Future<Output = FaultWindow> + 'a>>;
}

/// One fault after the other until the time is over, and each kind has come.
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

/// Looks until something comes true, for so long at most.
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

/// Runs it on threads of its own.
pub(crate) fn on_threads<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.unwrap().block_on(work)
}

/// What has not ended so long after the last fault hangs. Nothing here takes a second by itself;
/// the longest wait that a client has by default is that for a connection, 30 s.
const PATIENCE: Duration = Duration::from_secs(60);
