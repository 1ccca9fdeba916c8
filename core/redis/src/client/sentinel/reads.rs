//! Which replica is read from.

use std::time::Duration;

use onetrip_engine::Time;

use super::Server;
use crate::redirect::Address;

pub(super) struct Reads {
    wanted: bool,
    /// Replicas that the Sentinels call well.
    well: Vec<Address>,
    /// Replicas that could not be used, and until when they are left alone.
    resting: Vec<(Address, Time)>,
    current: Option<Address>,
    number: u64,
    seed: u64,
}

impl Reads {
    pub(super) fn new(wanted: bool, seed: u64) -> Reads {
        Reads { wanted, well: Vec::new(), resting: Vec::new(), current: None, number: 0, seed }
    }

    pub(super) fn server(&self) -> Option<Server> {
        let address = self.current.clone()?;
        Some(Server { address, number: self.number })
    }

    /// When a replica may be tried again although none could be used.
    pub(super) fn due(&self) -> Time {
        match self.current {
            None if self.wanted => {
                self.resting.iter().map(|(_, until)| *until).min().unwrap_or(Time::NEVER)
            }
            _ => Time::NEVER,
        }
    }

    /// The Sentinels call these well. Whether another one is used from now on.
    pub(super) fn learn(&mut self, now: Time, mut well: Vec<Address>) -> bool {
        // In the order of the addresses, so that the choice follows from the seed.
        well.sort();
        well.dedup();
        self.well = well;
        let is_well = self.current.as_ref().is_some_and(|current| self.well.contains(current));
        !is_well && self.choose(now)
    }

    /// The replica with this number can't be used. Whether it was the one in use.
    pub(super) fn lost(&mut self, now: Time, number: u64, rest: Duration) -> bool {
        let Some(lost) = self.current.take_if(|_| number == self.number) else { return false };
        self.resting.push((lost, now.after(rest)));
        self.choose(now);
        true
    }

    /// Chooses one. Whether there is another one, or none any more.
    pub(super) fn choose(&mut self, now: Time) -> bool {
        self.resting.retain(|(_, until)| *until > now);
        let rests = |address: &&Address| self.resting.iter().any(|(other, _)| other == *address);
        let free: Vec<&Address> = self.well.iter().filter(|address| !rests(address)).collect();
        let before = self.current.take();
        self.current = match free.is_empty() {
            true => None,
            false => {
                let at = self.seed.wrapping_add(self.number) % free.len() as u64;
                Some(free[at as usize].clone())
            }
        };
        let changed = self.current != before;
        self.number += u64::from(changed);
        changed
    }
}
