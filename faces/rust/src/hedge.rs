//! Hedging: a repeatable read is sent a second time while its first answer may still come.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use onetrip_engine::pool::Hedge;
use onetrip_engine::{Time, Token};
use tokio::time::Sleep;

use crate::core::Connection;
use crate::replies::Taken;

/// Whether the statement of a reply was sent a second time.
#[derive(Debug)]
pub(crate) enum Hedging {
    /// The policy is asked again when this pause is over; `None`: at once.
    Waits(Option<Pin<Box<Sleep>>>),
    /// It was also sent on this connection.
    Sent(Arc<Connection>, Token),
    /// It is not sent a second time any more.
    Over,
}

impl Hedging {
    /// Ready with the second answer, if that is a success. `hedge` sends the statement a second
    /// time if that is due.
    pub(crate) fn poll(
        &mut self,
        hedge: impl Fn() -> Hedge<(Arc<Connection>, Token)>,
        now: impl Fn() -> Time,
        cx: &mut Context<'_>,
    ) -> Poll<(Arc<Connection>, Taken)> {
        while let Hedging::Waits(pause) = self {
            if let Some(pause) = pause
                && pause.as_mut().poll(cx).is_pending()
            {
                return Poll::Pending;
            }
            *self = match hedge() {
                Hedge::On((connection, token)) => Hedging::Sent(connection, token),
                Hedge::At(Time::NEVER) => Hedging::Over,
                Hedge::At(at) => {
                    let pause = at.since(now()).max(PAUSE_MIN);
                    Hedging::Waits(Some(Box::pin(tokio::time::sleep(pause))))
                }
            };
        }
        let Hedging::Sent(connection, token) = self else { return Poll::Pending };
        let Poll::Ready(taken) = connection.poll_reply(*token, None, cx) else {
            return Poll::Pending;
        };
        let connection = connection.clone();
        self.take();
        match taken.result {
            Ok(_) => Poll::Ready((connection, taken)),
            // The first answer reports the error.
            Err(_) => Poll::Pending,
        }
    }

    /// Takes the second connection and token out: nobody waits for them from here on.
    fn take(&mut self) -> Option<(Arc<Connection>, Token)> {
        match std::mem::replace(self, Hedging::Over) {
            Hedging::Sent(connection, token) => Some((connection, token)),
            Hedging::Waits(_) | Hedging::Over => None,
        }
    }

    /// Gives the second one up: its answer is read and dropped.
    pub(crate) fn end(&mut self) {
        if let Some((connection, token)) = self.take() {
            connection.with(|core, now| core.drop_reply(now, token));
        }
    }
}

/// The resolution of the runtime's timer.
const PAUSE_MIN: Duration = Duration::from_millis(1);
