"""The driver of ADBC for PostgreSQL."""

from __future__ import annotations

from typing import Any

import adbc_driver_postgresql.dbapi as adbc

from . import named

VERSION = named("adbc-driver-postgresql")


async def open(url: str, task: dict[str, Any]) -> Client:
    return Client(adbc.connect(url.replace("postgres://", "postgresql://")))


class Client:
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def arrow(self, text: str) -> Any:
        """It blocks, and has the process for itself meanwhile."""
        with self.connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetch_arrow_table()

    async def close(self) -> None:
        self.connection.close()
