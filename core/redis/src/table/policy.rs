//! Where a command goes in a cluster, and what is made of several replies: the tips
//! `request_policy` and `response_policy` of a command's description.

/// To which nodes a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPolicy {
    /// To the one that has its keys; without keys, to any.
    Usual,
    /// To every node, replicas too.
    AllNodes,
    /// To every master.
    AllShards,
    /// Its keys may lie in several slots: it is split by them.
    MultiShard,
    /// What is right depends on the command.
    Special,
}

/// What is made of the replies of several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponsePolicy {
    /// With keys, put together in the order of the keys; without, one list of all.
    Usual,
    /// The first that is not an error; an error if all are.
    OneSucceeded,
    /// The first, if none is an error; otherwise that error.
    AllSucceeded,
    /// The sum.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// True where all are, item by item.
    And,
    /// True where one is, item by item.
    Or,
    /// What is right depends on the command.
    Special,
}
