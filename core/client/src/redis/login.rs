//! The login: HELLO with AUTH and SETNAME, SELECT, and PING, in one round trip; AUTH and the like
//! instead of HELLO if the server has no HELLO. PING comes last because a server that is loading
//! its data accepts the others, but refuses PING.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use onetrip_redis::client::sentinel::unfit;
use onetrip_redis::scan::{Scan, ScanLimits, Scanner};
use onetrip_redis::{Command, Reply};

use super::settings::Settings;
use crate::completion::close;

/// A login that is not over.
#[derive(Debug)]
pub(super) struct Login {
    settings: Settings,
    scanner: Scanner,
    out: BytesMut,
    /// Replies that have not arrived; the reply to PING is the last.
    left: usize,
    /// RESP3 is asked for, unless the server has refused it.
    protocol: u32,
    /// Whether the server tells which keys were changed.
    tracks: bool,
    /// How many are left at the replies to CLIENT SETINFO, which a server before 7.2 has not.
    of_library: Range<usize>,
    /// The text of the first error that matters.
    error: Option<Bytes>,
    /// Why the server has not the role that it must have.
    unfit: Option<String>,
    /// What the server reports of itself.
    fields: BytesMut,
}

pub(super) enum Progress {
    More,
    Ready { protocol: u32, tracks: bool, fields: Bytes },
    Failed { reason: u32, is_final: bool, block: Bytes },
}

impl Login {
    pub(super) fn new(settings: Settings) -> Login {
        // No login has succeeded yet, so every reply is short.
        let limits = ScanLimits {
            string_bytes_max: 64 << 10,
            items_max: 1024,
            depth_max: 16,
            ..ScanLimits::default()
        };
        let mut login = Login {
            protocol: settings.protocol,
            settings,
            scanner: Scanner::new(limits),
            out: BytesMut::new(),
            left: 0,
            of_library: 0..0,
            tracks: false,
            error: None,
            unfit: None,
            fields: BytesMut::new(),
        };
        login.greet();
        login
    }

    fn greet(&mut self) {
        let settings = &self.settings;
        let (login, name) = (&settings.login, settings.client_name.as_deref());
        let first = match self.protocol {
            3 => vec![login.hello(name)],
            _ => {
                let name = name.map(|name| Command::new("CLIENT SETNAME").arg(name));
                login.auth().into_iter().chain(name).collect()
            }
        };
        let database = settings.database;
        let select = (database > 0).then(|| Command::new("SELECT").arg(database));
        let readonly = settings.readonly.then(|| Command::new("READONLY"));
        let role = settings.role.map(|_| Command::new("ROLE"));
        let tracking = self.tracking().then(|| Command::new("CLIENT TRACKING").arg("ON"));
        let library = ["LIB-NAME", "LIB-VER"].iter().zip(&settings.library);
        let library: Vec<_> = library
            .filter_map(|(what, it)| {
                Some(Command::new("CLIENT SETINFO").arg(*what).arg(it.as_deref()?))
            })
            .collect();
        let rest = select.into_iter().chain(readonly).chain(role).chain(tracking);
        let rest: Vec<_> = rest.chain([Command::new("PING")]).collect();
        self.of_library = rest.len()..rest.len() + library.len();
        for command in first.into_iter().chain(library).chain(rest) {
            command.encode(&mut self.out);
            self.left += 1;
        }
    }

    /// Whether the command before PING asks for the changes of keys. It may be refused.
    fn tracking(&self) -> bool {
        self.settings.tracking && self.protocol == 3
    }

    pub(super) fn transmit(&self) -> &[u8] {
        &self.out
    }

    pub(super) fn written(&mut self, bytes: usize) {
        let _ = self.out.split_to(bytes.min(self.out.len()));
    }

    pub(super) fn receive(&mut self, input: &mut BytesMut) -> Progress {
        loop {
            match self.scanner.scan(input) {
                Err(_) => return failed(close::LOGIN, true, NOT_REDIS),
                Ok(Scan::Need(_)) => return Progress::More,
                Ok(Scan::Whole { len, start, kind }) => {
                    let frame = input.split_to(len).freeze().slice(start..);
                    self.reply(kind, &frame);
                }
            }
            if self.left > 0 {
                continue;
            }
            if let Some(why) = self.unfit.take() {
                let (reason, block) = (close::OTHER_ROLE, Bytes::from(why));
                return Progress::Failed { reason, is_final: false, block };
            }
            match self.error.take() {
                None => {
                    let fields = std::mem::take(&mut self.fields).freeze();
                    let tracks = self.tracks && self.protocol == 3;
                    return Progress::Ready { protocol: self.protocol, tracks, fields };
                }
                Some(error) if self.protocol == 3 && lacks_resp3(&error) => {
                    self.protocol = 2;
                    self.greet();
                }
                Some(error) => {
                    let (reason, is_final) = (close::SERVER, is_final(&error));
                    let hint = self.settings.login.hint(code(&error));
                    let block = [&error[..], hint.as_bytes()].concat().into();
                    return Progress::Failed { reason, is_final, block };
                }
            }
        }
    }

    fn reply(&mut self, kind: u8, frame: &Bytes) {
        if kind == b'>' {
            return;
        }
        self.left -= 1;
        if self.of_library.contains(&self.left) {
            // It is there for whoever looks at the server, and no reason to do without it.
        } else if self.left == 1 && self.tracking() {
            self.tracks = !matches!(kind, b'-' | b'!');
        } else if let Some(role) = self.settings.role
            && self.left == 1 + usize::from(self.tracking())
        {
            let reply = Reply::read(frame).ok().filter(|_| self.error.is_none());
            let why = reply.and_then(|(reply, _)| unfit(role, &reply));
            self.unfit = why.map(|why| format!("is not {role}: {why}"));
        } else if matches!(kind, b'-' | b'!') {
            let text = error_text(frame);
            // The user may not be allowed to send PING, or a script may be running. Neither
            // prevents the login.
            let counts = self.left > 0 || says_not_yet(&text);
            self.error = self.error.take().or(counts.then_some(text));
        } else if kind == b'%' && self.fields.is_empty() {
            put_fields(frame, &mut self.fields);
        }
    }

    /// The peer has closed the connection: why the login failed.
    pub(super) fn closed(&self) -> (u32, bool, Bytes) {
        match &self.error {
            // The server sent an error before it closed.
            Some(error) => (close::SERVER, is_final(error), error.clone()),
            None => (close::LOGIN, false, Bytes::from_static(ENDED.as_bytes())),
        }
    }
}

const NOT_REDIS: &str = "the server does not speak the protocol of Redis (RESP): is the port that of another \
                         service, or does it expect TLS (rediss://)?";

const ENDED: &str = "the connection ended during the login: is it Redis, does it expect TLS (rediss://), or has it \
                     too many clients?";

fn failed(reason: u32, is_final: bool, why: &'static str) -> Progress {
    Progress::Failed { reason, is_final, block: Bytes::from_static(why.as_bytes()) }
}

/// The text of an error reply: its code, a space, and a message.
fn error_text(frame: &Bytes) -> Bytes {
    let lines = frame.strip_suffix(b"\r\n").unwrap_or(frame);
    let text = match lines.first() {
        // The message of a bulk error comes after the line with its length.
        Some(b'!') => lines.split_at(lines.iter().position(|byte| *byte == b'\n').unwrap_or(0)).1,
        _ => lines,
    };
    Bytes::copy_from_slice(text.get(1..).unwrap_or_default())
}

/// Whether the server lacks HELLO or RESP3: Redis before 6, and some servers that imitate it.
fn lacks_resp3(error: &[u8]) -> bool {
    let text = error.to_ascii_lowercase();
    text.starts_with(b"noproto") || text.starts_with(b"err unknown command")
}

/// Whether the answer to PING says that the server takes no commands yet.
fn says_not_yet(error: &[u8]) -> bool {
    matches!(code(error), b"LOADING" | b"NOAUTH")
}

/// Whether a later login can't succeed either.
fn is_final(error: &[u8]) -> bool {
    matches!(code(error), b"WRONGPASS" | b"NOAUTH" | b"NOPERM" | b"DENIED")
}

fn code(error: &[u8]) -> &[u8] {
    error.split(|byte| *byte == b' ').next().unwrap_or_default()
}

/// Names and values of HELLO's reply, up to the first that is neither text nor number: the modules,
/// which come last.
fn put_fields(frame: &[u8], fields: &mut BytesMut) {
    let mut lines = frame.split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end()).skip(1);
    let mut name: Option<&[u8]> = None;
    while let Some(line) = lines.next() {
        let item = match line.first() {
            Some(b'$') => lines.next().unwrap_or_default(),
            Some(b':' | b'+') => &line[1..],
            _ => return,
        };
        match name.take() {
            None => name = Some(item),
            Some(name) => {
                for text in [name, item] {
                    fields.extend(text.iter().filter(|byte| byte.is_ascii_graphic()));
                    fields.put_u8(0);
                }
            }
        }
    }
}
