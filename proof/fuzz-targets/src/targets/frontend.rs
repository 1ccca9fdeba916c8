//! A client's messages: read by the decoders that model servers use, written, and read again.

use bytes::BytesMut;
use onetrip_postgres::message::{
    Bind, EncodeError, Execute, Format, Formats, Frame, FrontendMessage, InitialMessage, IsNull,
    Query, StartupMessage, bind, frame, frame_initial, frontend_max_len, parse, startup_message,
};

use crate::input::{Input, show_debug, text};

/// The type of a message, then its body. Type 0 is the first packet of a connection; type 1 makes
/// messages from the pieces of the input.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.u8() {
        0 => first_packet(input.rest()),
        1 => pieces(input),
        tag => message(tag, input.rest()),
    }
}

fn message(tag: u8, body: &[u8]) {
    let Ok(message) = FrontendMessage::decode(Frame { tag, body }) else { return };
    show_debug(message);
    let mut out = BytesMut::new();
    if body.len() < 10_000 && write(&message, &mut out).is_ok() && !out.is_empty() {
        read_again(&out, message);
    }
}

fn read_again(out: &[u8], message: FrontendMessage<'_>) {
    let again = frame(out, frontend_max_len).expect("its length is right").expect("it is whole");
    assert_eq!(again.message_len(), out.len());
    assert_eq!(FrontendMessage::decode(again), Ok(message));
}

fn write(message: &FrontendMessage<'_>, out: &mut BytesMut) -> Result<(), EncodeError> {
    use FrontendMessage as M;
    match *message {
        M::Bind(message) => write_bind(message, out),
        M::Close(message) => message.encode(out),
        M::CopyData(message) => message.encode(out),
        M::CopyFail(message) => message.encode(out),
        M::Describe(message) => message.encode(out),
        M::Execute(message) => message.encode(out),
        M::Parse(message) => {
            let types: Vec<u32> = message.parameter_types.collect();
            parse::write(out, message.statement, message.sql, &types)
        }
        M::Query(message) => message.encode(out),
        _ => Ok(()),
    }
}

fn write_bind(message: Bind<'_>, out: &mut BytesMut) -> Result<(), EncodeError> {
    let formats: Vec<Format> = message.parameter_formats.collect();
    let formats = match formats[..] {
        [] => Formats::AllText,
        [Format::Binary] => Formats::AllBinary,
        _ => Formats::Each(&formats),
    };
    let results: Vec<Format> = message.result_formats.collect();
    let mut values = message.parameters;
    let value = |_, out: &mut BytesMut| match values.next().expect("there are as many") {
        Some(value) => {
            out.extend_from_slice(value);
            Ok(IsNull::No)
        }
        None => Ok(IsNull::Yes),
    };
    let (portal, statement) = (message.portal, message.statement);
    let (count, results) = (message.parameters.len(), Formats::Each(&results));
    bind::write(out, portal, statement, formats, count, value, results)
}

fn first_packet(data: &[u8]) {
    let Ok(Some(body)) = frame_initial(data) else { return };
    let Ok(message) = InitialMessage::decode(body) else { return };
    show_debug(message);
    if let InitialMessage::Startup(StartupMessage { version, parameters }) = message {
        let mut out = BytesMut::new();
        startup_message::write(&mut out, version, parameters).expect("it was as long before");
        let again = frame_initial(&out).expect("its length is right").expect("it is whole");
        assert_eq!(InitialMessage::decode(again), Ok(message));
    }
}

/// Unchecked names and texts: a message with them is written as it was meant, or not at all.
fn pieces(mut input: Input<'_>) {
    let mut out = BytesMut::from(&b"before"[..]);
    let (name, sql) = (text(input.piece()), text(input.long_piece()));
    let types: Vec<u32> = input.piece().iter().map(|&oid| oid.into()).collect();
    let results = [
        parse::write(&mut out, name, sql, &types),
        Query { sql }.encode(&mut out),
        Execute { portal: name, rows_max: types.len() as i32 }.encode(&mut out),
    ];
    let nul = [name.contains('\0') || sql.contains('\0'), sql.contains('\0'), name.contains('\0')];
    let mut rest = &out[6..];
    for (result, nul) in results.iter().zip(nul) {
        assert_eq!(result.is_err(), nul);
        if !nul {
            let message = frame(rest, frontend_max_len).expect("its length is right");
            let message = message.expect("it is whole");
            FrontendMessage::decode(message).expect("it can be read");
            rest = &rest[message.message_len()..];
        }
    }
    assert!(rest.is_empty() && out.starts_with(b"before"));
}
