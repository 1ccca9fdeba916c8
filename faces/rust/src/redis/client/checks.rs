//! Checks of a command before it is sent, and the errors.

use std::borrow::Cow;

use onetrip_redis::{Command, Spec};

use crate::Error;
use crate::redis::config::Config;

/// The name of a command for messages.
pub(crate) fn name_of(spec: Option<&'static Spec>, command: &Command) -> Cow<'static, str> {
    match spec {
        Some(spec) => Cow::Borrowed(spec.name()),
        None => Cow::Owned(command.name().escape_ascii().to_string()),
    }
}

pub(crate) fn misplaced(name: &str, advice: &str) -> Error {
    Error::misuse("wrong_place", format!("{name} can't be sent here: {advice}"))
}

/// Refuses what would make a server close the connection.
pub(crate) fn check(command: &Command, config: &Config) -> Result<(), Error> {
    check_length(command.longest(), config)?;
    if command.count() > onetrip_redis::command::ARGUMENTS_MAX {
        let message = format!("a command of {} arguments has more than 1,048,576", command.count());
        return Err(Error::misuse("too_many_arguments", message));
    }
    if command.count() == 0 {
        return Err(Error::misuse("no_command", "a command has no name"));
    }
    Ok(())
}

/// Refuses an argument that is too long.
pub(crate) fn check_length(len: usize, config: &Config) -> Result<(), Error> {
    // A `Command` does not even store an argument that is longer than servers accept by default.
    let max = config.limits.argument_bytes_max.min(onetrip_redis::command::ARGUMENT_BYTES_MAX);
    if len <= max {
        return Ok(());
    }
    let message = format!(
        "an argument of {len} bytes is longer than the {max} that servers take of one (argument_bytes_max, \
         proto-max-bulk-len on the server)"
    );
    Err(Error::misuse("argument_too_large", message))
}
