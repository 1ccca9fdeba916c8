use onetrip_engine::Time;

use super::super::catalog::{Description, Kind as Described};
use super::{Fit, fit, outdated};
use crate::client::types::kinds::{Type, Types};
use crate::message::Format;

const PAIR: u32 = 90_001;
const PAIRS: u32 = 90_002;
const CIRCLE: u32 = 90_003;

fn types(attributes: &[(&str, u32)]) -> Types {
    let mut types = Types::default();
    let described = |oid, name: &str, kind| Description {
        oid,
        schema: "public".to_owned(),
        name: name.to_owned(),
        kind,
        delimiter: b',',
    };
    let attributes = attributes.iter().map(|(name, oid)| ((*name).to_owned(), *oid)).collect();
    types.learn(
        Time::ZERO,
        vec![
            described(PAIR, "pair", Described::Composite(attributes)),
            described(PAIRS, "pairs", Described::Array(PAIR)),
            described(CIRCLE, "disc", Described::Simple),
        ],
    );
    types
}

/// A composite on the wire: the types and the values of its attributes.
fn composite(attributes: &[(u32, Option<&[u8]>)]) -> Vec<u8> {
    let mut out = (attributes.len() as u32).to_be_bytes().to_vec();
    for (oid, value) in attributes {
        out.extend_from_slice(&oid.to_be_bytes());
        let len = value.map_or(-1, |value| value.len() as i32);
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(value.unwrap_or_default());
    }
    out
}

fn array(element: &[u8]) -> Vec<u8> {
    let head = [1, 0, PAIR, 1, 1, element.len() as u32];
    [&head.map(u32::to_be_bytes).concat(), element].concat()
}

/// P20.
#[test]
fn a_column_is_read_only_in_the_form_that_it_was_asked_for_in() {
    let types = types(&[("a", 23)]);
    let look =
        |columns: &[u32], asked: &[Format]| fit(&types, (columns, asked), false, Type::format);
    assert_eq!(look(&[23, PAIR], &[]), Fit::Fits);
    // inet has no form but its text, and int4 is not read from text.
    assert_eq!(look(&[23, 869], &[]), Fit::Misfit(1));
    assert_eq!(look(&[23, 869], &[Format::Binary, Format::Text]), Fit::Fits);
    assert_eq!(look(&[23, 23], &[Format::Binary, Format::Text]), Fit::Misfit(1));
    assert_eq!(look(&[CIRCLE], &[]), Fit::Misfit(0));
    // The binary form of a text is that text, and that of jsonb is not.
    assert_eq!(look(&[25, 114], &[Format::Text, Format::Text]), Fit::Fits);
    assert_eq!(look(&[3802], &[Format::Text]), Fit::Misfit(0));
    assert_eq!(look(&[23, 91_000, 91_000], &[]), Fit::Unknown(vec![91_000]));
    assert_eq!(fit(&types, (&[91_000], &[]), true, Type::format), Fit::Misfit(0));
}

/// P20.
#[test]
fn a_composite_with_other_attributes_is_outdated() {
    let types = types(&[("a", 23), ("b", 25)]);
    let (pair, pairs) = (types.get(PAIR), types.get(PAIRS));
    let (one, text) = (1_i32.to_be_bytes(), b"x");
    let same = composite(&[(23, Some(&one)), (25, Some(text))]);
    let other = [
        composite(&[(23, Some(&one)), (20, Some(&[0; 8]))]),
        composite(&[(23, None), (20, None)]),
        composite(&[(23, Some(&one))]),
        composite(&[(23, Some(&one)), (25, Some(text)), (25, None)]),
    ];
    assert_eq!(outdated(&pair, &same), None);
    assert_eq!(outdated(&pairs, &array(&same)), None);
    for other in &other {
        assert_eq!(outdated(&pair, other), Some(PAIR));
        assert_eq!(outdated(&pairs, &array(other)), Some(PAIR));
    }
    // What is cut off is said to be malformed by its reader.
    for len in 0..same.len() {
        assert_eq!(outdated(&pair, &same[..len]), None, "{len}");
    }
    assert_eq!(outdated(&types.get(23), &one), None);
}
