//! Types that are not built in, and their Rust types.

use onetrip::types::{Field, FromSql, Interval, Kind, Numeric, Range, ToSql, Type};

/// An enum.
#[derive(Debug, ToSql, FromSql)]
#[postgres(name = "mood")]
pub(super) enum Mood {
    Glad,
    Sad,
}

/// A composite with an array.
#[derive(Debug, ToSql, FromSql)]
#[postgres(name = "words")]
pub(super) struct Words {
    words: Vec<String>,
}

/// A domain.
#[derive(Debug, ToSql, FromSql)]
#[postgres(name = "fee")]
pub(super) struct Fee(Numeric);

/// A composite with everything.
#[derive(Debug, ToSql, FromSql)]
#[postgres(name = "person")]
pub(super) struct Person {
    name: String,
    moods: Vec<Option<Mood>>,
    fee: Option<Fee>,
    at: Range<Interval>,
}

fn learned(name: &str, oid: u32, kind: Kind) -> Type {
    Type::new(name.to_owned(), oid, kind, "public".to_owned())
}

pub(super) fn mood() -> Type {
    learned("mood", 70_000, Kind::Enum(vec!["Glad".to_owned(), "Sad".to_owned()]))
}

pub(super) fn words() -> Type {
    let words = Field::new("words".to_owned(), Type::TEXT_ARRAY);
    learned("words", 70_005, Kind::Composite(vec![words]))
}

pub(super) fn worded() -> Type {
    learned("worded", 70_006, Kind::Range(words()))
}

pub(super) fn person() -> Type {
    let moods = learned("_mood", 70_001, Kind::Array(mood()));
    let fee = learned("fee", 70_002, Kind::Domain(Type::NUMERIC));
    let times = learned("times", 70_003, Kind::Range(Type::INTERVAL));
    let fields = [("name", Type::TEXT), ("moods", moods), ("fee", fee), ("at", times)];
    let fields = fields.map(|(name, type_)| Field::new(name.to_owned(), type_)).to_vec();
    learned("person", 70_004, Kind::Composite(fields))
}

pub(super) fn hstore() -> Type {
    learned("hstore", 70_007, Kind::Simple)
}
