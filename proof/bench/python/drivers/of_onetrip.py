"""onetrip's own calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onetrip

from . import named

VERSION = named("onetrip")


async def open(url: str, task: dict[str, Any]) -> Client:
    return Client(await onetrip.connect(url, connections_max=task["connections"]))


class Client:
    def __init__(self, db: onetrip.Database) -> None:
        self.db = db
        self.fetch, self.fetchrow, self.fetchval = db.fetch, db.fetchrow, db.fetchval
        self.execute = db.execute
        self.executemany, self.fetchmany = db.executemany, db.fetchmany
        self.own: list[Any] = []
        self.transaction = db.begin

    async def store(self, table: str, rows: Sequence[Any]) -> None:
        await self.db.copy_rows(table, rows)

    async def arrow(self, text: str) -> Any:
        import pyarrow

        return pyarrow.table(await self.db.fetch_arrow(text))

    async def sessions(self, count: int) -> list[Any]:
        """Connections that one caller has each."""
        self.own = [self.db.session() for _ in range(count)]
        return [await session.__aenter__() for session in self.own]

    def lost(self) -> int:
        """Connections that were lost so far."""
        return self.db.metrics().lost

    async def close(self) -> None:
        for session in self.own:
            await session.__aexit__(None, None, None)
        await self.db.close()
