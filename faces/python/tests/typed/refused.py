"""A program of mistakes. Type checkers have to refuse each line with such a mark, and no other."""

from __future__ import annotations

from dataclasses import dataclass

import onetrip
import onetrip.redis


@dataclass
class User:
    id: int


async def statements(db: onetrip.Database) -> None:
    await db.fetch(1)  # refused
    await db.fetch(b"select 1")  # refused
    await db.fetch(query="select 1")  # refused
    await db.fetch("select 1", into=5)  # refused
    await db.execute("select 1", repeatable=True)  # refused
    await db.fetchval("select 1", column="a")  # refused
    await db.executemany("select $1", [1, 2])  # refused
    number: int = await db.execute("select 1")  # refused
    rows: list[User] = await db.fetch("select 1")  # refused
    user: User = await db.fetchrow("select 1", into=User)  # refused
    print(number, rows, user)
    db.fetch("select 1")[0]  # refused
    (await db.fetchrow("select 1"))["a"]  # refused
    async with db.begin(isolation="chaos"):  # refused
        pass
    with db.begin():  # refused
        pass
    async with db.begin() as tx:
        tx.begin(isolation="serializable")  # refused
        tx.session()  # refused
    async with db.pipeline() as pipeline:
        pipeline.stream("select 1")  # refused
    for _ in db.stream("select 1"):  # refused
        pass
    await db.copy_in("copy t from stdin")  # refused
    await db.copy_rows("t", columns=["a"])  # refused
    db.listen(1)  # refused
    db.metrics().lost = 5  # refused
    onetrip.connect(5)  # refused


async def redis(db: onetrip.redis.Client[str]) -> None:
    text: str = await db.get("a")  # refused
    data: bytes | None = await db.get("a")  # refused
    print(text, data)
    await db.incrby("a", "x", 5)  # refused
    db.no_such_command("a")  # refused
    async with db.session() as session:
        session.no_such_command("a")  # refused
    db.watch("a")  # refused
