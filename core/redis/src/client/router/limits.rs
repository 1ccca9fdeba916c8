//! The limits of a router.

use std::time::Duration;

use onetrip_engine::RetryLimits;

/// The limits of a router.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Redirects that one command follows between two pauses. Default 5. One is usual, and two if
    /// the cluster changes again meanwhile. Nodes that disagree would send the command back and
    /// forth.
    pub redirects_max: u32,
    /// How often, and after which pauses, a command is sent again that nodes can't take for a
    /// while. Default 20 attempts; with pauses of up to a second, that is about as long as a command
    /// may wait here. A command that was not sent is tried as often as its time allows.
    pub retry: RetryLimits,
    /// Commands and parts of commands that may wait here. Default 10,000. Beyond it new ones are
    /// refused.
    pub held_max: usize,
    /// How long a command waits at most for a node that has its slot and takes it, in all: here, and
    /// in the lines of nodes that it got no connection to. Default 10 s. (A failover takes as long
    /// as `cluster-node-timeout`, 15 s by default, plus the election; managed services set it
    /// lower.)
    pub held_time_max: Duration,
    /// How long after an answer the topology is asked for again, if nothing causes that earlier.
    /// Default 60 s.
    pub refresh_every: Duration,
    /// The longest pause between two requests for the topology. Default 1 s. Each is shortened at
    /// random by up to half, so that clients don't ask together.
    pub refresh_pause: Duration,
}

/// How long a command may wait for a connection to a node at a time. It is not sent then, and the
/// router knows whether another node has its slot by now. A connection that is being opened goes on
/// to be opened.
pub const LINE_WAIT: Duration = Duration::from_secs(1);

/// How long a node may take to answer when it is asked for the topology, with all waiting for a
/// connection to it. Then another one is asked.
pub const TOPOLOGY_TIMEOUT: Duration = Duration::from_secs(3);

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            redirects_max: 5,
            retry: RetryLimits { attempts_max: 20, ..RetryLimits::default() },
            held_max: 10_000,
            held_time_max: Duration::from_secs(10),
            refresh_every: Duration::from_secs(60),
            refresh_pause: Duration::from_secs(1),
        }
    }
}
