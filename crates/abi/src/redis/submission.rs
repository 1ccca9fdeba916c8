//! What a host submits: commands as they go onto the wire, and what it says of them.

use std::sync::Arc;

use onetrip_engine::memory;
use onetrip_redis::Expect;

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
    /// The text of the script that it calls by its hash.
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

    pub(crate) fn is_script(&self) -> bool {
        !self.script.is_empty()
    }

    /// What it is answered by. None if there is no memory to keep its script.
    pub(crate) fn expect(&self) -> Option<Expect> {
        if self.flags & flag::CONFIRMED != 0 {
            let name = look::arguments(self.commands).next().unwrap_or_default();
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
            0 if self.is_script() => Expect::reply().script(Arc::from(self.script)),
            0 if self.flags & flag::LEAVES != 0 => Expect::reply().leaving(),
            0 => Expect::reply(),
            replies => Expect::replies(replies),
        })
    }
}

/// Whether ASKING is the first of these commands.
fn asks(commands: &[u8]) -> bool {
    look::arguments(commands).next().is_some_and(|name| name.eq_ignore_ascii_case(b"ASKING"))
}
