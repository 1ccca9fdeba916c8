//! Requests that are kept until there is a connection for them.

use bytes::Bytes;
use onetrip_engine::Unsent;
use onetrip_engine::pool::TextKey;
use onetrip_postgres::Expect;
use onetrip_postgres::client::retry::GoesOn;
use onetrip_postgres::message::bind;

use crate::statements::{Bound, Use};

/// A request that is kept until there is a connection for it.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) expect: Expect,
    pub(crate) key: TextKey,
    pub(crate) goes_on: GoesOn,
    pub(crate) bound: Option<Bound>,
    pub(crate) bytes: Bytes,
}

/// `Debug` shows the length only: the bytes hold values.
impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

impl Kept {
    /// A request none of whose bytes were sent, for another connection. `used`: the prepared
    /// statement that it names, which other connections have under other names.
    pub(crate) fn of_unsent(unsent: Unsent<Expect>, used: Option<&Use>) -> Option<Kept> {
        let (Unsent { expect, bytes }, goes_on) = (unsent, GoesOn::InLine);
        let Some(used) = used else {
            return Some(Kept { expect, key: TextKey::UNTOLD, goes_on, bound: None, bytes });
        };
        let metadata = used.prepared().data.metadata.clone();
        let values = bytes.slice_ref(bind::values_of(&bytes)?);
        let expect = Expect::sync().bind().execute().of_traits(metadata.traits);
        let (key, bound) = (metadata.key, Bound { metadata, explicit: None });
        Some(Kept { expect, key, goes_on, bound: Some(bound), bytes: values })
    }
}
