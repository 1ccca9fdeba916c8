//! Errors and notices: how they are read, what their text says, and that they can be encoded again.

use bytes::BytesMut;
use onetrip_postgres::message::{ErrorResponse, Frame, Header, NoticeResponse, ServerError, frame};

use crate::input::{show, show_debug};

/// The body of an ErrorResponse.
pub(super) fn run(body: &[u8]) {
    let notice = NoticeResponse::decode(body);
    let Ok(response) = ErrorResponse::decode(body) else { return };
    assert_eq!(notice.map(|notice| notice.fields), Ok(response.fields));
    let error = ServerError::from(response);
    show(&error);
    show_debug(&error);
    let mut out = BytesMut::new();
    error.encode_error(&mut out).expect("what was read can be written");
    let len_max = |_| Some(u32::MAX - Header::LEN as u32);
    let Ok(Some(Frame { body, .. })) = frame(&out, len_max) else { panic!("it is no message") };
    let again = ErrorResponse::decode(body).expect("it can be read");
    assert_eq!(ServerError::from(again), error);
}
