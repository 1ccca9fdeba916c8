"""Nothing waits for itself: what a caller can't get before it goes on is refused at once, or works.

``PATIENCE`` is a bound that only what waits for ever reaches.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

import onetrip
import onetrip.asyncpg
import onetrip.blocking
import onetrip.redis
from onetrip.errors import RolledBackError

from conftest import URL

PATIENCE = 120

#: More than what is received ahead of its reader, and less.
MUCH, LITTLE = 300_000, 10
SERIES = "select i, repeat('x', 20) as t from generate_series(1, $1) i"


T = TypeVar("T")


def within_patience(work: Callable[[], T]) -> T:
    """The same for what has no event loop. A thread that waits for ever is left behind."""
    ends: list[Any] = []

    def run() -> None:
        try:
            ends.append((work(), None))
        except BaseException as error:
            ends.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert ends, "it waits for ever"
    result, error = ends[0]
    if error is not None:
        raise error
    made: T = result
    return made


async def soon(work: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(work, PATIENCE)


def refused(code: str) -> Any:
    """An error at once, of which nothing was sent."""
    return pytest.raises(onetrip.MisuseError, check=lambda it: is_unsent(it, code))


def is_unsent(error: onetrip.Error, code: str) -> bool:
    return (error.code, error.outcome) == (code, "NotSent")


@pytest.fixture
async def table(db: onetrip.Database) -> AsyncIterator[onetrip.Database]:
    await db.execute("create table waits (i int4, t text)")
    yield db
    await db.execute("drop table waits")


async def rows(db: onetrip.Database) -> list[int]:
    return [row["i"] for row in await db.fetch("select i from waits order by i")]


async def is_whole(db: onetrip.Database) -> bool:
    """Every connection goes back, and does what it is asked."""
    async with db.session() as session:
        one = await soon(session.fetchval("select 1"))
    return bool(one == 1 and await soon(db.fetchval("select 2")) == 2)


# --- savepoints ---


async def side_by_side(outer: Any, order: tuple[str, ...], fails: str) -> list[BaseException]:
    """Two blocks of one transaction, a and b, whose steps go in this order."""
    turns = {step: asyncio.Event() for step in order}
    turns[order[0]].set()
    following = dict(zip(order, order[1:]))

    async def turn(step: str) -> None:
        await soon(turns[step].wait())

    def done(name: str, *steps: str) -> None:
        for step in steps:
            if f"{name}-{step}" in following:
                turns[following[f"{name}-{step}"]].set()

    async def block(name: str, value: int) -> None:
        try:
            await turn(f"{name}-open")
            async with outer.begin() as inner:
                done(name, "open")
                await turn(f"{name}-write")
                await inner.execute("insert into waits values ($1)", value)
                done(name, "write")
                await turn(f"{name}-end")
                if name == fails:
                    raise ValueError(name)
        finally:
            for event in turns.values():
                event.set()

    both = await asyncio.gather(block("a", 1), block("b", 2), return_exceptions=True)
    return [end for end in both if end is not None]


@pytest.mark.parametrize("fails", ["a", "b"])
@pytest.mark.parametrize("last", [("a-end", "b-end"), ("b-end", "a-end")])
async def test_savepoints_side_by_side(
    table: onetrip.Database, last: tuple[str, ...], fails: str
) -> None:
    order = ("a-open", "b-open", "a-write", "b-write", *last)
    async with table.begin() as tx:
        ends = await side_by_side(tx, order, fails)
    # The second is refused when it opens, and the first does what it says.
    refusals = [end for end in ends if isinstance(end, onetrip.MisuseError)]
    assert [is_unsent(end, "savepoint_open") for end in refusals] == [True]
    assert await rows(table) == ([] if fails == "a" else [1])


async def test_transactions_side_by_side_on_a_session(table: onetrip.Database) -> None:
    async with table.session() as session:
        order = ("a-open", "b-open", "a-write", "b-write", "b-end", "a-end")
        ends = await side_by_side(session, order, "b")
        assert [is_unsent(end, "block_open") for end in ends] == [True]
        async with session.begin():
            with refused("block_open"):
                await soon(session.execute("insert into waits values (3)"))
        await session.execute("insert into waits values (4)")
    assert await rows(table) == [1, 4]


async def test_a_transaction_that_ends_before_its_savepoint(table: onetrip.Database) -> None:
    opened, ended = asyncio.Event(), asyncio.Event()

    async def within(tx: onetrip.Transaction) -> None:
        async with tx.begin() as inner, inner.begin() as innermost:
            await innermost.execute("insert into waits values (1)")
            opened.set()
            await ended.wait()
            with refused("over"):
                await soon(innermost.execute("insert into waits values (2)"))

    with pytest.raises(RolledBackError, match="still open"):
        async with table.begin() as tx:
            task = asyncio.ensure_future(within(tx))
            await soon(opened.wait())
    ended.set()
    with pytest.raises(RolledBackError, match="ended before it"):
        await soon(task)
    # The handle of the transaction is no way onto a connection that others have by now.
    with refused("over"):
        await soon(tx.execute("insert into waits values (3)"))
    assert await rows(table) == []
    assert await is_whole(table)


async def test_a_savepoint_that_ends_before_one_in_it(table: onetrip.Database) -> None:
    opened, ended = asyncio.Event(), asyncio.Event()

    async def within(tx: onetrip.Transaction) -> None:
        async with tx.begin() as inner:
            await inner.execute("insert into waits values (1)")
            opened.set()
            await ended.wait()

    async with table.begin() as tx:
        await tx.execute("insert into waits values (0)")
        with pytest.raises(RolledBackError, match="still open"):
            async with tx.begin() as outer:
                task = asyncio.ensure_future(within(outer))
                await soon(opened.wait())
        ended.set()
        with pytest.raises(RolledBackError):
            await soon(task)
        await tx.execute("insert into waits values (2)")
    assert await rows(table) == [0, 2]


@pytest.mark.parametrize("nested", [False, True])
async def test_transactions_side_by_side_in_the_drop_in(
    table: onetrip.Database, nested: bool
) -> None:
    connection = await onetrip.asyncpg.connect(URL)
    opened, refused = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with connection.transaction():
            opened.set()
            await soon(refused.wait())
            await connection.execute("insert into waits values (1)")
            # What it opens itself is in its own, and so is what its tasks open.
            async with connection.transaction():
                await connection.execute("insert into waits values (2)")

            async def child() -> None:
                async with connection.transaction():
                    await connection.execute("insert into waits values (3)")

            await asyncio.wait_for(child(), PATIENCE)

    async def second() -> None:
        await soon(opened.wait())
        with pytest.raises(onetrip.asyncpg.InterfaceError, match="another task"):
            async with connection.transaction():
                raise AssertionError("it was opened")
        refused.set()

    if nested:
        async with connection.transaction():
            await asyncio.gather(first(), second())
    else:
        await asyncio.gather(first(), second())
    assert await rows(table) == [1, 2, 3]
    await connection.close()


# --- streams and COPY ---


@pytest.mark.parametrize("size", [MUCH, LITTLE])
async def test_a_statement_beside_its_own_stream(table: onetrip.Database, size: int) -> None:
    async with table.begin() as tx:
        async for row in tx.stream(SERIES, size):
            with refused("stream_open"):
                await soon(tx.execute("insert into waits values (1)"))
            with refused("stream_open"):
                await soon(tx.begin().__aenter__())
            with refused("stream_open"):
                await soon(tx.stream("select 1").__anext__())
            with refused("stream_open"):
                await soon(tx.copy_in("copy waits from stdin", b"1\tx\n"))
            await soon(table.execute("insert into waits values ($1)", row["i"]))
            if row["i"] == 2:
                break
        await soon(tx.execute("insert into waits values (3)"))
    async with table.session() as session:
        named = session.stream(SERIES, size)
        await named.__anext__()
        with refused("stream_open"):
            await soon(session.fetchval("select 1"))
        with refused("stream_open"):
            await soon(session.begin().__aenter__())
        await named.aclose()
        assert await soon(session.fetchval("select 1")) == 1
    assert await rows(table) == [1, 2, 3]
    assert await is_whole(table)


@pytest.mark.parametrize("size", [MUCH, LITTLE])
async def test_a_block_that_ends_beside_its_stream(table: onetrip.Database, size: int) -> None:
    async def read(tx: onetrip.Transaction | onetrip.Session) -> Any:
        stream = tx.stream(SERIES, size)
        async for _ in stream:
            return stream

    async def in_transaction() -> Any:
        async with table.begin() as tx:
            await tx.execute("insert into waits values (1)")
            return await read(tx)

    async def in_savepoint() -> Any:
        async with table.begin() as tx:
            async with tx.begin() as inner:
                await inner.execute("insert into waits values (2)")
                left = await read(inner)
            await tx.execute("insert into waits values (3)")
        return left

    async def in_session() -> Any:
        async with table.session() as session:
            return await read(session)

    async def in_session_block() -> Any:
        async with table.session() as session:
            async with session.begin() as tx:
                left = await read(tx)
            assert await session.fetchval("select 1") == 1
        return left

    for work in (in_transaction, in_savepoint, in_session, in_session_block):
        left = await soon(work())
        # Rows that are missing are no end of the rows.
        with pytest.raises(onetrip.MisuseError, match="over|released"):
            await soon(left.__anext__())
    assert await rows(table) == [1, 2, 3]
    assert await is_whole(table)


async def test_a_reader_hears_that_its_block_has_ended(db: onetrip.Database) -> None:
    async def read(stream: Any) -> None:
        async for _ in stream:
            pass

    async with db.session() as session:
        reader = asyncio.ensure_future(read(session.stream("select pg_sleep(60)::text")))
        while await db.fetchval(
            "select count(*) from pg_stat_activity where query like 'select pg_sleep(60)::text%'"
            " and state = 'active'"
        ) == 0:
            await asyncio.sleep(0)
    with pytest.raises(onetrip.MisuseError, match="released"):
        await soon(reader)
    assert await is_whole(db)


async def test_a_statement_in_the_source_of_its_own_copy(table: onetrip.Database) -> None:
    def source(run: Callable[[], Awaitable[Any]], one: Any) -> AsyncIterator[Any]:
        async def come() -> AsyncIterator[Any]:
            for _ in range(2):
                with refused("copy_open"):
                    await soon(run())
                yield one

        return come()

    async with table.begin() as tx:
        run = lambda: tx.fetchval("select 1")  # noqa: E731
        assert await soon(tx.copy_rows("waits", source(run, (1, "x")))) == 2
        assert await soon(tx.copy_in("copy waits from stdin", source(run, b"2\tx\n"))) == 2
        assert await soon(tx.fetchval("select count(*) from waits")) == 4
    async with table.session() as session:
        run = lambda: session.fetchval("select 1")  # noqa: E731
        assert await soon(session.copy_rows("waits", source(run, (3, "x")))) == 2
        assert await soon(session.fetchval("select 1")) == 1
    assert await rows(table) == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("inside", [False, True])
async def test_the_drop_in_beside_its_own_copy(table: onetrip.Database, inside: bool) -> None:
    connection = await onetrip.asyncpg.connect(URL)

    async def records() -> AsyncIterator[Any]:
        for i in range(2):
            with pytest.raises(onetrip.asyncpg.InterfaceError, match="another operation"):
                await soon(connection.fetchval("select 1"))
            yield i, "x"

    async def sink(_: bytes) -> None:
        with pytest.raises(onetrip.asyncpg.InterfaceError, match="another operation"):
            await soon(connection.fetchval("select 1"))

    async def work() -> None:
        await soon(connection.copy_records_to_table("waits", records=records()))
        await soon(connection.copy_from_table("waits", output=sink))

    if inside:
        async with connection.transaction():
            await work()
    else:
        await work()
    assert await soon(connection.fetchval("select count(*) from waits")) == 2
    await soon(connection.close())


# --- pipelines ---


async def test_a_reply_awaited_in_its_own_pipeline(table: onetrip.Database) -> None:
    async with table.pipeline() as pipeline:
        added = pipeline.fetchval("insert into waits values (1) returning i")
        with refused("awaited_early"):
            await soon(added)
        with refused("awaited_early"):
            await soon(asyncio.gather(added))
    assert await soon(added) == 1
    assert await rows(table) == [1]


async def test_a_reply_awaited_in_its_own_list(redis: onetrip.redis.Client[str]) -> None:
    async with redis.atomic() as tx:
        set_ = tx.set("a", 1)
        with refused("awaited_early"):
            await soon(set_)
        got = tx.get("a")
    assert (await soon(set_), await soon(got)) == ("OK", "1")
    async with redis.session() as session:
        await session.watch(["a"])
        async with session.atomic() as tx:
            got = tx.get("a")
            with refused("awaited_early"):
                await soon(got)
        assert await soon(got) == "1"


# --- without async ---


@pytest.fixture
def blocking() -> Iterator[onetrip.blocking.Database]:
    with onetrip.blocking.connect(URL) as db:
        db.execute("drop table if exists waited")
        db.execute("create table waited (i int4, t text)")
        yield db
        db.execute("drop table waited")


def written(db: onetrip.blocking.Database) -> list[int]:
    return [row["i"] for row in db.fetch("select i from waited order by i")]


@pytest.mark.parametrize("size", [MUCH, LITTLE])
def test_blocking_statements_beside_their_own_stream(
    blocking: onetrip.blocking.Database, size: int
) -> None:
    def beside(place: onetrip.blocking.Transaction | onetrip.blocking.Session) -> None:
        stream = place.stream(SERIES, size)
        for _ in stream:
            with refused("stream_open"):
                place.execute("insert into waited values (1)")
            with refused("stream_open"):
                place.begin().__enter__()
            blocking.execute("insert into waited values (2)")
            break
        stream.close()
        place.execute("insert into waited values (3)")

    def half_read() -> Any:
        with blocking.begin() as tx:
            tx.execute("insert into waited values (4)")
            stream = tx.stream(SERIES, size)
            next(stream)
            return stream

    def work() -> None:
        with blocking.begin() as tx:
            beside(tx)
        with blocking.session() as session:
            beside(session)
        with pytest.raises(onetrip.MisuseError, match="over"):
            next(half_read())

    within_patience(work)
    assert written(blocking) == [2, 2, 3, 3, 4]


def test_blocking_statements_in_the_source_of_their_own_copy(
    blocking: onetrip.blocking.Database,
) -> None:
    def work() -> None:
        with blocking.begin() as tx:

            def come() -> Iterator[tuple[int, str]]:
                for i in range(1000):
                    if i > 500:
                        with refused("copy_open"):
                            tx.fetchval("select 1")
                    yield i, "x"

            assert tx.copy_rows("waited", come()) == 1000

    within_patience(work)
    assert written(blocking) == list(range(1000))


def test_blocking_savepoints_of_two_threads(blocking: onetrip.blocking.Database) -> None:
    def work() -> None:
        with blocking.begin() as tx, tx.begin() as inner:
            inner.execute("insert into waited values (1)")

            def other() -> None:
                with tx.begin() as second:
                    second.execute("insert into waited values (2)")

            with refused("savepoint_open"):
                within_patience(other)

    within_patience(work)
    assert written(blocking) == [1]


# --- what the client asks for itself ---

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like $1"


@pytest.fixture
async def locked(table: onetrip.Database) -> AsyncIterator[onetrip.Database]:
    """Nobody hears what a text takes that reads the table, as long as this has it."""
    async with table.session() as session:
        await session.execute("begin")
        await session.execute("lock table waits")
        yield table
        await session.execute("rollback")


async def until_waiting(db: onetrip.Database, count: int, text: str) -> None:
    async def waits() -> None:
        while await db.fetchval(WAITING, f"%{text}%") != count:
            await asyncio.sleep(0)

    await soon(waits())


async def test_new_texts_beside_one_that_is_stuck(locked: onetrip.Database) -> None:
    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=3) as pool:
        stuck = asyncio.ensure_future(pool.fetch("select *, 'beside' from waits where i = $1", 1))
        await until_waiting(locked, 1, "'beside'")
        for n in range(3):
            # Not as long as this process has run, for one.
            call = pool.fetchval(f"select $1::int4 + {n}", 1)
            assert await asyncio.wait_for(call, PATIENCE / 4) == n + 1
        stuck.cancel()


async def test_a_question_ends_with_those_who_wait_for_it(locked: onetrip.Database) -> None:
    text = "select *, 'interest' from waits where i = $1"
    async with onetrip.connect(URL, connections_max=2) as db:
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.gather(db.fetch(text, 1), db.fetch(text, 2)), 0.1)
            await until_waiting(locked, 0, "'interest'")
            assert await soon(db.fetchval("select $1::int4", 1)) == 1
        # One who stays keeps it.
        stays = asyncio.ensure_future(db.fetch(text, 1))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(db.fetch(text, 1), 0.1)
        await until_waiting(locked, 1, "'interest'")
        stays.cancel()


async def test_a_question_that_is_late_is_asked_once_more(locked: onetrip.Database) -> None:
    text = "select *, 'once more' from waits where i = $1"
    async with onetrip.connect(URL, connections_max=4) as db:
        stays = asyncio.ensure_future(db.fetch(text, 1))
        seen = []

        async def others() -> None:
            while len([it for it in seen if it == 2]) < 5:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(db.fetch(text, 1), 0.05)
                seen.append(await locked.fetchval(WAITING, "%'once more'%"))

        await soon(others())
        assert max(seen) == 2
        stays.cancel()


async def test_a_question_on_a_connection_of_ones_own(locked: onetrip.Database) -> None:
    async with locked.session() as session:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(session.fetch("select *, 1 from waits where i = $1", 1), 0.1)
        assert await soon(session.fetchval("select $1::int4", 1)) == 1
    connection = await onetrip.asyncpg.connect(URL)
    with pytest.raises(asyncio.TimeoutError):
        await connection.fetch("select *, 2 from waits where i = $1", 1, timeout=0.1)
    assert await soon(connection.fetchval("select $1::int4", 1)) == 1
    await soon(connection.close())
