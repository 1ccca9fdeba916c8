//! Whether the bytes of a reply are those that were to come.

use super::Plan;
use super::plan::{Frame, Kind};
use crate::redis::model::{ATTRIBUTE, REFUSALS};

/// Compares a reply with what it was to be, and says which identities were answered with errors.
pub(super) fn check(reply: &[u8], plan: &Plan, whole: bool) -> Result<Vec<u64>, String> {
    let mut rest = reply;
    let mut failed = Vec::new();
    for (at, frame) in plan.own.frames.iter().enumerate() {
        rest = rest.strip_prefix(ATTRIBUTE).unwrap_or(rest);
        let is_exec = matches!(plan.own.kind, Kind::Atomic) && at + 1 == plan.own.frames.len();
        let discarded = is_exec && !failed.is_empty();
        if let Some(behind) = good(rest, frame).filter(|_| !discarded) {
            rest = behind;
        } else if let Some(behind) = frame.op.and_then(|op| error_about(rest, op)) {
            failed.extend(frame.op);
            rest = behind;
        } else if let Some(behind) = rest.strip_prefix(EXECABORT).filter(|_| discarded) {
            failed.clone_from(&plan.ops);
            rest = behind;
        } else if !whole && is_cut(rest, frame) {
            return Ok(failed);
        } else {
            let seen = &rest[..rest.len().min(60)];
            return Err(format!("its reply {at} is another one: {}", seen.escape_ascii()));
        }
    }
    match rest {
        [] => Ok(failed),
        _ => Err(format!("{} bytes are behind its reply", rest.len())),
    }
}

/// What lies behind a frame that is as it was to be.
fn good<'a>(rest: &'a [u8], frame: &Frame) -> Option<&'a [u8]> {
    let behind = rest.strip_prefix(&frame.bytes[..]).filter(|_| !frame.fails)?;
    if frame.open { behind_line(behind) } else { Some(behind) }
}

/// What lies behind an error that names this identity.
fn error_about(rest: &[u8], op: u64) -> Option<&[u8]> {
    let text = match rest.first()? {
        b'-' => rest,
        b'!' => behind_line(rest)?,
        _ => return None,
    };
    let behind = behind_line(text)?;
    let text = &text[..text.len() - behind.len()];
    let name = format!(" op:{op} ");
    text.windows(name.len()).any(|window| window == name.as_bytes()).then_some(behind)
}

/// Whether the connection may have ended in the middle of this frame.
fn is_cut(rest: &[u8], frame: &Frame) -> bool {
    let open = frame.open && rest.starts_with(&frame.bytes) && behind_line(rest).is_none();
    frame.bytes.starts_with(rest) || ATTRIBUTE.starts_with(rest) || open
}

fn behind_line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some(&bytes[end + 2..])
}

/// Whether this error is the request's own.
pub(super) fn is_own_error(error: &[u8], plan: &Plan) -> bool {
    let error = error.strip_prefix(ATTRIBUTE).unwrap_or(error);
    let unknown = matches!(plan.own.kind, Kind::Script(_)) && code(error) == b"NOSCRIPT";
    unknown || error_about(error, plan.id).is_some_and(<[u8]>::is_empty)
}

/// Whether it says that the command did not begin.
pub(super) fn is_refusal(error: &[u8]) -> bool {
    let text = text(error.strip_prefix(ATTRIBUTE).unwrap_or(error));
    text.starts_with(b"NOSCRIPT ")
        || REFUSALS.iter().any(|refusal| text.starts_with(refusal.as_bytes()))
}

/// The first word of an error.
pub(super) fn code(error: &[u8]) -> &[u8] {
    text(error).split(|byte| *byte == b' ').next().unwrap_or_default()
}

fn text(error: &[u8]) -> &[u8] {
    match error {
        [b'!', ..] => behind_line(error).unwrap_or_default(),
        _ => error.get(1..).unwrap_or_default(),
    }
}

const EXECABORT: &[u8] = b"-EXECABORT Transaction discarded\r\n";
