//! Notifications, as a listener or a session receives them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use onetrip_postgres::client::listener::{self, BadName};
use onetrip_postgres::message::{Header, NotificationResponse};

use crate::Error;
use crate::buffer::Buffer;

/// A notification. `Debug` shows the length of the payload, not the payload.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notification {
    /// The channel.
    pub channel: String,
    /// The payload; empty if the sender gave none.
    pub payload: String,
    /// The server process of the sending session, which may be one's own.
    pub process_id: i32,
}

/// What happened on the channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A notification came.
    Notification(Notification),
    /// Notifications may have been missed: the connection was lost and opened anew, or more came
    /// than were kept. Query whatever they would have told. All channels are listened to again, so
    /// that query and later notifications leave no gap.
    MayHaveMissed,
}

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
/// The connection is read even if this is not, because the session's replies come in between. So
/// 1,024 notifications are kept; then the oldest are dropped, and [`Event::MayHaveMissed`] says so.
/// The stream ends with the session, or with the connection.
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

/// Refuses a name that the server would refuse or truncate.
pub(crate) fn check(channel: &str) -> Result<(), Error> {
    let why = match listener::check(channel) {
        Ok(()) => return Ok(()),
        Err(BadName::Empty) => "the name of a channel is empty".to_owned(),
        Err(BadName::Nul) => "the name of a channel contains a NUL".to_owned(),
        Err(BadName::Long(len)) => format!(
            "the name of a channel has {len} bytes, and a name may have 63 at most: the server would \
             cut it off"
        ),
    };
    Err(Error::misuse("channel_name", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_not_shown() {
        let notification =
            Notification { channel: "c".into(), payload: "secret".into(), process_id: 7 };
        let shown = format!("{:?}", Event::Notification(notification));
        assert!(!shown.contains("secret") && shown.contains('6'), "{shown}");
    }
}
