//! A measuring run of the command, from the server's start to the end of what is left on it.

use onetrip_measure::redis;
use onetrip_measure::results::Results;
use onetrip_measure::run::{Finished, Plan, run, run_on_redis};
use onetrip_measure::schema;
use onetrip_measure::target::Target;

use crate::live::Live;
use crate::output::End;
use crate::runtime::runtime;
use crate::stop::Stop;

/// What shows how runs go, and what ends them: one for all runs of the command.
pub(crate) struct Measuring {
    live: Live,
    stop: Stop,
}

impl Measuring {
    /// From here on a signal is caught.
    ///
    /// # Errors
    /// The system allows no thread or no handler, in one line.
    pub(crate) fn begin() -> Result<Measuring, String> {
        let live = Live::new();
        let shown = live.clone();
        let stop = Stop::catch(move || shown.done())?;
        Ok(Measuring { live, stop })
    }

    /// Measures what is planned, on the PostgreSQL of this URL or a private one, and shows how it goes. A
    /// signal ends it with what was measured so far.
    ///
    /// # Errors
    /// What kept it from beginning: one line.
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
            // A private server takes the schema with it.
            let is_left = target.private().is_none() && plan.has_tables();
            self.stop.tidy_first(if is_left { schema::LEFT } else { "" });
            run(&target, plan, &self.live, self.stopped()).await
        });
        self.ended();
        Ok(finished.map_err(|error| error.to_string())?)
    }

    /// The same on the Redis or Valkey of this URL, or a private one.
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

    async fn stopped(&self) -> String {
        format!("stopped by {}", self.stop.requested().await)
    }

    fn ended(&self) {
        self.stop.tidied();
        self.live.done();
    }
}

/// What a run has to say that ended early, or measured nothing since all of it failed.
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

/// A measurement of which every operation failed is none.
fn nothing_succeeded(results: &Results) -> Option<String> {
    let cell = results.cells.iter().find(|cell| {
        !cell.errors.is_empty() && cell.repetitions.iter().all(|it| it.operations == 0)
    })?;
    let errors: Vec<String> =
        cell.errors.iter().map(|(code, count)| format!("{code} ({count} times)")).collect();
    Some(format!("every operation of {} failed: {}", cell.key.workload, errors.join(", ")))
}
