"""Results as columns of Arrow, read by pyarrow."""

from __future__ import annotations

import datetime as dt
import decimal
import gc
import uuid
from typing import Any

import pytest

import onetrip

pa = pytest.importorskip("pyarrow")

D = decimal.Decimal
UTC = dt.timezone.utc

TEXT = """
select true as b, (-5)::int2 as i2, 7::int4 as i4, 9007199254740993::int8 as i8,
    4294967295::oid as o, 1.5::float4 as f4, 2.5::float8 as f8, 'żółć'::text as t,
    '\\x00ff'::bytea as y, '00000000-0000-0000-0000-000000000005'::uuid as u,
    date '1969-07-20' as d, time '23:59:59.999999' as ti,
    timestamp '1969-07-20 20:17:40.000005' as ts, timestamptz '2026-01-01 00:00:00Z' as tz,
    123.450::numeric(10, 3) as n, -123456789012345678901234567890.5::numeric as big,
    '{"a": 1}'::jsonb as j, array[1, 2] as a, '10.0.0.1'::inet as ip,
    interval '1 month 2 days 3 us' as iv
from generate_series(1, $1) i
"""


def table_of(arrow: onetrip.Arrow) -> Any:
    return pa.RecordBatchReader.from_stream(arrow).read_all()


async def test_types(db: onetrip.Database) -> None:
    table = table_of(await db.fetch_arrow(TEXT, 1))
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        "b": "bool",
        "i2": "int16",
        "i4": "int32",
        "i8": "int64",
        "o": "uint32",
        "f4": "float",
        "f8": "double",
        "t": "string",
        "y": "binary",
        "u": "extension<arrow.uuid>",
        "d": "date32[day]",
        "ti": "time64[us]",
        "ts": "timestamp[us]",
        "tz": "timestamp[us, tz=UTC]",
        "n": "decimal128(10, 3)",
        "big": "string",
        "j": "string",
        "a": "string",
        "ip": "string",
        "iv": "month_day_nano_interval",
    }
    (row,) = table.to_pylist()
    row["tz"] = row["tz"].astimezone(UTC)
    assert row == {
        "b": True,
        "i2": -5,
        "i4": 7,
        "i8": 9007199254740993,
        "o": 4294967295,
        "f4": 1.5,
        "f8": 2.5,
        "t": "żółć",
        "y": b"\x00\xff",
        "u": uuid.UUID(int=5),
        "d": dt.date(1969, 7, 20),
        "ti": dt.time(23, 59, 59, 999999),
        "ts": dt.datetime(1969, 7, 20, 20, 17, 40, 5),
        "tz": dt.datetime(2026, 1, 1, tzinfo=UTC),
        "n": D("123.450"),
        "big": "-123456789012345678901234567890.5",
        "j": '{"a": 1}',
        "a": "{1,2}",
        "ip": "10.0.0.1",
        "iv": pa.MonthDayNano([1, 2, 3000]),
    }


async def test_nulls(db: onetrip.Database) -> None:
    columns = ", ".join(
        f"case when i % 3 = 0 then {name} end as {name}"
        for name in "b i2 i4 i8 o f4 f8 t y u d ti ts tz n big j a ip iv".split()
    )
    text = f"select {columns} from (select i, {TEXT.strip()[len('select'):]}) x"
    table = table_of(await db.fetch_arrow(text, 1000))
    for column in table.columns:
        assert column.null_count == 667
    assert table.column("t").to_pylist() == ["żółć" if i % 3 == 0 else None for i in range(1, 1001)]
    assert table.column("b").to_pylist() == [True if i % 3 == 0 else None for i in range(1, 1001)]
    table.validate(full=True)


async def test_much_and_nothing(db: onetrip.Database) -> None:
    text = "select i, 'text ' || i as t, i % 2 = 0 as b from generate_series(1, $1::int4) i"
    arrow = await db.fetch_arrow(text, 100_000)
    assert len(arrow) == 100_000 and arrow.column_names == ["i", "t", "b"]
    table = table_of(arrow)
    table.validate(full=True)
    assert table.column("i").to_pylist() == list(range(1, 100_001))
    assert table.column("t").to_pylist()[-1] == "text 100000"
    assert table.column("b").to_pylist()[:4] == [False, True, False, True]
    empty = table_of(await db.fetch_arrow(text, 0))
    assert empty.num_rows == 0 and empty.schema.equals(table.schema)


async def test_it_is_handed_out_more_than_once(db: onetrip.Database) -> None:
    arrow = await db.fetch_arrow("select 1 as a, 'x' as b")
    assert pa.schema(arrow).names == ["a", "b"]
    first, second = table_of(arrow), table_of(arrow)
    # One that nobody reads is freed.
    arrow.__arrow_c_stream__()
    del arrow
    gc.collect()
    assert first.equals(second) and first.to_pylist() == [{"a": 1, "b": "x"}]


async def test_a_numeric_that_decimal_has_not(db: onetrip.Database) -> None:
    with pytest.raises(onetrip.Error, match="decimal128") as caught:
        await db.fetch_arrow("select 'NaN'::numeric(5, 2)")
    assert caught.value.outcome == "Applied"
    text = "select 'NaN'::numeric as n, 1e37::numeric(38, 0) as m"
    table = table_of(await db.fetch_arrow(text))
    assert table.to_pylist() == [{"n": "NaN", "m": D(10) ** 37}]
    scaled = await db.fetch_arrow(
        "select n::numeric(38, 10) from unnest($1::numeric[]) n",
        [D("-0.0000000001"), D("9999999999999999999999999999.9999999999"), D(0), D("10000.5")],
    )
    assert table_of(scaled).column(0).to_pylist() == [
        D("-0.0000000001"),
        D("9999999999999999999999999999.9999999999"),
        D("0E-10"),
        D("10000.5000000000"),
    ]


async def test_infinity_stays_at_the_end(db: onetrip.Database) -> None:
    arrow = await db.fetch_arrow("select 'infinity'::date as d, '-infinity'::timestamptz as t")
    table = table_of(arrow)
    assert table.column("d").cast(pa.int32()).to_pylist() == [2**31 - 1]
    assert table.column("t").cast(pa.int64()).to_pylist() == [-(2**63)]
