"""What programs do wrong, and servers: each ends in a clear error, and nothing hangs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import onetrip
import onetrip.asyncpg
import onetrip.redis

from conftest import REDIS, URL

#: Longer than anything here takes, and shorter than anything that hangs.
PATIENCE = 120


def program(text: str, *arguments: str, code: int = 0) -> str:
    """The output of a program, which ends with this code and says nothing of panics."""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(text), URL, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
    )
    told = done.stdout + done.stderr
    assert done.returncode == code, told
    assert "panicked" not in told and "Fatal" not in told, told
    return told


# --- loops and threads ---


def test_a_client_of_another_loop() -> None:
    """Each run of a loop needs a client of its own: the second says so at once."""
    told = program(
        """
        import asyncio, onetrip, sys

        async def first():
            db = await onetrip.connect(sys.argv[1])
            assert await db.fetchval("select 1") == 1
            return db

        async def second(db):
            for use in (
                lambda: db.fetchval("select 2"),
                lambda: db.execute("create table of_another_loop (i int)"),
                lambda: db.begin().__aenter__(),
                lambda: db.session().__aenter__(),
                lambda: db.stream("select 1").__anext__(),
                lambda: db.listen("a").__aenter__(),
                lambda: db.close(),
            ):
                try:
                    await asyncio.wait_for(use(), 600)
                except RuntimeError as error:
                    assert "loop" in str(error), error
                    continue
                raise AssertionError("it was taken")
            async with onetrip.connect(sys.argv[1]) as own:
                assert await own.fetchval("select to_regclass('of_another_loop')::text") is None
            print("refused")

        for new in (asyncio.run, asyncio.new_event_loop().run_until_complete):
            db = new(first())
            asyncio.run(second(db))
        """
    )
    assert told.count("refused") == 2 and "never awaited" not in told


def test_a_pool_of_another_loop() -> None:
    told = program(
        """
        import asyncio, onetrip.asyncpg as asyncpg, sys

        async def second(pool, con):
            for use in (
                lambda: pool.fetchval("select 2"),
                lambda: con.fetchval("select 2"),
                lambda: pool.acquire(),
            ):
                try:
                    await asyncio.wait_for(use(), 600)
                except (RuntimeError, asyncpg.InterfaceError) as error:
                    assert "loop" in str(error), repr(error)
                    continue
                raise AssertionError("it was taken")
            print("refused")

        async def first():
            pool = await asyncpg.create_pool(sys.argv[1], min_size=1)
            con = await asyncpg.connect(sys.argv[1])
            assert await con.fetchval("select 1") == await pool.fetchval("select 1") == 1
            return pool, con

        asyncio.run(second(*asyncio.new_event_loop().run_until_complete(first())))
        """
    )
    assert "refused" in told


@pytest.mark.skipif(not REDIS, reason="no Redis was found")
def test_a_redis_client_of_another_loop() -> None:
    told = program(
        """
        import asyncio, onetrip.redis, sys

        async def second(db):
            for use in (
                lambda: db.get("a"),
                lambda: db.blpop(["a"], timeout=1),
                lambda: db.session().__aenter__(),
                lambda: db.subscribe("a").__aenter__(),
            ):
                try:
                    await asyncio.wait_for(use(), 600)
                except RuntimeError as error:
                    assert "loop" in str(error), error
                    continue
                raise AssertionError("it was taken")
            print("refused")

        async def first():
            return await onetrip.redis.connect(sys.argv[2])

        asyncio.run(second(asyncio.new_event_loop().run_until_complete(first())))
        """,
        REDIS,
    )
    assert "refused" in told


async def test_another_thread(db: onetrip.Database) -> None:
    async with onetrip.asyncpg.create_pool(URL, min_size=1) as pool, db.session() as session:
        call = db.fetchval("select 1")

        def refused(use: Callable[[], Any]) -> None:
            with pytest.raises(RuntimeError, match="thread"):
                asyncio.run(awaited(use))

        async def awaited(use: Callable[[], Any]) -> None:
            await asyncio.wait_for(use(), PATIENCE)

        for use in (
            lambda: db.fetchval("select 1"),
            lambda: session.fetchval("select 1"),
            lambda: pool.fetchval("select 1"),
            lambda: db.begin().__aenter__(),
            lambda: call,
            lambda: db.close(),
        ):
            await asyncio.to_thread(refused, use)
        assert await db.fetchval("select 2") == await pool.fetchval("select 2") == 2
        assert await session.fetchval("select 3") == 3
        assert await call == 1


def test_a_client_that_is_made_before_the_loop() -> None:
    connecting = onetrip.connect(URL)

    async def main() -> None:
        async with connecting as db:
            assert await db.fetchval("select 1") == 1

    asyncio.run(main())
    pool = onetrip.asyncpg.create_pool(URL, min_size=1)

    async def drop_in() -> None:
        async with pool:
            assert await pool.fetchval("select 1") == 1

    asyncio.run(drop_in())


def test_one_loop_per_test(tmp_path: Path) -> None:
    """The recipes: a client for each test, or one for all tests of a session's loop."""
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent(
            f"""
            import onetrip, pytest, pytest_asyncio

            @pytest_asyncio.fixture
            async def own():
                async with onetrip.connect({URL!r}) as db:
                    yield db

            @pytest_asyncio.fixture(scope="session", loop_scope="session")
            async def shared():
                async with onetrip.connect({URL!r}) as db:
                    yield db

            @pytest.mark.asyncio
            @pytest.mark.parametrize("turn", range(5))
            async def test_own(own, turn):
                assert await own.fetchval("select $1::int4", turn) == turn

            @pytest.mark.asyncio(loop_scope="session")
            @pytest.mark.parametrize("turn", range(5))
            async def test_shared(shared, turn):
                assert await shared.fetchval("select $1::int4", turn) == turn

            @pytest.mark.asyncio
            async def test_wrong(shared):
                with pytest.raises(RuntimeError, match="loop"):
                    await shared.fetchval("select 1")
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )
    assert "11 passed" in done.stdout and "warning" not in done.stdout, done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_with_work_in_flight() -> None:
    """The child can use nothing of its parent's, and ends without harm to it."""
    told = program(
        """
        import asyncio, os, sys, onetrip, onetrip.asyncpg

        async def main():
            async with (
                onetrip.connect(sys.argv[1]) as db,
                onetrip.asyncpg.create_pool(sys.argv[1], min_size=1) as pool,
            ):
                calls = [db.fetchval("select $1::int4 from pg_sleep(0.05)", i) for i in range(50)]
                await asyncio.sleep(0)
                if (child := os.fork()) == 0:
                    refused = 0
                    for use in (lambda: db.fetchval("select 1"), lambda: pool.fetchval("select 1"),
                                lambda: calls[0], lambda: db.close()):
                        try:
                            # Behind a fork no loop runs: it is driven by hand.
                            use().__await__().__next__()
                        except RuntimeError as error:
                            refused += "fork" in str(error)
                    del db, pool, calls
                    os._exit(refused)
                _, status = os.waitpid(child, 0)
                assert await asyncio.gather(*calls) == list(range(50))
                assert await pool.fetchval("select 1") == 1
                print("refused", os.waitstatus_to_exitcode(status))

        asyncio.run(main())
        """
    )
    assert "refused 4" in told


# --- ends ---


@pytest.mark.parametrize("way", ["exit", "raise", "return", "stop", "thread"])
def test_an_interpreter_that_ends_with_the_drop_ins_at_work(way: str) -> None:
    program(
        """
        import asyncio, onetrip.asyncpg, onetrip.redis, os, sys, threading

        async def main(way):
            pool = await onetrip.asyncpg.create_pool(sys.argv[1], min_size=1)
            con = await pool.acquire()
            sleeps = f"select pg_sleep(60), 'of {os.getpid()}'"
            work = [
                asyncio.ensure_future(pool.fetchval(sleeps)),
                asyncio.ensure_future(con.fetchval(sleeps)),
            ]
            if sys.argv[3]:
                redis = await onetrip.redis.connect(sys.argv[3])
                work.append(asyncio.ensure_future(redis.blpop(["never"], timeout=60)))
                work.append(asyncio.ensure_future(redis.subscribe("a").__aenter__()))
            active = "select count(*) from pg_stat_activity where state = 'active' and query = $1"
            while await pool.fetchval(active, sleeps) < 2:
                pass
            if way == "exit":
                sys.exit(0)
            if way == "stop":
                asyncio.get_running_loop().stop()
            if way == "raise":
                raise KeyError("enough")

        way = sys.argv[2]
        if way == "thread":
            thread = threading.Thread(target=lambda: asyncio.run(main("return")), daemon=True)
            thread.start()
            thread.join(5)
        else:
            try:
                asyncio.run(main(way))
            except (KeyError, RuntimeError):
                pass
        """,
        way,
        REDIS,
    )


async def until_active(text: str) -> None:
    query = "select count(*) from pg_stat_activity where state = 'active' and query = $1"
    async with onetrip.connect(URL) as db:
        while not await db.fetchval(query, text):
            pass


def test_keyboard_interrupt() -> None:
    """Ctrl-C ends what runs; transactions are rolled back, and clients are closed."""
    script = """
    import asyncio, onetrip, sys

    async def main():
        async with onetrip.connect(sys.argv[1]) as db:
            await db.execute("create table if not exists interrupted (i int4)")
            async with db.begin() as tx:
                await tx.execute("insert into interrupted values (1)")
                print("begun", flush=True)
                try:
                    await tx.fetchval("select pg_sleep(60)::text")
                except asyncio.CancelledError:
                    print("cancelled", flush=True)
                    raise

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted", flush=True)

    async def after():
        async with onetrip.connect(sys.argv[1]) as db:
            print(await db.fetchval("select count(*) from interrupted"), "rows")
            await db.execute("drop table interrupted")

    asyncio.run(after())
    """
    process = subprocess.Popen(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(script), URL],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    # A server forgets a cancel that comes before the statement.
    asyncio.run(until_active("select pg_sleep(60)::text"))
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=600)
    assert told.splitlines() == ["cancelled", "interrupted", "0 rows"], told


# --- cancels of the language ---


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout came with 3.11")
async def test_timeouts_around_blocks(db: onetrip.Database) -> None:
    await db.execute("create table timed (i int4)")
    try:
        for inside in (1, 2, 3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    async with db.begin() as tx:
                        await tx.execute("insert into timed values (1)")
                        if inside == 1:
                            await tx.fetchval("select pg_sleep(60)::text")
                        elif inside == 2:
                            async with tx.begin() as inner:
                                await inner.fetchval("select pg_sleep(60)::text")
                        else:
                            async for _ in tx.stream("select pg_sleep(60)::text"):
                                pass
        assert await db.fetchval("select count(*) from timed") == 0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), db.session() as session:
                await session.fetchval("select pg_sleep(60)::text")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), db.pipeline() as pipeline:
                pipeline.execute("select pg_sleep(60)").close()
        assert await asyncio.wait_for(db.fetchval("select 1"), PATIENCE) == 1
    finally:
        await db.execute("drop table timed")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="TaskGroup came with 3.11")
async def test_a_task_group_that_fails(db: onetrip.Database) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.TaskGroup() as group:
            slow = [group.create_task(db.fetchval("select pg_sleep(60)::text")) for _ in range(5)]
            group.create_task(db.fetchval("select 1 / 0"))
    assert [getattr(error, "code", None) for error in caught.value.exceptions] == ["22012"]
    assert all(task.cancelled() for task in slow)
    assert await asyncio.wait_for(db.fetchval("select 1"), PATIENCE) == 1


async def test_a_call_that_two_await(db: onetrip.Database) -> None:
    call = db.fetchval("select 1 from pg_sleep(0.05)")
    first = asyncio.ensure_future(call)
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="await"):
        await asyncio.wait_for(call, PATIENCE)
    assert await first == 1


async def test_many_sets_in_a_pipeline_are_refused_by_name(db: onetrip.Database) -> None:
    async with db.pipeline() as pipeline:
        for call in (pipeline.executemany, pipeline.fetchmany):
            with pytest.raises(onetrip.MisuseError, match="outside") as caught:
                call("select $1::int4", [(1,), (2,)])
            assert (caught.value.code, caught.value.outcome) == ("pipeline", "NotSent")
        goes_on = pipeline.fetchval("select 1")
    assert await goes_on == 1


async def test_blocks_that_are_used_behind_their_end(db: onetrip.Database) -> None:
    async with db.session() as session, db.begin() as tx, db.pipeline() as pipeline:
        pass
    begin = db.begin()
    async with begin:
        pass
    for use in (
        lambda: session.fetchval("select 1"),
        lambda: tx.fetchval("select 1"),
        lambda: pipeline.fetchval("select 1"),
        lambda: session.stream("select 1").__anext__(),
        lambda: tx.begin().__aenter__(),
        lambda: begin.__aenter__(),
    ):
        with pytest.raises(onetrip.MisuseError):
            await asyncio.wait_for(use(), PATIENCE)
    assert await db.fetchval("select 1") == 1


# --- servers ---

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[int]:
    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def message(tag: bytes, body: bytes) -> bytes:
    return tag + struct.pack("!I", len(body) + 4) + body


GREETING = (
    message(b"R", bytes(4)) + message(b"K", bytes(8)) + message(b"Z", b"I")
)

GARBAGE = {
    "noise": random.Random(5).randbytes(4096),
    "zeros": bytes(4096),
    "a length of nothing": b"T\0\0\0\0",
    "a length of all": b"D\xff\xff\xff\xff",
    "a message of nobody": message(b"?", b"x"),
    "a reply of nobody": message(b"C", b"SELECT 1\0") * 3,
    "HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "half of one": message(b"Z", b"I")[:3],
    "nothing": b"",
}


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("where", ["in front", "in the login", "in a reply"])
async def test_garbage(name: str, where: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def answered(good: bytes, place: str) -> bool:
            if where == place:
                writer.write(GARBAGE[name])
                await writer.drain()
                return False
            writer.write(good)
            return True

        if await reader.readexactly(8) and not await answered(b"N", "in front"):
            return
        await reader.readexactly(struct.unpack("!I", await reader.readexactly(4))[0] - 4)
        if await answered(GREETING, "in the login"):
            await reader.read(5)
            await answered(b"", "in a reply")

    async with served(serve) as port:
        url = f"postgres://u:p@127.0.0.1:{port}/x?wait_timeout_ms=3000&sslmode=prefer"
        with pytest.raises(onetrip.ConnectionLostError) as caught:
            async with asyncio.timeout(PATIENCE), onetrip.connect(url) as db:
                assert where == "in a reply"
                await db.execute("select 1")
        assert caught.value.outcome == ("Unknown" if where == "in a reply" else "NotSent")
        kind = onetrip.asyncpg.PostgresConnectionError
        with pytest.raises((kind, ConnectionError, onetrip.asyncpg.InterfaceError)):
            async with asyncio.timeout(PATIENCE):
                con = await onetrip.asyncpg.connect(url)
                await con.fetchval("select 1")


def logged_in(said: bytes) -> bytes:
    """What a server of Redis answers to HELLO and what comes with it, or to PING."""
    hello = b"%1\r\n+server\r\n+redis\r\n" if b"HELLO" in said else b""
    others = said.count(b"\r\n*") + (not hello)
    return hello + (b"+PONG\r\n" if b"PING" in said else b"+OK\r\n") * others


REDIS_GARBAGE = {
    **{name: GARBAGE[name] for name in ("noise", "zeros", "HTTP", "nothing")},
    "a length of all": b"$99999999999999999999\r\n",
    "a deep list": b"*1\r\n" * 10_000,
}


@pytest.mark.parametrize("name", REDIS_GARBAGE)
@pytest.mark.parametrize("where", ["in the login", "in a reply"])
async def test_garbage_of_redis(name: str, where: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (said := await reader.read(4096)) and where == "in a reply":
            if b"garbage" in said:
                break
            writer.write(logged_in(said))
        if said:
            writer.write(REDIS_GARBAGE[name])
            await writer.drain()

    async with served(serve) as port:
        with pytest.raises(onetrip.Error) as caught:
            url = f"redis://127.0.0.1:{port}?wait_timeout_ms=3000"
            async with asyncio.timeout(PATIENCE), onetrip.redis.connect(url) as db:
                assert where == "in a reply"
                await db.get("garbage")
        assert caught.value.outcome in ("NotSent", "Unknown")


async def test_replies_of_nobody_are_nobodys() -> None:
    """The connection ends on which the server says more than it was asked for."""
    served_so_far = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal served_so_far
        served_so_far += 1
        mark = str(served_so_far).encode()
        while said := await reader.read(4096):
            if b"GET" not in said:
                writer.write(logged_in(said))
            else:
                writer.write(b"+" + mark + b"\r\n+stray\r\n+stray\r\n")

    async with served(serve) as port, onetrip.redis.connect(f"redis://127.0.0.1:{port}") as db:
        for _ in range(5):
            try:
                assert await db.get("a") != "stray"
            except onetrip.ConnectionLostError:
                pass
        assert served_so_far > 1


# --- what is refused says why ---


async def test_a_text_with_half_of_a_surrogate_pair_is_not_sent(db: onetrip.Database) -> None:
    text = "select '\ud800'"
    ways: list[Callable[[], Awaitable[Any]]] = [
        lambda: db.fetchval(text),
        lambda: db.execute(text),
        lambda: db.executemany(text, [()]),
        lambda: db.copy_rows("t\ud800", [(1,)]),
    ]
    for way in ways:
        with pytest.raises(onetrip.MisuseError, match="not Unicode") as caught:
            await way()
        assert (caught.value.code, caught.value.outcome) == ("unencodable", "NotSent")
        assert isinstance(caught.value.__cause__, UnicodeEncodeError)
    with pytest.raises(onetrip.MisuseError, match="not Unicode"):
        async with db.listen("\ud800"):
            pass
    assert await db.fetchval("select 1") == 1


async def test_who_gets_no_connection_is_told_which_settings_decide() -> None:
    async with onetrip.connect(URL, connections_max=1, waiting_max=1, wait_timeout_ms=3000) as it:
        async with it.session():
            late = asyncio.ensure_future(it.fetchval("select 1"))
            await asyncio.sleep(0)
            with pytest.raises(onetrip.Error) as full:
                await it.fetchval("select 2")
            with pytest.raises(onetrip.Error) as caught:
                await late
    assert (full.value.code, full.value.outcome) == ("waiting_full", "NotSent")
    assert "1 do already (waiting_max)" in str(full.value)
    assert (caught.value.code, caught.value.outcome) == ("wait_timeout", "NotSent")
    assert "up to 1 (connections_max)" in str(caught.value)
    assert "at most 3000 ms (wait_timeout_ms)" in str(caught.value)


# --- a hundred times as much ---


async def test_a_hundred_times_as_many(db: onetrip.Database) -> None:
    """100,000 at once: those beyond the documented limits are refused, all others are answered."""
    async with onetrip.connect(URL, connections_max=4) as it:
        assert await it.fetchval("select $1::int4", 0) == 0
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        calls = [it.fetchval("select $1::int4", number) for number in range(100_000)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        answered = refused = 0
        for number, end in enumerate(ends):
            if isinstance(end, BaseException):
                assert isinstance(end, onetrip.Error) and end.outcome == "NotSent", end
                assert end.code in ("queue_full", "waiting_full"), end
                refused += 1
            else:
                assert end == number
                answered += 1
        print(f"{answered} answered, {refused} refused, {grown} KiB more")
        # The window (in_flight_max) and the queue (queue_max) of the connection that there was, and
        # the line for others (waiting_max).
        assert answered >= 1024 + 16384 + 16384
        assert grown < 512 << 10
        assert await it.fetchval("select 1") == 1


async def test_a_hundred_times_as_many_of_redis(redis: onetrip.redis.Client[str]) -> None:
    calls = [redis.echo(str(number)) for number in range(100_000)]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    for number, end in enumerate(ends):
        if isinstance(end, BaseException):
            assert isinstance(end, onetrip.Error) and end.outcome == "NotSent", end
        else:
            assert end == str(number)
    assert await redis.echo("on") == "on"


async def test_callers_in_line_are_served_in_turn() -> None:
    """What waits for room waits, and is not refused once a little room is there."""
    async with onetrip.connect(URL, connections_max=1, in_flight_max=4, queue_max=4) as it:
        text = "select $1::int4 from pg_sleep(0.002)"
        assert await it.fetchval(text, 0) == 0
        calls = [it.fetchval(text, number) for number in range(200)]
        assert await asyncio.gather(*calls) == list(range(200))


async def test_a_connection_that_is_lost_as_it_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logged in, and lost before the pool has it: the pool opens another."""
    struck: list[int] = []

    async def prepare(self: Any, number: int) -> None:
        if len(struck) < 2:
            struck.append(number)
            self._openings[number].transport.abort()
            await asyncio.sleep(0.01)

    monkeypatch.setattr(onetrip._host.Host, "prepare", prepare)
    async with onetrip.connect(URL, connections_max=1) as db:
        assert await asyncio.wait_for(db.fetchval("select 1"), PATIENCE) == 1
    assert len(struck) == 2
