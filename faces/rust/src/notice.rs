//! Notices: messages of the server beside its replies, such as RAISE NOTICE and warnings.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_core::Stream;
use onetrip_postgres::message::{Header, NoticeResponse, ServerError};

use crate::buffer::Buffer;

/// A notice of the server. It belongs to no statement: the protocol does not say which one raised
/// it.
///
/// `Debug` and `Display` show severity and SQLSTATE only, because the texts may hold values.
#[derive(Clone, PartialEq, Eq)]
pub struct Notice(Arc<ServerError>);

impl Notice {
    /// Reads the message.
    pub(crate) fn read(block: &[u8]) -> Option<Notice> {
        let read = NoticeResponse::decode(block.get(Header::LEN..)?).ok()?;
        Some(Notice(Arc::new(read.into())))
    }

    /// WARNING, NOTICE, DEBUG, INFO or LOG.
    pub fn severity(&self) -> &str {
        &self.0.severity
    }

    /// SQLSTATE: `01…` for warnings, `00000` for most others.
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The message, in one line.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The server's detail, if any.
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// The server's hint on what to do.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The server's context: a call stack, one line each.
    pub fn where_(&self) -> Option<&str> {
        self.0.where_.as_deref()
    }

    /// All fields of the notice.
    pub fn server(&self) -> &ServerError {
        &self.0
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = if self.severity().is_empty() { "NOTICE" } else { self.severity() };
        match self.code() {
            "" => f.write_str(severity),
            code => write!(f, "{severity} (SQLSTATE {code})"),
        }
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notice({self})")
    }
}

/// The notices of all connections of a client; made by [`Client::notices`](crate::Client::notices).
///
/// 256 notices are kept for a reader; then the oldest are dropped, and [`missed`](Self::missed)
/// counts them. The stream ends when the client does, or was [closed](crate::Client::close).
#[derive(Debug)]
pub struct Notices {
    buffer: Arc<Buffer<Notice>>,
    missed: AtomicU64,
}

/// How many notices are kept for a reader. The connection is read even if they are not taken.
const KEPT_MAX: usize = 256;

impl Notices {
    /// The next notice; `None` when the client and its connections are gone, or the client was
    /// closed. Cancel safe.
    pub async fn next(&mut self) -> Option<Notice> {
        std::future::poll_fn(|cx| self.buffer.poll_next(cx)).await
    }

    /// How many notices were dropped because they were not taken in time.
    pub fn missed(&self) -> u64 {
        let lost = self.buffer.take_lost();
        self.missed.fetch_add(lost, Ordering::Relaxed) + lost
    }
}

impl Stream for Notices {
    type Item = Notice;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Notice>> {
        self.buffer.poll_next(cx)
    }
}

/// The readers of a client's notices.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    list: Mutex<Vec<Weak<Buffer<Notice>>>>,
    /// How many readers there are, readable without the lock.
    count: AtomicUsize,
    /// Whether no notices come any more.
    closed: AtomicBool,
}

impl Subscribers {
    pub(crate) fn subscribe(&self) -> Notices {
        let buffer = Arc::new(Buffer::new(KEPT_MAX));
        self.change(|list| list.push(Arc::downgrade(&buffer)));
        if self.closed.load(Ordering::SeqCst) {
            buffer.close();
        }
        Notices { buffer, missed: AtomicU64::new(0) }
    }

    /// Passes a notice to all readers. Returns whom to wake.
    pub(crate) fn tell(&self, block: &Bytes) -> Vec<Waker> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let Some(notice) = Notice::read(block) else { return Vec::new() };
        let mut wakers = Vec::new();
        self.change(|list| {
            list.retain(|buffer| {
                let Some(buffer) = buffer.upgrade() else { return false };
                wakers.extend(buffer.push(notice.clone()));
                true
            });
        });
        wakers
    }

    /// No notices come any more: what came is still read. Returns whom to wake.
    pub(crate) fn close(&self) -> Vec<Waker> {
        self.closed.store(true, Ordering::SeqCst);
        let mut wakers = Vec::new();
        self.change(|list| {
            let readers = list.drain(..).filter_map(|buffer| buffer.upgrade());
            wakers.extend(readers.filter_map(|buffer| buffer.close()));
        });
        wakers
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Weak<Buffer<Notice>>>)) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut list);
        self.count.store(list.len(), Ordering::Relaxed);
    }
}

impl Drop for Subscribers {
    fn drop(&mut self) {
        self.close().into_iter().for_each(Waker::wake);
    }
}
