//! One request as the host wrote it into memory: text, name and parameters, in this order.

use bytes::{BufMut, BytesMut};
use onetrip_postgres::Expect;
use onetrip_postgres::client::statements::{Closing, Way};
use onetrip_postgres::message::{
    Close, CopyData, CopyFail, EncodeError, Formats, Query, SYNC, Target, bind, parse,
};
use onetrip_postgres::sql::Traits;

use super::statements::Numbered;
use crate::codes::flag;

/// No parameters.
const NO_PARAMETERS: [u8; 4] = [0; 4];

/// The reason of a CopyFail if there is no caller to send data. node-postgres sends the same text.
const NO_SOURCE: &str = "No source stream defined";

/// A request, borrowed from the host's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission<'a> {
    pub(crate) flags: u32,
    pub(crate) text: &'a str,
    /// The name that the user gave the statement; empty for none.
    pub(crate) name: &'a str,
    /// Formats and parameters as in a Bind message, or the first data of a COPY; empty for none.
    pub(crate) parameters: &'a [u8],
}

impl<'a> Submission<'a> {
    /// Splits a request into its parts and checks them.
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
        // Wrong lengths in them would make the server misread the stream.
        let copies = flags & flag::COPY_IN != 0;
        let fits = copies || parameters.is_empty() || bind::check_parameters(parameters).is_ok();
        let plain = (copies || parameters.is_empty()) && name.is_empty();
        let whole = match flags & !flag::STREAM {
            flag::SIMPLE | flag::COPY_IN => plain,
            others => others & (flag::SIMPLE | flag::COPY_IN) == 0,
        };
        // PostgreSQL reads the text and the name as C strings, which end at a NUL.
        let no_nul = !(text.contains('\0') || name.contains('\0'));
        (known && fits && whole && no_nul).then_some(Submission { flags, text, name, parameters })
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The most bytes that it takes, except for message headers. `close_len`: the length of a
    /// statement name that is closed with it.
    pub(crate) fn size_max(&self, close_len: usize) -> usize {
        // The name may be in Close, Parse, Describe and Bind.
        self.text.len() + 4 * self.name.len() + self.parameters.len() + close_len
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

    /// Writes a COPY FROM STDIN and the first of its data.
    pub(crate) fn write_copy(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        Query { sql: self.text }.encode(out)?;
        match self.parameters {
            [] => Ok(()),
            data => CopyData { data }.encode(out),
        }
    }

    /// Writes a statement with this plan. `closes`: the statement that has its name is closed
    /// first.
    pub(crate) fn write(
        &self,
        way: &Way<Numbered>,
        closes: bool,
        close: Option<&Closing>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        if closes {
            Close { target: Target::Statement(self.name) }.encode(out)?;
        }
        close.map_or(Ok(()), |closing| closing.write(out))?;
        let (parameters, formats) = (self.parameters(), self.result_formats());
        way.write(
            out,
            |out, name| parse::write(out, name, self.text, &[]),
            |out, name| bind::write_encoded(out, "", name, parameters, formats),
        )?;
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

/// The reply that a simple query expects.
pub(crate) fn expect_simple(traits: Traits) -> Expect {
    let expect = match (traits.copy_in(), traits.copy()) {
        (true, _) => Expect::copy_in(),
        (false, true) => Expect::copy_out(),
        (false, false) => Expect::simple(),
    };
    expect.of_traits(traits)
}

/// The reply that a statement with this plan expects.
pub(crate) fn expect(way: &Way<Numbered>, closes: bool, traits: Traits) -> Expect {
    let expect = way.expect(Expect::sync().bind().execute());
    if closes { expect.close() } else { expect }.of_traits(traits)
}
