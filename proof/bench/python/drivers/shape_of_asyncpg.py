"""What asyncpg and its drop-in have in common, which is all: the same calls, on either."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any


async def open(module: Any, url: str, task: dict[str, Any]) -> Client:
    if task["connections"] == 1:
        on = await module.connect(url)
        return Client(on, [on])
    count = task["connections"]
    pool = await module.create_pool(url, min_size=count, max_size=count)
    return Client(pool, [], lambda: module.connect(url))


class Client:
    """Its statements go to the pool, or over the one connection that there is."""

    def __init__(self, on: Any, own: list[Any], connect: Any = None) -> None:
        self.on, self.own, self._connect = on, own, connect
        self.fetch, self.fetchrow, self.fetchval = on.fetch, on.fetchrow, on.fetchval
        self.execute = on.execute
        self.executemany, self.fetchmany = on.executemany, on.fetchmany

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """A transaction on a connection of the pool."""
        async with self.on.acquire() as own, own.transaction():
            yield own

    async def store(self, table: str, rows: Sequence[Any]) -> None:
        await self.on.copy_records_to_table(table, records=rows)

    async def arrow(self, text: str) -> Any:
        """A table of Arrow from rows, by columns."""
        import pyarrow

        rows = await self.on.fetch(text)
        columns = (pyarrow.array(column) for column in zip(*rows, strict=True))
        return pyarrow.table(dict(zip(rows[0].keys(), columns, strict=True)))

    async def sessions(self, count: int) -> list[Any]:
        """Connections that one caller has each."""
        self.own = [await self._connect() for _ in range(count)]
        return self.own

    def lost(self) -> int:
        """Connections that were lost so far; of the drop-in."""
        return int(self.on._host.core.metrics()["lost"])

    async def close(self) -> None:
        for connection in self.own:
            await connection.close()
        if self._connect is not None:
            await self.on.close()
