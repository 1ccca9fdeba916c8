//! A probe's own connection. The probe decides which messages are written. What comes is read
//! without the engine, which would not go on after an answer that it can't explain.

use std::sync::Mutex;
use std::time::Duration;

use bytes::BytesMut;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{
    Close, DataRow, ErrorResponse, Execute, FLUSH, Formats, Frame, IsNull, Query, ReadyForQuery,
    SYNC, ServerError, TERMINATE, Target, TransactionStatus, bind, frame, max_len, parse,
};

use super::diagnosis::Finding;
use crate::cancel::{CancelKey, send_cancel};
use crate::config::{Config, Settings};
use crate::connect::{Opened, establish};
use crate::open::Route;
use crate::params::unencodable;
use crate::socket::Stream;
use crate::{Error, Kind, Outcome};

/// The code of an error that ends the whole examination.
pub(super) const DOCTOR_FAILED: &str = "doctor_failed";

/// How long an answer may take. A peer that hangs does not answer at all, so this is far more than
/// a slow link needs, and short enough for a person who waits for the diagnosis.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How many answers are read at most; no probe asks for more.
const ANSWERS_MAX: usize = 1000;

/// How long a message may be, in bytes: all expected answers are short.
const MESSAGE_LEN_MAX: u32 = 64 << 10;

/// One connection.
pub(super) struct Wire {
    stream: Stream,
    out: BytesMut,
    route: Route,
    key: CancelKey,
    settings: Settings,
    /// What the server reported at the login.
    parameters: Vec<(String, String)>,
    /// The process id from the startup: the server's own, or one that a pooler invented.
    pub(super) process_id: i32,
}

/// An answer, as far as a probe compares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A row, as texts.
    Row(Vec<Option<String>>),
    Error(Box<ServerError>),
    Ready(TransactionStatus),
    Notification,
}

/// Why an answer did not come.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    Silent,
    Broken(String),
}

impl Wire {
    /// Connects as the configuration says.
    pub(super) async fn open(config: &Config) -> Result<Wire, Error> {
        let Opened { stream, ready, route, .. } = establish(config, &Mutex::default()).await?;
        let process_id = ready.process_id;
        let key = CancelKey::new(process_id, ready.secret_key);
        let (settings, parameters) = (config.settings().clone(), ready.parameters);
        Ok(Wire { stream, out: BytesMut::new(), route, key, settings, parameters, process_id })
    }

    /// What the server reported of this name at the login.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.stream.tls().is_some()
    }

    /// Runs a text by the simple protocol. Returns its rows; none if the server refuses it.
    pub(super) async fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Trouble> {
        let answer = self.simple(sql).await?;
        let row = |said| if let Said::Row(row) = said { Some(row) } else { None };
        Ok(answer.into_iter().filter_map(row).collect())
    }

    /// Adds a statement without parameters, in the extended protocol and without a name.
    pub(super) fn statement(&mut self, sql: &str) -> Result<(), Error> {
        self.parse("", sql)?;
        self.execute("")
    }

    pub(super) fn parse(&mut self, name: &str, sql: &str) -> Result<(), Error> {
        parse::write(&mut self.out, name, sql, &[]).map_err(unencodable)
    }

    /// Adds a use of a prepared statement.
    pub(super) fn execute(&mut self, name: &str) -> Result<(), Error> {
        let none = Formats::AllText;
        let value =
            |_, _: &mut BytesMut| Ok::<_, onetrip_postgres::message::EncodeError>(IsNull::Yes);
        bind::write(&mut self.out, "", name, none, 0, value, none).map_err(unencodable)?;
        Execute { portal: "", rows_max: 0 }.encode(&mut self.out).map_err(unencodable)
    }

    pub(super) fn close(&mut self, name: &str) -> Result<(), Error> {
        Close { target: Target::Statement(name) }.encode(&mut self.out).map_err(unencodable)
    }

    pub(super) fn sync(&mut self) {
        self.out.extend_from_slice(&SYNC);
    }

    pub(super) fn flush(&mut self) {
        self.out.extend_from_slice(&FLUSH);
    }

    /// Runs a text by the simple protocol. Returns the answers up to its end.
    pub(super) async fn simple(&mut self, sql: &str) -> Result<Vec<Said>, Trouble> {
        let encoded = Query { sql }.encode(&mut self.out);
        encoded.map_err(|error| Trouble::Broken(error.to_string()))?;
        self.ask(1).await
    }

    /// Sends what was added, and reads until `readies` ReadyForQuery have come, or until the server
    /// has ended the connection with an error.
    pub(super) async fn ask(&mut self, readies: usize) -> Result<Vec<Said>, Trouble> {
        self.send().await?;
        let mut all = Vec::new();
        let mut left = readies;
        while left > 0 {
            let said = self.next().await?;
            left -= usize::from(matches!(said, Said::Ready(_)));
            // Nothing follows a fatal error.
            let is_last = matches!(&said, Said::Error(error) if error.is_fatal());
            all.push(said);
            if is_last {
                break;
            }
            if all.len() > ANSWERS_MAX {
                return Err(Trouble::Broken("it answers without end".to_owned()));
            }
        }
        Ok(all)
    }

    /// Sends what was added.
    pub(super) async fn send(&mut self) -> Result<(), Trouble> {
        let out = self.out.split();
        let sent = async {
            self.stream.write_all(&out).await?;
            self.stream.flush().await
        };
        match tokio::time::timeout(PATIENCE, sent).await {
            Ok(sent) => sent.map_err(|error| Trouble::Broken(error.to_string())),
            Err(_) => Err(Trouble::Silent),
        }
    }

    /// The next answer.
    pub(super) async fn next(&mut self) -> Result<Said, Trouble> {
        let next = tokio::time::timeout(PATIENCE, self.read());
        next.await.unwrap_or(Err(Trouble::Silent))
    }

    async fn read(&mut self) -> Result<Said, Trouble> {
        loop {
            while let Some((len, said)) = self.first()? {
                let _ = self.stream.input.split_to(len);
                if let Some(said) = said {
                    return Ok(said);
                }
            }
            let received = self.stream.read().await;
            if let (0, Some(end)) = (received.bytes, received.end) {
                return Err(Trouble::Broken(end.to_string()));
            }
        }
    }

    /// The first complete message, and its length.
    fn first(&self) -> Result<Option<(usize, Option<Said>)>, Trouble> {
        let limit = |tag| max_len(tag).map(|most| most.min(MESSAGE_LEN_MAX));
        let broken =
            |error: onetrip_postgres::message::Violation| Trouble::Broken(error.to_string());
        let Some(frame) = frame(&self.stream.input, limit).map_err(broken)? else {
            return Ok(None);
        };
        Ok(Some((frame.message_len(), said(frame).map_err(broken)?)))
    }

    /// Sends a cancel for what runs on this connection, and returns when the peer has closed the
    /// connection of the cancel. This connection shows whether it had an effect.
    pub(super) async fn cancel(&self) {
        let cancel = send_cancel(&self.settings, &self.route, &self.key);
        // If the cancel can't be sent, the statement runs to its end, which shows.
        let _ = tokio::time::timeout(PATIENCE, cancel).await;
    }

    /// Says goodbye, so that nobody logs a lost client.
    pub(super) async fn end(mut self) {
        self.out.clear();
        self.out.extend_from_slice(&TERMINATE);
        let _ = self.send().await;
    }
}

fn said(frame: Frame<'_>) -> Result<Option<Said>, onetrip_postgres::message::Violation> {
    Ok(match frame.tag {
        backend::DATA_ROW => {
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let values = DataRow::decode(frame.body)?.values;
            Some(Said::Row(values.map(|value| value.map(text)).collect()))
        }
        backend::ERROR_RESPONSE => {
            Some(Said::Error(Box::new(ErrorResponse::decode(frame.body)?.into())))
        }
        backend::READY_FOR_QUERY => Some(Said::Ready(ReadyForQuery::decode(frame.body)?.status)),
        backend::NOTIFICATION_RESPONSE => Some(Said::Notification),
        _ => None,
    })
}

/// The first value, if there is one.
pub(super) fn value(answer: &[Said]) -> Option<&str> {
    answer.iter().find_map(|said| match said {
        Said::Row(row) => row.first()?.as_deref(),
        _ => None,
    })
}

/// The first error, if there is one.
pub(super) fn refusal(answer: &[Said]) -> Option<&ServerError> {
    answer.iter().find_map(|said| match said {
        Said::Error(error) => Some(error.as_ref()),
        _ => None,
    })
}

impl Trouble {
    pub(super) fn into_finding(self) -> Finding {
        match self {
            Trouble::Silent => Finding::Hangs,
            Trouble::Broken(why) => Finding::Differs(format!("the connection broke: {why}")),
        }
    }

    /// The error of a probe without which the examination can't go on.
    pub(super) fn into_error(self) -> Error {
        let message = match self {
            Trouble::Silent => {
                format!(
                    "the server did not answer a plain statement within {} s",
                    PATIENCE.as_secs()
                )
            }
            Trouble::Broken(why) => format!("the connection broke at a plain statement: {why}"),
        };
        Error::new(Kind::Transport, Outcome::Unknown, DOCTOR_FAILED, message)
    }
}
