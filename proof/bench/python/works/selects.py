"""Selects of one row."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from . import Work
from .round import Round, expect, wrong

#: Rows of the table.
ITEMS = 100_000

VALUE = "select $1::int"
ITEM = "select id, name, created, price, active, doc from item where id = $1"

#: Different statements, each with what it returns for an id.
STATEMENTS = (
    ("select id, name, price from item where id = $1::int", lambda id: id),
    ("select name, created from item where id = $1::int", lambda id: f"item number {id}"),
    ("select id, active, doc from item where id = $1::int", lambda id: id),
    ("select price, id from item where id = $1::int", lambda id: id * 0.25),
    ("select $1::int", lambda id: id),
    ("select $1::int + 1, 'a text', true", lambda id: id + 1),
    ("select count(*) from item where id between $1::int and 0", lambda id: 0),
    ("select id, created, name from item where id = $1::int and id > 0", lambda id: id),
)


def id_of(number: int) -> int:
    # Neighbours in time are not neighbours in the table.
    return number * 7919 % ITEMS + 1


def statement_of(number: int) -> tuple[str, tuple[int], Any]:
    """A text, its argument, and the first value of its row."""
    id = id_of(number)
    text, answer = STATEMENTS[number % len(STATEMENTS)]
    return text, (id,), answer(id)


async def value(client: Any, round: Round) -> None:
    fetchval = client.fetchval

    async def task(numbers: Iterator[int]) -> None:
        for number in numbers:
            got = await fetchval(VALUE, number)
            if got != number:
                raise wrong(got, number)

    await round.run(task)


async def item(client: Any, round: Round) -> None:
    fetchrow = client.fetchrow

    async def task(numbers: Iterator[int]) -> None:
        for number in numbers:
            id = number * 7919 % ITEMS + 1
            row = await fetchrow(ITEM, id)
            if row[0] != id:
                raise wrong(row, id)

    await round.run(task)


async def latency(client: Any, round: Round) -> list[float]:
    """The median of what one takes, in microseconds."""
    times = []
    for number in round.numbers():
        id = id_of(number)
        before = time.perf_counter_ns()
        row = await client.fetchrow(ITEM, id)
        times.append(time.perf_counter_ns() - before)
        expect(row[0], id)
    return [median(times) / 1000]


async def statements(client: Any, round: Round) -> None:
    if hasattr(client, "statements"):
        return await client.statements(round)

    fetchrow = client.fetchrow

    async def task(numbers: Iterator[int]) -> None:
        for number in numbers:
            text, (id,), wanted = statement_of(number)
            row = await fetchrow(text, id)
            if row[0] != wanted:
                raise wrong(row, wanted)

    await round.run(task)


async def transaction(client: Any, round: Round) -> None:
    for number in round.numbers():
        id = id_of(number)
        expect(await client.transaction(id), f"item number {id}")


async def of_two_columns(client: Any) -> int:
    """The sum that the row in Rust makes of what it has read is of these columns, too."""
    rows = [await client.fetchrow(ITEM, id) for id in (1, 2, ITEMS)]
    return sum(row[0] + len(row[1]) for row in rows)


WORKS = {
    "value": Work(value),
    "item": Work(item, of_two_columns),
    "latency": Work(latency, of_two_columns),
    "statements": Work(statements),
    "transaction": Work(transaction),
}
