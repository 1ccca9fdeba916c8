//! The limits of a client of Sentinels.

use std::time::Duration;

/// The limits of [`Sentinels`](super::Sentinels).
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long one Sentinel may take to answer, with the time to connect. Default 1 s: the others
    /// are asked at the same time, so a dead one delays an answer only where it is needed for a
    /// majority.
    pub answer_time_max: Duration,
    /// The pause between two rounds of questions while none has led to the master. It doubles with
    /// each round. Default 50 ms to 1 s. Each is shortened by up to half at random, so that clients
    /// that lost a master together don't ask together.
    pub pause: (Duration, Duration),
    /// How long after a round the Sentinels are asked again, if nothing causes that earlier. It is
    /// shortened by up to half at random. Default 30 s.
    pub refresh_every: Duration,
    /// With how many Sentinels a connection stays open, on which they announce a switch. Default 3.
    pub watched_max: usize,
    /// How long a replica that could not be used is left alone, unless there is no other. Default
    /// 1 s.
    pub replica_rest: Duration,
}

/// The pause between two attempts at a connection to a server that Sentinels know, and the longest.
/// An attempt waits for what they say, and so for the pauses between questions.
pub const ATTEMPT_PAUSE: (Duration, Duration) =
    (Duration::from_millis(2), Duration::from_millis(10));

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            answer_time_max: Duration::from_secs(1),
            pause: (Duration::from_millis(50), Duration::from_secs(1)),
            refresh_every: Duration::from_secs(30),
            watched_max: 3,
            replica_rest: Duration::from_secs(1),
        }
    }
}
