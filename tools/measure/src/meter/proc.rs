//! Figures of processes and threads from `/proc` (Linux; proc(5)).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A process as `/proc/PID/stat` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: String,
    pub(super) parent: u32,
    /// CPU of the children that ended and were waited for, in clock ticks.
    pub(super) ended_children: u64,
    /// When it began, in clock ticks since the machine booted. Together with the pid it identifies
    /// a process, because pids are reused.
    pub(super) started: u64,
}

impl Stat {
    /// `None` if there is no such process, or it can't be read.
    pub(super) fn of(pid: u32) -> Option<Stat> {
        Stat::parsed(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name is in parentheses and may have some itself, so it ends at the last one. Fields are
    /// numbered from 1 in proc(5); the first behind the name is the third.
    fn parsed(text: &str) -> Option<Stat> {
        let (front, behind) = text.rsplit_once(')')?;
        let fields: Vec<&str> = behind.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat {
            name: front.split_once('(')?.1.to_owned(),
            parent: number(4)?.try_into().ok()?,
            ended_children: number(16)? + number(17)?,
            started: number(22)?,
        })
    }
}

/// Every visible process, by pid.
pub(super) fn processes() -> BTreeMap<u32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid| Some((pid, Stat::of(pid)?))).collect()
}

/// CPU of a process' first thread. For a running thread, the time since the scheduler's last tick
/// may be missing: some milliseconds.
pub(super) fn cpu(pid: u32) -> Option<Duration> {
    cpu_in(Path::new(&format!("/proc/{pid}")))
}

/// CPU of a process or thread by its directory: the first number of `schedstat`, in nanoseconds.
pub(super) fn cpu_in(directory: &Path) -> Option<Duration> {
    let text = fs::read_to_string(directory.join("schedstat")).ok()?;
    Some(Duration::from_nanos(text.split_ascii_whitespace().next()?.parse().ok()?))
}

/// Whether this kernel keeps those figures. If it was built without them, or they are switched off,
/// the file is missing or has only zeros; a process that reads its own has used CPU at least once.
pub(super) fn is_cpu_kept() -> bool {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split_ascii_whitespace().nth(2).is_some_and(|slices| slices != "0")
}

/// The time of this many clock ticks.
pub(super) fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// When the machine booted, in seconds since 1970.
pub(super) fn boot_time() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Whether the process lives in our pid namespace. In a namespace below ours it has another pid,
/// which means nothing here.
pub(super) fn is_in_our_namespace(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = text.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.is_some_and(|numbers| numbers.split_ascii_whitespace().count() == 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_parentheses_and_spaces() {
        let text = "7 (a) (b) S 1 7 7 0 -1 4194304 2 3 4 5 100 50 30 20 20 0 1 0 555 8 9\n";
        let stat = Stat::parsed(text).unwrap();
        let (name, parent) = (String::from("a) (b"), 1);
        assert_eq!(stat, Stat { name, parent, ended_children: 50, started: 555 });
        assert_eq!(Stat::parsed("7 (a) S 1"), None);
    }

    #[test]
    fn this_process_is_among_all_and_in_its_own_namespace() {
        let pid = std::process::id();
        let (among_all, alone) = (processes()[&pid].clone(), Stat::of(pid).unwrap());
        // Not the time of its children: another test's child may end between the two looks.
        assert_eq!(Stat { ended_children: alone.ended_children, ..among_all }, alone);
        assert!(is_in_our_namespace(pid) && is_cpu_kept() && cpu(pid).is_some());
        assert!(boot_time().unwrap() > 1e9);
    }
}
