//! Commands that share a request, for hosts in Rust, which keep them until they are sent.

use bytes::{Bytes, BytesMut};
use onetrip_redis::client::scripts::write_as_text;
use onetrip_redis::{Command, Spec};

use super::look;
use super::submission::{Submission, flag};

/// Commands that share a request.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// The text of a script, and the commands behind it.
    bytes: Bytes,
    text_len: usize,
    replies: u32,
    flags: u32,
}

impl Packed {
    /// One command.
    pub fn command(spec: Option<&Spec>, command: &Command) -> Packed {
        let mut bytes = BytesMut::new();
        command.encode(&mut bytes);
        let flags = if spec.is_none_or(Spec::may_leave_effects) { flag::LEAVES } else { 0 };
        Packed { bytes: bytes.freeze(), flags, ..Packed::default() }
    }

    /// A call of a script by its hash, with its text for a server that does not have it.
    pub fn script(text: &[u8], call: &Command) -> Packed {
        let mut bytes = BytesMut::with_capacity(text.len() + call.len_max());
        bytes.extend_from_slice(text);
        call.encode(&mut bytes);
        let (bytes, text_len) = (bytes.freeze(), text.len());
        Packed { bytes, text_len, flags: flag::LEAVES, ..Packed::default() }
    }

    /// A command that is confirmed by so many pushes.
    pub fn confirmed(command: &Command, pushes: u32) -> Packed {
        let flags = flag::CONFIRMED;
        Packed { replies: pushes, flags, ..Packed::command(None, command) }
    }

    /// MULTI, these commands, EXEC.
    pub fn list<'a>(parts: impl IntoIterator<Item = &'a Packed>) -> Packed {
        let (mut bytes, mut replies) = (BytesMut::new(), 2);
        Command::new("MULTI").encode(&mut bytes);
        for part in parts {
            bytes.extend_from_slice(part.commands());
            replies += 1;
        }
        Command::new("EXEC").encode(&mut bytes);
        Packed { bytes: bytes.freeze(), replies, flags: flag::ATOMIC, ..Packed::default() }
    }

    /// The same behind ASKING, with a script as its text.
    #[must_use]
    pub fn behind_asking(&self) -> Packed {
        let mut bytes = BytesMut::new();
        Command::new("ASKING").encode(&mut bytes);
        let (text, commands) = self.bytes.split_at(self.text_len);
        match look::argument(commands, 1).filter(|_| self.text_len > 0) {
            Some(sha) => write_as_text(commands, sha, text, &mut bytes),
            None => bytes.extend_from_slice(commands),
        }
        let replies = if self.is_list() { self.replies + 1 } else { 2 };
        Packed { bytes: bytes.freeze(), text_len: 0, replies, flags: self.flags & flag::ATOMIC }
    }

    /// The same with this command in place of its own.
    #[must_use]
    pub(crate) fn with(&self, command: &Command) -> Packed {
        Packed { flags: self.flags, ..Packed::command(None, command) }
    }

    /// The commands in wire format.
    pub fn commands(&self) -> &[u8] {
        &self.bytes[self.text_len..]
    }

    /// Whether it is a list that runs as one.
    pub fn is_list(&self) -> bool {
        self.flags & flag::ATOMIC != 0
    }

    /// Whether a router must not take it apart.
    pub fn is_whole(&self) -> bool {
        self.is_list() || self.text_len > 0
    }

    /// Whether its effects before an error remain.
    pub fn leaves(&self) -> bool {
        self.flags & flag::LEAVES != 0
    }

    /// Whether its caller gets no reply of its own: those to a list are its commands', and pushes
    /// say nothing more.
    pub fn is_silent(&self) -> bool {
        self.replies > 0
    }

    pub(crate) fn submission(&self) -> Option<Submission<'_>> {
        Submission::read(self.flags, self.replies, &self.bytes, self.text_len)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SHA: &str = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";

    #[test]
    fn a_list_has_its_commands_between_multi_and_exec() {
        let [set, get] = ["SET", "GET"].map(|name| Packed::command(None, &Command::new(name)));
        let list = Packed::list([&set, &get]);
        let names: Vec<_> = look::commands(list.commands())
            .iter()
            .map(|command| String::from_utf8_lossy(command.name()).into_owned())
            .collect();
        assert_eq!(names, ["MULTI", "SET", "GET", "EXEC"]);
        assert!(list.is_list() && list.submission().is_some());
        assert!(
            list.behind_asking().commands().starts_with(b"*1\r\n$6\r\nASKING\r\n*1\r\n$5\r\nMULTI")
        );
    }

    #[test]
    fn a_script_goes_as_its_text_behind_asking() {
        let call = Command::new("EVALSHA").arg(SHA).arg(0);
        let script = Packed::script(b"return 1", &call);
        assert!(script.is_whole() && script.submission().is_some());
        let asking = script.behind_asking();
        assert!(!asking.is_whole() && asking.submission().is_some());
        assert!(asking.commands().ends_with(b"*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n"));
    }
}
