"""SQLAlchemy on either dialect."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

SELECT = text("select name from item where id = :id")


def open(dialect: str, url: str, task: dict[str, Any]) -> Client:
    url = url.replace("postgres://", "postgresql://").replace("://", f"+{dialect}://")
    return Client(create_async_engine(url, pool_size=task["connections"]))


class Client:
    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    async def transaction(self, id: int) -> Any:
        """BEGIN, a select, COMMIT."""
        async with self.engine.begin() as connection:
            return await connection.scalar(SELECT, {"id": id})

    async def close(self) -> None:
        await self.engine.dispose()
