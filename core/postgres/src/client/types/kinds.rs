//! What a type is, for a face that reads and writes the binary forms itself: the types that are
//! built in, by number and name, and what was learned of others.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::mem::discriminant;
use std::sync::{Arc, OnceLock};

use onetrip_engine::Time;

use super::catalog::{Description, Kind as Described};
use super::fit::may_be_outdated;
use super::known::Known;
use super::look_up::found;
use super::resolve::resolve;
use crate::message::Format;

/// A type.
#[derive(Debug)]
pub struct Type {
    /// Its number.
    pub oid: u32,
    /// The schema that it is in.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// How its values are written and read.
    pub kind: Kind,
    /// What stands between its values in the text of an array of them.
    pub delimiter: u8,
}

/// How the values of a type are written and read.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "they are PostgreSQL's names")]
pub enum Kind {
    Bool,
    Bytea,
    /// One byte: `"char"`.
    Char,
    /// A text, whose binary form it is.
    Text,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    Json,
    Jsonb,
    Numeric,
    Uuid,
    Date,
    Time,
    TimeTz,
    Timestamp,
    TimestampTz,
    Interval,
    Void,
    Enum,
    /// A row of a type that is not known.
    Record,
    Hstore,
    /// pgvector's.
    Vector,
    Domain(Arc<Type>),
    Array(Arc<Type>),
    Range(Arc<Type>),
    Multirange(Arc<Type>),
    Composite(Vec<Field>),
    /// As the host was told to.
    Own(Arc<Codec>),
    /// Anything else: as its text.
    Other,
}

/// An attribute of a composite: its name and its type.
pub type Field = (String, Arc<Type>);

/// How a host has values of a type written and read, instead of by default.
pub struct Codec {
    /// The type as it is by default.
    pub base: Arc<Type>,
    /// What the host's functions take and give.
    pub form: Form,
    /// The host's functions.
    pub by: Arc<dyn Any + Send + Sync>,
}

/// What a host's functions for a type take and give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Its text.
    Text,
    /// The bytes of its binary form.
    Binary,
    /// The numbers of its binary form ([`Kind::numbers`]).
    Numbers,
}

impl fmt::Debug for Codec {
    /// Without the functions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").field("form", &self.form).finish_non_exhaustive()
    }
}

impl Codec {
    /// Whether its text is what the server sends in the binary form.
    pub fn is_text_binary(&self) -> bool {
        self.form == Form::Text && self.base.is_text() && self.base.format() == Format::Binary
    }
}

impl Kind {
    /// The numbers of the binary form of a date, a time or an interval: for each, in the order of
    /// the form, its place in the order in which they are spoken of, largest unit first, and its
    /// bytes.
    pub fn numbers(&self) -> Option<&'static [(usize, usize)]> {
        Some(match self {
            Kind::Date => &[(0, 4)],
            Kind::Time | Kind::Timestamp | Kind::TimestampTz => &[(0, 8)],
            Kind::TimeTz => &[(0, 8), (1, 4)],
            Kind::Interval => &[(2, 8), (1, 4), (0, 4)],
            _ => return None,
        })
    }

    /// Whether a value has no parts of other types.
    pub fn is_single(&self) -> bool {
        match self {
            Kind::Domain(of) => of.kind.is_single(),
            Kind::Array(_) | Kind::Range(_) | Kind::Multirange(_) | Kind::Composite(_) => false,
            kind => !matches!(kind, Kind::Record | Kind::Own(_)),
        }
    }
}

impl Type {
    fn with(&self, kind: Kind) -> Arc<Type> {
        let Type { oid, schema, name, delimiter, .. } = self;
        let (schema, name) = (schema.clone(), name.clone());
        Arc::new(Type { oid: *oid, schema, name, kind, delimiter: *delimiter })
    }

    /// The type itself, or what a domain is based on.
    pub fn base(&self) -> &Type {
        match &self.kind {
            Kind::Domain(base) => base.base(),
            _ => self,
        }
    }

    /// The form in which its values are asked for and sent.
    pub fn format(&self) -> Format {
        match &self.base().kind {
            Kind::Own(codec) if codec.form == Form::Text && !codec.is_text_binary() => Format::Text,
            Kind::Other => Format::Text,
            Kind::Array(of) | Kind::Range(of) | Kind::Multirange(of) => of.format(),
            Kind::Composite(fields) if fields.iter().any(|(_, of)| of.format() == Format::Text) => {
                Format::Text
            }
            _ => Format::Binary,
        }
    }

    /// Whether it is the same type still, with the same parts.
    pub fn is_same(&self, other: &Type) -> bool {
        let is_same = match (&self.kind, &other.kind) {
            (Kind::Domain(one), Kind::Domain(two))
            | (Kind::Array(one), Kind::Array(two))
            | (Kind::Range(one), Kind::Range(two))
            | (Kind::Multirange(one), Kind::Multirange(two)) => one.is_same(two),
            (Kind::Composite(one), Kind::Composite(two)) => {
                let mut pairs = one.iter().zip(two);
                let is_same = |((a, of), (b, by)): (&Field, &Field)| a == b && of.is_same(by);
                one.len() == two.len() && pairs.all(is_same)
            }
            (Kind::Own(one), Kind::Own(two)) => one.base.is_same(&two.base),
            (one, two) => discriminant(one) == discriminant(two),
        };
        self.oid == other.oid && is_same
    }

    /// Whether its binary form is its text, byte by byte.
    pub fn has_one_form(&self) -> bool {
        matches!(self.base().kind, Kind::Text | Kind::Json | Kind::Enum)
    }

    /// Whether a text is its binary form.
    pub fn is_text(&self) -> bool {
        matches!(self.base().kind, Kind::Text | Kind::Json | Kind::Jsonb | Kind::Enum | Kind::Other)
    }
}

/// The types that a client knows.
///
/// What was learned of one may be wrong at any moment. A composite shows that by the attributes
/// that it says on the wire ([`fit`](super::fit)), any type by an error of the server, or of a value
/// that does not fit; it is then forgotten, and asked for anew. An enum's labels are not kept, and
/// of the other kinds nothing can be altered: what is dropped and made anew has another number. A
/// composite whose attributes were given other names, and nothing else, shows that
/// by a guard behind a statement ([`attributes`](super::attributes)).
#[derive(Debug, Default)]
pub struct Types {
    known: Known<Arc<Type>>,
    /// Those that are written and read in another way than by default.
    own: HashMap<u32, Arc<Type>>,
    are_extensions_texts: bool,
}

impl Types {
    /// A type by its number; one that is not known is read as text.
    pub fn get(&self, oid: u32) -> Arc<Type> {
        let type_ = self.plain(oid);
        if self.own.is_empty() { type_ } else { self.adapted(&type_) }
    }

    /// A type as it is by default.
    fn plain(&self, oid: u32) -> Arc<Type> {
        if let Some(known) = built_in(oid).or_else(|| self.known.get(oid)) {
            return known.clone();
        }
        let (schema, name) = (String::new(), format!("type {oid}"));
        Arc::new(Type { oid, schema, name, kind: Kind::Other, delimiter: b',' })
    }

    /// The same type, with its parts as they were set.
    fn adapted(&self, type_: &Arc<Type>) -> Arc<Type> {
        if let Some(own) = self.own.get(&type_.oid) {
            return own.clone();
        }
        type_.with(match &type_.kind {
            Kind::Domain(of) => Kind::Domain(self.adapted(of)),
            Kind::Array(of) => Kind::Array(self.adapted(of)),
            Kind::Range(of) => Kind::Range(self.adapted(of)),
            Kind::Multirange(of) => Kind::Multirange(self.adapted(of)),
            Kind::Composite(fields) => Kind::Composite(
                fields.iter().map(|(name, of)| (name.clone(), self.adapted(of))).collect(),
            ),
            _ => return type_.clone(),
        })
    }

    /// Has values of a type written and read by functions of the host's.
    pub fn set_codec(&mut self, oid: u32, form: Form, by: Arc<dyn Any + Send + Sync>) {
        let base = self.plain(oid);
        let codec = Codec { base: base.clone(), form, by };
        self.own.insert(oid, base.with(Kind::Own(Arc::new(codec))));
    }

    /// Has values of a type written and read as those of another.
    pub fn alias(&mut self, oid: u32, of: u32) {
        let kind = self.get(of).kind.clone();
        self.own.insert(oid, self.plain(oid).with(kind));
    }

    /// Has types of extensions, as hstore and vector, written and read as their texts.
    pub fn extensions_as_texts(&mut self) {
        self.are_extensions_texts = true;
    }

    /// Has values of a type written and read by default again.
    pub fn reset_codec(&mut self, oid: u32) {
        self.own.remove(&oid);
    }

    /// Those that the server is to be asked about.
    pub fn missing(&self, oids: &[u32]) -> Vec<u32> {
        self.known.missing(oids, is_built_in)
    }

    /// Those of these that hold composites and were learned long ago. Their attributes may have other
    /// names by now, and a value has their types alone.
    pub fn old(&self, now: Time, oids: &[u32]) -> Vec<u32> {
        let is_old = |oid: &u32| self.known.is_old(now, *oid) && may_be_outdated(&self.get(*oid));
        oids.iter().copied().filter(is_old).collect()
    }

    /// Learns what the server has answered.
    pub fn learn(&mut self, now: Time, descriptions: Vec<Description>) {
        for resolved in found(resolve(descriptions, is_built_in)) {
            let it = &resolved.description;
            let kind = match &it.kind {
                Described::Enum(_) => Kind::Enum,
                Described::Array(of) => Kind::Array(self.get(*of)),
                Described::Range(of) => Kind::Range(self.get(*of)),
                Described::Multirange(of) => Kind::Multirange(self.get(*of)),
                Described::Domain(of) => Kind::Domain(self.get(*of)),
                Described::Composite(fields) => Kind::Composite(
                    fields.iter().map(|(name, oid)| (name.clone(), self.get(*oid))).collect(),
                ),
                // Those of extensions have no fixed numbers.
                Described::Simple if it.name == "citext" => Kind::Text,
                Described::Simple if self.are_extensions_texts => Kind::Other,
                Described::Simple if it.name == "hstore" => Kind::Hstore,
                Described::Simple if it.name == "vector" => Kind::Vector,
                Described::Unknown | Described::Simple | Described::Pseudo => Kind::Other,
            };
            let (schema, name) = (it.schema.clone(), it.name.clone());
            let type_ = Arc::new(Type { oid: it.oid, schema, name, kind, delimiter: it.delimiter });
            if let Some(Kind::Own(codec)) = self.own.get(&it.oid).map(|own| &own.kind) {
                let codec = Codec { base: type_.clone(), form: codec.form, by: codec.by.clone() };
                self.own.insert(it.oid, type_.with(Kind::Own(Arc::new(codec))));
            }
            self.known.learn(now, &resolved, type_);
        }
    }

    /// Forgets a type that was altered or dropped, and those that contain it.
    pub fn forget(&mut self, oid: u32) {
        self.known.forget(oid);
    }

    /// Forgets all that was learned.
    pub fn clear(&mut self) {
        self.known = Known::default();
    }
}

fn is_built_in(oid: u32) -> bool {
    built_in(oid).is_some()
}

/// Whether a type that is built in has this name, which is then found before that of a table.
pub fn is_name_built_in(name: &str) -> bool {
    SIMPLE.iter().any(|row| row.2 == name)
        || VECTORS.iter().any(|row| row.2 == name)
        || RANGES.iter().any(|row| row.3 == name || row.3.replace("range", "multirange") == name)
}

/// A type that is built in.
pub fn built_in(oid: u32) -> Option<&'static Arc<Type>> {
    static TABLE: OnceLock<HashMap<u32, Arc<Type>>> = OnceLock::new();
    TABLE.get_or_init(table).get(&oid)
}

fn table() -> HashMap<u32, Arc<Type>> {
    let mut table = HashMap::new();
    let mut add = |oid: u32, name: String, kind: Kind| {
        let schema = CATALOG.to_owned();
        let delimiter = if oid == BOX { b';' } else { b',' };
        let type_ = Arc::new(Type { oid, schema, name, kind, delimiter });
        table.insert(oid, type_.clone());
        type_
    };
    let mut simple: Vec<Arc<Type>> = Vec::new();
    for (oid, array, name, kind) in SIMPLE {
        let element = add(*oid, (*name).to_owned(), kind.clone());
        simple.push(element.clone());
        if *array != 0 {
            add(*array, format!("{name}[]"), Kind::Array(element));
        }
    }
    for (oid, array, name, of) in VECTORS {
        let Some(element) = simple.iter().find(|element| element.oid == *of) else { continue };
        let vector = add(*oid, (*name).to_owned(), Kind::Array(element.clone()));
        add(*array, format!("{name}[]"), Kind::Array(vector));
    }
    for (oid, array, multirange, name, of) in RANGES {
        let Some(bound) = simple.iter().find(|bound| bound.oid == *of) else { continue };
        let range = add(*oid, (*name).to_owned(), Kind::Range(bound.clone()));
        add(*array, format!("{name}[]"), Kind::Array(range));
        add(*multirange, name.replace("range", "multirange"), Kind::Multirange(bound.clone()));
    }
    table
}

/// The one type that is built in whose arrays have another delimiter than a comma.
const BOX: u32 = 603;

/// The schema of all that is built in.
const CATALOG: &str = "pg_catalog";

/// Number, number of the array, name (src/include/catalog/pg_type.dat).
const SIMPLE: &[(u32, u32, &str, Kind)] = &[
    (16, 1000, "bool", Kind::Bool),
    (17, 1001, "bytea", Kind::Bytea),
    (18, 1002, "\"char\"", Kind::Char),
    (19, 1003, "name", Kind::Text),
    (20, 1016, "int8", Kind::Int8),
    (21, 1005, "int2", Kind::Int2),
    (23, 1007, "int4", Kind::Int4),
    (25, 1009, "text", Kind::Text),
    (26, 1028, "oid", Kind::Oid),
    (24, 1008, "regproc", Kind::Other),
    (27, 1010, "tid", Kind::Other),
    (28, 1011, "xid", Kind::Oid),
    (29, 1012, "cid", Kind::Oid),
    (114, 199, "json", Kind::Json),
    (142, 143, "xml", Kind::Text),
    (600, 1017, "point", Kind::Other),
    (601, 1018, "lseg", Kind::Other),
    (602, 1019, "path", Kind::Other),
    (BOX, 1020, "box", Kind::Other),
    (604, 1027, "polygon", Kind::Other),
    (628, 629, "line", Kind::Other),
    (650, 651, "cidr", Kind::Other),
    (700, 1021, "float4", Kind::Float4),
    (701, 1022, "float8", Kind::Float8),
    (705, 0, "unknown", Kind::Text),
    (718, 719, "circle", Kind::Other),
    (790, 791, "money", Kind::Other),
    (829, 1040, "macaddr", Kind::Other),
    (869, 1041, "inet", Kind::Other),
    (1033, 1034, "aclitem", Kind::Other),
    (1042, 1014, "bpchar", Kind::Text),
    (1043, 1015, "varchar", Kind::Text),
    (1082, 1182, "date", Kind::Date),
    (1083, 1183, "time", Kind::Time),
    (1114, 1115, "timestamp", Kind::Timestamp),
    (1184, 1185, "timestamptz", Kind::TimestampTz),
    (1186, 1187, "interval", Kind::Interval),
    (1266, 1270, "timetz", Kind::TimeTz),
    (1560, 1561, "bit", Kind::Other),
    (1562, 1563, "varbit", Kind::Other),
    (1700, 1231, "numeric", Kind::Numeric),
    (2202, 2207, "regprocedure", Kind::Other),
    (2205, 2210, "regclass", Kind::Other),
    (2206, 2211, "regtype", Kind::Other),
    (2249, 2287, "record", Kind::Record),
    (2275, 1263, "cstring", Kind::Text),
    (2278, 0, "void", Kind::Void),
    (2950, 2951, "uuid", Kind::Uuid),
    (2970, 2949, "txid_snapshot", Kind::Other),
    (3220, 3221, "pg_lsn", Kind::Other),
    (3614, 3643, "tsvector", Kind::Other),
    (3615, 3645, "tsquery", Kind::Other),
    (3802, 3807, "jsonb", Kind::Jsonb),
    (4072, 4073, "jsonpath", Kind::Other),
    (5038, 5039, "pg_snapshot", Kind::Other),
    (5069, 271, "xid8", Kind::Other),
];

/// Number, number of the array, name, number of the elements' type. They are read as arrays.
const VECTORS: &[(u32, u32, &str, u32)] =
    &[(22, 1006, "int2vector", 21), (30, 1013, "oidvector", 26)];

/// Number, number of the array and of the multirange, name, number of the bounds' type.
const RANGES: &[(u32, u32, u32, &str, u32)] = &[
    (3904, 3905, 4451, "int4range", 23),
    (3906, 3907, 4532, "numrange", 1700),
    (3908, 3909, 4533, "tsrange", 1114),
    (3910, 3911, 4534, "tstzrange", 1184),
    (3912, 3913, 4535, "daterange", 1082),
    (3926, 3927, 4536, "int8range", 20),
];

#[cfg(test)]
mod tests;
