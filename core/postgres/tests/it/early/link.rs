//! A program, what stands between, and the model server, in memory.

use bytes::{Buf, BytesMut};
use onetrip_engine::Time;
use onetrip_postgres::message::error_response::field;
use onetrip_postgres::message::{
    BackendMessage, Close, Describe, EncodeError, ErrorFields, Execute, Formats, IsNull, Query,
    SYNC, Target, bind, frame, max_len, parse, startup_message,
};

use super::model::Server;
use super::*;

/// In which pieces bytes arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pieces {
    Whole,
    Bytes,
    /// Drawn with this seed.
    Drawn(u64),
}

/// A program's connection. Without an [`Early`] it goes straight to the server.
pub(crate) struct Link {
    pub(crate) early: Option<Early>,
    pub(crate) server: Server,
    pieces: Pieces,
    seen: BytesMut,
    /// How often something went to the server.
    pub(crate) trips: u32,
    pub(crate) is_closed: bool,
}

pub(crate) const NOW: Time = Time::ZERO;

impl Link {
    pub(crate) fn direct() -> Link {
        Link::over(None, Pieces::Whole)
    }

    pub(crate) fn through(pieces: Pieces) -> Link {
        Link::over(Some(Early::new(Words::default())), pieces)
    }

    pub(crate) fn over(early: Option<Early>, pieces: Pieces) -> Link {
        let (server, seen) = (Server::default(), BytesMut::new());
        let mut link = Link { early, server, pieces, seen, trips: 0, is_closed: false };
        let mut startup = BytesMut::new();
        startup_message::write(&mut startup, 3 << 16, [("user", "u")]).unwrap();
        assert_eq!(link.say(&startup), ["R", "K", "Z I"]);
        link.trips = 0;
        link
    }

    /// Says something, and returns what the program hears until nothing moves any more.
    pub(crate) fn say(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut bytes = BytesMut::from(bytes);
        loop {
            let Some(early) = &mut self.early else {
                self.trips += 1;
                self.server.feed(&bytes);
                self.seen.unsplit(self.server.out.split());
                self.is_closed = self.server.is_closed;
                break;
            };
            let mut is_still = true;
            while !bytes.is_empty() && early.wants_program() {
                let piece = piece(&mut self.pieces, bytes.len());
                early.from_program(NOW, &bytes.split_to(piece));
                is_still = false;
            }
            if !early.to_server().is_empty() {
                self.trips += 1;
                self.server.feed(early.to_server());
                let len = early.to_server().len();
                early.server_took(NOW, len);
                is_still = false;
            }
            while !self.server.out.is_empty() && early.wants_server() {
                let piece = piece(&mut self.pieces, self.server.out.len());
                early.from_server(NOW, &self.server.out.split_to(piece));
                let len = early.to_program().len().min(7);
                self.seen.extend_from_slice(&early.to_program()[..len]);
                early.program_took(NOW, len);
                is_still = false;
            }
            assert!(early.memory() <= 64 << 10, "{} bytes", early.memory());
            let len = early.to_program().len();
            self.seen.extend_from_slice(early.to_program());
            early.program_took(NOW, len);
            self.is_closed = early.is_over() || (self.server.is_closed && is_still);
            if is_still && len == 0 {
                break;
            }
        }
        self.heard()
    }

    /// The messages that the program has got, in short.
    fn heard(&mut self) -> Vec<String> {
        let mut heard = Vec::new();
        while let Some(message) = frame(&self.seen, max_len).unwrap() {
            heard.push(short(message.tag, BackendMessage::decode(message).unwrap()));
            let len = message.message_len();
            self.seen.advance(len);
        }
        heard
    }
}

fn piece(pieces: &mut Pieces, len: usize) -> usize {
    match pieces {
        Pieces::Whole => len.min(8192),
        Pieces::Bytes => 1,
        Pieces::Drawn(seed) => len.min(1 + draw(seed, 24) as usize),
    }
}

/// A number below `below`.
pub(crate) fn draw(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

fn short(tag: u8, message: BackendMessage<'_>) -> String {
    let letter = char::from(tag);
    let text = |fields: ErrorFields<'_>, letter| {
        String::from_utf8_lossy(fields.value(letter).unwrap_or_default()).into_owned()
    };
    match message {
        BackendMessage::CommandComplete(it) => format!("C {}", it.tag),
        BackendMessage::ReadyForQuery(it) => {
            let mut out = BytesMut::new();
            it.encode(&mut out);
            format!("Z {}", char::from(out[5]))
        }
        BackendMessage::ErrorResponse(it) => {
            let [code, message, context] =
                [field::CODE, field::MESSAGE, field::WHERE].map(|it2| text(it.fields, it2));
            let at = [
                (field::POSITION, 'P'),
                (field::INTERNAL_QUERY, 'q'),
                (field::INTERNAL_POSITION, 'p'),
            ]
            .map(|(letter, shown)| match text(it.fields, letter) {
                value if value.is_empty() => value,
                value => format!(" {shown}={value}"),
            })
            .concat();
            match context.is_empty() {
                true => format!("E {code} {message}"),
                false => format!("E {code} {message} <{context}>{at}"),
            }
        }
        _ => letter.to_string(),
    }
}

/// A simple query.
pub(crate) fn query(sql: &str) -> BytesMut {
    let mut out = BytesMut::new();
    Query { sql }.encode(&mut out).unwrap();
    out
}

/// Messages of the extended protocol: `P name text`, `B name`, `Ds name`, `Dp`, `E`, `Cs name`, `S`,
/// one a part.
pub(crate) fn extended(parts: &[&str]) -> BytesMut {
    let mut out = BytesMut::new();
    let named = |part: &str| part.split_once(' ').map_or("", |it| it.1).to_owned();
    for part in parts {
        let rest = named(part);
        match part.split(' ').next().unwrap() {
            "P" => {
                let (name, sql) = rest.split_once(' ').unwrap();
                parse::write(&mut out, name.trim_matches('-'), sql, &[]).unwrap();
            }
            "B" => {
                let nothing = |_, _: &mut BytesMut| Ok::<_, EncodeError>(IsNull::Yes);
                let text = Formats::AllText;
                bind::write(&mut out, "", &rest, text, 0, nothing, text).unwrap();
            }
            "Ds" => Describe { target: Target::Statement(&rest) }.encode(&mut out).unwrap(),
            "Dp" => Describe { target: Target::Portal("") }.encode(&mut out).unwrap(),
            "E" => Execute { portal: "", rows_max: 0 }.encode(&mut out).unwrap(),
            "Cs" => Close { target: Target::Statement(&rest) }.encode(&mut out).unwrap(),
            "S" => out.extend_from_slice(&SYNC),
            other => panic!("{other}"),
        }
    }
    out
}
