"""Commands of Redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import Work
from .round import Round, wrong

#: The keys that the server was filled with, and their values.
COUNT = 1_000
KEYS = [f"bench:key:{number:06}" for number in range(COUNT)]
VALUES = [f"{number:064}".encode() for number in range(COUNT)]


async def get(client: Any, round: Round) -> None:
    get = client.get

    async def task(numbers: Iterator[int]) -> None:
        for number in numbers:
            at = number * 7919 % COUNT
            got = await get(KEYS[at])
            if got != VALUES[at]:
                raise wrong(got, VALUES[at])

    await round.run(task)


WORKS = {"get": Work(get)}
