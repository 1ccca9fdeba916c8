"""asyncpg."""

from typing import Any

import asyncpg

from . import named, shape_of_asyncpg

VERSION = named("asyncpg")


async def open(url: str, task: dict[str, Any]) -> shape_of_asyncpg.Client:
    return await shape_of_asyncpg.open(asyncpg, url, task)
