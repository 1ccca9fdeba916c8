"""What calls leave behind: nothing. Bytes are counted by the allocator, blocks by Python.

Rust takes its memory from malloc, and so do Python's larger objects; ``mallinfo2`` tells how many
bytes of it are in use. Smaller objects of Python are counted by ``sys.getallocatedblocks``.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import io
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import onetrip
import onetrip.asyncpg

from conftest import URL, Line

#: How often a call is made, and how often one that takes many. ``ONETRIP_CALLS`` sets another
#: number.
MANY = int(os.environ.get("ONETRIP_CALLS", 2_000))
FEW = MANY // 10
AT_ONCE = 50

#: What may remain: some that is no call's, and of each less than the least that can be allocated.
BYTES, BYTES_EACH = 16 << 10, 6
BLOCKS, BLOCKS_EACH = 200, 0.1

Call = Callable[[int], Awaitable[Any]]


class MallInfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]


def bytes_in_use() -> int:
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = MallInfo
    told = mallinfo()
    return int(told.uordblks) + int(told.hblkhd)


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """What calls leave is no loop's."""
    return asyncio.DefaultEventLoopPolicy()


@pytest.fixture(autouse=True)
def counted() -> None:
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("this C library has no mallinfo2")


async def many(call: Call, count: int) -> None:
    for start in range(0, count, AT_ONCE):
        calls = [call(number) for number in range(start, start + AT_ONCE)]
        await asyncio.gather(*calls, return_exceptions=True)


async def levels() -> tuple[int, int]:
    """Bytes and blocks, once what was given up is over."""
    await asyncio.sleep(0.05)
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)
    return bytes_in_use(), sys.getallocatedblocks()


async def holds(call: Call, count: int) -> None:
    """Memory returns to its level."""
    # The allocator keeps some that is free, and counts it, until it has enough of each size.
    await many(call, count * 8 if count > 200 else 200)
    grown: list[tuple[int, int]] = []
    # What grows by the number of calls grows again; what was grown once, for good, does not.
    for _ in range(16):
        before = await levels()
        await many(call, count)
        after = await levels()
        grown.append((after[0] - before[0], after[1] - before[1]))
        most = BYTES + BYTES_EACH * count, BLOCKS + BLOCKS_EACH * count
        if grown[-1][0] <= most[0] and grown[-1][1] <= most[1]:
            return
    raise AssertionError(f"{count} calls leave (bytes, blocks) {grown}")


async def caught(call: Awaitable[Any]) -> None:
    try:
        await call
    except (onetrip.Error, onetrip.asyncpg.PostgresError, asyncio.TimeoutError):
        return
    raise AssertionError("it went well")


async def cancelled(call: Awaitable[Any], turns: int) -> None:
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass


async def in_transaction(db: onetrip.Database, number: int) -> None:
    try:
        async with db.begin() as tx:
            await tx.fetchval("select $1::int4", number)
            async with tx.begin() as inner:
                await inner.execute("select 1")
            if number % 2:
                raise ValueError
    except ValueError:
        pass


async def in_session(db: onetrip.Database) -> None:
    async with db.session() as session:
        await session.execute("set work_mem = '1MB'")


async def in_pipeline(db: onetrip.Database, number: int) -> None:
    async with db.pipeline() as pipeline:
        calls = [pipeline.fetchval("select $1::int4", number), pipeline.execute("select 1")]
    await asyncio.gather(*calls)


async def streamed(db: onetrip.Database, number: int) -> None:
    async with db.stream("select i from generate_series(1, 100) i") as rows:
        async for row in rows:
            if row[0] == number % 50:
                break


async def copied(db: onetrip.Database) -> None:
    async for _ in db.copy_out("copy (select 1) to stdout"):
        pass
    try:
        await db.copy_in("copy nothing_of_this_name from stdin", io.BytesIO(b"1\n"))
    except onetrip.PostgresError:
        pass


POSTGRES: dict[str, tuple[Callable[[onetrip.Database, int], Awaitable[Any]], int]] = {
    "rows": (lambda db, n: db.fetch("select $1::int4, 'a text'", n), MANY),
    "a row": (lambda db, n: db.fetchrow("select $1::text as a", "x" * (n % 90)), MANY),
    "a value": (lambda db, n: db.fetchval("select $1::int4[]", [n, n]), MANY),
    "into a class": (lambda db, n: db.fetch("select $1::int4 as a", n, into=dict), MANY),
    "a tag": (lambda db, n: db.execute("select $1::numeric", n), MANY),
    "many": (lambda db, n: db.fetchmany("select $1::int4", [(n,), (n,)]), MANY),
    "an error": (lambda db, n: caught(db.fetch("select $1::text::int4", "x")), MANY),
    "a bad argument": (lambda db, n: caught(bad_argument(db)), MANY),
    "a refusal": (lambda db, n: caught(db.execute("listen a")), MANY),
    "a cancel": (lambda db, n: cancelled(db.fetch("select $1::int4", n), n % 4), MANY),
    "a timeout": (
        lambda db, n: caught(asyncio.wait_for(db.fetch("select pg_sleep(1)::text"), 0.001)), 200,
    ),
    "columns": (lambda db, n: db.fetch_arrow("select $1::int4 as a", n), MANY),
    "transactions": (in_transaction, FEW),
    "sessions": (lambda db, n: in_session(db), FEW),
    "pipelines": (in_pipeline, FEW),
    "streams": (streamed, FEW),
    "copies": (lambda db, n: copied(db), FEW),
    "new texts": (lambda db, n: db.fetchval(f"select {n}"), MANY),
}


def bad_argument(db: onetrip.Database) -> Awaitable[Any]:
    return db.fetch("select $1::int4", "no number")


@pytest.mark.parametrize("name", POSTGRES)
async def test_postgres(name: str) -> None:
    call, count = POSTGRES[name]
    async with onetrip.connect(URL, connections_max=4) as db:
        await holds(lambda number: call(db, number), count)


ASYNCPG: dict[str, tuple[Callable[[onetrip.asyncpg.Pool, int], Awaitable[Any]], int]] = {
    "rows": (lambda pool, n: pool.fetch("select $1::int4, 'a text'", n), MANY),
    "an error": (lambda pool, n: caught(pool.fetch("select $1::text::int4", "x")), MANY),
    "a timeout": (
        lambda pool, n: caught(pool.fetch("select pg_sleep(1)", timeout=0.001)), 200,
    ),
    "a cancel": (lambda pool, n: cancelled(pool.fetch("select $1::int4", n), n % 4), MANY),
}


@pytest.mark.parametrize("name", ASYNCPG)
async def test_asyncpg(name: str) -> None:
    call, count = ASYNCPG[name]
    async with onetrip.asyncpg.create_pool(URL, min_size=4, max_size=4) as pool:
        await holds(lambda number: call(pool, number), count)


async def test_lost_connections(line: Line) -> None:
    async with onetrip.connect(line.url, connections_max=4) as db:
        async def cut(number: int) -> None:
            if number % AT_ONCE == 0:
                await db.fetchval("select 1")
                line.say("cut")
            await asyncio.gather(
                db.fetchval("select $1::text from pg_sleep(0.001)", "x" * number),
                db.fetchval("select 1"),
                return_exceptions=True,
            )

        await holds(cut, FEW)
        assert db.metrics().lost > 0
