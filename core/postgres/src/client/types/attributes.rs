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

use bytes::BytesMut;

use super::kinds::{Kind, Type};
use crate::client::copy::literal;
use crate::message::{EncodeError, Formats, bind, execute, parse};

/// A statement that fails unless the attributes of composites have the names that were learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Parse, Bind and Execute.
    pub messages: Vec<u8>,
    /// The numbers of the composites.
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
    let types: Vec<u32> = found.into_iter().map(|(oid, _)| oid).collect();
    // It can't be encoded with names of some 1 GiB: then values are not written by names, either.
    if text.is_empty() { None } else { Guard::new(&text, types).ok() }
}

impl Guard {
    /// The composites are the types of its parameters, which are all NULL.
    fn new(text: &str, types: Vec<u32>) -> Result<Guard, EncodeError> {
        let mut out = BytesMut::new();
        parse::write(&mut out, "", text, &types)?;
        let null = |_: usize, _: &mut BytesMut| Ok::<_, EncodeError>(bind::IsNull::Yes);
        let all = Formats::AllText;
        bind::write(&mut out, "", "", all, types.len(), null, all)?;
        out.extend_from_slice(&execute::UNNAMED_ALL);
        Ok(Guard { messages: out.to_vec(), types })
    }
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
        let said = String::from_utf8_lossy(&guard.messages);
        assert_eq!(said.matches(" union all ").count(), 1);
        assert!(said.contains("array[E'a', E'it''s']"), "{said}");
        // The composites' numbers are the types; NULL is the length -1.
        let types = [20_003_u32, 20_001].map(u32::to_be_bytes).concat();
        assert!(guard.messages.windows(8).any(|it| it == types));
        assert!(guard.messages.windows(8).any(|it| it == [0xff; 8]));
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
