//! Between a program and a server: answers early what the program need not wait for, and holds the
//! program to the server's word.
//!
//! What was answered early is *told*. It is held until the program says something else, and leaves
//! in front of that, without a Sync between: if the server refuses what was told, it skips the
//! program's statement too, whether that comes by the simple or by the extended protocol. So no
//! statement runs outside the transaction that its program believes in. The real answers to what
//! was told are swallowed. An error among them becomes the answer to the statement that was skipped.
//! If the program then believes in a transaction that is not there, the server gets a failed one in
//! its place, so that everything up to ROLLBACK is answered by the server itself.
//!
//! Until the server has confirmed what was told, nothing behind the statement that carries it is
//! sent. Whatever is not understood passes unchanged, behind what is held.
//!
//! - `told`: what was told, and what the server is asked for it.
//! - `tell`, `judge`: what may be told.
//! - `answers`: what the program hears early.
//! - `program`, `server`: what comes from either side.
//! - `flight`: what was sent and is not answered yet.
//! - `names`: prepared statements that the program believes in.
//!
//! It does no I/O. Memory is bounded: the host reads from a side only while [`Early::wants_program`]
//! or [`Early::wants_server`] says so, and messages longer than [`WHOLE_MAX`] are passed on in parts.

mod answers;
mod flight;
mod judge;
mod names;
mod program;
mod server;
mod tell;
mod told;

use std::collections::VecDeque;

use bytes::{Buf, BytesMut};
pub use onetrip_engine::Time;

use super::connect::{Session, TargetSessionAttrs};
use crate::message::Header;
use crate::startup::SecretKey;
use flight::Flight;
use judge::View;
use names::Names;
pub use server::OF_LOGIN;
use told::Told;
pub use told::{Kind, Saved, Words};

/// Messages up to this length are looked into; longer ones pass in parts. A statement that is
/// answered early is never longer.
pub const WHOLE_MAX: usize = 8 << 10;

/// Bytes of one side that wait to be looked into: a message, or a startup packet.
const INPUT_MAX: usize = 10_000;

/// Bytes that wait for one side before the other is no longer read.
const OUT_MAX: usize = 16 << 10;

/// One connection of a program.
#[derive(Debug)]
pub struct Early {
    words: Words,
    phase: Phase,
    asked: Asked,
    program: Side,
    server: Side,
    /// What the program has been told, and what the server was not asked for yet.
    held: Vec<Told>,
    /// What leaves with the segment that begins now.
    leaving: VecDeque<Told>,
    /// What the program believes in.
    view: View,
    names: Names,
    flight: Flight,
    /// Nothing is told any more: something came that is not understood.
    is_settled: bool,
    /// When the server was last heard.
    heard: Time,
    saved: Saved,
    /// What of it was [reported](Self::report).
    reported: Saved,
    /// Which servers the program may log in to.
    target: TargetSessionAttrs,
    /// What the server has said of itself at the login.
    session: Session,
    key: Option<Key>,
    is_unfit: bool,
    /// The connection to the server outlives the program.
    is_lent: bool,
    /// The program may have left there what no reset undoes.
    is_marked: bool,
    /// The program has said goodbye.
    has_left: bool,
}

/// What a program needs to cancel its statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The server's process.
    pub process_id: i32,
    /// The secret that goes with it.
    pub secret: SecretKey,
}

/// What came from one side, and what goes to it.
#[derive(Debug, Default)]
struct Side {
    input: BytesMut,
    output: BytesMut,
    /// What is left of a message of this side that passes in parts.
    passing: usize,
}

impl Side {
    /// The header of the next message; `None` while it is incomplete or can't be one.
    fn header(&self) -> Option<Header> {
        Header::peek(&self.input).ok().flatten()
    }

    fn has_whole(&self, header: Header) -> bool {
        self.input.len() >= header.message_len()
    }

    /// What is there of the body of the message.
    fn body_so_far(&self, header: Header) -> &[u8] {
        let len = header.message_len().min(self.input.len());
        self.input.get(Header::LEN..len).unwrap_or_default()
    }

    /// The body of the message, which must be whole.
    fn body(&self, header: Header) -> &[u8] {
        self.input.get(Header::LEN..header.message_len()).unwrap_or_default()
    }
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The program has not said yet what it wants.
    Beginning,
    /// From the startup packet to the first ReadyForQuery.
    Login,
    Session,
    /// Bytes pass as they are.
    Raw,
    /// Nothing is read any more; the host closes both once all is written.
    Over,
}

/// What the first packet of a connection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing yet: it is incomplete.
    Nothing,
    /// A session; the server is needed.
    Session,
    /// That a statement of another connection is cancelled; the server is needed.
    Cancel,
    /// Something that is not PostgreSQL.
    Garbage,
}

impl Early {
    /// A connection that tells what `words` allow.
    #[must_use]
    pub fn new(words: Words) -> Early {
        Early {
            words,
            phase: Phase::Beginning,
            program: Side::default(),
            server: Side::default(),
            held: Vec::new(),
            leaving: VecDeque::new(),
            asked: Asked::Nothing,
            view: View::default(),
            names: Names::default(),
            flight: Flight::default(),
            is_settled: words.is_nothing(),
            heard: Time::ZERO,
            saved: Saved::default(),
            reported: Saved::default(),
            target: TargetSessionAttrs::Any,
            session: Session::default(),
            key: None,
            is_unfit: false,
            is_lent: false,
            is_marked: false,
            has_left: false,
        }
    }

    /// The connection to the server is [lent](super::lent): the program's goodbye does not reach it.
    pub fn lend(&mut self) {
        self.is_lent = true;
    }

    /// Whether the program has said goodbye on a connection that is lent.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Whether the server waits for a statement and owes no answer, so that a connection that is
    /// lent can be reset; and whether it may be in a transaction. `None` as well if a text of the
    /// program's named what `DISCARD ALL` does not undo.
    #[must_use]
    pub fn returns(&self) -> Option<bool> {
        let says_nothing = self.program.passing == 0 && self.server.output.is_empty();
        let hears_nothing = self.is_quiet() && self.server.input.is_empty();
        let is_known = (!self.is_settled || self.words.is_nothing()) && !self.is_marked;
        let is_session = self.phase == Phase::Session;
        let returns = self.is_lent && is_session && is_known && says_nothing && hears_nothing;
        returns.then_some(!self.view.is_idle())
    }

    /// When the server was last heard.
    #[must_use]
    pub fn heard(&self) -> Time {
        self.heard
    }

    /// Ends the login if the server is not one of these.
    #[must_use]
    pub fn only(self, target: TargetSessionAttrs) -> Early {
        Early { target, ..self }
    }

    /// Whether the login was ended since the server is another one than
    /// [was wanted](Early::only).
    #[must_use]
    pub fn is_unfit(&self) -> bool {
        self.is_unfit
    }

    /// What the program was told to cancel its statements with.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// What the first packet asks for. If the server is needed, the host connects to it.
    #[must_use]
    pub fn asked(&self) -> Asked {
        self.asked
    }

    /// Bytes of the program.
    pub fn from_program(&mut self, now: Time, bytes: &[u8]) {
        self.program.input.extend_from_slice(bytes);
        self.work(now);
    }

    /// Bytes of the server.
    pub fn from_server(&mut self, now: Time, bytes: &[u8]) {
        self.heard = now;
        self.server.input.extend_from_slice(bytes);
        self.work(now);
    }

    /// The program sends nothing more: what it was told and nobody asked for is dropped.
    pub fn program_ended(&mut self) {
        self.held.clear();
    }

    fn work(&mut self, now: Time) {
        self.read_server();
        self.read_program(now);
    }

    /// Whether bytes of the program may be given.
    #[must_use]
    pub fn wants_program(&self) -> bool {
        let is_full = self.program.input.len() > INPUT_MAX || self.server.output.len() >= OUT_MAX;
        let waits = self.is_blocked() && !self.program.input.is_empty();
        self.phase != Phase::Over && !is_full && !waits
    }

    /// Whether bytes of the server may be given.
    #[must_use]
    pub fn wants_server(&self) -> bool {
        self.phase != Phase::Over && self.program.output.len() < OUT_MAX
    }

    /// Bytes for the program.
    #[must_use]
    pub fn to_program(&self) -> &[u8] {
        &self.program.output
    }

    /// Bytes for the server.
    #[must_use]
    pub fn to_server(&self) -> &[u8] {
        &self.server.output
    }

    /// So many bytes were written to the program.
    pub fn program_took(&mut self, now: Time, len: usize) {
        took(&mut self.program.output, len);
        if !self.server.input.is_empty() {
            self.work(now);
        }
    }

    /// So many bytes were written to the server. There may be room for more then.
    pub fn server_took(&mut self, now: Time, len: usize) {
        took(&mut self.server.output, len);
        if !self.program.input.is_empty() {
            self.work(now);
        }
    }

    /// Whether the host has to close both sides once [`to_program`](Self::to_program) is written.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether the program is logged in, in no transaction, and waits for nothing.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let says_nothing = self.program.input.is_empty() && self.program.passing == 0;
        self.phase == Phase::Session && self.is_quiet() && says_nothing && self.view.is_idle()
    }

    /// Whether the program is not logged in yet.
    #[must_use]
    pub fn is_logging_in(&self) -> bool {
        matches!(self.phase, Phase::Beginning | Phase::Login)
    }

    /// Whether all that the program has said was written to the server, as far as it may go there.
    #[must_use]
    pub fn has_sent_all(&self) -> bool {
        self.server.output.is_empty() && !self.is_blocked()
    }

    /// Ends the connection with an error that PostgreSQL could have sent. What the program believes
    /// is undone by the server when its side is closed.
    pub fn end(&mut self, code: &str, message: &str) {
        // In the middle of a message only the end itself can be told.
        if self.server.passing == 0 && self.phase != Phase::Over {
            answers::fatal(&mut self.program.output, code, message);
        }
        self.held.clear();
        self.phase = Phase::Over;
    }

    /// What was saved until now.
    #[must_use]
    pub fn saved(&self) -> &Saved {
        &self.saved
    }

    /// Whether there is something to [report](Self::report).
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.settled() != self.reported
    }

    /// Adds what was saved, and proved false, since the last report to the counts of many
    /// connections. Nothing that was added is taken back later.
    pub fn report(&mut self, to: &mut Saved) {
        let settled = self.settled();
        to.add_since(&self.reported, &settled);
        self.reported = settled;
    }

    /// What was saved for good: a Parse that is held may have to be waited for after all.
    fn settled(&self) -> Saved {
        let mut settled = self.saved;
        if self.held.last().is_some_and(|it| !it.is_refused && it.makes.is_some()) {
            settled.untell(Kind::Prepare);
        }
        settled
    }

    /// Bytes that are held for this connection.
    #[must_use]
    pub fn memory(&self) -> usize {
        let sides = [&self.program, &self.server];
        sides.iter().map(|it| it.input.capacity() + it.output.capacity()).sum::<usize>()
            + self.held.iter().map(Told::memory).sum::<usize>()
            + self.names.memory()
            + self.view.memory()
    }

    /// Nothing is awaited from the server, and no message of it has begun.
    fn is_quiet(&self) -> bool {
        self.flight.is_empty() && self.server.passing == 0
    }

    /// What was told is not confirmed yet, and all that may go with it was sent.
    fn is_blocked(&self) -> bool {
        self.program.passing == 0 && self.flight.is_blocking()
    }
}

/// Takes what was written out of a buffer, and gives memory back once it is empty.
fn took(output: &mut BytesMut, len: usize) {
    output.advance(len.min(output.len()));
    if output.is_empty() {
        *output = BytesMut::new();
    }
}
