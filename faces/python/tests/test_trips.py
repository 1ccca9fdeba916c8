"""What shares a trip, as the lab's proxy counts."""

from __future__ import annotations

import asyncio
import gc

import pytest

import onetrip
from conftest import Line


async def test_calls_of_one_turn_share_a_trip(far: onetrip.Database, line) -> None:
    assert await far.fetchval("select 1") + await far.fetchval("select 2") == 3
    line.trips
    first = far.fetchval("select 1")
    second = far.fetchval("select 2")
    assert await first == 1
    assert await second == 2
    assert line.trips == 1


async def test_a_text_is_described_once(far: onetrip.Database, line) -> None:
    line.trips
    assert await far.fetchval("select $1::int4 + 1", 1) == 2
    assert line.trips == 2
    calls = [far.fetchval("select $1::int4 + 1", i) for i in range(100)]
    assert [await call for call in calls] == list(range(1, 101))
    assert line.trips == 1


async def test_what_returns_no_rows_needs_no_description_for_texts(
    far: onetrip.Database, line
) -> None:
    line.trips
    assert await far.execute("create table notes (t text)") == "CREATE TABLE"
    assert await far.execute("insert into notes values ($1)", "x") == "INSERT 0 1"
    assert line.trips == 2
    assert await far.execute("drop table notes") == "DROP TABLE"


async def test_begin_and_commit_ride_along(far: onetrip.Database, line) -> None:
    await far.execute("create table rides (i int4)")
    async with far.begin() as tx:
        await tx.execute("insert into rides values ($1)", 1)
    line.trips
    async with far.begin() as tx:
        await tx.execute("insert into rides values ($1)", 2)
    assert line.trips == 2
    async with far.begin() as tx:
        tx_call = tx.execute("insert into rides values ($1)", 3)
    assert line.trips == 1
    assert await tx_call == "INSERT 0 1"
    assert await far.fetchval("select count(*) from rides") == 3
    await far.execute("drop table rides")


async def test_a_pipeline_is_one_trip(far: onetrip.Database, line) -> None:
    async with far.pipeline() as pipeline:
        pipeline.fetchval("select $1::int4", 0)
    line.trips
    async with far.pipeline() as pipeline:
        calls = [pipeline.fetchval("select $1::int4", i) for i in range(50)]
    assert line.trips == 1
    assert [await call for call in calls] == list(range(50))


async def test_new_texts_of_a_pipeline_are_described_in_one_trip(
    far: onetrip.Database, line: Line
) -> None:
    await far.fetchval("select 1")
    line.trips
    async with far.pipeline() as pipeline:
        pipeline.execute("create table made (i int4)")
        pipeline.execute("insert into made values ($1)", "1")
        calls = [pipeline.fetchval(f"select {n} + $1::int4", n) for n in range(5)]
    assert [await call for call in calls] == [0, 2, 4, 6, 8]
    assert line.trips == 2
    await far.execute("drop table made")


async def test_members_of_a_pipeline_need_not_be_awaited(
    db: onetrip.Database, recwarn: pytest.WarningsRecorder
) -> None:
    # What tests before this one have left is not meant.
    gc.collect()
    recwarn.clear()
    async with db.pipeline() as pipeline:
        pipeline.execute("select 1")
    del pipeline
    gc.collect()
    assert not recwarn.list


async def test_tasks_share_trips(far: onetrip.Database, line) -> None:
    await far.fetchval("select $1::int4", 0)
    line.trips
    tasks = [asyncio.create_task(far.fetchval("select $1::int4", i)) for i in range(20)]
    assert await asyncio.gather(*tasks) == list(range(20))
    assert line.trips <= 2


async def test_executemany_is_one_trip(far: onetrip.Database, line) -> None:
    await far.execute("create table many (i int4)")
    await far.executemany("insert into many values ($1)", [(0,)])
    line.trips
    await far.executemany("insert into many values ($1)", [(i,) for i in range(1000)])
    assert line.trips == 1
    assert await far.fetchval("select count(*) from many") == 1001
    await far.execute("drop table many")


async def test_reset_rides_with_the_next_statement(far: onetrip.Database, line) -> None:
    async with far.session() as session:
        await session.execute("set work_mem = '5MB'")
        assert await session.fetchval("show work_mem") == "5MB"
    line.trips
    assert await far.fetchval("show work_mem") == "4MB"
    assert line.trips == 1


async def test_a_lost_connection_is_replaced(line) -> None:
    async with onetrip.connect(line.url, connections_max=1) as db:
        sleeping = db.fetchval("select pg_sleep(10)::text")
        await asyncio.sleep(0)
        line.say("cut")
        try:
            await sleeping
        except onetrip.ConnectionLostError as error:
            assert error.outcome in ("Unknown", "NotSent")
        else:
            raise AssertionError("it ended as if nothing had happened")
        assert await db.fetchval("select 1") == 1
