//! The frame scanner: a stream of a server, cut anywhere.

use bytes::{Buf, BytesMut};
use onetrip_postgres::message::{BackendMessage, Violation, frame, max_len};

use crate::input::{Input, cut, show_debug};

/// What the scanner found: type and length of each message, and why it stopped.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    messages: Vec<(u8, u32)>,
    end: Option<Violation>,
    left: usize,
}

/// One byte of plan, then the stream.
pub(super) fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let plan = input.u8();
    let stream = input.rest();
    assert_eq!(scan(plan, stream), scan(0, stream));
}

fn scan(plan: u8, stream: &[u8]) -> Found {
    let mut found = Found { messages: Vec::new(), end: None, left: 0 };
    let mut buffer = BytesMut::new();
    for chunk in cut(plan, stream) {
        buffer.extend_from_slice(chunk);
        if found.end.is_none() {
            found.end = scan_buffer(&mut buffer, &mut found.messages).err();
        }
    }
    found.left = buffer.len();
    found
}

fn scan_buffer(buffer: &mut BytesMut, messages: &mut Vec<(u8, u32)>) -> Result<(), Violation> {
    while let Some(frame) = frame(buffer, max_len)? {
        show_debug(BackendMessage::decode(frame));
        let len = frame.message_len();
        assert!(len <= buffer.len());
        messages.push((frame.tag, frame.body.len() as u32));
        buffer.advance(len);
    }
    Ok(())
}
