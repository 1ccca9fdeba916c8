"""Results of many rows."""

from __future__ import annotations

from typing import Any

from . import Work
from .round import Round, expect

ROWS = 100_000
MILLION = 1_000_000


def rows(table: str) -> Work:
    """An operation is one select of all rows, as a list."""
    text = f"select * from {table}"

    async def run(client: Any, round: Round) -> None:
        for _ in round.numbers():
            expect(len(await client.fetch(text)), ROWS)

    async def validate(client: Any) -> int:
        found = await client.fetch(f"{text} order by 1 limit 100")
        # What is no number is compared as the text that it prints.
        return sum(sum(map(ord, f"{value}")) for row in found for value in row)

    return Work(run, validate)


async def arrow(client: Any, round: Round) -> None:
    for _ in round.numbers():
        expect((await client.arrow("select * from python_million")).num_rows, MILLION)


async def of_arrow(client: Any) -> int:
    """A sum over some of each column."""
    table = await client.arrow("select * from python_million where id <= 100 order by id")
    return sum(sum(map(ord, f"{value}")) for row in table.to_pylist() for value in row.values())


WORKS = {
    "numbers": rows("python_numbers"),
    "values": rows("python_values"),
    "arrow": Work(arrow, of_arrow),
}
