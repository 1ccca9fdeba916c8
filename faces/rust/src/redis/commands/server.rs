//! Commands about the server and its connections.

use onetrip_redis::{Command, ToArg};

use crate::redis::{FromReply, Sends};

/// Commands about the server and its connections.
///
/// Implemented for everything that [`Sends`].
pub trait ServerCommands: Sends {
    /// `ACL LIST`: the rules of all users.
    fn acl_list<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("ACL LIST"))
    }

    /// `ACL WHOAMI`: the name of the user of this connection.
    fn acl_whoami<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("ACL WHOAMI"))
    }

    /// `BGREWRITEAOF`: begins to rewrite the append-only file.
    fn bgrewriteaof<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("BGREWRITEAOF"))
    }

    /// `BGSAVE`: begins to write the data to disk.
    fn bgsave<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("BGSAVE"))
    }

    /// `CLIENT GETNAME`: the name of this connection, or nil.
    fn client_getname<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("CLIENT GETNAME"))
    }

    /// `CLIENT ID`: the number of this connection.
    fn client_id(&self) -> Self::Answer<i64> {
        self.send(Command::new("CLIENT ID"))
    }

    /// `CLIENT INFO`: the server's information about this connection, as a line.
    fn client_info<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("CLIENT INFO"))
    }

    /// `CLIENT KILL ID`: ends a connection by its number. Replies with how many were ended.
    fn client_kill_id(&self, id: i64) -> Self::Answer<u64> {
        self.send(Command::new("CLIENT KILL").arg("ID").arg(id))
    }

    /// `CLIENT LIST`: all connections, one line each.
    fn client_list<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("CLIENT LIST"))
    }

    /// `CLIENT PAUSE`: the server takes no commands for this many milliseconds.
    fn client_pause(&self, milliseconds: u64) -> Self::Answer<()> {
        self.send(Command::new("CLIENT PAUSE").arg(milliseconds))
    }

    /// `CLIENT UNBLOCK`: ends the wait of another connection, as if its time were over. Replies
    /// whether it waited.
    fn client_unblock(&self, id: i64) -> Self::Answer<bool> {
        self.send(Command::new("CLIENT UNBLOCK").arg(id))
    }

    /// `CLIENT UNPAUSE`: the server takes commands again.
    fn client_unpause(&self) -> Self::Answer<()> {
        self.send(Command::new("CLIENT UNPAUSE"))
    }

    /// `COMMAND COUNT`: how many commands the server knows.
    fn command_count(&self) -> Self::Answer<u64> {
        self.send(Command::new("COMMAND COUNT"))
    }

    /// `CONFIG GET`: the settings that match a pattern, as a map.
    fn config_get<T: FromReply>(&self, pattern: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("CONFIG GET").arg(pattern))
    }

    /// `CONFIG RESETSTAT`: sets the counters of INFO to 0.
    fn config_resetstat(&self) -> Self::Answer<()> {
        self.send(Command::new("CONFIG RESETSTAT"))
    }

    /// `CONFIG REWRITE`: writes the settings as they are into the file of the server.
    fn config_rewrite(&self) -> Self::Answer<()> {
        self.send(Command::new("CONFIG REWRITE"))
    }

    /// `CONFIG SET`: changes a setting.
    fn config_set(&self, name: impl ToArg, value: impl ToArg) -> Self::Answer<()> {
        self.send(Command::new("CONFIG SET").arg(name).arg(value))
    }

    /// `DBSIZE`: how many keys there are.
    fn dbsize(&self) -> Self::Answer<u64> {
        self.send(Command::new("DBSIZE"))
    }

    /// `ECHO`: replies with the message.
    fn echo<T: FromReply>(&self, message: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("ECHO").arg(message))
    }

    /// `FLUSHALL`: deletes all keys of all databases.
    fn flushall(&self) -> Self::Answer<()> {
        self.send(Command::new("FLUSHALL"))
    }

    /// `FLUSHDB`: deletes all keys of the database.
    fn flushdb(&self) -> Self::Answer<()> {
        self.send(Command::new("FLUSHDB"))
    }

    /// `INFO`: the state of the server, as text.
    fn info<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("INFO"))
    }

    /// `INFO` with a section: a part of [`info`](Self::info).
    fn info_section<T: FromReply>(&self, section: impl ToArg) -> Self::Answer<T> {
        self.send(Command::new("INFO").arg(section))
    }

    /// `LASTSAVE`: when the data was last written to disk, in seconds since 1970.
    fn lastsave(&self) -> Self::Answer<i64> {
        self.send(Command::new("LASTSAVE"))
    }

    /// `LATENCY LATEST`: the latest latency spikes, by event.
    fn latency_latest<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("LATENCY LATEST"))
    }

    /// `LATENCY RESET`: forgets the latency spikes. Replies with how many events had some.
    fn latency_reset(&self) -> Self::Answer<u64> {
        self.send(Command::new("LATENCY RESET"))
    }

    /// `MEMORY DOCTOR`: the server's own advice on its use of memory.
    fn memory_doctor<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("MEMORY DOCTOR"))
    }

    /// `MEMORY STATS`: what memory is used for, as a map.
    fn memory_stats<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("MEMORY STATS"))
    }

    /// `MEMORY USAGE`: bytes that a key takes with its value.
    fn memory_usage(&self, key: impl ToArg) -> Self::Answer<Option<u64>> {
        self.send(Command::new("MEMORY USAGE").arg(key))
    }

    /// `PING`: whether the server answers.
    fn ping(&self) -> Self::Answer<()> {
        self.send(Command::new("PING"))
    }

    /// `ROLE`: whether the server is a master or a replica, and of which master.
    fn role<T: FromReply>(&self) -> Self::Answer<T> {
        self.send(Command::new("ROLE"))
    }

    /// `SAVE`: writes the data to disk. It blocks the server meanwhile.
    fn save(&self) -> Self::Answer<()> {
        self.send(Command::new("SAVE"))
    }

    /// `SLOWLOG GET`: the last `count` slow commands, or all for -1.
    fn slowlog_get<T: FromReply>(&self, count: i64) -> Self::Answer<T> {
        self.send(Command::new("SLOWLOG GET").arg(count))
    }

    /// `SLOWLOG LEN`: how many slow commands are remembered.
    fn slowlog_len(&self) -> Self::Answer<u64> {
        self.send(Command::new("SLOWLOG LEN"))
    }

    /// `SLOWLOG RESET`: forgets the slow commands.
    fn slowlog_reset(&self) -> Self::Answer<()> {
        self.send(Command::new("SLOWLOG RESET"))
    }

    /// `SWAPDB`: swaps two databases, for all connections.
    fn swapdb(&self, first: u32, second: u32) -> Self::Answer<()> {
        self.send(Command::new("SWAPDB").arg(first).arg(second))
    }

    /// `TIME`: the server's clock, as seconds since 1970, and microseconds of the second.
    fn time(&self) -> Self::Answer<(i64, i64)> {
        self.send(Command::new("TIME"))
    }
}

impl<S: Sends + ?Sized> ServerCommands for S {}
