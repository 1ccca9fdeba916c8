"""onetrip's own client for Redis."""

from __future__ import annotations

from typing import Any

import onetrip.redis

from . import named

VERSION = named("onetrip")


async def open(url: str, task: dict[str, Any]) -> Client:
    return Client(await onetrip.redis.connect(url))


class Client:
    def __init__(self, db: Any) -> None:
        self.db = db
        self.get = db.bytes.get

    async def close(self) -> None:
        await self.db.close()
