//! A measuring run of the command, from the server's start to the end of what is left on it.

use onetrip_measure::run::{Finished, Plan, run};
use onetrip_measure::schema;
use onetrip_measure::target::Target;

use crate::live::Live;
use crate::output::End;
use crate::runtime::runtime;
use crate::stop::Stop;

/// Measures what is planned, on the server of this URL or a private one, and shows how it goes. A
/// signal ends it with what was measured so far.
///
/// # Errors
/// What kept it from beginning: one line.
pub(crate) fn measured(plan: &Plan, url: Option<&str>) -> Result<Finished, End> {
    let live = Live::new();
    let shown = live.clone();
    let stop = Stop::catch(move || shown.done())?;
    let finished = runtime(plan.threads)?.block_on(async {
        let target = match url {
            Some(url) => Target::at(url)?,
            None => {
                live.say("starting a private PostgreSQL");
                Target::start(plan.connections())?
            }
        };
        // A private server takes the schema with it.
        let is_left = target.private().is_none() && plan.has_tables();
        stop.tidy_first(if is_left { schema::LEFT } else { "" });
        let stopped = async { format!("stopped by {}", stop.requested().await) };
        run(&target, plan, &live, stopped).await
    });
    stop.tidied();
    live.done();
    Ok(finished.map_err(|error| error.to_string())?)
}

/// What a run that ended early has to say.
///
/// # Errors
/// That line.
pub(crate) fn ended(finished: &Finished) -> Result<(), End> {
    match (&finished.failure, &finished.results.stopped) {
        (Some(failure), _) => Err(failure.to_string().into()),
        (None, Some(stopped)) => Err(format!("{stopped}, with what was measured so far").into()),
        (None, None) => Ok(()),
    }
}
