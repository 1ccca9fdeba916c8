//! Events and spans of the feature `tracing`, named as for PostgreSQL.

use std::sync::Arc;

use super::link::Link;
use crate::Error;

pub(crate) fn opened(link: &Arc<Link>) {
    #[cfg(feature = "tracing")]
    {
        let core = link.lock();
        let (address, port) = core.route.server();
        tracing::debug!(target: "onetrip", { server.address = address, server.port = port }, "connected");
    }
    let _ = link;
}

pub(crate) fn open_failed(error: &Error) {
    crate::trace::open_failed(error);
}

pub(crate) fn ended(why: Option<&Error>) {
    match why {
        Some(error) => crate::trace::lost(error),
        None => crate::trace::closed(),
    }
}
