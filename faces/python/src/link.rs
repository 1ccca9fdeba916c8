//! One connection, and who waits for replies on it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use onetrip_client::completion::{Record, outcome};
use onetrip_client::postgres::{Act, Holder, Portal as Opened, Submission, Types as Typed};
use onetrip_client::{Connection, flag};
use onetrip_engine::pool::TextKey;
use onetrip_engine::{Ticket, Time};
use onetrip_postgres::client::migrated;
use onetrip_postgres::client::types::catalog;
use onetrip_postgres::message::Format;
use onetrip_postgres::sql::Refusal;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::{Call, Encoded, Portal, Stage, Want};
use crate::deed::Deed;
use crate::failure::{Failure, Loss};
use crate::messages::{Front, front};

/// One connection.
pub(crate) struct Link {
    pub(crate) connection: Rc<RefCell<Connection>>,
    /// The method `write` of its transport.
    write: Py<PyAny>,
    /// Who waits, by token. There is no token 0.
    calls: Vec<Option<Py<Call>>>,
    free: Vec<u32>,
    /// Tokens of requests of whose end their callers hear with that of their pipeline.
    pub(crate) parts: BTreeSet<u32>,
    /// Requests that have not ended.
    pub(crate) pending: usize,
    /// The bodies of RowDescriptions, by the engine's number of the statement. Each Parse of it
    /// brings another, and the server refuses a plan that returns other columns than that says.
    pub(crate) columns: BTreeMap<u32, Bytes>,
    /// Calls that wait until the server has described the first of them.
    pub(crate) line: VecDeque<Py<Call>>,
    pub(crate) is_asking: bool,
    /// What was given up in this turn.
    given_up: Vec<(u32, Py<Call>)>,
    pub(crate) is_dirty: bool,
    /// The transport takes no more at present.
    pub(crate) is_paused: bool,
    /// It is logged in.
    pub(crate) is_ready: bool,
    /// It takes nothing more.
    pub(crate) is_over: bool,
    /// The pool no longer knows it.
    pub(crate) is_forgotten: bool,
    /// One caller has it alone.
    pub(crate) is_lent: bool,
    /// Its caller has gone: it goes back when all is answered.
    pub(crate) is_left: bool,
    /// A stream or a COPY has it, beside which nothing runs: what all else is told.
    pub(crate) claimed: Option<Refusal>,
    /// Its session was changed for good: nobody else may have it.
    pub(crate) is_spoiled: bool,
    /// What the engine says of it is told at present; and it says more.
    pub(crate) is_walked: bool,
    pub(crate) has_more: bool,
    /// Its socket is closed, and it goes once all of that is told.
    pub(crate) is_gone: bool,
    /// Why requests end with it.
    pub(crate) why: Loss,
    /// To be used again.
    pub(crate) records: Vec<Record>,
}

impl Link {
    pub(crate) fn new(connection: Connection, write: Py<PyAny>) -> Link {
        Link {
            connection: Rc::new(RefCell::new(connection)),
            write,
            calls: vec![None],
            free: Vec::new(),
            parts: BTreeSet::new(),
            pending: 0,
            columns: BTreeMap::new(),
            line: VecDeque::new(),
            is_asking: false,
            given_up: Vec::new(),
            is_dirty: false,
            is_paused: false,
            is_ready: false,
            is_over: false,
            is_forgotten: false,
            is_lent: false,
            is_left: false,
            claimed: None,
            is_spoiled: false,
            is_walked: false,
            has_more: false,
            is_gone: false,
            why: Loss::lost("the server closed it"),
            records: Vec::new(),
        }
    }

    // --- tokens ---

    pub(crate) fn token(&mut self, call: &Bound<'_, Call>) -> u32 {
        self.pending += 1;
        let call = Some(call.clone().unbind());
        match self.free.pop() {
            Some(token) => {
                self.calls[token as usize] = call;
                token
            }
            None => {
                self.calls.push(call);
                self.calls.len() as u32 - 1
            }
        }
    }

    pub(crate) fn take(&mut self, token: u32) -> Option<Py<Call>> {
        let call = self.calls.get_mut(token as usize)?.take()?;
        self.pending -= 1;
        self.free.push(token);
        Some(call)
    }

    /// Whether such a call is unanswered here, or waits in front of that.
    pub(crate) fn has(&self, is_such: impl Fn(&Py<Call>) -> bool) -> bool {
        self.calls.iter().flatten().chain(&self.line).any(is_such)
    }

    /// The client's own question that was sent here, and where it is.
    pub(crate) fn question(&self, py: Python<'_>) -> Option<(Stage, Py<Call>)> {
        let own = self.calls.iter().flatten().find(|call| call.get().is_own())?;
        let stage = own.get().now.with(|it| it.stage).ok()?;
        Some((stage, own.clone_ref(py)))
    }

    pub(crate) fn call(&self, token: u32) -> Option<Py<Call>> {
        let call = self.calls.get(token as usize)?.as_ref()?;
        Some(Python::attach(|py| call.clone_ref(py)))
    }

    /// Whether nothing was submitted behind what was answered last, outside of a transaction.
    pub(crate) fn is_clear(&self) -> bool {
        let is_idle = || self.connection.borrow().status() == b'I';
        let is_last = self.pending == 0 && self.line.is_empty() && !self.is_left;
        !self.is_lent || is_last && !self.is_asking && is_idle()
    }

    /// The same of what is about to be sent.
    fn stands_alone(&self) -> bool {
        !self.is_lent || self.pending == 1 && self.connection.borrow().status() == b'I'
    }

    // --- requests ---

    /// Hands a call to the engine. What it returns is why that was not to be.
    pub(crate) fn submit(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        call: &Bound<'_, Call>,
    ) -> Option<Failure> {
        // Otherwise this would stand behind what is to be stopped.
        self.stop_those(now);
        let it = call.get();
        // That of a read is kept, since it may go elsewhere.
        let request = it.now.with(|now| match now.reading {
            None => now.requests.pop(),
            Some(_) => now.requests.last().map(|(_, described, bytes, _)| {
                (None, described.clone(), bytes.clone(), Vec::new())
            }),
        });
        let request = request.ok().flatten();
        let token = self.token(call);
        let sent = self.send(py, now, token, it, (it.flags, true), request.as_ref());
        match sent {
            Ok(ticket) => {
                let _ = it.now.with(|it| {
                    it.stage = Stage::Sent(number, token, ticket);
                    it.described = request.map(|(_, described, ..)| described);
                });
                None
            }
            Err(failure) => {
                self.take(token);
                // It may be sent again as it is, once there is room.
                let _ = it.now.with(|now| {
                    if now.reading.is_none() {
                        now.requests.extend(request);
                    }
                });
                Some(failure)
            }
        }
    }

    fn send(
        &mut self,
        py: Python<'_>,
        now: Time,
        token: u32,
        call: &Call,
        (flags, is_last): (u32, bool),
        request: Option<&Encoded>,
    ) -> Result<Ticket, Failure> {
        if let Want::Redis(request) = &call.want {
            let mut connection = self.connection.borrow_mut();
            let deadline = request.deadline.unwrap_or(Time::NEVER);
            let sent = connection.submit_commands(now, token, &request.packed, deadline);
            return sent.map_err(|refused| Failure::refused(refused, &self.why));
        }
        let Some(statement) = call.statement.as_ref().map(|it| it.get()) else {
            return Err(Failure::said("unencodable", 1, "it has no text"));
        };
        let text = match call.want {
            Want::Types(..) | Want::TypesOf(..) => catalog::CATALOG_SQL,
            Want::Portal(Portal { opens: false, .. }) => "",
            _ => statement.text.to_str(py).map_err(Failure::Raised)?,
        };
        if text.contains('\0') {
            let _ = self.connection.borrow_mut().act(now, Act::LeaveOut, 0);
            return Err(Failure::said(
                "unencodable",
                1,
                "the text of the statement has a zero byte",
            ));
        }
        // What is one statement with many sets of arguments is sent again whole.
        let is_whole = flags & flag::MEMBER == 0 || matches!(call.want, Want::Parts(..));
        let stands_alone = is_whole && self.stands_alone();
        let counts = migrated::counts_columns(stands_alone, statement.is_plain_read);
        let (types, parameters, formats) = match request {
            Some((_, described, bytes, _)) => {
                let formats = match call.want {
                    Want::Arrow => &described.of_arrow,
                    _ if counts && described.counted.len() > 1 => &described.counted,
                    _ => &described.formats,
                };
                ((described.id, &described.oids[..]), &bytes[..], &formats[..])
            }
            None => ((0, &[][..]), &[][..], &[][..]),
        };
        // Its columns may be others by now, which are to be asked for in other forms. A plain read
        // may run first, and keeps its place among what its caller has sent.
        let returns_rows = request.is_some_and(|it| !it.1.row.is_empty());
        let is_told = returns_rows && call.is_one() && !(self.is_lent && statement.is_plain_read);
        let anew = if is_told { flag::ANEW } else { 0 };
        let portal = match &call.want {
            Want::Portal(it) => Opened { name: &it.name, rows_max: it.rows_max },
            _ => Opened::default(),
        };
        let submission = submission(flags | anew, text, types, parameters, formats);
        let more = request.map_or(&[][..], |it| &it.3);
        let by_names = call.now.with(|it| it.by_names).unwrap_or_default();
        let guard = request.filter(|_| is_last).and_then(|(_, described, ..)| match by_names {
            (_, true) => described.guard.as_ref(),
            (true, _) => described.guard_of_rows.as_ref(),
            _ => None,
        });
        let behind = if let Want::CopyIn(behind) = &call.want { behind } else { "" };
        let guard = guard.map_or(&[][..], |guard| &guard.messages);
        let submission = Submission { portal, more, behind, guard, ..submission };
        // The server may wait for a lock before it says what a text takes: nobody goes behind that.
        let key = if call.is_own() { TextKey::ALONE } else { statement.key };
        let reading = call.now.with(|it| it.reading).ok().flatten();
        let submission = match reading {
            Some(_) => {
                let flags = submission.flags & !flag::ANEW | flag::ELSEWHERE;
                Submission { flags, ..submission }
            }
            None => submission,
        };
        let mut connection = self.connection.borrow_mut();
        let sent = match reading.and_then(|it| it.position) {
            Some(position) => {
                let guarded = (submission, &position);
                connection.submit_guarded(now, (token, key), guarded, Time::NEVER)
            }
            None => connection.submit(now, (token, key), submission, Time::NEVER),
        };
        sent.map_err(|refused| Failure::refused(refused, &self.why))
    }

    /// The same for a call with parts: they share a sync point.
    pub(crate) fn submit_parts(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
        call: &Bound<'_, Call>,
    ) -> Option<Failure> {
        self.stop_those(now);
        let it = call.get();
        let requests = it.now.with(|it| std::mem::take(&mut it.requests)).ok()?;
        let queue_max = self.connection.borrow_mut().queue_max();
        if requests.len() >= queue_max {
            let message = format!("a pipeline has less than {queue_max} statements (queue_max)");
            return Some(Failure::said("pipeline_too_long", 1, message));
        }
        let mut is_first = true;
        let flags = it.flags | flag::MEMBER;
        let mut requests = requests.into_iter();
        while let Some(request) = requests.next() {
            let (part, described, ..) = &request;
            let of = part.as_ref().map_or(call, |part| part.bind(py));
            let token = self.token(of);
            let is_part = part.is_some();
            let _ = of.get().now.with(|it| {
                it.described = Some(described.clone());
                if is_part {
                    it.stage = Stage::Sent(number, token, Ticket::Sent);
                }
            });
            if is_part {
                self.parts.insert(token);
            }
            let is_last = is_part || requests.len() == 0;
            let sent = self.send(py, now, token, of.get(), (flags, is_last), Some(&request));
            let is_first = std::mem::replace(&mut is_first, false);
            if let Err(failure) = sent {
                self.take(token);
                self.parts.remove(&token);
                if is_first || self.is_over {
                    if is_part {
                        let _ = of.get().now.with(|it| it.stage = Stage::Made);
                    }
                    // It may be sent again as it is, once there is room.
                    let all = std::iter::once(request).chain(requests).collect();
                    let _ = it.now.with(|it| it.requests = all);
                    return Some(failure);
                }
                // The first one is in, so what is refused can't be encoded.
                self.connection.borrow_mut().fail_segment(now);
                let _ = of.get().now.with(|it| it.failure = Some(failure));
                break;
            }
        }
        let token = self.token(call);
        let sent = self.connection.borrow_mut().sync(now, token);
        match sent {
            Ok(ticket) => {
                let _ = it.now.with(|it| it.stage = Stage::Sent(number, token, ticket));
                None
            }
            Err(refused) => {
                self.take(token);
                Some(Failure::refused(refused, &self.why))
            }
        }
    }

    /// The server is asked to stop it with what else is given up in this turn: `stop_those`.
    pub(crate) fn give_up(&mut self, now: Time, token: u32, ticket: Ticket, call: Py<Call>) {
        let mut connection = self.connection.borrow_mut();
        // What others of its pipeline depend on stays where it is.
        if self.parts.contains(&token) {
            return connection.caller_gone(now, token);
        }
        if connection.cancel(now, ticket) {
            return;
        }
        drop(connection);
        self.given_up.push((token, call));
    }

    /// The server is asked to stop what was given up and is unanswered. Whether there was any.
    pub(crate) fn stop_those(&mut self, now: Time) -> bool {
        if self.given_up.is_empty() {
            return false;
        }
        let given_up = std::mem::take(&mut self.given_up);
        // A token may be another's by now.
        let is_same = |token: u32, call: &Py<Call>| {
            self.calls.get(token as usize).and_then(Option::as_ref).is_some_and(|it| it.is(call))
        };
        let tokens = given_up.iter().filter(|(token, call)| is_same(*token, call));
        let tokens: Vec<u32> = tokens.map(|(token, _)| *token).collect();
        self.connection.borrow_mut().want_cancel(now, &tokens);
        true
    }

    /// Keeps a part of a reply. Whether it is time to read what has come.
    /// More than `bytes_max` bytes are not kept.
    pub(crate) fn keep(
        &mut self,
        call: &Py<Call>,
        statement: u32,
        block: Bytes,
        bytes_max: usize,
    ) -> bool {
        let columns = &mut self.columns;
        let kept = call.get().now.with(|it| {
            // Of several parts each may be the first use of a statement.
            let is_new = statement != 0 && !columns.contains_key(&statement);
            if call.get().statement.is_some() && (it.columns.is_none() || is_new) {
                match front(&block) {
                    Front::Columns(described) => {
                        if statement != 0 {
                            columns.insert(statement, described.clone());
                        }
                        it.columns = Some(described);
                    }
                    Front::Rows if it.columns.is_none() => {
                        it.columns = columns.get(&statement).cloned();
                    }
                    Front::Rows | Front::Nothing => {}
                }
            }
            if matches!(call.get().want, Want::Parts(_, false)) {
                // Nobody reads its rows, so they are neither kept nor counted.
                it.blocks.push(tags_of(block));
                return false;
            }
            it.bytes += block.len();
            it.total += block.len();
            if it.total > bytes_max && !call.get().flows() {
                const WHY: &str = "the result is larger than result_bytes_max";
                it.failure = Some(Failure::said("result_too_large", outcome::APPLIED, WHY));
                it.blocks.clear();
                return false;
            }
            it.blocks.push(block);
            it.bytes >= EARLY_BYTES
        });
        kept.unwrap_or(false)
            && matches!(call.get().want, Want::Rows | Want::Arrow | Want::Parts(_, true))
    }

    /// What is to be written, if there is something and the transport takes it.
    pub(crate) fn write(
        &mut self,
        py: Python<'_>,
        now: Time,
        number: u32,
    ) -> Option<(Deed, usize)> {
        if self.is_paused {
            return None;
        }
        let mut connection = self.connection.borrow_mut();
        let bytes = connection.transmit();
        if bytes.is_empty() {
            return None;
        }
        let written = PyBytes::new(py, bytes).unbind();
        let len = bytes.len();
        connection.written(now, len);
        Some((Deed::Write(number, self.write.clone_ref(py), written), len))
    }

    // --- whose it is ---

    pub(crate) fn lend(&mut self) {
        (self.is_lent, self.is_left, self.claimed) = (true, false, None);
        self.connection.borrow_mut().hold(Holder::One);
    }

    /// The server is to stop what it was asked for, whose callers hear so.
    pub(crate) fn stop(&mut self, now: Time) {
        let unanswered = (0..).zip(&self.calls).filter(|(_, call)| call.is_some());
        let tokens: Vec<u32> = unanswered.map(|(token, _)| token).collect();
        self.connection.borrow_mut().want_cancel(now, &tokens);
    }

    /// Its caller has reset its session as it is to be.
    pub(crate) fn vouch(&mut self) {
        self.connection.borrow_mut().hold(Holder::Vouched);
    }

    /// It is everybody's, again. Whether its session is to be reset first.
    pub(crate) fn share(&mut self) -> bool {
        (self.is_lent, self.is_left) = (false, false);
        let mut connection = self.connection.borrow_mut();
        let owes = connection.hold(Holder::Nobody);
        connection.hold(Holder::All);
        owes
    }
}

/// What a statement is to the engine.
fn submission<'a>(
    flags: u32,
    text: &'a str,
    (id, oids): (u32, &'a [u32]),
    parameters: &'a [u8],
    formats: &'a [Format],
) -> Submission<'a> {
    let flags = if formats.is_empty() { flags } else { flags & !flag::BINARY };
    let types = Typed { id, oids, are_learned: true };
    Submission { flags, text, types, parameters, formats, ..Submission::default() }
}

/// Bytes of a result that are not read before it is complete.
const EARLY_BYTES: usize = 32 << 10;

/// The command tags among whole messages.
fn tags_of(block: Bytes) -> Bytes {
    let (mut tags, mut rest) = (BytesMut::new(), &block[..]);
    while let [tag, a, b, c, d, ..] = *rest {
        let len = 1 + u32::from_be_bytes([a, b, c, d]) as usize;
        let (message, behind) = rest.split_at(len.min(rest.len()));
        if tag == COMMAND_COMPLETE {
            tags.extend_from_slice(message);
        }
        rest = behind;
    }
    tags.freeze()
}

const COMMAND_COMPLETE: u8 = b'C';
