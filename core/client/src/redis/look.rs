//! What is known of a command before it is sent, so that a host can choose its connection.

use onetrip_engine::memory::is_there;
use onetrip_redis::client::cache::Writes;
use onetrip_redis::{Command, Place, Spec};

/// What is known of one command.
///
/// `advice` lives as long as the module.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Bits of [`traits`].
    pub bits: u32,
    /// The length of the advice.
    pub advice_len: usize,
    /// What to do instead if the command can't be sent on a shared connection; null for none.
    pub advice: *const u8,
}

/// What is known of a command, as bits. Where it may be sent is a number in them, shifted by
/// [`PLACE`](traits::PLACE).
pub mod traits {
    /// The command is known.
    pub const KNOWN: u32 = 1;
    /// It reads data and changes none.
    pub const READONLY: u32 = 1 << 1;
    /// It may change data.
    pub const WRITE: u32 = 1 << 2;
    /// Its effects before an error remain.
    pub const LEAVES: u32 = 1 << 3;
    /// The server refuses it between MULTI and EXEC.
    pub const NO_MULTI: u32 = 1 << 4;
    /// All of its keys can be found.
    pub const KEYS_KNOWN: u32 = 1 << 5;
    /// Where it may go depends on its arguments.
    pub const DEPENDS: u32 = 1 << 6;
    /// Its reply may be kept until one of its keys is changed.
    pub const CACHEABLE: u32 = 1 << 10;
    /// It may change what is kept of other replies.
    pub const CHANGES: u32 = 1 << 11;
    /// By how many bits the place is shifted. It takes two bits.
    pub const PLACE: u32 = 8;
    /// It may be sent on a shared connection.
    pub const SHARED: u32 = 0;
    /// It may block, so it needs its own connection.
    pub const OWN: u32 = 1;
    /// It changes the state of its connection or depends on it, so it needs a session.
    pub const SESSION: u32 = 2;
    /// It can't be sent at all, because one reply does not answer it.
    pub const REFUSED: u32 = 3;
}

impl Traits {
    /// What is known of a command in wire format. None if there is no memory to parse it.
    pub fn of(bytes: &[u8]) -> Option<Traits> {
        // Parsing copies the arguments to a buffer that grows.
        if !is_there(bytes.len().saturating_mul(3)) {
            return None;
        }
        let command = command(bytes);
        let mut known = Traits { bits: traits::LEAVES, advice_len: 0, advice: std::ptr::null() };
        let changes = Writes::of(&command) != Writes::Nothing;
        if let Some(spec) = Spec::of(&command) {
            known.bits = bits(spec);
            if depends(spec, &command) {
                known.bits |= traits::DEPENDS;
            }
            known.take_place(spec.place(&command));
        }
        if changes {
            known.bits |= traits::CHANGES;
        }
        Some(known)
    }

    fn take_place(&mut self, place: Place) {
        let (place, advice) = match place {
            Place::Shared => (traits::SHARED, ""),
            Place::Own => (traits::OWN, ""),
            Place::Session(advice) => (traits::SESSION, advice),
            Place::Refused(advice) => (traits::REFUSED, advice),
        };
        self.bits |= place << traits::PLACE;
        if !advice.is_empty() {
            (self.advice, self.advice_len) = (advice.as_ptr(), advice.len());
        }
    }
}

/// Whether further arguments decide more: which subcommand it is, or whether it blocks.
fn depends(spec: &Spec, command: &Command) -> bool {
    let has_sub = |other: &Spec| {
        let sub = other.name().strip_prefix(spec.name());
        sub.is_some_and(|sub| sub.starts_with(' '))
    };
    matches!(spec.name(), "XREAD" | "XREADGROUP")
        || (command.count() == 1 && !spec.keys_known() && Spec::all().any(has_sub))
}

fn bits(spec: &Spec) -> u32 {
    let bits = [
        (true, traits::KNOWN),
        (spec.is_readonly(), traits::READONLY),
        (spec.is_write(), traits::WRITE),
        (spec.may_leave_effects(), traits::LEAVES),
        (spec.refused_in_multi(), traits::NO_MULTI),
        (spec.keys_known(), traits::KEYS_KNOWN),
        (spec.is_cacheable(), traits::CACHEABLE),
    ];
    bits.into_iter().filter(|(holds, _)| *holds).fold(0, |bits, (_, bit)| bits | bit)
}

/// Parses a command in wire format. It ends before the first argument that is incomplete.
pub(crate) fn command(bytes: &[u8]) -> Command {
    let mut command = Command::new("");
    arguments(bytes).for_each(|argument| command.push(argument));
    command
}

/// One argument of the command at the start of these bytes. Argument 0 is the name.
#[inline(never)]
pub(crate) fn argument(bytes: &[u8], number: usize) -> Option<&[u8]> {
    arguments(bytes).nth(number)
}

/// The arguments of the command at the start of these bytes.
pub(crate) fn arguments(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut left, mut rest) = length(bytes, b'*').unwrap_or((0, bytes));
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let (len, behind) = length(rest, b'$')?;
        let (argument, behind) = behind.split_at_checked(len)?;
        rest = behind.strip_prefix(b"\r\n")?;
        Some(argument)
    })
}

/// The commands in these bytes, in order.
pub(crate) fn commands(mut bytes: &[u8]) -> Vec<Command> {
    let mut commands = Vec::new();
    while !bytes.is_empty() {
        let command = command(bytes);
        let (head, body) = command.parts();
        match bytes.get(head.len() + body.len()..) {
            Some(rest) if command.count() > 0 => bytes = rest,
            _ => break,
        }
        commands.push(command);
    }
    commands
}

/// A length with its type byte in front, and the bytes behind its line.
fn length(bytes: &[u8], kind: u8) -> Option<(usize, &[u8])> {
    let digits = bytes.strip_prefix(&[kind])?;
    let end = digits.iter().position(|byte| *byte == b'\r')?;
    let len = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    Some((len, digits[end..].strip_prefix(b"\r\n")?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bytes::BytesMut;

    use super::*;

    fn encoded(words: &[&str]) -> BytesMut {
        let mut out = BytesMut::new();
        let command = Command::new("").args(words);
        command.encode(&mut out);
        out
    }

    fn traits_of(words: &[&str]) -> Traits {
        Traits::of(&encoded(words)).unwrap()
    }

    fn place(words: &[&str]) -> u32 {
        traits_of(words).bits >> traits::PLACE & 3
    }

    #[test]
    fn a_command_is_read_as_it_was_written() {
        let bytes = encoded(&["SET", "", "a\r\nb", "ü"]);
        let read: Vec<&[u8]> = arguments(&bytes).collect();
        assert_eq!(read, [&b"SET"[..], b"", b"a\r\nb", "ü".as_bytes()]);
        for len in 0..bytes.len() {
            assert!(arguments(&bytes[..len]).count() < 4, "{len}");
        }
        assert_eq!(arguments(b"*1\r\n$18446744073709551615\r\nx\r\n").count(), 0);
    }

    #[test]
    fn the_place_of_a_command_is_that_of_the_table() {
        assert_eq!(place(&["get", "a"]), traits::SHARED);
        assert_eq!(place(&["BLPOP", "a", "0"]), traits::OWN);
        assert_eq!(place(&["WATCH", "a"]), traits::SESSION);
        assert_eq!(place(&["MONITOR"]), traits::REFUSED);
        assert_eq!(place(&["XREAD", "STREAMS", "s", "0"]), traits::SHARED);
        assert_eq!(place(&["XREAD", "BLOCK", "5", "STREAMS", "s", "0"]), traits::OWN);
        assert_ne!(traits_of(&["XREAD"]).bits & traits::DEPENDS, 0);
        assert_ne!(traits_of(&["CLIENT"]).bits & traits::DEPENDS, 0);
        assert_eq!(traits_of(&["CLIENT", "INFO"]).bits & traits::DEPENDS, 0);
        assert!(!traits_of(&["SELECT", "1"]).advice.is_null());
        assert_eq!(traits_of(&["NOSUCH"]).bits, traits::LEAVES | traits::CHANGES);
    }
}
