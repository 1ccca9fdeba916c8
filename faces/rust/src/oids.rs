//! PostgreSQL types by number, and which of them have no binary form.

use onetrip_postgres::message::Format;
use postgres_types::{Kind, Type};

/// The type with this number. A type that is not built in is known by its number alone.
pub(crate) fn type_of(oid: u32) -> Type {
    Type::from_oid(oid).unwrap_or_else(|| {
        Type::new(format!("with oid {oid}"), oid, Kind::Simple, "pg_catalog".into())
    })
}

/// The format to request: binary, but text for built-in types that have no send function (`typsend`
/// is 0 in src/include/catalog/pg_type.dat).
pub(crate) fn result_format(type_: &Type) -> Format {
    const WITHOUT_BINARY: [Type; 3] = [Type::ACLITEM, Type::GTS_VECTOR, Type::ACLITEM_ARRAY];
    if WITHOUT_BINARY.contains(type_) { Format::Text } else { Format::Binary }
}
