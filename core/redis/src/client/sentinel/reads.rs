//! Which replica is read from.

use std::time::Duration;

use onetrip_engine::Time;

use super::Server;
use super::role::Role;
use crate::redirect::Address;

/// Who answers commands that only read, and that a client sends by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// The master.
    #[default]
    Master,
    /// A replica. While there is none, reads wait, and fail as if the server were away.
    Replica,
    /// A replica while a connection to one stands, otherwise the master.
    PreferReplica,
}

impl Reads {
    /// The one that a setting names.
    #[must_use]
    pub fn of(name: &str) -> Option<Reads> {
        match name {
            "master" => Some(Reads::Master),
            "replica" => Some(Reads::Replica),
            "prefer_replica" => Some(Reads::PreferReplica),
            _ => None,
        }
    }

    /// Where a command goes. `only_reads`: by the table of commands. `is_connected`: whether a
    /// connection to a replica stands.
    #[must_use]
    pub fn role_for(self, only_reads: bool, is_connected: bool) -> Role {
        match self {
            Reads::Replica if only_reads => Role::Replica,
            Reads::PreferReplica if only_reads && is_connected => Role::Replica,
            _ => Role::Master,
        }
    }
}

pub(super) struct Replicas {
    wanted: bool,
    /// Replicas that the Sentinels call well.
    well: Vec<Address>,
    /// Replicas that could not be used, and until when they are left alone.
    resting: Vec<(Address, Time)>,
    current: Option<Address>,
    number: u64,
    seed: u64,
}

impl Replicas {
    pub(super) fn new(wanted: bool, seed: u64) -> Replicas {
        Replicas { wanted, well: Vec::new(), resting: Vec::new(), current: None, number: 0, seed }
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
    pub(super) fn learn(&mut self, now: Time, well: Vec<Address>) -> bool {
        // In the order of the addresses, so that the choice follows from the seed. They are few.
        self.well.clear();
        for address in well {
            let at = self.well.partition_point(|it| *it < address);
            if self.well.get(at) != Some(&address) {
                self.well.insert(at, address);
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Spec};

    #[test]
    fn only_commands_that_read_go_to_replicas_and_the_option_says_what_else_they_do() {
        let role = |reads: Reads, name: &str, is_connected| {
            let spec = Spec::of(&Command::new(name));
            reads.role_for(spec.is_some_and(Spec::is_readonly), is_connected)
        };
        for is_connected in [false, true] {
            for reads in [Reads::Master, Reads::Replica, Reads::PreferReplica] {
                assert_eq!(role(reads, "SET", is_connected), Role::Master);
                assert_eq!(role(reads, "NOSUCH", is_connected), Role::Master);
            }
            assert_eq!(role(Reads::Master, "GET", is_connected), Role::Master);
            assert_eq!(role(Reads::Replica, "GET", is_connected), Role::Replica);
        }
        assert_eq!(role(Reads::PreferReplica, "GET", true), Role::Replica);
        assert_eq!(role(Reads::PreferReplica, "GET", false), Role::Master);
    }
}
