//! What a client of PostgreSQL sends.

use onetrip_postgres::message::{
    Bind, Execute, Frame, FrontendMessage, Header, InitialMessage, Parse, Target, frontend_max_len,
};

use super::texts::{self, Read};
use super::{
    COLUMNS_MAX, Column, Copying, Due, NAMES_MAX, Name, Open, Portal, Postgres, Prepared,
    VALUE_LEN_MAX, held,
};
use crate::exchange::{Exchange, INPUTS_MAX, Kind, Shared};
use crate::piece::Nanos;
use crate::value::Value;
use crate::wire::frames::{Inbox, Message};
use crate::wire::{Opaque, Out};

/// The tag of FunctionCall, which nothing of ours sends.
const FUNCTION_CALL: u8 = b'F';

impl Postgres {
    pub(super) fn read_client(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        bytes: &[u8],
        out: &mut Out,
    ) -> Result<(), Opaque> {
        let mut inbox = std::mem::take(&mut self.client);
        let read = self.read_requests(shared, at, bytes, out, &mut inbox);
        self.client = inbox;
        read
    }

    fn read_requests(
        &mut self,
        shared: &mut Shared,
        at: Nanos,
        mut rest: &[u8],
        out: &mut Out,
        inbox: &mut Inbox,
    ) -> Result<(), Opaque> {
        loop {
            let kept_max = shared.memory.kept_max();
            if !self.is_begun {
                let Some(message) = inbox.next(at, &mut rest, usize::MAX, initial_size)? else {
                    return Ok(());
                };
                if self.initial(shared, message, out)? {
                    continue;
                }
                return Ok(());
            }
            let Some(message) = inbox.next(at, &mut rest, kept_max, size)? else { return Ok(()) };
            let (at, tag) = (message.begin, message.bytes[0]);
            if self.is_skipped(tag) {
                continue;
            }
            if tag == FUNCTION_CALL || !message.is_whole {
                self.sent_long(shared, at, tag);
                continue;
            }
            let frame = Frame { tag, body: &message.bytes[Header::LEN..] };
            match FrontendMessage::decode(frame) {
                Ok(message) => self.sent(shared, at, message),
                // Of a text that is not in UTF-8.
                Err(_) if matches!(tag, b'Q' | b'P' | b'B') => self.sent_long(shared, at, tag),
                Err(_) => return Err(Opaque::Unknown),
            }
        }
    }

    /// The first packet. Whether more can be read behind it.
    fn initial(
        &mut self,
        shared: &mut Shared,
        message: Message<'_>,
        out: &mut Out,
    ) -> Result<bool, Opaque> {
        let first = InitialMessage::decode(&message.bytes[4..]).map_err(|_| Opaque::Unknown)?;
        let due = match first {
            InitialMessage::Startup(_) => Due::Login,
            InitialMessage::SslRequest | InitialMessage::GssEncRequest => Due::Encryption,
            InitialMessage::Cancel(_) => {
                out.is_cancel = true;
                return Ok(false);
            }
        };
        self.is_begun = due == Due::Login;
        self.log_in(shared, message.begin, due);
        Ok(true)
    }

    /// Rules 1 and 2.
    fn is_skipped(&mut self, tag: u8) -> bool {
        match tag {
            b'S' => {
                self.is_skipping = false;
                self.copying != Copying::No
            }
            b'H' => self.copying != Copying::No,
            b'X' => true,
            _ => self.is_skipping,
        }
    }

    fn log_in(&mut self, shared: &mut Shared, at: Nanos, due: Due) {
        self.begin(shared, at, Kind::Login);
        self.put(due);
        self.draft = None;
    }

    /// A message that is not looked at.
    fn sent_long(&mut self, shared: &mut Shared, at: Nanos, tag: u8) {
        match tag {
            b'Q' | FUNCTION_CALL => {
                self.begin(shared, at, Kind::Write);
                self.put(Due::Query);
                self.draft = None;
            }
            b'P' | b'B' => {
                self.continue_or_begin(shared, at);
                // Whichever statement it was: nothing is known of it.
                if tag == b'P' {
                    self.forget_names();
                }
                self.forget_portals();
                self.put(if tag == b'P' { Due::Parse(0) } else { Due::Bind });
            }
            b'd' => self.copy_data(),
            _ => {}
        }
    }

    fn forget_names(&mut self) {
        let held: usize = self.statements.values().map(Prepared::held).sum();
        self.held = self.held.saturating_sub(held);
        self.statements = Default::default();
    }

    fn forget_portals(&mut self) {
        let held: usize = self.portals.values().map(Portal::held).sum();
        self.held = self.held.saturating_sub(held);
        self.portals = Default::default();
    }

    /// A new exchange, to which what follows belongs.
    fn begin(&mut self, shared: &mut Shared, at: Nanos, kind: Kind) {
        let number = self.last + 1;
        let text = shared.texts.add(texts::name_of(kind), || (kind, false));
        let exchange = Exchange::new(kind, text, at);
        self.held += held(&exchange);
        self.open.push_back(Open { number, exchange, columns: Vec::new() });
        self.draft = Some(number);
        self.last = number;
    }

    fn continue_or_begin(&mut self, shared: &mut Shared, at: Nanos) {
        if self.draft.is_none() {
            self.begin(shared, at, Kind::Prepare);
        }
    }

    fn put(&mut self, due: Due) {
        self.due.push_back((self.last, due));
    }

    fn exchange(&mut self) -> Option<&mut Open> {
        self.numbered(self.last)
    }

    fn sent(&mut self, shared: &mut Shared, at: Nanos, message: FrontendMessage<'_>) {
        match message {
            FrontendMessage::Password(_) => self.log_in(shared, at, Due::Login),
            FrontendMessage::Query(it) => {
                let read = texts::read(shared, it.sql);
                self.begin(shared, at, read.kind);
                self.tell(read);
                self.put(Due::Query);
                self.draft = None;
            }
            FrontendMessage::Parse(it) => self.parse(shared, at, it),
            FrontendMessage::Bind(it) => self.bind(shared, at, it),
            FrontendMessage::Describe(it) => {
                self.continue_or_begin(shared, at);
                self.put(match it.target {
                    Target::Statement(name) => Due::DescribeStatement(named(shared, name)),
                    Target::Portal(_) => Due::DescribePortal,
                });
            }
            FrontendMessage::Close(it) => {
                self.continue_or_begin(shared, at);
                let held = match it.target {
                    Target::Statement(name) => {
                        let old = self.statements.remove(&named(shared, name));
                        old.map_or(0, |it| it.held())
                    }
                    Target::Portal(name) => {
                        let old = self.portals.remove(&named(shared, name));
                        old.map_or(0, |it| it.held())
                    }
                };
                self.held = self.held.saturating_sub(held);
                self.put(Due::Close);
            }
            FrontendMessage::Execute(it) => self.execute(shared, at, it),
            FrontendMessage::Sync => {
                if self.draft.is_none() && self.exchange().is_none() {
                    self.begin(shared, at, Kind::Ping);
                }
                self.put(Due::Sync);
                self.draft = None;
            }
            FrontendMessage::Flush => self.draft = None,
            FrontendMessage::CopyData(_) => self.copy_data(),
            FrontendMessage::CopyDone | FrontendMessage::CopyFail(_) => self.copy_ends(),
            FrontendMessage::Terminate => {}
        }
    }

    fn copy_data(&mut self) {
        match self.copying {
            Copying::No => self.has_data_ahead = !self.due.is_empty(),
            Copying::Ready | Copying::Data => self.copying = Copying::Data,
        }
    }

    fn copy_ends(&mut self) {
        if self.copying == Copying::No {
            // In front of the server's answer, or behind its error.
            if !self.due.is_empty() {
                self.put(Due::CopyEnd);
            }
        } else {
            self.copying = Copying::No;
        }
    }

    fn tell(&mut self, read: Read) {
        let last = self.last;
        let Some(open) = self.exchange() else { return };
        let before = held(&open.exchange);
        let exchange = &mut open.exchange;
        (exchange.text, exchange.inputs) = (read.text, read.inputs);
        (exchange.trace, exchange.endpoint) = (read.trace, read.endpoint);
        self.charge(last, before);
    }

    fn parse(&mut self, shared: &mut Shared, at: Nanos, it: Parse<'_>) {
        self.continue_or_begin(shared, at);
        let read = texts::read(shared, it.sql);
        let name = named(shared, it.statement);
        if let Some(open) = self.exchange() {
            open.exchange.parses = true;
            open.exchange.is_named = !it.statement.is_empty();
            // Of a Parse alone, so that it is known what was prepared.
            open.exchange.text = read.text;
            (open.exchange.trace, open.exchange.endpoint) = (read.trace, read.endpoint);
        }
        let prepared = Prepared {
            text: read.text,
            literals: read.inputs,
            parameters: it.parameter_types.take(COLUMNS_MAX).collect(),
            columns: Vec::new(),
        };
        if self.statements.len() >= NAMES_MAX || shared.memory.is_full() {
            self.forget_names();
        }
        self.held += prepared.held();
        let old = self.statements.insert(name, prepared);
        self.held = self.held.saturating_sub(old.map_or(0, |it| it.held()));
        self.put(Due::Parse(name));
    }

    fn bind(&mut self, shared: &mut Shared, at: Nanos, it: Bind<'_>) {
        self.continue_or_begin(shared, at);
        let name = named(shared, it.portal);
        let portal = self.bound(shared, it);
        if self.portals.len() >= NAMES_MAX || shared.memory.is_full() {
            self.forget_portals();
        }
        let old = match portal {
            Some(portal) => {
                self.held += portal.held();
                self.portals.insert(name, portal)
            }
            None => self.portals.remove(&name),
        };
        self.held = self.held.saturating_sub(old.map_or(0, |it| it.held()));
        if let Some(open) = self.exchange() {
            open.exchange.is_named |= !it.statement.is_empty();
        }
        self.put(Due::Bind);
    }

    fn execute(&mut self, shared: &mut Shared, at: Nanos, it: Execute<'_>) {
        self.continue_or_begin(shared, at);
        let name = named(shared, it.portal);
        // One without a name that runs to its end is not run again.
        let portal = match (it.portal, it.rows_max) {
            ("", 0) => self.portals.remove(&name).inspect(|it| {
                self.held = self.held.saturating_sub(it.held());
            }),
            _ => self.portals.get(&name).cloned(),
        };
        let kind = portal.as_ref().map(|it| shared.texts.get(it.text).kind);
        let unknown = shared.texts.add(texts::UNSEEN, || (Kind::Write, false));
        let last = self.last;
        if let Some(open) = self.exchange() {
            let before = held(&open.exchange);
            open.exchange.kind = kind.unwrap_or(Kind::Write);
            open.exchange.text = portal.as_ref().map_or(unknown, |it| it.text);
            if let Some(portal) = portal {
                open.exchange.inputs = portal.inputs;
                open.columns = portal.columns;
            }
            self.charge(last, before);
        }
        self.put(Due::Execute);
        self.draft = None;
    }

    fn bound(&self, shared: &mut Shared, it: Bind<'_>) -> Option<Portal> {
        let statement = self.statements.get(&named(shared, it.statement))?;
        let mut inputs: Vec<Vec<Value>> = statement.literals.clone();
        let inputs_max = if shared.memory.is_tight() { 0 } else { INPUTS_MAX };
        for (place, value) in it.parameters.enumerate().take(inputs_max) {
            let oid = statement.parameters.get(place).copied().unwrap_or(0);
            let format = it.parameter_formats.of(place).unwrap_or_default();
            let mut values = Vec::new();
            if let Some(value) = value.filter(|it| it.len() <= VALUE_LEN_MAX) {
                shared.values.of_postgres(value, format, oid, &mut values);
            }
            values.iter().for_each(|value| shared.values.count(*value));
            inputs.push(values);
        }
        let column = |(place, oid): (usize, &u32)| Column {
            oid: *oid,
            format: it.result_formats.of(place).unwrap_or_default(),
        };
        let columns = match statement.columns.is_empty() {
            false => statement.columns.iter().enumerate().map(column).collect(),
            // Not described: their forms are all that is known.
            true => (0..16).map(|place| column((place, &0))).collect(),
        };
        Some(Portal { text: statement.text, inputs, columns })
    }
}

impl Prepared {
    pub(super) fn held(&self) -> usize {
        let ids = (self.parameters.len() + self.columns.len()) * size_of::<u32>();
        2 * size_of::<Prepared>() + ids + held_by(&self.literals)
    }
}

impl Portal {
    fn held(&self) -> usize {
        2 * size_of::<Portal>() + size_of_val(&self.columns[..]) + held_by(&self.inputs)
    }
}

fn held_by(values: &[Vec<Value>]) -> usize {
    values.iter().map(|it| size_of_val(&it[..]) + size_of::<Vec<Value>>()).sum()
}

fn named(shared: &Shared, name: &str) -> Name {
    shared.values.hash(0, name.as_bytes()).0
}

/// The length of the packet that bytes begin with, which is a first one.
fn initial_size(bytes: &[u8]) -> Result<Option<usize>, Opaque> {
    let Some(len) = bytes.first_chunk() else { return Ok(None) };
    match u32::from_be_bytes(*len) {
        // The server's limits, as in `frame_initial`.
        len @ 8..=10_000 => Ok(Some(len as usize)),
        _ => Err(Opaque::Unknown),
    }
}

/// The length of the message that bytes begin with.
fn size(bytes: &[u8]) -> Result<Option<usize>, Opaque> {
    let Some(header) = Header::peek(bytes).map_err(|_| Opaque::Unknown)? else { return Ok(None) };
    let is_known = frontend_max_len(header.tag).is_some_and(|max| header.len <= max);
    if is_known { Ok(Some(header.message_len())) } else { Err(Opaque::Unknown) }
}
