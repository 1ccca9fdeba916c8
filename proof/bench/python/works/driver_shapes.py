"""The seven shapes of MagicStack's benchmark of drivers: so many connections of one worker each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from . import Work
from .round import Round, expect

#: Connections, and workers.
CONNECTIONS = 10

TYPES = (
    "select typname, typnamespace, typowner, typlen, typbyval, typcategory, typispreferred, "
    "typisdefined, typdelim, typrelid, typelem, typarray "
    "from pg_type where typtypmod = $1 and typisdefined = $2"
)
ROW = (10, 11, 10, "TESTTESTTEST", 10.333, 12341234, "123412341234")
COLUMNS = ("a", "b", "c", "d", "e", "f", "g")
INSERT = "insert into python_shape (a, b, c, d, e, f, g) values ($1, $2, $3, $4, $5, $6, $7)"


async def pg_type(on: Any) -> None:
    await on.fetch(TYPES, -1, True)


async def generate_series(on: Any) -> None:
    expect(len(await on.fetch("select i from generate_series(1, $1) as i", 1000)), 1000)


async def large_object(on: Any) -> None:
    expect(len(await on.fetch("select * from python_bytes")), 100)


async def arrays(on: Any) -> None:
    expect(len(await on.fetch("select * from python_arrays")), 10)


async def copyfrom(on: Any) -> None:
    rows = [ROW] * 10_000
    # The drop-in has asyncpg's call, and ours is called otherwise.
    if hasattr(on, "copy_records_to_table"):
        await on.copy_records_to_table("python_shape", columns=COLUMNS, records=rows)
    else:
        await on.copy_rows("python_shape", rows, columns=COLUMNS)


async def batch(on: Any) -> None:
    await on.executemany(INSERT, [ROW] * 1000)


async def oneplusone(on: Any) -> None:
    expect(len(await on.fetch("select 1+1")), 1)


def shape(one: Callable[[Any], Awaitable[None]]) -> Work:
    async def prepare(client: Any) -> None:
        client.workers = await client.sessions(CONNECTIONS)

    async def run(client: Any, round: Round) -> None:
        numbers = iter(round.numbers())

        async def worker(on: Any) -> None:
            for _ in numbers:
                await one(on)

        await asyncio.gather(*map(worker, client.workers))

    async def validate(client: Any) -> int:
        # What was written is of no more use.
        await client.workers[0].execute("truncate python_shape")
        return 0

    return Work(run, validate, prepare)


SHAPES = (pg_type, generate_series, large_object, arrays, copyfrom, batch, oneplusone)
WORKS = {one.__name__: shape(one) for one in SHAPES}
