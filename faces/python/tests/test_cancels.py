"""10,000 calls that are cancelled at random moments, over connections that their callers share.

Each answer and each error that comes is its caller's own, no connection is lost, and the client
serves on. ``ONETRIP_SEED`` repeats the choices, ``ONETRIP_CANCELS`` sets another number.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import onetrip
import onetrip.asyncpg
import onetrip.redis

from conftest import REDIS, URL

SEED = int(os.environ.get("ONETRIP_SEED", time.time_ns() % 2**31))
CANCELS = int(os.environ.get("ONETRIP_CANCELS", 10_000))
TASKS = 200

#: Makes a call for a number, which answers with this number.
Way = Callable[[int], Awaitable[Any]]


class Storm:
    """Callers that give up at random."""

    def __init__(self, ways: list[Way]) -> None:
        print(f"ONETRIP_SEED={SEED}")
        self.ways, self.chance = ways, random.Random(SEED)
        self.cancelled = self.answered = self.number = 0
        self.harmed: list[str] = []

    async def run(self) -> None:
        await asyncio.gather(*[self._caller() for _ in range(TASKS)])
        assert self.harmed == []
        assert self.cancelled >= CANCELS and self.answered > TASKS

    async def _caller(self) -> None:
        chance = self.chance
        while self.cancelled < CANCELS and not self.harmed:
            self.number += 1
            number, way = self.number, chance.choice(self.ways)
            try:
                if (answer := await self._given_up(way(number))) != number:
                    self.harmed.append(f"{number} got {answer!r}")
                self.answered += 1
            except (asyncio.CancelledError, asyncio.TimeoutError):
                self.cancelled += 1
            except Exception as error:
                # The errors that are asked for tell whose they are.
                if f"number {number}." not in str(error):
                    self.harmed.append(f"{number} got {error!r}")
                self.answered += 1

    async def _given_up(self, call: Awaitable[Any]) -> Any:
        chance, how = self.chance, self.chance.randrange(5)
        if how == 0:
            return await call
        if how == 1:
            return await asyncio.wait_for(call, chance.random() * 0.02)
        task = asyncio.ensure_future(call)
        if how == 2:
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0)
        else:
            await asyncio.sleep(chance.random() * 0.01)
        task.cancel()
        return await task


async def processes(db: onetrip.Database, name: str) -> list[int]:
    query = "select pid from pg_stat_activity where application_name = $1 order by 1"
    return [row[0] for row in await db.fetch(query, name)]


MANY = "select i from generate_series($1::int4, $1::int4 + 300) i"
FAILS = "select ('number ' || $1 || '.')::int4"
SLEEPS = "select $1::int4 from pg_sleep(0.002)"


async def first(rows: Any, count: int) -> Any:
    got = [row[0] for row in await rows]
    assert got == list(range(got[0], got[0] + count)), got
    return got[0]


async def test_postgres(db: onetrip.Database) -> None:
    name = "storm native"
    async with onetrip.connect(
        URL, connections_max=4, connections_min=4, application_name=name
    ) as it:
        async def in_transaction(n: int) -> Any:
            async with it.begin() as tx:
                await tx.fetchval("select 1")
                return await tx.fetchval("select $1::int4", n)

        async def in_session(n: int) -> Any:
            async with it.session() as session:
                return await session.fetchval(SLEEPS, n)

        async def in_pipeline(n: int) -> Any:
            async with it.pipeline() as pipeline:
                call = pipeline.fetchval("select $1::int4", n)
                pipeline.execute("select 1").close()
            return await call

        ways: list[Way] = [
            lambda n: it.fetchval("select $1::int4", n),
            lambda n: it.fetchval("select $1::int4", n),
            lambda n: it.fetchval("select $1::text::int4", str(n), repeatable=True),
            lambda n: it.fetchval(SLEEPS, n),
            lambda n: first(it.fetch(MANY, n), 301),
            lambda n: it.fetchval(FAILS, str(n)),
            in_transaction,
            in_session,
            in_pipeline,
        ]
        before = await settled(db, name, it._host.core)
        await Storm(ways).run()
        assert await settled(db, name, it._host.core) == before
        assert (it.metrics().lost, it.metrics().opened) == (0, 4)
        assert await asyncio.gather(*[it.fetchval("select $1::int4", n) for n in range(100)]) == (
            list(range(100))
        )


async def settled(db: onetrip.Database, name: str, core: Any) -> list[int]:
    """The connections, once nothing is on its way any more."""
    for _ in range(500):
        metrics = core.metrics()
        now = await processes(db, name)
        if (metrics["in_flight"], metrics["waiting"], metrics["queued"]) == (0, 0, 0) and now:
            if len(now) == metrics["connections"] == metrics["idle"] == 4:
                return now
        await asyncio.sleep(0.02)
    raise AssertionError(f"it does not come to rest: {metrics}, {now}")


async def test_asyncpg(db: onetrip.Database) -> None:
    name = "storm drop-in"
    async with onetrip.asyncpg.create_pool(
        URL, min_size=4, max_size=4, server_settings={"application_name": name}
    ) as pool:
        async def in_transaction(n: int) -> Any:
            async with pool.acquire() as con, con.transaction():
                return await con.fetchval("select $1::int4", n)

        async def in_connection(n: int) -> Any:
            async with pool.acquire() as con:
                return await con.fetchval(SLEEPS, n)

        ways: list[Way] = [
            lambda n: pool.fetchval("select $1::int4", n),
            lambda n: pool.fetchval("select $1::int4", n, timeout=random.random() * 0.05),
            lambda n: pool.fetchval(SLEEPS, n),
            lambda n: first(pool.fetch(MANY, n), 301),
            lambda n: pool.fetchval(FAILS, str(n)),
            in_transaction,
            in_connection,
        ]
        before = await settled(db, name, pool._host.core)
        await Storm(ways).run()
        assert await settled(db, name, pool._host.core) == before
        assert pool._host.core.metrics()["lost"] == 0
        assert await asyncio.gather(*[pool.fetchval("select $1::int4", n) for n in range(100)]) == (
            list(range(100))
        )


COUNTS = "local t = {} for i = 0, 300 do t[i + 1] = ARGV[1] + i end return t"
FAILS_REDIS = "return redis.error_reply('ERR number ' .. ARGV[1] .. '.')"


async def connections(redis: onetrip.redis.Client[str]) -> int:
    told = await redis.info("stats")
    return int(told.partition("total_connections_received:")[2].split()[0])


async def test_redis(redis: onetrip.redis.Client[str]) -> None:
    async with onetrip.redis.connect(REDIS) as it:
        async def as_number(call: Awaitable[Any]) -> int:
            return int(await call)

        async def in_list(n: int) -> Any:
            async with it.atomic() as tx:
                tx.set(f"list {n}", n).close()
                call = tx.get(f"list {n}")
            return int(await call or 0)

        async def many(n: int) -> int:
            got = await it.command("EVAL", COUNTS, 0, n)
            assert got == list(range(n, n + 301))
            return int(got[0])

        ways: list[Way] = [
            lambda n: as_number(it.echo(str(n))),
            lambda n: as_number(it.echo(str(n))),
            lambda n: it.incrby(f"own {n}", n),
            lambda n: it.call(FAILS_REDIS, [], [n]),
            many,
            in_list,
        ]
        opened = await connections(redis)
        await Storm(ways).run()
        assert await connections(redis) == opened
        assert it._parts.shared.core.metrics()["lost"] == 0
        assert await asyncio.gather(*[it.echo(str(n)) for n in range(100)]) == [
            str(n) for n in range(100)
        ]


async def test_redis_asyncio(redis: onetrip.redis.Client[str]) -> None:
    asyncio_ = pytest.importorskip("onetrip.redis.asyncio")
    async with asyncio_.Redis.from_url(REDIS, decode_responses=True) as it:
        async def as_number(call: Awaitable[Any]) -> int:
            return int(await call)

        async def in_pipeline(n: int) -> int:
            pipeline = it.pipeline(transaction=n % 2 == 0)
            _, got = await pipeline.set(f"piped {n}", n).get(f"piped {n}").execute()
            return int(got)

        ways: list[Way] = [
            lambda n: as_number(it.echo(str(n))),
            lambda n: it.incrby(f"mine {n}", n),
            lambda n: it.eval(FAILS_REDIS, 0, n),
            in_pipeline,
        ]
        await it.ping()
        opened = await connections(redis)
        await Storm(ways).run()
        assert await connections(redis) == opened
        assert await it.echo("on") == "on"


async def test_executemany_that_is_given_up_amid_its_arguments_is_stopped(
    db: onetrip.Database,
) -> None:
    """Its first statement waits for a lock, and most of the others have not left yet."""
    name = "given up many"
    await db.execute("drop table if exists given_up_sets")
    await db.execute("create table given_up_sets (t text)")
    insert = "insert into given_up_sets select $1 from pg_advisory_xact_lock(3164)"
    sets = [(f"{n} " + "x" * (32 << 10),) for n in range(100)]
    waiting = """select count(*) from pg_stat_activity
        where application_name = $1 and wait_event_type = 'Lock'"""

    async def holds(call: Callable[[], Awaitable[Any]], task: bool) -> None:
        given_up = asyncio.ensure_future(call())
        while not await db.fetchval(waiting, name):
            assert not given_up.done(), given_up
            await asyncio.sleep(0.001)
        if task:
            given_up.cancel()
        with pytest.raises((asyncio.CancelledError, asyncio.TimeoutError)):
            await given_up

    async with (
        onetrip.connect(URL, connections_max=1, application_name=name) as it,
        onetrip.asyncpg.create_pool(
            URL, min_size=1, max_size=1, server_settings={"application_name": name}
        ) as pool,
    ):
        async with db.begin() as tx:
            await tx.execute("select pg_advisory_xact_lock(3164)")
            # What comes behind it would wait for the lock, had the server not been asked to stop.
            await holds(lambda: it.executemany(insert, sets), True)
            assert await asyncio.wait_for(it.fetchval("select 1"), 600) == 1
            await holds(lambda: pool.executemany(insert, sets, timeout=3), False)
            assert await asyncio.wait_for(pool.fetchval("select 1"), 600) == 1
        assert await it.fetchval("select count(*) from given_up_sets") == 0


@pytest.mark.parametrize("where", ["shared", "block"])
async def test_a_copy_whose_answer_has_come_is_cancelled_as_any_other_call(where: str) -> None:
    """Its task is cancelled in the turn of the loop in which the answer came."""

    async def copies(on: Any, number: int) -> int:
        return int(await on.copy_in("copy copied_and_cancelled from stdin", b"%d\n" % number))

    async def copies_in_block(number: int) -> int:
        async with db.begin() as tx:
            return await copies(tx, number)

    async with onetrip.connect(URL, connections_max=2) as db:
        await db.execute("drop table if exists copied_and_cancelled")
        await db.execute("create table copied_and_cancelled (id int)")
        outcomes: set[str | None] = set()
        for number in range(100):
            work = copies(db, number) if where == "shared" else copies_in_block(number)
            task: Any = asyncio.ensure_future(work)
            # What it waits for comes several times: data is taken, the answer is there.
            waits, last = number % 8, None
            while not task.done():
                waiter = task._fut_waiter
                if waiter is not None and waiter.done() and waiter is not last:
                    if waits == 0:
                        task.cancel()
                        break
                    waits, last = waits - 1, waiter
                await asyncio.sleep(0)
            try:
                await task
            except asyncio.CancelledError as error:
                outcomes.add(getattr(error, "_outcome", None))
        # Nothing else was raised; and where its rows are there, it says so.
        assert "Applied" in outcomes or where == "block", outcomes
        await db.execute("drop table copied_and_cancelled")
