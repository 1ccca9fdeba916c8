"""What is run in a round, and how."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple


class Round(NamedTuple):
    in_flight: int
    operations: int
    #: The number of its first operation, which goes on from round to round.
    first: int

    def numbers(self) -> range:
        return range(self.first, self.first + self.operations)

    async def run(self, task: Callable[[Iterator[int]], Coroutine[Any, Any, None]]) -> None:
        """So many tasks at a time, which share the numbers.

        A task has its own loop: what a call of one more coroutine costs is not the clients'.
        """
        numbers = iter(self.numbers())
        if self.in_flight == 1:
            return await task(numbers)
        await asyncio.gather(*(task(numbers) for _ in range(self.in_flight)))


def expect(got: Any, wanted: Any) -> None:
    if got != wanted:
        raise wrong(got, wanted)


def wrong(got: Any, wanted: Any) -> ValueError:
    return ValueError(f"asked for {wanted!r}, got {got!r}")
