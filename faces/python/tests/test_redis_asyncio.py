"""onetrip.redis.asyncio beside redis-py: the same program on both, with the same results."""

from __future__ import annotations

import asyncio
import warnings
from types import ModuleType
from typing import Any

import pytest
import redis
import redis.asyncio
from conftest import REDIS, Line

import onetrip.redis
import onetrip.redis.asyncio as ours

BOTH = [redis.asyncio, ours]


async def told(work: Any) -> Any:
    """What it returns, or how it fails."""
    try:
        return await work
    except Exception as error:
        return type(error), str(error)


async def strings(db: Any) -> list[Any]:
    return [
        await db.set("a", "1", ex=10),
        await db.set("a", "2", nx=True),
        await db.get("a"),
        await db.mget("a", "none"),
        await db.incrbyfloat("f", 1.5),
        await db.expire("a", 10),
        await db.type("a"),
        await db.exists("a", "f"),
        await told(db.lpush("a", 1)),
        await told(db.set("a", True)),
        await told(db.execute_command("NOSUCH", "x")),
    ]


async def shapes(db: Any) -> list[Any]:
    return [
        await db.hset("h", mapping={"f": 1, "g": b"\xc3\xa4"}),
        await db.hgetall("h"),
        await db.sadd("s", "x", "y"),
        await db.smembers("s"),
        await db.zadd("z", {"m": 1.5, "n": 2}),
        await db.zrange("z", 0, -1, withscores=True),
        await db.zscore("z", "m"),
        await db.zpopmin("z"),
        await db.rpush("l", 1, 2),
        await db.blpop("l", timeout=1),
        await db.xadd("x", {"k": "v"}, id="1-1"),
        await db.xrange("x"),
        await db.xread({"x": "0"}),
        await db.scan(0, match="h"),
        [key async for key in db.scan_iter(match="l")],
        (await db.info("server"))["redis_mode"],
        await db.config_get("maxmemory"),
        await db.echo("hello"),
        await db.ping(),
        await db.client_setname("me"),
    ]


async def pipelines(db: Any) -> list[Any]:
    made: list[Any] = []
    for transaction in (True, False):
        async with db.pipeline(transaction=transaction) as pipe:
            made.append(await pipe.set("p", 1).incr("p").hgetall("none").execute())
            pipe.set("p", "x").incr("p").get("p")
            made.append([str(end) for end in await pipe.execute(raise_on_error=False)])
            made.append(len(pipe))
            pipe.incr("p")
            made.append(await told(pipe.execute()))
    async with db.pipeline() as pipe:
        await pipe.watch("w")
        made.append(await pipe.get("w"))
        pipe.multi()
        pipe.set("w", 1)
        made.append(await pipe.execute())
        await pipe.watch("w")
        await db.set("w", 2)
        pipe.multi()
        pipe.set("w", 3)
        made.append(await told(pipe.execute()))
    made.append(await db.transaction(lambda pipe: pipe.multi() or pipe.incr("w"), "w"))
    return made


async def scripts(db: Any) -> list[Any]:
    script = db.register_script("return {KEYS[1], ARGV[1]}")
    made = [await script(keys=["k"], args=[1]), await script(keys=["k"], args=[2])]
    made.append(await db.eval("return 7", 0))
    async with db.lock("lock", timeout=5) as lock:
        made.append(await lock.owned())
    return made


async def messages(db: Any) -> list[Any]:
    async with db.pubsub() as of:
        await of.subscribe("c")
        made = [await of.get_message(timeout=5)]
        made.append(await db.publish("c", "hello"))
        made.append(await of.get_message(timeout=5))
    return made


@pytest.mark.parametrize("decodes", [False, True])
@pytest.mark.parametrize("protocol", [None, 2, 3])
@pytest.mark.parametrize("scenario", [strings, shapes, pipelines, scripts, messages])
async def test_a_program_sees_the_same(
    redis: onetrip.redis.Client[str], scenario: Any, protocol: int | None, decodes: bool
) -> None:
    seen = []
    for module in BOTH:
        await redis.flushall()
        await redis.script_flush()
        options: dict[str, Any] = {} if protocol is None else {"protocol": protocol}
        db = module.from_url(REDIS, decode_responses=decodes, **options)
        seen.append(await scenario(db))
        await db.aclose()
    assert seen[1] == seen[0]


@pytest.mark.parametrize("module", BOTH[1:])
async def test_tasks_share_trips(redis_line: Line, module: ModuleType) -> None:
    db = module.Redis.from_url(redis_line.url)
    await db.ping()
    assert redis_line.trips > 0
    await asyncio.gather(*(db.set(f"k{i}", i) for i in range(100)))
    assert redis_line.trips == 1
    await db.aclose()


async def test_pools_and_exceptions_are_those_of_redis(redis: onetrip.redis.Client[str]) -> None:
    pool = ours.BlockingConnectionPool.from_url(REDIS, decode_responses=True)
    first, second = ours.Redis(connection_pool=pool), ours.Redis(connection_pool=pool)
    assert isinstance(first, redis_module().asyncio.Redis)
    assert await first.set("k", "x") is True and await second.get("k") == "x"
    with pytest.raises(redis_module().exceptions.ResponseError):
        await first.incr("k")
    await pool.disconnect()
    assert await second.get("k") == "x"
    await pool.disconnect()
    lost = ours.Redis(port=1, socket_connect_timeout=0.05)
    with pytest.raises(redis_module().exceptions.ConnectionError):
        await lost.ping()
    await lost.aclose()


def redis_module() -> ModuleType:
    """The name stands for a fixture here."""
    import redis as module

    return module


async def test_a_pipeline_that_is_cancelled_leaves_no_warning(redis_line: Line) -> None:
    async with ours.from_url(redis_line.url) as db:
        await db.ping()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for is_transaction in (True, False):
                pipeline = db.pipeline(transaction=is_transaction).set("a", 1).get("a")
                task = asyncio.create_task(pipeline.execute())
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                del pipeline, task
        assert not warned
        assert await db.get("a") == b"1"
