"""Clients that are dropped without close: they are collected, and so are their connections."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

import onetrip
import onetrip.asyncpg
import onetrip.redis

from conftest import REDIS, URL


async def gone(seen: weakref.ref[Any]) -> None:
    for _ in range(200):
        gc.collect()
        if seen() is None:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it is still held: {gc.get_referrers(seen())}")


async def connections(db: onetrip.Database, name: str) -> int:
    query = "select count(*) from pg_stat_activity where application_name = $1"
    return int(await db.fetchval(query, name))


async def test_a_client_that_is_dropped(db: onetrip.Database) -> None:
    name = "dropped native"
    it = await onetrip.connect(URL, connections_min=2, connections_max=2, application_name=name)
    assert await it.fetchval("select 1") == 1
    seen = weakref.ref(it._host)
    with pytest.warns(ResourceWarning, match="close"):
        del it
        gc.collect()
    await gone(seen)
    while await connections(db, name):
        await asyncio.sleep(0.01)


async def pool_of(name: str, **settings: Any) -> onetrip.asyncpg.Pool:
    told = {"application_name": name}
    pool = await onetrip.asyncpg.create_pool(
        URL, min_size=2, max_size=2, server_settings=told, **settings
    )
    assert await pool.fetchval("select 1") == 1
    return pool


@pytest.mark.parametrize("has_init", [False, True])
async def test_a_pool_that_is_dropped(db: onetrip.Database, has_init: bool) -> None:
    async def init(con: Any) -> None:
        await con.execute("set work_mem = '1MB'")

    name = "dropped pool"
    pool = await pool_of(name, init=init if has_init else None)
    seen = weakref.ref(pool._host)
    with pytest.warns(ResourceWarning, match="close"):
        del pool
        gc.collect()
    await gone(seen)
    while await connections(db, name):
        await asyncio.sleep(0.01)


async def test_a_pool_that_is_terminated(db: onetrip.Database) -> None:
    name = "terminated pool"
    pool = await pool_of(name)
    seen = weakref.ref(pool._host)
    pool.terminate()
    while await connections(db, name):
        await asyncio.sleep(0.01)
    del pool
    await gone(seen)


async def test_a_connection_that_is_dropped(db: onetrip.Database) -> None:
    name = "dropped connection"
    con = await onetrip.asyncpg.connect(URL, server_settings={"application_name": name})
    assert await con.fetchval("select 1") == 1
    seen = weakref.ref(con)
    with pytest.warns(ResourceWarning, match="close"):
        del con
        gc.collect()
    assert seen() is None
    while await connections(db, name):
        await asyncio.sleep(0.01)


async def test_a_connection_that_is_closed_is_freed() -> None:
    con = await onetrip.asyncpg.connect(URL)
    seen = weakref.ref(con._protocol.host)
    await con.close()
    del con
    await gone(seen)


async def test_what_a_dropped_client_owes_is_paid(db: onetrip.Database) -> None:
    it = await onetrip.connect(URL)
    call = it.fetchval("select 5 from pg_sleep(0.05)")
    with pytest.warns(ResourceWarning, match="close"):
        del it
        gc.collect()
    assert await call == 5


async def test_a_redis_client_that_is_dropped(redis: onetrip.redis.Client[str]) -> None:
    it = await onetrip.redis.connect(REDIS, client_name="dropped")
    assert await it.echo("x") == "x"
    seen = weakref.ref(it._parts.shared)
    with pytest.warns(ResourceWarning, match="close"):
        del it
        gc.collect()
    await gone(seen)
    while "name=dropped" in str(await redis.command("CLIENT LIST")):
        await asyncio.sleep(0.01)


async def test_a_subscription_of_a_dropped_client_goes_on(
    redis: onetrip.redis.Client[str],
) -> None:
    it = await onetrip.redis.connect(REDIS, client_name="dropped")
    subscription = it.subscribe("news")
    await subscription.__aenter__()
    with pytest.warns(ResourceWarning, match="close"):
        del it
        gc.collect()
    await redis.publish("news", "heard")
    assert (await subscription.__anext__()).data == "heard"
    subscription.close()
    del subscription
    while "name=dropped" in str(await redis.command("CLIENT LIST")):
        gc.collect()
        await asyncio.sleep(0.01)
