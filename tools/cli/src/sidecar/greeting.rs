//! What a server says first: whether it is one for the program is decided before the program hears
//! it.

use bytes::BytesMut;
use onetrip_postgres::client::connect::Session;
use onetrip_postgres::client::early::OF_LOGIN;
use onetrip_postgres::message::error_response::field;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{
    Authentication, ErrorResponse, Header, ParameterStatus, max_len, one_line,
};

/// What the bytes of a server mean, from the first one on.
pub(super) enum Greeting {
    /// More has to come.
    Incomplete,
    /// It asks for a password, or the like.
    Asks,
    /// It has asked nothing, and is ready.
    Welcomes(Session),
    Refuses(Refused),
    /// It is not PostgreSQL.
    Other,
}

/// A server's error.
pub(super) struct Refused {
    pub(super) said: BytesMut,
    pub(super) code: String,
    pub(super) text: String,
    /// It had taken the login before.
    pub(super) was_taken: bool,
}

/// Bytes that a server may say before it is clear what they mean.
const SAID_MAX: usize = 64 << 10;

pub(super) fn greeting(said: &[u8]) -> Greeting {
    let (mut rest, mut session, mut was_taken) = (said, Session::default(), false);
    loop {
        let header = match Header::peek(rest) {
            Ok(Some(header)) => header,
            Ok(None) if rest.first().is_none_or(|tag| OF_LOGIN.contains(tag)) => {
                return Greeting::Incomplete;
            }
            _ => return Greeting::Other,
        };
        let is_known = OF_LOGIN.contains(&header.tag) && max_len(header.tag) >= Some(header.len);
        if !is_known || header.message_len() > SAID_MAX || said.len() > SAID_MAX {
            return Greeting::Other;
        }
        let Some(body) = rest.get(Header::LEN..header.message_len()) else {
            return Greeting::Incomplete;
        };
        match header.tag {
            backend::AUTHENTICATION => match Authentication::decode(body) {
                Ok(Authentication::Ok) => was_taken = true,
                Ok(_) => return Greeting::Asks,
                Err(_) => return Greeting::Other,
            },
            backend::PARAMETER_STATUS => match ParameterStatus::decode(body) {
                Ok(it) => session.note(it.name, it.value),
                Err(_) => return Greeting::Other,
            },
            backend::ERROR_RESPONSE => return refusal(said, body, was_taken),
            backend::READY_FOR_QUERY => return Greeting::Welcomes(session),
            _ => {}
        }
        rest = &rest[header.message_len()..];
    }
}

fn refusal(said: &[u8], body: &[u8], was_taken: bool) -> Greeting {
    let Ok(error) = ErrorResponse::decode(body) else { return Greeting::Other };
    let text = |letter| {
        let value = error.fields.value(letter).unwrap_or_default();
        one_line(&String::from_utf8_lossy(value)).to_string()
    };
    let (code, text) = (text(field::CODE), text(field::MESSAGE));
    Greeting::Refuses(Refused { said: said.into(), code, text, was_taken })
}
