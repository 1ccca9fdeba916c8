"""redis-py, which parses by hiredis where that is there."""

from typing import Any

import redis.asyncio

from . import named
from .shape_of_redis import Client

VERSION = named("redis", "hiredis")


async def open(url: str, task: dict[str, Any]) -> Client:
    return Client(redis.asyncio, url, task)
