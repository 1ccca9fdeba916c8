//! Messages without a body, as bytes to append.

use super::Violation;
use super::tag::{backend, frontend};

/// Ends a segment: the server commits or rolls back its implicit transaction, and answers with
/// ReadyForQuery.
pub const SYNC: [u8; 5] = of(frontend::SYNC);
/// Makes the server send the replies so far, without ending the segment.
pub const FLUSH: [u8; 5] = of(frontend::FLUSH);
/// Ends the session.
pub const TERMINATE: [u8; 5] = of(frontend::TERMINATE);
/// Ends copy data, in both directions.
pub const COPY_DONE: [u8; 5] = of(frontend::COPY_DONE);
/// Answers Parse.
pub const PARSE_COMPLETE: [u8; 5] = of(backend::PARSE_COMPLETE);
/// Answers Bind.
pub const BIND_COMPLETE: [u8; 5] = of(backend::BIND_COMPLETE);
/// Answers Close.
pub const CLOSE_COMPLETE: [u8; 5] = of(backend::CLOSE_COMPLETE);
/// Answers a Describe of something that returns no rows.
pub const NO_DATA: [u8; 5] = of(backend::NO_DATA);
/// Answers an Execute that stopped at its row limit.
pub const PORTAL_SUSPENDED: [u8; 5] = of(backend::PORTAL_SUSPENDED);
/// Takes the place of CommandComplete if the text was empty.
pub const EMPTY_QUERY_RESPONSE: [u8; 5] = of(backend::EMPTY_QUERY_RESPONSE);

const fn of(tag: u8) -> [u8; 5] {
    [tag, 0, 0, 0, 4]
}

/// Checks that the body of such a message is empty.
pub(crate) fn check(message: &'static str, body: &[u8]) -> Result<(), Violation> {
    super::buffer::Reader::new(message, body).end()
}
