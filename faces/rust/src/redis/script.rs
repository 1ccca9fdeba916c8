//! Lua scripts: EVAL the first time on each connection and within MULTI, EVALSHA otherwise.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use onetrip_redis::{Command, ToArg};
use sha1::{Digest, Sha1};

use super::call::Item;
use super::client::{check, check_length};
use super::config::Config;
use super::frames::Frames;
use crate::Error;

/// A Lua script, by its text. Clones share the text.
///
/// It is sent as a text the first time on each connection, and by its hash from then on, in
/// pipelines too. If the server has forgotten it meanwhile (`SCRIPT FLUSH`, a failover behind a
/// proxy), the server answers `NOSCRIPT`, and the script has not begun. Then it is loaded again and
/// the call is repeated automatically. But if something was sent behind the call, repeating would
/// change the order: the call fails with `NOSCRIPT`, and the next one sends the text. Between MULTI
/// and EXEC a script always goes as a text: EXEC would run the other commands without a forgotten
/// one.
///
/// An error that comes from within a script does not undo its earlier writes: the outcome is
/// `Unknown`.
#[derive(Clone)]
pub struct Script(pub(crate) Arc<ScriptText>);

/// The text and its hash.
pub(crate) struct ScriptText {
    pub(crate) text: Arc<[u8]>,
    /// The SHA-1 of the text, in hexadecimal digits.
    pub(crate) sha: Arc<str>,
}

impl Script {
    /// A script of this text.
    #[must_use]
    pub fn new(text: impl AsRef<[u8]>) -> Script {
        let text = text.as_ref();
        let sha: String = Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        Script(Arc::new(ScriptText { text: text.into(), sha: sha.into() }))
    }

    /// The SHA-1 of the text in hexadecimal digits, by which the server knows the script.
    #[must_use]
    pub fn sha(&self) -> &str {
        &self.0.sha
    }

    /// Makes a call with these keys and arguments: `KEYS` and `ARGV` in the script.
    #[must_use]
    pub fn call<K, A>(&self, keys: K, args: A) -> ScriptCall
    where
        K: IntoIterator,
        K::Item: ToArg,
        A: IntoIterator,
        A::Item: ToArg,
    {
        let keys = Command::new("").args(keys);
        let mut command = Command::new("").arg(keys.count());
        keys.iter().for_each(|key| command.push(key));
        ScriptCall { script: self.0.clone(), command: command.args(args) }
    }
}

/// A script with the keys and arguments of one call.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    script: Arc<ScriptText>,
    /// Everything behind the text or the hash.
    command: Command,
}

/// Whether there is an error among these replies: the server may have forgotten a script, or
/// refused it before it read its text.
pub(crate) fn has_error(replies: Bytes) -> bool {
    Frames::new(replies).any(|frame| matches!(frame.first(), Some(b'-' | b'!')))
}

impl ScriptCall {
    /// The command to send; refused if an argument, or the text, is longer than servers accept.
    pub(crate) fn into_item(self, config: &Config) -> Result<Item, Error> {
        check(&self.command, config)?;
        check_length(self.script.text.len(), config)?;
        Ok(Item { command: self.command, script: Some(self.script), leaves: true })
    }
}

/// `Debug` shows the hash: the text may be long.
impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ScriptText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script({})", self.sha)
    }
}
