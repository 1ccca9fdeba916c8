"""Cancels and timeouts at random moments on shared connections: what becomes of the neighbours."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

from . import Work
from .round import Round

#: Who cancel, each on all connections.
TASKS = 8

TABLE = f"python_storm_{os.getpid()}"
INSERT = f"insert into {TABLE} (id) values ($1)"
MANY = "select $1::int, generate_series(1, 200)"
SLOW = "select $1::int + 0 * count(*)::int from pg_class"
QUICK = "select $1::int"


class Storm:
    def __init__(self, client: Any, first: int) -> None:
        self.client = client
        self.first = self.ids = first
        self.inserted: set[int] = set()
        self.neighbours = self.harmed = self.hit = self.late = 0

    def id(self) -> int:
        self.ids += 1
        return self.ids

    async def neighbour(self, kind: int) -> bool:
        """A statement that nobody cancels: whether its answer is its own, and whole."""
        id, client = self.id(), self.client
        if kind == 0:
            is_right = await client.execute(INSERT, id) == "INSERT 0 1"
            self.inserted.add(id)
            return is_right
        if kind == 1:
            rows = await client.fetch(MANY, id)
            return len(rows) == 200 and all(row[0] == id for row in rows)
        return bool(await client.fetchval(SLOW if kind == 2 else QUICK, id) == id)

    def some(self, chance: random.Random, most: int) -> list[asyncio.Task[bool]]:
        count = chance.randrange(most)
        return [asyncio.create_task(self.neighbour(chance.randrange(5))) for _ in range(count)]

    async def victim(self, id: int | None) -> None:
        if id is None:
            await self.client.execute("select pg_sleep($1)", 0.02)
        else:
            await self.client.execute(INSERT, id)
            self.inserted.add(id)

    async def strike(self, chance: random.Random) -> None:
        """One that is cancelled, or out of time, with neighbours in front and behind."""
        around = self.some(chance, 4)
        id = self.id() if chance.randrange(3) == 0 else None
        victim = self.victim(id)
        by_time = chance.randrange(2) == 0
        if by_time:
            victim = asyncio.wait_for(victim, chance.random() * 0.003)
        task = asyncio.ensure_future(victim)
        around += self.some(chance, 6)
        for _ in range(chance.randrange(20)):
            await asyncio.sleep(0)
        if not by_time:
            task.cancel()
        around += self.some(chance, 3)
        try:
            await task
            self.late += 1
        except (asyncio.CancelledError, asyncio.TimeoutError):
            self.hit += 1
        for done in await asyncio.gather(*around, return_exceptions=True):
            self.neighbours += 1
            self.harmed += done is not True

    async def compare(self) -> int:
        """Inserts that were confirmed and are not there, or are there twice.

        One that was cancelled may have run.
        """
        rows = await self.client.fetch(f"select id from {TABLE} where id > $1", self.first)
        found = [row[0] for row in rows]
        return len(self.inserted - set(found)) + len(found) - len(set(found))


async def prepare(client: Any) -> None:
    await client.execute(f"drop table if exists {TABLE}")
    await client.execute(f"create table {TABLE} (id int not null)")


async def storm(client: Any, round: Round) -> list[float]:
    # A strike has no more than 20 statements.
    it, left = Storm(client, round.first * 20), iter(round.numbers())

    async def task(seed: int) -> None:
        chance = random.Random(seed)
        for _ in left:
            await it.strike(chance)

    await asyncio.gather(*map(task, range(TASKS)))
    wrong = await it.compare()
    return [it.harmed + wrong, client.lost(), it.hit, it.late, it.neighbours]


WORKS = {"storm": Work(storm, None, prepare)}
