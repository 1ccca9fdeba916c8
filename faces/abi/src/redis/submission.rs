//! What a host submits: commands as they go onto the wire, and what it says of them.

use std::sync::Arc;

use bytes::BytesMut;
use onetrip_engine::memory;
use onetrip_redis::Expect;
use onetrip_redis::client::scripts::write_as_text;

use super::look;

/// What commands are; bits that the host sets.
pub(crate) mod flag {
    pub(crate) const LEAVES: u32 = 1;
    pub(crate) const CONFIRMED: u32 = 1 << 1;
    pub(crate) const ATOMIC: u32 = 1 << 2;
    pub(crate) const ALL: u32 = LEAVES | CONFIRMED | ATOMIC;
}

/// Commands that share a request.
#[derive(Debug)]
pub(crate) struct Submission<'a> {
    flags: u32,
    /// How many replies come; 0 for one whose error is that of the request.
    replies: u32,
    /// The text of the script that its one command calls by its hash.
    script: &'a [u8],
    pub(crate) commands: &'a [u8],
}

impl<'a> Submission<'a> {
    /// What the host wrote: the text of a script if there is one, then the commands. `None` if that is none.
    pub(crate) fn read(
        flags: u32,
        replies: u32,
        request: &'a [u8],
        text_len: usize,
    ) -> Option<Submission<'a>> {
        let (script, commands) = request.split_at_checked(text_len)?;
        let is_one = replies == 0 && flags & flag::CONFIRMED == 0;
        // MULTI and EXEC, and ASKING, are answered too.
        let is_whole = flags & flag::ATOMIC == 0 || replies >= 2 + u32::from(asks(commands));
        let fits = !commands.is_empty() && flags & !flag::ALL == 0 && is_whole;
        (fits && (script.is_empty() || is_one)).then_some(Submission {
            flags,
            replies,
            script,
            commands,
        })
    }

    /// The most bytes that it takes.
    pub(crate) fn len(&self) -> usize {
        self.commands.len() + self.script.len() + HEAD_MAX
    }

    /// The hash by which it calls a script.
    pub(crate) fn script(&self) -> Option<&'a [u8]> {
        if self.script.is_empty() {
            return None;
        }
        look::argument(self.commands, 1)
    }

    /// Writes it as it goes onto the wire: a script that the server does not know as EVAL with its text.
    pub(crate) fn write(&self, is_known: bool, out: &mut BytesMut) {
        let Some(sha) = self.script().filter(|_| !is_known) else {
            return out.extend_from_slice(self.commands);
        };
        write_as_text(self.commands, sha, self.script, out);
    }

    /// What it is answered by, where its script goes by its hash or does not. None if there is no memory to keep its script.
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

/// What EVAL and the length of a text take.
const HEAD_MAX: usize = 64;

/// Whether ASKING is the first of these commands.
fn asks(commands: &[u8]) -> bool {
    look::argument(commands, 0).is_some_and(|name| name.eq_ignore_ascii_case(b"ASKING"))
}
