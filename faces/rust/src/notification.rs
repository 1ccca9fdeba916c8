//! What NOTIFY sends to those who LISTEN, as a listener or a session hands it out.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use onetrip_postgres::message::{Header, NotificationResponse};

use crate::Error;
use crate::buffer::Buffer;

/// A notification. `Debug` shows the length of the payload, not the payload.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notification {
    /// The channel.
    pub channel: String,
    /// What the sender added; empty if nothing.
    pub payload: String,
    /// The server process of the session that sent it. That may be one's own.
    pub process_id: i32,
}

/// What happened on the channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody notified.
    Notification(Notification),
    /// Notifications may have been missed: the connection was lost and opened anew, or more came than
    /// were kept. Whatever they would have told must be looked up. All channels are listened to again,
    /// so that what is looked up now and what comes next leave no gap.
    MayHaveMissed,
}

/// Notifications that are kept for a reader. One is up to 8 KiB long (NOTIFY_PAYLOAD_MAX_LENGTH in
/// async.c), so a reader that stops costs 8 MiB at most, and mostly far less.
pub(crate) const KEPT_MAX: usize = 1_024;

impl Notification {
    /// Reads the message.
    pub(crate) fn read(block: &[u8]) -> Option<Notification> {
        let read = NotificationResponse::decode(block.get(Header::LEN..)?).ok()?;
        Some(Notification {
            channel: read.channel.to_owned(),
            payload: read.payload.to_owned(),
            process_id: read.process_id,
        })
    }
}

impl fmt::Debug for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notification")
            .field("channel", &self.channel)
            .field("payload_len", &self.payload.len())
            .field("process_id", &self.process_id)
            .finish()
    }
}

/// The notifications that reach a session; made by
/// [`Session::notifications`](crate::Session::notifications).
///
/// The connection is read whether or not anybody reads this, since its replies come in between. So
/// 1,024 notifications are kept; then the oldest go, and [`Event::MayHaveMissed`] says so. It ends
/// with the session, or with the connection.
#[derive(Debug)]
pub struct Notifications(pub(crate) Arc<Buffer<Notification>>);

impl Notifications {
    /// The next event; `None` when the session is over. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<Event>> {
        if self.0.take_lost() > 0 {
            return Poll::Ready(Some(Event::MayHaveMissed));
        }
        self.0.poll_next(cx).map(|next| next.map(Event::Notification))
    }
}

impl Stream for Notifications {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll(cx)
    }
}

impl Drop for Notifications {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A channel's name as it stands in a statement: quoted, so that it is taken letter by letter.
pub(crate) fn quoted(channel: &str) -> Result<String, Error> {
    check(channel)?;
    Ok(format!("\"{}\"", channel.replace('"', "\"\"")))
}

/// Refuses a name that the server would refuse or cut off.
pub(crate) fn check(channel: &str) -> Result<(), Error> {
    let wrong = |why: String| Err(Error::misuse("channel_name", why));
    match channel.len() {
        0 => wrong("the name of a channel is empty".into()),
        len if len > NAME_MAX => wrong(format!(
            "the name of a channel has {len} bytes, and a name may have {NAME_MAX} at most: the server \
             would cut it off"
        )),
        _ if channel.contains('\0') => wrong("the name of a channel contains a NUL".into()),
        _ => Ok(()),
    }
}

/// NAMEDATALEN - 1 (src/include/pg_config_manual.h).
const NAME_MAX: usize = 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_exactly() {
        assert_eq!(quoted("Jobs").unwrap_or_default(), "\"Jobs\"");
        assert_eq!(quoted("a\"b; drop").unwrap_or_default(), "\"a\"\"b; drop\"");
    }

    #[test]
    fn a_payload_is_not_shown() {
        let notification =
            Notification { channel: "c".into(), payload: "secret".into(), process_id: 7 };
        let shown = format!("{:?}", Event::Notification(notification));
        assert!(!shown.contains("secret") && shown.contains('6'), "{shown}");
    }
}
