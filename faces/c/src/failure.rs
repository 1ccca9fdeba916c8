//! Why a call failed, as the header says it.

use bytes::Bytes;
use onetrip_client::completion::{end, outcome, outcome_code, outcome_of};
use onetrip_client::postgres::Refused;
use onetrip_engine::Outcome;
use onetrip_postgres::client::said::{self, Said};
use onetrip_postgres::client::transaction::verdict::{Leaver, left};
use onetrip_postgres::message::error_response::field;
use onetrip_postgres::message::{ErrorResponse, ServerError};
use onetrip_redis::Reply;

use crate::status;

/// Why a call failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure {
    /// The SQLSTATE, the first word of an error of Redis, or a word of this side's.
    pub(crate) code: String,
    /// One of `completion::outcome`.
    pub(crate) outcome: u32,
    pub(crate) message: String,
    pub(crate) detail: String,
    pub(crate) hint: String,
    pub(crate) constraint: String,
    /// The server said so.
    pub(crate) is_servers: bool,
    /// Which statement of a pipeline is the cause, from 1.
    pub(crate) statement: usize,
    /// Its transaction may be run again from its start.
    pub(crate) runs_again: bool,
}

impl Failure {
    pub(crate) fn said(code: &str, outcome: u32, message: impl Into<String>) -> Failure {
        Failure { code: code.into(), outcome, message: message.into(), ..Failure::default() }
    }

    /// Nothing was sent.
    pub(crate) fn unsent(code: &str, message: impl Into<String>) -> Failure {
        Failure::said(code, outcome::NOT_SENT, message)
    }

    pub(crate) fn closed() -> Failure {
        Failure::unsent("closed", "the client was closed")
    }

    /// What every language says of it.
    pub(crate) fn told(said: Said, outcome: u32) -> Failure {
        Failure::said(said.code, outcome, said.text)
    }

    /// The fields of an ErrorResponse.
    pub(crate) fn of_server(about: &str, block: &[u8], outcome: u32) -> Failure {
        let Some(error) = body(block).and_then(|body| ErrorResponse::decode(body).ok()) else {
            return Failure::said("protocol", outcome, "an error of the server can't be read");
        };
        let text = |letter| {
            let value = error.fields.value(letter).unwrap_or_default();
            String::from_utf8_lossy(value).into_owned()
        };
        Failure {
            code: text(field::CODE),
            outcome,
            message: format!("{about}{}", text(field::MESSAGE)),
            detail: text(field::DETAIL),
            hint: text(field::HINT),
            constraint: text(field::CONSTRAINT),
            is_servers: true,
            ..Failure::default()
        }
    }

    /// An error reply of Redis.
    pub(crate) fn of_reply(frame: &[u8], outcome: u32) -> Failure {
        let text = match Reply::read(frame) {
            Ok((Reply::Error(error), _)) => String::from_utf8_lossy(error.text()).into_owned(),
            _ => "an error of the server can't be read".to_owned(),
        };
        let code = text.split(' ').next().unwrap_or_default().to_owned();
        Failure { code, outcome, message: text, is_servers: true, ..Failure::default() }
    }

    /// What the end of a request means; none where it did not fail. `lost`: what became of its
    /// connection.
    pub(crate) fn of_end(how: u32, block: &Bytes, lost: &Loss) -> Option<Failure> {
        let (how, outcome) = (how & 0xff, how >> 8);
        if let Some(said) = end::said(how, outcome) {
            return Some(Failure::told(said, outcome));
        }
        let about = match how {
            end::COMPLETE | end::PROVISIONAL => return None,
            end::CLOSED => return Some(lost.failure(outcome)),
            end::BEGIN => "BEGIN failed: ",
            end::SAVEPOINT => "SAVEPOINT failed: ",
            end::ROLLED_BACK => return Some(Failure::rolled_back(block, outcome)),
            _ if onetrip_redis::client::list::is_error(block) => {
                return Some(Failure::of_reply(block, outcome));
            }
            _ => "",
        };
        Some(Failure::of_server(about, block, outcome))
    }

    /// A text with a zero byte, and then the server's error, if that is known.
    fn rolled_back(block: &[u8], outcome: u32) -> Failure {
        let text = block.split(|byte| *byte == 0).next().unwrap_or_default();
        let behind = block.get(text.len() + 1..).unwrap_or_default();
        let message = String::from_utf8_lossy(text).into_owned();
        match body(behind).and_then(|body| ErrorResponse::decode(body).ok()) {
            None => Failure::said("rolled_back", outcome, message),
            Some(_) => {
                let cause = Failure::of_server("", behind, outcome);
                let message = format!("{message}: {} (SQLSTATE {})", cause.message, cause.code);
                Failure { code: "rolled_back".into(), message, is_servers: false, ..cause }
            }
        }
    }

    /// Nothing of it was sent.
    pub(crate) fn refused(refused: Refused, lost: &Loss) -> Failure {
        let said = match refused {
            Refused::Closed => return lost.failure(outcome::NOT_SENT),
            Refused::Full => said::QUEUE_FULL,
            Refused::Malformed => said::UNENCODABLE,
            Refused::NameTaken => said::NAME_TAKEN,
            Refused::NoMemory => said::NO_MEMORY,
            Refused::TooLong => said::TOO_LONG,
        };
        Failure::told(said, outcome::NOT_SENT)
    }

    /// The same as the layer below has it.
    pub(crate) fn known(&self) -> Outcome {
        outcome_of(self.outcome)
    }

    pub(crate) fn with_outcome(self, outcome: u32) -> Failure {
        Failure { outcome, ..self }
    }

    /// The same of a COMMIT or RELEASE, which speaks of all that it would have kept. `has_left`: a
    /// part of that may have reached the server.
    pub(crate) fn of_whole(self, has_left: bool) -> Failure {
        let outcome = left(outcome_of(self.outcome), Leaver::Commit, has_left);
        self.with_outcome(outcome_code(outcome))
    }

    /// Whether it was skipped, since what stands in front of it has failed.
    pub(crate) fn is_aborted(&self) -> bool {
        self.code == said::ABORTED.code
    }

    /// Whether all took effect, and only its reply is not kept.
    pub(crate) fn is_of_reading(&self) -> bool {
        self.outcome == outcome::APPLIED
    }

    pub(crate) fn is_loss(&self) -> bool {
        self.code == LOST
    }

    /// Whether its connection had no room for it, so that nothing of it was sent.
    pub(crate) fn is_of_room(&self) -> bool {
        self.code == said::QUEUE_FULL.code
    }

    /// What the functions of the header return.
    pub(crate) fn status(&self) -> i32 {
        if self.is_servers {
            return status::SERVER;
        }
        match &*self.code {
            LOST => status::LOST,
            "connect_failed" => status::CONNECT,
            "timeout" | "wait_timeout" => status::TIMEOUT,
            "cancelled" => status::CANCELLED,
            "aborted" | "rolled_back" => status::ABORTED,
            _ if self.outcome == outcome::NOT_SENT => status::REFUSED,
            _ => status::FAILED,
        }
    }
}

/// The body of the first message.
fn body(block: &[u8]) -> Option<&[u8]> {
    block.get(5..)
}

const LOST: &str = "connection_lost";

/// What became of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Loss(String);

impl Loss {
    pub(crate) fn lost(why: &str) -> Loss {
        Loss(format!("the connection was lost: {why}"))
    }

    /// The server said why.
    pub(crate) fn told(block: &[u8]) -> Loss {
        let error = body(block).and_then(|body| ErrorResponse::decode(body).ok());
        Loss::lost(&error.map(ServerError::from).map_or_else(String::new, |it| it.to_string()))
    }

    pub(crate) fn failure(&self, outcome: u32) -> Failure {
        Failure::said(LOST, outcome, self.0.clone())
    }
}
