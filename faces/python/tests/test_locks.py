"""A statement that waits for a lock holds up nobody who could go elsewhere, and those behind it only
for a while: whoever holds the lock may be waiting for one of them."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import pytest

import onetrip
import onetrip.asyncpg
from conftest import URL

UPDATE = "update locked set n = n + 1 where id = $1"
SELECT = "select n from locked where id = $1"

# Only a hang reaches it.
HANG_S = 60

#: What a run with kills lasts; without it, until each of some kills had its effect.
SECONDS = float(os.environ.get("ONETRIP_SECONDS", 0))

#: ``ONETRIP_KILLS=0``: a run of so many seconds has no kills.
KILLS = int(os.environ.get("ONETRIP_KILLS", 10**9))

#: How the program's connections are called at the server.
NAME = "onetrip_locks"


WAITING = """select count(*) from pg_stat_activity
    where wait_event_type = 'Lock' and application_name = $1"""


@pytest.fixture
async def rows(db: onetrip.Database) -> AsyncIterator[None]:
    await db.execute("create table locked (id int4 primary key, n int4 not null)")
    await db.execute("insert into locked select i, 0 from generate_series(1, 9) i")
    yield
    await db.execute("drop table locked")


class Program(Protocol):
    """What a program does with its client, in either face."""

    def execute(self, text: str, *arguments: Any) -> Awaitable[Any]: ...
    def fetchval(self, text: str, *arguments: Any) -> Awaitable[Any]: ...
    def holding(self) -> AbstractAsyncContextManager[Any]: ...


class Native:
    def __init__(self, db: onetrip.Database) -> None:
        self.execute, self.fetchval, self.holding = db.execute, db.fetchval, db.begin


class DropIn:
    def __init__(self, pool: Any) -> None:
        self.execute, self.fetchval, self.pool = pool.execute, pool.fetchval, pool

    def holding(self) -> AbstractAsyncContextManager[Any]:
        return Holding(self.pool)


class Holding:
    def __init__(self, pool: Any) -> None:
        self.pool = pool

    async def __aenter__(self) -> Any:
        self.connection = await self.pool.acquire()
        self.transaction = self.connection.transaction()
        await self.transaction.start()
        return self.connection

    async def __aexit__(self, kind: Any, *_: object) -> None:
        try:
            if kind is None:
                await self.transaction.commit()
            elif not self.connection.is_closed():
                await self.transaction.rollback()
        finally:
            await self.pool.release(self.connection)


@pytest.fixture(params=["native", "asyncpg"])
async def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def run(face: str, most: int, program: Any, hang: float = HANG_S) -> None:
    if face == "native":
        async with onetrip.connect(URL, connections_max=most, application_name=NAME) as db:
            await asyncio.wait_for(program(Native(db)), hang)
    else:
        async with onetrip.asyncpg.create_pool(
            URL, min_size=0, max_size=most, server_settings={"application_name": NAME}
        ) as pool:
            await asyncio.wait_for(program(DropIn(pool)), hang)


async def learn(it: Program) -> None:
    for _ in range(60):
        await it.execute(UPDATE, 1)
        assert await it.fetchval(SELECT, 7) == 0


@pytest.mark.parametrize("most", [10, 3, 2])
async def test_a_holder_of_a_lock_reads_beside_it(
    rows: None, db: onetrip.Database, face: str, most: int
) -> None:
    async def program(it: Program) -> None:
        await learn(it)
        for _ in range(3):
            async with it.holding() as tx:
                await tx.execute(UPDATE, 1)
                other = asyncio.ensure_future(it.execute(UPDATE, 1))
                await asyncio.sleep(0)
                assert await it.fetchval(SELECT, 7) == 0
                await it.execute(UPDATE, 2)
            await other

    await run(face, most, program)
    assert await db.fetchval(SELECT, 1) == 60 + 6


@pytest.mark.parametrize("most", [3, 2])
async def test_a_holder_of_a_lock_sends_pipelines_and_blocks_beside_it(
    rows: None, db: onetrip.Database, most: int
) -> None:
    async def program(own: onetrip.Database) -> None:
        await learn(Native(own))
        for _ in range(3):
            async with own.begin() as tx:
                await tx.execute(UPDATE, 1)
                others = [asyncio.ensure_future(own.execute(UPDATE, 1)) for _ in range(2)]
                await asyncio.sleep(0)
                async with own.pipeline() as beside:
                    read = beside.fetchval(SELECT, 7)
                assert await read == 0
                await own.execute("do $$ begin perform 1; end $$")
            await asyncio.gather(*others)

    async with onetrip.connect(URL, connections_max=most) as own:
        await asyncio.wait_for(program(own), HANG_S)
    assert await db.fetchval(SELECT, 1) == 60 + 9


async def test_a_read_beside_a_pipeline_that_waits_for_its_reader_fails_in_time(
    rows: None, db: onetrip.Database
) -> None:
    async def in_pipeline(own: onetrip.Database) -> None:
        async with own.pipeline() as other:
            other.execute(UPDATE, 1)

    async def of_many(own: onetrip.Database) -> None:
        await own.executemany(UPDATE, [(1,)])

    async def program(waits: Callable[[onetrip.Database], Awaitable[None]]) -> None:
        settings: Any = {"wait_timeout_ms": 4000, "application_name": NAME}
        async with onetrip.connect(URL, connections_max=2, **settings) as own:
            await learn(Native(own))
            async with own.begin() as tx:
                await tx.execute(UPDATE, 1)
                other = asyncio.ensure_future(waits(own))
                while await db.fetchval(WAITING, NAME) == 0:
                    pass
                with pytest.raises(onetrip.Error) as late:
                    await own.fetchval(SELECT, 7)
                assert (late.value.code, late.value.outcome) == ("wait_timeout", "NotSent")
            await other
            assert await own.fetchval(SELECT, 7) == 0

    await asyncio.wait_for(program(in_pipeline), HANG_S)
    await asyncio.wait_for(program(of_many), HANG_S)
    assert await db.fetchval(SELECT, 1) == 2 * (60 + 2)


async def test_tasks_that_lock_and_read_beside_others_that_update_go_on(
    rows: None, db: onetrip.Database, face: str
) -> None:
    async def program(it: Program) -> None:
        await learn(it)
        left = iter(range(1000))

        async def locks() -> None:
            for _ in left:
                async with it.holding() as tx:
                    await tx.execute(UPDATE, 1)
                    assert await it.fetchval(SELECT, 7) == 0

        async def updates() -> None:
            for _ in left:
                await it.execute(UPDATE, 1)

        await asyncio.gather(*(locks() for _ in range(3)), *(updates() for _ in range(6)))

    await run(face, 10, program)
    assert await db.fetchval(SELECT, 1) == 60 + 1000


class Told:
    """What tasks were told of their requests, by outcome."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        #: The longest time in which no request succeeded, in seconds.
        self.standstill = 0.0
        self.last = time.monotonic()

    async def of(self, request: Awaitable[Any]) -> None:
        try:
            await request
        except Exception as error:
            # The drop-in's own refusals stand in front of anything that is sent.
            early = "NotSent" if isinstance(error, onetrip.asyncpg.InterfaceError) else ""
            outcome = getattr(error, "outcome", early)
            assert outcome in ("NotSent", "Rejected", "Unknown"), repr(error)
            self.counts[outcome] += 1
        else:
            self.counts["there"] += 1
            now = time.monotonic()
            self.standstill, self.last = max(self.standstill, now - self.last), now


async def kill(db: onetrip.Database, told: Told) -> int:
    """Ends some connections of the program now and then, each time after requests were served."""
    end, killed = time.monotonic() + SECONDS, 0
    while time.monotonic() < end if SECONDS else killed < 6:
        before = told.counts["there"]
        while told.counts["there"] < before + 30:
            await asyncio.sleep(0)
        if killed < KILLS:
            killed += 1
            await db.execute(
                "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity"
                " where application_name = $1 order by random() limit $2) it",
                NAME,
                10 if killed % 3 == 0 else random.randint(1, 3),
            )
        if SECONDS:
            await asyncio.sleep(random.random() / 2)
    return killed


async def test_what_tasks_that_lock_were_told_is_true_while_connections_are_killed(
    rows: None, db: onetrip.Database, face: str
) -> None:
    told, killed = Told(), 0

    async def program(it: Program) -> None:
        nonlocal killed
        over = False

        async def lock_and_read() -> None:
            async with it.holding() as tx:
                await tx.execute(UPDATE, 1)
                # Another's loss is none of the transaction's.
                await asyncio.gather(it.fetchval(SELECT, 7), return_exceptions=True)

        async def task(one: Callable[[], Awaitable[Any]]) -> None:
            while not over:
                await told.of(one())

        tasks = [asyncio.ensure_future(task(lock_and_read)) for _ in range(3)]
        for _ in range(6):
            tasks.append(asyncio.ensure_future(task(lambda: it.execute(UPDATE, 1))))
        killed = await kill(db, told)
        over = True
        await asyncio.gather(*tasks)

    await run(face, 10, program, HANG_S + 2 * SECONDS)
    there, unknown = told.counts["there"], told.counts["Unknown"]
    counted = await db.fetchval(SELECT, 1)
    report = f"{face}: {killed} kills, {dict(told.counts)}, the row counts {counted}, "
    report += f"{told.standstill * 1000:.0f} ms"
    print(report)
    assert there <= counted <= there + unknown, report
    # Otherwise it says how busy the machine is.
    assert not SECONDS or told.standstill <= 1.2, report
