//! Converts the block of a reply to a value of the caller's type.

use bytes::Bytes;
use onetrip_redis::Reply as ReplyView;

use super::FromReply;
use super::error::from_text;
use super::from_reply::Mismatch;
use crate::{Error, Kind, Outcome};

/// Converts a whole reply. `name` is that of the command.
pub(crate) fn decode<T: FromReply>(block: &Bytes, name: &str) -> Result<T, Error> {
    let (reply, _) = ReplyView::read(block).map_err(|malformed| {
        let message = format!("the reply to {name} can't be read: {malformed}");
        Error::new(Kind::Protocol, Outcome::Applied, "malformed_reply", message)
    })?;
    T::from_reply(reply, block).map_err(|mismatch| unreadable(&mismatch, name))
}

/// The command has run, but its reply can't be read.
fn unreadable(mismatch: &Mismatch, name: &str) -> Error {
    if let Some(error) = mismatch.server() {
        return from_text(error.text(), Outcome::Applied, false);
    }
    let message = format!("{name} answered {mismatch}");
    Error::new(Kind::Conversion, Outcome::Applied, "unreadable_reply", message)
}
