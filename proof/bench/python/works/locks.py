"""Tasks that lock a row and read beside their transaction, and tasks that update that row; and many
tasks of which each fifth statement is an update."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from . import Work
from .round import Round, wrong
from .selects import ITEM, ITEMS

LOCKERS, UPDATERS = 3, 6

#: Seconds of a round.
ROUND = 2

LOCK = "update locked set n = n + 1 where id = $1"
READ = "select n from locked where id = $1"

#: Rows that are updated, one in five statements.
COUNTERS = 10_000
UPDATE = "update counter set n = n + 1 where id = $1"


async def locks(client: Any, round: Round) -> list[float]:
    """Requests in a second, and for how many milliseconds none ended."""
    start = last = time.perf_counter()
    count, longest = 0, 0.0

    async def task(one: Callable[[], Awaitable[None]]) -> None:
        nonlocal count, last, longest
        while time.perf_counter() < start + ROUND:
            await one()
            now = time.perf_counter()
            longest, last, count = max(longest, now - last), now, count + 1

    async def lock_and_read() -> None:
        async with client.transaction() as own:
            await own.execute(LOCK, 1)
            await client.fetchval(READ, 7)

    async def update() -> None:
        await client.execute(LOCK, 1)

    tasks = [task(lock_and_read) for _ in range(LOCKERS)]
    await asyncio.gather(*tasks, *(task(update) for _ in range(UPDATERS)))
    return [count / (time.perf_counter() - start), longest * 1000]


async def mixed(client: Any, round: Round) -> None:
    fetchrow, execute = client.fetchrow, client.execute

    async def task(numbers: Iterator[int]) -> None:
        for number in numbers:
            id = number * 7919 % ITEMS + 1
            if number % 5 == 0:
                await execute(UPDATE, id % COUNTERS + 1)
                continue
            row = await fetchrow(ITEM, id)
            if row[0] != id:
                raise wrong(row, id)

    await round.run(task)


WORKS = {"locks": Work(locks), "mixed": Work(mixed)}
