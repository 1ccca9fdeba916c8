//! Random numbers that are the same for a seed on every machine and in every version.

/// A small generator (SplitMix64, Steele, Lea and Flood 2014). Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// An independent generator, so that two parts of a program don't affect one another.
    pub fn split(&mut self) -> Rng {
        Rng(self.next())
    }

    /// 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `n`; zero where `n` is.
    pub fn below(&mut self, n: u64) -> u64 {
        // The bias is below one in 2^40 for every `n` that is used here.
        if n == 0 { 0 } else { self.next() % n }
    }

    /// A number below `n`; zero where `n` is.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number from 1 to `max`; one where `max` is zero.
    pub fn up_to(&mut self, max: usize) -> usize {
        1 + self.index(max.max(1))
    }

    /// True once in `n` times; never where `n` is zero.
    pub fn one_in(&mut self, n: u64) -> bool {
        n != 0 && self.below(n) == 0
    }

    /// One of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }
}
