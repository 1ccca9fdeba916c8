"""Ways to connect, to reset and to listen in, of the drop-in."""

from __future__ import annotations

import asyncio
import gc
import logging
import pathlib
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

import onetrip.asyncpg
from conftest import URL, Line
from onetrip.asyncpg import connect_utils, protocol

PARTS = urlsplit(URL)


class Kept(onetrip.asyncpg.Connection):
    def get_reset_query(self) -> str:
        return ""


async def test_an_overridden_reset_is_the_only_one() -> None:
    async with onetrip.asyncpg.create_pool(
        URL, min_size=1, max_size=1, connection_class=Kept
    ) as pool:
        async with pool.acquire() as con:
            await con.execute("set work_mem = '77MB'")
        async with pool.acquire() as con:
            assert await con.fetchval("show work_mem") == "77MB"


async def test_a_reset_of_the_callers_takes_the_place_of_the_query() -> None:
    told: list[Any] = []

    async def reset(con: Any) -> None:
        told.append(con.is_in_transaction())

    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1, reset=reset) as pool:
        async with pool.acquire() as con:
            await con.execute("set work_mem = '77MB'")
        async with pool.acquire() as con:
            assert (await con.fetchval("show work_mem"), told) == ("77MB", [False])


async def test_a_pool_connects_by_a_function_of_the_callers() -> None:
    async def connect(*args: Any, **kwargs: Any) -> Any:
        con = await onetrip.asyncpg.connect(*args, **kwargs)
        await con.execute("set application_name = 'mine'")
        return con

    async with onetrip.asyncpg.create_pool(URL, min_size=2, max_size=2, connect=connect) as pool:
        async with pool.acquire() as one, pool.acquire() as other:
            names = [await con.fetchval("show application_name") for con in (one, other)]
    assert names == ["mine", "mine"]


async def test_such_a_function_that_fails_or_returns_something_else() -> None:
    async def raises(*args: Any, **kwargs: Any) -> Any:
        await onetrip.asyncpg.connect(*args, **kwargs)
        raise ZeroDivisionError

    async def returns(*args: Any, **kwargs: Any) -> Any:
        return 5

    with pytest.raises(ZeroDivisionError):
        await onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1, connect=raises)
    with pytest.raises(onetrip.asyncpg.InterfaceError, match="got 'int'"):
        await onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1, connect=returns)


async def test_a_connection_is_replaced_after_max_queries() -> None:
    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1, max_queries=2) as pool:
        pids = []
        for _ in range(3):
            async with pool.acquire() as con:
                pids.append(await con.fetchval("select pg_backend_pid()"))
        assert pids[0] == pids[1] != pids[2]


async def test_what_is_set_by_set_connect_args_holds_for_new_connections() -> None:
    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1) as pool:
        pool.set_connect_args(URL, server_settings={"application_name": "later"})
        await pool.expire_connections()
        async with pool.acquire() as con:
            assert await con.fetchval("show application_name") == "later"


async def test_close_cancels_what_runs() -> None:
    con = await onetrip.asyncpg.connect(URL)
    task = asyncio.create_task(con.fetch("select pg_sleep(60)"))
    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1) as pool:
        running = "select count(*) from pg_stat_activity where query = 'select pg_sleep(60)'"
        while not await pool.fetchval(running):
            await asyncio.sleep(0)
    await asyncio.wait_for(con.close(), 600)
    with pytest.raises(onetrip.asyncpg.QueryCanceledError):
        await task


async def test_methods_of_the_protocol_that_were_replaced_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Datadog's tracer does it: the first argument is a text, or has it as `query`."""
    heard: list[tuple[str, str]] = []

    def patch(name: str) -> None:
        inner = getattr(protocol.Protocol, name)

        async def outer(self: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
            heard.append((name, state if isinstance(state, str) else state.query))
            return await inner(self, state, *args, **kwargs)

        monkeypatch.setattr(protocol.Protocol, name, outer)

    for name in ("execute", "bind_execute", "query", "bind_execute_many"):
        patch(name)
    con = await onetrip.asyncpg.connect(URL)
    assert await con.fetch("select 1") == [(1,)]
    assert await con.fetchval("select $1::int", 2) == 2
    assert await con.execute("select $1::int", 3) == "SELECT 1"
    await con.execute("select 4")
    await con.executemany("select $1::int", [(5,)])
    await con.close()
    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1) as pool:
        assert await pool.fetchrow("select 6") == (6,)
    names = ["bind_execute"] * 3 + ["query", "bind_execute_many", "bind_execute"]
    assert [name for name, _ in heard] == names
    assert [text[-1] for _, text in heard if "int" not in text] == ["1", "4", "6"]


async def test_the_holder_of_a_connection_has_it_until_it_is_given_back() -> None:
    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1) as pool:
        for end in (lambda con: None, lambda con: con._protocol.abort()):
            proxy = await pool.acquire()
            con, holder = proxy._con, proxy._holder
            assert holder._con is con and holder._in_use
            end(con)
            await pool.release(proxy)
            assert holder._con is holder._in_use is proxy._con is None
            await pool.release(proxy)


async def test_a_class_of_the_callers_has_a_say_in_statements() -> None:
    seen: list[str] = []

    class Own(onetrip.asyncpg.Connection):
        async def _get_statement(self, query: str, timeout: Any, **more: Any) -> Any:
            seen.append(query)
            return await super()._get_statement(f"{query} + 1", timeout, **more)

    pool = onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1, connection_class=Own)
    async with pool, pool.acquire() as con:
        assert await con.fetchval("select $1::int", 1) == 2
        assert (await con.fetchrow("select $1::int", 2))[0] == 3
        assert [row[0] for row in await con.fetch("select $1::int", 3)] == [4]
        assert await (await con.prepare("select $1::int")).fetchval(4) == 5
        await pool.release(con)
        assert await pool.fetchval("select $1::int", 5) == 6
        assert seen == ["select $1::int"] * 5


async def test_the_time_of_a_statement_is_that_of_its_preparation_too() -> None:
    class Slow(onetrip.asyncpg.Connection):
        async def _get_statement(self, query: str, timeout: Any, **more: Any) -> Any:
            state = await super()._get_statement(query, timeout, **more)
            end = time.monotonic() + timeout
            while time.monotonic() < end:
                await asyncio.sleep(0)
            return state

    con = await onetrip.asyncpg.connect(URL, connection_class=Slow)
    await con.execute("create temporary table slow (n int)")
    with pytest.raises(asyncio.TimeoutError):
        await con.execute("insert into slow values ($1)", 1, timeout=0.01)
    assert await con.execute("select from slow") == "SELECT 0"
    await con.close()


async def test_connect_addr_that_was_replaced_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Sentry's integration does it."""
    heard: list[Any] = []
    inner = connect_utils._connect_addr

    async def outer(*args: Any, **kwargs: Any) -> Any:
        heard.append((kwargs["addr"], kwargs["params"].user, kwargs["params"].database))
        return await inner(*args, **kwargs)

    monkeypatch.setattr(connect_utils, "_connect_addr", outer)
    await (await onetrip.asyncpg.connect(URL)).close()
    async with onetrip.asyncpg.create_pool(URL, min_size=2, max_size=2):
        pass
    addr = (PARTS.hostname, PARTS.port)
    assert heard == [(addr, PARTS.username, PARTS.path[1:])] * 3


async def test_a_service_a_file_of_passwords_and_several_hosts(tmp_path: pathlib.Path) -> None:
    service, passwords = tmp_path / "service", tmp_path / "pgpass"
    service.write_text(
        f"[there]\nhost={PARTS.hostname}\nport={PARTS.port}\ndbname={PARTS.path[1:]}\n"
        f"user={PARTS.username}\npassfile={passwords}\n"
    )
    passwords.write_text(f"# a line\n*:{PARTS.port}:*:{PARTS.username}:{PARTS.password}\n")
    passwords.chmod(0o600)
    con = await onetrip.asyncpg.connect(service="there", servicefile=service)
    assert con._params.database == PARTS.path[1:]
    await con.close()
    con = await onetrip.asyncpg.connect(
        URL, host=["127.0.0.1", PARTS.hostname], port=[1, PARTS.port],
        target_session_attrs="read-write",
    )
    assert con._addr == (PARTS.hostname, PARTS.port)
    await con.close()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"dsn": "http://x"}, "scheme is expected"),
        ({"ssl": "maybe"}, "`sslmode` parameter must be one of"),
        ({"host": ["a", "b"], "port": [1, 2, 3]}, "could not match 3 port numbers to 2 hosts"),
        ({"target_session_attrs": "any-old"}, "is expected to be one of"),
        ({"server_settings": {"a": 1}}, r"Dict\[str, str\]"),
        ({"direct_tls": True, "ssl": "prefer"}, "direct TLS requires"),
        ({"gsslib": "x"}, "gsslib parameter"),
        ({"ssl": "verify-full", "dsn": "postgres://h/?sslrootcert=/none/there"}, "No such file"),
    ],
)
async def test_arguments_that_can_not_be(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises((onetrip.asyncpg.ClientConfigurationError, OSError), match=why):
        await onetrip.asyncpg.connect(**arguments)


async def test_a_lost_connection_is_given_back_without_an_error(db: onetrip.Database) -> None:
    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1) as pool:
        async with pool.acquire() as con:
            await con.execute("begin")
            process = await con.fetchval("select pg_backend_pid()")
            assert await db.fetchval("select pg_terminate_backend($1, 5000)", process)
        assert await pool.fetchval("select 1") == 1


async def test_a_failed_setup_leaves_a_closed_connection() -> None:
    seen: list[Any] = []

    async def setup(con: Any) -> None:
        seen.append(con)
        if len(seen) == 1:
            raise LookupError("not yet")

    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1, setup=setup) as pool:
        with pytest.raises(LookupError):
            await pool.acquire()
        assert seen[0].is_closed()
        async with pool.acquire() as con:
            assert await con.fetchval("select 1") == 1


async def test_a_failed_init_is_told_to_those_alone_who_waited() -> None:
    seen: list[Any] = []

    async def init(con: Any) -> None:
        seen.append(con)
        if len(seen) == 1:
            raise LookupError("not yet")

    async with onetrip.asyncpg.create_pool(URL, min_size=0, max_size=1, init=init) as pool:
        with pytest.raises(LookupError):
            await pool.acquire()
        assert seen[0].is_closed()
        async with pool.acquire() as con:
            assert await con.fetchval("select 1") == 1
    assert len(seen) == 2


async def test_a_pool_that_nobody_waits_for_warns_once_that_it_can_not_connect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_away, tried = False, asyncio.Semaphore(0)

    async def connect(*args: Any, **kwargs: Any) -> Any:
        if is_away:
            tried.release()
            raise ConnectionRefusedError("away")
        return await onetrip.asyncpg.connect(*args, **kwargs)

    pool = onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1, connect=connect)
    async with pool:
        for _ in range(2):
            async with pool.acquire() as con:
                is_away = True
                con.terminate()
            for _ in range(3):
                await asyncio.wait_for(tried.acquire(), 600)
            is_away = False
            assert await pool.fetchval("select 1") == 1
    told = [(it.name, it.levelname, it.exc_info and it.exc_info[0]) for it in caplog.records]
    assert told == [("asyncpg.pool", "WARNING", ConnectionRefusedError)] * 2


async def test_a_pool_that_never_connected_tells_its_caller_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ConnectionRefusedError):
        await onetrip.asyncpg.create_pool("postgres://u@127.0.0.1:1/d", min_size=3, max_size=3)
    assert not caplog.records


class Told(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: asyncio.Queue[logging.LogRecord] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.put_nowait(record)


async def test_a_server_that_went_away_is_told_by_an_error_of_asyncpg(line: Line) -> None:
    told, logger = Told(), logging.getLogger("asyncpg.pool")
    logger.addHandler(told)
    pool = await onetrip.asyncpg.create_pool(line.url, min_size=1, max_size=1)
    line.close()
    record = await asyncio.wait_for(told.records.get(), 600)
    logger.removeHandler(told)
    assert record.exc_info is not None and isinstance(record.exc_info[1], OSError)
    pool.terminate()


async def test_listeners_hear_of_the_end_before_it_is_seen() -> None:
    told: list[Any] = []
    con = await onetrip.asyncpg.connect(URL)
    con.add_termination_listener(told.append)
    con.add_termination_listener(lambda _: 1 / 0)
    raised: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context))
    con.terminate()
    assert con.is_closed() and told == [con]
    assert [type(context["exception"]) for context in raised] == [ZeroDivisionError]


async def test_terminate_ends_a_function_that_connects() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def connect(*args: Any, **kwargs: Any) -> Any:
        began.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    pool = await onetrip.asyncpg.create_pool(URL, min_size=0, max_size=1, connect=connect)
    waiting = asyncio.ensure_future(pool.fetchval("select 1"))
    await began.wait()
    pool.terminate()
    await asyncio.wait_for(ended.wait(), 600)
    with pytest.raises(onetrip.asyncpg.InterfaceError):
        await waiting


async def test_what_is_being_opened_expires_too() -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    async def init(con: Any) -> None:
        seen.append(con.get_server_pid())
        began.set()
        await goes_on.wait()

    async with onetrip.asyncpg.create_pool(URL, min_size=0, max_size=1, init=init) as pool:
        first = asyncio.ensure_future(pool.fetchval("select pg_backend_pid()"))
        await began.wait()
        await pool.expire_connections()
        goes_on.set()
        assert await first != seen[0] and len(seen) == 2


async def test_who_bounds_a_close_learns_that_the_server_is_frozen(line: Line) -> None:
    con = await onetrip.asyncpg.connect(line.url)
    line.say("stall")
    with pytest.raises(asyncio.TimeoutError):
        await con.close(timeout=0.2)
    assert con.is_closed()
    line.say("up")
    con = await onetrip.asyncpg.connect(line.url)
    await con.close(timeout=10)
    assert con.is_closed()


async def test_a_session_of_another_encoding_ends_and_says_why() -> None:
    con = await onetrip.asyncpg.connect(URL)
    await con.execute("set client_encoding to utf8")
    assert await con.fetchval("select chr(228)") == "ä"
    await con.execute("set client_encoding to latin1")
    assert con.is_closed()
    with pytest.raises(onetrip.asyncpg.InterfaceError, match="connection is closed") as caught:
        await con.fetchval("select $1", "ä")
    assert "client_encoding" in caught.value.hint


async def test_a_native_session_of_another_encoding_says_why_it_has_ended() -> None:
    async with await onetrip.connect(URL) as db:
        async with db.session() as session:
            await session.execute("set client_encoding to latin1")
            with pytest.raises(onetrip.ConnectionLostError, match="client_encoding") as caught:
                await session.fetchval("select $1", "ä")
            assert caught.value.outcome == "NotSent"
        assert await db.fetchval("select $1", "ä") == "ä"


async def test_results_have_no_bound_but_one_that_is_given() -> None:
    text = "select repeat('a', 1000000) from generate_series(1, 300)"
    con = await onetrip.asyncpg.connect(URL)
    assert len(await con.fetch(text)) == 300
    await con.close()
    con = await onetrip.asyncpg.connect(f"{URL}?result_bytes_max=1000000")
    with pytest.raises(onetrip.asyncpg.InterfaceError, match="result_bytes_max"):
        await con.fetch(text)
    await con.close()


@pytest.mark.parametrize("text", ["copy gone from stdin", "copy gone to stdout"])
async def test_a_copy_that_takes_sets_of_arguments_costs_no_connection(text: str) -> None:
    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1) as pool:
        await pool.execute("create table if not exists gone (a int)")
        number = await pool.fetchval("select pg_backend_pid()")
        async with pool.acquire() as con:
            for call in (con.executemany, con.fetchmany):
                with pytest.raises(onetrip.asyncpg.InterfaceError, match="COPY") as caught:
                    await call(text, [(), ()])
                assert caught.value.outcome == "NotSent"
        with pytest.raises(onetrip.asyncpg.InterfaceError, match="COPY"):
            await pool.executemany(text, [()])
        assert await pool.fetchval("select pg_backend_pid()") == number
        await pool.execute("drop table gone")


async def test_an_address_of_the_environment_is_not_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.9")
    with pytest.raises(onetrip.asyncpg.ClientConfigurationError, match="PGHOSTADDR"):
        await onetrip.asyncpg.connect(user="nobody")
    con = await onetrip.asyncpg.connect(URL)
    await con.close()


async def test_who_forgets_a_connection_is_told_where_it_was_opened() -> None:
    con = await onetrip.asyncpg.connect(URL)
    of = con._protocol
    with pytest.warns(ResourceWarning, match="unclosed connection.*debug mode"):
        del con
        gc.collect()
    assert of.is_closed()
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    con = await onetrip.asyncpg.connect(URL)
    loop.set_debug(False)
    with pytest.warns(ResourceWarning, match="(?s)created at:.*who_forgets_a_connection"):
        del con
        gc.collect()
