//! What a client of PostgreSQL sends.

use onetrip_postgres::message::{
    FrontendMessage, Header, InitialMessage, Target, frame, frame_initial, frontend_max_len,
};

use super::texts::{self, Read};
use super::{Column, Due, NAMES_MAX, Open, Portal, Postgres, Prepared, VALUE_LEN_MAX};
use crate::exchange::{Answer, Exchange, Kind, Shared};
use crate::piece::Nanos;
use crate::value::Value;
use crate::wire::frames::KEPT_MAX;
use crate::wire::{Opaque, Out};

/// The tag of FunctionCall, which nothing of ours sends.
const FUNCTION_CALL: u8 = b'F';

impl Postgres {
    pub(super) fn read_client(&mut self, shared: &mut Shared, out: &mut Out) -> Result<(), Opaque> {
        loop {
            let at = self.client.begin();
            if !self.is_begun {
                let bytes = self.client.bytes();
                let Some(body) = frame_initial(bytes).map_err(|_| Opaque::Unknown)? else {
                    return Ok(());
                };
                let len = body.len() + 4;
                let first = InitialMessage::decode(body).map_err(|_| Opaque::Unknown)?;
                let due = match first {
                    InitialMessage::Startup(_) => Due::Login,
                    InitialMessage::SslRequest | InitialMessage::GssEncRequest => Due::Encryption,
                    InitialMessage::Cancel(_) => {
                        out.is_cancel = true;
                        self.client.take(len);
                        return Ok(());
                    }
                };
                self.is_begun = due == Due::Login;
                self.client.take(len);
                self.log_in(shared, at, due);
                continue;
            }
            let bytes = self.client.bytes();
            let header = Header::peek(bytes).map_err(|_| Opaque::Unknown)?;
            if let Some(header) = header.filter(|it| it.len as usize > KEPT_MAX) {
                self.client.take(header.message_len());
                self.long(shared, at, header.tag)?;
                continue;
            }
            let limit =
                |tag| if tag == FUNCTION_CALL { Some(u32::MAX) } else { frontend_max_len(tag) };
            let Some(frame) = frame(bytes, limit).map_err(|_| Opaque::Unknown)? else {
                return Ok(());
            };
            let (tag, len) = (frame.tag, frame.message_len());
            let body = self.client.bytes()[Header::LEN..len].to_vec();
            self.client.take(len);
            if tag == FUNCTION_CALL {
                self.begin(shared, at, Kind::Write);
                self.put(Due::Query);
                self.draft = None;
                continue;
            }
            let frame = onetrip_postgres::message::Frame { tag, body: &body };
            let message = FrontendMessage::decode(frame).map_err(|_| Opaque::Unknown)?;
            self.sent(shared, at, message);
        }
    }

    fn log_in(&mut self, shared: &mut Shared, at: Nanos, due: Due) {
        self.begin(shared, at, Kind::Login);
        self.put(due);
        self.draft = None;
    }

    /// A message that is too long to be looked at.
    fn long(&mut self, shared: &mut Shared, at: Nanos, tag: u8) -> Result<(), Opaque> {
        match tag {
            b'Q' => {
                self.begin(shared, at, Kind::Write);
                self.put(Due::Query);
                self.draft = None;
            }
            b'P' | b'B' => {
                self.continue_or_begin(shared, at);
                self.put(if tag == b'P' { Due::Parse } else { Due::Bind });
                if tag == b'B' {
                    // Whichever statement it was: nothing is known of it.
                    self.portals.clear();
                }
            }
            b'd' => {}
            _ => return Err(Opaque::Unknown),
        }
        Ok(())
    }

    /// A new exchange, to which what follows belongs.
    fn begin(&mut self, shared: &mut Shared, at: Nanos, kind: Kind) {
        self.numbers += 1;
        let number = self.numbers;
        let text = shared.texts.add(texts::name_of(kind), || (kind, false));
        let exchange = Exchange {
            kind,
            text,
            inputs: Vec::new(),
            answer: Answer::default(),
            begin: at,
            end: at,
            parses: false,
            is_named: false,
            in_transaction: false,
            trace: None,
            endpoint: None,
        };
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
        let last = self.last;
        self.open.iter_mut().rev().find(|it| it.number == last)
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
            FrontendMessage::Parse(it) => {
                self.continue_or_begin(shared, at);
                let read = texts::read(shared, it.sql);
                let prepared = Prepared {
                    text: read.text,
                    literals: read.inputs.clone(),
                    parameters: it.parameter_types.collect(),
                    columns: Vec::new(),
                };
                if self.statements.len() >= NAMES_MAX {
                    self.statements.clear();
                }
                self.statements.insert(it.statement.into(), prepared);
                if let Some(open) = self.exchange() {
                    open.exchange.parses = true;
                    open.exchange.is_named = !it.statement.is_empty();
                    // Of a Parse alone, so that it is known what was prepared.
                    open.exchange.text = read.text;
                    (open.exchange.trace, open.exchange.endpoint) = (read.trace, read.endpoint);
                }
                self.put(Due::Parse);
            }
            FrontendMessage::Bind(it) => {
                self.continue_or_begin(shared, at);
                let portal = self.bound(shared, it);
                if self.portals.len() >= NAMES_MAX {
                    self.portals.clear();
                }
                if let Some(portal) = portal {
                    self.portals.insert(it.portal.into(), portal);
                } else {
                    self.portals.remove(it.portal);
                }
                if let Some(open) = self.exchange() {
                    open.exchange.is_named |= !it.statement.is_empty();
                }
                self.put(Due::Bind);
            }
            FrontendMessage::Describe(it) => {
                self.continue_or_begin(shared, at);
                self.put(Due::Describe(match it.target {
                    Target::Statement(name) => Some(name.into()),
                    Target::Portal(_) => None,
                }));
            }
            FrontendMessage::Close(it) => {
                self.continue_or_begin(shared, at);
                match it.target {
                    Target::Statement(name) => _ = self.statements.remove(name),
                    Target::Portal(name) => _ = self.portals.remove(name),
                }
                self.put(Due::Close);
            }
            FrontendMessage::Execute(it) => {
                self.continue_or_begin(shared, at);
                let portal = self.portals.get(it.portal).cloned();
                let kind = portal.as_ref().map(|it| shared.texts.get(it.text).kind);
                let unknown = shared.texts.add(texts::UNSEEN, || (Kind::Write, false));
                if let Some(open) = self.exchange() {
                    open.exchange.kind = kind.unwrap_or(Kind::Write);
                    open.exchange.text = portal.as_ref().map_or(unknown, |it| it.text);
                    if let Some(portal) = portal {
                        open.exchange.inputs = portal.inputs;
                        open.columns = portal.columns;
                    }
                }
                self.put(Due::Execute);
                self.draft = None;
            }
            FrontendMessage::Sync => {
                let is_open = self.open.iter().any(|it| it.number == self.last);
                if self.draft.is_none() && !is_open {
                    self.begin(shared, at, Kind::Ping);
                }
                self.put(Due::Sync);
                self.draft = None;
            }
            FrontendMessage::Flush => self.draft = None,
            FrontendMessage::CopyData(_)
            | FrontendMessage::CopyDone
            | FrontendMessage::CopyFail(_)
            | FrontendMessage::Terminate => {}
        }
    }

    fn tell(&mut self, read: Read) {
        if let Some(open) = self.exchange() {
            let exchange = &mut open.exchange;
            (exchange.text, exchange.inputs) = (read.text, read.inputs);
            (exchange.trace, exchange.endpoint) = (read.trace, read.endpoint);
        }
    }

    fn bound(
        &self,
        shared: &mut Shared,
        it: onetrip_postgres::message::Bind<'_>,
    ) -> Option<Portal> {
        let statement = self.statements.get(it.statement)?;
        let mut inputs: Vec<Vec<Value>> = statement.literals.clone();
        for (place, value) in it.parameters.enumerate() {
            let oid = statement.parameters.get(place).copied().unwrap_or(0);
            let format = it.parameter_formats.of(place).unwrap_or_default();
            let values = match value.filter(|it| it.len() <= VALUE_LEN_MAX) {
                Some(value) => shared.values.of_postgres(value, format, oid),
                None => Vec::new(),
            };
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
