"""Code of Python's that runs amid the client's work, and work that is cut short."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import onetrip
import onetrip.asyncpg
import onetrip.redis
from onetrip import _native
from onetrip._wire import Wire

from conftest import URL

NOTICE = b"N\0\0\0\x13SNOTICE\0Msaid\0\0"


class Line:
    """A connection of a client to no server: what is sent is looked at, and said by hand."""

    number = (1 << 31) + 1000

    def __init__(self, db: onetrip.Database) -> None:
        self.core, self.sent = db._host.core, [b""]
        self.fails = False
        self.wire = Wire(self.core, self.number)
        self.wire.connection_made(self)
        self.wire.log_in(db._host.config.of_engine(None, "127.0.0.1", False, None), bytes(18))
        self.says(b"R\0\0\0\x08\0\0\0\0" + b"K\0\0\0\x0c" + bytes(8) + b"Z\0\0\0\x05I")
        assert self.core.opened(self.number)
        self.scope = _native.Scope(self.core, self.number)

    def write(self, data: bytes) -> None:
        if self.fails:
            self.fails = False
            raise OSError("no")
        self.sent.append(bytes(data))

    def says(self, data: bytes) -> None:
        self.wire.get_buffer(-1)[: len(data)] = data
        self.wire.buffer_updated(len(data))

    def places(self, *texts: bytes) -> list[int]:
        return [b"".join(self.sent).find(text) for text in texts]


async def amid(db: onetrip.Database, line: Line) -> tuple[Any, Any]:
    """Two statements, of which one is made while the bytes of the other are about to go out."""
    made: list[Any] = []

    def act(_: object) -> None:
        made.append(line.scope.execute("select 2"))
        line.core._tick()

    db._host.on_notice = act
    first = line.scope.execute("select 1")
    line.says(NOTICE)
    return first, made[0]


async def test_bytes_go_out_in_their_order(db: onetrip.Database) -> None:
    line = Line(db)
    calls = await amid(db, line)
    line.core._tick()
    first, second = line.places(b"select 1", b"select 2")
    assert 0 < first < second
    line.wire.connection_lost(None)
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, onetrip.ConnectionLostError) for one in told)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_nothing_follows_bytes_that_could_not_be_written(db: onetrip.Database) -> None:
    line = Line(db)
    line.fails = True
    calls = await amid(db, line)
    assert line.places(b"select 1", b"select 2") == [-1, -1]
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, onetrip.ConnectionLostError) for one in told)


async def test_what_is_behind_a_rollback_ends_with_the_connection(db: onetrip.Database) -> None:
    line = Line(db)
    line.core.open_block(line.number)
    calls = [
        line.scope.execute("select 1"),
        line.core.act_on(line.number, "rollback"),
        line.scope.execute("select 2"),
        line.scope.execute("select 3"),
    ]
    line.core._tick()
    line.wire.connection_lost(None)
    async with asyncio.timeout(600):
        told = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, onetrip.ConnectionLostError) for one in told)


class Loop(asyncio.SelectorEventLoop):
    """Knows the timers of clients, and is interrupted where that is asked for."""

    def __init__(self) -> None:
        self.made: list[asyncio.TimerHandle] = []
        self.is_struck = False
        super().__init__()

    def call_later(self, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        self.made.append(timer := super().call_later(*args, **kwargs))
        return timer

    def call_soon(self, callback: Any, *args: Any, **kwargs: Any) -> asyncio.Handle:
        if self.is_struck and getattr(callback, "__name__", "") == "_flush":
            self.is_struck = False
            raise KeyboardInterrupt
        return super().call_soon(callback, *args, **kwargs)

    def timers(self) -> int:
        ticks = [it for it in self.made if getattr(it._callback, "__name__", "") == "_tick"]
        return len([it for it in ticks if it.when() > self.time()])


def on(work: Callable[[Loop], Coroutine[Any, Any, None]]) -> None:
    loop = Loop()
    try:
        loop.run_until_complete(work(loop))
    finally:
        loop.close()


def test_a_client_has_one_timer() -> None:
    async def work(loop: Loop) -> None:
        async with onetrip.connect(URL) as db:
            await db.fetchval("select 1")
            for _ in range(20):
                db._host.core._tick()
            assert loop.timers() == 1
        assert loop.timers() == 0

    on(work)


def test_an_interrupt_is_raised_and_nothing_waits_for_ever() -> None:
    async def work(loop: Loop) -> None:
        async with onetrip.connect(URL) as db:
            assert await db.fetchval("select 1") == 1
            # What is scheduled already would do.
            for _ in range(3):
                await asyncio.sleep(0)
            loop.is_struck = True
            with pytest.raises(KeyboardInterrupt):
                db.execute("select 2")
            async with asyncio.timeout(600):
                assert await db.fetchval("select 3") == 3

    with pytest.warns(RuntimeWarning, match="never awaited"):
        on(work)
        gc.collect()


async def test_the_socket_of_a_cancel_that_is_closed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[Any] = []
    tried = asyncio.Event()

    class Writer:
        def write(self, _: bytes) -> None:
            tried.set()
            raise RuntimeError("the handler is closed")

        def close(self) -> None:
            pass

    async def dial(*_: Any) -> tuple[None, Writer]:
        return None, Writer()

    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with onetrip.connect(URL, connections_max=1) as db:
        monkeypatch.setattr(asyncio, "open_connection", dial)
        async with db.session() as session:
            await session.fetchval("select 1")
            # Its text goes without a question, so it is sent when it is made.
            slow = asyncio.ensure_future(session.execute("select pg_sleep(0.5)"))
            for _ in range(3):
                await asyncio.sleep(0)
            slow.cancel()
            async with asyncio.timeout(600):
                await tried.wait()
            assert await session.fetchval("select 1") == 1
    gc.collect()
    assert not told


async def test_a_connection_that_is_given_back_twice_is_one_callers() -> None:
    goes_on = asyncio.Event()

    async def reset(_: object) -> None:
        await goes_on.wait()

    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1, reset=reset) as pool:
        first = await pool.acquire()
        returns = [asyncio.create_task(pool.release(first)) for _ in range(2)]
        second, third = (asyncio.ensure_future(one.__aenter__()) for one in
                         (pool.acquire(), pool.acquire()))
        await asyncio.sleep(0)
        goes_on.set()
        await asyncio.gather(*returns)
        con = await second
        for _ in range(20):
            assert await con.fetchval("select 1") == 1
            assert not third.done()
        await pool.release(con)
        await pool.release(await third)


async def test_a_second_reader_of_a_channel_waits_until_that_is_confirmed(
    redis: onetrip.redis.Client[str],
) -> None:
    first, second = redis.subscribe("news"), redis.subscribe("news")
    entering = [asyncio.create_task(one.__aenter__()) for one in (first, second)]
    await asyncio.sleep(0)
    assert not entering[1].done()
    # Whoever asked for it first goes; the other has it all the same.
    entering[0].cancel()
    await entering[1]
    assert await redis.publish("news", "said") == 1
    assert (await second.__anext__()).data == "said"
    second.close()
