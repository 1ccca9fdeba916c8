//! Letting go of a socket behind the goodbye, so that the line ends in the orderly way.
//!
//! A socket that is closed while bytes lie in it, or still come, is reset by the system: the server
//! may never see the goodbye then, and it and all in between log a failure (RFC 1122 section
//! 4.2.2.13). So this side says that it sends no more, and hears out what the server still says.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;

use crate::socket::Reader;

/// A server that was told goodbye closes at once; one that doesn't is not waited for.
const TIME_MAX: Duration = Duration::from_secs(1);

/// More than a socket holds back of what a server said before (6 MiB, Linux' `tcp_rmem`). One that
/// goes on for longer does not listen.
const BYTES_MAX: usize = 8 << 20;

/// Shuts the writing half down, and reads and drops what comes until the peer closes its side, for
/// as long as is worth it.
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
    // However it ends, the socket is closed next.
    let _ = tokio::time::timeout(TIME_MAX, heard).await;
}
