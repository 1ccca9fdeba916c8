//! What the typed commands are built on: to send a command and say what its reply converts to.

use onetrip_redis::Command;

use super::FromReply;

/// Something that commands can be sent with: a [`Client`](super::Client), a [`Session`](super::Session), a
/// [`Pipeline`](super::Pipeline).
///
/// The typed commands ([`commands`](super::commands)) are there for whatever implements this.
pub trait Sends {
    /// What a call returns: a future of the reply, or where in a pipeline the reply will be.
    type Answer<T: FromReply>;

    /// Sends a command now, or adds it to the pipeline. The reply converts to `T` when it is taken.
    fn send<T: FromReply>(&self, command: Command) -> Self::Answer<T>;
}

impl<S: Sends> Sends for &S {
    type Answer<T: FromReply> = S::Answer<T>;

    fn send<T: FromReply>(&self, command: Command) -> Self::Answer<T> {
        (**self).send(command)
    }
}
