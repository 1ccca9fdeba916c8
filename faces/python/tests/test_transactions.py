"""Transactions, savepoints, sessions and pipelines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import onetrip
from onetrip.errors import SerializationError, UniqueViolation


@pytest.fixture
async def table(db: onetrip.Database) -> AsyncIterator[onetrip.Database]:
    await db.execute("create table things (i int4 primary key)")
    yield db
    await db.execute("drop table things")


async def things(db: onetrip.Database) -> list[int]:
    return [row["i"] for row in await db.fetch("select i from things order by i")]


async def test_a_block_commits_or_rolls_back(table: onetrip.Database) -> None:
    async with table.begin() as tx:
        await tx.execute("insert into things values ($1)", 1)
    with pytest.raises(ValueError):
        async with table.begin() as tx:
            await tx.execute("insert into things values ($1)", 2)
            raise ValueError
    assert await things(table) == [1]


async def test_modes(db: onetrip.Database) -> None:
    async with db.begin(isolation="repeatable_read", read_only=True) as tx:
        assert await tx.fetchval("show transaction_isolation") == "repeatable read"
        assert await tx.fetchval("show transaction_read_only") == "on"
    with pytest.raises(TypeError, match="isolation is"):
        async with db.begin(isolation="chaos"):  # type: ignore[arg-type]
            pass
    assert await db.fetchval("show transaction_isolation") == "read committed"


async def test_savepoints(table: onetrip.Database) -> None:
    async with table.begin() as tx:
        await tx.execute("insert into things values ($1)", 1)
        with pytest.raises(UniqueViolation):
            async with tx.begin() as inner:
                await inner.execute("insert into things values ($1)", 2)
                await inner.execute("insert into things values ($1)", 1)
        async with tx.begin() as inner:
            await inner.execute("insert into things values ($1)", 3)
            with pytest.raises(onetrip.MisuseError, match="a savepoint is open"):
                await tx.execute("insert into things values ($1)", 4)
    assert await things(table) == [1, 3]
    with pytest.raises(onetrip.MisuseError, match="is over"):
        await tx.execute("insert into things values ($1)", 5)


async def test_a_failed_transaction_does_not_commit(table: onetrip.Database) -> None:
    with pytest.raises(onetrip.Error) as caught:
        async with table.begin() as tx:
            await tx.execute("insert into things values ($1)", 1)
            with pytest.raises(UniqueViolation):
                await tx.execute("insert into things values ($1)", 1)
    assert caught.value.outcome == "Rejected"
    assert await things(table) == []


async def test_cancelled_inside_of_a_transaction(table: onetrip.Database) -> None:
    async def work() -> None:
        async with table.begin() as tx:
            await tx.execute("insert into things values ($1)", 1)
            await tx.execute("select pg_sleep(30)")

    task = asyncio.create_task(work())
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await things(table) == []


async def test_run_again_after_a_conflict(table: onetrip.Database) -> None:
    await table.execute("insert into things values (1)")
    tries = 0

    async def work(tx: onetrip.Transaction) -> int:
        nonlocal tries
        tries += 1
        await tx.fetch("select * from things")
        if tries == 1:
            # Somebody else is first.
            async with table.begin(isolation="serializable") as other:
                await other.execute("update things set i = i + 10")
        await tx.execute("update things set i = i + 100")
        return tries

    assert await table.run(work) == 2
    assert await things(table) == [111]
    with pytest.raises(SerializationError):
        tries = 0
        await table.run(work, attempts=1)


async def test_a_session_is_reset(db: onetrip.Database) -> None:
    async with db.session() as session:
        await session.execute("set work_mem = '5MB'")
        await session.execute("create temp table mine (i int4)")
        async with session.begin() as tx:
            await tx.execute("insert into mine values (1)")
        assert await session.fetchval("select count(*) from mine") == 1
        assert await session.fetchval("show work_mem") == "5MB"
    with pytest.raises(onetrip.MisuseError, match="released"):
        await session.fetchval("select 1")
    for _ in range(20):
        assert await db.fetchval("show work_mem") == "4MB"


@pytest.mark.parametrize(
    "text",
    ["begin", "set work_mem = '5MB'", "listen x", "create temp table x (i int4)", "select 1; select 2"],
)
async def test_what_belongs_to_a_session_is_refused(db: onetrip.Database, text: str) -> None:
    with pytest.raises(onetrip.MisuseError) as caught:
        await db.execute(text)
    assert caught.value.outcome == "NotSent"


async def test_order_is_kept_behind_a_description(table: onetrip.Database) -> None:
    async with table.begin() as tx:
        tx_first = tx.execute("insert into things values ($1) /* never seen */", 7)
        second = tx.fetchval("select count(*) from things")
        assert await second == 1
        await tx_first


async def test_a_pipeline_stands_or_falls(table: onetrip.Database) -> None:
    async with table.pipeline() as pipeline:
        first = pipeline.execute("insert into things values ($1)", 1)
        second = pipeline.fetchval("select count(*) from things")
    assert await first == "INSERT 0 1" and await second == 1
    with pytest.raises(UniqueViolation):
        async with table.pipeline() as pipeline:
            first = pipeline.execute("insert into things values ($1)", 2)
            second = pipeline.execute("insert into things values ($1)", 1)
            third = pipeline.execute("insert into things values ($1)", 3)
    for call, kind in ((first, onetrip.errors.RolledBackError), (second, UniqueViolation)):
        with pytest.raises(kind) as caught:
            await call
        assert caught.value.outcome == "Rejected"
    with pytest.raises(onetrip.Error):
        await third
    assert await things(table) == [1]


async def test_a_pipeline_with_an_argument_that_does_not_fit(table: onetrip.Database) -> None:
    with pytest.raises(onetrip.ParameterError):
        async with table.pipeline() as pipeline:
            first = pipeline.execute("insert into things values ($1)", 1)
            second = pipeline.execute("insert into things values ($1)", "x\0")
    for call in (first, second):
        with pytest.raises(onetrip.ParameterError):
            await call
    assert await things(table) == []


async def test_executemany_is_atomic(table: onetrip.Database) -> None:
    await table.executemany("insert into things values ($1)", ((i,) for i in range(3)))
    with pytest.raises(UniqueViolation):
        await table.executemany("insert into things values ($1)", [[5], [6], [1], [7]])
    with pytest.raises(onetrip.ParameterError, match="set 2 of arguments"):
        await table.executemany("insert into things values ($1)", [[5], [1.5]])
    assert await things(table) == [0, 1, 2]


async def test_errors_say_what_the_server_said(table: onetrip.Database) -> None:
    await table.execute("insert into things values (1)")
    with pytest.raises(onetrip.errors.IntegrityError) as caught:
        await table.execute("insert into things values ($1)", 1)
    error = caught.value
    assert (error.sqlstate, error.code, error.outcome) == ("23505", "23505", "Rejected")
    assert (error.table_name, error.constraint_name) == ("things", "things_pkey")
    assert error.detail == "Key (i)=(1) already exists."
    with pytest.raises(onetrip.errors.UndefinedTableError):
        await table.fetch("select * from nowhere where i = $1", 5)


async def test_a_table_that_changes_is_described_anew(table: onetrip.Database) -> None:
    text = "select * from things where i = $1"
    await table.execute("insert into things values (1)")
    assert await table.fetch(text, 1) == [(1,)]
    await table.execute("alter table things add b text default 'x'")
    assert await table.fetch(text, 1) == [(1, "x")]
    await table.execute("alter table things alter i type text")
    with pytest.raises(onetrip.Error):
        await table.fetch(text, 1)
    assert await table.fetch(text, "1") == [("1", "x")]
    await table.execute("alter table things alter i type int4 using i::int4")
