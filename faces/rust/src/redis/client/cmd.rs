//! A command that is being built.

use onetrip_redis::{Command, ToArg};

use crate::redis::FromReply;
use crate::redis::sends::Sends;

/// A command that is being built.
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

    /// Adds each of these values as an argument.
    pub fn args<I>(mut self, values: I) -> Self
    where
        I: IntoIterator,
        I::Item: ToArg,
    {
        values.into_iter().for_each(|value| value.write_to(&mut self.command));
        self
    }

    /// Sends the command, or adds it to its pipeline.
    pub fn send<T: FromReply>(self) -> S::Answer<T> {
        self.sends.send(self.command)
    }
}
