//! What a real server says.

use std::collections::BTreeMap;
use std::error::Error;

use bytes::BytesMut;
use onetrip::types::TypeCache;
use onetrip_fuzz_targets::row_types;
use onetrip_lab::postgres::shared;
use onetrip_postgres::auth::Password;
use onetrip_postgres::message::tag::backend;
use onetrip_postgres::message::{Query, SYNC};
use onetrip_postgres::startup::{ProtocolVersion, StartupConfig};

use super::Corpus;
use super::server::{Server, extended, messages};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Creates the types of the targets, and a user who logs in with `secret` and few iterations.
const SETUP: &str = "
    create role lab login password 'SCRAM-SHA-256$4:AQEBAQEBAQEBAQEBAQEBAQ==$\
ls/YEjhSvxZKn+t5XQ0yyzORhkfyBTGHmxvzn80C9v0=:\
+TavM7YhukJARoUzq+Q9jzQ9WoHsz5AKyhSFv03/TeU=';
    create type mood as enum ('Glad', 'Sad');
    create type words as (words text[]);
    create type worded as range (subtype = words);
    create domain fee as numeric;
    create type times as range (subtype = interval);
    create type person as (name text, moods mood[], fee fee, at times);
    create table pairs (a int primary key, b text);
    create function loud() returns int language plpgsql as
        $$ begin raise notice 'so %', 1 using hint = 'none'; return 1; end $$;";

/// Values by the names of their types; the others are read from a zero.
const VALUES: &[(&str, &[&str])] = &[
    ("bool", &["true"]),
    ("char", &["'x'"]),
    ("inet", &["'10.0.0.1/8'", "'::1'"]),
    ("cidr", &["'10.0.0.0/8'"]),
    ("pg_lsn", &["'1/A'"]),
    ("timestamp", &["'2020-02-29 12:34:56.789'", "'infinity'", "'4713-01-01 BC'"]),
    ("timestamptz", &["'2020-02-29 12:34:56.789+01'", "'-infinity'", "'294276-12-31'"]),
    ("date", &["'2020-02-29'", "'infinity'", "'5874897-12-31'"]),
    ("time", &["'12:34:56.789'", "'24:00'"]),
    ("timetz", &["'12:34:56.789-15:59:59'"]),
    ("interval", &["'1 year 2 days -3.5 hours'", "'-178000000 years'"]),
    ("numeric", &["'-1234567.000890'", "'NaN'", "1e1000", "1e-1000", "0.00", "9999.9999"]),
    ("_numeric", &["array[1.5, null, 0]", "'{}'"]),
    ("_int4", &["'[0:1]={1,null}'", "'{{{1}},{{2}}}'", "'{{{{{{7}}}}}}'", "'{}'"]),
    ("_text", &["array['a', null, 'bcd']"]),
    ("int4range", &["'[1,5)'", "'empty'", "'(,)'"]),
    ("numrange", &["'(1.5,2]'"]),
    ("tsrange", &["'[2020-01-01,)'"]),
    ("_int4range", &["array['[1,5)', 'empty']::int4range[]"]),
    ("int4multirange", &["'{[1,5),[7,9)}'", "'{}'"]),
    ("nummultirange", &["'{(1.5,2]}'"]),
    ("json", &["'{\"a\": [1, \"b\", null]}'"]),
    ("jsonb", &["'{\"a\": [1, {\"b\": 1.5e3}, null]}'"]),
    ("xml", &["'<a/>'"]),
    ("uuid", &["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"]),
    ("macaddr", &["'08:00:2b:01:02:03'"]),
    ("varbit", &["'10110011101'"]),
    ("point", &["'(1,2)'"]),
    ("box", &["'(1,2),(3,4)'"]),
    ("path", &["'[(1,2),(3,4)]'"]),
    ("polygon", &["'((1,2),(3,4),(5,6))'"]),
    ("mood", &["'Glad'"]),
    ("words", &["row(array['a', 'b'])"]),
    ("worded", &["worded(row(array['a'])::words, row(array['b'])::words)"]),
    ("person", &["row('Ada', array['Glad', null]::mood[], 7.5, times('1 h', '1 day'))"]),
];

/// Requests of `replies`, and what asks for them.
const REPLIES: &[(&str, &str)] = &[
    ("simple", "select 1; select 'a', null; ; set local work_mem = '1MB'"),
    ("simple_error", "select 1; select 1/0; select 2"),
    ("notice", "select loud()"),
    ("listen", "listen a; notify a, 'payload'; set application_name = 'b'"),
    ("rows", "select g, repeat('x', g) from generate_series(1, 20) g"),
    ("copy", "copy (select 1, 'a') to stdout"),
];

pub(super) fn write(corpus: &mut Corpus) -> Result<()> {
    let secret = Password::from(shared().password());
    let mut server = Server::connect(StartupConfig {
        password: Some(secret),
        ..StartupConfig::new(shared().user())
    })?;
    let said = messages(&simple(&mut server, SETUP)?);
    assert!(said.iter().all(|(tag, _)| *tag != backend::ERROR_RESPONSE), "it refused the types");
    let mut seen = BTreeMap::new();
    startups(corpus, &mut seen)?;
    replies(corpus, &mut server, &mut seen)?;
    rows(corpus, &mut server, &mut seen)?;
    catalog(corpus, &mut server)?;
    each_message(corpus, &seen)
}

/// Streams by name, of which each kind of message becomes an input.
type Seen = BTreeMap<String, Vec<u8>>;

fn simple(server: &mut Server, sql: &str) -> Result<Vec<u8>> {
    let mut out = BytesMut::new();
    Query { sql }.encode(&mut out)?;
    server.ask(&out, 1)
}

fn startups(corpus: &mut Corpus, seen: &mut Seen) -> Result<()> {
    let lab = |password: &str| StartupConfig {
        password: Some(Password::from(password)),
        parameters: vec![("_pq_.x".to_owned(), "1".to_owned())],
        ..StartupConfig::new("lab")
    };
    let newer = StartupConfig { protocol: ProtocolVersion::V3_2, ..lab("secret") };
    let cases = [("scram", 1, lab("secret")), ("scram_3_2", 3, newer), ("wrong", 1, lab("wrong"))];
    for (name, given, config) in cases {
        let said = Server::connect(config)?.said;
        for plan in [0, 7] {
            corpus.add("startup", &format!("{name}_{plan}"), &[&[given, 0, plan], &said])?;
        }
        corpus.add("frames", name, &[&[5], &said])?;
        if name == "scram" {
            scram(corpus, &said)?;
        }
        seen.insert(name.to_owned(), said);
    }
    Ok(())
}

fn scram(corpus: &mut Corpus, said: &[u8]) -> Result<()> {
    let texts: Vec<Vec<u8>> = messages(said)
        .into_iter()
        .filter(|(tag, body)| *tag == backend::AUTHENTICATION && matches!(body[3], 11 | 12))
        .map(|(_, body)| body[4..].to_vec())
        .collect();
    let [first, last] = &texts[..] else { return Err("no exchange was recorded".into()) };
    corpus.add("scram", "recorded", &[&[2, first.len() as u8], first, last])?;
    Ok(())
}

fn replies(corpus: &mut Corpus, server: &mut Server, seen: &mut Seen) -> Result<()> {
    for (name, sql) in REPLIES {
        let said = simple(server, sql)?;
        corpus.add("replies", name, &[&[7, 1, 0], &said])?;
        corpus.add("frames", name, &[&[9], &said])?;
        seen.insert((*name).to_owned(), said);
    }
    let mut out = BytesMut::new();
    for sql in ["select 1, 'a'", "insert into pairs values (1, 'x')", "", "select * from nowhere"] {
        extended(sql, &[], &mut out)?;
        out.extend_from_slice(&SYNC);
    }
    let said = server.ask(&out, 4)?;
    corpus.add("replies", "extended", &[&[3, 4, 1, 1, 1, 1], &said])?;
    seen.insert("extended".to_owned(), said);
    let mut out = BytesMut::new();
    extended("select 1", &[], &mut out)?;
    extended("insert into pairs values (1, 'y')", &[], &mut out)?;
    extended("select 2", &[], &mut out)?;
    out.extend_from_slice(&SYNC);
    let said = server.ask(&out, 1)?;
    corpus.add("replies", "segment", &[&[2, 3, 0x81, 0x81, 0x81], &said])?;
    seen.insert("segment".to_owned(), said);
    Ok(())
}

fn rows(corpus: &mut Corpus, server: &mut Server, seen: &mut Seen) -> Result<()> {
    for (at, type_) in row_types().iter().enumerate() {
        let name = type_.name();
        let known = VALUES.iter().find(|(of, _)| *of == name).map(|(_, values)| *values);
        for (number, value) in known.unwrap_or(&["'0'"]).iter().enumerate() {
            let sql = format!("select {value}::\"{name}\", left({value}::text, 99), null::int");
            let said = server.rows(&sql, &[])?;
            let Some((_, body)) = said.iter().find(|(tag, _)| *tag == backend::DATA_ROW) else {
                println!("this server has no {name}");
                continue;
            };
            let columns = [3, at as u8, 0, at as u8, 1, 3, 0];
            corpus.add("rows", &format!("{name}_{number}"), &[&columns, body])?;
        }
    }
    let said = simple(server, "select * from pg_type where oid in (20, 25)")?;
    seen.insert("wide".to_owned(), said);
    Ok(())
}

fn catalog(corpus: &mut Corpus, server: &mut Server) -> Result<()> {
    for name in ["person", "worded", "_mood", "pg_class", "nowhere"] {
        let sql = format!("select coalesce(to_regtype('{name}')::oid, 4000000000)");
        let said = server.rows(&sql, &[])?;
        let (_, row) = said.iter().find(|(tag, _)| *tag == backend::DATA_ROW).ok_or("no oid")?;
        let oids = [&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 26, 0, 0, 0, 1, 0, 0, 0, 1][..], &row[2..]];
        let said = server.rows(TypeCache::introspection_sql(), &[&oids.concat()])?;
        let mut data = Vec::new();
        for (_, body) in said.iter().filter(|(tag, _)| *tag == backend::DATA_ROW) {
            data.extend((body.len() as u16).to_be_bytes());
            data.extend(body);
        }
        corpus.add("catalog", name, &[&data])?;
    }
    Ok(())
}

/// Each type of message that was seen, once; all the errors and notices.
fn each_message(corpus: &mut Corpus, seen: &Seen) -> Result<()> {
    let mut shortest = BTreeMap::<(u8, Option<u8>), Vec<u8>>::new();
    for (name, said) in seen {
        for (number, (tag, body)) in messages(said).into_iter().enumerate() {
            if matches!(tag, backend::ERROR_RESPONSE | backend::NOTICE_RESPONSE) {
                corpus.add("server_error", &format!("{name}_{number}"), &[&body])?;
            }
            let kind = (tag == backend::AUTHENTICATION).then(|| body[3]);
            let known = shortest.entry((tag, kind)).or_insert_with(|| body.clone());
            if body.len() < known.len() {
                *known = body;
            }
        }
    }
    for ((tag, kind), body) in shortest {
        let name = format!("{tag:02x}{}", kind.map_or_else(String::new, |kind| format!("_{kind}")));
        corpus.add("backend", &name, &[&[tag], &body])?;
    }
    Ok(())
}
