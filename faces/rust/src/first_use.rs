//! The first use of a statement's text.
//!
//! Where nothing has to be guessed it makes one trip. A parameter whose type would be a guess is
//! asked about first: a wrong guess need not be refused, since PostgreSQL casts many types into one
//! another without a word (a moment into a time without zone, for instance). The question travels
//! in front of the statement, which keeps its place in the order. A result without a binary form is
//! found out by the server's refusal, and then asked about too. What was learned is remembered, so
//! that all this happens once per text.

use std::sync::Arc;

use onetrip_engine::Time;
use onetrip_engine::pool::TextKey;
use onetrip_postgres::Expect;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{
    Describe, Format, Formats, IsNull, ParameterDescription, Target, bind, execute, parse,
};
use postgres_types::{Kind as TypeKind, Type};

use crate::metadata::Metadata;
use crate::oids::{result_format, type_of};
use crate::params::check_count;
use crate::params::{self, Alternative, BindError, Found, Params};
use crate::rows::{Asked, Blocks, Column, Columns, columns_of, learned_columns};
use crate::types::TypeCache;
use crate::{Error, Kind, Outcome};

/// A statement whose text was not seen before, with its parameters in every type that they accept.
#[derive(Clone, Debug)]
pub(crate) struct FirstUse {
    params: Vec<Param>,
    /// What was found without asking.
    pub(crate) metadata: Arc<Metadata>,
    /// What the reply looks like, and until when it is waited for.
    pub(crate) expect: Expect,
    pub(crate) deadline: Time,
    /// The server refused a column that has no binary form.
    pub(crate) lacks_binary_form: bool,
}

#[derive(Clone, Debug)]
struct Param {
    found: Found,
    values: Vec<Alternative>,
    /// Types that it would have if its value were another, and why it can't be of them.
    refused: Vec<(Type, String)>,
}

impl FirstUse {
    pub(crate) fn new(
        found: Vec<Found>,
        values: Params<'_>,
        metadata: Arc<Metadata>,
        expect: Expect,
    ) -> Box<FirstUse> {
        let param = |(found, value): (Found, &&(dyn postgres_types::ToSql + Sync))| {
            let (values, refused) = params::alternatives(&found, *value);
            Param { found, values, refused }
        };
        let params = found.into_iter().zip(values).map(param).collect();
        Box::new(FirstUse {
            params,
            metadata,
            expect,
            deadline: Time::NEVER,
            lacks_binary_form: false,
        })
    }

    /// The statement as the pool knows it.
    pub(crate) fn key(&self) -> TextKey {
        self.metadata.key
    }

    /// The Describe without its Sync: what types has this statement?
    pub(crate) fn describe(&self) -> Result<bytes::BytesMut, Error> {
        let mut out = bytes::BytesMut::new();
        // What isn't a guess is named: it may be all that the server has to go by.
        let oids: Vec<u32> = self
            .params
            .iter()
            .map(|param| if param.found.is_guess() { 0 } else { oid_of(&param.found.type_) })
            .collect();
        parse::write(&mut out, "", &self.metadata.sql, &oids).map_err(params::unencodable)?;
        let describe = Describe { target: Target::Statement("") };
        describe.encode(&mut out).map_err(params::unencodable)?;
        Ok(out)
    }

    /// The statement as its description wants it, without its Sync.
    pub(crate) fn answered(
        &self,
        description: &Blocks,
        known: &Arc<TypeCache>,
    ) -> Result<(Arc<Metadata>, bytes::BytesMut), Error> {
        let format = if self.lacks_binary_form { text_where_unsure } else { result_format };
        let (types, columns) = read_description(description, &format, known)?;
        let results = formats_of(&columns);
        check_count(self.params.len(), types.len())?;
        let mut values = Vec::with_capacity(types.len());
        for (number, (param, wanted)) in self.params.iter().zip(&types).enumerate() {
            values.push(param.value(wanted).ok_or_else(|| param.unaccepted(number, wanted))?);
        }
        let types = values.iter().map(|value| value.type_.clone()).collect();
        let metadata =
            Metadata::new(self.metadata.sql.clone(), types, self.metadata.traits, results);
        let mut out = bytes::BytesMut::new();
        let format = |number: usize| values[number].format;
        write_statement(&mut out, &metadata, format, |number, out| match &values[number].bytes {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        })?;
        Ok((metadata, out))
    }
}

impl Param {
    /// The value in the type that the server wants. One whose type was no guess is of that type;
    /// and so is a guess where the statement does not tell: text is what PostgreSQL then assumes.
    fn value(&self, wanted: &Type) -> Option<&Alternative> {
        let mut wanted = wanted;
        while let TypeKind::Domain(base) = wanted.kind() {
            wanted = base;
        }
        let of = |type_: &Type| self.values.iter().find(|value| value.type_ == *type_);
        match self.found.is_guess() && *wanted != Type::TEXT {
            true => of(wanted),
            false => of(&self.found.type_),
        }
    }

    #[cold]
    fn unaccepted(&self, number: usize, wanted: &Type) -> Error {
        let refused = self.refused.iter().find(|(type_, _)| type_ == wanted);
        let reason = refused.map_or_else(String::new, |(_, reason)| format!(": {reason}"));
        Error::new(
            Kind::Conversion,
            Outcome::NotSent,
            "unencodable_parameter",
            format!(
                "parameter ${} is of type {wanted} for the server, to which its value does not \
                 convert{reason}",
                number + 1
            ),
        )
    }
}

/// Whether the server refused a column of the result that has no binary form
/// (getTypeBinaryOutputInfo in src/backend/utils/cache/lsyscache.c), or whose elements have none
/// (array_send, get_range_io_data and get_multirange_io_data in src/backend/utils/adt).
pub(crate) fn lacks_binary_form(error: &Error) -> bool {
    const ROUTINES: [&str; 4] =
        ["getTypeBinaryOutputInfo", "array_send", "get_range_io_data", "get_multirange_io_data"];
    let routine = error.server().and_then(|server| server.routine.as_deref());
    routine.is_some_and(|routine| ROUTINES.contains(&routine))
}

/// Whether an error may come from types or formats that were remembered and have changed since:
/// undefined, ambiguous or mismatched types, values that don't fit, another number of columns.
pub(crate) fn may_be_outdated(error: &Error) -> bool {
    const OF_TYPES: [&str; 9] =
        ["42883", "42725", "42804", "42846", "42P08", "42P18", "22P02", "22P03", "08P01"];
    error.sqlstate().is_some_and(|code| OF_TYPES.contains(&code)) || lacks_binary_form(error)
}

/// Writes a statement by its text: Parse, Bind, Describe, Execute.
pub(crate) fn write_statement(
    out: &mut bytes::BytesMut,
    metadata: &Metadata,
    format: impl Fn(usize) -> Format,
    write_value: impl FnMut(usize, &mut bytes::BytesMut) -> Result<IsNull, BindError>,
) -> Result<(), BindError> {
    const FEW: usize = 16;
    let count = metadata.types.len();
    let (mut few_oids, mut few_formats) = ([0; FEW], [Format::Binary; FEW]);
    let (many_oids, many_formats): (Vec<u32>, Vec<Format>);
    let (oids, formats) = if count <= FEW {
        for (number, type_) in metadata.types.iter().enumerate() {
            few_oids[number] = oid_of(type_);
            few_formats[number] = format(number);
        }
        (&few_oids[..count], &few_formats[..count])
    } else {
        many_oids = metadata.types.iter().map(oid_of).collect();
        many_formats = (0..count).map(format).collect();
        (&many_oids[..], &many_formats[..])
    };
    parse::write(out, "", &metadata.sql, oids)?;
    let formats = Formats::Each(formats);
    metadata
        .with_formats(|results| bind::write(out, "", "", formats, count, write_value, results))?;
    Describe { target: Target::Portal("") }.encode(out)?;
    out.extend_from_slice(&execute::UNNAMED_ALL);
    Ok(())
}

/// Reads the server's description of a statement: the types of its parameters, and its columns in
/// the formats in which they will be asked for.
pub(crate) fn read_description(
    description: &Blocks,
    format: &dyn Fn(&Type) -> Format,
    known: &Arc<TypeCache>,
) -> Result<(Vec<Type>, Columns), Error> {
    let unreadable = || Error::unreadable("the description of the statement can't be read");
    let (mut types, mut columns) = (Vec::new(), Columns::default());
    for (tag, body) in description.messages() {
        match tag {
            backend::PARAMETER_DESCRIPTION => {
                let described = ParameterDescription::decode(body).map_err(|_| unreadable())?;
                let learned = |oid| known.get(oid).unwrap_or_else(|| type_of(oid));
                types = described.types.map(learned).collect();
            }
            backend::ROW_DESCRIPTION => {
                columns = columns_of(body, Asked::ByType(format)).ok_or_else(unreadable)?;
                columns = learned_columns(&columns, known).unwrap_or(columns);
            }
            _ => {}
        }
    }
    Ok((types, columns))
}

/// The formats of columns for metadata: none for all binary.
pub(crate) fn formats_of(columns: &Columns) -> Vec<Format> {
    match columns.iter().any(Column::is_text) {
        true => columns.iter().map(Column::format).collect(),
        false => Vec::new(),
    }
}

/// Types that are not built in are taken as text after a refusal, and so are those that may hold
/// any other type (record, anyarray): one of them is what has no binary form.
fn text_where_unsure(type_: &Type) -> Format {
    match Type::from_oid(type_.oid()) {
        Some(known) if !matches!(known.kind(), TypeKind::Pseudo) => result_format(type_),
        _ => Format::Text,
    }
}

pub(crate) fn oid_of(type_: &Type) -> u32 {
    // Zero leaves it to the server.
    if *type_ == Type::UNKNOWN { 0 } else { type_.oid() }
}
