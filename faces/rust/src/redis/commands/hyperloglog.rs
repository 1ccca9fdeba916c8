//! Commands that count distinct elements, with an error of about 0.81 %, in 12 KiB at most.

use onetrip_redis::{Command, ToArg};

use crate::redis::Sends;

/// Commands that count distinct elements, with an error of about 0.81 %, in 12 KiB at most.
///
/// Implemented for everything that [`Sends`].
pub trait HyperLogLogCommands: Sends {
    /// `PFADD`: adds elements. Replies whether the count may have changed.
    fn pfadd(
        &self,
        key: impl ToArg,
        elements: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<bool> {
        self.send(Command::new("PFADD").arg(key).args(elements))
    }

    /// `PFCOUNT`: about how many distinct elements were added to these keys together.
    fn pfcount(&self, keys: impl IntoIterator<Item: ToArg>) -> Self::Answer<u64> {
        self.send(Command::new("PFCOUNT").args(keys))
    }

    /// `PFMERGE`: merges the counts of other keys into one.
    fn pfmerge(
        &self,
        destination: impl ToArg,
        sources: impl IntoIterator<Item: ToArg>,
    ) -> Self::Answer<()> {
        self.send(Command::new("PFMERGE").arg(destination).args(sources))
    }
}

impl<S: Sends + ?Sized> HyperLogLogCommands for S {}
