//! Which server a connection leads to: the cluster, the branch of its history, and its role.
//!
//! A cluster keeps its system identifier for life. Each promotion begins a new timeline, with a
//! larger number, and a former primary stays on the old one ("Timelines" in PostgreSQL's manual).
//! So a server that takes writes on a timeline below one that was seen is a former primary.

/// The question, which any role may ask of PostgreSQL 10 and later. It has one row of three texts,
/// which [`Identity::read`] takes.
///
/// A primary knows its timeline. A standby knows two that it has passed: that of its last
/// restartpoint, and that up to which its files must be replayed to be consistent. So the answer of
/// a standby may be older than what it replays, and never newer.
pub const QUESTION: &str = "select s.system_identifier::text, pg_is_in_recovery()::text, \
     (case when pg_is_in_recovery() \
     then greatest(c.timeline_id, r.min_recovery_end_timeline) \
     else ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int \
     end)::text \
     from pg_control_system() s, pg_control_checkpoint() c, pg_control_recovery() r";

/// The answer to [`QUESTION`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster's, the same on all of its servers.
    pub system: u64,
    /// Whether the server is a standby.
    pub is_standby: bool,
    /// The timeline that it is on at least.
    pub timeline: u32,
}

impl Identity {
    /// Reads the texts of the row. `None` if they can't be the answer.
    pub fn read(system: &str, is_standby: &str, timeline: &str) -> Option<Identity> {
        let is_standby = match is_standby {
            "true" => true,
            "false" => false,
            _ => return None,
        };
        Some(Identity {
            system: system.parse().ok()?,
            is_standby,
            timeline: timeline.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_read() {
        let read = Identity::read("7712198474217982495", "false", "3");
        let system = 7_712_198_474_217_982_495;
        assert_eq!(read, Some(Identity { system, is_standby: false, timeline: 3 }));
    }

    #[test]
    fn anything_else_is_no_answer() {
        for (system, is_standby, timeline) in
            [("", "true", "1"), ("1", "t", "1"), ("1", "true", ""), ("1", "true", "-1")]
        {
            assert_eq!(Identity::read(system, is_standby, timeline), None);
        }
    }
}
