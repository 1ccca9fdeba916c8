//! Values in their text form.

use bytes::BytesMut;
use postgres_types::{Format, FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

use super::ValueError;
use super::error::BoxError;

/// A value in its text form, as a string type `T`: `AsText<String>`, or `AsText<&str>` to borrow.
///
/// As a parameter it has any type, and is sent as text; the server reads it as it reads a literal.
/// (A plain string does so, too, if the statement is not prepared.)
///
/// As a column it reads the types whose binary form is text: strings, enums, `json`, `jsonb`,
/// `xml`, `jsonpath`, `refcursor`, and domains over these. For all others the statement has to say
/// `::text`.
///
/// ```no_run
/// # use onetrip::types::AsText;
/// # async fn f(client: onetrip::Client) -> Result<(), onetrip::Error> {
/// let row = client.query_one("select settings from account where id = $1", &[&7]).await?;
/// let AsText(json) = row.get::<AsText<&str>>(0);
/// let insert = client.prepare("insert into point (place) values ($1)").await?;
/// client.execute(&insert, &[&AsText("(1.5,2)")]).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AsText<T>(pub T);

impl<'a, T: From<&'a str>> FromSql<'a> for AsText<T> {
    fn from_sql(type_: &Type, raw: &'a [u8]) -> Result<AsText<T>, BoxError> {
        let raw = if has_version(type_) { behind_version(raw)? } else { raw };
        Ok(AsText(std::str::from_utf8(raw)?.into()))
    }

    fn accepts(type_: &Type) -> bool {
        match type_.kind() {
            Kind::Enum(_) => true,
            Kind::Domain(base) => <AsText<T> as FromSql>::accepts(base),
            _ => is_text(type_) || has_version(type_),
        }
    }
}

/// Whether the binary form of a type is its text.
fn is_text(type_: &Type) -> bool {
    const TEXT: [Type; 8] = [
        Type::TEXT,
        Type::VARCHAR,
        Type::BPCHAR,
        Type::NAME,
        Type::UNKNOWN,
        Type::JSON,
        Type::XML,
        Type::REFCURSOR,
    ];
    TEXT.contains(type_) || type_.name() == "citext"
}

/// Whether the binary form of a type is its text behind a version number, which is 1.
fn has_version(type_: &Type) -> bool {
    match type_.kind() {
        Kind::Domain(base) => has_version(base),
        _ => {
            matches!(*type_, Type::JSONB | Type::JSONPATH)
                || matches!(type_.name(), "ltree" | "lquery" | "ltxtquery")
        }
    }
}

fn behind_version(raw: &[u8]) -> Result<&[u8], ValueError> {
    raw.strip_prefix(&[1]).ok_or(ValueError::new("the version of its form is not 1"))
}

impl<T: AsRef<str> + std::fmt::Debug> ToSql for AsText<T> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        out.extend_from_slice(self.0.as_ref().as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}
