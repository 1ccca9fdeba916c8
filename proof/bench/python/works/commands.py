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


#: Those of the rows about caches.
HOT_KEYS = [f"bench:hot:{number:06}" for number in range(10_000)]
HOT_VALUES = [f"{key:>64}".encode() for key in HOT_KEYS]


def get_of(keys: list[str], values: list[bytes]) -> Work:
    async def get(client: Any, round: Round) -> None:
        get, count = client.get, len(keys)

        async def task(numbers: Iterator[int]) -> None:
            for number in numbers:
                at = number * 7919 % count
                got = await get(keys[at])
                if got != values[at]:
                    raise wrong(got, values[at])

        await round.run(task)

    return Work(get)


WORKS = {"get": get_of(KEYS, VALUES), "get_hot": get_of(HOT_KEYS, HOT_VALUES)}
