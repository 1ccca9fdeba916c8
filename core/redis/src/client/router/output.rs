//! What a router tells its host to do, and how its host wants a command to be treated.

use bytes::Bytes;
use onetrip_engine::{Time, Token};

use super::failed::Failed;
use super::flight::FlightId;
use super::nodes::NodeId;
use crate::redirect::Address;

/// What the host has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Send [the command](super::Router::command) of this flight to this node, behind what it was told
    /// to send there before.
    Send {
        /// Comes back with [a reply](super::Router::handle_reply) or
        /// [without](super::Router::handle_failed).
        flight: FlightId,
        /// Where to.
        node: NodeId,
        /// Send ASKING in front of it, so that nothing comes between; its reply is not reported.
        asking: bool,
    },
    /// A command has ended.
    Finish {
        /// Whose it is.
        token: Token,
        /// The reply, which may be an error of the server, or why there is none.
        result: Result<Bytes, Failed>,
    },
    /// Ask for the topology, this node if one is named and any other otherwise, and report
    /// [it](super::Router::handle_topology) or [that it can't be had](super::Router::handle_no_topology).
    Refresh {
        /// A node that should know.
        from: Option<NodeId>,
    },
    /// A node is part of the cluster. A connection to it is needed when something is sent there.
    Open {
        /// What it is called from now on.
        node: NodeId,
        /// Where it listens.
        address: Address,
    },
    /// A node is no longer part of the cluster, and nothing is unanswered there.
    Close {
        /// Which one.
        node: NodeId,
    },
}

/// How a command is to be treated.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Running it twice does no harm.
    pub repeatable: bool,
    /// A replica may answer, if it only reads.
    pub from_replica: bool,
    /// The hash slot of its keys, where its caller knows better than its description.
    pub slot: Option<u16>,
    /// When it ends at the latest. What is with a connection is [ended](super::Router::handle_expired) by that.
    pub deadline: Option<Time>,
    /// It goes over a connection of its own, since it may block: outside of the order.
    pub own: bool,
}
