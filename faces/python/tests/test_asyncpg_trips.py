"""What the drop-in spares."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

import onetrip.asyncpg
from conftest import URL, Line


async def test_begin_and_reset_ride_along(line: Line) -> None:
    async with onetrip.asyncpg.create_pool(line.url, min_size=1, max_size=1) as pool:
        for _ in range(3):
            async with pool.acquire() as con, con.transaction():
                await con.fetchval("select 1")
        line.trips
        async with pool.acquire() as con, con.transaction():
            await con.fetchval("select 1")
        assert line.trips == 2
        await pool.fetchval("select 1")
        assert line.trips == 1


async def test_calls_of_one_connection_share_a_trip(line: Line) -> None:
    con = await onetrip.asyncpg.connect(line.url)
    await con.fetchval("select $1::int", 0)
    line.trips
    got = await asyncio.gather(*(con.fetchval("select $1::int", n) for n in range(20)))
    assert (got, line.trips) == (list(range(20)), 1)
    await con.close()


async def test_calls_at_once_in_a_transaction_are_refused() -> None:
    con = await onetrip.asyncpg.connect(URL)
    async with con.transaction():
        calls = (con.fetchval("select 1"), con.fetchval("select 2"))
        first, second = await asyncio.gather(*calls, return_exceptions=True)
        assert first == 1 and "another operation is in progress" in str(second)
    await con.close()


async def test_a_cancelled_task_costs_no_connection() -> None:
    con = await onetrip.asyncpg.connect(URL)
    pid = con.get_server_pid()
    task = asyncio.create_task(con.fetchval("select pg_sleep(10)"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await con.fetchval("select pg_backend_pid()") == pid
    await con.close()


async def test_a_connection_that_was_granted_to_a_cancelled_task_goes_back() -> None:
    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1) as pool:
        for turns in range(6):
            first = await pool.acquire()
            task = asyncio.create_task(pool._acquire(None))
            await asyncio.sleep(0)
            giving = asyncio.create_task(pool.release(first))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await giving
            got = (await asyncio.gather(task, return_exceptions=True))[0]
            if not isinstance(got, asyncio.CancelledError):
                await pool.release(got)
        assert await asyncio.wait_for(pool.fetchval("select 1"), 600) == 1


async def test_a_method_that_was_replaced_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """As instrumentation does it."""
    Connection, heard = onetrip.asyncpg.Connection, []
    inner = Connection.fetchval

    async def outer(self: Any, query: str, *args: Any, **kwargs: Any) -> Any:
        heard.append((query, self._params.database is not None, self._addr[0]))
        return await inner(self, query, *args, **kwargs)

    monkeypatch.setattr(Connection, "fetchval", outer)
    async with onetrip.asyncpg.create_pool(URL, min_size=1, max_size=1) as pool:
        assert await pool.fetchval("select 7") == 7
    assert len(heard) == 1


async def test_more_than_a_pipeline_holds() -> None:
    con = await onetrip.asyncpg.connect(URL)
    await con.execute("create temp table lots (a int primary key)")
    await con.executemany("insert into lots values ($1)", [(n,) for n in range(20_000)])
    assert await con.fetchval("select count(*) from lots") == 20_000
    sets = [(n,) for n in range(20_000, 40_000)] + [(0,)]
    with pytest.raises(onetrip.asyncpg.UniqueViolationError):
        await con.executemany("insert into lots values ($1)", sets)
    assert await con.fetchval("select count(*) from lots") == 20_000
    await con.close()


def test_install_takes_the_name() -> None:
    code = (
        "import onetrip.asyncpg; onetrip.asyncpg.install(); import asyncpg, asyncpg.pool;"
        "from asyncpg.transaction import Transaction; from asyncpg import UniqueViolationError;"
        "assert asyncpg is onetrip.asyncpg and asyncpg.pool.Pool is asyncpg.Pool"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
