"""redis-py and its drop-in: the same calls, on either."""

from __future__ import annotations

from typing import Any


class Client:
    def __init__(self, module: Any, url: str, task: dict[str, Any]) -> None:
        # All that are in flight have a connection each: with a lower limit some would fail.
        self.db = module.from_url(url, max_connections=task["inFlight"])
        self.get = self.db.get

    async def close(self) -> None:
        await self.db.aclose()
