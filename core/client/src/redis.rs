//! A connection to Redis: its login, and the commands in flight on it.
//!
//! The host writes commands in wire format and reads replies in wire format. This module matches
//! replies to requests, finds where a reply ends, limits what is in flight, and reports what is
//! known of commands that were not answered.

use bytes::{Bytes, BytesMut};
use onetrip_engine::pool::Load;
use onetrip_engine::{
    Cause, CloseReason, Connection, End, Output, Pace, Request, Ticket, Time, Token, memory,
};
use onetrip_redis::client::scripts::Scripts;
use onetrip_redis::client::sentinel::lost_its_role;
use onetrip_redis::{Event as Told, Reply};

use crate::completion::{Completions, close, close_code, end_code, event, kind};
use crate::postgres::submitting::enter;
use crate::postgres::{Refused, TOKEN_MAX};
use crate::protocol::{Event, Protocol};

mod login;
pub(crate) mod look;
mod packed;
mod settings;
mod submission;

use login::{Login, Progress};
pub use look::{Traits, traits};
pub use packed::Packed;
use settings::Settings;
pub use submission::{Submission, flag};

/// One connection, from its first byte to its last.
#[derive(Debug)]
pub(crate) struct Redis {
    /// Until the last reply of the login has arrived.
    login: Option<Box<Login>>,
    engine: Connection<Protocol>,
    /// The requests that have not ended, by token.
    live: Vec<Live>,
    scripts: Scripts,
    /// The last time that a request came to an idle connection, or that the peer sent bytes.
    since: Time,
    /// The time of the last call that told it.
    clock: Time,
    pace: Pace,
    /// No more requests are taken, and the connection closes when all are answered. Redis needs no
    /// goodbye.
    terminating: bool,
    closed: bool,
    /// Whether the server must have a role.
    is_seated: bool,
}

/// What a token stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Live {
    No,
    Command,
    Script,
}

impl Redis {
    pub(crate) fn new(now: Time, settings: &[u8], to: &mut Completions) -> Redis {
        let (settings, invalid) = match Settings::read(settings) {
            Ok(settings) => (settings, None),
            Err(invalid) => (Settings::default(), Some(invalid)),
        };
        let mut connection = Redis {
            login: None,
            engine: Connection::new(
                now,
                Protocol::Redis(Box::new(settings.protocol())),
                settings.limits.clone(),
            ),
            live: Vec::new(),
            scripts: Scripts::default(),
            since: now,
            clock: now,
            pace: Pace::default(),
            terminating: false,
            closed: false,
            is_seated: settings.role.is_some(),
        };
        match invalid {
            None => connection.login = Some(Box::new(Login::new(settings))),
            Some(invalid) => connection.end((close::LOGIN, true), Bytes::from(invalid), to),
        }
        connection
    }

    /// Ends the connection for a reason that the engine does not know: (reason, whether no retry
    /// can help).
    pub(crate) fn end(
        &mut self,
        (reason, is_final): (u32, bool),
        block: Bytes,
        to: &mut Completions,
    ) {
        if !std::mem::replace(&mut self.closed, true) {
            to.push(kind::CLOSED, 0, (reason, is_final.into()), block);
        }
        self.login = None;
        self.engine.handle_closed();
        self.settle(to);
    }

    // --- bytes ---

    pub(crate) fn receive(&mut self, now: Time, input: &mut BytesMut, to: &mut Completions) {
        if let Some(login) = &mut self.login {
            match login.receive(input) {
                Progress::More => return,
                Progress::Failed { reason, is_final, block } => {
                    return self.end((reason, is_final), block, to);
                }
                Progress::Ready { protocol, tracks, fields } => {
                    self.login = None;
                    to.push(kind::READY, 0, (protocol, tracks.into()), fields);
                }
            }
        }
        (self.since, self.clock) = (now, now);
        self.pace.replied(now);
        self.engine.handle_bytes(now, input);
        self.settle(to);
    }

    /// The bytes to send now. During the login these are its own bytes, even if commands wait behind
    /// it.
    pub(crate) fn transmit(&self) -> &[u8] {
        match &self.login {
            Some(login) => login.transmit(),
            None if self.holds() => &[],
            None => self.engine.transmit(),
        }
    }

    /// Whether what is unsent may wait for the next reply.
    fn holds(&self) -> bool {
        self.pace.holds(self.clock, &self.engine)
    }

    pub(crate) fn written(&mut self, now: Time, bytes: usize, to: &mut Completions) {
        match &mut self.login {
            Some(login) => login.written(bytes),
            None => {
                self.pace.written();
                self.engine.handle_written(now, bytes.min(self.engine.transmit().len()));
                if !self.engine.transmit().is_empty() {
                    self.pace.interrupted();
                }
                self.settle(to);
            }
        }
    }

    pub(crate) fn time(&mut self, now: Time, to: &mut Completions) {
        if self.holds() {
            self.engine.handle_held(now);
        }
        self.clock = now;
        self.engine.handle_time(now);
        self.settle(to);
    }

    pub(crate) fn deadline(&self) -> Time {
        let held = if self.holds() { self.pace.deadline() } else { Time::NEVER };
        self.engine.poll_deadline().unwrap_or(Time::NEVER).min(held)
    }

    pub(crate) fn peer_closed(&mut self, to: &mut Completions) {
        match &self.login {
            Some(login) => {
                let (reason, is_final, block) = login.closed();
                self.end((reason, is_final), block, to);
            }
            None => {
                self.engine.handle_closed();
                self.settle(to);
            }
        }
    }

    pub(crate) fn terminate(&mut self, now: Time, to: &mut Completions) {
        self.since = now;
        self.terminating = true;
        self.settle(to);
    }

    // --- commands ---

    /// Takes commands that share a request. The replies come under its token.
    pub(crate) fn submit(
        &mut self,
        now: Time,
        token: u32,
        submission: &Submission<'_>,
        deadline: Time,
        to: &mut Completions,
    ) -> Result<Ticket, Refused> {
        let index = token as usize;
        if token == 0
            || token > TOKEN_MAX
            || self.live.get(index).is_some_and(|live| *live != Live::No)
        {
            return Err(Refused::Malformed);
        }
        if self.terminating {
            return Err(Refused::Closed);
        }
        if self.live.len() <= index && !memory::is_there(2 * index) {
            return Err(Refused::NoMemory);
        }
        let script = submission.script();
        let is_known = script.is_some_and(|sha| self.scripts.has(sha));
        let expect = submission.expect(is_known).ok_or(Refused::NoMemory)?;
        self.clock = now;
        self.pace.submitted(now);
        if self.engine.in_flight() + self.engine.queued() == 0 {
            self.since = now;
        }
        let request = Request {
            deadline,
            again: is_known,
            in_order: true,
            ..Request::isolated(Token(token.into()), expect.into())
        };
        let len = submission.len();
        let submitted = enter(&mut self.engine, now, request, len, &mut |out| {
            submission.write(is_known, out);
            Ok(())
        });
        if submitted.is_ok() {
            if self.live.len() <= index {
                self.live.resize(index + 1, Live::No);
            }
            self.live[index] = if script.is_some() { Live::Script } else { Live::Command };
            script.into_iter().for_each(|sha| self.scripts.sent(sha));
        }
        self.settle(to);
        submitted.map_err(Refused::from)
    }

    /// Sends scripts as texts from now on, because the caller says MULTI.
    pub(crate) fn send_scripts_as_texts(&mut self) {
        self.scripts.go_as_texts();
    }

    pub(crate) fn cancel(&mut self, now: Time, ticket: Ticket, to: &mut Completions) -> bool {
        let taken_back = self.engine.cancel(now, ticket);
        self.settle(to);
        taken_back
    }

    // --- what happened ---

    fn settle(&mut self, to: &mut Completions) {
        loop {
            while let Some(output) = self.engine.poll_output() {
                self.take(output, to);
            }
            if !self.terminating || self.engine.is_closed() || !self.engine.is_idle() {
                return;
            }
            self.engine.handle_closed();
        }
    }

    fn take(&mut self, output: Output<Event>, to: &mut Completions) {
        match output {
            Output::Data { token, block } | Output::Piece { token, block, .. } => {
                to.push(kind::DATA, token.0 as u32, (0, 0), block);
            }
            Output::Ended { token, block, end, .. } => {
                if let Some(live) = self.live.get_mut(token.0 as usize)
                    && std::mem::replace(live, Live::No) == Live::Script
                    && matches!(end, End::Failed(_))
                {
                    self.scripts.doubt();
                }
                if self.is_seated && says_role_is_lost(&end, &block) {
                    self.is_seated = false;
                    to.push(kind::ASTRAY, 0, (1, 0), block.clone());
                }
                to.push(kind::END, token.0 as u32, (0, end_code(end)), block);
            }
            Output::Restarted { token } => {
                to.push(kind::RESTARTED, token.0 as u32, (0, 0), Bytes::new());
            }
            Output::Event { event: Event::Redis(Told::Push), block } => {
                to.push(kind::EVENT, 0, (event::PUSH, 0), block);
            }
            Output::Event { .. } => {}
            Output::Full => to.push(kind::FULL, 0, (0, 0), Bytes::new()),
            Output::Drained => to.push(kind::DRAINED, 0, (0, 0), Bytes::new()),
            Output::Closed(reason) => self.note_closed(reason, to),
            // This host opens no groups, waits for no room, and cancels nothing at the server.
            Output::Granted { .. }
            | Output::Room { .. }
            | Output::Cancel
            | Output::NotCancelled { .. }
            | Output::Astray
            | Output::Leaving => {}
        }
    }

    fn note_closed(&mut self, reason: CloseReason, to: &mut Completions) {
        if !std::mem::replace(&mut self.closed, true) {
            let (reason, block) = close_code(reason);
            to.push(kind::CLOSED, 0, (reason, 0), block);
        }
    }

    pub(crate) fn load(&self) -> Load {
        let unanswered = self.engine.in_flight() + self.engine.queued();
        Load {
            unanswered,
            unanswered_bytes: self.engine.in_flight_bytes() + self.engine.queued_bytes(),
            since: self.since,
            room: self.engine.room(),
            ..Load::default()
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.engine.in_flight()
    }

    pub(crate) fn queued(&self) -> usize {
        self.engine.queued()
    }
}

/// Whether a server answers so that it is no master any more, or no replica with a master.
fn says_role_is_lost(end: &End, block: &[u8]) -> bool {
    let by_server = matches!(end, End::Failed(failure) if failure.cause == Cause::Server);
    by_server
        && matches!(Reply::read(block), Ok((Reply::Error(error), _))
            if std::str::from_utf8(error.code()).is_ok_and(lost_its_role))
}
