//! Checks that the body of a message has the fields that its type prescribes, as far as their
//! lengths go.
//!
//! Texts may be in another encoding, since a session may set one; that is no violation. Rows and
//! copy data are left to their readers, because there are many of them.

use std::ffi::CStr;

use crate::message::tag::backend;
use crate::message::{CopyResponse, NoticeResponse};

/// Whether the body of a server's message holds exactly the fields of its type.
pub(crate) fn is_well_formed(tag: u8, body: &[u8]) -> bool {
    match tag {
        backend::COMMAND_COMPLETE => CStr::from_bytes_with_nul(body).is_ok(),
        backend::PARAMETER_STATUS => is_two_texts(body),
        backend::NOTIFICATION_RESPONSE => body.get(PROCESS_LEN..).is_some_and(is_two_texts),
        backend::NOTICE_RESPONSE => NoticeResponse::decode(body).is_ok(),
        backend::ROW_DESCRIPTION => are_columns(body),
        backend::PARAMETER_DESCRIPTION => are_types(body),
        backend::COPY_IN_RESPONSE | backend::COPY_OUT_RESPONSE | backend::COPY_BOTH_RESPONSE => {
            CopyResponse::decode(body).is_ok()
        }
        _ => true,
    }
}

/// Bytes of the process number at the start of a notification.
const PROCESS_LEN: usize = 4;

fn is_two_texts(body: &[u8]) -> bool {
    body.last() == Some(&0) && body.iter().filter(|byte| **byte == 0).count() == 2
}

fn are_types(body: &[u8]) -> bool {
    const TYPE_LEN: usize = 4;
    let Some((count, types)) = body.split_first_chunk() else { return false };
    types.len() == usize::from(u16::from_be_bytes(*count)) * TYPE_LEN
}

fn are_columns(body: &[u8]) -> bool {
    // Behind the column's name: table, column number, type, size of the type, its modifier, and the
    // format.
    const NUMBERS_LEN: usize = 4 + 2 + 4 + 2 + 4 + 2;
    let Some((count, mut rest)) = body.split_first_chunk() else { return false };
    for _ in 0..u16::from_be_bytes(*count) {
        let Ok(name) = CStr::from_bytes_until_nul(rest) else { return false };
        let Some(behind) = rest.get(name.count_bytes() + 1 + NUMBERS_LEN..) else { return false };
        rest = behind;
    }
    rest.is_empty()
}
