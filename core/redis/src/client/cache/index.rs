//! Where things are, by their names: a hash table of places. The names are its owner's, so that it
//! is the same code for commands and for keys.

use std::hash::{BuildHasher, Hasher, RandomState};

#[derive(Debug, Default)]
pub(super) struct Index {
    /// None, or a power of two. At most three quarters are used, so that a search ends.
    slots: Vec<Slot>,
    used: usize,
    hashes: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    /// `NONE` if it is free.
    place: u32,
}

/// No place.
pub(super) const NONE: u32 = u32::MAX;

const FREE: Slot = Slot { hash: 0, place: NONE };

impl Index {
    /// The place of what has this name. `is_it`: whether that at a place has it.
    pub(super) fn find(&self, name: &[u8], is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let hash = self.hash(name);
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.place == NONE {
                return None;
            }
            if slot.hash == hash && is_it(slot.place) {
                return Some(slot.place);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a place under a name that has none.
    pub(super) fn add(&mut self, name: &[u8], place: u32) {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            let slots = vec![FREE; (self.slots.len() * 2).max(16)];
            let full = std::mem::replace(&mut self.slots, slots);
            full.into_iter().filter(|slot| slot.place != NONE).for_each(|slot| self.put(slot));
        }
        self.used += 1;
        self.put(Slot { hash: self.hash(name), place });
    }

    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = slot.hash as usize & mask;
        while self.slots[at].place != NONE {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    /// Removes the place of a name.
    pub(super) fn remove(&mut self, name: &[u8], place: u32) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = self.hash(name) as usize & mask;
        while self.slots.get(at).is_some_and(|slot| slot.place != place) {
            if self.slots[at].place == NONE {
                return;
            }
            at = (at + 1) & mask;
        }
        // What is found by way of this slot moves up, so that searches need no marks of what is gone.
        let mut next = at;
        while let Some(slot) = self.slots.get_mut(at) {
            *slot = FREE;
            loop {
                next = (next + 1) & mask;
                let slot = self.slots[next];
                if slot.place == NONE {
                    self.used -= 1;
                    return;
                }
                let from_home = next.wrapping_sub(slot.hash as usize) & mask;
                if from_home >= next.wrapping_sub(at) & mask {
                    self.slots[at] = slot;
                    break;
                }
            }
            at = next;
        }
    }

    fn hash(&self, name: &[u8]) -> u32 {
        let mut hasher = self.hashes.build_hasher();
        hasher.write(name);
        hasher.finish() as u32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_name_is_found_until_it_is_removed() {
        let mut index = Index::default();
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        let mut random = 1_u32;
        for _ in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let place = (random >> 16) % 700;
            match names.remove(&place) {
                Some(name) => index.remove(name.as_bytes(), place),
                None => {
                    let name = format!("name {place}");
                    index.add(name.as_bytes(), place);
                    names.insert(place, name);
                }
            }
            let place = (random >> 8) % 700;
            let name = format!("name {place}");
            let found = index.find(name.as_bytes(), |at| names.get(&at) == Some(&name));
            assert_eq!(found, names.get(&place).map(|_| place));
        }
        assert_eq!(index.used, names.len());
        index.remove(b"nothing", 5_000);
        assert_eq!(index.used, names.len());
    }

    #[test]
    fn an_empty_index_has_nothing() {
        let mut index = Index::default();
        index.remove(b"a", 1);
        assert_eq!(index.find(b"a", |_| true), None);
    }
}
