/** A schema for one run, with types of its own. */
const schema = `values_${process.pid}_${Date.now() % 100_000}`

/** Statements that make the types and tables, run once. */
export const SETUP = [
  `create schema ${schema}`,
  `create type ${schema}.mood as enum ('sad', 'ok, "fine"', 'happy')`,
  `create type ${schema}.pair as (a int, b text, c timestamptz)`,
  `create domain ${schema}.positive as int check (value > 0)`,
]

export const TEARDOWN = `drop schema ${schema} cascade`

/** Statements for each connection. */
export const SETTINGS = [`set search_path = ${schema}, public`, "set timezone = 'Europe/Berlin'"]

/** Values of the built-in types that clients meet, also those at the limits. */
export const EXPRESSIONS = `
true
false
null::bool
0::int2
32767::int2
(-32768)::int2
0::int4
-1
7
2147483647
(-2147483648)::int4
999999999
0::int8
9223372036854775807
(-9223372036854775808)::int8
-5::int8
0::oid
4294967295::oid
'pg_class'::regclass
'int4'::regtype
'now'::regproc
'sum(int4)'::regprocedure
'pg_catalog'::regnamespace
'simple'::regconfig
0::float4
1.5::float4
-0.1::float4
'NaN'::float4
'Infinity'::float4
'-Infinity'::float4
1e-30::float4
3.4028235e38::float4
0::float8
'-0'::float8
1.5::float8
-1.25::float8
0.1::float8
100::float8
123456789012345::float8
1234567890123456::float8
12345678901234567890::float8
0.000001::float8
1e-7::float8
5e-324::float8
1.7976931348623157e308::float8
'NaN'::float8
'Infinity'::float8
'-Infinity'::float8
pi()
-pi()
1/3::float8
0::numeric
1.10::numeric
-1.5
'NaN'::numeric
'Infinity'::numeric
123456789012345678901234567890.123456789
0.000000000000000000001
12.34::money
(-1234567.89)::money
''::text
'a'
'hello'
'é'
'abcdefghijklmnopqrstuvw'
'abcdefghijklmnopqrstuvwx'
'abcdefghijklmnopqrstuvwxy'
'abcdefghijklmnopqrstuvé'
'abcdefghijklmnopqrstuvwé'
'漢字と𝄞'
repeat('x', 127)
repeat('ü', 5000)
E'a\\nb\\t"c"\\\\d'
'x'::char(5)
'x'::varchar(5)
'x'::"char"
'n'::name
'{"a": [1, 2, {"b": null}], "é": "\\u0000x"}'::json
'{"a": 1.50, "__proto__": 1}'::jsonb
'null'::jsonb
'"text"'::json
'12'::jsonb
'[]'::json
array['{"a":1}'::json, null, '[1]'::json]
array['{"a":1}'::jsonb]
'\\x'::bytea
'\\x00ff10'::bytea
'abc'::bytea
decode(repeat('00ff', 3000), 'hex')
array['\\x00'::bytea, null, '\\xdeadbeef'::bytea]
'2020-01-02'::date
'1999-12-31'::date
'0001-01-01'::date
'0099-03-04'::date
'0100-01-01'::date
'0044-03-15 BC'::date
'0001-02-29 BC'::date
'9999-12-31'::date
'10000-01-01'::date
'5874897-12-31'::date
'infinity'::date
'-infinity'::date
'2020-03-29'::date
'2020-02-29 12:34:56'::timestamp
'2020-02-29 12:34:56.7'::timestamp
'2020-02-29 12:34:56.789'::timestamp
'2020-02-29 12:34:56.789123'::timestamp
'2020-02-29 00:00:00.000001'::timestamp
'1969-12-31 23:59:59.999999'::timestamp
'0050-01-01 00:00:00'::timestamp
'4713-01-01 00:00:00 BC'::timestamp
'294276-12-31 23:59:59.999999'::timestamp
'infinity'::timestamp
'-infinity'::timestamp
'2020-03-29 02:30:00'::timestamp
'2020-10-25 02:30:00'::timestamp
'2020-02-29 12:34:56+00'::timestamptz
'2020-07-01 12:34:56.057+00'::timestamptz
'2020-07-01 12:34:56.029999-07:30'::timestamptz
'1890-01-01 00:00:00+00'::timestamptz
'1500-06-07 08:09:10.5+00'::timestamptz
'0044-03-15 12:00:00 BC'::timestamptz
'0001-01-01 00:00:00+00'::timestamptz
'10000-01-01 00:00:00+00'::timestamptz
'infinity'::timestamptz
'-infinity'::timestamptz
array['2020-01-02'::date, null, 'infinity'::date]
array['2020-01-02 03:04:05.678'::timestamp]
array['2020-01-02 03:04:05.678+01'::timestamptz, '0044-03-15 BC'::timestamptz]
'12:34:56'::time
'24:00:00'::time
'12:34:56.789+05:30'::timetz
array['12:34'::time, '01:00'::time]
array['12:34+01'::timetz]
'1 year 2 mons 3 days 04:05:06.789'::interval
'-1 year +2 mons -3 days -04:05:06.789123'::interval
'0'::interval
'-00:00:00.5'::interval
'100 hours'::interval
array['1 day'::interval, null, '00:00:01'::interval]
'(1.5,-2)'::point
'(1e300,NaN)'::point
array['(1,2)'::point, '(3,4)'::point]
'<(1,2),3.5>'::circle
'((1,2),(3,4))'::box
array['((1,2),(3,4))'::box, '((5,6),(7,8))'::box]
'[(1,2),(3,4)]'::lseg
'((1,2),(3,4),(5,6))'::path
'((1,2),(3,4),(5,6))'::polygon
'{1,2,3}'::line
'127.0.0.1'::inet
'::1/64'::inet
'10.0.0.0/8'::cidr
array['127.0.0.1'::inet, null]
array['10.0.0.0/8'::cidr]
'08:00:2b:01:02:03'::macaddr
'08:00:2b:01:02:03:04:05'::macaddr8
array['08:00:2b:01:02:03'::macaddr]
'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid
array['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid]
B'101'::bit(3)
B'10101'::varbit
array[B'1'::bit(1), B'0'::bit(1)]
'<a>é</a>'::xml
'fat & rat'::tsquery
'a fat cat'::tsvector
'16/B374D848'::pg_lsn
'10:20:10,14,15'::pg_snapshot
'10:20:10,14,15'::txid_snapshot
'(1,2)'::tid
'7'::xid
'7'::xid8
'7'::cid
'$.a[*] ? (@ > 1)'::jsonpath
int4range(1, 10)
int8range(null, 5)
numrange(1.5, 2.5, '[]')
'empty'::int4range
tsrange('2020-01-01', '2020-01-02')
tstzrange('2020-01-01', null)
daterange('2020-01-01', '2020-02-01')
'{[1,3),[5,7)}'::int4multirange
array[int4range(1, 2), null]
array[numrange(1, 2)]
array[true, false, null]
array[1, 2, null, -3]::int2[]
array[1, 2, null, -3]
array[]::int4[]
array[[1, 2], [3, 4]]
'{{{1},{2}},{{3},{null}}}'::int4[]
'[2:4]={1,2,3}'::int4[]
array[1, 9223372036854775807, null]::int8[]
array[1::oid, 4294967295::oid]
array[1.5, null, 'NaN', '-Infinity']::float4[]
array[1.5, null, 1e300, 'Infinity']::float8[]
array[1.10, null, 123456789012345678901234567890.5]::numeric[]
array['a', null, '', 'NULL', 'a,b', '{x}', 'say "hi"', E'back\\\\slash', ' blank ', 'é漢']
array['a', 'b']::varchar[]
array['a', 'b']::char(3)[]
array['a', 'b']::"char"[]
array['a', 'b']::name[]
array[['a', 'b'], ['c', null]]
array['1.5'::money]
array['<(1,2),3>'::circle]
array['<a/>'::xml]
row(1, 'a', null, array[1, 2])
row(1, 'say "hi"', now() - now())::text
(1, 'x', '2020-01-01 00:00:00+00')::pair
array[(1, 'x', null)::pair]
'happy'::mood
'ok, "fine"'::mood
array['sad', 'ok, "fine"', null]::mood[]
5::positive
array[5]::positive[]
null
null::int4[]
null::timestamptz
'cursor'::refcursor
'=r/postgres'::aclitem
'1 2 3'::int2vector
'1 2 3'::oidvector
`
  .split('\n')
  .filter((line) => line !== '')
