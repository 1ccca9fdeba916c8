"""coredis."""

from __future__ import annotations

from typing import Any

import coredis

from . import named

VERSION = named("coredis")


async def open(url: str, task: dict[str, Any]) -> Client:
    client = Client(coredis.Redis.from_url(url))
    await client.db.__aenter__()
    return client


class Client:
    def __init__(self, db: Any) -> None:
        self.db = db
        self.get = db.get

    async def close(self) -> None:
        await self.db.__aexit__(None, None, None)
