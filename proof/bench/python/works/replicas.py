"""Reads on replicas."""

from __future__ import annotations

from collections.abc import Iterator
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


WORKS = {
    "replica_slow": Work(slow, prepare=served),
    "replica_points": Work(points, prepare=served),
}
