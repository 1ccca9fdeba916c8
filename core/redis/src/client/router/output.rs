//! What a router tells its host to do, and the options of a command.

use bytes::Bytes;
use onetrip_engine::{Time, Token};

use super::failed::Failed;
use super::flight::FlightId;
use super::nodes::NodeId;
use crate::redirect::Address;

/// What the host must do.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Send [the command](super::Router::command) of this flight to this node, behind everything
    /// that was to be sent there before.
    Send {
        /// The flight, which the host ends with [a reply](super::Router::handle_reply) or [a
        /// failure](super::Router::handle_failed).
        flight: FlightId,
        /// The node.
        node: NodeId,
        /// Whether to send ASKING directly in front of it. The reply to ASKING is not reported.
        asking: bool,
    },
    /// A command has ended.
    Finish {
        /// The token of the command.
        token: Token,
        /// The reply, which may be an error of the server, or why there is none.
        result: Result<Bytes, Failed>,
    },
    /// Ask this node for the topology, or any node if none is named. Report [the
    /// topology](super::Router::handle_topology) or [that it can't be
    /// had](super::Router::handle_no_topology).
    Refresh {
        /// The node to ask.
        from: Option<NodeId>,
    },
    /// A node is part of the cluster. A connection to it is needed only when something is sent
    /// there.
    Open {
        /// Its id from now on.
        node: NodeId,
        /// Its address.
        address: Address,
    },
    /// Send SUNSUBSCRIBE for this sharded channel to this node, if there is a connection. Nothing is
    /// reported of it.
    Unsubscribe {
        /// The node.
        node: NodeId,
        /// The channel.
        channel: Bytes,
    },
    /// A sharded channel was subscribed again: messages may have been missed before.
    Resubscribed {
        /// The channel.
        channel: Bytes,
    },
    /// A node is no longer part of the cluster, and nothing is unanswered there.
    Close {
        /// The node.
        node: NodeId,
    },
}

/// The options of a command.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Whether running it twice does no harm.
    pub repeatable: bool,
    /// Whether a replica may answer, if the command only reads.
    pub from_replica: bool,
    /// The hash slot of its keys, if the caller names it.
    pub slot: Option<u16>,
    /// When it ends at the latest. The connection ends a command that was
    /// [sent](super::Router::handle_expired).
    pub deadline: Option<Time>,
    /// Whether it uses a connection of its own, outside of the order, because it may block.
    pub own: bool,
}
