"""The drop-in against asyncpg itself: each scenario runs on both, and what they return is compared.
"""

from __future__ import annotations

import asyncio
import datetime
import decimal
import io
import ipaddress
import operator
import ssl
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

import onetrip.asyncpg
from conftest import URL

Scenario = Callable[[Any, Any], Awaitable[Any]]
SCENARIOS: list[Scenario] = []


def scenario(work: Scenario) -> Scenario:
    SCENARIOS.append(work)
    return work


def plain(value: Any) -> Any:
    """What can be compared, whoever made it."""
    if isinstance(value, BaseException):
        told = [getattr(value, name, None) for name in ("sqlstate", "detail", "constraint_name")]
        return (type(value).__name__, *told)
    if type(value).__name__ == "Record":
        return {name: plain(it) for name, it in value.items()}
    if type(value).__name__ in ("Path", "Polygon"):
        return (value.is_closed, list(value))
    if type(value).__name__ in ("Range", "BitString"):
        return repr(value).rsplit(".", 1)[-1]
    if isinstance(value, (list, tuple)):
        return [plain(it) for it in value]
    return value


async def caught(work: Awaitable[Any]) -> Any:
    try:
        return await work
    except Exception as error:
        return error


@scenario
async def infinity_is_the_last_and_the_first_moment(driver: Any, con: Any) -> Any:
    told = []
    zone = datetime.timezone(datetime.timedelta(hours=2))
    for kind in ("date", "timestamp", "timestamptz", "date[]", "timestamptz[]"):
        for text in ("infinity", "-infinity"):
            text = f"array['{text}', null]" if "[" in kind else f"'{text}'"
            value = await con.fetchval(f"select {text}::{kind}")
            told += [value, await con.fetchval(f"select $1::{kind}::text", value)]
    last = datetime.datetime.max.replace(tzinfo=datetime.timezone.utc)
    told += [
        await con.fetchval("select $1::timestamptz::text", last),
        await con.fetchval("select $1::date::text", datetime.datetime.max),
        await con.fetchval("select $1::timestamp::text", datetime.date(2026, 1, 2)),
        await con.fetchval("select $1::timestamptz = $2", datetime.date(2026, 1, 2),
                           datetime.datetime(2026, 1, 2)),
        await con.fetchval("select $1::timestamptz::text",
                           datetime.datetime(2026, 1, 2, tzinfo=zone)),
        await caught(con.fetchval("select $1::timestamp", "2026-01-02")),
    ]
    with pytest.raises((ValueError, OverflowError)):
        await con.fetchval("select time '24:00'")
    return told


@scenario
async def an_anonymous_row_is_a_tuple(driver: Any, con: Any) -> Any:
    text = "select row(1, 'a'::text, null, row(2, row()))"
    value = await con.fetchval(text)
    return [value, type(value).__name__, type(value[3]).__name__]


@scenario
async def a_dict_for_a_composite_may_leave_fields_out(driver: Any, con: Any) -> Any:
    await con.execute("create type pg_temp.pair as (a int, b text)")
    text = "select ($1::pg_temp.pair).a, ($1::pg_temp.pair).b, ($1::pg_temp.pair)::text"
    return [
        await con.fetchrow(text, {"a": 1}),
        await caught(con.fetchrow(text, {"b": "x", "c": 1})),
        await con.fetchrow(text, {}),
        await con.fetchval("select $1::pg_temp.pair[]", [{"b": "y"}, None]),
    ]


@scenario
async def a_codec_for_the_types_of_the_catalog_breaks_no_other(driver: Any, con: Any) -> Any:
    for kind in ("oid", "text", "int8"):
        await con.set_type_codec(
            kind, schema="pg_catalog", encoder=str, decoder=lambda it: f"<{it}>"
        )
    await con.set_type_codec(
        "json", schema="pg_catalog", encoder=str, decoder=lambda it: ("json", it)
    )
    row = await con.fetchrow("select 5::oid, 'a'::text, 6::int8, '1'::json")
    for kind in ("oid", "text", "int8", "json"):
        await con.reset_type_codec(kind, schema="pg_catalog")
    return [row, await con.fetchrow("select 5::oid, 'a'::text, 6::int8, '1'::json")]


@scenario
async def what_is_wrong_with_an_array_is_said_in_the_same_words(driver: Any, con: Any) -> Any:
    values = [[1, [1]], [[1], 1, [2]], [[1], [2, 3]], [1, "t", 2], [[1], ["t"]]]
    return [
        [type(error).__name__, str(error)]
        for error in [await caught(con.fetchval("select $1::int[]", it)) for it in values]
    ]


@scenario
async def what_is_a_whole_number_is_taken_for_an_int(driver: Any, con: Any) -> Any:
    given = (decimal.Decimal("7.00"), 7.0, decimal.Decimal("2e30"), decimal.Decimal("-1e5"), "7")
    told = [await con.fetchval("select $1::oid::text", given[0])]
    for kind in ("int2", "int4", "int8", "int4[]"):
        for value in given:
            value = [value] if "[" in kind else value
            told.append(str(await caught(con.fetchval(f"select $1::{kind}::text", value))))
    return told


@scenario
async def a_name_that_was_given_to_a_statement_is_known_to_the_server(driver: Any, con: Any) -> Any:
    await con.execute("create temporary table numbered (n int)")
    known = "select name from pg_prepared_statements where name in ('A b', 'other') order by name"
    named = await con.prepare("select $1::int + 1", name="A b")
    told = [named.get_name(), await named.fetchval(1), await con.fetchval('execute "A b"(2)')]
    told.append(await caught(con.prepare("select 2", name="A b")))
    told.append(await (await con.prepare("show search_path", name="shown")).fetchval())
    # Nobody has it any more, and what is gone already is no error.
    del named
    other = await con.prepare("select 2", name="other")
    told += [await con.fetch(known), other.get_name()]
    await con.execute("deallocate other")
    del other
    async with con.transaction():
        third = await con.prepare("insert into pg_temp.numbered values ($1)", name="third")
        await con.execute("execute third(7)")
    told.append(await con.fetch("select * from pg_temp.numbered"))
    await con.prepare("select 3", name="fourth")
    return [*told, third.get_name(), await con.fetch(known)]


@scenario
async def what_is_prepared_is_no_query_yet(driver: Any, con: Any) -> Any:
    before = con._protocol.queries_count
    statement = await con.prepare("select 1")
    prepared = con._protocol.queries_count
    await statement.fetchval()
    return [prepared - before, con._protocol.queries_count - prepared]


@scenario
async def fetches(driver: Any, con: Any) -> Any:
    text = "select n, n::text as t from generate_series(1, $1::int) n"
    return [
        await con.fetch(text, 3),
        await con.fetchrow(text, 2),
        await con.fetchrow(text, 0),
        await con.fetchval(text, 2, column=1),
        await con.fetchval(text, 0),
        await con.fetch("select 1 as a, 2 as a"),
        await con.fetchrow(";"),
    ]


@scenario
async def tags(driver: Any, con: Any) -> Any:
    return [
        await con.execute("create temp table t (a int primary key, b text not null)"),
        await con.execute("insert into t values (1, 'x'); insert into t values (2, 'y'), (3, 'z')"),
        await con.execute("insert into t values ($1, $2)", 4, "w"),
        await con.execute("delete from t where a > $1", 2),
        await con.fetch("insert into t values (9, 'q') returning *"),
        await con.execute("drop table t"),
    ]


@scenario
async def many(driver: Any, con: Any) -> Any:
    await con.execute("create temp table many (a int primary key, b text)")
    told = [await con.executemany("insert into many values ($1, $2)", [(1, "a"), (2, "b")])]
    told.append(await caught(
        con.executemany("insert into many values ($1, $2)", [(3, "c"), (1, "again")])
    ))
    told.append(await con.fetch("select * from many order by a"))
    text = "insert into many values ($1, $2) returning a * 10 as ten"
    told.append(await con.fetchmany(text, [(5, "e"), (6, "f")]))
    told.append(await con.fetchmany(text, []))
    await con.execute("drop table many")
    return told


@scenario
async def transactions(driver: Any, con: Any) -> Any:
    await con.execute("create temp table tx (a int primary key)")
    told: list[Any] = []
    async with con.transaction():
        told.append(con.is_in_transaction())
        await con.execute("insert into tx values (1)")
        try:
            async with con.transaction():
                await con.execute("insert into tx values (2)")
                await con.execute("insert into tx values (1)")
        except driver.UniqueViolationError as error:
            told.append(error)
        told.append(await con.fetch("select * from tx"))
    told.append(con.is_in_transaction())
    tx = con.transaction(isolation="serializable", readonly=True, deferrable=True)
    await tx.start()
    told.append(await con.fetchval("show transaction_isolation"))
    told.append(await caught(con.execute("insert into tx values (7)")))
    told.append(await caught(con.execute("select 1")))
    await tx.rollback()
    told.append(await caught(tx.commit()))
    told.append(await caught(con.transaction().commit()))
    async with con.transaction():
        pass
    await con.execute("begin")
    told.append(await caught(con.transaction().start()))
    await con.execute("rollback")
    told.append(await con.fetch("select * from tx"))
    await con.execute("drop table tx")
    return told


@scenario
async def prepared(driver: Any, con: Any) -> Any:
    stmt = await con.prepare("select $1::int as a, $2::text[] as b, now() as c")
    told: list[Any] = [
        [tuple(it) for it in stmt.get_parameters()],
        [(it.name, tuple(it.type)) for it in stmt.get_attributes()],
        (await stmt.fetchrow(1, ["x"]))["b"],
        stmt.get_statusmsg(),
        stmt.get_query(),
        await stmt.fetchval(4, [], column=0),
        len(await stmt.fetch(4, [])),
    ]
    told.append(await caught(con.prepare("select nothing from nowhere")))
    other = await con.prepare("select $1::int + 1 as next", name="mine")
    told += [other.get_name(), await other.fetchmany([(1,), (2,)])]
    plan = await stmt.explain(1, ["x"])
    return [*told, list(plan[0])]


@scenario
async def cursors(driver: Any, con: Any) -> Any:
    text = "select n from generate_series(1, $1::int) n"
    told: list[Any] = [await caught(con.cursor(text, 3))]
    async with con.transaction():
        told.append([row["n"] async for row in con.cursor(text, 120, prefetch=50)])
        cursor = await con.cursor(text, 10)
        told += [await cursor.fetch(3), await cursor.forward(2), await cursor.fetchrow()]
        told += [await cursor.fetch(100), await cursor.fetch(1), await cursor.fetchrow()]
        stmt = await con.prepare(text)
        told.append([row["n"] async for row in stmt.cursor(2)])
        told.append(await caught(cursor.fetch(0)))
    return told


@scenario
async def errors(driver: Any, con: Any) -> Any:
    told = [
        await caught(con.fetch("select 1 / $1::int", 0)),
        await caught(con.fetch("selekt")),
        await caught(con.fetch("select $1::int", "1")),
        await caught(con.fetch("select $1::int")),
        await caught(con.fetch("select $1::text", 1)),
        await caught(con.fetch("select $1::int", 2**40)),
        await caught(con.fetch("select $1::bool", 1)),
        await caught(con.fetchval("select 1", column=3)),
        await caught(con.executemany("select $1::int", [(1,), ("x",)])),
        await caught(con.fetch("select pg_sleep(5)", timeout=0.05)),
        await con.fetchval("select 'alive'"),
        await caught(con.execute("do $$ begin raise exception 'no' using errcode='P1234'; end $$")),
    ]
    return [*told, str(told[0]), told[0].query, isinstance(told[2], driver.DataError)]


VALUES = [
    ("bool", True), ("int2", -5), ("int4", 7), ("int8", 2**62), ("float8", 1.5), ("float4", 1.1),
    ("text", "é"), ("bytea", b"\0x"), ("numeric", decimal.Decimal("12.340")), ("numeric", 3),
    ("uuid", uuid.UUID(int=7)), ("uuid", str(uuid.UUID(int=8))), ("json", '{"a": 1}'),
    ("jsonb", '{"a": 1}'), ("date", datetime.date(2020, 2, 29)), ("time", datetime.time(1, 2, 3)),
    ("timestamp", datetime.datetime(2020, 1, 2, 3, 4, 5, 6)),
    ("timestamptz", datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)),
    ("timestamptz", datetime.datetime(2020, 1, 2)), ("interval", datetime.timedelta(3, 4, 5)),
    ("timetz", datetime.time(1, 2, tzinfo=datetime.timezone.utc)),
    ("inet", "10.0.0.1"), ("inet", "10.0.0.1/8"), ("cidr", ipaddress.ip_network("10.0.0.0/8")),
    ("inet[]", ["10.0.0.1", None]), ("int4[]", [[1, 2], [3, None]]), ("text[]", ["a", 'b"c']),
    ("point", (1.0, 2.0)), ("box", ((2, 3), (0, 1))), ("lseg", ((0, 1), (2, 3))),
    ("line", (1, 2, 3)), ("circle", ((0, 0), 2)), ("path", ((0, 1), (2, 3))),
    ("polygon", ((0, 1), (2, 3), (4, 4))), ("int4range", (1, 5)), ("int8range", (1, 5)),
    ("int8range", (1,)), ("int8range", [None, 3]), ("int8range", ()), ("int8range", "aa"),
    ("xid", 4), ("oid", 4),
    ("money", "$1.00"), ("macaddr", "08:00:2b:01:02:03"), ("macaddr[]", ["08:00:2b:01:02:03"]),
    ("tid", (1, 2)), ("bit(5)", "10101"), ("varbit", "101"), ("name", "x"), ('"char"', b"a"),
    ("xml", "<a/>"), ("tsvector", "'a' 'b'"), ("pg_lsn", 1), ("float8[]", [1, 2.5]),
]


@scenario
async def values(driver: Any, con: Any) -> Any:
    told = []
    for type_, value in VALUES:
        if type_ == "int4range":
            value = driver.Range(*value)
        elif "bit" in type_:
            value = driver.BitString(value)
        got = await caught(con.fetchval(f"select $1::{type_} as v", value))
        told.append((type_, type(got).__name__.replace("pgproto.", ""), got))
    return told


@scenario
async def codecs(driver: Any, con: Any) -> Any:
    import json

    await con.set_type_codec("json", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    told = [await con.fetchval("select $1::json", {"a": [1]})]
    told.append(await con.fetchval("select $1::json[]", [{"a": 1}, None]))
    await con.reload_schema_state()
    told.append(await con.fetchval("select '[1]'::json"))
    await con.set_type_codec(
        "inet", schema="pg_catalog", encoder=str, decoder=lambda it: ("inet", it), format="text"
    )
    await con.reload_schema_state()
    told.append(await con.fetchval("select $1::inet", "1.1.1.1"))
    await con.reset_type_codec("inet", schema="pg_catalog")
    told.append(await con.fetchval("select $1::inet", "1.1.1.1"))
    await con.reset_type_codec("json", schema="pg_catalog")
    told.append(await con.fetchval("select '{}'::json"))
    await con.set_type_codec(
        "numeric", schema="pg_catalog", encoder=str, decoder=float, format="text"
    )
    told.append(await con.fetchval("select $1::numeric", 1.5))
    told.append(await con.fetchval("select array[1.5, null]::numeric[]"))
    await con.set_type_codec(
        "interval", schema="pg_catalog", format="tuple", encoder=lambda it: it, decoder=list
    )
    told.append(await con.fetchval("select $1::interval", (14, -3, 5)))
    await con.execute("create type pair as (a int, b text)")
    await con.set_type_codec(
        "pair", format="tuple", encoder=lambda it: it, decoder=lambda it: ("pair", *it)
    )
    told.append(await con.fetchval("select $1::pair", (1, "x")))
    await con.execute("drop type pair")
    told.append(await caught(con.set_type_codec("nope", encoder=str, decoder=str)))
    await con.execute("create extension if not exists hstore")
    told.append(await con.fetchval("select $1::hstore", '"a"=>"1"'))
    await con.set_builtin_type_codec("hstore", codec_name="pg_contrib.hstore")
    told.append(await con.fetchval("select $1::hstore", {"a": "1", "b": None}))

    def broken(value: str) -> Any:
        raise ZeroDivisionError("broken")

    await con.set_type_codec("json", schema="pg_catalog", encoder=broken, decoder=broken)
    told.append(await caught(con.fetchval("select '1'::json")))
    told.append(await caught(con.fetchval("select $1::json", "1")))
    return told


@scenario
async def listeners(driver: Any, con: Any) -> Any:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    def hear(of: Any, pid: int, channel: str, payload: str) -> None:
        heard.put_nowait((of is con, pid == con.get_server_pid(), channel, payload))

    await con.add_listener("Chan nel", hear)
    await con.execute("notify \"Chan nel\", 'hello'")
    told = [await asyncio.wait_for(heard.get(), 600)]
    await con.remove_listener("Chan nel", hear)
    con.add_log_listener(lambda of, message: heard.put_nowait(message))
    await con.execute("do $$ begin raise warning 'careful'; end $$")
    message = await asyncio.wait_for(heard.get(), 600)
    return [*told, type(message).__name__, message.message, message.severity]


@scenario
async def copies(driver: Any, con: Any) -> Any:
    await con.execute("create temp table copied (a int, b text)")

    async def parts() -> Any:
        yield b"3\tc\n"
        yield b"4\t\\N\n"

    records = [(5, "e"), (6, None), (7, "no")]
    out, heard = io.BytesIO(), bytearray()

    async def hear(data: bytes) -> None:
        heard.extend(data)

    told = [
        await con.copy_to_table("copied", source=io.BytesIO(b"1\ta\n2\tb\n")),
        await con.copy_to_table("copied", source=parts()),
        await con.copy_records_to_table("copied", records=records, where="a < 7"),
        await con.copy_records_to_table("copied", records=iter([("x",)]), columns=["b"]),
        await con.copy_from_table("copied", output=out, format="csv", header=True),
        await con.copy_from_query("select a from copied where a > $1", 3, output=hear),
    ]
    told += [out.getvalue(), bytes(heard)]
    async with con.transaction():
        told.append(await con.copy_records_to_table("copied", records=[(8, "h")]))
    told.append(await caught(con.copy_to_table("copied", source=io.BytesIO(b"x\ty\n"))))
    told.append(await caught(con.copy_from_table("nowhere", output=out)))
    told.append(await con.fetchval("select count(*) from copied"))
    await con.execute("drop table copied")
    return told


@scenario
async def loggers(driver: Any, con: Any) -> Any:
    heard: asyncio.Queue[Any] = asyncio.Queue()
    with con.query_logger(heard.put_nowait):
        await con.fetchval("select 1")
        await caught(con.execute("selekt"))
    records = [await asyncio.wait_for(heard.get(), 600) for _ in range(2)]
    return [(record.query, type(record.exception).__name__) for record in records]


@scenario
async def what_it_is(driver: Any, con: Any) -> Any:
    told = [con.get_server_version(), con.is_closed(), con.get_settings().server_encoding]
    told += [con._addr, con._params.user, con._params.database]
    told.append(await con.fetchval("select pg_backend_pid()") == con.get_server_pid())
    await con.execute("set search_path to pg_catalog")
    await con.reset()
    told.append(await con.fetchval("show search_path"))
    await con.close()
    return [*told, con.is_closed(), await caught(con.fetch("select 1"))]


@scenario
async def records(driver: Any, con: Any) -> Any:
    class Mine(driver.Record):
        def __getattr__(self, name: str) -> Any:
            return self[name]

    row = await con.fetchrow("select 1 as a, 'x' as b", record_class=Mine)
    told = [row.a, row.b, repr(row), row[0:1], list(row.items()), row.get("c", 5), "a" in row]
    rows = await con.fetch("select 1 as a", record_class=Mine)
    return [*told, rows[0].a, row == (1, "x"), hash(row) == hash((1, "x")), isinstance(row, Mine)]


@pytest.mark.parametrize("work", SCENARIOS, ids=lambda work: work.__name__)
async def test_both_do_the_same(work: Scenario) -> None:
    told = []
    for driver in (asyncpg, onetrip.asyncpg):
        con = await driver.connect(URL)
        try:
            told.append(plain(await asyncio.wait_for(work(driver, con), 600)))
        finally:
            await con.close()
    assert told[1] == told[0]


async def pool_calls(driver: Any) -> Any:
    async with driver.create_pool(URL, min_size=1, max_size=2) as pool:
        told: list[Any] = [
            await pool.fetch("select $1::int as a", 1),
            await pool.fetchrow("select 2 as a"),
            await pool.fetchval("select 1 as a, 'b' as b", column=1),
            await pool.execute("select 1; select 2"),
            await pool.execute("set application_name = 'x'"),
            await caught(pool.fetch("select 1/0")),
            await pool.fetchmany("select $1::int * 2 as two", [(1,), (2,)]),
            pool.get_min_size(), pool.get_max_size(), pool.get_size() >= 1,
        ]
        async with pool.acquire() as con:
            told.append(isinstance(con, driver.Connection))
            await con.execute("set application_name = 'mine'")
            await con.fetchval("select pg_advisory_lock(77)")
            async with con.transaction():
                told.append(await con.fetchval("select 5"))
        told.append(await caught_now(lambda: con.fetchval))
        async with pool.acquire() as first, pool.acquire() as second:
            for other in (first, second):
                told.append(await other.fetchval("show application_name"))
            told.append(await first.fetchval("select pg_try_advisory_lock(77)"))
            told.append(await caught(pool.acquire(timeout=0.05)))
        await pool.expire_connections()
        told.append(await pool.fetchval("select 9"))
    return [*told, await caught(pool.fetch("select 1"))]


async def caught_now(work: Callable[[], Any]) -> Any:
    try:
        found = work()
        return await found("select 1")
    except Exception as error:
        return error


async def pool_hooks(driver: Any) -> Any:
    import json

    done: list[str] = []

    async def init(con: Any) -> None:
        done.append("init")
        await con.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps,
                                 decoder=json.loads)

    async def setup(con: Any) -> None:
        done.append("setup")
        await con.execute("set application_name = 'set up'")

    async def reset(con: Any) -> None:
        done.append("reset")

    pool = await driver.create_pool(URL, min_size=1, max_size=1, init=init, setup=setup, reset=reset)
    told = [await pool.fetchval("select '{\"a\": 1}'::jsonb")]
    told.append(await pool.fetchval("show application_name"))
    await pool.close()
    return [*told, done, await caught(pool.acquire())]


@pytest.mark.parametrize("work", [pool_calls, pool_hooks], ids=lambda work: work.__name__)
async def test_both_pools_do_the_same(work: Callable[[Any], Awaitable[Any]]) -> None:
    told = [plain(await asyncio.wait_for(work(it), 600)) for it in (asyncpg, onetrip.asyncpg)]
    assert told[1] == told[0]


async def test_errors_of_connecting() -> None:
    wrong = URL.rsplit("/", 1)[0]
    told = []
    for driver in (asyncpg, onetrip.asyncpg):
        told.append([
            plain(await caught(driver.connect(wrong + "/no_such_database"))),
            plain(await caught(driver.connect(host="127.0.0.1", port=1, user="x"))),
        ])
    assert told[1] == told[0]


def test_classes_without_asyncpg() -> None:
    """Where asyncpg is not installed, the same classes are made."""
    from onetrip.asyncpg import exceptions

    made, theirs = exceptions._made(), asyncpg.exceptions
    for name in theirs.__all__:
        ours, of = made[name], getattr(theirs, name)
        assert getattr(ours, "sqlstate", None) == getattr(of, "sqlstate", None), name
        bases = {it.__name__ for it in of.__mro__} - {"PostgresMessage", "InterfaceMessage"}
        assert bases <= {it.__name__ for it in ours.__mro__}, name
    assert exceptions.UniqueViolationError is asyncpg.UniqueViolationError


@pytest.mark.parametrize("x, length, signed", [
    (0, 0, False), (5, 3, False), (8, 3, False), (-1, 3, False), (-1, 3, True), (4, 3, True),
    (1, -1, False), (5, 9, True),
])
def test_bits_from_numbers(x: int, length: int, signed: bool) -> None:
    def told(driver: Any) -> Any:
        try:
            return driver.BitString.from_int(x, length, signed=signed).as_string()
        except (ValueError, OverflowError) as error:
            return type(error)

    assert told(onetrip.asyncpg) == told(asyncpg)


async def test_codecs_that_raise() -> None:
    class Stop(BaseException):
        pass

    raised: list[BaseException] = []

    def breaks(value: Any) -> Any:
        raise raised[-1]

    con = await onetrip.asyncpg.connect(URL)
    try:
        for form in ("text", "binary"):
            await con.set_type_codec(
                "json", schema="pg_catalog", encoder=breaks, decoder=breaks, format=form
            )
            for text, args in (
                ("select $1::json", ("1",)),
                ("select $1::json[]", (["1", None],)),
                ("select '1'::json", ()),
                ("select array['1'::json]", ()),
            ):
                raised.append(ZeroDivisionError("broken"))
                with pytest.raises((onetrip.asyncpg.DataError, ZeroDivisionError)) as caught:
                    await con.fetchval(text, *args)
                error: BaseException | None = caught.value
                while error not in (None, raised[-1]):
                    error = error.__cause__ if error else None
                assert error is raised[-1]
                if args:
                    assert "$1" in str(caught.value) and "broken" in str(caught.value)
                raised.append(Stop())
                with pytest.raises(Stop):
                    await con.fetchval(text, *args)
        await con.set_type_codec("json", schema="pg_catalog", encoder=len, decoder=str)
        with pytest.raises(onetrip.asyncpg.DataError, match=r"argument \$1: .*encoder gave a value of type int"):
            await con.fetchval("select $1::json", "1")
        assert await con.fetchval("select 5") == 5
    finally:
        await con.close()


async def test_a_copy_that_is_fetched_returns_nothing_and_costs_no_connection() -> None:
    con = await onetrip.asyncpg.connect(URL)
    try:
        await con.execute("create temp table copied (n int); insert into copied values (1), (2)")
        pid = await con.fetchval("select pg_backend_pid()")
        out = "copy copied to stdout"
        assert await con.fetch(out) == []
        assert await con.fetchval(out) is None
        assert await con.fetchrow(out) is None
        prepared = await con.prepare(out)
        assert await prepared.fetch() == []
        async with con.transaction():
            assert await con.fetch(out) == []
        for take in (con.fetch, con.fetchval, con.execute):
            with pytest.raises(onetrip.asyncpg.QueryCanceledError, match="No source stream defined"):
                await take("copy copied from stdin")
        assert await con.fetchval("select pg_backend_pid()") == pid
        assert await con.fetchval("select count(*) from copied") == 2
    finally:
        await con.close()


async def test_a_number_with_a_fraction_is_no_int() -> None:
    con = await onetrip.asyncpg.connect(URL)
    wrong = (1.9, decimal.Decimal("1.5"), float("inf"), decimal.Decimal("NaN"), uuid.UUID(int=7))
    for value in wrong:
        with pytest.raises(onetrip.asyncpg.DataError, match="interpreted as an integer"):
            await con.fetchval("select $1::int8", value)
    await con.close()


@pytest.mark.parametrize("of", [asyncpg, onetrip.asyncpg])
def test_programs_make_records_for_their_tests(of: Any) -> None:
    make = of.protocol.protocol._create_record
    row = make({"a": 0, "b": 1}, (7, None))
    assert isinstance(row, of.Record) and row == (7, None) and repr(row) == "<Record a=7 b=None>"
    assert (row["a"], row["b"], dict(row), len(make(None, ()))) == (7, None, {"a": 7, "b": None}, 0)
    items = row.items()
    assert operator.length_hint(items) == 2 and next(items) == ("a", 7)
    assert operator.length_hint(items) == 1 and list(items) == [("b", None)]
    for place in (2, -1, "a"):
        with pytest.raises(RuntimeError, match="invalid record descriptor"):
            make({"a": place}, (7,))["a"]
    with pytest.raises(RuntimeError, match="invalid record mapping"):
        repr(make({"a": 0}, (7, 8)))


def _refusal(code: str) -> bytes:
    fields = f"SFATAL\0C{code}\0Mno {code}\0\0".encode()
    return b"E" + (len(fields) + 4).to_bytes(4, "big") + fields


async def refused(of: Any, mode: str, *answers: bytes) -> Any:
    """The error of connecting to a server that gives each connection one of these answers."""
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = left.pop(0)
        begin = await reader.readexactly(8)
        if begin[4:] == bytes.fromhex("04d2162f"):
            writer.write(b"S")
        # The startup packet, or what begins TLS.
        await reader.read(1024)
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error = await caught(of.connect(host="127.0.0.1", port=port, user="u", password="p",
                                        database="d", ssl=mode))
    assert not left
    return error


@pytest.mark.parametrize("of", [asyncpg, onetrip.asyncpg])
async def test_who_is_refused_with_tls_and_without_gets_both_errors(of: Any) -> None:
    error = await refused(of, "prefer", b"no TLS here", _refusal("28000"))
    assert isinstance(error, of.InvalidAuthorizationSpecificationError)
    assert str(error) == "no 28000" and isinstance(error.__cause__, ssl.SSLError)

    error = await refused(of, "allow", _refusal("28000"), b"no TLS here")
    assert isinstance(error, ssl.SSLError)
    assert isinstance(error.__cause__, of.InvalidAuthorizationSpecificationError)


@pytest.mark.parametrize("of", [asyncpg, onetrip.asyncpg])
async def test_what_comes_behind_a_refusal_of_tls_ends_the_connection(of: Any) -> None:
    visits = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        await reader.readexactly(8)
        writer.write(b"Nextra")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionError):
            await of.connect(host="127.0.0.1", port=port, user="u", database="d", ssl="prefer",
                             timeout=600)
    assert visits == 1


async def test_a_wrong_password_is_not_hidden_behind_an_end_of_the_other_way() -> None:
    error = await refused(onetrip.asyncpg, "allow", _refusal("28P01"), b"")
    assert isinstance(error, onetrip.asyncpg.InvalidPasswordError)
    assert (str(error), error.__cause__) == ("no 28P01", None)


@pytest.mark.parametrize("of", [asyncpg, onetrip.asyncpg])
async def test_both_errors_come_out_of_a_pool_too(of: Any) -> None:
    class Shim:
        @staticmethod
        async def connect(**arguments: Any) -> None:
            await of.create_pool(min_size=1, max_size=1, **arguments)

    error = await refused(Shim, "prefer", b"no TLS here", _refusal("28000"))
    assert isinstance(error, of.InvalidAuthorizationSpecificationError)
    assert isinstance(error.__cause__, ssl.SSLError)


@pytest.mark.parametrize("inside", [False, True])
async def test_a_set_that_does_not_fit_is_named_and_leaves_nothing_behind(inside: bool) -> None:
    con = await onetrip.asyncpg.connect(URL)
    await con.execute("create temporary table many (n int)")
    transaction = con.transaction()
    if inside:
        await transaction.start()
    await con.execute("insert into many values (-1)")
    for place, outcome in ((7, "NotSent"), (20_000, "NotSent")):
        sets: list[tuple[Any]] = [(n,) for n in range(20_001)]
        sets[place] = ("x",)
        with pytest.raises(onetrip.asyncpg.DataError, match=f"element #{place} .* 'x'") as caught:
            await con.executemany("insert into many values ($1)", sets)
        assert caught.value.outcome == outcome
        assert await con.fetch("select n from many") == [(-1,)]
    sets[place] = (place,)
    rows = await con.fetchmany("insert into many values ($1) returning n", sets)
    assert [row["n"] for row in rows] == list(range(20_001))
    if inside:
        await transaction.rollback()
    await con.close()


async def test_many_sets_that_the_server_rejects_end_the_transaction() -> None:
    con = await onetrip.asyncpg.connect(URL)
    await con.execute("create temporary table many (n int primary key)")
    transaction = con.transaction()
    await transaction.start()
    with pytest.raises(onetrip.asyncpg.UniqueViolationError):
        sets = [(n % 20_000,) for n in range(20_001)]
        await con.executemany("insert into many values ($1)", sets)
    with pytest.raises(onetrip.asyncpg.InFailedSQLTransactionError):
        await con.fetch("select 1")
    await transaction.rollback()
    assert await con.fetchval("select count(*) from many") == 0
    await con.close()


async def test_a_numeric_has_the_exponent_that_asyncpg_gives_it() -> None:
    con = await onetrip.asyncpg.connect(URL)
    try:
        for text, told in (
            ("1E+1000", "1E+1000"), ("10000", "1E+4"), ("1e10", "1.00E+10"), ("-120000", "-1.2E+5"),
            ("12345", "12345"), ("1000", "1000"), ("100000000.00", "100000000.00"), ("0", "0"),
            ("0.00", "0.00"), ("123400000000", "1.234E+11"), ("NaN", "NaN"),
        ):
            number = await con.fetchval(f"select '{text}'::numeric")
            assert str(number) == told, text
            assert number.is_nan() or number == decimal.Decimal(text)
        many = await con.fetchval("select $1::numeric[]", [decimal.Decimal(10000), 7])
        assert [str(number) for number in many] == ["1E+4", "7"]
        assert await con.fetchval("select $1::numeric", 20000.5) == decimal.Decimal("20000.5")
        within = await con.fetchval("select numrange(1, 10000)")
        assert str(within.upper) == "1E+4"
    finally:
        await con.close()
