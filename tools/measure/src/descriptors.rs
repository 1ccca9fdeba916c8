//! Open files: each connection is one, or two if both of its ends are in this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Error, Result};

/// Makes sure that `needed` more files can be opened: raises the limit of this process if
/// necessary.
///
/// # Errors
/// It may not be raised far enough.
pub(crate) fn make_room(needed: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = open() + needed;
    // `None` is no limit.
    if limit.current.is_none_or(|current| wanted <= current) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(wanted), ..limit };
    let may = limit.maximum.is_none_or(|maximum| wanted <= maximum);
    if may && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let allowed = limit.maximum.or(limit.current).unwrap_or_default();
    Err(Error::new(format!(
        "so many connections need {wanted} open files and {allowed} are allowed: \
         lower --connections or --tasks, or raise the limit (ulimit -Hn)"
    )))
}

/// How many are open now.
fn open() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_some_is_there_and_room_beyond_all_limits_is_refused_in_a_line() {
        assert_eq!(make_room(1), Ok(()));
        if getrlimit(Resource::Nofile).maximum.is_some() {
            let line = make_room(1 << 60).expect_err("no system allows so many").to_string();
            assert!(line.contains("raise the limit"), "{line}");
        }
    }
}
