//! Replies that are taken as they come, on a connection that one caller has to itself, and what
//! happens to the rest of one that is left early.

use onetrip_engine::{Connection, Feed, Protocol, Request, Time, Token};

use crate::message::TransactionStatus;

/// The request of a stream or a COPY. It has no deadline, since its time depends on its reader or
/// writer.
pub fn request<X>(token: Token, expect: X, feed: Feed, metered: bool) -> Request<X> {
    // In order, because requests behind it must wait while it is being cancelled.
    Request { feed, metered, in_order: true, ..Request::isolated(token, expect) }
}

/// Bytes of an abandoned stream that are still read.
const UNREAD_MAX: usize = 1 << 20;

/// What happens to the rest of a stream that was left early, if it is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It is read, because a cancel would fail the transaction.
    Read,
    /// The server is asked to stop, and at once, since the cancel must not hit requests behind it.
    /// Those wait from then on.
    Cancel,
    /// The connection is closed after this many more bytes. Nobody else uses it.
    Close(usize),
    /// The server is asked to stop, and the connection is closed after this many more bytes.
    CancelOrClose(usize),
}

impl Rest {
    /// For a connection that nobody else uses. Beyond this many bytes, closing it costs less.
    pub const CLOSE: Rest = Rest::Close(UNREAD_MAX);
    /// The same, if a slow statement must not occupy the connection that long.
    pub const CANCEL_OR_CLOSE: Rest = Rest::CancelOrClose(UNREAD_MAX);

    /// The reader leaves. The rest of its reply is read and dropped, unless it is long.
    pub fn begin<P: Protocol>(
        self,
        engine: &mut Connection<P>,
        now: Time,
        token: Token,
        status: TransactionStatus,
    ) {
        // The text may have begun a transaction. If it can't be cancelled, its rest is read.
        let cancels = matches!(self, Rest::Cancel | Rest::CancelOrClose(_));
        if cancels && status == TransactionStatus::Idle {
            let _ = engine.want_cancel(now, token);
        }
    }

    /// This many bytes came for no reader. Returns whether the connection must be closed now.
    #[must_use]
    pub fn came(&mut self, bytes: usize) -> bool {
        match self {
            Rest::Close(left) | Rest::CancelOrClose(left) if *left > bytes => {
                *left -= bytes;
                false
            }
            Rest::Close(_) | Rest::CancelOrClose(_) => true,
            Rest::Read | Rest::Cancel => false,
        }
    }
}
