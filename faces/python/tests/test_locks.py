"""A statement that waits for a lock holds up nobody who could go elsewhere, and those behind it only
for a while: whoever holds the lock may be waiting for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
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
        await (self.transaction.rollback() if kind else self.transaction.commit())
        await self.pool.release(self.connection)


@pytest.fixture(params=["native", "asyncpg"])
async def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def run(face: str, most: int, program: Any) -> None:
    if face == "native":
        async with onetrip.connect(URL, connections_max=most) as db:
            await asyncio.wait_for(program(Native(db)), HANG_S)
    else:
        async with onetrip.asyncpg.create_pool(URL, min_size=0, max_size=most) as pool:
            await asyncio.wait_for(program(DropIn(pool)), HANG_S)


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
