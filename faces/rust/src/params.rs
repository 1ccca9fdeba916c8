//! Parameters: finding their types, and their bytes.
//!
//! `ToSql` does not say which PostgreSQL type a value has, only whether it accepts a given one. So
//! each parameter of an unprepared statement is offered a short list of types. A string accepts
//! "unknown": it is sent as text without a type, and the server infers the type, as for a literal.
//! A value that accepts one type has that type. If it accepts several, its type is a guess, the
//! first of them.

use std::cell::Cell;
use std::error::Error as StdError;
use std::fmt::{self, Write};
use std::sync::LazyLock;

use bytes::BytesMut;
use onetrip_postgres::client::exact::put_moment;
use onetrip_postgres::message::{EncodeError, Format, bind};
use postgres_types::{IsNull, ToSql, Type, WrongType, to_sql_checked};

use crate::Error;
use crate::oids::type_of;
use crate::types::{
    SystemTimes, TypeCache, ValueError, check_one_more, check_written, has_times, is_any_moment,
    is_moment, moments_for, plain_reason, write_moment, written_as,
};

/// The parameters of one call.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Gives a parameter a PostgreSQL type, if none can be found automatically, or if it should have
/// another one.
///
/// ```
/// # use postgres_types::Type;
/// let parameter = onetrip::typed(Type::TIMESTAMP, &std::time::SystemTime::UNIX_EPOCH);
/// ```
pub fn typed<'a>(type_: Type, value: &'a (dyn ToSql + Sync)) -> Typed<'a> {
    Typed { type_, value }
}

/// A parameter with its PostgreSQL type; made by [`typed`].
#[derive(Debug)]
pub struct Typed<'a> {
    type_: Type,
    value: &'a (dyn ToSql + Sync),
}

/// If a [`Typed`] is asked whether it accepts this type, it answers with the number of its own.
fn question() -> &'static Type {
    static QUESTION: LazyLock<Type> = LazyLock::new(|| {
        Type::new("onetrip.typed".into(), 0, postgres_types::Kind::Pseudo, String::new())
    });
    &QUESTION
}

thread_local! {
    /// The answer to a [`question`]: the number of the type, and the Rust type of the value. It is
    /// not passed as bytes, since other values may write any bytes.
    static ANSWER: Cell<Option<(u32, Option<String>)>> = const { Cell::new(None) };
}

impl ToSql for Typed<'_> {
    fn to_sql(
        &self,
        type_: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        if type_.oid() == 0 && type_ == question() {
            let rust_type = ask(self.value).1;
            ANSWER.set(Some((self.type_.oid(), rust_type)));
            return Ok(IsNull::No);
        }
        if type_.oid() != self.type_.oid() {
            return Err(Box::new(WrongType::new::<Self>(type_.clone())));
        }
        self.value.to_sql_checked(&self.type_, out)
    }

    fn encode_format(&self, _: &Type) -> postgres_types::Format {
        self.value.encode_format(&self.type_)
    }

    fn accepts(_: &Type) -> bool {
        // Whether it accepts the type depends on the value, so `to_sql` decides.
        true
    }

    to_sql_checked!();
}

/// The type of a parameter, as far as it was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// Its type; [`Type::UNKNOWN`] for one that the server infers.
    pub(crate) type_: Type,
    /// Whether it accepts other types as well, so that `type_` is a guess.
    others: bool,
}

impl Found {
    pub(crate) fn is_guess(&self) -> bool {
        self.others
    }
}

/// Asks a value for the number of its type, which only a [`Typed`] knows, and for the name of its
/// Rust type. Only the refusal of a type contains that name; a value that refuses none does not
/// tell it.
fn ask(value: &(dyn ToSql + Sync)) -> (Option<u32>, Option<String>) {
    ANSWER.set(None);
    let result = value.to_sql_checked(question(), &mut BytesMut::new());
    let answer = ANSWER.take();
    match (answer, result.map_err(|error| error.downcast::<WrongType>())) {
        (Some((oid, rust_type)), _) => (Some(oid), rust_type),
        (None, Err(Ok(refusal))) => {
            (None, refusal.to_string().split('`').nth(1).map(str::to_owned))
        }
        (None, _) => (None, None),
    }
}

/// Which `SystemTime`s a value contains. As [`ask`], without allocating the name.
fn system_times(value: &(dyn ToSql + Sync)) -> SystemTimes {
    struct Search(SystemTimes);
    impl Write for Search {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = SystemTimes::of(text);
            if self.0 == SystemTimes::None { Ok(()) } else { Err(fmt::Error) }
        }
    }
    ANSWER.set(None);
    let result = value.to_sql_checked(question(), &mut BytesMut::new());
    match (ANSWER.take(), result) {
        (Some((_, rust_type)), _) => SystemTimes::of(&rust_type.unwrap_or_default()),
        (None, Err(error)) if error.is::<WrongType>() => {
            let mut search = Search(SystemTimes::None);
            let _ = write!(search, "{error}");
            search.0
        }
        (None, _) => SystemTimes::None,
    }
}

/// Finds the type of a parameter.
pub(crate) fn find(
    number: usize,
    value: &(dyn ToSql + Sync),
    learned: &TypeCache,
) -> Result<Found, Error> {
    if let (Some(oid), _) = ask(value) {
        return Ok(Found { type_: type_of(oid), others: false });
    }
    let mut scratch = BytesMut::new();
    let mut accepted = candidates().iter().filter(|type_| accepts(value, type_, &mut scratch));
    let Some(type_) = accepted.next() else {
        if let Some(type_) = learned.type_for(value) {
            return Ok(Found { type_, others: false });
        }
        return Err(Error::misuse(
            "unknown_parameter_type",
            format!(
                "the type of parameter ${}{} can't be found by itself: prepare the statement, have \
                 the client learn the type by learn_types(), or give it by typed(Type, &value)",
                number + 1,
                of_rust_type(value)
            ),
        ));
    };
    let others = *type_ != Type::UNKNOWN && accepted.next().is_some();
    Ok(Found { type_: type_.clone(), others })
}

/// The bytes of a parameter in every type that the server may want: its own type, or all types of
/// the list that it accepts if its type is a guess. Also the types that its Rust type converts to
/// and this value doesn't, with the reason.
pub(crate) fn alternatives(
    found: &Found,
    value: &(dyn ToSql + Sync),
) -> (Vec<Alternative>, Vec<(Type, String)>) {
    let mut scratch = BytesMut::new();
    let (mut values, mut refused) = (Vec::new(), Vec::new());
    let list = if found.others { candidates() } else { std::slice::from_ref(&found.type_) };
    for type_ in list {
        scratch.clear();
        let bytes = match encode(value, type_, &mut scratch) {
            Ok(IsNull::No) => Some(scratch.to_vec()),
            Ok(IsNull::Yes) => None,
            Err(error) if error.is::<WrongType>() => continue,
            Err(error) => {
                refused.extend(plain_reason(&*error).map(|reason| (type_.clone(), reason)));
                continue;
            }
        };
        values.push(Alternative { type_: type_.clone(), format: format_of(value, type_), bytes });
    }
    (values, refused)
}

/// Whether a value accepts a type. If the value itself fails, it accepts the type.
pub(crate) fn accepts(value: &(dyn ToSql + Sync), type_: &Type, scratch: &mut BytesMut) -> bool {
    scratch.clear();
    match encode(value, type_, scratch) {
        Ok(_) => true,
        Err(error) => !error.is::<WrongType>(),
    }
}

/// Whether a value can be sent as this type.
pub(crate) fn fits(value: &(dyn ToSql + Sync), type_: &Type, scratch: &mut BytesMut) -> bool {
    scratch.clear();
    encode(value, type_, scratch).is_ok()
}

/// The format in which a value is sent: text if it has no type, else the value decides.
pub(crate) fn format_of(value: &(dyn ToSql + Sync), type_: &Type) -> Format {
    match value.encode_format(type_) {
        postgres_types::Format::Binary if *type_ != Type::UNKNOWN && !is_any_moment(type_) => {
            Format::Binary
        }
        _ => Format::Text,
    }
}

/// A value in one of the types that it accepts.
#[derive(Clone)]
pub(crate) struct Alternative {
    pub(crate) type_: Type,
    pub(crate) format: Format,
    /// Its bytes; `None` is NULL.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// The same value without a type of its own, if it would have been one of these and is a moment that
/// goes to both of them as the same bytes.
pub(crate) fn moment_among(values: &[Alternative], of: &Type) -> Option<Alternative> {
    let ([plain, zoned], type_) = moments_for(of)?;
    let bytes_of = |type_| values.iter().find(|it| it.type_ == type_).map(|it| &it.bytes);
    let bytes = match (bytes_of(plain)?, bytes_of(zoned.clone())?) {
        (None, None) => None,
        (Some(one), Some(two)) if is_same_moment(one, two) => {
            let mut text = Vec::new();
            put_moment(zoned.oid(), two, &mut text)?;
            Some(text)
        }
        _ => return None,
    };
    Some(Alternative { type_: type_.clone(), format: Format::Text, bytes })
}

/// But for the number of its elements' type, which an array has behind eight bytes.
fn is_same_moment(one: &[u8], two: &[u8]) -> bool {
    one == two || one.len() > 12 && one.get(..8) == two.get(..8) && one.get(12..) == two.get(12..)
}

impl std::fmt::Debug for Alternative {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a value of {}", self.type_)
    }
}

/// The code of an error about a value that does not convert to the type that it is sent as.
pub(crate) const UNENCODABLE: &str = "unencodable_parameter";

/// Why a Bind could not be written.
#[derive(Debug)]
pub(crate) enum BindError {
    Message(EncodeError),
    Value {
        number: usize,
        type_: Type,
        /// The Rust type, as a part of a sentence.
        of: String,
        source: Box<dyn StdError + Sync + Send>,
    },
}

impl From<EncodeError> for BindError {
    fn from(error: EncodeError) -> BindError {
        BindError::Message(error)
    }
}

impl BindError {
    /// Whether the value does not fit the type: it accepts others, or has no room there.
    pub(crate) fn is_of_value(&self) -> bool {
        matches!(self, BindError::Value { .. })
    }
}

impl From<BindError> for Error {
    fn from(error: BindError) -> Error {
        match error {
            BindError::Message(error) => unencodable(error),
            BindError::Value { number, type_, of, source } => {
                unconvertible(format_args!("parameter ${}{of}", number + 1), &type_, source)
            }
        }
    }
}

/// The error of a value that does not convert to the type that it is sent as.
#[cold]
pub(crate) fn unconvertible(
    what: std::fmt::Arguments<'_>,
    type_: &Type,
    source: Box<dyn StdError + Sync + Send>,
) -> Error {
    let message = match plain_reason(&*source) {
        _ if source.is::<WrongType>() => format!("{what} does not convert to type {type_}"),
        None => format!("{what} could not be converted to type {type_}"),
        Some(reason) => format!("{what} could not be converted to type {type_}: {reason}"),
    };
    let kind = crate::Kind::Conversion;
    Error::new(kind, crate::Outcome::NotSent, UNENCODABLE, message).with_conversion(source)
}

/// The Rust type of a value, as a part of a sentence.
#[cold]
pub(crate) fn of_rust_type(value: &(dyn ToSql + Sync)) -> String {
    ask(value).1.map_or_else(String::new, |name| format!(" ({name})"))
}

/// A message that would break the protocol.
pub(crate) fn unencodable(error: EncodeError) -> Error {
    Error::misuse("unencodable", error.to_string())
}

/// Appends a value in its type, unless the conversion would silently change the value.
#[inline]
pub(crate) fn encode(
    value: &(dyn ToSql + Sync),
    type_: &Type,
    out: &mut BytesMut,
) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
    // Only values with such times are checked: the check costs more than writing the value.
    if has_times(type_) {
        check_written(value, system_times(value))?;
        if let Some(as_what) = written_as(type_) {
            return write_moment(value, &as_what, out);
        }
    }
    value.to_sql_checked(type_, out)
}

/// What is known of the values of a column, of which there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// They have no times that are checked.
    Plain,
    Times,
    /// The last one was a `SystemTime`, as the next ones are, too: to ask for the name of a type
    /// costs as much as a row.
    SystemTimes,
}

impl Column {
    pub(crate) fn of(type_: &Type) -> Column {
        if has_times(type_) { Column::Times } else { Column::Plain }
    }

    /// The same as [`encode`], for the next value.
    #[inline]
    pub(crate) fn encode(
        &mut self,
        value: &(dyn ToSql + Sync),
        type_: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        if *self != Column::Plain {
            self.check(value, type_)?;
        }
        value.to_sql_checked(type_, out)
    }

    fn check(&mut self, value: &(dyn ToSql + Sync), type_: &Type) -> Result<(), ValueError> {
        if *self == Column::SystemTimes
            && let Some(checked) = check_one_more(value)
        {
            return checked;
        }
        let times = system_times(value);
        let is_one = times == SystemTimes::One && is_moment(type_);
        *self = if is_one { Column::SystemTimes } else { Column::Times };
        check_written(value, times)
    }
}

/// Appends one parameter's value.
#[inline]
pub(crate) fn write_value(
    number: usize,
    value: &(dyn ToSql + Sync),
    type_: &Type,
    out: &mut BytesMut,
) -> Result<bind::IsNull, BindError> {
    match encode(value, type_, out) {
        Ok(IsNull::No) => Ok(bind::IsNull::No),
        Ok(IsNull::Yes) => Ok(bind::IsNull::Yes),
        Err(source) => {
            let of = of_rust_type(value);
            Err(BindError::Value { number, type_: type_.clone(), of, source })
        }
    }
}

/// The types that a parameter is offered, the most common first.
fn candidates() -> &'static [Type] {
    const LIST: &[Type] = &[
        Type::UNKNOWN,
        Type::INT4,
        Type::INT8,
        Type::BOOL,
        Type::FLOAT8,
        Type::UUID,
        Type::TIMESTAMPTZ,
        Type::TIMESTAMP,
        Type::BYTEA,
        Type::JSONB,
        Type::JSON,
        Type::NUMERIC,
        Type::DATE,
        Type::TIME,
        Type::INT2,
        Type::FLOAT4,
        Type::OID,
        Type::CHAR,
        Type::INET,
        Type::CIDR,
        Type::MACADDR,
        Type::INTERVAL,
        Type::TIMETZ,
        Type::MONEY,
        Type::VARBIT,
        Type::BIT,
        Type::POINT,
        Type::BOX,
        Type::PATH,
        Type::PG_LSN,
        Type::INT4_RANGE,
        Type::INT8_RANGE,
        Type::NUM_RANGE,
        Type::TSTZ_RANGE,
        Type::TS_RANGE,
        Type::DATE_RANGE,
        Type::INT4MULTI_RANGE,
        Type::INT8MULTI_RANGE,
        Type::NUMMULTI_RANGE,
        Type::TSTZMULTI_RANGE,
        Type::TSMULTI_RANGE,
        Type::DATEMULTI_RANGE,
        Type::TEXT_ARRAY,
        Type::VARCHAR_ARRAY,
        Type::NAME_ARRAY,
        Type::BPCHAR_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::BOOL_ARRAY,
        Type::FLOAT8_ARRAY,
        Type::FLOAT4_ARRAY,
        Type::UUID_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TIMESTAMPTZ_ARRAY,
        Type::TIMESTAMP_ARRAY,
        Type::DATE_ARRAY,
        Type::TIME_ARRAY,
        Type::JSONB_ARRAY,
        Type::JSON_ARRAY,
        Type::NUMERIC_ARRAY,
        Type::INTERVAL_ARRAY,
        Type::TIMETZ_ARRAY,
        Type::MONEY_ARRAY,
        Type::OID_ARRAY,
        Type::CHAR_ARRAY,
        Type::INET_ARRAY,
        Type::CIDR_ARRAY,
        Type::MACADDR_ARRAY,
        Type::VARBIT_ARRAY,
        Type::BIT_ARRAY,
        Type::POINT_ARRAY,
        Type::BOX_ARRAY,
        Type::PATH_ARRAY,
        Type::PG_LSN_ARRAY,
        Type::INT4_RANGE_ARRAY,
        Type::INT8_RANGE_ARRAY,
        Type::NUM_RANGE_ARRAY,
        Type::TSTZ_RANGE_ARRAY,
        Type::TS_RANGE_ARRAY,
        Type::DATE_RANGE_ARRAY,
    ];
    LIST
}

pub(crate) fn check_count(given: usize, wanted: usize) -> Result<(), Error> {
    if given == wanted {
        return Ok(());
    }
    Err(Error::misuse(
        "parameter_count",
        format!("the statement has {wanted} parameters, but {given} were given"),
    ))
}
