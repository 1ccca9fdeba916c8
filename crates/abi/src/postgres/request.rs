//! One request as the host wrote it into memory: text, name and parameters, one behind the other.

use bytes::{BufMut, BytesMut};
use onetrip_postgres::Expect;
use onetrip_postgres::message::{
    Close, CopyFail, Describe, EncodeError, Formats, Query, SYNC, Target, bind, execute, parse,
};
use onetrip_postgres::sql::Traits;

use super::statements::{Way, write_prepare};
use crate::export::flag;

/// No parameters.
const NO_PARAMETERS: [u8; 4] = [0; 4];

/// What a COPY FROM STDIN is told, where nobody is there to send it: pg's own words.
const NO_SOURCE: &str = "No source stream defined";

/// A request, borrowed from the host's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission<'a> {
    pub(crate) flags: u32,
    pub(crate) text: &'a str,
    /// A name of the user's own; empty for none.
    pub(crate) name: &'a str,
    /// Formats and parameters as they stand in a Bind; empty for none.
    pub(crate) parameters: &'a [u8],
}

impl<'a> Submission<'a> {
    /// Cuts a request up, and sees that it is one.
    pub(crate) fn read(
        flags: u32,
        bytes: &'a [u8],
        text_len: usize,
        name_len: usize,
    ) -> Option<Submission<'a>> {
        let (text, rest) = bytes.split_at_checked(text_len)?;
        let (name, parameters) = rest.split_at_checked(name_len)?;
        let (text, name) = (str::from_utf8(text).ok()?, str::from_utf8(name).ok()?);
        let known = flags & !flag::ALL == 0;
        // The lengths in them must be right, or the server would lose its place in the stream.
        let fits = parameters.is_empty() || bind::check_parameters(parameters).is_ok();
        let plain = parameters.is_empty() && name.is_empty() && flags & !flag::SIMPLE == 0;
        let whole = flags & flag::SIMPLE == 0 || plain;
        // No C string holds one.
        let no_nul = !(text.contains('\0') || name.contains('\0'));
        (known && fits && whole && no_nul).then_some(Submission { flags, text, name, parameters })
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// So many bytes does it have at most, beside the frames of messages; `close` is a name that goes with it.
    pub(crate) fn size_max(&self, close: &str) -> usize {
        // A name may stand in Close, Parse, Describe and Bind.
        self.text.len() + 4 * self.name.len() + self.parameters.len() + close.len()
    }

    /// Writes a simple query.
    pub(crate) fn write_simple(
        &self,
        traits: Traits,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        Query { sql: self.text }.encode(out)?;
        if traits.copy_in() {
            CopyFail { reason: NO_SOURCE }.encode(out)?;
        }
        Ok(())
    }

    /// Writes a statement that runs in this way.
    pub(crate) fn write(
        &self,
        way: &Way,
        known_as: &str,
        close: Option<&str>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let name = match way {
            Way::Unnamed => "",
            Way::Prepare { name, .. } => name,
            Way::Named { .. } => known_as,
        };
        let closed = match way {
            Way::Prepare { close: true, .. } => Some(name),
            _ => close,
        };
        if let Some(name) = closed {
            Close { target: Target::Statement(name) }.encode(out)?;
        }
        match way {
            Way::Unnamed => parse::write(out, "", self.text, &[])?,
            Way::Prepare { .. } => write_prepare(out, name, self.text)?,
            Way::Named { .. } => {}
        }
        let (parameters, formats) = (self.parameters(), self.result_formats());
        bind::write_encoded(out, "", name, parameters, formats)?;
        if let Way::Unnamed = way {
            Describe { target: Target::Portal("") }.encode(out)?;
        }
        out.put_slice(&execute::UNNAMED_ALL);
        if !self.has(flag::MEMBER) {
            out.put_slice(&SYNC);
        }
        Ok(())
    }

    fn parameters(&self) -> &[u8] {
        if self.parameters.is_empty() { &NO_PARAMETERS } else { self.parameters }
    }

    fn result_formats(&self) -> Formats<'static> {
        if self.has(flag::BINARY) { Formats::AllBinary } else { Formats::AllText }
    }
}

/// What a simple query is answered by.
pub(crate) fn expect_simple(traits: Traits) -> Expect {
    let expect = match (traits.copy_in(), traits.copy()) {
        (true, _) => Expect::copy_in(),
        (false, true) => Expect::copy_out(),
        (false, false) => Expect::simple(),
    };
    expect.of_traits(traits)
}

/// What a statement that runs in this way is answered by.
pub(crate) fn expect(way: &Way, closes: bool, traits: Traits) -> Expect {
    let expect = match way {
        Way::Unnamed => Expect::sync().parse().bind().describe_portal().execute(),
        Way::Prepare { id, .. } => {
            Expect::sync().parse().describe_statement().bind().execute().of_statement(*id)
        }
        Way::Named { id, .. } => Expect::sync().bind().execute().of_statement(*id),
    };
    let closes = closes || matches!(way, Way::Prepare { close: true, .. });
    if closes { expect.close() } else { expect }.of_traits(traits)
}
