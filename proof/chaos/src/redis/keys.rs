//! The keys, and the commands that write to them.

use onetrip::redis::{Client, Command, Sends};

/// Keys of one tag have one hash slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    pub(crate) tags: u64,
    pub(crate) in_cluster: bool,
}

/// The first value of a task's counter: so far from the others that their replies can't be mistaken
/// for its own.
pub(crate) fn base(task: u32) -> i64 {
    i64::from(task + 1) * 1_000_000_000
}

/// The hash of numbers written by HINCRBY.
pub(crate) fn written(tag: u64) -> String {
    format!("{{{tag}}}:written")
}

/// The list of numbers in the order in which they were pushed.
pub(crate) fn rows(tag: u64) -> String {
    format!("{{{tag}}}:rows")
}

/// A string: a command for lists fails on it.
pub(crate) fn text(tag: u64) -> String {
    format!("{{{tag}}}:text")
}

/// The list from which a number is moved to the rows.
pub(crate) fn feed(tag: u64, n: i64) -> String {
    format!("{{{tag}}}:feed:{n}")
}

/// Writes a number; answers the next one.
pub(crate) fn put(tag: u64, n: i64) -> Command {
    Command::new("HINCRBY").arg(written(tag)).arg(n).arg(n + 1)
}

/// Writes a number; answers its position, counted from one.
pub(crate) fn push(tag: u64, n: i64) -> Command {
    Command::new("RPUSH").arg(rows(tag)).arg(n)
}

/// Leaves the string of this tag as it is.
pub(crate) fn set_text(tag: u64) -> Command {
    Command::new("SET").arg(text(tag)).arg("text")
}

/// A command that the server refuses.
pub(crate) fn refused(tag: u64, n: i64) -> Command {
    Command::new("RPUSH").arg(text(tag)).arg(n)
}

impl Keys {
    /// The tag of a task's counter.
    pub(crate) fn tag_of(self, task: u32) -> u64 {
        u64::from(task) % self.tags
    }

    pub(crate) fn counter(self, task: u32) -> String {
        format!("{{{}}}:counter:{task}", self.tag_of(task))
    }

    /// The key that a task watches. It always exists: Redis misses the change of a key that was
    /// absent when it was watched and is then written on the node to which its hash slot moved.
    pub(crate) fn watched(self, task: u32) -> String {
        format!("{{{}}}:watched:{task}", self.tag_of(task))
    }

    /// Writes the keys that must exist from the beginning.
    pub(crate) async fn prepare(self, client: &Client, tasks: u32) {
        for tag in 0..self.tags {
            client.send::<()>(set_text(tag)).await.unwrap();
        }
        for task in 0..tasks {
            let counter = Command::new("SET").arg(self.counter(task)).arg(base(task));
            client.send::<()>(counter).await.unwrap();
            client.cmd("SET").arg(self.watched(task)).arg(0).send::<()>().await.unwrap();
        }
    }
}

/// The name of the client's connections at the servers.
pub(crate) const CLIENT: &str = "chaos";
