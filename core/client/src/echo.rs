//! An engine without a server. Each request becomes bytes to send, and ends at once with its own
//! bytes; bytes that arrive come out unchanged. A host tests with it how bytes cross the boundary,
//! and what that costs.

use bytes::{Buf, Bytes, BytesMut};

use crate::completion::{Completions, end, kind};

#[derive(Debug, Default)]
pub(crate) struct Echo {
    out: BytesMut,
}

impl Echo {
    pub(crate) fn submit(&mut self, token: u32, request: &[u8], to: &mut Completions) {
        self.out.extend_from_slice(request);
        to.push(kind::END, token, (0, end::COMPLETE), Bytes::copy_from_slice(request));
    }

    pub(crate) fn receive(&mut self, input: &mut BytesMut, to: &mut Completions) {
        to.push(kind::DATA, 0, (0, 0), input.split().freeze());
    }

    pub(crate) fn transmit(&self) -> &[u8] {
        &self.out
    }

    pub(crate) fn written(&mut self, bytes: usize) {
        self.out.advance(bytes.min(self.out.len()));
    }
}
