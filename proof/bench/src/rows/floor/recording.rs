//! What is sent again: the requests of a round, cut where each ends, and how long their answers
//! were. Of either protocol no more is known here than where its messages end.

use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use serde::{Serialize, Serializer};

use super::recorder::Tape;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    Postgres,
    Redis,
}

/// As the floor for Node reads it, too (proof/bench/js/drivers/floor.js).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recording {
    pub protocol: Protocol,
    /// Prepares the statements that the requests name.
    #[serde(serialize_with = "hex")]
    pub setup: Vec<u8>,
    /// One behind the other.
    #[serde(serialize_with = "hex")]
    pub requests: Vec<u8>,
    /// Where each request ends.
    pub ends: Vec<usize>,
    /// Bytes of all their answers.
    pub answers: usize,
    /// Of what was read: who gets the same answers has read the same.
    pub checksum: u64,
}

impl Recording {
    /// A round whose checksum was this, or so many requests from its beginning. `before` is what
    /// had been sent until then.
    pub fn of(
        protocol: Protocol,
        (before, round): (&Tape, Tape),
        count: Option<usize>,
        checksum: u64,
    ) -> Result<Recording> {
        let mut ends = protocol.requests(&round.sent)?;
        let count = count.unwrap_or(ends.len());
        ensure!(ends.len() >= count, "{} requests were recorded, not {count}", ends.len());
        ends.truncate(count);
        let mut requests = round.sent;
        requests.truncate(ends.last().copied().unwrap_or_default());
        Ok(Recording {
            setup: protocol.setup(&before.sent)?,
            answers: protocol.length_of_answers(&round.answered, count)?,
            protocol,
            requests,
            ends,
            checksum,
        })
    }

    /// The bytes of these.
    pub fn requests(&self, Range { start, end }: Range<usize>) -> &[u8] {
        let begin = |request: usize| request.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.requests[begin(start)..begin(end)]
    }
}

impl Protocol {
    /// How many bytes are whole messages, and how many answers end with them. A message by which
    /// the server refuses is an error here.
    pub fn answers(self, bytes: &[u8]) -> Result<(usize, usize)> {
        let (mut at, mut count) = (0, 0);
        while let Some((kind, length)) = self.next(&bytes[at..])? {
            match (self, kind) {
                (Protocol::Postgres, b'E') | (Protocol::Redis, b'-') => {
                    let text = String::from_utf8_lossy(&bytes[at..at + length]);
                    bail!("the server refused what was recorded: {}", text.escape_debug());
                }
                (Protocol::Postgres, b'Z') | (Protocol::Redis, _) => count += 1,
                _ => {}
            }
            at += length;
        }
        Ok((at, count))
    }

    /// The first message, if it is whole: what it begins with, and its length.
    #[inline]
    fn next(self, bytes: &[u8]) -> Result<Option<(u8, usize)>> {
        let Some(&kind) = bytes.first() else { return Ok(None) };
        let length = match self {
            Protocol::Postgres => message_length(bytes),
            Protocol::Redis => value_length(bytes)?,
        };
        Ok(length.filter(|length| *length <= bytes.len()).map(|length| (kind, length)))
    }

    fn length_of_answers(self, bytes: &[u8], count: usize) -> Result<usize> {
        let (mut at, mut left) = (0, count);
        while left > 0 {
            let next = self.next(&bytes[at..])?;
            let (kind, length) = next.context("the recorded answers end early")?;
            left -= usize::from(self == Protocol::Redis || kind == b'Z');
            at += length;
        }
        Ok(at)
    }

    /// Where each request ends.
    fn requests(self, bytes: &[u8]) -> Result<Vec<usize>> {
        let (mut at, mut ends) = (0, Vec::new());
        while at < bytes.len() {
            let is_end;
            (at, is_end) = match self {
                Protocol::Postgres => {
                    let (kind, length) =
                        self.next(&bytes[at..])?.context("the recorded requests end early")?;
                    // Data of a COPY follows its statement at once.
                    let is_copy = matches!(bytes.get(at + length), Some(b'd' | b'c'));
                    (at + length, matches!(kind, b'S' | b'c') || (kind == b'Q' && !is_copy))
                }
                Protocol::Redis => (at + command_length(&bytes[at..])?, true),
            };
            if is_end {
                ends.push(at);
            }
        }
        Ok(ends)
    }

    /// Of what was sent since a connection was opened: what prepares statements with names.
    fn setup(self, sent: &[u8]) -> Result<Vec<u8>> {
        let mut setup = Vec::new();
        if self == Protocol::Redis {
            return Ok(setup);
        }
        // What a connection begins with has a length and no kind.
        let mut at = 0;
        while sent.get(at) == Some(&0) {
            at += number(&sent[at..]).context("what was recorded ends early")?;
        }
        while let Some((kind, length)) = self.next(&sent[at..])? {
            let is_named = sent.get(at + HEADER) != Some(&0);
            if kind == b'C' || (kind == b'P' && is_named) {
                setup.extend_from_slice(&sent[at..at + length]);
            }
            at += length;
        }
        setup.extend_from_slice(b"S\0\0\0\x04");
        Ok(setup)
    }
}

/// Of a message of PostgreSQL, with its kind.
#[inline]
fn message_length(bytes: &[u8]) -> Option<usize> {
    number(bytes.get(1..)?).map(|length| length + 1)
}

#[inline]
fn number(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize)
}

/// Kind and length.
const HEADER: usize = 5;

/// Of a string, a number or a line of Redis; None while its length has not come.
#[inline]
fn value_length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some(line) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    match bytes[0] {
        b'$' => Ok(Some(line + 1 + decimal(&bytes[1..line])? + 2)),
        b'+' | b'-' | b':' | b'_' => Ok(Some(line + 1)),
        kind => bail!("an answer of Redis begins with {:?}", char::from(kind)),
    }
}

/// Of a command of Redis: an array of strings.
fn command_length(bytes: &[u8]) -> Result<usize> {
    let line = bytes.iter().position(|byte| *byte == b'\n').context("a command ends early")?;
    ensure!(bytes[0] == b'*', "a command of Redis is no array");
    let mut at = line + 1;
    for _ in 0..decimal(&bytes[1..line])? {
        at += value_length(&bytes[at..])?.context("a command ends early")?;
    }
    Ok(at)
}

/// Digits, and what comes in front of the end of a line.
#[inline]
fn decimal(digits: &[u8]) -> Result<usize> {
    let mut number = 0;
    for digit in digits.iter().filter(|byte| **byte != b'\r') {
        ensure!(digit.is_ascii_digit(), "a length of Redis has {:?}", char::from(*digit));
        number = number * 10 + usize::from(digit - b'0');
    }
    Ok(number)
}

fn hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let digit = |four: u8| char::from_digit(four.into(), 16).unwrap_or_default();
    let text: String = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    serializer.serialize_str(&text)
}
