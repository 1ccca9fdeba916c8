//! One direction of a connection: bounded, delayed, and cut at a chosen place.

use std::collections::VecDeque;
use std::time::Duration;

use onetrip_engine::Time;

/// The bytes that one side wrote and the other has not read: both socket buffers and the network.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Bytes with the moment at which they can be read.
    chunks: VecDeque<(Time, Vec<u8>)>,
    len: usize,
    cap: usize,
    delay: Duration,
    /// Bytes that were ever put in.
    total: u64,
    /// Bytes after this position are lost, and the reader sees the end there.
    pub(crate) cut_at: Option<u64>,
    /// Nothing comes out before this moment.
    pub(crate) frozen_until: Time,
    /// Whether the reader sees the end after the remaining bytes.
    ended: bool,
}

impl Pipe {
    pub(crate) fn new(cap: usize, delay: Duration) -> Pipe {
        Pipe {
            chunks: VecDeque::new(),
            len: 0,
            cap,
            delay,
            total: 0,
            cut_at: None,
            frozen_until: Time::ZERO,
            ended: false,
        }
    }

    /// How many bytes can be written now. A cut pipe takes any number, and loses them.
    pub(crate) fn room(&self) -> usize {
        if self.ended { usize::MAX } else { self.cap - self.len }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the reader has seen everything that it ever will.
    pub(crate) fn is_over(&self) -> bool {
        self.ended && self.is_empty()
    }

    /// Whether the cut was reached, or the writer has closed it.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// When bytes can be read next; never where there are none.
    pub(crate) fn next(&self) -> Time {
        self.chunks.front().map_or(Time::NEVER, |(at, _)| (*at).max(self.frozen_until))
    }

    /// Puts in no more bytes than there is room for.
    pub(crate) fn push(&mut self, now: Time, mut bytes: &[u8]) {
        if self.ended {
            return;
        }
        if let Some(cut_at) = self.cut_at
            && self.total + bytes.len() as u64 >= cut_at
        {
            bytes = &bytes[..cut_at.saturating_sub(self.total) as usize];
            self.ended = true;
        }
        self.total += bytes.len() as u64;
        self.len += bytes.len();
        if !bytes.is_empty() {
            self.chunks.push_back((now.after(self.delay), bytes.to_vec()));
        }
    }

    /// Takes out up to `max` bytes that have arrived.
    pub(crate) fn pop(&mut self, now: Time, max: usize) -> Vec<u8> {
        if self.next() > now {
            return Vec::new();
        }
        let Some((_, bytes)) = self.chunks.front_mut() else { return Vec::new() };
        let len = bytes.len().min(max);
        let rest = bytes.split_off(len);
        let taken = std::mem::replace(bytes, rest);
        if bytes.is_empty() {
            self.chunks.pop_front();
        }
        self.len -= taken.len();
        taken
    }

    /// The writer closes it. The bytes in it can still be read.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Keeps the first `keep` bytes in it, loses the others, and ends there.
    pub(crate) fn tear(&mut self, mut keep: usize) {
        self.ended = true;
        for (_, bytes) in &mut self.chunks {
            bytes.truncate(keep);
            keep -= bytes.len();
        }
        self.chunks.retain(|(_, bytes)| !bytes.is_empty());
        self.len = self.chunks.iter().map(|(_, bytes)| bytes.len()).sum();
    }
}
