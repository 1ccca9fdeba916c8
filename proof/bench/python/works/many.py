"""Many rows that are written."""

from __future__ import annotations

import os
from typing import Any

from . import Work
from .round import Round, expect

#: An operation writes so many.
SETS = 5_000

#: Stored by each of these works, in a table of the process's own.
ROWS = [(number, f"name {number}", number * 0.5, number % 2 == 0) for number in range(SETS)]

TABLE = f"python_written_{os.getpid()}"
INSERT = f"insert into {TABLE} (id, name, price, ok) values ($1, $2, $3, $4)"


async def prepare(client: Any) -> None:
    await client.execute(f"drop table if exists {TABLE}")
    await client.execute(
        f"create unlogged table {TABLE} (id int, name text, price float8, ok bool)"
    )


async def executemany(client: Any, round: Round) -> None:
    for _ in round.numbers():
        await client.executemany(INSERT, ROWS)


async def fetchmany(client: Any, round: Round) -> None:
    for _ in round.numbers():
        rows = await client.fetchmany(f"{INSERT} returning id", ROWS)
        expect((len(rows), rows[-1][0]), (SETS, SETS - 1))


async def copy_in(client: Any, round: Round) -> None:
    for _ in round.numbers():
        await client.store(TABLE, ROWS)


async def validate(client: Any) -> int:
    """All that was written is there, and makes room for the next round."""
    row = await client.fetchrow(
        f"select count(*) % {SETS}, sum(id) / count(*), min(name), max(name) from {TABLE}"
    )
    expect(tuple(row), (0, (SETS - 1) // 2, "name 0", "name 999"))
    await client.execute(f"truncate {TABLE}")
    return 0


WORKS = {
    "executemany": Work(executemany, validate, prepare),
    "fetchmany": Work(fetchmany, validate, prepare),
    "copy_in": Work(copy_in, validate, prepare),
}
