//! The first use of a statement's text. It makes one trip where nothing has to be guessed, and
//! where the guess holds. If the server refuses it, a second trip asks what the statement wants and
//! a third runs it; what was learned is remembered, so that this happens once per text.

use std::sync::Arc;

use onetrip_engine::{Request, Time, Token};
use onetrip_postgres::Expect;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{
    Describe, Format, Formats, IsNull, ParameterDescription, SYNC, Target, bind, execute, parse,
};
use postgres_types::Type;

use crate::core::Shared;
use crate::oids::{result_format, type_of};
use crate::params::{self, BindError, Found, Params, format_of};
use crate::replies::Finished;
use crate::rows::{Blocks, columns_of};
use crate::shapes::Shape;
use crate::{Error, Kind, Outcome};

/// A statement whose text was not seen before, with its parameters in every type that they accept.
#[derive(Debug)]
pub(crate) struct FirstUse {
    sql: String,
    params: Vec<Param>,
    /// What was sent, to be remembered if it is accepted.
    shape: Arc<Shape>,
    stage: Stage,
    deadline: Time,
    expect: Expect,
}

#[derive(Debug)]
enum Stage {
    /// Sent with what was found; may be asked about if it is refused.
    Tried { ask: bool },
    /// Asked about; the refusal of the first try is kept.
    Asked { refusal: Option<Error> },
}

#[derive(Debug)]
struct Param {
    found: Found,
    /// Its bytes in each type that it accepts; `None` is NULL.
    values: Vec<(Type, Option<Vec<u8>>)>,
}

impl FirstUse {
    /// `ask`: a refusal may be followed by a question, since it leaves nothing behind: the statement
    /// is a transaction of its own.
    pub(crate) fn new(
        sql: &str,
        found: Vec<Found>,
        values: Params<'_>,
        shape: Arc<Shape>,
        ask: bool,
    ) -> Box<FirstUse> {
        let param = |(found, value): (Found, &&(dyn postgres_types::ToSql + Sync))| {
            let values = params::alternatives(&found, *value);
            Param { found, values }
        };
        let params = found.into_iter().zip(values).map(param).collect();
        Box::new(FirstUse {
            sql: sql.into(),
            params,
            shape,
            stage: Stage::Tried { ask },
            deadline: Time::NEVER,
            expect: Expect::sync(),
        })
    }

    pub(crate) fn for_request(mut self: Box<Self>, deadline: Time, expect: Expect) -> Box<Self> {
        self.deadline = deadline;
        self.expect = expect;
        self
    }

    /// Asks before the first try.
    pub(crate) fn asked(mut self: Box<Self>) -> Box<Self> {
        self.stage = Stage::Asked { refusal: None };
        self
    }

    /// Whether the request on its way is the question.
    pub(crate) fn describes(&self) -> bool {
        matches!(self.stage, Stage::Asked { .. })
    }

    /// The question without its Sync: what types has this statement?
    pub(crate) fn question(&self) -> Result<bytes::BytesMut, Error> {
        let mut out = bytes::BytesMut::new();
        // What isn't a guess is named: it may be all that the server has to go by.
        let oids: Vec<u32> = self
            .params
            .iter()
            .map(|param| if param.found.is_guess() { 0 } else { oid_of(&param.found.type_) })
            .collect();
        parse::write(&mut out, "", &self.sql, &oids).map_err(params::unencodable)?;
        let describe = Describe { target: Target::Statement("") };
        describe.encode(&mut out).map_err(params::unencodable)?;
        Ok(out)
    }

    /// After a request has ended: the result, or the request that follows it.
    #[allow(clippy::type_complexity)]
    pub(crate) fn next(
        mut self: Box<Self>,
        shared: &Arc<Shared>,
        blocks: &Blocks,
        result: Result<Finished, Error>,
    ) -> (Result<Finished, Error>, Option<(Token, Box<FirstUse>)>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Tried { ask: false });
        match (stage, result) {
            (Stage::Tried { .. }, Ok(finished)) => {
                shared.shapes.remember(&self.sql, self.shape);
                (Ok(finished), None)
            }
            (Stage::Tried { ask: true }, Err(error)) if self.may_be_answered(&error) => {
                self.stage = Stage::Asked { refusal: Some(error.clone()) };
                let submitted = self.question().and_then(|mut bytes| {
                    bytes.extend_from_slice(&SYNC);
                    shared.submit_isolated(
                        Expect::sync().parse().describe_statement(),
                        &bytes,
                        self.deadline,
                    )
                });
                match submitted {
                    Ok(token) => (Err(error), Some((token, self))),
                    Err(_) => (Err(error), None),
                }
            }
            (Stage::Tried { .. }, Err(error)) => (Err(error), None),
            (Stage::Asked { refusal }, Err(error)) => (Err(refusal.unwrap_or(error)), None),
            (Stage::Asked { .. }, Ok(_)) => match self.answer(shared, blocks) {
                Ok(token) => (Ok(Finished::Settled), Some((token, self))),
                Err(error) => (Err(error), None),
            },
        }
    }

    /// Whether the error may come from a guess, or from a column without a binary form.
    fn may_be_answered(&self, error: &Error) -> bool {
        let Some(server) = error.server() else { return false };
        // getTypeBinaryOutputInfo in src/backend/utils/cache/lsyscache.c.
        if server.routine.as_deref() == Some("getTypeBinaryOutputInfo") {
            return true;
        }
        // Undefined, ambiguous or mismatched types, and values that don't fit the type.
        const OF_TYPES: [&str; 8] =
            ["42883", "42725", "42804", "42846", "42P08", "42P18", "22P02", "22P03"];
        self.params.iter().any(|param| param.found.is_guess())
            && OF_TYPES.contains(&server.code.as_str())
    }

    /// Sends the statement as its description wants it.
    fn answer(&mut self, shared: &Arc<Shared>, description: &Blocks) -> Result<Token, Error> {
        let (shape, mut out) = self.answered(description)?;
        out.extend_from_slice(&SYNC);
        self.shape = shape;
        shared.submit_isolated(self.expect, &out, self.deadline)
    }

    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    /// The statement as its description wants it, without its Sync.
    pub(crate) fn answered(
        &self,
        description: &Blocks,
    ) -> Result<(Arc<Shape>, bytes::BytesMut), Error> {
        let (types, results) = read_description(description)?;
        let mut values = Vec::with_capacity(types.len());
        for (number, (param, wanted)) in self.params.iter().zip(&types).enumerate() {
            let own = if param.found.is_guess() { wanted } else { &param.found.type_ };
            let value = param.values.iter().find(|(type_, _)| type_ == own);
            values.push(value.ok_or_else(|| unaccepted(number, wanted))?);
        }
        let shape = Arc::new(Shape {
            types: values.iter().map(|(type_, _)| type_.clone()).collect(),
            formats: values.iter().map(|(type_, _)| format_of(type_)).collect(),
            results,
        });
        let mut out = bytes::BytesMut::new();
        write_statement(&mut out, &self.sql, &shape, |number, out| match &values[number].1 {
            Some(bytes) => {
                out.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        })?;
        Ok((shape, out))
    }
}

/// Writes a statement by its text: Parse, Bind, Describe, Execute.
pub(crate) fn write_statement(
    out: &mut bytes::BytesMut,
    sql: &str,
    shape: &Shape,
    write_value: impl FnMut(usize, &mut bytes::BytesMut) -> Result<IsNull, BindError>,
) -> Result<(), BindError> {
    const OIDS_MAX: usize = 16;
    let count = shape.types.len();
    let mut few = [0; OIDS_MAX];
    let many: Vec<u32>;
    let oids = if count <= OIDS_MAX {
        few.iter_mut().zip(&shape.types).for_each(|(oid, type_)| *oid = oid_of(type_));
        &few[..count]
    } else {
        many = shape.types.iter().map(oid_of).collect();
        &many
    };
    parse::write(out, "", sql, oids)?;
    let formats = Formats::Each(&shape.formats);
    bind::write(out, "", "", formats, count, write_value, results_of(&shape.results))?;
    Describe { target: Target::Portal("") }.encode(out)?;
    out.extend_from_slice(&execute::UNNAMED_ALL);
    Ok(())
}

/// The formats of columns as Bind names them.
pub(crate) fn results_of(results: &[Format]) -> Formats<'_> {
    if results.is_empty() { Formats::AllBinary } else { Formats::Each(results) }
}

/// Reads the reply to a question: types of the parameters, formats for the columns.
fn read_description(description: &Blocks) -> Result<(Vec<Type>, Vec<Format>), Error> {
    let unreadable = || Error::unreadable("the description of the statement can't be read");
    let (mut types, mut results) = (Vec::new(), Vec::new());
    for (tag, body) in description.messages() {
        match tag {
            backend::PARAMETER_DESCRIPTION => {
                let described = ParameterDescription::decode(body).map_err(|_| unreadable())?;
                types = described.types.map(type_of).collect();
            }
            backend::ROW_DESCRIPTION => {
                let columns = columns_of(body, Some(&text_where_unsure)).ok_or_else(unreadable)?;
                let format = |column: &crate::Column| match column.is_text() {
                    true => Format::Text,
                    false => Format::Binary,
                };
                results = columns.iter().map(format).collect();
            }
            _ => {}
        }
    }
    Ok((types, results))
}

/// After a refusal, types that are not built in are taken as text: one of them has no binary form.
fn text_where_unsure(type_: &Type) -> Format {
    match Type::from_oid(type_.oid()) {
        Some(_) => result_format(type_),
        None => Format::Text,
    }
}

fn unaccepted(number: usize, wanted: &Type) -> Error {
    Error::new(
        Kind::Conversion,
        Outcome::NotSent,
        "unencodable_parameter",
        format!(
            "parameter ${} is of type {wanted} for the server, to which its value does not convert",
            number + 1
        ),
    )
}

pub(crate) fn oid_of(type_: &Type) -> u32 {
    // Zero leaves it to the server.
    if *type_ == Type::UNKNOWN { 0 } else { type_.oid() }
}

impl Shared {
    /// Submits a request with its own sync point.
    pub(crate) fn submit_isolated(
        &self,
        expect: Expect,
        bytes: &[u8],
        deadline: Time,
    ) -> Result<Token, Error> {
        self.with(|core, now| {
            let token = core.replies.add();
            let request = Request { deadline, ..Request::isolated(token, expect) };
            let submitted = core.submit_one(now, request, bytes, self.options.refuse_when_full);
            submitted.inspect_err(|_| core.replies.remove(token)).map(|()| token)
        })
    }
}
