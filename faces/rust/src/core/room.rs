//! Pinned requests that wait for room in the queue of a connection.

use bytes::Bytes;
use onetrip_engine::{Outcome, Request, Time, Token};
use onetrip_postgres::Expect;

use super::Core;
use crate::replies::AwaitingRoom;
use crate::{Error, Kind};

impl Core {
    /// Lets requests wait for room that can't be taken back. Returns false if the line is full.
    pub(crate) fn await_room_pinned(
        &mut self,
        requests: Vec<(Request<Expect>, usize)>,
        bytes: Bytes,
    ) -> bool {
        let deadline = requests.last().map_or(Time::NEVER, |(last, _)| last.deadline);
        let place = self.replies.add();
        if self.engine.wait(place, Time::NEVER).is_none() {
            self.replies.remove(place);
            return false;
        }
        self.replies.await_room(place, AwaitingRoom { requests, bytes, has_place: true });
        if deadline != Time::NEVER {
            self.room_waiters.deadlines.insert((deadline, place.0));
        }
        true
    }

    /// Reports the timeout to callers whose deadline has passed.
    pub(crate) fn expire_room_waiters(&mut self, now: Time) {
        while let Some((deadline, place)) = self.room_waiters.deadlines.first().copied()
            && deadline <= now
        {
            self.room_waiters.deadlines.pop_first();
            let Some(request) = self.replies.awaiting_last(Token(place)) else { continue };
            request.deadline = Time::NEVER;
            let token = std::mem::replace(&mut request.token, Token::DISCARD);
            let waker = self.replies.fail(token, late());
            self.wakers.extend(waker);
        }
    }

    /// A place in line ended with its connection, before its turn. Returns whether it was a pinned
    /// one.
    pub(crate) fn left_room_waiters(&mut self, place: Token, error: &Error) -> bool {
        if self.replies.awaiting_last(place).is_none() {
            return false;
        }
        let awaiting = self.replies.take_awaiting(place);
        self.replies.remove(place);
        for (request, _) in awaiting.into_iter().flat_map(|awaiting| awaiting.requests) {
            let waker = self.replies.fail(request.token, error.clone());
            self.wakers.extend(waker);
        }
        true
    }
}

fn late() -> Error {
    let message = "the deadline passed before the server answered; the statement may have run";
    Error::new(Kind::Timeout, Outcome::Unknown, "timeout", message)
}
