"""Streams, COPY and many sets of arguments."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import gc
import io
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

import onetrip
from onetrip.errors import DataError, UniqueViolation

from conftest import URL, Line, until_active

SERIES = "select i, repeat('x', 100) as t from generate_series(1, $1::int4) i"


@pytest.fixture
async def table(db: onetrip.Database) -> AsyncIterator[onetrip.Database]:
    await db.execute("create table poured (i int4 primary key, t text)")
    yield db
    await db.execute("drop table poured")


async def count(db: onetrip.Database) -> int:
    number = await db.fetchval("select count(*) from poured")
    assert isinstance(number, int)
    return number


async def is_whole(db: onetrip.Database) -> bool:
    """Whether all connections are back, once what was left early is over."""

    async def at_rest() -> bool:
        while True:
            assert await db.fetchval("select 1") == 1
            metrics = db.metrics()
            if metrics.waiting == 0 and metrics.in_flight == 0 and metrics.queued == 0:
                return True

    return await asyncio.wait_for(at_rest(), 600)


# --- streams ---


async def test_rows_longer_than_what_may_be_unread(db: onetrip.Database) -> None:
    text = "select repeat('a', 2500000) from generate_series(1, 3)"
    assert [len(row[0]) async for row in db.stream(text)] == [2_500_000] * 3
    data = [len(data) async for data in db.copy_out(f"copy ({text}) to stdout")]
    assert sum(data) == 3 * 2_500_001


@pytest.mark.parametrize("size", [1, 5, 6, 20])
async def test_replies_that_come_in_parts(size: int) -> None:
    """However they are cut, as by a network: between the last data and the end of the reply, too."""
    server = urlsplit(URL)

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int) -> None:
        while data := await reader.read(65_536):
            for at in range(0, len(data), most):
                writer.write(data[at : at + most])
                await writer.drain()
                # The other side reads each part by itself.
                for _ in range(5):
                    await asyncio.sleep(0)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(server.hostname, server.port)
        await asyncio.gather(
            pass_on(reader, there[1], 65_536), pass_on(there[0], writer, size)
        )

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as line:
        port = line.sockets[0].getsockname()[1]
        async with onetrip.connect(URL.replace(f":{server.port}", f":{port}")) as db:
            text = "select i from generate_series(1, 10) i"
            for _ in range(3):
                assert [row[0] async for row in db.stream(text)] == list(range(1, 11))
                data = [bytes(part) async for part in db.copy_out(f"copy ({text}) to stdout")]
                assert b"".join(data) == b"".join(b"%d\n" % i for i in range(1, 11))
                assert await db.fetchval("select 1") == 1


async def test_a_stream(db: onetrip.Database) -> None:
    rows = [row async for row in db.stream(SERIES, 1000)]
    assert [row["i"] for row in rows] == list(range(1, 1001))
    assert [row async for row in db.stream("select 1 where false")] == []
    assert [row async for row in db.stream("select $1::int4 as a", 5, into=dict)] == [{"a": 5}]
    assert await is_whole(db)


async def test_a_stream_takes_little_memory(line: Line) -> None:
    async with onetrip.connect(line.url, connections_max=2) as db:
        taken = 0
        async with db.stream(SERIES, 200_000) as rows:
            async for row in rows:
                taken += 1
                if taken == 1:
                    # The reader stops. What comes meanwhile stays with the server.
                    for _ in range(50):
                        assert await db.fetchval("select 1") == 1
                    held = db.metrics().bytes_received
                    assert held < 8 << 20
        assert taken == 200_000
        assert db.metrics().bytes_received > 20 << 20


@pytest.mark.parametrize("rows", [10, 1_000_000])
async def test_a_stream_that_is_left(rows: int) -> None:
    async with onetrip.connect(URL, connections_max=1) as db:
        async for row in db.stream(SERIES, rows):
            if row["i"] == 5:
                break
        assert await is_whole(db)
        stream = db.stream(SERIES, rows)
        assert (await stream.__anext__())["i"] == 1
        del stream
        gc.collect()
        assert await is_whole(db)
        async with db.stream(SERIES, rows) as entered:
            await entered.__anext__()
        with pytest.raises(StopAsyncIteration):
            await entered.__anext__()
        assert await is_whole(db)


async def test_a_stream_in_a_session_and_a_transaction(db: onetrip.Database) -> None:
    async with db.session() as session:
        async for row in session.stream(SERIES, 300_000):
            if row["i"] == 5:
                break
        assert await session.fetchval("select 2") == 2
    async with db.begin() as tx:
        async for row in tx.stream(SERIES, 20_000):
            if row["i"] == 5:
                break
        assert await tx.fetchval("select 3") == 3
        assert len([row async for row in tx.stream(SERIES, 10)]) == 10
    assert await is_whole(db)


async def test_a_row_of_a_stream_that_is_larger_than_a_result_may_be_is_an_error() -> None:
    async with onetrip.connect(URL, result_bytes_max=1000) as db:
        rows = "select repeat('x', g) from unnest($1::int4[]) g"
        # No row is, so the stream has no end.
        assert len([row async for row in db.stream(rows, [900] * 50)]) == 50
        for size in (1001, 3_000_000):
            with pytest.raises(onetrip.Error, match="result_bytes_max") as error:
                [row async for row in db.stream(rows, [5, size])]
            assert error.value.code == "result_too_large"
            assert error.value.outcome in ("Applied", "Unknown")


class Unread:
    """Rows are made into it, and can't be."""

    def __init__(self, **_: object) -> None:
        raise ValueError("never")


async def test_a_row_that_cannot_be_read_does_not_say_that_its_statement_took_effect(
    db: onetrip.Database,
) -> None:
    """It still runs, and is stopped as nobody reads on."""
    await db.execute("create table unread (i int4)")
    try:
        insert = "insert into unread select generate_series(1, $1::int4) returning i"
        for count in (1, 300_000):
            with pytest.raises(onetrip.Error, match="never") as error:
                async for _ in db.stream(insert, count, into=Unread):
                    pass
            there = await db.fetchval("select count(*) from unread where i = $1", count)
            assert error.value.outcome == "Unknown" or there == 1
    finally:
        await db.execute("drop table unread")


async def test_a_stream_that_is_cancelled(db: onetrip.Database) -> None:
    async def read(place: onetrip.Database | onetrip.Transaction) -> None:
        async for _ in place.stream("select pg_sleep(30)::text, 'flows'"):
            pass

    for inside in (False, True):
        with pytest.raises(asyncio.TimeoutError):
            if inside:
                async with db.begin() as tx:
                    await asyncio.wait_for(read(tx), 0.1)
            else:
                await asyncio.wait_for(read(db), 0.1)
    await until_active("'flows'", 0)
    assert await is_whole(db)


async def test_a_stream_that_fails(db: onetrip.Database) -> None:
    taken = 0
    with pytest.raises(DataError, match="division by zero"):
        async for _ in db.stream("select 1 / (2000 - i) from generate_series(1, 5000) i"):
            taken += 1
    assert taken == 1999
    with pytest.raises(onetrip.ParameterError):
        async for _ in db.stream("select $1::int4", 1.5):
            pass
    stream = db.stream("select pg_sleep(0.2)::text")
    first = asyncio.ensure_future(stream.__anext__())
    await asyncio.sleep(0)
    with pytest.raises(onetrip.MisuseError, match="one task"):
        await stream.__anext__()
    await first
    assert await is_whole(db)


async def test_a_server_that_dies_in_the_middle(line: Line) -> None:
    async with onetrip.connect(line.url, connections_max=2) as db:
        taken = 0
        with pytest.raises(onetrip.ConnectionLostError):
            async for _ in db.stream(SERIES, 1_000_000):
                taken += 1
                if taken == 10:
                    line.say("cut")
        assert taken >= 10

        async def endless() -> AsyncIterator[bytes]:
            sent = 0
            while True:
                yield b"1\tx\n" * 1000
                sent += 1
                if sent == 10:
                    line.say("cut")
                await asyncio.sleep(0)

        await db.execute("create table cuts (i int4, t text)")
        with pytest.raises(onetrip.ConnectionLostError) as caught:
            await db.copy_in("copy cuts from stdin", endless())
        # The end of its data was not sent, so none of it is stored.
        assert caught.value.outcome == "Rejected"
        assert await db.fetchval("select count(*) from cuts") == 0
        await db.execute("drop table cuts")


# --- COPY ---


async def test_copy_in_takes_many_sources(table: onetrip.Database) -> None:
    text = "copy poured from stdin"
    assert await table.copy_in(text, b"1\ta\n2\tb\n") == 2
    assert await table.copy_in(text, [b"3\ta\n", bytearray(b"4\tb"), memoryview(b"\n")]) == 2
    assert await table.copy_in(text, io.BytesIO(b"5\ta\n")) == 1
    assert await table.copy_in(text, []) == 0

    async def come() -> AsyncIterator[bytes]:
        for i in range(6, 10):
            await asyncio.sleep(0)
            yield b"%d\tx\n" % i

    assert await table.copy_in(text, come()) == 4
    assert await count(table) == 9
    data = b"".join([chunk async for chunk in table.copy_out("copy poured to stdout")])
    assert data.startswith(b"1\ta\n2\tb\n") and data.count(b"\n") == 9
    assert await is_whole(table)


async def test_copy_rows_of_columns_that_the_client_forgets(table: onetrip.Database) -> None:
    async def rows() -> AsyncIterator[tuple[int, str]]:
        for i in range(1, 301):
            if i == 200:
                await table.reload_types()
            yield i, "x"

    await table.execute("truncate poured")
    assert await table.copy_rows("poured", rows()) == 300
    assert await count(table) == 300


async def test_copy_of_much(table: onetrip.Database) -> None:
    def lines() -> Iterator[bytes]:
        for i in range(200_000):
            yield b"%d\t%s\n" % (i, b"x" * 50)

    assert await table.copy_in("copy poured from stdin", lines()) == 200_000
    rows = [(i, "x" * 50) for i in range(200_000, 400_000)]
    assert await table.copy_rows("poured", rows) == 200_000
    total, chunks = 0, 0
    async for chunk in table.copy_out("copy poured to stdout (format binary)"):
        total, chunks = total + len(chunk), chunks + 1
    assert total > 12_000_000 and chunks > 10
    async for chunk in table.copy_out("copy poured to stdout"):
        break
    assert await is_whole(table)


async def test_a_copy_that_fails_stores_nothing(table: onetrip.Database) -> None:
    def bad() -> Iterator[bytes]:
        yield b"1\ta\n" * 1
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await table.copy_in("copy poured from stdin", bad())
    with pytest.raises(UniqueViolation):
        await table.copy_in("copy poured from stdin", (b"1\ta\n" for _ in range(500_000)))
    with pytest.raises(TypeError, match="not a str"):
        await table.copy_in("copy poured from stdin", ["1\ta\n"])
    with pytest.raises(onetrip.MisuseError, match="copy_in takes"):
        await table.copy_in("copy poured to stdout", b"")
    with pytest.raises(onetrip.MisuseError, match="copy_out takes"):
        async for _ in table.copy_out("select 1"):
            pass
    with pytest.raises(onetrip.MisuseError):
        await table.execute("copy poured from stdin")

    async def slow() -> AsyncIterator[bytes]:
        yield b"1\ta\n"
        await asyncio.sleep(30)

    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(table.copy_in("copy poured from stdin", slow()), 0.1)
    assert await count(table) == 0
    assert await is_whole(table)


async def test_copy_in_a_transaction(table: onetrip.Database) -> None:
    with pytest.raises(ValueError):
        async with table.begin() as tx:
            assert await tx.copy_in("copy poured from stdin", b"1\ta\n") == 1
            raise ValueError
    async with table.begin() as tx:
        assert await tx.copy_in("copy poured from stdin", b"2\ta\n") == 1
        assert [chunk async for chunk in tx.copy_out("copy poured to stdout")] == [b"2\ta\n"]
    async with table.session() as session:
        assert await session.copy_rows("poured", [(3, "x")]) == 1
    assert await count(table) == 2


async def test_copy_rows(db: onetrip.Database) -> None:
    await db.execute(
        'create table "odd ""name" (a int4, b numeric, c timestamptz, d text, e uuid, f int4[])'
    )
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    row = (1, decimal.Decimal("1.50"), moment, "x", uuid.UUID(int=5), [1, None])
    try:
        assert await db.copy_rows('odd "name', [row, list(row), (None,) * 6]) == 3
        rows = await db.fetch('select * from "odd ""name"')
        assert rows == [row, row, (None,) * 6]

        async def come() -> AsyncIterator[tuple[str, int]]:
            for i in range(1000):
                yield (str(i), i)

        assert await db.copy_rows('odd "name', come(), columns=["d", "a"], schema="public") == 1000
        for bad, why in [
            ([(1, "x")], "a row has 2 values, and there are 6 columns"),
            ([5], "a row is a tuple"),
            ([("x", *row[1:])], "column 1 of type int4 can't be a value of type str"),
        ]:
            with pytest.raises(onetrip.ParameterError, match=why):
                await db.copy_rows('odd "name', bad)  # type: ignore[arg-type]
        with pytest.raises(onetrip.errors.UndefinedTableError):
            await db.copy_rows("nowhere", [])
    finally:
        await db.execute('drop table "odd ""name"')
    assert await is_whole(db)


# --- many sets ---


async def test_fetchmany(table: onetrip.Database, far: onetrip.Database, line: Line) -> None:
    text = "insert into poured values ($1, $2) returning i * 2 as twice"
    assert await far.fetchmany(text, [(1, "a")]) == [(2,)]
    line.trips
    rows = await far.fetchmany(text, [(i, "x") for i in range(2, 2000)])
    assert [row["twice"] for row in rows] == [2 * i for i in range(2, 2000)]
    # The server answers while the rest is still on its way.
    assert line.trips < 10
    with pytest.raises(UniqueViolation):
        await table.fetchmany(text, [(5000, "x"), (1, "x")])
    assert await count(table) == 1999
    assert await table.fetchmany("select $1::int4 as a", [(1,), (2,)], into=dict) == [
        {"a": 1},
        {"a": 2},
    ]
    assert await table.fetchmany(text, []) == []
    for many in (10, 100, 1000):
        values = [(i,) for i in range(many)]
        assert await far.fetchmany("select $1::int4 as b", values) == values


# --- shapes of rows ---


@dataclass
class Point:
    x: int
    y: str = "none"


async def test_rows_into(db: onetrip.Database) -> None:
    text = "select 1 as x, 'a' as y"
    assert await db.fetch(text, into=tuple) == [(1, "a")]
    assert type((await db.fetch(text, into=tuple))[0]) is tuple
    assert await db.fetchrow(text, into=dict) == {"x": 1, "y": "a"}
    assert await db.fetch(text, into=Point) == [Point(1, "a")]
    assert await db.fetchrow("select 5 as x", into=Point) == Point(5)
    assert await db.fetchrow("select 5 as x where false", into=Point) is None
    with pytest.raises(onetrip.Error) as caught:
        await db.fetchrow("select 5 as z", into=Point)
    assert caught.value.outcome == "Applied" and isinstance(caught.value.__cause__, TypeError)
    with pytest.raises(TypeError, match="into takes"):
        await db.fetch(text, into=5)  # type: ignore[call-overload]


# --- notices and metrics ---


async def test_notices() -> None:
    heard: list[onetrip.Notice] = []
    async with onetrip.connect(URL, on_notice=heard.append) as db:
        async with db.session() as session:
            text = "raise warning 'look out' using hint = 'there'"
            await session.execute(f"do $$ begin {text}; end $$")
    (notice,) = heard
    assert (notice.severity, notice.message, notice.hint) == ("WARNING", "look out", "there")
    assert notice.sqlstate == "01000"


async def test_metrics() -> None:
    async with onetrip.connect(URL) as db:
        before = db.metrics()
        call = db.fetchval("select 1")
        await call
        with pytest.raises(onetrip.Error):
            await db.fetchval("select 1 / 0")
        after = db.metrics()
    assert after.failed == before.failed + 1 and after.statements > before.statements
    assert after.bytes_sent > before.bytes_sent and after.bytes_received > before.bytes_received
    assert after.opened >= 1 and after.lost == 0 and after.connections >= 1


async def test_a_checkout_whose_caller_is_cancelled_gives_back() -> None:
    async with onetrip.connect(URL, connections_max=1) as db:

        async def borrow() -> None:
            async with db.session() as session:
                await session.fetchval("select 1")

        for turns in range(12):
            task = asyncio.create_task(borrow())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await asyncio.wait_for(db.fetchval("select 1"), 600) == 1
