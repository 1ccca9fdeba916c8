//! Types that are not built in: described in one trip, learned, and then read and written through
//! derived implementations.

use std::collections::HashMap;
use std::error::Error as StdError;

use crate::pooled::shared;
use onetrip::types::{
    AsText, FromSql, Interval, Kind, Multirange, Numeric, Range, ToSql, Type, TypeCache,
};
use onetrip::{Client, Session, typed};
use postgres_types::{FromSql as DeriveFromSql, ToSql as DeriveToSql};

use crate::support::*;

/// The bytes of a value of any type, to be read as a learned type.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw<'a>, Box<dyn StdError + Sync + Send>> {
        Ok(Raw(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

#[derive(Clone, Copy, Debug, PartialEq, DeriveToSql, DeriveFromSql)]
#[postgres(name = "mood", rename_all = "snake_case")]
enum Mood {
    Sad,
    VeryGlad,
}

#[derive(Clone, Debug, PartialEq, DeriveToSql, DeriveFromSql)]
#[postgres(name = "fee")]
struct Fee(Numeric);

#[derive(Clone, Debug, PartialEq, DeriveToSql, DeriveFromSql)]
#[postgres(name = "address")]
struct Address {
    street: String,
    #[postgres(name = "house No")]
    house_no: Option<i32>,
    moods: Vec<Option<Mood>>,
}

#[derive(Clone, Debug, PartialEq, DeriveToSql, DeriveFromSql)]
#[postgres(name = "person")]
struct Person {
    home: Address,
    others: Vec<Address>,
    fee: Option<Fee>,
    away: Range<Interval>,
}

const SCHEMA: &str = r#"
    create type mood as enum ('very_glad');
    alter type mood add value 'sad' before 'very_glad';
    create domain fee as numeric(10, 2) check (value > 0);
    create type times as range (subtype = interval);
    create table address (street text, gone int, "house No" int, moods mood[]);
    alter table address drop gone;
    create type person as (home address, others address[], fee fee, away times);
"#;

/// A session, and a schema of its own with the types in it.
async fn schema() -> (Session, String) {
    let (session, schema) = (session().await, shared().new_name());
    let create = format!("create schema {schema}; set search_path = {schema}; {SCHEMA}");
    session.script(&create).await.unwrap();
    (session, schema)
}

async fn oid(session: &Session, type_: &str) -> u32 {
    session.query_one("select $1::text::regtype::oid", &[&type_]).await.unwrap().get(0)
}

/// Learns a type by its name.
async fn learn(session: &Session, types: &TypeCache, name: &str) -> Type {
    let oid = oid(session, name).await;
    let missing = types.missing(&[oid]);
    let rows = session.query(TypeCache::introspection_sql(), &[&missing]).await.unwrap();
    types.learn(&rows).unwrap();
    assert!(types.missing(&[oid]).is_empty());
    types.get(oid).unwrap()
}

/// Sends a value as a learned type, and reads it back.
async fn round_trip<T>(session: &Session, type_: &Type, value: &T, text: &str)
where
    T: ToSql + Sync + for<'a> FromSql<'a> + PartialEq,
{
    let row =
        session.query_one("select $1, $1::text", &[&typed(type_.clone(), value)]).await.unwrap();
    assert_eq!(row.get::<&str>(1), text);
    assert_eq!(row.columns()[0].type_().oid(), type_.oid());
    assert!(<T as FromSql>::accepts(type_), "{type_:?}");
    assert_eq!(&T::from_sql(type_, row.get::<Raw<'_>>(0).0).unwrap(), value);
}

#[test]
fn one_trip_learns_a_type_with_all_that_it_is_made_of() {
    run(async {
        let (session, schema) = schema().await;
        let types = TypeCache::new();
        let person = learn(&session, &types, "person").await;
        assert_eq!((person.name(), person.schema()), ("person", schema.as_str()));
        let Kind::Composite(fields) = person.kind() else { panic!("{person:?}") };
        let names: Vec<&str> = fields.iter().map(|field| field.name()).collect();
        assert_eq!(names, ["home", "others", "fee", "away"]);
        let home = fields[0].type_();
        assert_eq!(*fields[1].type_().kind(), Kind::Array(home.clone()));
        assert_eq!(*fields[2].type_().kind(), Kind::Domain(Type::NUMERIC));
        assert_eq!(*fields[3].type_().kind(), Kind::Range(Type::INTERVAL));
        let Kind::Composite(parts) = home.kind() else { panic!("{home:?}") };
        let names: Vec<&str> = parts.iter().map(|field| field.name()).collect();
        assert_eq!(names, ["street", "house No", "moods"], "a dropped column is none");
        let Kind::Array(mood) = parts[2].type_().kind() else { panic!("{parts:?}") };
        assert_eq!(
            *mood.kind(),
            Kind::Enum(vec!["sad".into(), "very_glad".into()]),
            "in their order"
        );
        for part in [home, mood, fields[1].type_(), fields[2].type_(), fields[3].type_()] {
            assert_eq!(types.get(part.oid()).as_ref(), Some(part));
        }
        assert_eq!(types.len(), 7);
    });
}

#[test]
fn derived_values_of_learned_types_go_both_ways() {
    run(async {
        let (session, _) = schema().await;
        let types = TypeCache::new();
        let mood = learn(&session, &types, "mood").await;
        round_trip(&session, &mood, &Mood::VeryGlad, "very_glad").await;
        let moods = learn(&session, &types, "mood[]").await;
        round_trip(&session, &moods, &vec![Some(Mood::Sad), None], "{sad,NULL}").await;
        let times = learn(&session, &types, "times").await;
        let month = Range::from(Interval::default()..Interval::new(1, 0, 0));
        round_trip(&session, &times, &month, "[00:00:00,\"1 mon\")").await;
        let person = learn(&session, &types, "person").await;
        let home = Address { street: "Am Hang".into(), house_no: Some(3), moods: vec![None] };
        let other = Address { street: "".into(), house_no: None, moods: vec![Some(Mood::Sad)] };
        let fee = Some(Fee("9.50".parse().unwrap()));
        let ada = Person { home, others: vec![other], fee, away: Range::Empty };
        let text = r#"("(""Am Hang"",3,{NULL})","{""(\\""\\"",,{sad})""}",9.50,empty)"#;
        round_trip(&session, &person, &ada, text).await;
        let people = learn(&session, &types, "person[]").await;
        round_trip(&session, &people, &Vec::<Person>::new(), "{}").await;
    });
}

#[test]
fn multiranges_made_by_users_are_learned() {
    run(async {
        let (session, _) = schema().await;
        if is_before(14, "multiranges") {
            return;
        }
        let types = TypeCache::new();
        // The multirange is named after the range.
        let multirange = learn(&session, &types, "times_multirange").await;
        assert_eq!(*multirange.kind(), Kind::Multirange(Type::INTERVAL));
        let value: Multirange<Interval> =
            [Range::from(Interval::new(1, 0, 0)..)].into_iter().collect();
        round_trip(&session, &multirange, &value, "{[\"1 mon\",)}").await;
    });
}

/// Bounds that have to be quoted, compared with the server's own quoting.
#[test]
fn ranges_of_texts_are_written_as_the_server_writes_them() {
    run(async {
        let (session, _) = schema().await;
        let create = "create type words as range (subtype = text, collation = \"C\")";
        session.execute(create, &[]).await.unwrap();
        let words = learn(&session, &TypeCache::new(), "words").await;
        let bounds =
            ["", " ", "\"", "(", ",", "\\", "\\\"\\", "]", "a b", "a\tb", "empty", "x\u{b}", "ü"];
        let mut sorted: Vec<String> = bounds.map(str::to_owned).to_vec();
        sorted.sort();
        for pair in sorted.windows(2) {
            let range = Range::from(pair[0].clone()..=pair[1].clone());
            round_trip(&session, &words, &range, &range.to_string()).await;
            assert_eq!(range.to_string().parse(), Ok(range));
        }
    });
}

#[test]
fn a_value_finds_its_learned_type() {
    run(async {
        let (session, _) = schema().await;
        let types = TypeCache::new();
        assert_eq!(types.type_for(&Mood::Sad), None);
        let mood = learn(&session, &types, "mood").await;
        assert_eq!(types.type_for(&Mood::Sad), Some(mood));
        let person = learn(&session, &types, "person").await;
        assert_eq!(types.type_for(&None::<Person>), Some(person));
        assert_eq!(types.type_for(&AsText("any")), None, "it accepts several");
        assert_eq!(types.type_for(&7), None, "that one is built in");
        let (_session, _) = two_moods(&types).await;
        assert_eq!(types.type_for(&Mood::Sad), None, "which one is not known");
    });
}

async fn two_moods(types: &TypeCache) -> (Session, String) {
    let (session, schema) = schema().await;
    learn(&session, types, "mood").await;
    (session, schema)
}

#[test]
fn an_altered_type_is_learned_anew_once_it_is_forgotten() {
    run(async {
        let (session, _) = schema().await;
        let types = TypeCache::new();
        let person = learn(&session, &types, "person").await;
        let mood = learn(&session, &types, "mood").await;
        session.execute("alter type mood add value 'so_so'", &[]).await.unwrap();
        assert_eq!(learn(&session, &types, "mood").await, mood, "as it was");
        types.forget(mood.oid());
        assert_eq!(types.get(person.oid()), None, "what it is a part of is forgotten with it");
        let altered = learn(&session, &types, "mood").await;
        assert!(matches!(altered.kind(), Kind::Enum(labels) if labels.len() == 3));
        assert_ne!(learn(&session, &types, "person").await, person);
    });
}

#[test]
fn numbers_that_no_type_has_are_learned_too() {
    run(async {
        let (session, types) = (session().await, TypeCache::new());
        let missing = types.missing(&[4_000_000_000, 23, 4_000_000_000]);
        assert_eq!(missing, [4_000_000_000]);
        let rows = session.query(TypeCache::introspection_sql(), &[&missing]).await.unwrap();
        let learned = types.learn(&rows).unwrap();
        assert_eq!((learned.len(), learned[0].name()), (1, "with oid 4000000000"));
        assert!(types.missing(&missing).is_empty());
    });
}

#[test]
fn rows_of_another_statement_teach_nothing() {
    run(async {
        let types = TypeCache::new();
        for sql in ["select 1", "select 1::oid as oid, 'x' as name", "select 'a' as oid"] {
            let rows = session().await.query(sql, &[]).await.unwrap();
            let error = types.learn(&rows).unwrap_err();
            assert_eq!(error.code(), "unreadable_reply", "{error}");
        }
        assert!(types.is_empty());
    });
}

/// The server refuses each way to make a type contain itself, so rows that describe one are not
/// honest.
#[test]
fn rows_that_describe_a_type_within_itself_are_read() {
    run(async {
        let (session, types) = (session().await, TypeCache::new());
        let sql = "select * from (values
            (80000::oid, 'public', 'tree', 'c', null::oid, '{left,right}'::text[], '{80000,80001}'::oid[],
                ','),
            (80001::oid, 'public', '_tree', 'a', 80000::oid, null, null, ',')
        ) types (oid, schema, name, kind, part, names, parts, delimiter)";
        let learned = types.learn(&session.query(sql, &[]).await.unwrap()).unwrap();
        assert_eq!(learned.len(), 2);
        let tree = types.get(80_000).unwrap();
        let Kind::Composite(fields) = tree.kind() else { panic!("{tree:?}") };
        assert_eq!((fields[0].type_().name(), fields[0].type_().kind()), ("tree", &Kind::Simple));
    });
}

#[test]
fn depth_costs_no_further_trip() {
    run(async {
        let (session, _) = schema().await;
        let mut create = "create domain d0 as mood[];".to_owned();
        for i in 1..30 {
            let before = i - 1;
            match i % 2 {
                0 => create.push_str(&format!("create domain d{i} as d{before}[];")),
                _ => create.push_str(&format!("create type d{i} as (part d{before});")),
            }
        }
        session.script(&create).await.unwrap();
        let types = TypeCache::new();
        let mut type_ = learn(&session, &types, "d29").await;
        loop {
            type_ = match type_.kind() {
                Kind::Composite(fields) => fields[0].type_().clone(),
                Kind::Domain(of) | Kind::Array(of) => of.clone(),
                kind => {
                    assert!(matches!(kind, Kind::Enum(labels) if labels.len() == 2));
                    break;
                }
            };
        }
    });
}

#[test]
fn system_types_that_are_not_built_in_here_are_learned() {
    run(async {
        let (session, types) = (session().await, TypeCache::new());
        let name = learn(&session, &types, "information_schema.sql_identifier").await;
        assert!(matches!(name.kind(), Kind::Domain(_)), "{name:?}");
        let class = learn(&session, &types, "pg_class").await;
        assert!(matches!(class.kind(), Kind::Composite(fields) if fields.len() > 30));
    });
}

#[test]
fn enums_and_domains_are_read_as_text() {
    run(async {
        let (session, _) = schema().await;
        let types = TypeCache::new();
        let mood = learn(&session, &types, "mood").await;
        let row = session.query_one("select 'sad'::mood", &[]).await.unwrap();
        let read = AsText::<String>::from_sql(&mood, row.get::<Raw<'_>>(0).0).unwrap();
        assert_eq!(read.0, "sad");
        session.execute("create domain doc as jsonb", &[]).await.unwrap();
        let doc = learn(&session, &types, "doc").await;
        let row = session.query_one("select row('{\"a\": 1}'::doc)", &[]).await.unwrap();
        // Behind the number of fields, the type and the length of the first.
        let read = AsText::<String>::from_sql(&doc, &row.get::<Raw<'_>>(0).0[12..]).unwrap();
        assert_eq!(read.0, "{\"a\": 1}");
        assert!(<AsText<String> as FromSql>::accepts(&doc));
        assert!(<AsText<String> as FromSql>::accepts(&mood));
    });
}

/// The types of contrib modules have no fixed number: they are known by name.
#[test]
fn types_of_extensions_are_known_by_their_name() {
    run(async {
        let (session, _) = schema().await;
        for (extension, value, text) in [
            ("hstore", Extension::Hstore, "\"a\"=>\"1\", \"b\"=>NULL"),
            ("citext", Extension::Text("Äh"), "Äh"),
            ("ltree", Extension::Text("a.b"), "a.b"),
        ] {
            if let Err(error) = session.execute(&format!("create extension {extension}"), &[]).await
            {
                skipped(&format!("this server has no extension {extension} ({error})"));
                continue;
            }
            if extension == "ltree" && is_before(13, "binary form of ltree") {
                continue;
            }
            let type_ = learn(&session, &TypeCache::new(), extension).await;
            match value {
                Extension::Hstore => {
                    let pairs = [("a", Some("1".to_owned())), ("b", None)];
                    let pairs: HashMap<String, Option<String>> =
                        pairs.map(|(key, value)| (key.to_owned(), value)).into();
                    round_trip(&session, &type_, &pairs, text).await;
                }
                Extension::Text(value) => {
                    round_trip(&session, &type_, &value.to_owned(), text).await
                }
            }
        }
    });
}

enum Extension {
    Hstore,
    Text(&'static str),
}

#[test]
fn many_threads_share_what_was_learned() {
    run_threads(async {
        let (session, _) = schema().await;
        let oid = oid(&session, "person").await;
        let types = std::sync::Arc::new(TypeCache::new());
        let client = client().await;
        let learn = |client: Client, types: std::sync::Arc<TypeCache>| async move {
            let sql = TypeCache::introspection_sql();
            types.learn(&client.query(sql, &[&vec![oid]]).await.unwrap()).unwrap();
            types.get(oid).unwrap()
        };
        let tasks: Vec<_> =
            (0..8).map(|_| tokio::spawn(learn(client.clone(), types.clone()))).collect();
        for task in tasks {
            assert!(matches!(task.await.unwrap().kind(), Kind::Composite(_)));
        }
        assert_eq!(types.len(), 7);
    });
}
