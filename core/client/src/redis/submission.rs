//! What a host submits: commands in wire format, and what it says about them.

use std::sync::Arc;

use bytes::BytesMut;
use onetrip_engine::memory;
use onetrip_redis::Expect;
use onetrip_redis::client::scripts::write_as_text;

use super::look;

/// What commands are; bits that the host sets.
pub mod flag {
    /// For one command: its effects before an error remain.
    pub const LEAVES: u32 = 1;
    /// Pushes confirm it, as for SUBSCRIBE: one push for each channel.
    pub const CONFIRMED: u32 = 1 << 1;
    /// The commands are MULTI, the list, and EXEC, possibly behind ASKING. If EXEC is refused and
    /// MULTI remains open, the connection ends.
    pub const ATOMIC: u32 = 1 << 2;
    pub(crate) const ALL: u32 = LEAVES | CONFIRMED | ATOMIC;
}

/// Commands that share a request.
#[derive(Debug)]
pub struct Submission<'a> {
    flags: u32,
    /// How many replies come. 0 for one reply, whose error ends the request as failed.
    replies: u32,
    /// The text of the script that the one command calls by its hash; empty for none.
    script: &'a [u8],
    pub(crate) commands: &'a [u8],
}

impl<'a> Submission<'a> {
    /// Parses what the host wrote: the text of a script, if there is one, then the commands. `None`
    /// if it is malformed.
    pub fn read(
        flags: u32,
        replies: u32,
        request: &'a [u8],
        text_len: usize,
    ) -> Option<Submission<'a>> {
        let (script, commands) = request.split_at_checked(text_len)?;
        let is_one = replies == 0 && flags & flag::CONFIRMED == 0;
        // The replies to MULTI and EXEC, and to ASKING, are counted too.
        let is_whole = flags & flag::ATOMIC == 0 || replies >= 2 + u32::from(asks(commands));
        let fits = !commands.is_empty() && flags & !flag::ALL == 0 && is_whole;
        (fits && (script.is_empty() || is_one)).then_some(Submission {
            flags,
            replies,
            script,
            commands,
        })
    }

    /// The most bytes that it takes on the wire.
    pub(crate) fn len(&self) -> usize {
        self.commands.len() + self.script.len() + HEAD_MAX
    }

    /// The hash of the script that it calls.
    pub(crate) fn script(&self) -> Option<&'a [u8]> {
        if self.script.is_empty() {
            return None;
        }
        look::argument(self.commands, 1)
    }

    /// Writes it in wire format. A script that the server does not know is sent as EVAL with its
    /// text.
    pub(crate) fn write(&self, is_known: bool, out: &mut BytesMut) {
        let Some(sha) = self.script().filter(|_| !is_known) else {
            return out.extend_from_slice(self.commands);
        };
        write_as_text(self.commands, sha, self.script, out);
    }

    /// The expected replies. `is_known`: the script is called by its hash. None if there is no
    /// memory to keep the text of the script.
    pub(crate) fn expect(&self, is_known: bool) -> Option<Expect> {
        if self.flags & flag::CONFIRMED != 0 {
            let name = look::argument(self.commands, 0).unwrap_or_default();
            return Some(Expect::confirmations(self.replies).of(name));
        }
        if !memory::is_there(self.script.len()) {
            return None;
        }
        if self.flags & flag::ATOMIC != 0 {
            return Some(match asks(self.commands) {
                true => Expect::atomic(self.replies - 3).behind_asking(),
                false => Expect::atomic(self.replies - 2),
            });
        }
        Some(match self.replies {
            0 if is_known => Expect::reply().script(Arc::from(self.script)),
            0 if self.flags & flag::LEAVES != 0 => Expect::reply().leaving(),
            0 => Expect::reply(),
            replies => Expect::replies(replies),
        })
    }
}

/// The most bytes that EVAL and the length of a text take.
const HEAD_MAX: usize = 64;

/// Whether the first of these commands is ASKING.
fn asks(commands: &[u8]) -> bool {
    look::argument(commands, 0).is_some_and(|name| name.eq_ignore_ascii_case(b"ASKING"))
}
