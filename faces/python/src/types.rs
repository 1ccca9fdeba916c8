//! The types of PostgreSQL: those that are built in, and what was learned of others.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use onetrip_engine::Time;
use onetrip_postgres::client::types::catalog::{Description, Kind as Described};
use onetrip_postgres::client::types::known::Known;
use onetrip_postgres::client::types::look_up::found;
use onetrip_postgres::client::types::resolve::resolve;
use onetrip_postgres::message::Format;
use pyo3::prelude::*;

/// A type.
#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) oid: u32,
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// How its values are written and read.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Bool,
    Bytea,
    /// One byte: `"char"`.
    Char,
    Text,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    /// The same, of which all digits are shown that the binary form gives.
    WideFloat4,
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
    /// The same, where a moment without a time zone is one of this machine's.
    LocalTimestampTz,
    Interval,
    Void,
    Enum,
    Record,
    Hstore,
    Vector,
    Domain(Arc<Type>),
    Array(Arc<Type>),
    Range(Arc<Type>),
    Multirange(Arc<Type>),
    Composite(Vec<(String, Arc<Type>)>),
    /// By functions of the user's.
    User(Arc<Codec>),
    /// Anything else: as its text.
    Other,
}

/// How a user has values of a type written and read.
#[derive(Debug)]
pub(crate) struct Codec {
    pub(crate) base: Arc<Type>,
    pub(crate) form: Form,
    pub(crate) encode: Py<PyAny>,
    pub(crate) decode: Py<PyAny>,
}

/// What the functions take and return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A str.
    Text,
    /// Bytes.
    Binary,
    /// The parts of a value.
    Tuple,
}

impl Codec {
    /// Whether its text is what the server sends in the binary form.
    pub(crate) fn is_text_binary(&self) -> bool {
        self.form == Form::Text && self.base.is_text() && self.base.format() == Format::Binary
    }
}

impl Type {
    /// text.
    pub(crate) fn text() -> Arc<Type> {
        static TEXT: OnceLock<Arc<Type>> = OnceLock::new();
        let new = || {
            Arc::new(Type {
                oid: 25,
                schema: CATALOG.to_owned(),
                name: "text".to_owned(),
                kind: Kind::Text,
            })
        };
        TEXT.get_or_init(new).clone()
    }

    /// The type itself, or what a domain is based on.
    pub(crate) fn base(&self) -> &Type {
        match &self.kind {
            Kind::Domain(base) => base.base(),
            _ => self,
        }
    }

    /// The form in which its values are asked for and sent.
    pub(crate) fn format(&self) -> Format {
        match &self.base().kind {
            Kind::User(codec) if codec.form == Form::Text && !codec.is_text_binary() => {
                Format::Text
            }
            Kind::Other => Format::Text,
            Kind::Array(of) | Kind::Range(of) | Kind::Multirange(of) => of.format(),
            Kind::Composite(fields) if fields.iter().any(|(_, of)| of.format() == Format::Text) => {
                Format::Text
            }
            _ => Format::Binary,
        }
    }

    /// Its number, name, kind and schema.
    pub(crate) fn told(&self) -> (u32, String, &'static str, String) {
        let type_ = match &self.kind {
            Kind::User(codec) => &codec.base,
            _ => self,
        };
        let (kind, name) = match &type_.kind {
            Kind::Array(of) if !VECTORS.iter().any(|row| row.0 == self.oid) => {
                ("array", Some(format!("{}[]", of.name)))
            }
            Kind::Composite(_) => ("composite", None),
            Kind::Range(_) => ("range", None),
            Kind::Multirange(_) => ("multirange", None),
            _ => ("scalar", None),
        };
        (self.oid, name.unwrap_or_else(|| self.name.clone()), kind, self.schema.clone())
    }

    /// Whether a text is its binary form.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.base().kind, Kind::Text | Kind::Json | Kind::Jsonb | Kind::Enum | Kind::Other)
    }
}

/// The types that a client knows.
#[derive(Debug, Default)]
pub(crate) struct Types {
    known: Known<Arc<Type>>,
    /// Those that are written and read in another way than by default.
    own: HashMap<u32, Arc<Type>>,
    /// As asyncpg has them.
    is_like_asyncpg: bool,
}

impl Types {
    /// A type by its number; one that is not known is read as text.
    pub(crate) fn get(&self, oid: u32) -> Arc<Type> {
        let type_ = self.plain(oid);
        if self.own.is_empty() { type_ } else { self.adapted(&type_) }
    }

    /// A type as it is without what was set.
    fn plain(&self, oid: u32) -> Arc<Type> {
        if let Some(known) = built_in().get(&oid).or_else(|| self.known.get(oid)) {
            return known.clone();
        }
        let (schema, name) = (String::new(), format!("type {oid}"));
        Arc::new(Type { oid, schema, name, kind: Kind::Other })
    }

    /// The same type, with its parts as they were set.
    fn adapted(&self, type_: &Arc<Type>) -> Arc<Type> {
        if let Some(own) = self.own.get(&type_.oid) {
            return own.clone();
        }
        let kind = match &type_.kind {
            Kind::Domain(of) => Kind::Domain(self.adapted(of)),
            Kind::Array(of) => Kind::Array(self.adapted(of)),
            Kind::Range(of) => Kind::Range(self.adapted(of)),
            Kind::Multirange(of) => Kind::Multirange(self.adapted(of)),
            Kind::Composite(fields) => Kind::Composite(
                fields.iter().map(|(name, of)| (name.clone(), self.adapted(of))).collect(),
            ),
            _ => return type_.clone(),
        };
        let Type { oid, schema, name, .. } = &**type_;
        Arc::new(Type { oid: *oid, schema: schema.clone(), name: name.clone(), kind })
    }

    /// Has values of a type written and read so.
    pub(crate) fn set_codec(
        &mut self,
        oid: u32,
        form: Form,
        (encode, decode): (Py<PyAny>, Py<PyAny>),
    ) {
        let base = self.plain(oid);
        let (schema, name) = (base.schema.clone(), base.name.clone());
        let kind = Kind::User(Arc::new(Codec { base, form, encode, decode }));
        self.own.insert(oid, Arc::new(Type { oid, schema, name, kind }));
    }

    /// Takes that back.
    pub(crate) fn reset_codec(&mut self, oid: u32) {
        self.own.remove(&oid);
    }

    /// Has values as asyncpg has them, where that differs.
    pub(crate) fn like_asyncpg(&mut self) {
        self.is_like_asyncpg = true;
        for (oid, kind) in [(700, Kind::WideFloat4), (1184, Kind::LocalTimestampTz)] {
            let Type { schema, name, .. } = &*self.plain(oid);
            let (schema, name) = (schema.clone(), name.clone());
            self.own.insert(oid, Arc::new(Type { oid, schema, name, kind }));
        }
    }

    /// Those that the server is to be asked about.
    pub(crate) fn missing(&self, oids: &[u32]) -> Vec<u32> {
        self.known.missing(oids, is_built_in)
    }

    /// Learns what the server has answered.
    pub(crate) fn learn(&mut self, now: Time, descriptions: Vec<Description>) {
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
                // Texts, until a codec is set.
                Described::Simple if self.is_like_asyncpg => Kind::Other,
                Described::Simple if it.name == "hstore" => Kind::Hstore,
                Described::Simple if it.name == "vector" => Kind::Vector,
                Described::Unknown | Described::Simple | Described::Pseudo => Kind::Other,
            };
            let (schema, name) = (it.schema.clone(), it.name.clone());
            let type_ = Arc::new(Type { oid: it.oid, schema, name, kind });
            self.known.learn(now, &resolved, type_);
        }
    }

    /// Forgets all that was learned.
    pub(crate) fn clear(&mut self) {
        self.known = Known::default();
    }
}

fn is_built_in(oid: u32) -> bool {
    built_in().contains_key(&oid)
}

fn built_in() -> &'static HashMap<u32, Arc<Type>> {
    static TABLE: OnceLock<HashMap<u32, Arc<Type>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = HashMap::new();
        let mut add = |oid: u32, name: String, kind: Kind| {
            let type_ = Arc::new(Type { oid, schema: CATALOG.to_owned(), name, kind });
            table.insert(oid, type_.clone());
            type_
        };
        for (oid, array, name, kind) in SIMPLE {
            let element = add(*oid, (*name).to_owned(), kind.clone());
            if *array != 0 {
                add(*array, format!("{name}[]"), Kind::Array(element));
            }
        }
        let simple = |oid: u32| {
            let row = SIMPLE.iter().find(|row| row.0 == oid);
            let (name, kind) = row.map_or(("", Kind::Other), |row| (row.2, row.3.clone()));
            let (schema, name) = (CATALOG.to_owned(), name.to_owned());
            Arc::new(Type { oid, schema, name, kind })
        };
        for (oid, array, name, of) in VECTORS {
            let vector = add(*oid, (*name).to_owned(), Kind::Array(simple(*of)));
            add(*array, format!("{name}[]"), Kind::Array(vector));
        }
        for (oid, array, multirange, name, of) in RANGES {
            let bound = simple(*of);
            let range = add(*oid, (*name).to_owned(), Kind::Range(bound.clone()));
            add(*array, format!("{name}[]"), Kind::Array(range));
            add(*multirange, name.replace("range", "multirange"), Kind::Multirange(bound));
        }
        table
    })
}

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
    (603, 1020, "box", Kind::Other),
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
