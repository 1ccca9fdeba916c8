"""``close()`` ends, whatever its caller has open; it waits for the work of others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import onetrip
import onetrip.asyncpg
import onetrip.blocking
import onetrip.redis
import onetrip.redis.asyncio
from onetrip.errors import RolledBackError

from conftest import REDIS, URL, until, until_active

#: A bound that only what waits for ever reaches.
PATIENCE = 120

SERIES = "select i, repeat('x', 20) as t from generate_series(1, $1) i"


async def soon(work: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(work, PATIENCE)


def own(work: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
    """Within a task of its own, which the bound is no part of."""
    return soon(asyncio.ensure_future(work()))


@pytest.mark.parametrize("size", [300_000, 3])
async def test_beside_its_callers_stream(size: int) -> None:
    async def work() -> None:
        db = await onetrip.connect(URL)
        stream = db.stream(SERIES, size)
        for _ in range(3):
            await stream.__anext__()
        await db.close()
        with pytest.raises(onetrip.MisuseError, match="closed"):
            await stream.__anext__()

    await own(work)


async def test_beside_a_call_that_is_given_up_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last that its connection was to be closed behind, and nothing is answered any more: a
    cancel that is not over holds the call back.
    """
    is_over, dial = asyncio.Event(), asyncio.open_connection

    async def dialled(*args: Any) -> Any:
        reader, writer = await dial(*args)
        read = reader.read

        async def late() -> bytes:
            await is_over.wait()
            return await read()

        monkeypatch.setattr(reader, "read", late)
        return reader, writer

    db = await onetrip.connect(URL, connections_max=1)
    try:
        await db.fetchval("select 1")
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "open_connection", dialled)
            slow = asyncio.ensure_future(db.fetchval("select pg_sleep(60) -- held"))
            await until_active("-- held")
            slow.cancel()

            async def is_answered() -> bool:
                return db.metrics().in_flight == 0

            await until(is_answered)
        call = db.fetchval("select 1")
        assert db.metrics().queued == 1
        closing = asyncio.ensure_future(db.close())
        await asyncio.sleep(0)
        call.close()
        is_over.set()
        await soon(closing)
    finally:
        await db.close(0)


async def test_beside_its_callers_session() -> None:
    async def work() -> None:
        db = await onetrip.connect(URL)
        async with db.session() as session:
            await session.execute("set work_mem = '5MB'")
            call = session.fetchval("select 1 from pg_sleep(0.05)")
            await db.close()
            # What was submitted is answered, and nothing comes behind it.
            assert await call == 1
            with pytest.raises(onetrip.MisuseError, match="closed"):
                await session.fetchval("select 1")

    await own(work)


async def test_beside_its_callers_transaction(db: onetrip.Database) -> None:
    await db.execute("create table closing (i int4)")

    async def work(of_session: bool, savepoint: bool) -> None:
        it = await onetrip.connect(URL)
        with pytest.raises(RolledBackError) as caught:
            async with it.session() as session:
                async with session.begin() if of_session else it.begin() as tx:
                    await tx.execute("insert into closing values (1)")
                    async with tx.begin() if savepoint else it.pipeline() as inner:
                        if savepoint:
                            await inner.execute("insert into closing values (2)")
                            await it.close()
                    await it.close()
        assert caught.value.outcome == "Rejected"

    try:
        for of_session in (False, True):
            for savepoint in (False, True):
                await own(lambda: work(of_session, savepoint))  # noqa: B023
        assert await db.fetchval("select count(*) from closing") == 0
    finally:
        await db.execute("drop table closing")


async def test_in_the_source_of_its_callers_copy(db: onetrip.Database) -> None:
    await db.execute("create table closing (i int4)")

    async def work(inside: bool) -> None:
        it = await onetrip.connect(URL)

        async def source() -> AsyncIterator[bytes]:
            yield b"1\n"
            await it.close()
            yield b"2\n"

        text = "copy closing from stdin"
        with pytest.raises(onetrip.Error) as caught:
            if inside:
                async with it.begin() as tx:
                    await tx.copy_in(text, source())
            else:
                await it.copy_in(text, source())
        assert caught.value.outcome == "Rejected"

    try:
        await own(lambda: work(False))
        await own(lambda: work(True))
        assert await db.fetchval("select count(*) from closing") == 0
    finally:
        await db.execute("drop table closing")


async def test_it_waits_for_the_transaction_of_another_task(db: onetrip.Database) -> None:
    await db.execute("create table closing (i int4)")
    it = await onetrip.connect(URL)
    opened, goes_on = asyncio.Event(), asyncio.Event()

    async def other() -> None:
        async with it.begin() as tx:
            await tx.execute("insert into closing values (1)")
            opened.set()
            await goes_on.wait()
            await tx.execute("insert into closing values (2)")

    try:
        task = asyncio.ensure_future(other())
        await soon(opened.wait())
        closing = asyncio.ensure_future(it.close())
        while not it._host.is_ending:
            await asyncio.sleep(0)
        goes_on.set()
        await soon(task)
        await soon(closing)
        assert await db.fetchval("select count(*) from closing") == 2
    finally:
        await db.execute("drop table closing")


async def test_beside_the_session_of_a_task_that_has_ended() -> None:
    it = await onetrip.connect(URL)

    async def opens() -> Any:
        session = await it.session().__aenter__()
        await session.fetchval("select 1")
        return session

    session = await soon(asyncio.ensure_future(opens()))
    await soon(it.close())
    with pytest.raises(onetrip.MisuseError, match="closed"):
        await session.fetchval("select 1")


# --- listeners ---


async def test_what_comes_behind_the_close_of_a_client_has_one_code() -> None:
    db = await onetrip.connect(URL)
    await db.close()

    async def block() -> None:
        async with db.begin() as tx:
            await tx.execute("select 1")

    async def pipeline() -> None:
        async with db.pipeline() as batch:
            batch.execute("select 1")

    cache = await onetrip.redis.connect(REDIS)
    await cache.close()
    for late in (
        lambda: db.fetchval("select 1"), lambda: db.executemany("select $1", [(1,)]), block,
        pipeline, lambda: cache.get("a"),
    ):
        with pytest.raises(onetrip.MisuseError) as caught:
            await late()
        assert (caught.value.code, caught.value.outcome) == ("closed", "NotSent")


async def test_listeners_of_a_client_that_is_closed() -> None:
    db = await onetrip.connect(URL)
    events = await db.listen("closes").__aenter__()
    unused = db.listen("closes")
    await soon(db.close())
    with pytest.raises(StopAsyncIteration):
        await soon(events.__anext__())
    for late in (unused, db.listen("closes")):
        with pytest.raises(onetrip.MisuseError, match="the client was closed") as caught:
            await soon(late.__aenter__())
        assert (caught.value.code, caught.value.outcome) == ("closed", "NotSent")
        with pytest.raises(onetrip.MisuseError):
            await soon(late.__anext__())


async def test_a_client_that_is_closed_while_it_begins_to_listen() -> None:
    db = await onetrip.connect(URL)
    listening = asyncio.ensure_future(db.listen("closes").__aenter__())
    await asyncio.sleep(0)
    await soon(db.close())
    with pytest.raises(onetrip.MisuseError, match="the client was closed"):
        await soon(listening)


# --- Redis ---


async def until_blocked(redis: onetrip.redis.Client[str], count: int) -> None:
    async def blocks() -> None:
        while f"blocked_clients:{count}" not in await redis.command("INFO", "clients"):
            await asyncio.sleep(0)

    await soon(blocks())


async def test_redis_beside_its_callers_session(redis: onetrip.redis.Client[str]) -> None:
    async def work() -> None:
        db = await onetrip.redis.connect(REDIS)
        async with db.session() as session:
            await session.watch(["a"])
            await db.close()
            with pytest.raises(onetrip.MisuseError, match="closed"):
                await session.get("a")

    await own(work)


async def test_redis_beside_commands_that_block(redis: onetrip.redis.Client[str]) -> None:
    db = await onetrip.redis.connect(REDIS, connections_max=2)
    blocked = [asyncio.ensure_future(db.blpop(["never"], timeout=0)) for _ in range(3)]
    blocked.append(asyncio.ensure_future(db.command("XREAD", "BLOCK", 0, "STREAMS", "never", "$")))
    await until_blocked(redis, 2)
    counted = db.incr("closing")
    await soon(db.close())
    assert await counted == 1
    for one in blocked:
        with pytest.raises(onetrip.Error, match="the client was closed"):
            await soon(one)


async def test_redis_beside_its_callers_stream(redis: onetrip.redis.Client[str]) -> None:
    async def work() -> None:
        db = await onetrip.redis.connect(REDIS)
        stream = db.stream((("SET", f"k{n}", "x" * 1000) for n in range(20_000)), window=100)
        await stream.__anext__()
        await db.close()
        await stream.aclose()

    await own(work)


async def test_the_drop_in_for_redis_py(redis: onetrip.redis.Client[str]) -> None:
    client = onetrip.redis.asyncio.Redis.from_url(REDIS)
    blocked = asyncio.ensure_future(client.blpop(["never"], 0))
    await until_blocked(redis, 1)
    await soon(client.aclose())
    with pytest.raises(onetrip.redis.asyncio.ConnectionError):
        await soon(blocked)


# --- without async ---


def test_blocking() -> None:
    ends: list[str] = []

    def work() -> None:
        db = onetrip.blocking.connect(URL)
        with db.session() as session:
            session.fetchval("select 1")
            db.close()
        db = onetrip.blocking.connect(URL)
        with pytest.raises(RolledBackError):
            with db.begin() as tx:
                tx.execute("create table never (i int4)")
                db.close()
        db = onetrip.blocking.connect(URL)
        stream = db.stream(SERIES, 300_000)
        next(stream)
        db.close()
        with pytest.raises(onetrip.MisuseError, match="closed"):
            next(stream)
        with pytest.raises(onetrip.MisuseError, match="closed"):
            with db.listen("closes"):
                pass
        ends.append("closed")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert ends == ["closed"]


def test_blocking_waits_for_the_transaction_of_another_thread() -> None:
    db = onetrip.blocking.connect(URL)
    opened, goes_on = threading.Event(), threading.Event()
    ends: list[Any] = []

    def other() -> None:
        with db.begin() as tx:
            tx.fetchval("select 1")
            opened.set()
            goes_on.wait(PATIENCE)
            ends.append(tx.fetchval("select 2"))

    def closing() -> None:
        db.close()
        ends.append("closed")

    threads = [threading.Thread(target=work, daemon=True) for work in (other, closing)]
    threads[0].start()
    assert opened.wait(PATIENCE)
    threads[1].start()
    while not db._it._host.is_ending:
        pass
    goes_on.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert ends == [2, "closed"]


async def by_dropin(url: str) -> None:
    await onetrip.asyncpg.connect(url)


async def by_pool_of_dropin(url: str) -> None:
    await onetrip.asyncpg.create_pool(url, min_size=1)


async def by_client(url: str) -> None:
    await onetrip.connect(url)


@pytest.mark.parametrize("mode", ["prefer", "allow"])
@pytest.mark.parametrize("connect", [by_dropin, by_pool_of_dropin, by_client])
async def test_a_connect_that_is_given_up_in_the_handshake_goes_nowhere_else(
    connect: Callable[[str], Awaitable[None]], mode: str
) -> None:
    """Its socket ends, which is no reason to go on without TLS, or at the next server."""
    said: list[bytes] = []
    is_there = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.append(b"")
        at = len(said) - 1
        while got := await reader.read(4096):
            said[at] += got
            # It asks for TLS, or logs in: the one is granted, the other refused.
            if said[at] == ASKS_FOR_TLS:
                writer.write(b"S")
            elif said[at].startswith(ASKS_FOR_TLS):
                is_there.set()
            elif said[at].endswith(b"\0\0"):
                writer.write(NO_ENTRY)
                break
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        hosts = f"127.0.0.1:{port},localhost:{port}"
        work = asyncio.ensure_future(connect(f"postgres://u@{hosts}/d?sslmode={mode}"))
        await soon(is_there.wait())
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(work)
        before = 2 if mode == "allow" else 1
        # Behind all that it has opened.
        _, last = await asyncio.open_connection("127.0.0.1", port)
        last.write(b"last")
        while b"last" not in said:
            await asyncio.sleep(0)
        last.close()
        assert len(said) == before + 1, said


@pytest.mark.parametrize("connect", [by_dropin, by_pool_of_dropin, by_client])
async def test_who_is_refused_behind_its_login_is_not_sent_the_other_way(
    connect: Callable[[str], Awaitable[None]],
) -> None:
    """P74. The server had taken the login: another way would only show the name once more."""
    visits = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits
        visits += 1
        await reader.readuntil(b"\0\0")
        writer.write(b"R\0\0\0\x08\0\0\0\0" + NO_ENTRY)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(
            (onetrip.errors.AuthorizationError,
             onetrip.asyncpg.InvalidAuthorizationSpecificationError), match="^no entry$"
        ):
            await soon(connect(f"postgres://u@127.0.0.1:{port}/d?sslmode=allow"))
    assert visits == 1


ASKS_FOR_TLS = bytes.fromhex("0000000804d2162f")

#: What pg_hba.conf says to a connection without TLS.
_WHY = b"SFATAL\0VFATAL\0C28000\0Mno entry\0\0"
NO_ENTRY = b"E" + (len(_WHY) + 4).to_bytes(4, "big") + _WHY


def test_a_call_behind_the_end_of_its_loop_is_an_error() -> None:
    loop = asyncio.new_event_loop()
    db = loop.run_until_complete(onetrip.connect(URL).__aenter__())
    cache = loop.run_until_complete(opened(onetrip.redis.connect(REDIS)))
    loop.close()
    calls: list[Callable[[], Any]] = [
        lambda: db.execute("select 1"),
        lambda: db.fetch("select $1::int4", 1),
        lambda: db.executemany("select 1", [()]),
        lambda: cache.get("a"),
        lambda: cache.command("PING"),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="loop of this client is closed"):
            call()


async def opened(of: Any) -> Any:
    return await of
