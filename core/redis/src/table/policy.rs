//! Where a command goes in a cluster, and how several replies are combined: the tips
//! `request_policy` and `response_policy` of a command's description.

/// The nodes that a command goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPolicy {
    /// The node that has its keys; without keys, any node.
    Usual,
    /// Every node, including replicas.
    AllNodes,
    /// Every master.
    AllShards,
    /// Its keys may be in several slots, so it is split by slot.
    MultiShard,
    /// It depends on the command.
    Special,
}

/// How the replies of several nodes are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponsePolicy {
    /// With keys, in the order of the keys; without, joined to one list.
    Usual,
    /// The first that is not an error; an error if all are.
    OneSucceeded,
    /// The first, if none is an error; otherwise the error.
    AllSucceeded,
    /// The sum.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// True if all are, item by item.
    And,
    /// True if any is, item by item.
    Or,
    /// It depends on the command.
    Special,
}
