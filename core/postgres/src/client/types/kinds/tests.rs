use std::sync::Arc;

use onetrip_engine::Time;

use super::super::catalog::{Description, Kind as Described};
use super::{Form, Kind, RANGES, SIMPLE, Types, VECTORS, built_in};
use crate::message::Format;

fn described(oid: u32, name: &str, kind: Described) -> Description {
    Description { oid, schema: "public".to_owned(), name: name.to_owned(), kind, delimiter: b',' }
}

/// A client that has learned these.
fn learned(descriptions: Vec<Description>) -> Types {
    let mut types = Types::default();
    types.learn(Time::ZERO, descriptions);
    types
}

#[test]
fn each_number_stands_once_in_the_tables() {
    let simple = SIMPLE.iter().flat_map(|row| [row.0, row.1]);
    let ranges = RANGES.iter().flat_map(|row| [row.0, row.1, row.2]);
    let vectors = VECTORS.iter().flat_map(|row| [row.0, row.1]);
    let mut all: Vec<u32> = simple.chain(ranges).chain(vectors).filter(|oid| *oid != 0).collect();
    assert!(all.iter().all(|oid| built_in(*oid).is_some_and(|type_| type_.oid == *oid)));
    let len = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), len);
}

#[test]
fn types_are_built_of_their_parts() {
    let types = learned(vec![
        described(90_003, "pair", Described::Composite(vec![("m".to_owned(), 90_001)])),
        described(90_002, "small", Described::Domain(23)),
        described(90_001, "mood", Described::Enum(vec!["sad".to_owned()])),
        described(90_004, "hstore", Described::Simple),
        described(90_005, "circles", Described::Simple),
    ]);
    let Kind::Composite(fields) = &types.get(90_003).kind else { panic!("it is a composite") };
    assert!(matches!(fields[0].1.kind, Kind::Enum));
    assert!(matches!(types.get(90_002).base().kind, Kind::Int4));
    assert!(matches!(types.get(90_004).kind, Kind::Hstore));
    assert_eq!(types.get(90_005).format(), Format::Text);
    assert_eq!(types.missing(&[23, 90_001, 90_009, 90_009]), [90_009]);
    let singles = [(1184, true), (90_002, true), (90_003, false), (1007, false), (3904, false)];
    for (oid, is_single) in singles {
        assert_eq!(types.get(oid).kind.is_single(), is_single, "{oid}");
    }
}

#[test]
fn extensions_are_texts_where_the_host_wants_them_so() {
    let mut types = Types::default();
    types.extensions_as_texts();
    types.learn(Time::ZERO, vec![described(90_004, "hstore", Described::Simple)]);
    assert!(matches!(types.get(90_004).kind, Kind::Other));
}

#[test]
fn a_host_that_was_told_how_reads_a_type_within_others_so() {
    let mut types = learned(vec![described(90_001, "small", Described::Domain(23))]);
    types.set_codec(23, Form::Text, Arc::new(7_u8));
    for oid in [23, 1007, 3904, 90_001] {
        assert_eq!(types.get(oid).format(), Format::Text, "{oid}");
    }
    let type_ = types.get(90_001);
    let Kind::Own(codec) = &type_.base().kind else { panic!("it is the host's own") };
    assert_eq!(codec.by.downcast_ref(), Some(&7_u8));
    assert!(matches!(codec.base.kind, Kind::Int4) && !codec.is_text_binary());
    types.set_codec(25, Form::Text, Arc::new(()));
    assert_eq!(types.get(25).format(), Format::Binary);
    types.reset_codec(23);
    assert_eq!(types.get(1007).format(), Format::Binary);
    types.clear();
    assert_eq!(types.missing(&[90_001]), [90_001]);
}

/// P20. Nothing on the wire shows that an attribute has another name.
#[test]
fn composites_are_asked_for_again_once_they_are_old() {
    let mut types = learned(vec![
        described(90_001, "mood", Described::Enum(vec!["sad".to_owned()])),
        described(90_003, "pair", Described::Composite(vec![("m".to_owned(), 90_001)])),
        described(90_004, "pairs", Described::Array(90_003)),
    ]);
    let all = [23, 90_001, 90_003, 90_004];
    let after = |secs: u64| Time::from_nanos(secs * 1_000_000_000);
    assert_eq!(types.old(after(59), &all), []);
    assert_eq!(types.old(after(60), &all), [90_003, 90_004]);
    types.learn(
        after(60),
        vec![
            described(90_001, "mood", Described::Enum(vec!["sad".to_owned()])),
            described(90_003, "pair", Described::Composite(vec![("k".to_owned(), 90_001)])),
        ],
    );
    assert_eq!(types.old(after(61), &all), [90_004]);
    let Kind::Composite(fields) = &types.get(90_003).kind else { panic!("it is a composite") };
    assert_eq!(fields[0].0, "k");
}
