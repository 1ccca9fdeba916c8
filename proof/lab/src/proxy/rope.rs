//! The bytes of one direction, in chunks that are filled by `read` and emptied by `write` without a
//! copy in between, and the pool that the chunks come from.

use std::collections::VecDeque;
use std::io::IoSlice;

/// Bytes in order: appended at the back, taken from the front.
#[derive(Default)]
pub(super) struct Rope {
    /// Only the last chunk may have room at its end; none is empty between calls, except after
    /// [`spare`](Self::spare).
    chunks: VecDeque<Chunk>,
}

struct Chunk {
    data: Box<[u8]>,
    /// Bytes before this were taken.
    start: usize,
    /// Bytes before this were filled.
    end: usize,
}

impl Rope {
    /// Room for up to `max` bytes (at least one) at the end; [`commit`](Self::commit) says how many
    /// were filled.
    pub(super) fn spare(&mut self, pool: &mut Pool, max: usize) -> &mut [u8] {
        if self.chunks.back().is_none_or(|chunk| chunk.end == chunk.data.len()) {
            self.chunks.push_back(pool.take());
        }
        let chunk = self.chunks.back_mut().expect("a chunk was pushed above if there was none");
        let end = chunk.data.len().min(chunk.end.saturating_add(max));
        &mut chunk.data[chunk.end..end]
    }

    /// The first `bytes` of the last [`spare`](Self::spare) were filled.
    pub(super) fn commit(&mut self, bytes: usize) {
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.end += bytes;
            assert!(chunk.end <= chunk.data.len(), "no more is committed than was spare");
        }
    }

    /// Gives back a last chunk in which nothing was filled.
    pub(super) fn trim(&mut self, pool: &mut Pool) {
        let unfilled = self.chunks.back().is_some_and(|chunk| chunk.start == chunk.end);
        if unfilled && let Some(chunk) = self.chunks.pop_back() {
            pool.give(chunk);
        }
    }

    /// The first `max` bytes, or as many of them as `slices` holds; returns how many slices were
    /// set.
    pub(super) fn front<'a>(&'a self, max: usize, slices: &mut [IoSlice<'a>]) -> usize {
        let mut left = max;
        let mut count = 0;
        for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
            let bytes = (chunk.end - chunk.start).min(left);
            if bytes == 0 {
                break;
            }
            *slice = IoSlice::new(&chunk.data[chunk.start..chunk.start + bytes]);
            left -= bytes;
            count += 1;
        }
        count
    }

    /// The last `bytes`, or all if there are fewer, in their order.
    pub(super) fn back(&self, bytes: usize) -> impl Iterator<Item = &[u8]> {
        let mut left = bytes;
        let mut chunks = 0;
        for chunk in self.chunks.iter().rev() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(chunk.end - chunk.start);
            chunks += 1;
        }
        let held = self.chunks.iter().skip(self.chunks.len() - chunks);
        let mut skipped = held.clone().map(|it| it.end - it.start).sum::<usize>();
        skipped = skipped.saturating_sub(bytes);
        held.map(move |it| &it.data[it.start + std::mem::take(&mut skipped)..it.end])
    }

    /// The first `bytes` are done with.
    pub(super) fn consume(&mut self, mut bytes: usize, pool: &mut Pool) {
        while bytes > 0 {
            let chunk = self.chunks.front_mut().expect("no more is consumed than was filled");
            let taken = bytes.min(chunk.end - chunk.start);
            chunk.start += taken;
            bytes -= taken;
            if chunk.start == chunk.end {
                pool.give(self.chunks.pop_front().expect("the front chunk was just used"));
            }
        }
    }

    /// Gives all chunks back.
    pub(super) fn clear(&mut self, pool: &mut Pool) {
        while let Some(chunk) = self.chunks.pop_front() {
            pool.give(chunk);
        }
    }
}

/// Chunks out of use. The one used last is handed out first: with no delay the same warm chunk
/// serves every read.
#[derive(Default)]
pub(super) struct Pool {
    free: Vec<Chunk>,
}

impl Pool {
    fn take(&mut self) -> Chunk {
        self.free.pop().unwrap_or_else(|| Chunk {
            data: vec![0; CHUNK_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
        })
    }

    fn give(&mut self, mut chunk: Chunk) {
        if self.free.len() < FREE_MAX {
            chunk.start = 0;
            chunk.end = 0;
            self.free.push(chunk);
        }
    }
}

/// Bytes per chunk, and so per `read`: 128 KiB.
pub(super) const CHUNK_BYTES: usize = 128 << 10;

/// Chunks kept for later by one proxy: 512, which is 64 MiB.
const FREE_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    fn append(rope: &mut Rope, pool: &mut Pool, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let spare = rope.spare(pool, rest.len());
            let count = spare.len();
            spare.copy_from_slice(&rest[..count]);
            rope.commit(count);
            rest = &rest[count..];
        }
    }

    fn take(rope: &mut Rope, pool: &mut Pool, max: usize) -> Vec<u8> {
        let mut slices = [IoSlice::new(&[]); 4];
        let count = rope.front(max, &mut slices);
        let bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
        rope.consume(bytes.len(), pool);
        bytes
    }

    #[test]
    fn bytes_come_out_in_order_over_chunk_borders() {
        let (mut rope, mut pool) = (Rope::default(), Pool::default());
        let bytes: Vec<u8> = (0..3 * CHUNK_BYTES + 5).map(|i| (i % 251) as u8).collect();
        append(&mut rope, &mut pool, &bytes);
        let mut out = take(&mut rope, &mut pool, 1);
        out.extend(take(&mut rope, &mut pool, 2 * CHUNK_BYTES));
        out.extend(take(&mut rope, &mut pool, usize::MAX));
        assert!(out == bytes);
        assert_eq!(pool.free.len(), 4);
        assert!(rope.chunks.is_empty());
    }

    #[test]
    fn an_unfilled_chunk_is_given_back() {
        let (mut rope, mut pool) = (Rope::default(), Pool::default());
        assert_eq!(rope.spare(&mut pool, 7).len(), 7);
        rope.trim(&mut pool);
        assert!(rope.chunks.is_empty());
        append(&mut rope, &mut pool, b"kept");
        rope.trim(&mut pool);
        assert_eq!(take(&mut rope, &mut pool, 9), b"kept");
    }

    #[test]
    fn the_last_bytes_can_be_looked_at() {
        let (mut rope, mut pool) = (Rope::default(), Pool::default());
        let bytes: Vec<u8> = (0..2 * CHUNK_BYTES + 5).map(|i| (i % 251) as u8).collect();
        append(&mut rope, &mut pool, &bytes);
        for last in [0, 1, 5, 6, CHUNK_BYTES, CHUNK_BYTES + 5, CHUNK_BYTES + 6, bytes.len()] {
            let seen = rope.back(last).collect::<Vec<_>>().concat();
            assert!(seen == bytes[bytes.len() - last..], "{last}");
        }
        take(&mut rope, &mut pool, bytes.len() - 3);
        assert_eq!(rope.back(9).collect::<Vec<_>>().concat(), bytes[bytes.len() - 3..]);
        assert!(rope.back(9).chain(Rope::default().back(9)).count() == 1);
    }
}
