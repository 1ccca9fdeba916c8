//! Types that are not built in: the query, its answer, how long types are remembered, and which
//! callers wait. docs/reference/types.md promises it.

use std::time::Duration;

use bytes::BytesMut;
use onetrip_engine::{Time, Token};
use onetrip_postgres::client::types::catalog::{CATALOG_SQL, COLUMNS, Description, Kind, question};
use onetrip_postgres::client::types::known::{Known, SIZE_MAX};
use onetrip_postgres::client::types::look_up::{
    LookUps, Tries, Unanswered, Wait, found, unanswered,
};
use onetrip_postgres::client::types::resolve::{DEPTH_MAX, Resolved, resolve};
use onetrip_postgres::message::{Bind, Parse, SYNC, frame};

fn is_built_in(oid: u32) -> bool {
    oid < 16_384
}

fn described(oid: u32, kind: Kind) -> Description {
    Description { oid, schema: "public".into(), name: format!("t{oid}"), kind, delimiter: b',' }
}

fn labels(count: usize) -> Kind {
    Kind::Enum((0..count).map(|it| it.to_string()).collect())
}

fn composite(oid: u32, parts: &[u32]) -> Description {
    let fields = parts.iter().map(|part| (format!("f{part}"), *part)).collect();
    described(oid, Kind::Composite(fields))
}

fn in_order(descriptions: Vec<Description>) -> Vec<(u32, bool)> {
    let resolved = resolve(descriptions, is_built_in);
    resolved.iter().map(|it| (it.description.oid, it.is_part)).collect()
}

fn learn(known: &mut Known<u32>, now: Time, resolved: &[Resolved]) {
    resolved.iter().for_each(|it| known.learn(now, it, it.description.oid));
}

fn seconds(seconds: u64) -> Time {
    Time::ZERO.after(Duration::from_secs(seconds))
}

// --- the query and its answer ---

#[test]
fn a_question_names_each_type_by_its_number() {
    let alone = question(&[70_000, 70_001], true).unwrap();
    let within = question(&[70_000, 70_001], false).unwrap();
    assert_eq!(alone[..], [&within[..], &SYNC[..]].concat());
    let parse = frame(&within, |_| Some(u32::MAX)).unwrap().unwrap();
    let parsed = Parse::decode(parse.body).unwrap();
    assert_eq!((parsed.sql, parsed.parameter_types.collect()), (CATALOG_SQL, vec![1028]));
    let rest = &within[parse.body.len() + 5..];
    let bound = Bind::decode(frame(rest, |_| Some(u32::MAX)).unwrap().unwrap().body).unwrap();
    let array: Vec<u8> =
        [1_u32, 0, 26, 2, 1, 4, 70_000, 4, 70_001].iter().flat_map(|it| it.to_be_bytes()).collect();
    assert_eq!(bound.parameters.collect::<Vec<_>>(), [Some(&array[..])]);
}

/// An array in binary; `None` is a NULL element.
fn array(elements: &[Option<&[u8]>]) -> Vec<u8> {
    let mut out = BytesMut::new();
    let head = [u32::from(!elements.is_empty()), 0, 25, elements.len() as u32, 1];
    let head = &head[..if elements.is_empty() { 3 } else { 5 }];
    out.extend(head.iter().flat_map(|it| it.to_be_bytes()));
    for element in elements {
        out.extend(element.map_or(-1, |it| it.len() as i32).to_be_bytes());
        out.extend(element.unwrap_or_default());
    }
    out.to_vec()
}

type Row = [Option<Vec<u8>>; COLUMNS.len()];

fn row(kind: &str) -> Row {
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let oid = 70_000_u32.to_be_bytes().to_vec();
    [Some(oid), text("public"), text("mood"), text(kind), None, None, None, text(",")]
}

fn read(row: &Row) -> Option<Description> {
    Description::read(|number| row[number].as_deref())
}

fn kind(row: &Row) -> Option<Kind> {
    read(row).map(|it| it.kind)
}

#[test]
fn a_row_describes_a_type_by_its_kind() {
    for (letter, expected) in [
        ("a", Kind::Array(23)),
        ("d", Kind::Domain(23)),
        ("r", Kind::Range(23)),
        ("m", Kind::Multirange(23)),
        ("p", Kind::Pseudo),
        ("b", Kind::Simple),
    ] {
        let mut row = row(letter);
        row[4] = Some(23_u32.to_be_bytes().to_vec());
        assert_eq!(kind(&row), Some(expected));
    }
    let mut mood = row("e");
    mood[5] = Some(array(&[Some(b"sad"), Some(b"")]));
    assert_eq!(kind(&mood), Some(Kind::Enum(vec!["sad".into(), "".into()])));
    mood[5] = Some(array(&[]));
    assert_eq!(kind(&mood), Some(Kind::Enum(Vec::new())));
    let mut pair = row("c");
    pair[5] = Some(array(&[Some(b"a"), Some(b"b")]));
    pair[6] = Some(array(&[Some(&[0, 0, 0, 23]), Some(&[0, 0, 0, 25])]));
    assert_eq!(kind(&pair), Some(Kind::Composite(vec![("a".into(), 23), ("b".into(), 25)])));
    pair[7] = Some(b":".to_vec());
    let read = read(&pair).unwrap();
    assert_eq!((read.oid, &*read.schema, &*read.name), (70_000, "public", "mood"));
    assert_eq!(read.delimiter, b':');
}

#[test]
fn a_number_that_no_type_has_is_a_row_of_nulls() {
    let mut row: Row = Default::default();
    row[0] = Some(70_000_u32.to_be_bytes().to_vec());
    assert_eq!(kind(&row), Some(Kind::Unknown));
    let resolved = resolve(vec![read(&row).unwrap(), described(70_001, labels(1))], is_built_in);
    // It may be a type that this transaction can't see.
    let found: Vec<u32> = found(resolved).iter().map(|it| it.description.oid).collect();
    assert_eq!(found, [70_001]);
}

#[test]
fn rows_of_another_statement_are_not_read() {
    assert_eq!(kind(&row("a")), None, "an array of nothing");
    assert_eq!(kind(&row("e")), None, "an enum without labels");
    for wrong in [
        vec![],
        vec![0; 11],
        array(&[None]),
        array(&[Some(b"\xff")]),
        [array(&[Some(b"a")]), vec![0]].concat(),
        // More labels than there are bytes.
        [1_u32, 0, 25, u32::MAX, 1].iter().flat_map(|it| it.to_be_bytes()).collect(),
        [2_u32, 0, 25, 1, 1, 1, 1].iter().flat_map(|it| it.to_be_bytes()).collect(),
    ] {
        let mut row = row("e");
        row[5] = Some(wrong);
        assert_eq!(kind(&row), None, "{row:?}");
    }
    let mut row = row("b");
    row[0] = Some(vec![1, 2]);
    assert_eq!(kind(&row), None);
}

// --- parts of types ---

#[test]
fn parts_come_before_what_is_made_of_them() {
    let order = in_order(vec![
        composite(70_003, &[70_002, 23]),
        described(70_002, Kind::Array(70_001)),
        described(70_001, labels(2)),
        described(23, Kind::Simple),
    ]);
    assert_eq!(order, [(70_001, true), (70_002, true), (70_003, true)]);
}

#[test]
fn a_type_that_contains_itself_is_a_part_by_its_name_only() {
    let order = in_order(vec![
        composite(70_001, &[70_002]),
        described(70_002, Kind::Array(70_001)),
        described(70_003, Kind::Domain(70_009)),
        described(70_004, labels(1)),
    ]);
    assert_eq!(order, [(70_004, true), (70_001, false), (70_002, false), (70_003, false)]);
}

#[test]
fn types_that_are_nested_more_than_64_deep_are_parts_by_their_name_only() {
    let domains = (0..1_000)
        .map(|it| described(70_000 + it, Kind::Domain(if it == 0 { 23 } else { 70_000 + it - 1 })));
    let order = in_order(domains.rev().collect());
    assert_eq!((order.len(), DEPTH_MAX), (1_000, 64));
    assert!(order[..64].iter().zip(70_000..).all(|(it, oid)| *it == (oid, true)));
    assert!(order[64..].iter().all(|(_, is_part)| !is_part));
}

#[test]
fn a_type_of_more_than_16384_parts_is_known_by_its_name() {
    let resolved = resolve(
        vec![described(1 << 20, labels(16_384)), described(1 << 21, labels(16_383))],
        |_| false,
    );
    assert_eq!((&resolved[0].description.kind, resolved[0].size()), (&Kind::Simple, 1));
    assert_eq!((&resolved[1].description.kind, resolved[1].size()), (&labels(16_383), 16_384));
}

// --- remembered types ---

#[test]
fn the_oldest_is_forgotten_where_there_is_no_room() {
    let mut known = Known::default();
    let large: Vec<_> = (0..10).map(|it| described(70_000 + it, labels(10_000))).collect();
    learn(&mut known, Time::ZERO, &resolve(large, is_built_in));
    assert_eq!((known.len(), SIZE_MAX), (6, 65_536));
    let missing = known.missing(&[70_003, 70_000, 70_004, 23, 70_000], is_built_in);
    assert_eq!(missing, [70_000, 70_003], "each once, and none that is built in");
}

#[test]
fn what_contains_a_forgotten_type_is_forgotten_too() {
    let mut known = Known::default();
    let types = vec![
        described(80_000, labels(1)),
        described(80_001, Kind::Array(80_000)),
        composite(80_002, &[23, 80_001]),
        described(80_003, labels(1)),
    ];
    learn(&mut known, Time::ZERO, &resolve(types, is_built_in));
    known.forget(80_000);
    assert_eq!(known.types().collect::<Vec<_>>(), [&80_003]);
    assert_eq!((known.get(80_003), known.get(80_002)), (Some(&80_003), None));
}

#[test]
fn a_type_whose_values_do_not_fit_is_asked_for_anew_once_it_is_a_second_old() {
    let mut known = Known::default();
    let mood = resolve(vec![described(80_000, labels(1))], is_built_in);
    learn(&mut known, seconds(5), &mood);
    assert!(!known.is_suspect(seconds(5), 80_000));
    assert!(known.is_suspect(seconds(6), 80_000));
    assert!(!known.is_suspect(seconds(6), 80_001), "it is not known");
    learn(&mut known, seconds(6), &mood);
    assert!(!known.is_suspect(seconds(6), 80_000), "it was learned again");
    assert_eq!(known.len(), 1);
}

// --- callers that wait ---

fn wait(look_ups: &mut LookUps<u8>, missing: &[u32], until: u64, who: u8) -> Wait {
    look_ups.wait(missing, &mut Tries::default(), seconds(until), &who, u8::eq)
}

#[test]
fn all_who_miss_the_same_types_share_a_question() {
    let (mut look_ups, token) = (LookUps::<u8>::default(), Token(7));
    assert_eq!(wait(&mut look_ups, &[1, 2], 9, 1), Wait::Ask);
    look_ups.asked((token, None), &[1, 2], seconds(9), 1);
    assert_eq!(wait(&mut look_ups, &[2, 3], 8, 2), Wait::Shared);
    assert_eq!(wait(&mut look_ups, &[2], 5, 2), Wait::Shared);
    assert_eq!(wait(&mut look_ups, &[3], 8, 3), Wait::Ask, "nobody asked for that");
    assert!(look_ups.ended(Token(8)).is_none(), "that is no question");
    let woken: Vec<u8> = look_ups.ended(token).unwrap().collect();
    assert_eq!(woken, [1, 2], "each once");
    assert!(look_ups.ended(token).is_none());
}

#[test]
fn who_waits_is_woken_when_it_is_late_and_the_others_go_on_waiting() {
    let (mut look_ups, token) = (LookUps::<u8>::default(), Token(7));
    assert_eq!(look_ups.deadline(), Time::NEVER);
    look_ups.asked((token, None), &[1], seconds(9), 1);
    assert_eq!(wait(&mut look_ups, &[1], 3, 2), Wait::Shared);
    assert_eq!(look_ups.deadline(), seconds(3));
    assert_eq!(look_ups.expire(seconds(2)).count(), 0);
    assert_eq!(look_ups.expire(seconds(3)).collect::<Vec<_>>(), [2]);
    assert_eq!(look_ups.deadline(), seconds(9));
    assert_eq!(look_ups.ended(token).unwrap().collect::<Vec<_>>(), [1]);
}

#[test]
fn a_question_without_an_answer_is_put_a_few_times_only() {
    let (mut look_ups, mut tries) = (LookUps::<u8>::default(), Tries::default());
    for _ in 0..4 {
        assert_eq!(look_ups.wait(&[1], &mut tries, seconds(9), &1_u8, u8::eq), Wait::Ask);
        look_ups.asked((Token(7), None), &[1], seconds(9), 1);
        assert_eq!(look_ups.ended(Token(7)).unwrap().count(), 1);
    }
    assert_eq!(look_ups.wait(&[1], &mut tries, seconds(9), &1, u8::eq), Wait::Over);
    assert_eq!(wait(&mut look_ups, &[], 9, 1), Wait::Over, "nothing is missing");
}

#[test]
fn a_caller_hears_why_the_server_gave_its_query_up() {
    let mut look_ups = LookUps::<u8, &str>::default();
    let (mut tries, mut later) = (Tries::default(), Tries::default());
    let ask = |look_ups: &mut LookUps<u8, &'static str>, tries: &mut Tries, why: &'static str| {
        assert_eq!(look_ups.wait(&[1, 2], tries, seconds(9), &1, u8::eq), Wait::Ask);
        look_ups.asked((Token(7), None), &[1, 2], seconds(9), 1);
        look_ups.failed(Token(7), why);
        assert_eq!(look_ups.ended(Token(7)).unwrap().count(), 1);
    };
    ask(&mut look_ups, &mut tries, "first");
    ask(&mut look_ups, &mut later, "second");
    assert_eq!(look_ups.failure(&[2], &tries), Some(&"first"));
    assert_eq!(look_ups.failure(&[2], &later), Some(&"second"), "not what came before it");
    assert_eq!(look_ups.failure(&[3], &tries), None, "that was about others");
    assert_eq!(look_ups.failure(&[2], &Tries::default()), None, "it has not waited");
    look_ups.failed(Token(8), "no query");
    assert_eq!(look_ups.failure(&[1], &later), Some(&"second"));
}

#[test]
fn what_ended_one_query_says_nothing_of_the_types() {
    for lost in [None, Some("57014"), Some("55P03"), Some("40P01"), Some("57P01"), Some("XX000")] {
        assert_eq!(unanswered(lost), Unanswered::Lost, "{lost:?}");
    }
    for refused in ["42501", "42P01", "42883", "0A000"] {
        assert_eq!(unanswered(Some(refused)), Unanswered::Refused, "{refused}");
    }
    assert_eq!(unanswered(Some("25P02")), Unanswered::Aborted);
}
