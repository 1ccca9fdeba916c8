"""One statement for many rows of arguments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

import onetrip

from conftest import Line

INSERT = "insert into batched values ($1)"


@pytest.fixture
async def table(db: onetrip.Database) -> AsyncIterator[onetrip.Database]:
    await db.execute("drop table if exists batched")
    await db.execute("create table batched (i int4 primary key check (i >= 0))")
    yield db
    await db.execute("drop table batched")


async def count(db: onetrip.Database) -> int:
    return int(await db.fetchval("select count(*) from batched"))


@pytest.mark.parametrize("size", [0, 1, 1024, 1025, 5000])
async def test_an_atomic_batch_says_how_many_rows_were_affected(
    table: onetrip.Database, size: int
) -> None:
    assert await table.batch(INSERT, ((i,) for i in range(size))).atomic() == size
    assert await count(table) == size


@pytest.mark.parametrize("bad", [0, 700, 1024, 4321, 4999])
async def test_an_atomic_batch_with_a_row_that_fails_leaves_nothing_and_names_it(
    table: onetrip.Database, bad: int
) -> None:
    rows = ((-1 if i == bad else i,) for i in range(5000))
    with pytest.raises(onetrip.PostgresError) as caught:
        await table.batch(INSERT, rows).atomic()
    assert (caught.value.code, caught.value.outcome) == ("23514", "Rejected")
    assert caught.value.index == bad
    assert await count(table) == 0


@pytest.mark.parametrize("bad", [3, 3000])
async def test_an_atomic_batch_with_a_row_that_can_not_be_encoded_leaves_nothing(
    table: onetrip.Database, bad: int
) -> None:
    rows = ((2**40 if i == bad else i,) for i in range(5000))
    with pytest.raises(onetrip.ParameterError) as caught:
        await table.batch(INSERT, rows).atomic()
    assert caught.value.index == bad
    assert await count(table) == 0


async def test_an_atomic_batch_takes_rows_as_they_are_sent(table: onetrip.Database) -> None:
    taken, most = 0, 0

    def rows() -> Iterator[tuple[int]]:
        nonlocal taken, most
        for taken in range(20_000):
            yield (taken,)

    async def watch() -> None:
        nonlocal most
        while True:
            before = taken
            await asyncio.sleep(0)
            most = max(most, taken - before)

    watching = asyncio.create_task(watch())
    await table.batch(INSERT, rows()).atomic()
    watching.cancel()
    assert most <= 3 * 1024


async def test_a_short_atomic_batch_is_one_trip(far: onetrip.Database, line: Line) -> None:
    sql = "select $1::int4"
    await far.batch(sql, [(1,)]).atomic()
    assert line.trips >= 0
    await far.batch(sql, [(i,) for i in range(1000)]).atomic()
    assert line.trips == 1


async def test_a_batch_in_a_transaction_is_a_part_of_it(table: onetrip.Database) -> None:
    with pytest.raises(ValueError):
        async with table.begin() as tx:
            assert await tx.batch(INSERT, [(i,) for i in range(3000)]).atomic() == 3000
            with pytest.raises(onetrip.MisuseError, match="atomic"):
                await tx.batch(INSERT, [(1,)]).isolated()
            raise ValueError
    assert await count(table) == 0


async def test_an_isolated_batch_reports_each_row_that_failed(table: onetrip.Database) -> None:
    rows = [(i if i % 100 else -1,) for i in range(2000)] + [(2**40,), (1,)]
    report = await table.batch(INSERT, rows).isolated()
    assert report.taken == 2002
    assert report.affected == 1980
    assert list(report.errors) == [*range(0, 2000, 100), 2000, 2001]
    assert {type(error).__name__ for error in report.errors.values()} == {
        "CheckViolation",
        "ParameterError",
        "UniqueViolation",
    }
    assert await count(table) == 1980


async def test_an_isolated_batch_on_a_lost_connection_takes_no_more_rows(
    table: onetrip.Database,
) -> None:
    rows = ((i,) for i in range(100_000))
    sql = (
        "insert into batched select $1 where $1 < 500 or "
        "pg_terminate_backend(pg_backend_pid())"
    )
    report = await table.batch(sql, rows).isolated()
    assert report.taken < 2000
    assert await count(table) == 500
    # The end of the connection may have overtaken the last answers.
    assert report.affected == min(report.errors) <= 500
    assert {error.outcome for i, error in report.errors.items() if i < 500} <= {"Unknown"}


async def test_more_sets_than_a_queue_has_places_are_one_transaction(db: onetrip.Database) -> None:
    """Each is longer than what leaves together otherwise."""
    async with db.session() as session:
        await session.execute("create temporary table long (n int primary key, t text)")
        sets = [(n, "x" * 40_000 if n > 0 else "") for n in range(17_000)]
        insert = "insert into long select $1, left($2, 1)"
        assert await session.executemany(insert, sets) == 17_000
        with pytest.raises(onetrip.errors.UniqueViolation) as error:
            await session.executemany(insert, [(17_000, ""), *sets])
        assert error.value.index == 1
        assert await session.fetchval("select count(*) from long") == 17_000
