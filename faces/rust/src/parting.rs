//! Closes a socket after the goodbye, in the orderly way.
//!
//! If a socket is closed while bytes lie in it, or still come, the system resets the connection:
//! the server may then never see the goodbye, and it and all in between log a failure (RFC 1122
//! section 4.2.2.13). So this side shuts its writing half down, and reads what the server still
//! sends.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;

use crate::socket::Reader;

/// A server that was told goodbye closes at once; this is how long a slower one is waited for.
const TIME_MAX: Duration = Duration::from_secs(1);

/// More than a socket buffers of what a server sent before (6 MiB, Linux' `tcp_rmem`). A server
/// that goes on for longer does not listen.
const BYTES_MAX: usize = 8 << 20;

/// Shuts the writing half down, and reads and drops what comes until the peer closes its side,
/// within the limits above.
pub(crate) async fn hear_out(
    reader: &mut Reader,
    shut_down: impl FnMut(&mut Context<'_>) -> Poll<io::Result<()>>,
) {
    let heard = async {
        std::future::poll_fn(shut_down).await?;
        let (mut dropped, mut heard) = (BytesMut::new(), 0);
        while heard < BYTES_MAX {
            dropped.clear();
            match std::future::poll_fn(|cx| reader.poll_skip(cx, &mut dropped)).await? {
                0 => break,
                bytes => heard += bytes,
            }
        }
        io::Result::Ok(())
    };
    // Whatever the result, the socket is closed next.
    let _ = tokio::time::timeout(TIME_MAX, heard).await;
}
