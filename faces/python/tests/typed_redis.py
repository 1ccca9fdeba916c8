# pyright: strict
"""A program that type checkers read and nobody runs: test_redis_types.py."""

from __future__ import annotations

import asyncio
from typing import Any

from typing_extensions import assert_type

import onetrip.redis
from onetrip.redis import Client, Message, Script, Session


async def commands(db: Client[str]) -> None:
    assert_type(await db.get("k"), str | None)
    assert_type(await db.bytes.get("k"), bytes | None)
    assert_type(await db.set("k", 1, ex=10, nx=True), str | None)
    assert_type(await db.mget("a", "b"), list[str | None])
    assert_type(await db.incr("n"), int)
    assert_type(await db.expire("k", 10), bool)
    assert_type(await db.hgetall("h"), dict[str, str])
    assert_type(await db.bytes.hgetall("h"), dict[bytes, bytes])
    assert_type(await db.smembers("s"), set[str])
    assert_type(await db.zscore("z", "m"), float | None)
    assert_type(await db.zrange_withscores("z", 0, -1), list[tuple[str, float]])
    assert_type(await db.blpop("l", timeout=1), tuple[str, str] | None)
    assert_type(await db.scan(0), tuple[int, list[str]])
    assert_type(await db.xrange("x"), list[tuple[str, dict[str, str]]])
    assert_type(await db.command("CLIENT INFO"), Any)
    assert_type(await db.call(Script("return 1"), ["k"], [1]), Any)
    # What a call returns is taken by all of asyncio.
    assert_type(await asyncio.create_task(db.get("k")), str | None)
    assert_type(await asyncio.wait_for(db.incr("n"), 1), int)
    assert_type(await asyncio.gather(db.get("k"), db.incr("n")), tuple[str | None, int])


async def views(db: Client[str]) -> None:
    assert_type(db.repeatable().alone().timeout(1), Client[str])
    assert_type(db.bytes.repeatable(), Client[bytes])
    async with db.atomic() as tx:
        value, count = tx.get("k"), tx.incr("n")
    assert_type(await value, str | None)
    assert_type(await count, int)
    async with db.session("k") as session:
        assert_type(session, Session[str])
        await session.watch("k")
    async with db.subscribe("news") as messages:
        async for message in messages:
            assert_type(message, Message[str])
            assert_type(message.data, str)
    async for reply in db.stream([("GET", "k"), ("SET", "k", 1)]):
        assert_type(reply, Any)


async def opened() -> None:
    async with onetrip.redis.connect("redis://localhost", db=1) as db:
        assert_type(db, Client[str])
    assert_type(await onetrip.redis.connect(), Client[str])
