"""Reads on replicas."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from . import Work
from .round import Round, expect

#: Reads at once behind each write.
DEPTH = 100
IDS = range(1, DEPTH + 1)


async def served(client: Any) -> None:
    await client.served()


async def slow(client: Any, round: Round) -> None:
    async def task(numbers: Iterator[int]) -> None:
        for _ in numbers:
            expect(await client.slow(), 1)

    await round.run(task)


async def points(client: Any, round: Round) -> None:
    for number in round.numbers()[::DEPTH]:
        expect(await client.behind(number // DEPTH % 1_000 + 1, IDS), list(IDS))


#: By so many seconds older than the delay is a position that replicas are to serve.
SETTLED = 0.1

#: Reads at once, of the newest write and of an older one.
AT_ONCE = 5


def late(delay: float) -> Callable[[Any, Round], Awaitable[list[float]]]:
    """Tasks that write numbers and read them, where standbys replay so many seconds late.

    An operation is a read of each task.
    """

    async def run(client: Any, round: Round) -> list[float]:
        found: Counter[str] = Counter()

        def see(rows: list[tuple[int, bool]], written: int) -> int:
            found["reads"] += len(rows)
            found["stale"] += sum(n < written for n, _ in rows)
            return len(rows)

        async def one(task: int) -> None:
            old: deque[tuple[float, int, Any]] = deque()
            n, left = 0, round.operations
            while left > 0:
                n += 1
                await client.write(task, n)
                found["writes"] += 1
                left -= see(await asyncio.gather(*(client.own(task) for _ in range(AT_ONCE))), n)
                old.append((time.monotonic(), n, await client.position()))
                since, written, position = old[0]
                if time.monotonic() - since < delay + SETTLED:
                    continue
                old.popleft()
                reads = (client.after(position, task) for _ in range(AT_ONCE))
                later = await asyncio.gather(*reads)
                left -= see(later, written)
                found["settled"] += len(later)
                found["served"] += sum(is_replica for _, is_replica in later)

        await asyncio.gather(*(one(task + 1) for task in range(round.in_flight)))
        return [found[it] for it in ("writes", "reads", "stale", "settled", "served")]

    return run


WORKS = {
    "replica_stale_0": Work(late(0), prepare=served),
    "replica_stale_10": Work(late(0.01), prepare=served),
    "replica_stale_1000": Work(late(1), prepare=served),
    "replica_slow": Work(slow, prepare=served),
    "replica_points": Work(points, prepare=served),
}
