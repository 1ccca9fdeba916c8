//! Functions that give the same values for the same seed everywhere: published algorithms, in the
//! form in which pgbench applies them to 64-bit integers.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoroshiro128StarStar;

use super::super::random::below_or_equal;

/// FNV-1a over the eight bytes of a value, least significant first.
pub(super) fn fnv1a(value: i64, seed: i64) -> i64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    value.to_le_bytes().into_iter().fold(OFFSET_BASIS ^ seed as u64, step) as i64
}

/// MurmurHash2 in its variant of 64 bits, over the eight bytes of a value.
pub(super) fn murmur2(value: i64, seed: i64) -> i64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const BYTES: u64 = 8;
    let scramble = |word: u64| word ^ (word >> 47);
    let block = scramble((value as u64).wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    let hash = seed as u64 ^ BYTES.wrapping_mul(MULTIPLIER);
    let hash = (hash ^ block).wrapping_mul(MULTIPLIER);
    scramble(scramble(hash).wrapping_mul(MULTIPLIER)) as i64
}

/// Where a value goes in a pseudorandom permutation of the numbers from 0 below `size`: some
/// rounds, each of which moves the lower part, the upper part, and then everything.
pub(super) fn permute(value: i64, size: u64, seed: i64) -> i64 {
    const ROUNDS: u32 = 6;
    if size < 2 {
        return 0;
    }
    let mut random = Xoroshiro128StarStar::seed_from_u64(seed as u64);
    let bits = size.ilog2();
    let mut place = value as u64 % size;
    for _ in 0..ROUNDS {
        place = Mixing::new(&mut random, bits).apply(place);
        // The upper part is the lower one seen from the other end.
        let mirrored = size - 1 - place;
        place = size - 1 - Mixing::new(&mut random, bits).apply(mirrored);
        let offset = below_or_equal(&mut random, size - 1);
        place = ((u128::from(place) + u128::from(offset)) % u128::from(size)) as u64;
    }
    place as i64
}

/// A bijection of the numbers that have so many bits; others stay where they are.
struct Mixing {
    bits: u32,
    odd: u64,
    flipped: u64,
}

impl Mixing {
    fn new(random: &mut Xoroshiro128StarStar, bits: u32) -> Mixing {
        let mask = (1 << bits) - 1;
        let odd = random.next_u64() & mask | 1;
        Mixing { bits, odd, flipped: random.next_u64() & mask }
    }

    fn apply(&self, value: u64) -> u64 {
        let mask = (1 << self.bits) - 1;
        if value > mask {
            return value;
        }
        let value = (value.wrapping_mul(self.odd) ^ self.flipped) & mask;
        (value << 1) & mask | value >> (self.bits - 1)
    }
}
