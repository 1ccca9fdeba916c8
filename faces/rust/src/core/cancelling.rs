//! Cancels of what runs on a connection.

use std::sync::Arc;

use bytes::BytesMut;
use onetrip_engine::{CancelEnd, Time, Token, Wanted};
use onetrip_postgres::client::pipeline::Member;
use tokio::sync::SemaphorePermit;

use super::{Connection, Core};
use crate::cancel::deliver;
use crate::cancelled::{Answer, Cancelled};
use crate::lead::Note;
use crate::open::open;
use crate::socket::Stream;

/// Sends a cancel for what this connection runs, in the background.
pub(crate) fn start(connection: &Arc<Connection>) {
    let attempt = Attempt { connection: connection.clone(), end: Some(CancelEnd::NotSent) };
    tokio::spawn(attempt.run());
}

/// One cancel. However it ends, the engine is told, since it holds requests back meanwhile.
struct Attempt {
    connection: Arc<Connection>,
    /// How it ended; `None` if there is nothing to report.
    end: Option<CancelEnd>,
}

impl Attempt {
    async fn run(mut self) {
        let connection = self.connection.clone();
        let timeout = connection.context.cancels.timeout;
        let Ok(Some((mut stream, _permit))) =
            tokio::time::timeout(timeout, prepare(&connection)).await
        else {
            return;
        };
        let Some(request) = connection.with(Core::begin_cancel) else {
            self.end = None;
            return;
        };
        self.end = Some(CancelEnd::Lost);
        let delivered = tokio::time::timeout(timeout, deliver(&mut stream, &request)).await;
        if delivered.is_ok_and(|delivered| delivered.is_ok()) {
            self.end = Some(CancelEnd::Closed);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(end) = self.end {
            self.connection.with(|core, now| {
                core.engine.handle_cancel_end(now, end);
                // Requests that were held back may leave.
                core.notify();
            });
        }
    }
}

/// Opens the connection for the cancel. Nothing is held back until that is open, so a server that
/// can't be reached harms nobody.
async fn prepare(connection: &Connection) -> Option<(Stream, SemaphorePermit<'_>)> {
    let cancels = &connection.context.cancels;
    let permit = cancels.permits.acquire().await.ok()?;
    let route = connection.lock().route.clone();
    let stream = open(&cancels.settings, &route).await.ok()?;
    Some((stream, permit))
}

impl Core {
    /// The engine wants a cancel to be sent.
    pub(crate) fn cancel_is_due(&mut self, now: Time) {
        if self.cancels_on && self.key.request().is_some() {
            self.cancel_due = true;
            self.notify();
        } else {
            self.engine.handle_cancel_end(now, CancelEnd::NotSent);
            self.notify();
        }
    }

    /// The cancel can be sent now. Returns its bytes, if it is still wanted.
    fn begin_cancel(&mut self, now: Time) -> Option<BytesMut> {
        let request = self.key.request()?;
        let begun = self.engine.begin_cancel(now);
        self.notify();
        begun.then_some(request)
    }

    /// Cancels a request, whether or not it was sent.
    pub(crate) fn cancel_reply(&mut self, now: Time, token: Token, answer: &Arc<Answer>) {
        if !self.replies.is_open(token) {
            return drop(answer.give(Cancelled::TooLate));
        }
        let entry = self.replies.entry(token);
        let (ticket, member) = entry.map_or((None, None), |entry| (entry.ticket, entry.member));
        if let Some(ticket) = ticket
            && self.engine.cancel(now, ticket)
        {
            return drop(answer.give(Cancelled::Yes));
        }
        let wanted = match member {
            Some(_) => Wanted::NotPossible,
            None => self.engine.want_cancel(now, token),
        };
        self.answer(wanted, answer);
    }

    /// Cancels what the server runs, or runs next, on a connection that belongs to one caller. What
    /// this client sent for itself is not cancelled: the reset of a session, and a BEGIN.
    pub(crate) fn cancel_running(&mut self, now: Time, owner_epoch: u32, answer: &Arc<Answer>) {
        if self.replies.owner_epoch() != owner_epoch {
            return drop(answer.give(Cancelled::TooLate));
        }
        let Core { engine, replies, .. } = self;
        let wanted = engine.want_cancel_first(now, |token| {
            // A shared statement that came in between may be in front.
            replies.entry(token).is_none_or(|entry| {
                entry.is_of(owner_epoch) && !entry.note.as_ref().is_some_and(Note::begins)
            })
        });
        self.answer(wanted, answer);
    }

    pub(crate) fn answer(&mut self, wanted: Wanted, answer: &Arc<Answer>) {
        let cancelled = match wanted {
            Wanted::Noted(token) => return self.replies.tell(token, answer),
            Wanted::TakenBack => Cancelled::Yes,
            Wanted::NotPossible => Cancelled::NotPossible,
            Wanted::Unknown => Cancelled::TooLate,
        };
        drop(answer.give(cancelled));
    }

    /// Nobody waits for this request any more, and it can't be taken back.
    pub(crate) fn cancel_dropped(&mut self, now: Time, token: Token, member: Option<Member>) {
        let ends = self.replies.entry(token).is_some_and(|entry| entry.ends);
        if self.cancels_dropped && member.is_none() && !ends && self.replies.is_open(token) {
            self.engine.want_cancel(now, token);
            self.engine.handle_given_up(now);
        }
    }
}
