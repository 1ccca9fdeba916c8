//! The first use of a statement's text.
//!
//! If no type has to be guessed, it makes one trip. If a parameter's type would be a guess, the
//! server is asked first: a wrong guess need not be refused, since PostgreSQL silently casts many
//! types into one another (a `timestamptz` into a `timestamp`, for instance). The question travels
//! in front of the statement, which keeps its place in the order. If a column of the result has no
//! binary form, the server refuses the statement, and then it is asked, too. The answer is
//! remembered, so all this happens once per text.

use std::sync::Arc;

use onetrip_engine::Time;
use onetrip_engine::pool::TextKey;
use onetrip_postgres::Expect;
use onetrip_postgres::client::{first_use, migrated};
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
    /// The metadata as far as it is known without asking.
    pub(crate) metadata: Arc<Metadata>,
    /// What the reply looks like, and the deadline.
    pub(crate) expect: Expect,
    pub(crate) deadline: Time,
    /// Whether the server refused a column that has no binary form.
    pub(crate) lacks_binary_form: bool,
}

#[derive(Clone, Debug)]
struct Param {
    found: Found,
    values: Vec<Alternative>,
    /// The types that other values of the Rust type would have, and why this value can't have them;
    /// and that Rust type, as a part of a sentence, if there are any.
    refused: Vec<(Type, String)>,
    of: String,
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
            let of = if refused.is_empty() { String::new() } else { params::of_rust_type(*value) };
            Param { found, values, refused, of }
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

    /// The key of the statement's text in the pool.
    pub(crate) fn key(&self) -> TextKey {
        self.metadata.key
    }

    /// The Describe, without its Sync, that asks for the statement's types.
    pub(crate) fn describe(&self) -> Result<bytes::BytesMut, Error> {
        let mut out = bytes::BytesMut::new();
        // Types that are no guess are named: the server may have nothing else to go by.
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

    /// The statement as its description requires it, without its Sync.
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
            let value = param.value(wanted).ok_or_else(|| param.unaccepted(number, wanted))?;
            values.push(param.moment(value, wanted).unwrap_or_else(|| value.clone()));
        }
        let types = values.iter().map(|value| value.type_.clone()).collect();
        let metadata =
            Metadata::asked(self.metadata.sql.clone(), types, self.metadata.traits, results);
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
    /// The value in the type that the server wants. If the type was no guess, the value has that
    /// type. So does a guess if the statement does not determine the type: the server then says
    /// text, its default.
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

    /// The value without a type of its own, where the server wants a moment and it is one.
    fn moment(&self, value: &Alternative, wanted: &Type) -> Option<Alternative> {
        let is_asked = self.found.is_guess() && *wanted != Type::TEXT;
        is_asked.then(|| params::moment_among(&self.values, &value.type_)).flatten()
    }

    #[cold]
    fn unaccepted(&self, number: usize, wanted: &Type) -> Error {
        let refused = self.refused.iter().find(|(type_, _)| type_ == wanted);
        let reason = refused.map_or_else(String::new, |(_, reason)| format!(": {reason}"));
        Error::new(
            Kind::Conversion,
            Outcome::NotSent,
            params::UNENCODABLE,
            format!(
                "parameter ${}{} is of type {wanted} for the server, to which its value does not \
                 convert{reason}",
                number + 1,
                self.of
            ),
        )
    }
}

/// Whether the server refused a column of the result because it has no binary form.
pub(crate) fn lacks_binary_form(error: &Error) -> bool {
    first_use::lacks_binary_form(routine_of(error))
}

/// Whether an error of a text that was remembered ends what is remembered of all.
pub(crate) fn ends_all(error: &Error) -> bool {
    migrated::ends_all(error.sqlstate(), routine_of(error), error.where_().is_some())
}

/// Whether the cause of an error may be remembered types or formats that have changed since.
pub(crate) fn may_be_outdated(error: &Error) -> bool {
    first_use::may_be_outdated(error.sqlstate(), routine_of(error))
}

fn routine_of(error: &Error) -> Option<&str> {
    error.server().and_then(|server| server.routine.as_deref())
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
/// the formats in which they will be requested.
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

/// The formats of columns for metadata: an empty list if all are binary.
pub(crate) fn formats_of(columns: &Columns) -> Vec<Format> {
    match columns.iter().any(Column::is_text) {
        true => columns.iter().map(Column::format).collect(),
        false => Vec::new(),
    }
}

/// After a refusal, types that are not built in are requested as text, and so are those that may
/// hold any other type (record, anyarray): one of them has no binary form.
fn text_where_unsure(type_: &Type) -> Format {
    match Type::from_oid(type_.oid()) {
        Some(known) if !matches!(known.kind(), TypeKind::Pseudo) => result_format(type_),
        _ => Format::Text,
    }
}

pub(crate) fn oid_of(type_: &Type) -> u32 {
    // Zero lets the server infer the type.
    if *type_ == Type::UNKNOWN { 0 } else { type_.oid() }
}
