"""What was not sent when its connection ended goes on on another one, and runs once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import onetrip
import onetrip.blocking

from conftest import URL, Line

TABLE = "goes_on"
INSERT = f"insert into {TABLE} values ($1, $2)"
NAME = "goes on"
PATIENCE = 120


@pytest.fixture
async def observer(db: onetrip.Database) -> AsyncIterator[onetrip.Database]:
    await db.execute(f"drop table if exists {TABLE}")
    await db.execute(f"create table {TABLE} (id int, what text)")
    yield db
    # Behind a line that was cut the server does not notice that it sleeps for nobody.
    await db.fetch(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1", NAME
    )
    await db.execute(f"drop table {TABLE}")


def connect(url: str = URL, **more: Any) -> Any:
    """One statement at a time is sent, on one connection; the others wait there."""
    options = {"connections_max": 1, "in_flight_max": 1, "application_name": NAME, **more}
    return onetrip.connect(url, **options)


async def sleeper(observer: onetrip.Database, but: int = 0) -> int:
    """The process of the client that sleeps, other than that one."""
    query = """select pid from pg_stat_activity
        where application_name = $1 and wait_event = 'PgSleep' and pid <> $2"""
    async with asyncio.timeout(PATIENCE):
        while (pid := await observer.fetchval(query, NAME, but)) is None:
            pass
    return int(pid)


async def kill(observer: onetrip.Database, but: int = 0) -> int:
    """Ends the connection whose statement sleeps; what else is on it was not sent."""
    pid = await sleeper(observer, but)
    assert await observer.fetchval("select pg_terminate_backend($1)", pid)
    return pid


async def ids(observer: onetrip.Database) -> list[int]:
    return [row[0] for row in await observer.fetch(f"select id from {TABLE} order by 1")]


async def outcome(call: Any) -> str:
    try:
        await call
        return "done"
    except onetrip.Error as error:
        return error.outcome


async def test_what_was_not_sent_goes_on_whichever_way_it_is_sent(
    observer: onetrip.Database,
) -> None:
    async with connect(prepare_threshold=2) as db:
        for number in range(3):
            await db.execute(INSERT, number, "before")
        head = db.execute("select pg_sleep(60)")
        calls = [db.execute(INSERT, 10 + number, "prepared") for number in range(5)]
        calls.append(db.execute(f"insert into {TABLE} values (20, 'no parameters')"))
        calls.append(db.execute(f"insert into {TABLE} (id) values ($1)", 21))
        rows = db.fetch("select generate_series(1, $1::int)", 5)
        row = db.fetchrow("select $1::text, $2::int8, $3::bytea", "x", 7, b"\0")
        await kill(observer)
        assert await outcome(head) == "Unknown"
        await asyncio.gather(*calls)
        assert [row[0] for row in await rows] == [1, 2, 3, 4, 5]
        assert tuple(await row) == ("x", 7, b"\0")
        metrics = db.metrics()
        assert (metrics.lost, metrics.failed) == (1, 1)
    assert await ids(observer) == [*range(3), *range(10, 15), 20, 21]


async def test_what_goes_on_can_be_cancelled(observer: onetrip.Database) -> None:
    async with connect() as db:
        await db.execute(INSERT, 0, "known")
        head = asyncio.ensure_future(outcome(db.execute("select pg_sleep(60)")))
        late, given_up = (asyncio.ensure_future(db.execute(INSERT, n, "")) for n in (1, 2))
        # Another caller has the only connection that comes next.
        lease = db.session()
        session = asyncio.ensure_future(lease.__aenter__())
        await kill(observer)
        assert await head == "Unknown"
        lent = await session
        assert await lent.fetchval("select 1") == 1
        assert not late.done() and not given_up.done()
        given_up.cancel()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(late, 0.05)
        with pytest.raises(asyncio.CancelledError):
            await given_up
        await lease.__aexit__(None, None, None)
        assert await db.fetchval("select 1") == 1
    assert await ids(observer) == [0]


async def test_what_was_given_up_before_its_connection_ended_does_not_go_on(
    observer: onetrip.Database,
) -> None:
    async with connect() as db:
        await db.execute(INSERT, 0, "known")
        head = asyncio.ensure_future(outcome(db.execute("select pg_sleep(60)")))
        given_up = asyncio.ensure_future(db.execute(INSERT, 1, ""))
        pid = await sleeper(observer)
        given_up.cancel()
        assert await observer.fetchval("select pg_terminate_backend($1)", pid)
        assert await head == "Unknown"
        assert await db.fetchval("select 1") == 1
    assert await ids(observer) == [0]


async def test_what_goes_on_waits_no_longer_than_wait_timeout(
    observer: onetrip.Database, line: Line
) -> None:
    async with connect(line.url, wait_timeout_ms=3000) as db:
        await db.execute(INSERT, 0, "known")
        head = asyncio.ensure_future(outcome(db.execute("select pg_sleep(60)")))
        waits = asyncio.ensure_future(outcome(db.execute(INSERT, 1, "")))
        await sleeper(observer)
        began = time.monotonic()
        line.say("down")
        assert await head == "Unknown"
        assert await waits == "NotSent"
        assert 0.2 < time.monotonic() - began < PATIENCE
        line.say("up")
        assert await db.fetchval("select 1") == 1
    assert await ids(observer) == [0]


async def test_after_eight_losses_it_was_not_sent(observer: onetrip.Database) -> None:
    async with connect() as db:
        await db.execute("select pg_sleep($1)", 0.0)
        ends = [db.execute("select pg_sleep($1)", 60.0) for _ in range(11)]
        tasks = [asyncio.ensure_future(outcome(end)) for end in ends]
        pid = 0
        for _ in range(9):
            pid = await kill(observer, pid)
        async with asyncio.timeout(PATIENCE):
            assert await asyncio.gather(*tasks) == 9 * ["Unknown"] + 2 * ["NotSent"]


async def test_what_belongs_together_does_not_go_on(observer: onetrip.Database) -> None:
    async with connect() as db:
        await db.execute(INSERT, 0, "known")
        head = asyncio.ensure_future(outcome(db.execute("select pg_sleep(60)")))

        async def insert_two() -> None:
            async with db.pipeline() as pipeline:
                calls = [pipeline.execute(INSERT, number, "") for number in (1, 2)]
            await asyncio.gather(*calls)

        pipelined = asyncio.ensure_future(outcome(insert_two()))
        await kill(observer)
        assert await head == "Unknown"
        assert await pipelined == "NotSent"
        async with db.session() as session:
            slept = asyncio.ensure_future(outcome(session.execute("select pg_sleep(60)")))
            behind = asyncio.ensure_future(outcome(session.execute(INSERT, 3, "")))
            await kill(observer)
            assert (await slept, await behind) == ("Unknown", "NotSent")
    assert await ids(observer) == [0]


async def test_while_connections_are_killed_nothing_fails_as_not_sent_or_runs_twice(
    observer: onetrip.Database,
) -> None:
    """As many kills as a statement gets in line again at most. Each ends one connection: from one
    that has ended, a statement may go to another whose end was not seen yet."""
    kills, claims, stops = 8, {}, False

    async def writer(first: int) -> None:
        number = first
        while not stops:
            claims[number] = await outcome(db.execute(INSERT, number, "under load"))
            number += 1

    async with connect(connections_max=3, in_flight_max=2) as db:
        await db.execute(INSERT, -1, "known")
        tasks = [asyncio.ensure_future(writer(task * 100_000)) for task in range(32)]
        processes = "from pg_stat_activity where application_name = $1"
        try:
            for _ in range(kills):
                async with asyncio.timeout(PATIENCE):
                    while not await observer.fetchval(f"select count(*) {processes}", NAME):
                        pass
                await observer.fetch(f"select pg_terminate_backend(pid) {processes} limit 1", NAME)
        finally:
            stops = True
        await asyncio.gather(*tasks)
    there = await ids(observer)
    assert len(there) == len(set(there)), "none ran twice"
    assert set(claims.values()) <= {"done", "Unknown"}
    done = {number for number, claim in claims.items() if claim == "done"}
    assert done <= set(there) and set(there) <= set(claims) | {-1}


async def test_a_blocking_call_goes_on(observer: onetrip.Database) -> None:
    def insert(number: int) -> str:
        return db.execute(INSERT, number, "blocking")

    def sleep() -> str:
        try:
            return db.execute("select pg_sleep(60)")
        except onetrip.Error as error:
            return error.outcome

    options = {"connections_max": 1, "in_flight_max": 1, "application_name": NAME}
    with onetrip.blocking.connect(URL, **options) as db, ThreadPoolExecutor(5) as threads:
        insert(0)
        head = threads.submit(sleep)
        pid = await sleeper(observer)
        calls = [threads.submit(insert, number) for number in range(1, 5)]
        async with asyncio.timeout(PATIENCE):
            while db.metrics().queued < 4:
                await asyncio.sleep(0)
        assert await observer.fetchval("select pg_terminate_backend($1)", pid)
        assert await asyncio.wrap_future(head) == "Unknown"
        await asyncio.gather(*map(asyncio.wrap_future, calls))
    assert await ids(observer) == [0, 1, 2, 3, 4]
