//! What a router bounds.

use std::time::Duration;

use onetrip_engine::RetryLimits;

/// The limits of a router.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Redirects that one command follows between two pauses: 5 by default. One is usual, two where the
    /// cluster changes again meanwhile; nodes that disagree would send it back and forth.
    pub redirects_max: u32,
    /// How often a command is sent again, and after which pauses, that a node can't take for a while: up to 20 times by
    /// default, so with pauses of up to a second longer than one may wait.
    pub retry: RetryLimits,
    /// Commands and parts of commands that wait here: 10,000 by default. Beyond it new ones are
    /// refused.
    pub held_max: usize,
    /// How long one waits here at most, for a node that has its slot: 10 s by default, some times what
    /// a failover takes (`cluster-node-timeout` is 15 s, and managed services set it lower).
    pub held_time_max: Duration,
    /// The topology is asked for this long after it came, if nothing called for it earlier: 60 s by
    /// default.
    pub refresh_every: Duration,
    /// The longest pause between two questions for the topology: 1 s by default. Each is cut down by
    /// up to half, so that clients don't ask together.
    pub refresh_pause: Duration,
}

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
