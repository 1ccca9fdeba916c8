"""What is measured, by name: how a round is run, and what is checked after it, outside the time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple


class Work(NamedTuple):
    #: Runs a round; what it returns are figures that it found by itself, or None.
    run: Callable[[Any, Any], Awaitable[list[float] | None]]
    #: Sums up what was read, so that all clients can be compared.
    validate: Callable[[Any], Awaitable[int]] | None = None
    prepare: Callable[[Any], Awaitable[None]] | None = None


def of(name: str) -> Work:
    from . import commands, driver_shapes, locks, many, replicas, results, selects, storm

    for module in (selects, results, many, driver_shapes, storm, commands, replicas, locks):
        if name in module.WORKS:
            work: Work = module.WORKS[name]
            return work
    raise KeyError(f"there is no work {name}")
