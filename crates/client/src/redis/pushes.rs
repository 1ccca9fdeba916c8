//! Stub.
use super::link::Link;
use std::sync::Arc;
use std::task::Waker;
#[derive(Debug, Default)]
pub(crate) struct Pushes;
impl Pushes {
    pub(crate) fn take(&self, _: &[u8]) -> Vec<Waker> {
        Vec::new()
    }
    pub(crate) fn reconnected(&self, _: &Arc<Link>) {}
}
