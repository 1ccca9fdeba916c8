//! What programs do: some hold a lock and await statements beside their transaction, others update
//! or read. An ordinary pool, one connection for each caller, could serve each mix.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use super::server::Work;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Think(Duration),
    /// Waits until no other task of the program holds a connection.
    Enter,
    Checkout,
    /// A statement on the connection of its own.
    Own(Work),
    /// Statements on shared connections, all awaited. Some have a deadline.
    Shared(Vec<(Work, Option<Duration>)>),
    Return,
    Leave,
}

#[derive(Default)]
pub(super) struct Task {
    pub(super) steps: VecDeque<Step>,
    /// The statements that it awaits.
    pub(super) awaits: HashSet<u32>,
    pub(super) checks_out: bool,
    pub(super) enters: bool,
    pub(super) thinks: bool,
    pub(super) holds: Option<usize>,
    /// Its transaction has failed.
    pub(super) failed: bool,
    /// Changes whenever it goes on.
    pub(super) epoch: u64,
}

impl Task {
    pub(super) fn is_over(&self) -> bool {
        let waits = self.checks_out || self.enters || self.thinks || !self.awaits.is_empty();
        self.steps.is_empty() && !waits
    }
}

pub(super) struct Mix {
    pub(super) connections: usize,
    pub(super) locks: usize,
    /// Whether some of what waits for a lock is never taken away.
    pub(super) has_calls: bool,
    pub(super) tasks: Vec<Task>,
}

/// The locks: transactions take those of the first range in ascending order and await writes of
/// higher ones beside, so that no cycle is the program's own; those of the second in any order, but
/// await nothing beside; those of the third never. At last, whether some writes are calls.
struct Ranges(usize, usize, usize, bool);

pub(super) fn mix(below: &mut dyn FnMut(u64) -> u64) -> Mix {
    let connections = [2, 2, 3, 5, 10][below(5) as usize];
    let one_holder = connections == 2 || below(4) == 0;
    let mut pick = |from: u64, n: u64| (from + below(n)) as usize;
    let has_calls = pick(0, 3) == 0;
    let ranges = Ranges(pick(1, 3), 2, pick(1, 2), has_calls);
    let (count, rounds) = (pick(2, 11), pick(1, 4));
    let mut tasks = Vec::new();
    // How many connections an ordinary pool has left for those that await something.
    let mut left = if one_holder { usize::MAX } else { connections };
    while tasks.len() < count && left > 0 {
        let beside = pick(1, 2);
        let steps = match tasks.len() {
            0 if left > beside => Some(beside),
            _ if left > beside && pick(0, 3) == 0 => Some(beside),
            _ => None,
        };
        left -= 1 + steps.unwrap_or(0);
        let crosses = steps.is_none() && pick(0, 3) == 0;
        let mut task = Task::default();
        for _ in 0..rounds {
            let mut round = match steps {
                Some(beside) => holds(&ranges, beside, one_holder, &mut pick),
                None if crosses => crosses_over(&ranges, one_holder, &mut pick),
                None => updates(&ranges, &mut pick),
            };
            task.steps.append(&mut round);
        }
        tasks.push(task);
    }
    Mix { connections, locks: ranges.0 + ranges.1 + ranges.2, has_calls, tasks }
}

fn think(pick: &mut dyn FnMut(u64, u64) -> usize) -> Step {
    let micros = [0, pick(0, 1_000), pick(0, 40_000), pick(0, 400_000)][pick(0, 4)];
    Step::Think(Duration::from_micros(micros as u64))
}

/// Takes a lock or two, and awaits statements beside.
fn holds(
    ranges: &Ranges,
    beside: usize,
    one_holder: bool,
    pick: &mut dyn FnMut(u64, u64) -> usize,
) -> VecDeque<Step> {
    let all = ranges.0 + ranges.1 + ranges.2;
    let mut steps = in_transaction(one_holder, pick);
    let mut held = pick(0, ranges.0 as u64);
    steps.push_back(Step::Own(Work::Write(held)));
    for _ in 0..pick(1, 3) {
        if pick(0, 2) == 0 {
            steps.push_back(think(pick));
        }
        if pick(0, 4) == 0 && held + 1 < ranges.0 {
            held += 1;
            steps.push_back(Step::Own(Work::Write(held)));
        }
        let mut shared = Vec::new();
        for _ in 0..beside {
            let higher = (held + 1 + pick(0, all as u64)).max(ranges.0 + ranges.1);
            let lock = if held + 1 < ranges.0 && pick(0, 2) == 0 { held + 1 } else { higher };
            let writes = pick(0, 2) == 0 && lock < all;
            let reads = if pick(0, 4) == 0 { Work::Once } else { Work::Read };
            shared.push((if writes { write(ranges, lock, pick) } else { reads }, None));
        }
        steps.push_back(Step::Shared(shared));
    }
    out_of_transaction(steps, one_holder)
}

/// Takes two locks in any order, so that the server may have to end a cycle.
fn crosses_over(
    ranges: &Ranges,
    one_holder: bool,
    pick: &mut dyn FnMut(u64, u64) -> usize,
) -> VecDeque<Step> {
    let mut steps = in_transaction(one_holder, pick);
    for _ in 0..2 {
        let lock = ranges.0 + pick(0, ranges.1 as u64);
        steps.push_back(Step::Own(Work::Write(lock)));
        steps.push_back(think(pick));
    }
    out_of_transaction(steps, one_holder)
}

fn in_transaction(one_holder: bool, pick: &mut dyn FnMut(u64, u64) -> usize) -> VecDeque<Step> {
    let enter = one_holder.then_some(Step::Enter);
    let steps = [think(pick)].into_iter().chain(enter);
    steps.chain([Step::Checkout, Step::Own(Work::Begin)]).collect()
}

fn out_of_transaction(mut steps: VecDeque<Step>, one_holder: bool) -> VecDeque<Step> {
    steps.extend([Step::Own(Work::Commit), Step::Return]);
    steps.extend(one_holder.then_some(Step::Leave));
    steps
}

/// A shared statement that takes a lock.
fn write(ranges: &Ranges, lock: usize, pick: &mut dyn FnMut(u64, u64) -> usize) -> Work {
    if ranges.3 && pick(0, 3) == 0 { Work::Call(lock) } else { Work::Write(lock) }
}

/// Updates and reads, one statement at a time.
fn updates(ranges: &Ranges, pick: &mut dyn FnMut(u64, u64) -> usize) -> VecDeque<Step> {
    let all = ranges.0 + ranges.1 + ranges.2;
    let mut steps = VecDeque::new();
    for _ in 0..pick(1, 4) {
        let lock = if pick(0, 3) == 0 { pick(0, all as u64) } else { pick(0, ranges.0 as u64) };
        let work = if pick(0, 4) == 0 { Work::Read } else { write(ranges, lock, pick) };
        let deadline = (pick(0, 12) == 0).then(|| Duration::from_millis(pick(1, 3_000) as u64));
        steps.push_back(think(pick));
        steps.push_back(Step::Shared(vec![(work, deadline)]));
    }
    steps
}
