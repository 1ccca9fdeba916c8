"""psycopg 3, whose pipelines carry the statements of a connection."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from works.round import Round
from works.selects import statement_of

from . import named

VERSION = named("psycopg")


async def open(url: str, task: dict[str, Any]) -> Client:
    connect = psycopg.AsyncConnection.connect
    count = task["connections"]
    return Client([await connect(url, autocommit=True) for _ in range(count)])


class Client:
    def __init__(self, connections: list[psycopg.AsyncConnection[Any]]) -> None:
        self.connections = connections

    async def statements(self, round: Round) -> None:
        """Each connection sends its share of what is in flight as a pipeline, then reads it."""
        numbers = iter(round.numbers())
        size = round.in_flight // len(self.connections)

        async def work(connection: psycopg.AsyncConnection[Any]) -> None:
            while some := [number for _, number in zip(range(size), numbers)]:
                async with connection.pipeline():
                    cursors = []
                    for number in some:
                        text, of, _ = statement_of(number)
                        cursors.append(await connection.execute(text.replace("$1", "%s"), of))
                for number, cursor in zip(some, cursors):
                    row = await cursor.fetchone()
                    if row is None or row[0] != statement_of(number)[2]:
                        raise ValueError(f"statement {number} was answered {row}")

        await asyncio.gather(*map(work, self.connections))

    async def close(self) -> None:
        for connection in self.connections:
            await connection.close()
