"""What a call returns, and what becomes of one that nobody waits for."""

from __future__ import annotations

import asyncio
import collections.abc
import gc
import random
import time
import warnings

import pytest

import onetrip

from conftest import PATIENCE, URL, Line, until_active


async def test_a_call_is_a_coroutine(db: onetrip.Database) -> None:
    call = db.fetchval("select 1")
    assert isinstance(call, collections.abc.Coroutine)
    assert asyncio.iscoroutine(call)
    assert await asyncio.create_task(call) == 1
    assert await asyncio.wait_for(db.fetchval("select 2"), 600) == 2
    assert await asyncio.gather(db.fetchval("select 3"), db.fetchval("select 4")) == [3, 4]
    with pytest.raises(RuntimeError, match="already awaited"):
        await call


async def test_shapes(db: onetrip.Database) -> None:
    rows = await db.fetch("select i, i * 2 as twice from generate_series(1, 3) i")
    assert rows == [(1, 2), (2, 4), (3, 6)]
    assert await db.fetchrow("select 1 as a where false") is None
    assert await db.fetchval("select 1 where false") is None
    assert await db.fetchval("select 1, 2", column=1) == 2
    assert await db.fetchval("select 1, 2", column=-1) == 2
    assert await db.execute("select 1") == "SELECT 1"


async def test_one_never_awaited_warns(db: onetrip.Database) -> None:
    await db.execute("create table dropped (i int4)")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        db.execute("insert into dropped values (1)")
        # Tests before this one may have left something to warn of, too.
        while not any("never awaited" in str(one.message) for one in caught):
            await db.fetchval("select 1")
            gc.collect()
    # It was sent all the same.
    assert await db.fetchval("select count(*) from dropped") == 1
    await db.execute("drop table dropped")


async def test_a_cancelled_call_harms_no_neighbour(db: onetrip.Database) -> None:
    async with onetrip.connect(URL, connections_max=1) as one:
        number = await one.fetchval("select pg_backend_pid()")
        async with db.begin() as holder:
            await holder.execute("select pg_advisory_xact_lock(1741)")
            waits = "select pg_advisory_xact_lock(1741)::text, 'slow'"
            slow = asyncio.ensure_future(one.fetchval(waits))
            calls = [one.fetchval("select $1::int4", i) for i in range(5)]
            neighbours = [asyncio.ensure_future(call) for call in calls]
            await until_active("'slow'")
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
        # The statement in front ran on or was stopped; whoever is behind it gets his own.
        assert await asyncio.wait_for(asyncio.gather(*neighbours), PATIENCE) == list(range(5))
        assert await one.fetchval("select pg_backend_pid()") == number


async def test_a_timeout_stops_the_statement(db: onetrip.Database) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(db.fetchval("select pg_sleep(30)::text, 'stops'"), 0.1)
    await until_active("'stops'", 0)


async def test_no_reply_is_anothers(db: onetrip.Database) -> None:
    """Callers that come, go and are cancelled at random, over connections that all share."""
    chance = random.Random(7)
    harmed: list[object] = []
    before = await db.fetchval("select count(*) from pg_stat_activity where usename is not null")

    async def caller(number: int) -> None:
        for turn in range(20):
            mark = number * 1000 + turn
            kind = chance.randrange(4)
            call: object
            if kind == 0:
                call = db.fetchval("select $1::int4", mark)
            elif kind == 1:
                call = db.fetchval("select $1::text", str(mark))
            elif kind == 2:
                call = db.fetchval("select $1::int4 from pg_sleep(0.001)", mark)
            else:
                call = db.fetchval("select i from generate_series($1::int4, $1 + 300) i", mark)
            task = asyncio.ensure_future(call)  # type: ignore[call-overload]
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() * 0.003)
                task.cancel()
            try:
                answer = await task
            except asyncio.CancelledError:
                continue
            except onetrip.Error as error:
                harmed.append(error)
                continue
            if int(answer) != mark:
                harmed.append((mark, answer))

    await asyncio.gather(*[caller(number) for number in range(100)])
    assert harmed == []
    connections, _, waiting = db._host.core.counts()
    assert connections <= 10 and waiting == 0
    after = await db.fetchval("select count(*) from pg_stat_activity where usename is not null")
    assert after <= before + 10


async def test_close_waits_for_what_was_sent() -> None:
    db = await onetrip.connect(URL)
    call = db.fetchval("select 5 from pg_sleep(0.05)")
    await db.close()
    assert await call == 5
    with pytest.raises(onetrip.MisuseError, match="closed"):
        await db.fetchval("select 1")


async def test_close_with_a_limit_ends_what_is_left() -> None:
    db = await onetrip.connect(URL)
    # The server runs it on when its client has left.
    text = f"select pg_sleep(30)::text, 'left {time.monotonic_ns()}'"
    call = asyncio.ensure_future(db.fetchval(text))
    await until_active(text)
    await db.close(timeout=0.05)
    with pytest.raises(onetrip.ConnectionLostError) as caught:
        await call
    assert caught.value.outcome == "Unknown"


async def test_another_thread_is_refused(db: onetrip.Database) -> None:
    def use() -> None:
        db.fetchval("select 1")

    with pytest.raises(RuntimeError, match="thread"):
        await asyncio.to_thread(use)


async def test_a_wrong_password_is_told_at_once() -> None:
    with pytest.raises(onetrip.PostgresError) as caught:
        await onetrip.connect(URL, password="wrong")
    assert caught.value.code == "28P01"
    assert "wrong" not in str(caught.value)


async def test_nobody_there() -> None:
    with pytest.raises(onetrip.ConnectionLostError, match="127.0.0.1:1"):
        await onetrip.connect("postgres://u@127.0.0.1:1/x", wait_timeout_ms=2000)


@pytest.mark.parametrize(
    ("dsn", "why"),
    [
        ("mysql://x", "begins with postgres"),
        ("postgres://h/x?colour=blue", "there is no keyword colour"),
        ("postgres://h/x?sslmode=maybe", "sslmode takes one of"),
        ("postgres://h:99999/x", "a port is a number"),
        ("postgres://h/x?connections_max=0", "must be at least 1"),
        ("postgres://h/x?service=y", "the service has no section in "),
    ],
)
def test_a_wrong_setting_is_named(dsn: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        onetrip.connect(dsn)


async def test_a_repeatable_read_is_sent_again_when_its_connection_is_lost(
    far: onetrip.Database, line: Line, db: onetrip.Database
) -> None:
    sql = "select pg_backend_pid(), pg_sleep(case when $1 = pg_backend_pid() then 60 else 0 end)"
    first = await far.fetchval("select pg_backend_pid()")
    slow = far.fetchval(sql, first, repeatable=True)
    task = asyncio.ensure_future(slow)
    running = "select count(*) from pg_stat_activity where pid = $1 and wait_event = 'PgSleep'"
    while not await db.fetchval(running, first):
        pass
    line.say("cut")
    assert await task != first
    assert far.metrics().sent_again == 1


async def test_a_repeatable_read_is_sent_again_when_the_connection_that_is_asked_about_it_is_lost(
    far: onetrip.Database, line: Line, db: onetrip.Database
) -> None:
    await db.execute("create table if not exists asked_about (id int)")
    await far.fetchval("select 1")
    async with db.begin() as tx:
        await tx.execute("lock asked_about in access exclusive mode")
        task = asyncio.ensure_future(
            far.fetchval("select count(*) from asked_about", repeatable=True)
        )
        waits = """select count(*) from pg_stat_activity
            where wait_event_type = 'Lock' and query like '%asked_about%'"""
        # A transaction sees one moment of it.
        while not await db.fetchval(waits):
            pass
        line.say("cut")
        assert not task.done()
    assert await task == 0
    await db.execute("drop table asked_about")


async def test_a_statement_that_may_not_run_twice_is_unknown_when_its_connection_is_lost(
    far: onetrip.Database, line: Line, db: onetrip.Database
) -> None:
    first = await far.fetchval("select pg_backend_pid()")
    task = asyncio.ensure_future(far.fetchval("select pg_sleep(60)::text"))
    running = "select count(*) from pg_stat_activity where pid = $1 and wait_event = 'PgSleep'"
    while not await db.fetchval(running, first):
        pass
    line.say("cut")
    with pytest.raises(onetrip.ConnectionLostError) as caught:
        await task
    assert caught.value.outcome == "Unknown"


async def test_what_is_repeatable_needs_no_connection_of_its_own(db: onetrip.Database) -> None:
    async with db.session() as session:
        with pytest.raises(onetrip.MisuseError, match="repeatable is not for a session") as caught:
            await session.fetchval("select 1", repeatable=True)
        assert caught.value.outcome == "NotSent"
        # Nor is a transaction committed without it.
        with pytest.raises(onetrip.errors.RolledBackError):
            async with session.begin() as tx:
                with pytest.raises(onetrip.MisuseError, match="repeatable is not for a session"):
                    await tx.fetchval("select 1", repeatable=True)


async def test_a_session_takes_several_statements_in_one_text(db: onetrip.Database) -> None:
    async with db.session() as session:
        assert await session.script("create temp table s (a int); insert into s values (1)") == (
            "INSERT 0 1"
        )
        assert await session.fetchval("select a from s") == 1
        with pytest.raises(onetrip.PostgresError) as caught:
            await session.script("insert into s values (2); select 1 / 0")
        assert caught.value.outcome == "Unknown"


async def test_what_undoes_many_is_told_also_where_their_rows_are_too_many() -> None:
    """`Applied` is said of what stands alone; rows that nobody reads count for nothing."""
    async with onetrip.connect(URL, result_bytes_max=4096) as db:
        await db.execute("create table many_large (n int primary key)")
        insert = "insert into many_large values ($1) returning repeat('x', 1000)"
        try:
            sets = [(n,) for n in range(40)]
            again = [*sets, (0,)]
            for many in (db.executemany, db.fetchmany):
                with pytest.raises(onetrip.errors.UniqueViolation) as undone:
                    await many(insert, again)
                assert undone.value.outcome == "Rejected"
                assert await db.fetchval("select count(*) from many_large") == 0
            assert await db.executemany(insert, sets) == 40
            with pytest.raises(onetrip.Error) as large:
                await db.fetchmany(insert, [(n + 100,) for n in range(40)])
            assert (large.value.code, large.value.outcome) == ("result_too_large", "Applied")
            assert await db.fetchval("select count(*) from many_large") == 80
            texts = "insert into many_large values ($1) on conflict do nothing"
            assert await db.executemany(texts, [(0,)] * 2000) == 0
        finally:
            await db.execute("drop table many_large")
