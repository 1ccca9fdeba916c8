//! Entries by keys that are never given twice, so that a late report finds nothing.

/// The place of an entry, and how many entries were there before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    at: u32,
    turn: u32,
}

pub(super) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|(_, entry)| entry.as_ref())
    }

    pub(super) fn keys(&self, which: impl Fn(&T) -> bool) -> Vec<Key> {
        let places = self.places.iter().enumerate();
        let found = places.filter(|(_, (_, entry))| entry.as_ref().is_some_and(&which));
        found.map(|(at, (turn, _))| Key { at: at as u32, turn: *turn }).collect()
    }

    pub(super) fn insert(&mut self, entry: T) -> Key {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[at as usize];
        place.1 = Some(entry);
        Key { at, turn: place.0 }
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.at as usize)?;
        place.1.as_ref().filter(|_| place.0 == key.turn)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.at as usize)?;
        place.1.as_mut().filter(|_| place.0 == key.turn)
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.at as usize).filter(|place| place.0 == key.turn)?;
        let entry = place.1.take()?;
        place.0 = place.0.wrapping_add(1);
        self.free.push(key.at);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_an_entry_that_is_gone_finds_nothing() {
        let mut slab = Slab::new();
        let key = slab.insert("a");
        assert_eq!((slab.remove(key), slab.remove(key)), (Some("a"), None));
        let other = slab.insert("b");
        assert_eq!((slab.get(key), slab.get(other)), (None, Some(&"b")));
        assert_eq!(slab.len(), 1);
    }
}
