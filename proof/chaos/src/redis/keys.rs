//! Which keys there are, and what is written to them.

use onetrip::redis::{Client, Command, Sends};

/// Keys of one tag have one hash slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    pub(crate) tags: u64,
    pub(crate) in_cluster: bool,
}

/// Where the counter of a task begins: so far from the others that no reply of theirs could be its own.
pub(crate) fn base(task: u32) -> i64 {
    i64::from(task + 1) * 1_000_000_000
}

/// Numbers by themselves, written by HINCRBY.
pub(crate) fn written(tag: u64) -> String {
    format!("{{{tag}}}:written")
}

/// Numbers in the order in which they were pushed.
pub(crate) fn rows(tag: u64) -> String {
    format!("{{{tag}}}:rows")
}

/// A string, on which what is meant for a list fails.
pub(crate) fn text(tag: u64) -> String {
    format!("{{{tag}}}:text")
}

/// From where a number is moved to the rows.
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

/// Is refused.
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

    /// What a task watches. It is always there: a key that is absent when it is watched, and then written on
    /// the node to which its hash slot moves, is one that Redis does not see changed.
    pub(crate) fn watched(self, task: u32) -> String {
        format!("{{{}}}:watched:{task}", self.tag_of(task))
    }

    /// Writes what must be there from the beginning.
    pub(crate) async fn prepare(self, client: &Client, tasks: u32) {
        for tag in 0..self.tags {
            client.cmd("SET").arg(text(tag)).arg("text").send::<()>().await.unwrap();
        }
        for task in 0..tasks {
            let counter = Command::new("SET").arg(self.counter(task)).arg(base(task));
            client.send::<()>(counter).await.unwrap();
            client.cmd("SET").arg(self.watched(task)).arg(0).send::<()>().await.unwrap();
        }
    }
}

/// What the connections of the client under test are called at the servers.
pub(crate) const CLIENT: &str = "chaos";
