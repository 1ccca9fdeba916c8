//! The readers of published messages.
//!
//! The lock is taken under that of a connection, and no lock is taken under it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use onetrip_redis::reply::Reply;

use super::published::{Family, Message};
use crate::buffer::Buffer;

/// A channel or a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Channel {
    pub(crate) family: Family,
    pub(crate) name: Bytes,
}

/// A reader of messages.
#[derive(Debug)]
pub(crate) struct Reader {
    buffer: Arc<Buffer<Message>>,
    reconnects: AtomicU64,
}

impl Reader {
    pub(crate) fn new(buffer: Arc<Buffer<Message>>) -> Reader {
        Reader { buffer, reconnects: AtomicU64::new(0) }
    }

    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }
}

/// The readers of each channel.
#[derive(Debug, Default)]
pub(crate) struct Pushes {
    readers: Mutex<HashMap<Channel, Vec<Arc<Reader>>>>,
    closed: AtomicBool,
}

impl Pushes {
    /// Passes a push to its readers. Returns whom to wake.
    pub(crate) fn take(&self, block: &Bytes) -> Vec<Waker> {
        let Some((channel, message)) = read(block) else { return Vec::new() };
        let readers = self.lock();
        let readers = readers.get(&channel).into_iter().flatten();
        readers.filter_map(|reader| reader.buffer.push(message.clone())).collect()
    }

    /// Whether no more messages come.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Adds a reader of these channels.
    pub(crate) fn add(&self, reader: &Arc<Reader>, channels: &[Channel]) {
        let mut all = self.lock();
        for channel in channels {
            let readers = all.entry(channel.clone()).or_default();
            if !readers.iter().any(|other| Arc::ptr_eq(other, reader)) {
                readers.push(reader.clone());
            }
        }
    }

    /// Removes a reader of these channels. Returns the channels that nobody reads now.
    pub(crate) fn remove(&self, reader: &Arc<Reader>, channels: &[Channel]) -> Vec<Channel> {
        let mut all = self.lock();
        let mut unread = Vec::new();
        for channel in channels {
            let Some(readers) = all.get_mut(channel) else { continue };
            readers.retain(|other| !Arc::ptr_eq(other, reader));
            if readers.is_empty() {
                all.remove(channel);
                unread.push(channel.clone());
            }
        }
        unread
    }

    /// All channels that are read.
    pub(crate) fn all(&self) -> Vec<Channel> {
        self.lock().keys().cloned().collect()
    }

    /// The channels are subscribed on another connection now.
    pub(crate) fn reconnected(&self) {
        let all = self.lock();
        let mut told: Vec<*const Reader> = Vec::new();
        for reader in all.values().flatten() {
            if !told.contains(&Arc::as_ptr(reader)) {
                told.push(Arc::as_ptr(reader));
                reader.reconnects.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A channel was subscribed again.
    pub(crate) fn resubscribed(&self, channel: &Channel) {
        for reader in self.lock().get(channel).into_iter().flatten() {
            reader.reconnects.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// No more messages come. Returns whom to wake.
    pub(crate) fn close(&self) -> Vec<Waker> {
        self.closed.store(true, Ordering::Relaxed);
        let all = std::mem::take(&mut *self.lock());
        all.into_values().flatten().filter_map(|reader| reader.buffer.close()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Channel, Vec<Arc<Reader>>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The message in a push, and the channel or pattern by which it was subscribed.
fn read(block: &Bytes) -> Option<(Channel, Message)> {
    let (reply, _) = Reply::read(block).ok()?;
    let (Reply::Push(mut items) | Reply::Array(mut items)) = reply else { return None };
    let mut next = || text(items.next()?);
    let family = match &next()?[..] {
        b"message" => Family::Channel,
        b"pmessage" => Family::Pattern,
        b"smessage" => Family::Sharded,
        _ => return None,
    };
    let name = next()?;
    let (channel, pattern) = match family {
        Family::Pattern => (next()?, Some(name.clone())),
        Family::Channel | Family::Sharded => (name.clone(), None),
    };
    let payload = next()?;
    Some((Channel { family, name }, Message { channel, pattern, payload }))
}

fn text(reply: Reply<'_>) -> Option<Bytes> {
    // Copied, so that a small message does not keep a whole read buffer alive.
    match reply {
        Reply::Bulk(bytes) => Some(Bytes::copy_from_slice(&bytes)),
        Reply::Simple(bytes) => Some(Bytes::copy_from_slice(bytes)),
        _ => None,
    }
}
