"""Behind PgBouncers, in transaction and in session mode, that keep no track of statements."""

from __future__ import annotations

import asyncio
import os

import pytest

import onetrip
import onetrip.asyncpg

POOLERS = os.environ.get("ONETRIP_TEST_POOLERS", "").split()

pytestmark = pytest.mark.skipif(not POOLERS, reason="no PgBouncer was found")


@pytest.mark.parametrize("url", POOLERS or [""])
async def test_texts_are_used_often(url: str) -> None:
    async with onetrip.connect(url) as db:
        for _ in range(10):
            calls = [db.fetchval("select $1::int + 1", n) for n in range(50)]
            assert [await call for call in calls] == list(range(1, 51))
        async with db.pipeline() as pipeline:
            calls = [pipeline.fetchval("select $1::int + 1", n) for n in range(5)]
        assert [await call for call in calls] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("url", POOLERS or [""])
async def test_the_drop_in_needs_no_setting(url: str) -> None:
    async with onetrip.asyncpg.create_pool(url, min_size=4, max_size=4) as pool:

        async def one(n: int) -> int:
            async with pool.acquire() as con, con.transaction():
                got: int = await con.fetchval("select $1::int + 2", n)
                return got

        for _ in range(8):
            assert await asyncio.gather(*map(one, range(20))) == list(range(2, 22))
        async with pool.acquire() as con:
            statement = await con.prepare("select $1::int * 2")
            assert [await statement.fetchval(n) for n in range(10)] == list(range(0, 20, 2))
