//! Maps by numbers that this program gives itself.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by numbers that are counted up here or by the host, such as those of connections and
/// statements. No peer chooses them, so they need no protection from chosen collisions: two
/// multiplications are enough, where the hash of the standard library takes tens of steps.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// See [`NumberMap`].
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

/// 2^64 divided by the golden ratio: neighbouring numbers are spread far apart.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(32) ^ number).wrapping_mul(FACTOR);
    }

    /// The low bits choose a place in the map, and those of a product depend on the low bits of the
    /// number alone. So the high ones are mixed in, and once more behind another product.
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(FACTOR);
        mixed ^ (mixed >> 32)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    /// How many places of 4,096 the hashes of these numbers take, by the bits that a map uses first.
    fn places<T: std::hash::Hash>(numbers: impl Iterator<Item = T>) -> usize {
        let hasher = BuildHasherDefault::<NumberHasher>::default();
        numbers.map(|number| hasher.hash_one(number) & 0xFFF).collect::<HashSet<_>>().len()
    }

    #[test]
    fn numbers_that_are_counted_up_by_any_step_are_spread_over_the_map() {
        // 4,096 hashes by chance would take 63 % of the places.
        for step in (0..40).map(|bits| 1_u64 << bits).chain([3, 10, 1_000, 65_535]) {
            let taken = places((0..4_096).map(|number| number * step));
            assert!(taken > 2_200, "{taken} places with steps of {step}");
        }
    }

    #[test]
    fn pairs_of_numbers_are_spread_by_both() {
        let taken = places((0..64_u32).flat_map(|a| (0..64_u32).map(move |b| (a, b))));
        assert!(taken > 2_200, "{taken} places");
        assert!(places([(1_u32, 2_u32), (2, 1)].into_iter()) == 2);
    }

    #[test]
    fn a_map_finds_what_was_put_under_a_number() {
        let mut map = NumberMap::default();
        for number in 0..10_000_u32 {
            map.insert(number, number + 1);
        }
        assert!((0..10_000).all(|number| map.get(&number) == Some(&(number + 1))));
        assert_eq!(map.get(&10_000), None);
    }
}
