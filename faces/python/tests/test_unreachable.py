"""What nobody can reach any more gives its connection back, wherever the collector finds it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

import onetrip
import onetrip.asyncpg
import onetrip.blocking
import onetrip.redis

from conftest import REDIS, URL

#: A bound that only what waits for ever reaches.
PATIENCE = 120

SERIES = "select i, repeat('x', 20) as t from generate_series(1, 300000) i"

Open = Callable[[onetrip.Database], Awaitable[Any]]


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """The collector runs where a test calls it, and nowhere else."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def nothing_raised() -> Iterator[None]:
    """Of what is raised where nobody hears it."""
    told: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, told.append
    try:
        yield
        gc.collect()
    finally:
        sys.unraisablehook = before
    assert not told, told


async def a_stream(db: onetrip.Database) -> Any:
    stream = db.stream(SERIES)
    await stream.__anext__()
    return stream


async def a_session(db: onetrip.Database) -> Any:
    session = await db.session().__aenter__()
    await session.execute("set work_mem = '5MB'")
    return session


async def a_transaction(db: onetrip.Database) -> Any:
    tx = await db.begin().__aenter__()
    await tx.execute("create table never (i int4)")
    return tx


async def a_transaction_of_a_session(db: onetrip.Database) -> Any:
    session = await a_session(db)
    tx = await session.begin().__aenter__()
    await tx.execute("create table never (i int4)")
    return session, tx


async def a_stream_of_a_transaction(db: onetrip.Database) -> Any:
    tx = await a_transaction(db)
    stream = tx.stream(SERIES)
    await stream.__anext__()
    return tx, stream


async def a_savepoint(db: onetrip.Database) -> Any:
    tx = await a_transaction(db)
    return await tx.begin().__aenter__()


async def a_suspended_block(db: onetrip.Database) -> Any:
    there = asyncio.Event()

    async def work() -> None:
        async with db.begin() as tx:
            await tx.execute("create table never (i int4)")
            there.set()
            await asyncio.get_running_loop().create_future()

    task = asyncio.ensure_future(work())
    await asyncio.wait_for(there.wait(), PATIENCE)
    return task


WAYS: list[Open] = [
    a_stream,
    a_session,
    a_transaction,
    a_transaction_of_a_session,
    a_stream_of_a_transaction,
    a_savepoint,
]


@contextlib.asynccontextmanager
async def one_connection() -> AsyncIterator[onetrip.Database]:
    async with onetrip.connect(URL, connections_max=1) as db:
        yield db


async def is_whole(db: onetrip.Database) -> bool:
    async with db.session() as session:
        shown = await asyncio.wait_for(session.fetchval("show work_mem"), PATIENCE)
    left = await db.fetchval("select to_regclass('never') is null")
    return bool(shown != "5MB" and left)


async def in_a_cycle(made: Awaitable[Any]) -> None:
    cycle: list[Any] = [await made]
    cycle.append(cycle)


def collect_elsewhere() -> None:
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join(PATIENCE)


@pytest.mark.parametrize("opens", WAYS)
async def test_it_is_collected_by_another_thread(opens: Open) -> None:
    async with one_connection() as db:
        with nothing_raised(), uncollected(), pytest.warns(ResourceWarning, match="deleted"):
            await in_a_cycle(opens(db))
            collect_elsewhere()
        assert await asyncio.wait_for(is_whole(db), PATIENCE)
        await asyncio.wait_for(db.close(), PATIENCE)


@pytest.mark.parametrize("opens", WAYS)
async def test_it_is_collected_in_its_own_thread(opens: Open) -> None:
    async with one_connection() as db:
        with nothing_raised(), uncollected(), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", ResourceWarning)
            await in_a_cycle(opens(db))
            gc.collect()
        # A stream that is left in the middle is none to warn of.
        assert any("deleted" in str(it.message) for it in told) == (opens is not a_stream)
        assert await asyncio.wait_for(is_whole(db), PATIENCE)
        await asyncio.wait_for(db.close(), PATIENCE)


@pytest.mark.parametrize("opens", WAYS)
async def test_it_is_dropped(opens: Open) -> None:
    async with one_connection() as db:
        with uncollected(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            await opens(db)
            assert await asyncio.wait_for(is_whole(db), PATIENCE)


@pytest.mark.parametrize("opens", WAYS)
def test_its_event_loop_is_gone(opens: Open) -> None:
    kept: list[Any] = []
    # What other tests have left is none of this one's.
    gc.collect()

    async def main() -> None:
        db = await onetrip.connect(URL, connections_max=1)
        kept.append((await opens(db), db))

    with nothing_raised(), uncollected(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        asyncio.run(main())
        kept.clear()
        gc.collect()


async def test_a_task_amid_a_block_that_another_thread_collects() -> None:
    async with one_connection() as db:
        with uncollected(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            await in_a_cycle(a_suspended_block(db))
            collect_elsewhere()
        assert await asyncio.wait_for(is_whole(db), PATIENCE)


async def test_many_streams_that_another_thread_collects() -> None:
    async with onetrip.connect(URL, connections_max=3) as db:
        with uncollected(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            for _ in range(4):
                for _ in range(3):
                    await asyncio.wait_for(in_a_cycle(a_stream(db)), PATIENCE)
                collect_elsewhere()
        await asyncio.wait_for(db.close(), PATIENCE)


async def test_a_copy_whose_task_is_lost(db: onetrip.Database) -> None:
    await db.execute("create table never_copied (i int4)")
    try:
        async with one_connection() as one:
            there = asyncio.Event()

            async def source() -> AsyncIterator[bytes]:
                yield b"1\n"
                there.set()
                await asyncio.get_running_loop().create_future()

            with uncollected(), warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                text = "copy never_copied from stdin"
                task = asyncio.ensure_future(one.copy_in(text, source()))
                await asyncio.wait_for(there.wait(), PATIENCE)
                del task
                collect_elsewhere()
            assert await asyncio.wait_for(one.fetchval("select 1"), PATIENCE) == 1
        assert await db.fetchval("select count(*) from never_copied") == 0
    finally:
        await db.execute("drop table never_copied")


async def test_a_session_of_redis(redis: onetrip.redis.Client[str]) -> None:
    async with onetrip.redis.connect(REDIS, connections_max=1) as one:
        with nothing_raised(), uncollected(), pytest.warns(ResourceWarning, match="session"):
            session = await one.session().__aenter__()
            await session.watch(["a"])
            await in_a_cycle(asyncio.sleep(0, session))
            del session
            collect_elsewhere()

        async def use() -> None:
            async with one.session() as session:
                assert await session.get("a") is None

        await asyncio.wait_for(use(), PATIENCE)
        await asyncio.wait_for(one.close(), PATIENCE)


# --- without async ---


def blocking_stream(db: onetrip.blocking.Database) -> Any:
    stream = db.stream(SERIES)
    next(stream)
    return stream


def blocking_session(db: onetrip.blocking.Database) -> Any:
    session = db.session().__enter__()
    session.execute("set work_mem = '5MB'")
    return session


def blocking_transaction(db: onetrip.blocking.Database) -> Any:
    tx = db.begin().__enter__()
    tx.execute("create table never (i int4)")
    return tx


def blocking_generator(db: onetrip.blocking.Database) -> Any:
    def work() -> Iterator[None]:
        with db.begin() as tx:
            tx.execute("create table never (i int4)")
            yield

    it = work()
    next(it)
    return it


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("is_cycle", [False, True])
@pytest.mark.parametrize(
    "opens", [blocking_stream, blocking_session, blocking_transaction, blocking_generator]
)
def test_blocking(
    opens: Callable[[onetrip.blocking.Database], Any], is_cycle: bool, elsewhere: bool
) -> None:
    ends: list[str] = []

    def lost(db: onetrip.blocking.Database) -> None:
        cycle: list[Any] = [opens(db)]
        if is_cycle:
            cycle.append(cycle)

    def work() -> None:
        db = onetrip.blocking.connect(URL, connections_max=1)
        with nothing_raised(), uncollected(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            for _ in range(2):
                lost(db)
                collect_elsewhere() if elsewhere else gc.collect()
        with db.session() as session:
            assert session.fetchval("show work_mem") != "5MB"
        assert db.fetchval("select to_regclass('never') is null")
        db.close()
        ends.append("whole")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert ends == ["whole"]


def test_blocking_warns() -> None:
    with onetrip.blocking.connect(URL) as db:
        with pytest.warns(ResourceWarning, match="a session was deleted"):
            blocking_session(db)
            gc.collect()
