//! How connections end.

use onetrip_client::completion::{close, outcome};
use onetrip_client::postgres::Act;
use onetrip_engine::Time;
use onetrip_postgres::message::{ErrorResponse, error_response::field, may_mend};

use super::{State, Todo};
use crate::failure::{Failure, Loss};
use crate::link::messages;
use crate::opening::Refused;

impl State {
    /// Ends a connection, with what is on it.
    pub(crate) fn destroy(&mut self, now: Time, number: u32, why: &str) {
        if let Some(link) = self.links.get_mut(&number) {
            link.why = Loss::lost(why);
        }
        self.peer_closed(now, number);
    }

    /// The socket is closed, or of no use.
    pub(crate) fn peer_closed(&mut self, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        link.connection.borrow_mut().peer_closed();
        let is_login = !link.is_ready;
        if !is_login {
            self.gone(now, number);
        }
        // What was on it hears of that in front of anything else. An opening goes on elsewhere, with
        // another socket.
        self.walk(now, number);
        if !is_login || !self.openings.contains_key(&number) {
            self.links.remove(&number);
        }
    }

    /// The engine has ended a connection.
    pub(super) fn lost(
        &mut self,
        now: Time,
        number: u32,
        (reason, is_final): (u32, bool),
        block: &[u8],
    ) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let text = String::from_utf8_lossy(block).into_owned();
        let is_of_server = reason == close::SERVER && block.first() == Some(&b'E');
        match reason {
            close::HOST => {}
            _ if is_of_server => link.why = Loss::told(block),
            close::STALLED if block.is_empty() => {
                link.why = Loss::lost("the server took no bytes for too long")
            }
            _ => link.why = Loss::lost(&text),
        }
        if !link.is_ready {
            link.is_over = true;
            let refused = match is_of_server {
                true => of_server(block, is_final),
                false => Refused::of_login(text, is_final),
            };
            return self.refused(now, number, refused);
        }
        if reason == close::HOST {
            // All was answered, and its goodbye goes out first.
            link.is_leaving = true;
            self.soil(number);
        } else {
            self.gone(now, number);
            link_ends(self, number);
        }
    }

    /// A connection takes nothing more: the pool hears of it first, so that nothing that is sent
    /// again meets this one.
    fn gone(&mut self, now: Time, number: u32) {
        let Some(link) = self.links.get_mut(&number) else { return };
        if std::mem::replace(&mut link.is_over, true) {
            return;
        }
        let (why, session) = (link.why.clone(), link.session.clone());
        let is_pools = link.is_ready && !link.is_forgotten;
        if is_pools {
            self.pool.lost(now, number);
        }
        self.does(Todo::Pool);
        if let Some(session) = session {
            // The level that is asked about is the innermost one, until that is left.
            let levels = 0..=session.savepoints.get();
            let of_level = |_| {
                let has_left = self.asks(now, number, Act::HasLeft);
                self.asks(now, number, Act::Undo);
                has_left
            };
            session.has_left.replace(levels.map(of_level).collect());
            self.end_session(&session, &why.failure(outcome::NOT_SENT));
        }
        self.listener_lost(now, number);
    }
}

/// Its socket is of no use: it goes with the next look at it.
fn link_ends(state: &mut State, number: u32) {
    if let Some(link) = state.links.get_mut(&number) {
        link.is_leaving = true;
    }
    state.soil(number);
}

/// What the server has said at the login. `has_session`: it had taken that before.
fn of_server(block: &[u8], has_session: bool) -> Refused {
    let failure = Failure::of_server("", block, outcome::NOT_SENT);
    let body = messages(block).next().map(|(_, body)| body);
    let fields = body.and_then(|body| ErrorResponse::decode(body).ok()).map(|it| it.fields);
    let message = fields.and_then(|it| it.value(field::MESSAGE)).unwrap_or_default();
    let is_final = !may_mend(failure.code.as_bytes(), message);
    Refused::by_server(failure, is_final, has_session)
}
