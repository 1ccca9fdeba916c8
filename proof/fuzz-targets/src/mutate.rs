//! Random changes to inputs, from a seed.

use onetrip_lab::model::Rng;

/// Makes new inputs out of known ones.
#[derive(Debug)]
pub struct Mutator(Rng);

/// Values that often break code which reads a length or a count.
const NUMBERS: [i32; 14] =
    [0, 1, -1, 3, 4, 7, 0xff, 0xffff, 1 << 16, 1 << 28, 0x3fff_fffe, 1 << 30, i32::MAX, i32::MIN];

/// The longest input that a change may produce, in bytes.
const LEN_MAX: usize = 16 << 10;

impl Mutator {
    /// A mutator with this seed.
    pub fn new(seed: u64) -> Mutator {
        Mutator(Rng::new(seed))
    }

    /// One of `corpus` with up to eight changes.
    ///
    /// # Panics
    /// If `corpus` is empty.
    pub fn next(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut data = corpus[self.0.index(corpus.len())].clone();
        let changes = if self.0.one_in(4) { 8 } else { 2 };
        for _ in 0..self.0.up_to(changes) {
            self.change(&mut data, corpus);
        }
        data.truncate(LEN_MAX);
        data
    }

    fn change(&mut self, data: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.0.index(data.len() + 1);
        match self.0.below(9) {
            0 => data.truncate(at),
            1 => data.insert(at, self.0.next() as u8),
            2 if at < data.len() => drop(data.remove(at)),
            3 if at < data.len() => data[at] = self.0.next() as u8,
            4 if at < data.len() => data[at] ^= 1 << self.0.below(8),
            5 => self.splice(data, at, corpus),
            6 => self.repeat(data, at),
            7 => self.number(data, at, 2),
            _ => self.number(data, at, 4),
        }
    }

    /// Replaces the bytes at `at` by a length or a count.
    fn number(&mut self, data: &mut Vec<u8>, at: usize, width: usize) {
        let number = self.0.pick(&NUMBERS).to_be_bytes();
        let end = data.len().min(at + width);
        data.splice(at..end, number[4 - width..].iter().copied());
    }

    /// Replaces the rest from `at` on by the end of another input.
    fn splice(&mut self, data: &mut Vec<u8>, at: usize, corpus: &[Vec<u8>]) {
        let other = &corpus[self.0.index(corpus.len())];
        data.truncate(at);
        data.extend_from_slice(&other[self.0.index(other.len() + 1)..]);
    }

    /// Repeats a piece of the input.
    fn repeat(&mut self, data: &mut Vec<u8>, at: usize) {
        let end = data.len().min(at + self.0.up_to(32));
        let piece = data[at..end].repeat(self.0.up_to(8));
        data.splice(at..at, piece);
    }
}
