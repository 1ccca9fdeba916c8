//! The base of the typed commands: sending a command whose reply converts to a type.

use onetrip_redis::Command;

use super::FromReply;

/// Something that sends commands: a [`Client`](super::Client), a [`Session`](super::Session) or a
/// [`Pipeline`](super::Pipeline). Everything that implements this has the typed commands
/// ([`commands`](super::commands)).
pub trait Sends {
    /// What a call returns: a future of the reply, or the position of the reply in a pipeline.
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
