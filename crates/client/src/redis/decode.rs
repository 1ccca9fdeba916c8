//! From a block of a reply to a value of the caller's.

use bytes::Bytes;

use super::FromReply;
use crate::{Error, Kind, Outcome};

/// Converts a whole reply. `name` is that of the command.
pub(crate) fn decode<T: FromReply>(block: &Bytes, name: &str) -> Result<T, Error> {
    T::from_reply(block).map_err(|why| {
        Error::new(Kind::Conversion, Outcome::Applied, "unreadable_reply", format!("{name} {why}"))
    })
}
