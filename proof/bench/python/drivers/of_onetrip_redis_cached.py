"""onetrip's own client for Redis, with a cache."""

from __future__ import annotations

from typing import Any

import onetrip.redis

from .of_onetrip_redis import VERSION, Client

__all__ = ["VERSION", "open"]


async def open(url: str, task: dict[str, Any]) -> Client:
    return Client(await onetrip.redis.connect(url, cache="64MiB"))
