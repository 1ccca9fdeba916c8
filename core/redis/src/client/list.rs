//! The replies to a list of commands that runs as one: to MULTI, to each command, and to EXEC.

use bytes::Bytes;
use onetrip_engine::Outcome;

use crate::Reply;
use crate::protocol::outcome_of_frame;

/// Why a list has no replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// A key that was watched was changed, so nothing ran.
    Changed,
    /// MULTI (0), a command (by its number, from 1) or EXEC was answered by an error.
    Refused {
        /// Which.
        at: usize,
        /// The error reply.
        frame: Bytes,
        /// What is known of the whole list.
        outcome: Outcome,
    },
    /// The replies do not fit what was sent. What ran is unknown.
    Misfit,
}

impl Failed {
    /// A word for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Failed::Changed => "watched_key_changed",
            Failed::Refused { .. } => "refused",
            Failed::Misfit => "protocol",
        }
    }

    /// What is known of the whole list.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Failed::Changed => Outcome::Rejected,
            Failed::Refused { outcome, .. } => *outcome,
            Failed::Misfit => Outcome::Unknown,
        }
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Failed::Changed => {
                "a watched key was changed, so no command ran: read the key again, and retry"
            }
            Failed::Refused { .. } => "the server refused a command of the list",
            Failed::Misfit => "the server's replies do not fit the commands that were sent",
        })
    }
}

/// The replies of the commands, out of EXEC's. `leaves`: of each command, whether its effects
/// before an error remain.
///
/// # Errors
/// None of the commands ran, or it is not known which did.
pub fn read(replies: &Bytes, leaves: &[bool]) -> Result<Vec<Bytes>, Failed> {
    let frames = split(replies.clone(), leaves.len() + 2).ok_or(Failed::Misfit)?;
    let (exec, fronts) = frames.split_last().ok_or(Failed::Misfit)?;
    let refused = fronts.iter().position(|frame| is_error(frame));
    let failed = |outcome| match refused {
        Some(at) => Failed::Refused { at, frame: fronts[at].clone(), outcome },
        None if is_error(exec) => {
            let outcome = outcome_of_frame(exec, false);
            Failed::Refused { at: leaves.len() + 1, frame: exec.clone(), outcome }
        }
        None => Failed::Misfit,
    };
    if is_error(exec) {
        // Where MULTI was refused, each command ran by itself.
        let mut commands = fronts.iter().skip(1).zip(leaves);
        let has_run = refused == Some(0)
            && commands.any(|(frame, leaves)| {
                !is_error(frame) || outcome_of_frame(frame, *leaves) != Outcome::Rejected
            });
        return Err(failed(if has_run { Outcome::Unknown } else { Outcome::Rejected }));
    }
    match Reply::read(exec) {
        Ok((Reply::Nil, _)) => Err(Failed::Changed),
        Ok((Reply::Array(items), _))
            if refused.is_none() && items.left() == Some(leaves.len() as u64) =>
        {
            let head = exec.iter().position(|byte| *byte == b'\n').map_or(exec.len(), |at| at + 1);
            split(exec.slice(head..), leaves.len()).ok_or(Failed::Misfit)
        }
        // MULTI was open already, so EXEC answers for other commands as well.
        _ => Err(failed(Outcome::Unknown)),
    }
}

/// So many replies, one by one.
fn split(mut bytes: Bytes, count: usize) -> Option<Vec<Bytes>> {
    let mut frames = Vec::with_capacity(count);
    for _ in 0..count {
        let rest = Reply::read(&bytes).ok()?.1.len();
        frames.push(bytes.split_to(bytes.len() - rest));
    }
    Some(frames)
}

/// Whether a reply is an error.
#[must_use]
pub fn is_error(frame: &[u8]) -> bool {
    matches!(frame.first(), Some(b'-' | b'!'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_of(replies: &str, count: usize) -> Result<Vec<Bytes>, Failed> {
        read(&Bytes::copy_from_slice(replies.as_bytes()), &vec![false; count])
    }

    fn refused(at: usize, frame: &'static str, outcome: Outcome) -> Result<Vec<Bytes>, Failed> {
        Err(Failed::Refused { at, frame: Bytes::from(frame), outcome })
    }

    #[test]
    fn each_command_has_its_part_of_execs_reply() {
        let whole = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n-ERR no\r\n*1\r\n:1\r\n";
        assert_eq!(read_of(whole, 2), Ok(vec!["-ERR no\r\n".into(), "*1\r\n:1\r\n".into()]));
        assert_eq!(read_of("+OK\r\n*0\r\n", 0), Ok(vec![]));
    }

    #[test]
    fn nothing_ran_where_exec_says_so() {
        for nil in ["_\r\n", "*-1\r\n"] {
            let replies = format!("+OK\r\n+QUEUED\r\n{nil}");
            assert_eq!(read_of(&replies, 1), Err(Failed::Changed));
        }
        let aborted = "+OK\r\n-ERR args\r\n-EXECABORT no\r\n";
        assert_eq!(read_of(aborted, 1), refused(1, "-ERR args\r\n", Outcome::Rejected));
        let exec = "+OK\r\n+QUEUED\r\n-NOPERM exec\r\n";
        assert_eq!(read_of(exec, 1), refused(2, "-NOPERM exec\r\n", Outcome::Rejected));
    }

    #[test]
    fn without_multi_each_command_ran_by_itself() {
        let ran = "-NOPERM no\r\n+OK\r\n-ERR EXEC without MULTI\r\n";
        assert_eq!(read_of(ran, 1), refused(0, "-NOPERM no\r\n", Outcome::Unknown));
        let none_ran = "-NOPERM no\r\n-NOPERM no\r\n-ERR EXEC without MULTI\r\n";
        assert_eq!(read_of(none_ran, 1), refused(0, "-NOPERM no\r\n", Outcome::Rejected));
        let script = Bytes::from("-NOPERM no\r\n-ERR of its own\r\n-ERR EXEC without MULTI\r\n");
        assert_eq!(read(&script, &[true]), refused(0, "-NOPERM no\r\n", Outcome::Unknown));
    }

    #[test]
    fn replies_of_another_list_are_nobodys() {
        assert_eq!(read_of("+OK\r\n+QUEUED\r\n*2\r\n:1\r\n:2\r\n", 1), Err(Failed::Misfit));
        let nested = "-ERR nested\r\n+QUEUED\r\n*2\r\n:1\r\n:2\r\n";
        assert_eq!(read_of(nested, 1), refused(0, "-ERR nested\r\n", Outcome::Unknown));
        assert_eq!(read_of("+OK\r\n+QUEUED\r\n", 1), Err(Failed::Misfit));
    }
}
