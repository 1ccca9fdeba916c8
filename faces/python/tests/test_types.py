"""Values both ways, and values that don't fit."""

from __future__ import annotations

import datetime as dt
import decimal
import gc
import math
import uuid
import weakref
from typing import Any

import pytest

import onetrip
from onetrip import Range

D = decimal.Decimal
UTC = dt.timezone.utc

BOTH_WAYS: list[tuple[str, Any]] = [
    ("bool", True),
    ("int2", -(2**15)),
    ("int4", 2**31 - 1),
    ("int8", -(2**63)),
    ("oid", 2**32 - 1),
    ("float4", 1.1),
    ("float8", math.pi),
    ("float8", math.inf),
    ("text", "żółć 🐘"),
    ("text", ""),
    ("varchar", "x"),
    ("bytea", b"\x00\xff"),
    ("uuid", uuid.UUID(int=2**127 + 1)),
    ("date", dt.date(1, 1, 1)),
    ("date", dt.date(9999, 12, 31)),
    ("date", dt.date(2000, 2, 29)),
    ("time", dt.time(23, 59, 59, 999999)),
    ("timetz", dt.time(1, 2, 3, 4, dt.timezone(dt.timedelta(hours=-5, minutes=-30)))),
    ("timestamp", dt.datetime(1969, 7, 20, 20, 17, 40, 5)),
    ("timestamptz", dt.datetime(2026, 2, 28, 1, 2, 3, 4, UTC)),
    ("interval", dt.timedelta(days=-3, seconds=5, microseconds=7)),
    ("numeric", D("0")),
    ("numeric", D("-123456789012345678901234567890.000100")),
    ("numeric", D("1e-20")),
    ("numeric", D("10000")),
    ("numeric", D("0.0001")),
    ("numeric", D("Infinity")),
    ("json", '{"a": 1}'),
    ("jsonb", '{"a": 1}'),
    ("int4[]", [1, None, 3]),
    ("int4[]", []),
    ("text[]", [["a", "b"], ["c", None]]),
    ("numeric[]", [D("1.5"), None]),
    ("int4range", Range(1, 5)),
    ("int4range", Range(empty=True)),
    ("numrange", Range(D("1.5"), None, lower_inc=False)),
    ("tstzrange", Range(None, dt.datetime(2026, 1, 1, tzinfo=UTC), upper_inc=True)),
    ("int4multirange", [Range(1, 3), Range(5, 9)]),
    ("inet", "10.0.0.1"),
    ("money", "$1.50"),
]


@pytest.mark.parametrize(("type_", "value"), BOTH_WAYS, ids=str)
async def test_both_ways(db: onetrip.Database, type_: str, value: Any) -> None:
    assert await db.fetchval(f"select $1::{type_}", value) == value
    assert await db.fetchval(f"select $1::{type_}", None) is None


async def test_vectors_are_read_as_arrays(db: onetrip.Database) -> None:
    row = await db.fetchrow("select '1 2'::int2vector, '3 4'::oidvector, ''::int2vector")
    assert tuple(row) == ([1, 2], [3, 4], [])


async def test_numeric_nan(db: onetrip.Database) -> None:
    assert (await db.fetchval("select $1::numeric", D("NaN"))).is_nan()


@pytest.mark.parametrize(
    ("type_", "value", "why"),
    [
        ("int4", "x", None),
        ("int4", 2**31, "it is not from"),
        ("int8", 10**30, "it is not from"),
        ("int4", 1.5, "type float: it takes an int"),
        ("text", 5, r"parameter \$1 of type text can't be a value of type int: it takes a str"),
        ("text", "a\0b", "zero byte"),
        ("bool", 1, "it takes a bool"),
        ("timestamptz", dt.datetime(2026, 1, 1), "with a tzinfo"),
        ("timestamp", dt.datetime(2026, 1, 1, tzinfo=UTC), "without a tzinfo"),
        ("numeric", D("1e1000000"), "more digits than numeric"),
        ("numeric", D("1" * 200_000), "more digits than numeric"),
        ("numeric", 10**6000, None),
        ("numeric", 10**131072, "more digits than numeric"),
        ("numeric", 10**1_000_000, "more digits than numeric"),
        ("numeric", -(10**1_000_000), "more digits than numeric"),
        ("numeric", D("1" * 1_000_000), "more digits than numeric"),
        ("numeric", D("1e-20000"), "more digits than numeric"),
        ("numeric", True, "type bool: it takes a Decimal, an int or a float"),
        ("float8", 10**400, "out of range"),
        ("float8", "x", None),
        ("int2", 2**15, "it is not from -32768 to 32767"),
        ("oid", -1, "it is not from 0 to 4294967295"),
        ("date", dt.time(1), "it takes a datetime.date"),
        ("time", dt.time(1, tzinfo=UTC), "without a tzinfo"),
        ("timetz", dt.time(1), "with a tzinfo"),
        ("interval", 5, "it takes a datetime.timedelta"),
        ("jsonb", {"a": 1}, "type dict: it takes a str"),
        ("text[]", ["a", "b\0"], "zero byte"),
        ("int4range", 5, "it takes an onetrip.Range"),
        ("int4range", Range(1, "x"), "it takes an int"),
        ("int4multirange", 5, "a list of onetrip.Range"),
        ("uuid", 5, "it takes a uuid.UUID"),
        ("bytea", [1], "it takes bytes"),
        ("int4[]", 5, "it takes a list"),
        ("int4[]", [[1], [2, 3]], "not all of one length"),
        ("int4[]", [1, "x"], "it takes an int"),
        ("float4", 1e300, "out of range"),
    ],
    ids=lambda it: str(it)[:20] if isinstance(it, str) else type(it).__name__,
)
async def test_a_value_that_does_not_fit(
    db: onetrip.Database, type_: str, value: Any, why: str | None
) -> None:
    if why is None:
        # The server reads a str, and numeric takes any int that it has room for.
        try:
            await db.fetchval(f"select $1::{type_}", value)
        except onetrip.PostgresError as error:
            assert error.outcome == "Rejected" and error.code == "22P02"
        return
    with pytest.raises(onetrip.ParameterError, match=why) as caught:
        await db.fetchval(f"select $1::{type_}", value)
    assert caught.value.outcome == "NotSent" and caught.value.is_retry_safe


async def test_a_list_that_contains_itself(db: onetrip.Database) -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    with pytest.raises(onetrip.ParameterError, match="at most 6 dimensions"):
        await db.fetchval("select $1::int4[]", cyclic)


async def test_lists_that_contain_themselves_in_other_ways(db: onetrip.Database) -> None:
    cyclic: list[Any] = ["a"]
    cyclic[0] = cyclic
    with pytest.raises(onetrip.ParameterError, match="nested more than 64 deep"):
        await db.fetchval("select $1::inet[]", cyclic)
    with pytest.raises(onetrip.ParameterError, match="it takes an int"):
        await db.fetchval("select $1::int4range[]", cyclic)
    ranges = Range(1, 2)
    object.__setattr__(ranges, "_lower", ranges)
    with pytest.raises(onetrip.ParameterError, match="range"):
        await db.fetchval("select $1::int4range", ranges)


async def test_what_does_not_fit_is_not_kept(db: onetrip.Database) -> None:
    class Odd:
        pass

    seen = []
    for type_ in ("int4", "text", "int4[]", "numeric", "timestamptz", "hstore"):
        if type_ == "hstore":
            await db.execute("create extension if not exists hstore")
        odd = Odd()
        seen.append(weakref.ref(odd))
        wrong: Any = {"a": odd} if type_ == "hstore" else [odd] if "[" in type_ else odd
        with pytest.raises(onetrip.ParameterError, match=r"parameter \$2 of type"):
            await db.fetchval(f"select $1::int4, $2::{type_}", 1, wrong)
        del odd, wrong
    gc.collect()
    assert [it() for it in seen] == [None] * len(seen)
    assert await db.fetchval("select $1::int4", 5) == 5


async def test_values_that_python_has_not(db: onetrip.Database) -> None:
    for text in ("date '12000-01-01'", "timestamp '12000-01-01'", "date '4000-01-01 BC'"):
        with pytest.raises(onetrip.Error, match="years 1 to 9999") as caught:
            await db.fetchval(f"select {text}")
        assert caught.value.outcome == "Applied"
        assert isinstance(caught.value.__cause__, OverflowError)


ENDLESS = ["date 'infinity'", "date '-infinity'", "timestamp 'infinity'", "timestamptz '-infinity'"]


@pytest.mark.parametrize(
    "text",
    [*ENDLESS, "array[timestamp 'infinity']", "time '24:00'", "timetz '24:00+02'"],
)
async def test_no_other_moment_stands_for_one_that_python_has_not(
    db: onetrip.Database, text: str
) -> None:
    why = "24:00 is no time of day" if "24:00" in text else "infinity is no date"
    with pytest.raises(onetrip.Error, match=why) as caught:
        await db.fetchval(f"select {text}")
    assert (caught.value.code, caught.value.outcome) == ("conversion", "Applied")
    assert isinstance(caught.value.__cause__, OverflowError)


async def test_what_is_the_last_of_its_class_is_no_infinity(db: onetrip.Database) -> None:
    for last in (dt.date.max, dt.datetime.max):
        kind = "date" if last is dt.date.max else "timestamp"
        assert await db.fetchrow(f"select $1::{kind}, isfinite($1::{kind})", last) == (last, True)


async def test_arrays_of_types_with_a_delimiter_of_their_own(db: onetrip.Database) -> None:
    boxes = ["(1,1),(0,0)", None, "(3,3),(2,2)"]
    text = "select array['(1,1),(0,0)', null, '(3,3),(2,2)']::box[]"
    assert await db.fetchval(text) == boxes
    assert await db.fetchval("select $1::box[]", boxes) == boxes
    assert await db.fetchval("select $1::box[]", [boxes, boxes]) == [boxes, boxes]
    # A type of the user's own, which is learned from the catalog.
    for text in (
        "create type slashed",
        "create function slashed_in(cstring) returns slashed language internal immutable strict"
        " as 'textin'",
        "create function slashed_out(slashed) returns cstring language internal immutable strict"
        " as 'textout'",
        "create type slashed (input = slashed_in, output = slashed_out, delimiter = '/')",
    ):
        await db.execute(text)
    try:
        parts = ["a,b", "c/d", "e"]
        assert await db.fetchval("select array['a,b', 'c/d', 'e']::slashed[]") == parts
        assert await db.fetchval("select $1::slashed[]", parts) == parts
    finally:
        await db.execute("drop type slashed cascade")


@pytest.mark.parametrize(
    "set_",
    [{"a": 1}, {1}, frozenset([1]), "1", b"1", 1, iter([1])],
    ids=lambda it: type(it).__name__,
)
async def test_what_has_no_order_is_no_set_of_arguments(db: onetrip.Database, set_: Any) -> None:
    for call in (db.executemany, db.fetchmany):
        with pytest.raises(onetrip.errors.ParameterError, match="a tuple or another seq") as caught:
            await call("select $1::int4", [(1,), set_])
        assert caught.value.outcome == "NotSent"
        with pytest.raises(onetrip.errors.ParameterError, match="are a list or another") as caught:
            await call("select $1::int4", 1)
        assert caught.value.outcome == "NotSent"


async def test_a_column_that_is_not_there_is_named(db: onetrip.Database) -> None:
    with pytest.raises(onetrip.Error, match="no column 5 in rows of 1") as caught:
        await db.fetchval("select 1", column=5)
    with pytest.raises(onetrip.Error, match="no column -2 in rows of 1"):
        await db.fetchval("select 1", column=-2)
    assert (caught.value.outcome, type(caught.value.__cause__)) == ("Applied", IndexError)


async def test_texts_that_come_again(db: onetrip.Database) -> None:
    """One object for those of a column, whatever else they are beside."""
    text = "select (i % 3)::text as a, i::text as b, case when i % 2 = 0 then 'żółć' end as c"
    rows = await db.fetch(f"{text}, '' as d from generate_series(1, 5000) i")
    for place, row in enumerate(rows, 1):
        assert row == (str(place % 3), str(place), None if place % 2 else "żółć", "")
    assert len({id(row["a"]) for row in rows[:100]}) == 3


async def test_types_of_the_users_own(db: onetrip.Database) -> None:
    for text in (
        "create type mood as enum ('sad', 'glad')",
        "create domain small as int4 check (value < 10)",
        "create type pair as (a int4, b mood)",
        "create type floats as range (subtype = float8)",
    ):
        await db.execute(text)
    try:
        assert await db.fetchval("select 'sad'::mood") == "sad"
        assert await db.fetchval("select $1::mood", "glad") == "glad"
        assert await db.fetchval("select $1::mood[]", ["glad", None]) == ["glad", None]
        assert await db.fetchval("select $1::small", 5) == 5
        pair = await db.fetchval("select $1::pair", (1, "sad"))
        assert pair == (1, "sad") and pair["b"] == "sad"
        assert await db.fetchval("select $1::pair", {"b": None, "a": 2}) == (2, None)
        assert await db.fetchval("select $1::pair[]", [(1, "sad")]) == [(1, "sad")]
        assert await db.fetchval("select $1::floats", Range(0.5, 1.5)) == Range(0.5, 1.5)
        with pytest.raises(onetrip.errors.IntegrityError):
            await db.fetchval("select $1::small", 50)
    finally:
        for text in ("type floats", "type pair", "domain small", "type mood"):
            await db.execute(f"drop {text}")


async def test_columns_without_a_binary_form(db: onetrip.Database) -> None:
    text = "select relacl::text, relacl from pg_class where relacl is not null limit 1"
    acl = await db.fetchval(text)
    assert acl.startswith("{")
    async with db.begin() as tx:
        assert await tx.fetchval("select '=r/postgres'::aclitem, 5", column=1) == 5


async def test_wrong_number_of_arguments(db: onetrip.Database) -> None:
    with pytest.raises(onetrip.ParameterError, match="has 1 parameter, and 2 were given"):
        await db.fetchval("select $1::int4", 1, 2)


async def test_records(db: onetrip.Database) -> None:
    row = await db.fetchrow("select 1 as a, 'x' as b, null as c")
    assert row is not None
    assert isinstance(row, onetrip.Record) and not isinstance(row, tuple)
    assert row == (1, "x", None) and (1, "x", None) == row and row != (1, "x")
    assert hash(row) == hash((1, "x", None)) and row in {(1, "x", None)}
    assert row["a"] == row[0] == row[-3] == 1 and row[1:] == ("x", None)
    assert len(row) == 3 and list(row) == [1, "x", None] and "b" in row and "x" not in row
    assert dict(row) == dict(row.items()) == {"a": 1, "b": "x", "c": None}
    assert list(row.keys()) == ["a", "b", "c"] and list(row.values()) == [1, "x", None]
    assert row.get("a") == 1 and row.get("z") is None and row.get("z", 5) == 5
    assert repr(row) == "<Record a=1 b='x' c=None>"
    with pytest.raises(KeyError, match="'z'"):
        row["z"]
    with pytest.raises(IndexError):
        row[3]


async def test_a_long_result(db: onetrip.Database) -> None:
    rows = await db.fetch("select i, 'text ' || i as t from generate_series(1, 50000) i")
    assert len(rows) == 50_000 and rows[-1] == (50_000, "text 50000")


async def test_a_result_that_is_too_large() -> None:
    from conftest import URL

    async with onetrip.connect(URL, result_bytes_max=100_000) as db:
        with pytest.raises(onetrip.Error) as caught:
            await db.fetch("select i from generate_series(1, 50000) i")
        assert caught.value.code == "result_too_large" and caught.value.outcome == "Applied"
        assert await db.fetchval("select 1") == 1


async def test_hstore_and_citext(db: onetrip.Database) -> None:
    for name in ("hstore", "citext"):
        await db.execute(f"create extension if not exists {name}")
    pairs = {"a": "1", "ż": None, "": "x"}
    assert await db.fetchval("select $1::hstore", pairs) == pairs
    assert await db.fetchval("select $1::hstore", {}) == {}
    assert await db.fetchval("select $1::hstore -> 'a'", pairs) == "1"
    assert await db.fetchval("select $1::hstore[]", [pairs, None]) == [pairs, None]
    assert await db.fetchval("select $1::hstore", "a=>2") == {"a": "2"}
    assert await db.fetchval("select $1::citext", "Abc") == "Abc"
    for bad in ({"a": 1}, {1: "a"}, [1], {"a": "x\0"}):
        with pytest.raises(onetrip.ParameterError, match="dict of str"):
            await db.fetchval("select $1::hstore", bad)


async def test_vector(db: onetrip.Database) -> None:
    """pgvector is not here: a type of its name, whose binary form is that of the bytes sent."""
    async with db.session() as session:
        for text in (
            "create schema vectors",
            "set search_path = vectors, pg_catalog",
            "create type vector",
            *(
                f"create function {name}({takes}) returns {gives} language internal "
                f"immutable strict as '{of}'"
                for name, takes, gives, of in (
                    ("vector_in", "cstring", "vector", "byteain"),
                    ("vector_out", "vector", "cstring", "byteaout"),
                    ("vector_recv", "internal", "vector", "bytearecv"),
                    ("vector_send", "vector", "bytea", "byteasend"),
                )
            ),
            "create type vector (input = vector_in, output = vector_out, receive = vector_recv, "
            "send = vector_send, storage = extended)",
        ):
            await session.execute(text)
        try:
            sent = await session.fetchval("select vector_send($1::vector)", [1.0, -2.5, 0])
            assert sent == bytes.fromhex("0003 0000 3f800000 c0200000 00000000")
            assert await session.fetchval("select $1::vector", (0.1, 3e38)) == [0.1, 3e38]
            assert await session.fetchval("select $1::vector", None) is None
            with pytest.raises(onetrip.ParameterError, match="list of floats"):
                await session.fetchval("select $1::vector", 5)
            with pytest.raises(onetrip.ParameterError, match="out of range"):
                await session.fetchval("select $1::vector", [1e300])
        finally:
            await session.execute("drop schema vectors cascade")
