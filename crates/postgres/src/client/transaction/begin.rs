//! The messages of a BEGIN that runs in a portal, and of the guard in front of what comes behind it.

use bytes::BytesMut;

use crate::message::{Describe, EncodeError, Execute, Target, bind, parse};
use crate::session::Expect;

/// The name of the portal of the `number`-th transaction: unlike that of every other of the session, so that
/// what is left over of an earlier one is refused.
pub fn portal(number: u64) -> String {
    format!("onetrip_tx_{number}")
}

/// Writes BEGIN, in its portal, without a Sync: what follows is of its segment.
///
/// # Errors
/// The text can't be sent.
pub fn write(out: &mut BytesMut, text: &str, portal: &str) -> Result<(), EncodeError> {
    parse::write(out, "", text, &[])?;
    bind::write_named(out, portal, "", &NOTHING)?;
    Execute { portal, rows_max: 0 }.encode(out)
}

/// Writes what fails where the transaction of this portal isn't open.
///
/// # Errors
/// The name can't be sent.
pub fn write_guard(out: &mut BytesMut, portal: &str) -> Result<(), EncodeError> {
    Describe { target: Target::Portal(portal) }.encode(out)
}

/// What a guard is answered by.
pub const fn expect_guard() -> Expect {
    Expect::sync().describe_portal()
}

/// No parameters, and all results as text.
const NOTHING: [u8; 6] = [0; 6];
