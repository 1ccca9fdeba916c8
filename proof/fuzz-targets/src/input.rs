//! Reading an input piece by piece. It never fails: a missing piece is zero or empty.

use std::fmt;

use bytes::BytesMut;
use onetrip_lab::model::Rng;

/// An input that is consumed from its front.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Input<'a> {
        Input(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    /// A number below `bound`, which fits a byte.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.u8()) % bound
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// At most this many bytes.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A length in one byte, then as many bytes.
    pub(crate) fn piece(&mut self) -> &'a [u8] {
        let len = self.u8();
        self.take(len.into())
    }

    /// A length in two bytes, then as many bytes.
    pub(crate) fn long_piece(&mut self) -> &'a [u8] {
        let len = self.u16();
        self.take(len.into())
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

/// The longest prefix of these bytes that is valid UTF-8.
pub(crate) fn text(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

/// Cuts a stream as a network might. Plan 0 does not cut it, 1 cuts at each byte, and any other
/// plan is the seed of random cuts.
pub(crate) fn cut(plan: u8, mut stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rng = Rng::new(plan.into());
    std::iter::from_fn(move || {
        let len = match plan {
            0 => stream.len(),
            1 => 1,
            _ => {
                let max = if rng.one_in(3) { 64 } else { 5 };
                rng.up_to(max)
            }
        };
        let (chunk, rest) = stream.split_at(len.min(stream.len()));
        stream = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Formats a text and discards it, so that only the formatting is tested.
pub(crate) fn show(text: impl fmt::Display) {
    struct Nowhere;
    impl fmt::Write for Nowhere {
        fn write_str(&mut self, _: &str) -> fmt::Result {
            Ok(())
        }
    }
    fmt::write(&mut Nowhere, format_args!("{text}")).expect("nowhere has room");
}

/// As [`show`], for a value that has only `Debug`.
pub(crate) fn show_debug(value: impl fmt::Debug) {
    show(format_args!("{value:?}"));
}

/// A buffer that holds these bytes.
pub(crate) fn buffer(bytes: &[u8]) -> BytesMut {
    BytesMut::from(bytes)
}

pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
