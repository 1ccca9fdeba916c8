"""What ends badly: interpreters, loops, processes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

import onetrip
import onetrip.asyncpg
import onetrip.blocking
import onetrip.blocking.redis
import onetrip.redis
from onetrip import _opening

from conftest import REDIS, URL, Line

#: A bound that only what waits for ever reaches.
PATIENCE = 120

#: Ends while a call, a stream, a COPY and a listener are on their way.
ABRUPT = """
import asyncio, onetrip, os, sys

async def slow():
    yield b"1\\n"
    await asyncio.sleep(60)

async def main():
    db = await onetrip.connect(sys.argv[1])
    await db.execute("create table if not exists abrupt (i int4)")
    sleeps = f"select pg_sleep(60)::text, 'of {os.getpid()}'"
    work = [
        asyncio.ensure_future(db.fetchval(sleeps)),
        asyncio.ensure_future(db.stream(sleeps).__anext__()),
        asyncio.ensure_future(db.copy_in("copy abrupt from stdin", slow())),
        asyncio.ensure_future(db.listen("abrupt").__aenter__()),
    ]
    active = "select count(*) from pg_stat_activity where state = 'active' and query = $1"
    while await db.fetchval(active, sleeps) < 2:
        pass
    if sys.argv[2] == "raise":
        raise ValueError("enough")
    if sys.argv[2] == "exit":
        sys.exit(7)

asyncio.run(main())
print("ended")
"""


@pytest.mark.parametrize(("how", "code"), [("return", 0), ("exit", 7), ("raise", 1)])
def test_an_interpreter_that_ends_with_work_in_flight(how: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", ABRUPT, URL, how],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == code, done.stderr
    assert "panicked" not in done.stderr and "Fatal" not in done.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_is_closed() -> None:
    async def opened() -> onetrip.Database:
        return await onetrip.connect(URL)

    loop = asyncio.new_event_loop()
    db = loop.run_until_complete(opened())
    stream = db.stream("select 1")
    loop.close()
    with pytest.raises(RuntimeError, match="loop"):
        asyncio.run(asyncio.wait_for(stream.__anext__(), 600))


async def native() -> Any:
    return await onetrip.connect(URL)


async def drop_in() -> Any:
    return await onetrip.asyncpg.connect(URL)


async def pool() -> Any:
    return await onetrip.asyncpg.create_pool(URL, min_size=2)


async def of_redis() -> Any:
    return await onetrip.redis.connect(REDIS)


@pytest.mark.parametrize("connect", [native, drop_in, pool, of_redis])
async def test_a_connect_that_is_cancelled_at_any_turn_leaves_no_task_behind(
    connect: Callable[[], Awaitable[Any]],
) -> None:
    if connect is of_redis and not REDIS:
        pytest.skip("no Redis was found")
    before = asyncio.all_tasks()
    for turns in range(100):
        task = asyncio.ensure_future(connect())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        try:
            made = await task
        except asyncio.CancelledError:
            assert not asyncio.all_tasks() - before, f"cancelled at turn {turns}"
        else:
            await made.close()


async def test_a_client_is_freed() -> None:
    class Mine:
        pass

    held = Mine()
    seen = weakref.ref(held)
    db = await onetrip.connect(URL)
    db._host.marker = held  # type: ignore[attr-defined]
    async for _ in db.stream("select generate_series(1, 100000)"):
        break
    assert len(await db.fetch_arrow("select 1")) == 1
    async with db.listen("freed"):
        pass
    await db.close()
    del db, held
    for _ in range(1000):
        await asyncio.sleep(0.01)
        gc.collect()
        if seen() is None:
            return
    raise AssertionError("it is still held")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_with_a_client_open() -> None:
    script = """
import asyncio, os, onetrip, sys

async def main():
    async with onetrip.connect(sys.argv[1]) as db:
        assert await db.fetchval("select 1") == 1
        child = os.fork()
        if child == 0:
            try:
                await asyncio.wait_for(db.fetchval("select 2"), 600)
            except RuntimeError as error:
                os._exit(5 if "fork" in str(error) else 6)
            os._exit(7)
        _, status = os.waitpid(child, 0)
        assert await db.fetchval("select 3") == 3
        return os.waitstatus_to_exitcode(status)

print(asyncio.run(main()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, URL], capture_output=True, text=True, timeout=600
    )
    assert done.stdout.strip() == "5", done.stderr


@pytest.mark.parametrize("step", ["_ask", "_secure"])
async def test_a_line_that_ends_as_it_is_opened(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """What would be done with it next finds a transport that is closed already."""
    ended = asyncio.Event()

    class Watched(_opening.Wire):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            ended.set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if step == "_secure":
            await reader.readexactly(8)
            writer.write(b"S")
            await writer.drain()
        writer.close()

    of = getattr(_opening.Opening, step)

    async def late(self: _opening.Opening) -> None:
        await ended.wait()
        await of(self)

    monkeypatch.setattr(_opening, "Wire", Watched)
    monkeypatch.setattr(_opening.Opening, step, late)
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"postgresql://someone@127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(OSError, match="the server closed the connection"):
            await onetrip.asyncpg.connect(url, ssl="require", timeout=10)


async def piped(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


async def test_a_login_that_is_cut_is_tried_again() -> None:
    """Time may mend that, so whoever waits is served by the next connection."""
    port, attempts = urlsplit(URL).port, 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await reader.read(1 << 16)
            writer.close()
            return
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(piped(reader, forth), piped(back, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = URL.replace(f":{port}", f":{server.sockets[0].getsockname()[1]}")
        async with onetrip.connect(url, sslmode="disable") as db:
            assert await db.fetchval("select 1") == 1
    assert attempts == 2


@contextlib.asynccontextmanager
async def silent() -> AsyncIterator[int]:
    """The port of a server that takes connections and says nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


#: A caller waits as long for a connection where there was one. The tests end long before.
LONG = "wait_timeout_ms=600000"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (f"postgres://u:p@127.0.0.1:{{dead}}/d?{LONG}", "can't be reached"),
        (f"postgres://u:p@nosuch.invalid/d?{LONG}", "can't be reached"),
        (f"postgres://u:p@127.0.0.1:{{silent}}/d?connect_timeout=1&{LONG}", "within 1 s"),
        (f"{URL}?sslmode=require&{LONG}", "has no TLS"),
        (f"{URL}?target_session_attrs=standby&{LONG}", "target_session_attrs"),
        (f"redis://127.0.0.1:{{dead}}?{LONG}", "can't be reached"),
        (f"redis://127.0.0.1:{{dead}},127.0.0.1:{{dead}}?{LONG}", "can't be reached"),
        (f"redis://nosuch.invalid?{LONG}", "can't be reached"),
        (f"redis://127.0.0.1:{{silent}}?connect_timeout_ms=300&{LONG}", "within 0.3 s"),
    ],
)
async def test_who_opens_a_client_is_told_at_once_where_no_server_is(
    url: str, why: str, unused_tcp_port: int
) -> None:
    """It is no server that is away for now: there never was one."""
    async with silent() as port:
        where = url.format(dead=unused_tcp_port, silent=port)
        connect: Any = onetrip.redis.connect if url.startswith("redis") else onetrip.connect
        with pytest.raises(onetrip.ConnectionLostError, match=why) as caught:
            await asyncio.wait_for(connect(where), PATIENCE)
        assert (caught.value.code, caught.value.outcome) == ("connect_failed", "NotSent")

        def blocking() -> None:
            of = onetrip.blocking
            (of.redis.connect if url.startswith("redis") else of.connect)(where)

        with pytest.raises(onetrip.ConnectionLostError, match=why):
            await asyncio.wait_for(asyncio.to_thread(blocking), PATIENCE)


async def test_callers_wait_for_a_server_that_was_there_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line, until there is a connection again."""
    line = Line()
    try:
        async with onetrip.connect(line.url, connections_max=1) as db:
            assert await db.fetchval("select 1") == 1
            assert not caplog.records
            for times in (1, 2):
                line.say("down")
                call = asyncio.ensure_future(db.fetchval("select 2"))
                while db.metrics().open_failed < 3 * times:
                    await asyncio.sleep(0.001)
                    if call.done():
                        # It was on the connection that was cut.
                        assert isinstance(call.exception(), onetrip.ConnectionLostError)
                        call = asyncio.ensure_future(db.fetchval("select 2"))
                line.say("up")
                assert await asyncio.wait_for(call, PATIENCE) == 2
                told = [it.getMessage() for it in caplog.records if it.name == "onetrip"]
                assert len(told) == times and "no connection: " in told[-1], told
    finally:
        line.close()
