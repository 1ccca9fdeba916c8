"""The drop-in for asyncpg."""

from typing import Any

import onetrip.asyncpg

from . import named, shape_of_asyncpg

VERSION = named("onetrip")


async def open(url: str, task: dict[str, Any]) -> shape_of_asyncpg.Client:
    return await shape_of_asyncpg.open(onetrip.asyncpg, url, task)
