//! Stands in for `on` without the feature `tracing`: nothing happens.

use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::config::Resolved;
use crate::core::{Connection, Context};
use crate::statement::Source;

#[derive(Clone, Debug, Default)]
pub(crate) struct Options;

impl Options {
    pub(crate) fn new(_: &Resolved) -> Options {
        Options
    }
}

#[derive(Debug, Default)]
pub(crate) struct Span;

impl Span {
    pub(crate) fn of(_: &Context, _: Source<'_>) -> Span {
        Span
    }

    pub(crate) fn on(&self, _: &Connection) {}

    pub(crate) fn failed(&self, _: &Error) {}
}

#[derive(Debug, Default)]
pub(crate) struct Untold;

impl Untold {
    pub(crate) fn notice(&mut self, _: &Context, _: &[u8]) {}

    pub(crate) fn take(&mut self) -> Untold {
        Untold
    }

    pub(crate) fn tell(self) {}
}

pub(crate) fn notice(_: &Context, _: &[u8]) {}

pub(crate) fn opened(_: Result<&Arc<Connection>, &Error>) {}

pub(crate) fn open_failed(_: &Error) {}

pub(crate) fn ended(_: &Connection) {}

pub(crate) fn lost(_: &Error) {}

pub(crate) fn closed() {}

pub(crate) fn reset() {}

pub(crate) fn waits() {}

pub(crate) fn waited(_: Duration) {}
