//! Which scripts are called by their hashes on a connection: those that were sent on it as text, as
//! long as none has failed.

use bytes::BytesMut;

use crate::command::{Command, put_length};

/// The scripts of one connection.
#[derive(Debug, Default)]
pub struct Scripts {
    /// The hashes of the scripts that the server knows.
    known: Vec<Box<[u8]>>,
    /// Whether all scripts are sent as text from now on.
    as_texts: bool,
}

/// A program has some dozens of scripts. Hashes don't help a program that generates them.
const SCRIPTS_MAX: usize = 1024;

impl Scripts {
    /// Whether the script with this hash is called by it.
    #[must_use]
    pub fn has(&self, sha: &[u8]) -> bool {
        self.known.iter().any(|known| **known == *sha)
    }

    /// Whether all scripts are sent as text from now on.
    #[must_use]
    pub fn go_all_as_texts(&self) -> bool {
        self.as_texts
    }

    /// The script with this hash is sent as text, so that the server knows it from then on.
    pub fn sent(&mut self, sha: &[u8]) {
        if self.as_texts || self.has(sha) {
            return;
        }
        if self.known.len() >= SCRIPTS_MAX {
            self.known.clear();
        }
        self.known.push(sha.into());
    }

    /// A call with scripts failed, so the server may not know them.
    pub fn doubt(&mut self) {
        self.known.clear();
    }

    /// The caller sends MULTI. Commands after it are queued, so it is only known after all of them
    /// ran whether EXEC runs a script, or finds that the server has forgotten it.
    pub fn go_as_texts(&mut self) {
        self.known.clear();
        self.as_texts = true;
    }
}

/// Rewrites an encoded call of a script by its hash as a call with its text.
pub fn write_as_text(call: &[u8], sha: &[u8], text: &[u8], out: &mut BytesMut) {
    let line = call.iter().position(|byte| *byte == b'\r').unwrap_or_default();
    let behind = call.windows(sha.len().max(1)).position(|part| part == sha).unwrap_or_default();
    let command = Command::new("EVAL");
    let (_, name) = command.parts();
    out.extend_from_slice(&call[..line]);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(name);
    put_length(out, b'$', text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(&call[behind + sha.len()..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_go_by_their_hashes_until_one_fails() {
        let mut scripts = Scripts::default();
        scripts.sent(b"b");
        scripts.sent(b"a");
        scripts.sent(b"a");
        assert_eq!([b"a", b"b", b"c"].map(|sha| scripts.has(sha)), [true, true, false]);
        scripts.doubt();
        assert!(!scripts.has(b"a"));
    }

    #[test]
    fn a_call_by_hash_is_written_as_one_by_text() {
        let mut call = BytesMut::new();
        Command::new("EVALSHA").arg("f00").args(["1", "k", "f00"]).encode(&mut call);
        let (mut written, mut expected) = (BytesMut::new(), BytesMut::new());
        write_as_text(&call, b"f00", b"return 'f00'", &mut written);
        Command::new("EVAL").arg("return 'f00'").args(["1", "k", "f00"]).encode(&mut expected);
        assert_eq!(written, expected);
    }

    #[test]
    fn behind_multi_none_goes_by_its_hash() {
        let mut scripts = Scripts::default();
        scripts.sent(b"a");
        scripts.go_as_texts();
        scripts.sent(b"a");
        assert!(!scripts.has(b"a"));
    }

    #[test]
    fn scripts_that_are_made_up_as_it_goes_are_not_kept_for_ever() {
        let mut scripts = Scripts::default();
        (0..3_000_u32).for_each(|script| scripts.sent(&script.to_be_bytes()));
        assert!(scripts.known.len() <= SCRIPTS_MAX && scripts.has(&2_999_u32.to_be_bytes()));
    }
}
