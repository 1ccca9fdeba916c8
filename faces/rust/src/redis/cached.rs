//! The cache of a client, shared by its callers and its connections.
//!
//! Its lock is taken under that of a connection, and no lock is taken under it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use onetrip_redis::client::cache::{Cache, Counts, FetchId, Found, Writes};
use onetrip_redis::{Command, Spec};

/// The cache of a client.
#[derive(Debug)]
pub(crate) struct Cached(Mutex<State>);

#[derive(Debug)]
struct State {
    cache: Cache<Arc<Joined>>,
    /// The number of the last connection that tracks keys.
    last: u64,
}

/// What the cache has of a command.
pub(crate) enum Lookup {
    Hit(Bytes),
    Joined(Arc<Joined>),
    /// The command is to be sent, and what comes of this fetch reported.
    Fetch(FetchId),
    Nothing,
}

impl Cached {
    /// `None` if nothing is cached.
    pub(crate) fn new(bytes_max: usize) -> Option<Cached> {
        let state = || State { cache: Cache::new(bytes_max), last: 0 };
        (bytes_max > 0).then(|| Cached(Mutex::new(state())))
    }

    /// Another connection tracks keys. Returns its number.
    pub(crate) fn opened(&self) -> u64 {
        let mut state = self.lock();
        state.last += 1;
        let connection = state.last;
        state.cache.opened(connection);
        connection
    }

    pub(crate) fn closed(&self, connection: u64) {
        self.lock().cache.closed(connection);
    }

    /// The client is closed.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        let connection = state.last;
        state.cache.closed(connection);
    }

    pub(crate) fn look_up(&self, command: &Command, spec: Option<&'static Spec>) -> Lookup {
        let mut joined = None;
        let found = self.lock().cache.look_up(command, spec, || {
            let caller = Arc::<Joined>::default();
            joined = Some(caller.clone());
            caller
        });
        match (found, joined) {
            (Found::Hit(reply), _) => Lookup::Hit(reply),
            (Found::Fetch(fetch), _) => Lookup::Fetch(fetch),
            (Found::Joined, Some(joined)) => Lookup::Joined(joined),
            (Found::Joined, None) | (Found::Nothing, _) => Lookup::Nothing,
        }
    }

    /// The reply to a fetch came on a connection of this number. Returns whom to wake.
    pub(crate) fn answered(
        &self,
        fetch: FetchId,
        connection: Option<u64>,
        reply: &Bytes,
    ) -> Vec<Waker> {
        // The first connection has the number 1.
        let joined = self.lock().cache.answered(fetch, connection.unwrap_or_default(), reply);
        joined.iter().filter_map(|joined| joined.settle(Some(reply.clone()))).collect()
    }

    /// A fetch was not answered. Returns whom to wake.
    pub(crate) fn failed(&self, fetch: FetchId) -> Vec<Waker> {
        let joined = self.lock().cache.failed(fetch);
        joined.iter().filter_map(|joined| joined.settle(None)).collect()
    }

    /// The caller of a fetch is gone. Returns whether it may be taken back.
    pub(crate) fn left(&self, fetch: FetchId) -> bool {
        self.lock().cache.left(fetch)
    }

    /// Returns whether the push was for the cache.
    pub(crate) fn pushed(&self, push: &[u8]) -> bool {
        self.lock().cache.pushed(push)
    }

    pub(crate) fn wrote(&self, writes: &Writes) {
        if *writes != Writes::Nothing {
            self.lock().cache.wrote(writes);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.lock().cache.counts()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that joined a command which was sent already.
#[derive(Debug, Default)]
pub(crate) struct Joined(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// The reply; `Some(None)` if the caller has to send for itself.
    result: Option<Option<Bytes>>,
    waker: Option<Waker>,
}

impl Joined {
    /// The reply; `None` if the caller has to send for itself.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<Bytes>> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                waiting.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn settle(&self, result: Option<Bytes>) -> Option<Waker> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.result = Some(result);
        waiting.waker.take()
    }
}
