//! Parses commands as strictly as a server: arrays of strings with lengths, and nothing else.

use bytes::{Buf, BytesMut};

/// Bytes that are not a whole command yet.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: BytesMut,
}

impl Input {
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next command, if it is whole; otherwise what is wrong with it.
    pub(super) fn next(&mut self) -> Result<Option<Vec<Vec<u8>>>, String> {
        let mut rest = &self.bytes[..];
        let Some(count) = length(&mut rest, b'*')? else { return Ok(None) };
        let mut arguments = Vec::new();
        for _ in 0..count {
            let Some(len) = length(&mut rest, b'$')? else { return Ok(None) };
            if rest.len() < len + 2 {
                return Ok(None);
            }
            arguments.push(rest[..len].to_vec());
            if &rest[len..len + 2] != b"\r\n" {
                return Err(format!("an argument of {len} bytes has no end"));
            }
            rest = &rest[len + 2..];
        }
        let used = self.bytes.len() - rest.len();
        self.bytes.advance(used);
        match arguments.is_empty() {
            true => Err("a command without a name".into()),
            false => Ok(Some(arguments)),
        }
    }
}

fn length(rest: &mut &[u8], kind: u8) -> Result<Option<usize>, String> {
    let Some(&first) = rest.first() else { return Ok(None) };
    if first != kind {
        return Err(format!("expected '{}', got '{}'", char::from(kind), first.escape_ascii()));
    }
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let digits = std::str::from_utf8(&rest[1..end]).ok();
    let len = digits.and_then(|digits| digits.parse().ok()).ok_or("a length is no number")?;
    *rest = &rest[end + 2..];
    Ok(Some(len))
}
