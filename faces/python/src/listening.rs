//! A listener's decisions, which stand below the faces, for `onetrip/_listen.py`.

use std::time::Instant;

use onetrip_engine::Time;
use onetrip_postgres::client::listener::{Answered, BadName, KEPT_MAX, Listener, check};
use onetrip_postgres::message::NotificationResponse;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::local::Local;
use crate::messages::Messages;

/// When it connects, what it sends, and what its reader is told.
#[pyclass(frozen, module = "onetrip._native")]
pub(crate) struct Listening {
    it: Local<Listener>,
    start: Instant,
}

impl Listening {
    fn time(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }
}

#[pymethods]
impl Listening {
    #[new]
    fn new(channels: Vec<String>, seed: u64) -> PyResult<Listening> {
        for channel in &channels {
            let why = match check(channel) {
                Ok(()) => continue,
                Err(BadName::Empty) => "is empty".to_owned(),
                Err(BadName::Long(len)) => format!("has {len} bytes, more than 63"),
                Err(BadName::Nul) => "has a zero byte".to_owned(),
            };
            let message = format!("onetrip: the name {channel:?} of a channel {why}");
            return Err(PyValueError::new_err(message));
        }
        Ok(Listening { it: Local::new(Listener::new(channels, seed)), start: Instant::now() })
    }

    /// Notifications that are kept for the reader.
    #[classattr]
    const KEPT_MAX: usize = KEPT_MAX;

    /// A connection is open.
    fn opened(&self) -> PyResult<()> {
        Ok(self.it.with(|it| it.handle_opened(self.time()))?)
    }

    /// What is to be sent now.
    fn next_text(&self) -> PyResult<Option<String>> {
        Ok(self.it.with(Listener::next_text)?)
    }

    /// It was answered. `serves`, or `gap` where notifications may be missing; `refused`, or `says`
    /// where the reader is to be told.
    fn answered(&self, is_ok: bool) -> PyResult<&'static str> {
        Ok(match self.it.with(|it| it.handle_answered(self.time(), is_ok))? {
            Answered::Serves { gap: true } => "gap",
            Answered::Refused { says: true } => "says",
            Answered::Refused { says: false } => "refused",
            _ => "serves",
        })
    }

    /// Whether a gap is to be told of before the notification that has come.
    fn take_gap(&self) -> PyResult<bool> {
        Ok(self.it.with(Listener::take_gap)?)
    }

    /// The connection is lost: seconds until the next attempt.
    fn lost(&self) -> PyResult<f64> {
        Ok(self.it.with(|it| it.handle_lost(self.time()))?.as_secs_f64())
    }

    /// None could be opened: seconds until the next attempt, and whether the reader is told.
    fn open_failed(&self, is_final: bool) -> PyResult<(f64, bool)> {
        let retry = self.it.with(|it| it.handle_open_failed(is_final))?;
        Ok((retry.pause.as_secs_f64(), retry.says))
    }
}

/// Channel, payload and process of a NotificationResponse.
#[pyfunction]
pub(crate) fn notification(block: &[u8]) -> Option<(&str, &str, i32)> {
    let (_, body) = (Messages { rest: block }).next()?;
    let it = NotificationResponse::decode(body).ok()?;
    Some((it.channel, it.payload, it.process_id))
}
