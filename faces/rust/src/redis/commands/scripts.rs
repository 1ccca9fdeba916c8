//! Scripts and functions that run at the server. [`Script`](crate::redis::Script) sends the text of
//! a script only to a server that does not know it yet.

use onetrip_redis::{Command, ToArg};

use super::args::put_counted;
use crate::redis::{FromReply, Sends};

/// Scripts and functions that run at the server. [`Script`](crate::redis::Script) sends the text of
/// a script only to a server that does not know it yet.
///
/// Implemented for everything that [`Sends`].
pub trait ScriptCommands: Sends {
    /// `EVAL`: runs a script, which gets the keys and arguments. An error does not undo its earlier
    /// writes.
    fn eval<T: FromReply>(
        &self,
        script: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
        args: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(put_counted(Command::new("EVAL").arg(script), keys).args(args))
    }

    /// `EVAL_RO`: as [`eval`](Self::eval), for a script that only reads. Since Redis 7.0.
    fn eval_ro<T: FromReply>(
        &self,
        script: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
        args: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(put_counted(Command::new("EVAL_RO").arg(script), keys).args(args))
    }

    /// `EVALSHA`: runs a script by the hash of its text. An error (`NOSCRIPT`) if the server does
    /// not know it.
    fn evalsha<T: FromReply>(
        &self,
        sha: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
        args: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(put_counted(Command::new("EVALSHA").arg(sha), keys).args(args))
    }

    /// `EVALSHA_RO`: as [`evalsha`](Self::evalsha), for a script that only reads. Since Redis 7.0.
    fn evalsha_ro<T: FromReply>(
        &self,
        sha: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
        args: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(put_counted(Command::new("EVALSHA_RO").arg(sha), keys).args(args))
    }

    /// `FCALL`: runs a function of a library that was loaded. Since Redis 7.0.
    fn fcall<T: FromReply>(
        &self,
        function: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
        args: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(put_counted(Command::new("FCALL").arg(function), keys).args(args))
    }

    /// `FCALL_RO`: as [`fcall`](Self::fcall), for a function that only reads. Since Redis 7.0.
    fn fcall_ro<T: FromReply>(
        &self,
        function: impl ToArg,
        keys: impl IntoIterator<Item: ToArg>,
        args: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<T> {
        self.send(put_counted(Command::new("FCALL_RO").arg(function), keys).args(args))
    }

    /// `FUNCTION DELETE`: removes a library. Since Redis 7.0.
    fn function_delete(&self, library: impl ToArg) -> Self::Answer<()> {
        self.send(Command::new("FUNCTION DELETE").arg(library))
    }

    /// `FUNCTION DUMP`: all libraries in the form that [`function_restore`](Self::function_restore)
    /// takes. Since Redis 7.0.
    fn function_dump<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("FUNCTION DUMP"))
    }

    /// `FUNCTION FLUSH`: removes all libraries. Since Redis 7.0.
    fn function_flush(&self) -> Self::Answer<()> {
        self.send(Command::new("FUNCTION FLUSH"))
    }

    /// `FUNCTION KILL`: ends the function that runs, unless it has written. Since Redis 7.0.
    fn function_kill(&self) -> Self::Answer<()> {
        self.send(Command::new("FUNCTION KILL"))
    }

    /// `FUNCTION LIST`: the libraries with their functions, each a map. Since Redis 7.0.
    fn function_list<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("FUNCTION LIST"))
    }

    /// `FUNCTION LOAD`: loads a library. Replies with its name; an error if one of that name
    /// exists. Since Redis 7.0.
    fn function_load<T: FromReply>(&self, code: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("FUNCTION LOAD").arg(code))
    }

    /// `FUNCTION LOAD REPLACE`: as [`function_load`](Self::function_load), and replaces one of that
    /// name. Since Redis 7.0.
    fn function_load_replace<T: FromReply>(&self, code: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("FUNCTION LOAD").arg("REPLACE").arg(code))
    }

    /// `FUNCTION RESTORE`: loads the result of [`function_dump`](Self::function_dump), beside the
    /// libraries that exist. Since Redis 7.0.
    fn function_restore(&self, dump: impl ToArg) -> Self::Answer<()> {
        self.send(Command::new("FUNCTION RESTORE").arg(dump))
    }

    /// `SCRIPT EXISTS`: whether the server knows the scripts with these hashes.
    fn script_exists(&self, shas: impl IntoIterator<Item: ToArg>) -> Self::Answer<Vec<bool>> {
        self.send(Command::new("SCRIPT EXISTS").args(shas))
    }

    /// `SCRIPT FLUSH`: has the server forget all scripts.
    fn script_flush(&self) -> Self::Answer<()> {
        self.send(Command::new("SCRIPT FLUSH"))
    }

    /// `SCRIPT KILL`: ends the script that runs, unless it has written.
    fn script_kill(&self) -> Self::Answer<()> {
        self.send(Command::new("SCRIPT KILL"))
    }

    /// `SCRIPT LOAD`: stores a script at the server. Replies with its hash.
    fn script_load<T: FromReply>(&self, script: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("SCRIPT LOAD").arg(script))
    }
}

impl<S: Sends + ?Sized> ScriptCommands for S {}
