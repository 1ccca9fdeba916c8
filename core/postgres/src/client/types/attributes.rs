//! Values that were written by the names of a composite's attributes, as a dict is. Their binary
//! form has the attributes' types, which the server compares, and not their names: where two of the
//! same type have changed places, it would store each in the place of the other.
//!
//! So a statement runs behind such a use, in the same request, which fails unless the attributes
//! still have those names in that order. What the use has done is undone then. The server reads the
//! names in its own cache of the type, which is as new as that by which it has read the value, or
//! newer.

use std::fmt::Write;
use std::sync::Arc;

use super::kinds::{Kind, Type};
use crate::client::copy::literal;

/// A statement that fails unless the attributes of composites have the names that were learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Its text.
    pub text: String,
    /// The numbers of the composites, which are the types of its parameters. All of these are NULL.
    pub types: Vec<u32>,
}

/// What the error of a guard says, in front of the names that the attributes have by now.
pub const ATTRIBUTES_CHANGED: &str = "the attributes of a type have changed: ";

/// Whether an error is that of a guard.
#[must_use]
pub fn attributes_changed(sqlstate: Option<&str>, message: &str) -> bool {
    sqlstate == Some("22P02") && message.contains(ATTRIBUTES_CHANGED)
}

/// The guard of values of these types; none if they have no composites.
#[must_use]
pub fn guard(types: &[Arc<Type>]) -> Option<Guard> {
    let mut found = Vec::new();
    types.iter().for_each(|of| find(of, &mut found));
    let mut text = String::new();
    for (number, (_, names)) in found.iter().enumerate() {
        let names: Vec<String> = names.iter().map(|name| literal(name)).collect();
        let union = if number > 0 { " union all " } else { "" };
        // The text of the error is what can't be a number. No name of a type is looked up: a caller
        // need not be allowed to see its schema.
        let _ = write!(
            text,
            "{union}select ({} operator(pg_catalog.||) pg_catalog.array_to_string(n, ', '))\
             ::pg_catalog.int4 from (select array(select pg_catalog.json_object_keys(\
             pg_catalog.row_to_json(g))) from (select (${}).*) g) t (n) \
             where n operator(pg_catalog.<>) array[{}]::pg_catalog.text[]",
            literal(ATTRIBUTES_CHANGED),
            number + 1,
            names.join(", ")
        );
    }
    let types = found.into_iter().map(|(oid, _)| oid).collect();
    (!text.is_empty()).then_some(Guard { text, types })
}

/// The composites in a type, each once, and the names of their attributes.
fn find<'a>(type_: &'a Type, found: &mut Vec<(u32, Vec<&'a str>)>) {
    match &type_.kind {
        Kind::Composite(fields) if found.iter().all(|(oid, _)| *oid != type_.oid) => {
            let names = fields.iter().map(|(name, _)| &**name).collect();
            found.push((type_.oid, names));
            fields.iter().for_each(|(_, of)| find(of, found));
        }
        Kind::Domain(of) | Kind::Array(of) | Kind::Range(of) | Kind::Multirange(of) => {
            find(of, found);
        }
        Kind::Own(codec) => find(&codec.base, found),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::kinds::built_in;
    use super::*;

    fn made(oid: u32, name: &str, kind: Kind) -> Arc<Type> {
        let (schema, name) = ("s".to_owned(), name.to_owned());
        Arc::new(Type { oid, schema, name, kind, delimiter: b',' })
    }

    #[test]
    fn each_composite_in_the_types_is_guarded_once() {
        let text = built_in(25).expect("text is built in").clone();
        let fields = |names: &[&str], of: &Arc<Type>| {
            Kind::Composite(names.iter().map(|name| ((*name).to_owned(), of.clone())).collect())
        };
        let two = made(20_001, "two", fields(&["a", "it's"], &text));
        let many = made(20_002, "_two", Kind::Array(two.clone()));
        let outer = made(20_003, "outer", fields(&["x"], &many));
        let guard = guard(&[text.clone(), outer, two]).expect("there are composites");
        assert_eq!(guard.types, [20_003, 20_001]);
        assert_eq!(guard.text.matches(" union all ").count(), 1);
        assert!(guard.text.contains("array[E'a', E'it''s']"), "{}", guard.text);
        assert!(super::guard(&[text]).is_none());
    }

    #[test]
    fn the_error_of_a_guard_is_told_from_those_of_values() {
        let said = format!("invalid input syntax for type integer: \"{ATTRIBUTES_CHANGED}b, a\"");
        assert!(attributes_changed(Some("22P02"), &said));
        assert!(!attributes_changed(Some("22P02"), "invalid input syntax for type integer: \"x\""));
        assert!(!attributes_changed(Some("23514"), &said));
    }
}
