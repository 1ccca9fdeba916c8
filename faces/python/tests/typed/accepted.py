"""A program that type checkers have to accept, with the types of what calls return."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Optional

from typing_extensions import assert_type

import onetrip
import onetrip.asyncpg
import onetrip.redis
from onetrip import (
    Call,
    Database,
    Gap,
    Notification,
    Pipeline,
    Record,
    Session,
    Stream,
    Transaction,
)


@dataclass
class User:
    id: int
    name: str


async def statements(db: Database) -> None:
    assert_type(db.fetch("select 1"), Call[list[Record]])
    assert_type(await db.fetch("select 1", 1, "x"), list[Record])
    assert_type(await db.fetchrow("select 1"), Optional[Record])
    assert_type(await db.fetch("select 1", into=User), list[User])
    assert_type(await db.fetchrow("select 1", into=User), Optional[User])
    by_name = await db.fetch("select 1", into=dict)
    assert_type(by_name, list[dict[str, Any]])
    assert_type(await db.fetchrow("select 1", into=dict), Optional[dict[str, Any]])
    assert_type(await db.fetchmany("select $1", [(1,)], into=dict), list[dict[str, Any]])
    assert_type(await db.reads().fetchrow("select 1", into=dict), Optional[dict[str, Any]])
    async for named in db.stream("select 1", into=dict):
        assert_type(named, dict[str, Any])
    assert_type(await db.fetchmany("select $1", [(1,)], into=User), list[User])
    assert_type(await db.fetchmany("select $1", [(1,)]), list[Record])
    assert_type(await db.execute("select 1"), str)
    assert_type(await db.executemany("select $1", [(1,), [2]]), int)
    assert_type(await db.fetchval("select 1", column=0, repeatable=True), Any)
    table = await db.fetch_arrow("select 1")
    assert_type(table.column_names, list[str])
    assert_type(len(table), int)
    async for row in db.stream("select 1"):
        assert_type(row, Record)
    async for user in db.stream("select 1", into=User):
        assert_type(user, User)
    async for chunk in db.copy_out("copy t to stdout"):
        assert_type(chunk, bytes)
    assert_type(await db.copy_in("copy t from stdin", b"1"), int)
    assert_type(await db.copy_rows("t", [(1,)], columns=["a"]), int)


async def records(record: Record) -> None:
    assert_type(record["a"], Any)
    assert_type(record[0:2], tuple[Any, ...])
    assert_type(len(record), int)
    for name, value in record.items():
        assert_type(name, str)
        print(value)


async def calls_are_coroutines(db: Database) -> None:
    call: Coroutine[Any, Any, list[Record]] = db.fetch("select 1")
    task = asyncio.create_task(call)
    assert_type(task, "asyncio.Task[list[Record]]")
    rows, tag = await asyncio.gather(db.fetch("select 1"), db.execute("select 2"))
    assert_type(rows, list[Record])
    assert_type(tag, str)
    assert_type(await asyncio.wait_for(db.fetchrow("select 1"), 1), Optional[Record])


async def blocks(dsn: str) -> None:
    async with onetrip.connect(dsn, connections_max=5) as db:
        assert_type(db, Database)
        async with db.begin(isolation="serializable", read_only=True) as tx:
            assert_type(tx, Transaction)
            async with tx.begin() as inner:
                assert_type(inner, Transaction)
        async with db.session() as session:
            assert_type(session, Session)
            async with session.begin() as own:
                assert_type(own, Transaction)
        async with db.pipeline() as pipeline:
            assert_type(pipeline, Pipeline)
            call = pipeline.fetchrow("select 1", into=User)
        assert_type(await call, Optional[User])
        async with db.listen("a", "b") as events:
            async for event in events:
                if isinstance(event, Gap):
                    assert_type(event.dropped, int)
                else:
                    assert_type(event, Notification)
        stream: Stream[Record] = db.stream("select 1")
        await stream.aclose()
        assert_type(db.metrics().lost, int)
    assert_type(await onetrip.connect(dsn), Database)


async def errors(db: Database) -> None:
    try:
        await db.execute("select 1")
    except onetrip.PostgresError as error:
        assert_type(error.sqlstate, str)
        assert_type(error.detail, Optional[str])
    except onetrip.Error as error:
        assert_type(error.is_retry_safe, bool)


async def redis(url: str) -> None:
    async with onetrip.redis.connect(url) as db:
        assert_type(await db.get("a"), Optional[str])
        assert_type(await db.bytes.get("a"), Optional[bytes])
        assert_type(await db.incr("a"), int)
        name, visits = db.get("name"), db.incr("visits")
        assert_type((await name, await visits), tuple[Optional[str], int])
        async with db.atomic() as tx:
            paid = tx.decrby("stock", 1)
        assert_type(await paid, int)
        async with db.subscribe("news") as messages:
            async for message in messages:
                assert_type(message.data, str)
        async with db.session() as session:
            await session.watch("a")


async def drop_in(dsn: str) -> None:
    async with onetrip.asyncpg.create_pool(dsn, min_size=1) as pool:
        assert_type(await pool.execute("select 1"), str)
        async with pool.acquire() as con, con.transaction():
            await con.fetch("select 1")
    con = await onetrip.asyncpg.connect(dsn)
    try:
        await con.execute("select 1")
    except onetrip.asyncpg.UniqueViolationError as error:
        print(error.constraint_name)
