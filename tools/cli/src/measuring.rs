//! A measuring run of the command, from the server's start until its schema or keys are removed.

use onetrip_measure::redis;
use onetrip_measure::results::Results;
use onetrip_measure::run::{Finished, Plan, run, run_on_redis};
use onetrip_measure::schema;
use onetrip_measure::target::Target;

use crate::live::Live;
use crate::output::End;
use crate::runtime::runtime;
use crate::stop::Stop;

/// The progress display and the signals: one for all runs of a command.
pub(crate) struct Measuring {
    live: Live,
    stop: Stop,
}

impl Measuring {
    /// Begins to catch signals.
    ///
    /// # Errors
    /// The system allows no thread or no handler, in one line.
    pub(crate) fn begin() -> Result<Measuring, String> {
        let live = Live::new();
        let shown = live.clone();
        let stop = Stop::catch(move || shown.done())?;
        Ok(Measuring { live, stop })
    }

    /// Runs the plan on the PostgreSQL server of this URL or on a private one, and shows the
    /// progress. A signal ends it with the results so far.
    ///
    /// # Errors
    /// One line that says why it could not begin.
    pub(crate) fn postgres(&self, plan: &Plan, url: Option<&str>) -> Result<Finished, End> {
        self.live.begin();
        let finished = runtime(plan.threads)?.block_on(async {
            let target = match url {
                Some(url) => Target::at(url)?,
                None => {
                    self.live.say("starting a private PostgreSQL");
                    Target::start(plan.connections())?
                }
            };
            // The schema ends with a private server.
            let is_left = target.private().is_none() && plan.has_tables();
            self.stop.tidy_first(if is_left { schema::LEFT } else { "" });
            run(&target, plan, &self.live, self.stopped()).await
        });
        self.ended();
        Ok(finished.map_err(|error| error.to_string())?)
    }

    /// The same on the Redis or Valkey server of this URL, or on a private one.
    ///
    /// # Errors
    /// As [`postgres`](Self::postgres).
    pub(crate) fn redis(&self, plan: &Plan, url: Option<&str>) -> Result<Finished, End> {
        self.live.begin();
        let finished = runtime(plan.threads)?.block_on(async {
            let target = match url {
                Some(url) => redis::Target::at(url)?,
                None => {
                    self.live.say("starting a private Redis");
                    redis::Target::start()?
                }
            };
            let left = target.private().is_none().then(|| target.left());
            self.stop.tidy_first(&left.unwrap_or_default());
            run_on_redis(&target, plan, &self.live, self.stopped()).await
        });
        self.ended();
        Ok(finished.map_err(|error| error.to_string())?)
    }

    /// Runs something else, on this thread. A signal ends it.
    ///
    /// # Errors
    /// Its own, or that it was stopped.
    pub(crate) fn beside<T>(
        &self,
        label: &'static str,
        work: impl Future<Output = Result<T, String>>,
    ) -> Result<T, End> {
        self.live.begin();
        self.live.say(label);
        self.stop.tidy_first("");
        let done = runtime(1)?.block_on(async {
            tokio::select! {
                done = work => done,
                stopped = self.stopped() => Err(stopped),
            }
        });
        self.ended();
        Ok(done?)
    }

    async fn stopped(&self) -> String {
        format!("stopped by {}", self.stop.requested().await)
    }

    fn ended(&self) {
        self.stop.tidied();
        self.live.done();
    }
}

/// Fails if a run ended early, or if all its operations failed.
///
/// # Errors
/// That line.
pub(crate) fn ended(finished: &Finished) -> Result<(), End> {
    match (&finished.failure, &finished.results.stopped) {
        (Some(failure), _) => Err(failure.to_string().into()),
        (None, Some(stopped)) => Err(format!("{stopped}, with what was measured so far").into()),
        (None, None) => nothing_succeeded(&finished.results).map_or(Ok(()), |why| Err(why.into())),
    }
}

/// The first cell in which every operation failed, as an error line.
fn nothing_succeeded(results: &Results) -> Option<String> {
    let cell = results.cells.iter().find(|cell| {
        !cell.errors.is_empty() && cell.repetitions.iter().all(|it| it.operations == 0)
    })?;
    let errors: Vec<String> =
        cell.errors.iter().map(|(code, count)| format!("{code} ({count} times)")).collect();
    Some(format!("every operation of {} failed: {}", cell.key.workload, errors.join(", ")))
}
