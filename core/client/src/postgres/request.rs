//! One request as the host wrote it into memory: text, name and parameters, in this order.

use std::num::NonZeroU32;

use bytes::{BufMut, BytesMut};
use onetrip_postgres::Expect;
use onetrip_postgres::client::exact;
use onetrip_postgres::client::retry::GoesOn;
use onetrip_postgres::client::statements::{Closing, Way};
use onetrip_postgres::message::{
    Close, CopyData, CopyFail, Describe, EncodeError, Execute, Format, Formats, Query, SYNC,
    Target, bind, execute, parse,
};
use onetrip_postgres::sql::Traits;

use super::statements::Numbered;
use crate::flag;

/// More than the headers of a use of a statement, with its name.
const USE_MAX: usize = 128;

/// No parameters.
const NO_PARAMETERS: [u8; 4] = [0; 4];

/// The reason of a CopyFail if there is no caller to send data. node-postgres sends the same text.
const NO_SOURCE: &str = "No source stream defined";

/// A request, borrowed from the host's memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Submission<'a> {
    /// Bits of [`flag`].
    pub flags: u32,
    /// The text, without a NUL.
    pub text: &'a str,
    /// The name that the user gave the statement; empty for none.
    pub name: &'a str,
    /// The types of the parameters.
    pub types: Types<'a>,
    /// Formats and parameters as in a Bind message, or the first data of a COPY; empty for none.
    pub parameters: &'a [u8],
    /// Parameters of further uses of the statement, which belong to the same request. The first
    /// error ends it.
    pub more: &'a [Vec<u8>],
    /// The format of each column; empty if all have the same.
    pub formats: &'a [Format],
    /// The portal that it opens, or goes on with if it has no text; empty for none.
    pub portal: Portal<'a>,
    /// A statement behind a COPY FROM STDIN, in its implicit transaction: if it fails, nothing was
    /// copied. Empty for none.
    pub behind: &'a str,
    /// The messages of a statement behind any other, in its implicit transaction: if it fails,
    /// nothing was done. It returns no rows; its tag is the last of the reply. Empty for none.
    pub guard: &'a [u8],
}

/// A portal of a transaction: the rows of a statement, of which each request takes some.
#[derive(Clone, Copy, Debug, Default)]
pub struct Portal<'a> {
    /// Its name; empty for none.
    pub name: &'a str,
    /// The most rows that are taken now. None: it is opened and not run yet.
    pub rows_max: Option<NonZeroU32>,
}

/// The types of the parameters of a statement. By default the server infers them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Types<'a> {
    /// A number that the host never uses for another text or other types; 0 if the server infers
    /// the types.
    pub id: u32,
    /// The OIDs of the types.
    pub oids: &'a [u32],
    /// Whether the host has learned them from the server, and no caller named them.
    pub are_learned: bool,
}

impl<'a> Submission<'a> {
    /// Splits a request into its parts and checks them.
    pub fn read(
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
            flag::DESCRIBE => parameters.is_empty() && name.is_empty(),
            others => others & (flag::SIMPLE | flag::COPY_IN | flag::DESCRIBE) == 0,
        };
        // PostgreSQL reads the text and the name as C strings, which end at a NUL.
        let no_nul = !(text.contains('\0') || name.contains('\0'));
        let (types, formats): (_, &[Format]) = (Types::default(), &[]);
        let rest = Submission::default();
        let submission = Submission { flags, text, name, types, parameters, formats, ..rest };
        (known && fits && whole && no_nul).then_some(submission)
    }

    /// What decides which of its values may go by a type that is remembered.
    pub(crate) fn exactness(&self, is_utc: bool) -> exact::Parameters<'a> {
        exact::Parameters {
            named: self.types.oids,
            are_learned: self.types.are_learned,
            first: self.parameters,
            more: self.more,
            moments: &[],
            is_utc,
            text: self.text,
        }
    }

    /// The same with those types and parameters.
    pub(crate) fn with<'b>(&self, loose: &'b exact::Loosened) -> Submission<'b>
    where
        'a: 'b,
    {
        let types = Types { id: 0, oids: &loose.named, are_learned: false };
        Submission { types, parameters: &loose.first, more: &loose.more, ..*self }
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// How it goes on once its connection has ended.
    pub(crate) fn goes_on(&self, traits: Traits) -> GoesOn {
        match self.has(flag::REPEATABLE) {
            _ if self.has(flag::ELSEWHERE) => GoesOn::Elsewhere,
            true => GoesOn::Repeated { is_read: traits.read_only_select() },
            false => GoesOn::InLine,
        }
    }

    /// The most bytes that it takes, except for message headers. `close_len`: the length of a
    /// statement name that is closed with it.
    pub(crate) fn size_max(&self, close_len: usize) -> usize {
        // The name may be in Close, Parse, Describe and Bind.
        let types = 4 * self.types.oids.len() + 2 * self.formats.len();
        let types = types + 2 * self.portal.name.len();
        let more = |parameters: &Vec<u8>| parameters.len() + 2 * self.formats.len() + USE_MAX;
        let types = types + self.more.iter().map(more).sum::<usize>();
        let text = self.text.len() + self.behind.len() + self.guard.len();
        text + 4 * self.name.len() + types + self.parameters.len() + close_len
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
        match self.behind {
            "" => Query { sql: self.text }.encode(out)?,
            // A comment at the end of the COPY ends with its line.
            behind => Query { sql: &format!("{}\n;{behind}", self.text) }.encode(out)?,
        }
        match self.parameters {
            [] => Ok(()),
            data => CopyData { data }.encode(out),
        }
    }

    /// Writes the request that describes the statement without running it.
    pub(crate) fn write_describe(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        parse::write(out, "", self.text, self.types.oids)?;
        Describe { target: Target::Statement("") }.encode(out)?;
        if !self.has(flag::MEMBER) {
            out.put_slice(&SYNC);
        }
        Ok(())
    }

    /// The reply that a request of a portal expects.
    pub(crate) fn expect_portal(&self, traits: Traits) -> Expect {
        let expect = Expect::sync();
        let expect = match self.text.is_empty() {
            true => expect,
            false => expect.parse().bind(),
        };
        let expect = expect.describe_portal();
        let runs = self.portal.rows_max.is_some();
        if runs { expect.execute() } else { expect }.of_traits(traits)
    }

    /// A reply with that to the statement behind it.
    pub(crate) fn and_behind(&self, expect: Expect) -> Expect {
        if self.guard.is_empty() { expect } else { expect.then_statement() }
    }

    /// Opens a portal, or takes rows of it, or both.
    fn write_portal(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let Portal { name, rows_max } = self.portal;
        if !self.text.is_empty() {
            parse::write(out, "", self.text, self.types.oids)?;
            bind::write_encoded(out, name, "", self.parameters(), self.result_formats())?;
        }
        // What was learned of its columns before may be wrong by now.
        Describe { target: Target::Portal(name) }.encode(out)?;
        if let Some(rows_max) = rows_max {
            let rows_max = i32::try_from(rows_max.get()).unwrap_or(i32::MAX);
            Execute { portal: name, rows_max }.encode(out)?;
        }
        out.put_slice(self.guard);
        out.put_slice(&SYNC);
        Ok(())
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
        if !self.portal.name.is_empty() {
            return self.write_portal(out);
        }
        if closes {
            Close { target: Target::Statement(self.name) }.encode(out)?;
        }
        close.map_or(Ok(()), |closing| closing.write(out))?;
        let (parameters, formats) = (self.parameters(), self.result_formats());
        let mut statement = String::new();
        way.write(
            out,
            |out, name| parse::write(out, name, self.text, self.types.oids),
            |out, name| {
                if !self.more.is_empty() {
                    name.clone_into(&mut statement);
                }
                bind::write_encoded(out, "", name, parameters, formats)
            },
        )?;
        for parameters in self.more {
            bind::write_encoded(out, "", &statement, parameters, formats)?;
            out.put_slice(&execute::UNNAMED_ALL);
        }
        out.put_slice(self.guard);
        if !self.has(flag::MEMBER) {
            out.put_slice(&SYNC);
        }
        Ok(())
    }

    fn parameters(&self) -> &[u8] {
        if self.parameters.is_empty() { &NO_PARAMETERS } else { self.parameters }
    }

    fn result_formats(&self) -> Formats<'a> {
        match (self.formats, self.has(flag::BINARY)) {
            ([], true) => Formats::AllBinary,
            ([], false) => Formats::AllText,
            (each, _) => Formats::Each(each),
        }
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
pub(crate) fn expect(way: &Way<Numbered>, uses: usize, closes: bool, traits: Traits) -> Expect {
    let expect = way.expect(Expect::run(u32::try_from(uses).unwrap_or(u32::MAX)));
    if closes { expect.close() } else { expect }.of_traits(traits)
}
