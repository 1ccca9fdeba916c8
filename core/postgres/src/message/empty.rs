//! The messages without a body, whole: encode one by appending it.

use super::Violation;
use super::tag::{backend, frontend};

/// Ends a batch: the server commits or rolls back what is implicit and answers with ReadyForQuery.
pub const SYNC: [u8; 5] = of(frontend::SYNC);
/// Makes the server send what it has, without ending the batch.
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
/// Answers Describe of what returns no rows.
pub const NO_DATA: [u8; 5] = of(backend::NO_DATA);
/// Answers Execute that stopped at its row limit.
pub const PORTAL_SUSPENDED: [u8; 5] = of(backend::PORTAL_SUSPENDED);
/// Stands for CommandComplete where the text was empty.
pub const EMPTY_QUERY_RESPONSE: [u8; 5] = of(backend::EMPTY_QUERY_RESPONSE);

const fn of(tag: u8) -> [u8; 5] {
    [tag, 0, 0, 0, 4]
}

/// Checks that the body of such a message is empty.
pub(crate) fn check(message: &'static str, body: &[u8]) -> Result<(), Violation> {
    super::buffer::Reader::new(message, body).end()
}
