//! Every decoder of a server's messages. A message that was decoded must survive writing and
//! reading.

use bytes::BytesMut;
use onetrip_postgres::message::{
    Authentication, BackendMessage, CopyDirection, CopyResponse, EncodeError, Format, Frame,
    authentication, copy_response, data_row, error_response, frame, max_len,
    negotiate_protocol_version, parameter_description, row_description,
};

use crate::input::{Input, show_debug};

/// The type of a message, then its body.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (tag, body) = (input.u8(), input.rest());
    let Ok(message) = BackendMessage::decode(Frame { tag, body }) else { return };
    show_debug(message);
    let mut out = BytesMut::new();
    write(&message, &mut out).expect("what was read can be written");
    if out.is_empty() || max_len(tag).is_some_and(|max| body.len() > max as usize) {
        return;
    }
    let again = frame(&out, max_len).expect("its length is right").expect("it is whole");
    assert_eq!(again.message_len(), out.len());
    assert_eq!(BackendMessage::decode(again), Ok(message));
}

/// Writes a message as a server would; nothing if the message has only its type.
fn write(message: &BackendMessage<'_>, out: &mut BytesMut) -> Result<(), EncodeError> {
    use BackendMessage as M;
    match *message {
        M::Authentication(Authentication::Sasl(mechanisms)) => {
            authentication::write_sasl(out, &mechanisms.collect::<Vec<_>>())
        }
        M::Authentication(message) => message.encode(out),
        M::BackendKeyData(message) => message.encode(out),
        M::CommandComplete(message) => message.encode(out),
        M::CopyBothResponse(message) => copy(out, CopyDirection::Both, message),
        M::CopyInResponse(message) => copy(out, CopyDirection::In, message),
        M::CopyOutResponse(message) => copy(out, CopyDirection::Out, message),
        M::CopyData(message) => message.encode(out),
        M::DataRow(row) => {
            assert_eq!(row.values.count(), row.values.len());
            data_row::write(out, row.values)
        }
        M::ErrorResponse(error) => error_response::write(out, error.fields),
        M::NoticeResponse(notice) => error_response::write_notice(out, notice.fields),
        M::FunctionCallResponse(message) => message.encode(out),
        M::NegotiateProtocolVersion(message) => {
            let options: Vec<&str> = message.unknown_options.collect();
            negotiate_protocol_version::write(out, message.version, &options)
        }
        M::NotificationResponse(message) => message.encode(out),
        M::ParameterDescription(message) => {
            parameter_description::write(out, &message.types.collect::<Vec<_>>())
        }
        M::ParameterStatus(message) => message.encode(out),
        M::ReadyForQuery(message) => {
            message.encode(out);
            Ok(())
        }
        M::RowDescription(message) => {
            assert_eq!(message.fields.count(), message.fields.len());
            row_description::write(out, message.fields)
        }
        _ => Ok(()),
    }
}

fn copy(
    out: &mut BytesMut,
    direction: CopyDirection,
    message: CopyResponse<'_>,
) -> Result<(), EncodeError> {
    let columns: Vec<Format> = message.columns.collect();
    copy_response::write(out, direction, message.format, &columns)
}
