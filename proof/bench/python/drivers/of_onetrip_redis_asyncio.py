"""The drop-in for redis-py."""

from typing import Any

import onetrip.redis.asyncio

from . import named
from .shape_of_redis import Client

VERSION = named("onetrip")


async def open(url: str, task: dict[str, Any]) -> Client:
    return Client(onetrip.redis.asyncio, url, task)
