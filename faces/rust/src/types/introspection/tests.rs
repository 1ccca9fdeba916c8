//! Types from descriptions that no honest catalog has. The order and the bounds of types are tested
//! below the face, and descriptions of honest catalogs are read from a real server.
#![allow(clippy::unwrap_used)]

use onetrip_postgres::client::types::catalog::Kind as Parts;
use onetrip_postgres::client::types::resolve::{DEPTH_MAX, SIZE_MAX, resolve};

use super::*;
use crate::types::TypeCache;

fn learned(descriptions: &[Description]) -> Vec<Resolved> {
    resolve(descriptions.to_vec(), is_built_in)
}

fn described(oid: u32, kind: Parts) -> Description {
    Description { oid, schema: "public".into(), name: format!("t{oid}"), kind, delimiter: b',' }
}

fn composite(oid: u32, parts: impl IntoIterator<Item = u32>) -> Description {
    let fields = parts.into_iter().map(|part| (format!("f{part}"), part)).collect();
    described(oid, Parts::Composite(fields))
}

fn resolved(descriptions: &[Description]) -> HashMap<u32, Type> {
    build(&learned(descriptions)).into_iter().map(|type_| (type_.oid(), type_)).collect()
}

fn depth(type_: &Type) -> usize {
    1 + match type_.kind() {
        Kind::Domain(of) | Kind::Array(of) => depth(of),
        Kind::Composite(fields) => {
            fields.iter().map(|field| depth(field.type_())).max().unwrap_or(0)
        }
        _ => 0,
    }
}

#[test]
fn parts_come_before_what_is_made_of_them() {
    let descriptions = [
        composite(70_003, [70_002, Type::INT4.oid()]),
        described(70_002, Parts::Array(70_001)),
        described(70_001, Parts::Enum(vec!["a".into(), "b".into()])),
        described(Type::INT4.oid(), Parts::Simple),
    ];
    let learned = learned(&descriptions);
    let types = build(&learned);
    let oids: Vec<u32> = types.iter().map(Type::oid).collect();
    assert_eq!(oids, [70_001, 70_002, 70_003]);
    let Kind::Composite(fields) = types[2].kind() else { panic!("no composite") };
    assert_eq!((fields[0].type_(), fields[1].type_()), (&types[1], &Type::INT4));
    let sizes: Vec<usize> = learned.iter().map(Resolved::size).collect();
    assert_eq!(sizes, [3, 4, 6]);
}

#[test]
fn a_type_that_contains_itself_is_known_by_its_name_inside() {
    let types = resolved(&[
        composite(70_001, [70_002]),
        described(70_002, Parts::Array(70_001)),
        composite(70_003, [70_001, Type::TEXT.oid()]),
    ]);
    let Kind::Composite(fields) = types[&70_001].kind() else { panic!("no composite") };
    assert_eq!((fields[0].type_().name(), fields[0].type_().kind()), ("t70002", &Kind::Simple));
    let Kind::Array(of) = types[&70_002].kind() else { panic!("no array") };
    assert_eq!((of.name(), of.kind()), ("t70001", &Kind::Simple));
    assert_eq!(types.len(), 3);
}

#[test]
fn a_part_that_is_not_described_is_known_by_its_number() {
    let types = resolved(&[described(70_001, Parts::Array(70_009))]);
    let Kind::Array(of) = types[&70_001].kind() else { panic!("no array") };
    assert_eq!((of.name(), of.oid()), ("with oid 70009", 70_009));
}

#[test]
fn nesting_is_bounded() {
    let domains: Vec<Description> = (0..10_000)
        .map(|i| described(70_000 + i, Parts::Domain(if i == 0 { 23 } else { 70_000 + i - 1 })))
        .collect();
    let types = resolved(&domains);
    assert_eq!(types.len(), domains.len());
    assert_eq!(depth(&types[&70_062]), 64);
    assert!(types.values().all(|type_| depth(type_) <= DEPTH_MAX + 2));
}

/// Each type contains the previous one twice, so that the last would have more parts than fit into
/// memory.
#[test]
fn size_is_bounded_where_parts_are_shared() {
    let pairs: Vec<Description> = (0..60)
        .map(|i| {
            let part = if i == 0 { 23 } else { 70_000 + i - 1 };
            composite(70_000 + i, [part, part])
        })
        .collect();
    let learned = learned(&pairs);
    let types = build(&learned);
    assert_eq!(types.len(), pairs.len());
    assert!(learned.iter().all(|learned| learned.size() <= SIZE_MAX));
    assert!(types.iter().any(|type_| *type_.kind() == Kind::Simple));
    assert!(format!("{:?}", types[59]).len() < 1 << 20);
}

#[test]
fn the_cache_forgets_the_oldest_and_what_contains_a_forgotten_type() {
    let cache = TypeCache::new();
    let labels = |count: usize| Parts::Enum((0..count).map(|i| i.to_string()).collect());
    let large: Vec<Description> = (0..10).map(|i| described(70_000 + i, labels(10_000))).collect();
    assert_eq!(cache.remember(&learned(&large)).len(), 10);
    assert_eq!(cache.missing(&[70_000, 70_003, 70_004, 70_009, 23]), [70_000, 70_003]);
    assert_eq!(cache.len(), 6);
    cache.remember(&learned(&[
        described(80_000, labels(1)),
        described(80_001, Parts::Array(80_000)),
        composite(80_002, [80_001]),
        described(80_003, labels(1)),
    ]));
    cache.forget(80_000);
    assert_eq!(cache.missing(&[80_003, 80_002, 80_001, 80_000, 80_002]), [80_000, 80_001, 80_002]);
    assert_eq!(cache.get(80_003).unwrap().name(), "t80003");
    cache.clear();
    assert!(cache.is_empty() && cache.get(23) == Some(Type::INT4));
}

#[test]
fn what_is_learned_again_takes_the_place_of_what_was_known() {
    let cache = TypeCache::new();
    let label = |label: &str| learned(&[described(70_000, Parts::Enum(vec![label.into()]))]);
    cache.remember(&label("old"));
    cache.remember(&label("new"));
    assert_eq!(*cache.get(70_000).unwrap().kind(), Kind::Enum(vec!["new".into()]));
    assert_eq!(cache.len(), 1);
}
