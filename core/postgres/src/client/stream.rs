//! Replies that are taken as they come, on a connection that one caller has to itself; and what becomes of
//! the rest of one that is left early.

use onetrip_engine::{Connection, Feed, Protocol, Request, Time, Token};

use crate::message::TransactionStatus;

/// The request of a stream or a COPY. It has no deadline: how long it takes is up to its reader or writer.
pub fn request<X>(token: Token, expect: X, feed: Feed, metered: bool) -> Request<X> {
    // While it is being cancelled what comes behind waits.
    Request { feed, metered, in_order: true, ..Request::isolated(token, expect) }
}

/// Bytes of a stream that are read for nobody.
const UNREAD_MAX: usize = 1 << 20;

/// What becomes of the rest of a stream that was left early, where it is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It is read: a cancel would fail the transaction.
    Read,
    /// The server is asked to stop. At once, since a cancel must not hit what comes behind: that waits
    /// from then on.
    Cancel,
    /// The connection is closed, once so many bytes more were read: nobody else has it.
    Close(usize),
    /// Both.
    CancelOrClose(usize),
}

impl Rest {
    /// For a connection that nobody misses: more than this, and it costs less to stop the server.
    pub const CLOSE: Rest = Rest::Close(UNREAD_MAX);
    /// The same, where a statement that is slow to its end must not have the connection for so long.
    pub const CANCEL_OR_CLOSE: Rest = Rest::CancelOrClose(UNREAD_MAX);

    /// The reader goes. What is still to come of its reply is read and dropped, unless it is much.
    pub fn begin<P: Protocol>(
        self,
        engine: &mut Connection<P>,
        now: Time,
        token: Token,
        status: TransactionStatus,
    ) {
        // A transaction may have been begun by its text. Where it can't be cancelled, it is read.
        let cancels = matches!(self, Rest::Cancel | Rest::CancelOrClose(_));
        if cancels && status == TransactionStatus::Idle {
            let _ = engine.want_cancel(now, token);
        }
    }

    /// So many bytes of it came for nobody. Whether the connection is to be closed now.
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
