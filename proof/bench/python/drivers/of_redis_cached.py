"""redis-py with a cache, which only its synchronous client has."""

from __future__ import annotations

from typing import Any

import redis
from redis.cache import CacheConfig

from .of_redis import VERSION

__all__ = ["VERSION", "open"]

#: More than there are keys.
ENTRIES = 20_000


async def open(url: str, task: dict[str, Any]) -> Client:
    return Client(redis.from_url(url, protocol=3, cache_config=CacheConfig(max_size=ENTRIES)))


class Client:
    def __init__(self, db: Any) -> None:
        self.db = db

    async def get(self, key: str) -> Any:
        return self.db.get(key)

    async def close(self) -> None:
        self.db.close()
