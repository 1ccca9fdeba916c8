//! The rule by which a remembered type may stand for a value, `is_exact_text`, on a server: under
//! every type that a column can become without a word, the value means the same.

use std::time::Duration;

use onetrip::Session;
use onetrip_postgres::client::exact::is_exact_text;

use crate::support::*;

/// A type of a parameter, and one that a column of it can become.
struct Pair {
    oid: u32,
    from: String,
    to: String,
}

/// Stores each text, as a value of one type and as it is, in a column of another type, and returns
/// where the two differ. A value that fails as the one type is seen, and so it does not count.
const COMPARE: &str = r#"
create function pg_temp.stored(texts text[], typed text) returns text[] language plpgsql as $$
declare got text[]; one text; list text;
begin
  begin
    select string_agg(format('(%s, %L%s)', n, x, typed), ', ') into list
      from unnest(texts) with ordinality as u (x, n);
    execute 'with w as (insert into pg_temp.target values ' || list || ' returning n, c::text as c)
      select array_agg(c order by n) from w' into got;
    return got;
  exception when others then
    got := '{}';
  end;
  foreach one in array texts loop
    begin
      execute format('insert into pg_temp.target values (0, %L%s) returning c::text', one, typed) into one;
      got := got || one;
    exception when others then
      got := got || null::text;
    end;
  end loop;
  return got;
end $$;
create function pg_temp.differing(texts text[], from_type text, to_type text)
returns table (t text, typed text, untyped text) language plpgsql as $$
begin
  execute 'create temporary table target (n int, c ' || to_type || ')';
  return query select * from unnest(texts, pg_temp.stored(texts, '::' || from_type), pg_temp.stored(texts, ''))
    as d (t, typed, untyped) where d.typed is not null and d.typed is distinct from d.untyped;
  drop table pg_temp.target;
end $$;
"#;

/// Pairs that are left out, as docs/concepts/migrations.md says: a negative number names no object
/// of the catalogue, and `name` is a type of the catalogue's own, in which a bool is one letter.
const LEFT_OUT: [(&str, &str); 3] = [("int2", "reg"), ("int4", "reg"), ("bool", "name")];

/// What a column can become without USING: by a cast that an assignment takes, by the output of any
/// value as a string, and each with lengths that such a column may have.
const PAIRS: &str = r"
with scalar as (
  select castsource as s, casttarget as t from pg_cast where castcontext in ('a', 'i')
  union select s.oid, t.oid from pg_type s, pg_type t
    where t.typcategory = 'S' and t.oid < 10000 and t.typtype = 'b' and s.typtype = 'b'
), pair as (
  select s, t from scalar
  union select s.typarray, t.typarray from scalar join pg_type s on s.oid = scalar.s join pg_type t on t.oid = t
  union select s.oid, t.oid from pg_type s, pg_type t
    where s.typelem <> 0 and s.typlen = -1 and t.typcategory = 'S' and t.oid < 10000 and t.typtype = 'b'
), named as (
  select s, format('%I', typname) as from_type, t::regtype::text as to_type
    from pair join pg_type on oid = s where s < 10000 and t <> 0
)
select s, from_type, to_type from named
union select s, from_type, replace(to_type, '[]', '') || length || case when to_type like '%[]' then '[]' else '' end
  from named join (values ('character', '(1)'), ('character', '(7)'), ('character varying', '(1)'),
    ('character varying', '(7)'), ('numeric', '(10,2)'), ('numeric', '(4,0)'), ('interval', '(0)'), ('bit', '(8)')
  ) as l (of, length) on replace(to_type, '[]', '') = of
union select s, from_type, regexp_replace(to_type, '^(time(stamp)?)', '\1(' || digits || ')')
  from named, (values (0), (3)) as l (digits) where to_type ~ '^time'
order by 1, 2, 3";

/// Texts that are easily taken for something else.
const TRICKY: &str = "\
0|-0|+0|00|007|+42|42|-7| 8|8 |1.0|1.50|1.5|.5|5.|1e3|1E3|1.5e3|0x1f|0b11|0o17|1_000|127|128|255|256|32767|32768|-32768|\
-32769|65535|65536|99999|100000|999999|1000000|1234567|16777216|16777217|2147483647|2147483648|-2147483648|-2147483649|\
4294967295|4294967296|9007199254740992|9007199254740993|999999999999999|1000000000000000|123456789012345|1234567890123456|\
9223372036854775807|9223372036854775808|-9223372036854775808|99999999999999999999|0.1|0.12345678901234567|NaN|nan|Infinity|\
-Infinity|inf|infinity|-infinity|1e-400|1e400|true|false|t|f|yes|no|on|off|y|n|TRUE| true|1|null|NULL||\
 |  |a|A|ab|ab |a b|abcdefg|abcdefgh|abcdefg |\\101|\\x61|\\\\|\\|'|\"|\"a\"|{}|{1}|{1,2}|{1,NULL}|{NULL}|{ 1}|{007}|{+1}|\
{2147483648}|{{1},{2}}|[0:1]={1,2}|{1,}|{-1,-32769}|[1]|[1, 2]|{\"a\": 1}|{\"a\":1}|{\"a\":1,\"a\":2}|{\"b\":1,\"a\":2}|\
 {\"a\":1} |\"x\"|\"\\u0041\"|\"\\u0000\"|1.0e2|1.00|-0.0|1E2|tRUE|[1e2]|\
a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11|a0eebc999c0b4ef8bb6d6bb9bd380a11|\
{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}|2020-01-01|2020-1-1|2020-12-31|2020-02-30|2020-02-29|2021-02-29|0001-01-01|0000-01-01|\
9999-12-31|10000-01-01|2020-01-01 BC|20200101|Jan 1 2020|01/02/2020|today|now|epoch|tomorrow|2020-01-01 12:00:00|\
2020-01-01T12:00:00|2020-01-01 12:00|2020-01-01 12:00:00.5|2020-01-01 12:00:00.123456|2020-01-01 12:00:00.1234567|\
2020-01-01 12:00:00.120|2020-01-01 23:59:59.999999|2020-01-01 23:59:60|2020-01-01 24:00:00|2020-01-01 12:00:00+00|\
2020-01-01 12:00:00+05|2020-01-01 12:00:00 UTC|2020-01-01 12:00:00 PM|2020-03-29 02:30:00|2020-03-29 01:59:59.5|\
2020-10-25 02:30:00|2020-10-25 02:30:00+01|0001-01-01 00:00:00|12:00:00|12:00|12:00:00.5|12:00:00.50|12:00:00.123456|23:59:59|\
23:59:59.999999|23:59:59.9999999|23:59:60|24:00:00|00:00:00|00:00:01|12:00:00+05|12:00 PM|1200|1 day|P1D|1 mon|\
pg_class|pg_catalog.pg_class|1259|int4|integer|text|abs|abs(int4)|-|+|=|english|simple|postgres|público|日本|$1.50|1,000|\
1.2.3.4|10.0.0.0/8|::1|08:00:2b:01:02:03|1010|B1010|x1f|<a/>|(1,2)|0/1|aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|\
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|ééééééééééééééééééééééééééééééééé";

/// The texts above, and many more of the same kinds.
fn texts(seed: u64) -> Vec<String> {
    let mut rng = Random(seed);
    let mut all: Vec<String> = TRICKY.split('|').map(str::to_owned).collect();
    for _ in 0..400 {
        let n = rng.below(u64::MAX) as i64 >> rng.below(64);
        all.push(n.to_string());
        all.push(format!("{}.{}", n % 1_000_000, rng.below(1_000)));
        all.push((n as f64 / 1000.0).to_string());
        all.push(format!("{{{},{}}}", n % 70_000, n >> 40));
        let day = format!("{:04}-{:02}-{:02}", rng.below(10_000), rng.below(14), rng.below(33));
        let clock = format!("{:02}:{:02}:{:02}", rng.below(25), rng.below(61), rng.below(61));
        let part =
            ["".to_owned(), format!(".{:0w$}", rng.below(1000), w = 1 + rng.below(6) as usize)];
        let part = &part[rng.below(2) as usize];
        all.extend([format!("{day} {clock}{part}"), format!("{clock}{part}"), day]);
        let sign = b"09-+.,:/ aAeE_{}[]()\"'\\$%\tT\xc3\xa9";
        let len = rng.below(12) as usize;
        let text: Vec<u8> = (0..len).map(|_| sign[rng.below(sign.len() as u64) as usize]).collect();
        all.push(String::from_utf8_lossy(&text).into_owned());
        let bytes = format!(
            "{:032x}",
            u128::from(rng.below(u64::MAX)) << 64 | u128::from(rng.below(u64::MAX))
        );
        let (a, b, c, d, e) =
            (&bytes[..8], &bytes[8..12], &bytes[12..16], &bytes[16..20], &bytes[20..]);
        all.push(format!("{a}-{b}-{c}-{d}-{e}"));
        all.push(format!("{{\"{}\": {}, \"a\": [{n}, {}]}}", len, n % 7, n as f64));
    }
    all
}

async fn pairs(session: &Session) -> Vec<Pair> {
    let rows = session.query(PAIRS, &[]).await.unwrap();
    rows.iter().map(|row| Pair { oid: row.get(0), from: row.get(1), to: row.get(2) }).collect()
}

/// P56.
#[test]
fn what_is_exact_means_the_same_under_every_cast() {
    run_long(Duration::from_secs(300), async {
        let seed = std::env::var("ONETRIP_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
        let all = texts(seed);
        let mut wrong = Vec::new();
        let mut compared = 0;
        for zone in ["UTC", "Europe/Berlin"] {
            let session = session().await;
            let set = format!("set timezone = '{zone}'; set datestyle = 'ISO'; {COMPARE}");
            session.script(&set).await.unwrap();
            for Pair { oid, from, to } in pairs(&session).await {
                let exact: Vec<&str> = all
                    .iter()
                    .map(String::as_str)
                    .filter(|it| is_exact_text(oid, it.as_bytes()))
                    .collect();
                let is_left_out = LEFT_OUT.iter().any(|(left_out, becomes)| {
                    from.trim_start_matches('_') == *left_out && to.starts_with(becomes)
                });
                if exact.is_empty() || is_left_out {
                    continue;
                }
                compared += exact.len();
                let differing = "select * from pg_temp.differing($1, $2, $3)";
                let rows = session.query(differing, &[&exact, &from, &to]).await;
                let rows = rows.unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
                for row in &rows {
                    let [text, typed, untyped] = [0, 1, 2].map(|at| row.get::<Option<String>>(at));
                    wrong.push(format!(
                        "{from} to {to}, {zone}: {text:?} is stored as {typed:?}, and by itself as {untyped:?}"
                    ));
                }
            }
        }
        println!("{compared} texts were compared");
        assert!(wrong.is_empty(), "seed {seed}, {} differ:\n{}", wrong.len(), wrong.join("\n"));
        assert!(compared > 1000, "{compared}");
    });
}
