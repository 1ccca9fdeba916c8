//! One connection, and who waits for replies on it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use onetrip_client::postgres::{Holder, Submission, Types};
use onetrip_client::{Connection, completion::outcome, flag};
use onetrip_engine::Ticket;
use onetrip_engine::Time;
use onetrip_engine::pool::TextKey;
use onetrip_postgres::client::identity::Identity;
use onetrip_postgres::client::said;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{Format, RowDescription};

use crate::call::{Call, Request, Stage, Want};
use crate::failure::{Failure, Loss};
use crate::session::Session;
use crate::wire::{Place, Wire};

/// The part of a call that stands for its end.
pub(crate) const WHOLE: usize = usize::MAX;

/// One connection.
pub(crate) struct Link {
    pub(crate) connection: Rc<RefCell<Connection>>,
    pub(crate) wire: Wire,
    pub(crate) place: Place,
    pub(crate) identity: Option<Identity>,
    /// Who waits, by token: the call, and the part of it. There is no token 0.
    calls: Vec<Option<(Rc<Call>, usize)>>,
    free: Vec<u32>,
    /// Requests that have not ended.
    pub(crate) pending: usize,
    /// The bodies of RowDescriptions, by the engine's number of the statement. The server refuses a
    /// plan that returns other columns than that says.
    columns: BTreeMap<u32, Bytes>,
    pub(crate) is_dirty: bool,
    /// It is logged in.
    pub(crate) is_ready: bool,
    /// It takes nothing more.
    pub(crate) is_over: bool,
    /// The pool no longer knows it, or never has.
    pub(crate) is_forgotten: bool,
    /// It said goodbye, and goes once that is written.
    pub(crate) is_leaving: bool,
    /// One caller has it alone.
    pub(crate) session: Option<Rc<Session>>,
    /// Why requests end with it.
    pub(crate) why: Loss,
}

impl Link {
    pub(crate) fn new(connection: Connection, wire: Wire, place: Place) -> Link {
        Link {
            connection: Rc::new(RefCell::new(connection)),
            wire,
            place,
            identity: None,
            calls: vec![None],
            free: Vec::new(),
            pending: 0,
            columns: BTreeMap::new(),
            is_dirty: false,
            is_ready: false,
            is_over: false,
            is_forgotten: false,
            is_leaving: false,
            session: None,
            why: Loss::lost("the server closed it"),
        }
    }

    // --- tokens ---

    pub(crate) fn token(&mut self, call: &Rc<Call>, part: usize) -> u32 {
        self.pending += 1;
        let of = Some((call.clone(), part));
        match self.free.pop() {
            Some(token) => {
                self.calls[token as usize] = of;
                token
            }
            None => {
                self.calls.push(of);
                self.calls.len() as u32 - 1
            }
        }
    }

    pub(crate) fn take(&mut self, token: u32) -> Option<(Rc<Call>, usize)> {
        let of = self.calls.get_mut(token as usize)?.take()?;
        self.pending -= 1;
        self.free.push(token);
        Some(of)
    }

    pub(crate) fn call(&self, token: u32) -> Option<(Rc<Call>, usize)> {
        self.calls.get(token as usize)?.clone()
    }

    // --- requests ---

    /// Hands a call to the engine. What it returns is why that was not to be.
    pub(crate) fn submit(&mut self, now: Time, number: u32, call: &Rc<Call>) -> Option<Failure> {
        let result = match &call.want {
            Want::Segment | Want::Batch => self.submit_segment(now, number, call),
            Want::Commands(_) => return self.submit_commands(now, number, call),
            Want::List(packed, _) | Want::Subscribe(packed) => {
                self.one(number, call, |connection, token| {
                    connection.submit_commands(now, token, packed, Time::NEVER)
                })
            }
            _ => {
                let request = call.now().requests.pop();
                let flags = call.flags;
                let sent = match &request {
                    None => Err(Failure::unsent("unencodable", "it has no text")),
                    Some(request) => self.one(number, call, |connection, token| {
                        send(connection, now, (token, call.key), flags, request)
                    }),
                };
                // It may be sent again: there may be room later, or it may run twice.
                if sent.is_err() || call.is_repeatable() || goes_on(call) {
                    call.now().requests.extend(request);
                }
                sent
            }
        };
        result.err()
    }

    fn one(
        &mut self,
        number: u32,
        call: &Rc<Call>,
        send: impl FnOnce(&mut Connection, u32) -> Result<Ticket, onetrip_client::postgres::Refused>,
    ) -> Result<(), Failure> {
        let token = self.token(call, 0);
        let sent = send(&mut self.connection.borrow_mut(), token);
        match sent {
            Ok(ticket) => {
                call.now().stage = Stage::Sent(number, token, ticket);
                Ok(())
            }
            Err(refused) => {
                self.take(token);
                Err(Failure::refused(refused, &self.why))
            }
        }
    }

    /// Statements that share a sync point.
    fn submit_segment(&mut self, now: Time, number: u32, call: &Rc<Call>) -> Result<(), Failure> {
        let requests = std::mem::take(&mut call.now().requests);
        let queue_max = self.connection.borrow_mut().queue_max();
        if requests.len() >= queue_max {
            let message = format!("a pipeline has less than {queue_max} statements (queue_max)");
            return Err(Failure::unsent("pipeline_too_long", message));
        }
        let flags = call.flags | flag::MEMBER;
        for (part, request) in requests.iter().enumerate() {
            let token = self.token(call, part);
            let key = request.statement.key;
            let mut connection = self.connection.borrow_mut();
            let Err(refused) = send(&mut connection, now, (token, key), flags, request) else {
                continue;
            };
            drop(connection);
            self.take(token);
            let failure = Failure::refused(refused, &self.why);
            if part == 0 || self.is_over {
                // It may be sent again as it is, once there is room.
                call.now().requests = requests;
                return Err(failure);
            }
            // The first one is in, so what is refused can't be encoded.
            self.connection.borrow_mut().fail_segment(now);
            call.now().parts[part].failure = Some(failure);
            break;
        }
        let token = self.token(call, WHOLE);
        let sent = self.connection.borrow_mut().sync(now, token);
        match sent {
            Ok(ticket) => {
                call.now().stage = Stage::Sent(number, token, ticket);
                Ok(())
            }
            Err(refused) => {
                self.take(token);
                Err(Failure::refused(refused, &self.why))
            }
        }
    }

    /// Commands, each of which ends by itself.
    fn submit_commands(&mut self, now: Time, number: u32, call: &Rc<Call>) -> Option<Failure> {
        let Want::Commands(commands) = &call.want else { return None };
        // Either all of them find room, or none is sent.
        if commands.len() > self.connection.borrow().load().room {
            return Some(match self.pending {
                0 => Failure::unsent(
                    "pipeline_too_long",
                    "a pipeline has no more commands than in_flight_max and queue_max together",
                ),
                _ => Failure::told(said::QUEUE_FULL, outcome::NOT_SENT),
            });
        }
        call.now().open = commands.len();
        for (part, packed) in commands.iter().enumerate() {
            let token = self.token(call, part);
            let mut connection = self.connection.borrow_mut();
            let sent = connection.submit_commands(now, token, packed, Time::NEVER);
            drop(connection);
            match sent {
                Ok(ticket) => call.now().stage = Stage::Sent(number, token, ticket),
                Err(refused) => {
                    self.take(token);
                    let failure = Failure::refused(refused, &self.why);
                    if part == 0 {
                        return Some(failure);
                    }
                    // Those in front are on their way: of the rest nothing was sent.
                    let mut it = call.now();
                    it.open = part;
                    it.parts[part..].iter_mut().for_each(|it| it.failure = Some(failure.clone()));
                    return None;
                }
            }
        }
        None
    }

    /// The caller of what ends by this token has gone. Whether nothing of it was sent.
    pub(crate) fn give_up(&mut self, now: Time, token: u32, ticket: Ticket) -> bool {
        let mut connection = self.connection.borrow_mut();
        let is_unsent = connection.cancel(now, ticket);
        if !is_unsent {
            connection.want_cancel(now, &[token]);
        }
        is_unsent
    }

    // --- replies ---

    /// Keeps a part of a reply, but no more than so many bytes of one.
    pub(crate) fn keep(
        &mut self,
        (call, part): &(Rc<Call>, usize),
        statement: u32,
        block: Bytes,
        bytes_max: usize,
    ) {
        let mut now = call.now();
        now.bytes += block.len();
        let is_too_large = now.bytes > bytes_max && !call.flows();
        let Some(of) = now.parts.get_mut(*part) else { return };
        if is_too_large {
            const WHY: &str = "the result is larger than result_bytes_max";
            of.failure = Some(Failure::said("result_too_large", outcome::APPLIED, WHY));
            of.blocks.clear();
            return;
        }
        let is_of_rows = call.flags & flag::SIMPLE == 0 && !is_of_redis(call);
        if is_of_rows && (of.columns.is_none() || !self.columns.contains_key(&statement)) {
            match front(&block) {
                Front::Columns(described) => {
                    if statement != 0 {
                        self.columns.insert(statement, described.clone());
                    }
                    of.columns = Some(described);
                }
                Front::Rows if of.columns.is_none() => {
                    of.columns = self.columns.get(&statement).cloned();
                }
                _ => {}
            }
        }
        of.blocks.push(block);
    }

    /// No reply names this statement any more.
    pub(crate) fn forget(&mut self, statement: u32) {
        self.columns.remove(&statement);
    }

    // --- whose it is ---

    pub(crate) fn lend(&mut self, session: &Rc<Session>) {
        self.session = Some(session.clone());
        self.connection.borrow_mut().hold(Holder::One);
    }

    /// It is everybody's, again. Whether its session is to be reset first.
    pub(crate) fn share(&mut self) -> bool {
        self.session = None;
        let mut connection = self.connection.borrow_mut();
        let owes = connection.hold(Holder::Nobody);
        connection.hold(Holder::All);
        owes
    }
}

/// Whether it may get in line again where its connection ends before any byte of it was sent.
fn goes_on(call: &Call) -> bool {
    matches!(call.want, Want::Rows)
}

fn is_of_redis(call: &Call) -> bool {
    matches!(call.want, Want::Commands(_) | Want::List(..) | Want::Subscribe(_))
}

fn send(
    connection: &mut Connection,
    now: Time,
    of: (u32, TextKey),
    flags: u32,
    request: &Request,
) -> Result<Ticket, onetrip_client::postgres::Refused> {
    let (id, oids) = &request.types;
    let types = Types { id: *id, oids, are_learned: false };
    let submission = Submission {
        flags,
        text: &request.statement.text,
        types,
        parameters: &request.first,
        more: &request.more,
        ..Submission::default()
    };
    connection.submit(now, of, submission, Time::NEVER)
}

/// A message of a reply: its tag, and its body.
pub(crate) fn messages(mut rest: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (head, behind) = rest.split_first_chunk::<5>()?;
        let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let (body, behind) = behind.split_at_checked((len as usize).checked_sub(4)?)?;
        rest = behind;
        Some((head[0], body))
    })
}

/// What a block says of columns.
enum Front {
    Columns(Bytes),
    /// Nothing, and rows have begun, or the reply is over.
    Rows,
    Nothing,
}

fn front(block: &Bytes) -> Front {
    for (tag, body) in messages(block) {
        match tag {
            backend::ROW_DESCRIPTION => return Front::Columns(block.slice_ref(body)),
            backend::DATA_ROW | backend::COMMAND_COMPLETE => return Front::Rows,
            _ => {}
        }
    }
    Front::Nothing
}

/// Whether all columns come as texts, which is how they are asked for.
pub(crate) fn are_texts(columns: &[u8]) -> bool {
    RowDescription::decode(columns)
        .is_ok_and(|it| { it.fields }.all(|field| field.format == Format::Text))
}
