//! A command that is being put together.

use onetrip_redis::{Command, ToArg};

use crate::redis::FromReply;
use crate::redis::sends::Sends;

/// A command that is being put together.
#[must_use = "a command does nothing until it is sent"]
#[derive(Clone, Debug)]
pub struct Cmd<'a, S> {
    pub(crate) sends: &'a S,
    pub(crate) command: Command,
}

impl<S: Sends> Cmd<'_, S> {
    /// Adds an argument.
    pub fn arg(mut self, value: impl ToArg) -> Self {
        value.write_to(&mut self.command);
        self
    }

    /// Adds each of these as an argument.
    pub fn args<I>(mut self, values: I) -> Self
    where
        I: IntoIterator,
        I::Item: ToArg,
    {
        values.into_iter().for_each(|value| value.write_to(&mut self.command));
        self
    }

    /// Sends it.
    pub fn send<T: FromReply>(self) -> S::Answer<T> {
        self.sends.send(self.command)
    }
}
