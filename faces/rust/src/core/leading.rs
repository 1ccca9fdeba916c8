//! Submits the lead of a transaction in front of its statements.

use std::sync::Arc;

use onetrip_engine::{Request, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::client::transaction::block::Part;
use onetrip_postgres::client::transaction::front::{Front, Role};

use super::Core;
use crate::Error;
use crate::lead::{Lead, Note};
use crate::params;

impl Lead {
    /// Submits a request, with its lead in front.
    pub(crate) fn submit(
        self: &Arc<Lead>,
        core: &mut Core,
        now: Time,
        request: Request<Expect>,
        bytes: &[u8],
        part: Part,
        refuse: bool,
    ) -> Result<(), Error> {
        let front = self.block().front(self.level, part, false)?;
        if part == Part::Statement
            && let Some(entry) = core.replies.entry(request.token)
        {
            entry.note = Some(Note::within(self.clone()));
        }
        if front.pieces.is_empty() {
            return core.submit_one(now, request, bytes, refuse);
        }
        self.submit_front(core, now, front, Token::DISCARD, Some((request, bytes, refuse)))
    }

    /// Submits the lead of the next statement by itself.
    pub(crate) fn submit_alone(self: &Arc<Lead>, core: &mut Core, now: Time) -> Result<(), Error> {
        let Some(front) = self.block().front_alone(self.level)? else { return Ok(()) };
        let token = core.replies.add();
        let submitted = self.submit_front(core, now, front, token, None);
        match submitted {
            Ok(()) => drop(core.replies.abandon(token)),
            Err(_) => core.replies.remove(token),
        }
        submitted
    }

    /// Undoes everything since the savepoint, and releases it. `token` names the reply to that.
    pub(crate) fn submit_undo(
        self: &Arc<Lead>,
        core: &mut Core,
        now: Time,
        token: Token,
    ) -> Result<(), Error> {
        let front = self.block().undo(self.level).map_err(params::unencodable)?;
        self.submit_front(core, now, front, token, None)
    }

    /// Submits a lead, and the request behind it if there is one. `caller` names the reply that
    /// somebody waits for in the lead itself.
    fn submit_front(
        self: &Arc<Lead>,
        core: &mut Core,
        now: Time,
        mut front: Front,
        caller: Token,
        behind: Option<(Request<Expect>, &[u8], bool)>,
    ) -> Result<(), Error> {
        let mut noted = Vec::new();
        let mut requests = Vec::with_capacity(front.pieces.len() + 1);
        for piece in &front.pieces {
            let token = match piece.role {
                Role::Nobody => Token::DISCARD,
                Role::Caller => caller,
                Role::Begins(_) | Role::Within(_) => {
                    let token = core.replies.add();
                    if let Some(entry) = core.replies.entry(token) {
                        entry.note = Some(Note { lead: self.clone(), role: piece.role });
                    }
                    noted.push(token);
                    token
                }
            };
            requests.push((piece.request(token), piece.len));
        }
        let mut refuses = false;
        if let Some((request, bytes, refuse)) = behind {
            refuses = refuse;
            requests.push((request, bytes.len()));
            front.bytes.extend_from_slice(bytes);
        }
        let submitted = core.submit(now, requests, &front.bytes, refuses);
        if submitted.is_ok() {
            // Only the transaction's state needs these answers.
            for token in noted {
                core.replies.abandon(token);
            }
        } else {
            for token in noted {
                core.replies.remove(token);
            }
            self.block().not_sent(&front);
        }
        submitted
    }
}
