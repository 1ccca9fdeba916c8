"""A user's program on the published package. scripts/package runs it on private servers."""

import asyncio
import importlib.metadata
import os

import onetrip
import onetrip.asyncpg
import onetrip.redis


async def main() -> None:
    url = os.environ["ONETRIP_TEST_POSTGRES"]
    async with onetrip.connect(url) as db:
        both = [db.fetchval("select 1 + $1::int", 2), db.fetchval("select 'a' || $1", "b")]
        assert [await it for it in both] == [3, "ab"]
        try:
            await db.fetch("select nothing")
            raise AssertionError("a column that does not exist was found")
        except onetrip.PostgresError as error:
            assert error.outcome == "Rejected", error.outcome
    print("Python: PostgreSQL answers")

    connection = await onetrip.asyncpg.connect(url)
    assert dict(await connection.fetchrow("select $1::int as it", 1)) == {"it": 1}
    await connection.close()
    print("Python: PostgreSQL answers through onetrip.asyncpg")

    if "ONETRIP_TEST_REDIS" not in os.environ:
        print("skipped: Redis, since there is no server here")
        return
    async with onetrip.redis.connect(os.environ["ONETRIP_TEST_REDIS"]) as cache:
        await cache.set("smoke", "on")
        assert await cache.get("smoke") == "on"
    print("Python: Redis answers")


print(f"onetrip {importlib.metadata.version('onetrip')} is installed")
asyncio.run(main())
