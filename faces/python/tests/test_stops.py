"""What is given up without async is stopped at the server, though nobody calls the client again; and
a server that answers nothing any more is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import onetrip
import onetrip.errors
from conftest import PATIENCE, URL
from onetrip.blocking import Database, Timeout, connect

ACTIVE = (
    "select count(*) from pg_stat_activity where application_name = $1 and state = 'active' and "
    "wait_event = 'PgSleep'"
)
NAME = "test_stops"
SLOW = "select pg_sleep(600)"


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return asyncio.DefaultEventLoopPolicy()


@pytest.fixture
def db() -> Iterator[Database]:
    with connect(URL, application_name=NAME, connections_max=2) as db:
        yield db
        db.close(0)


def of_transaction(act: Callable[[onetrip.blocking.Transaction], object]) -> Callable[[Database], None]:
    def acts(db: Database) -> None:
        with db.begin() as tx:
            act(tx)

    return acts


def of_session(act: Callable[[onetrip.blocking.Session], object]) -> Callable[[Database], None]:
    def acts(db: Database) -> None:
        with db.session() as session:
            act(session)

    return acts


def pipeline(db: Database) -> None:
    with db.pipeline() as pipeline:
        pipeline.execute("select 1")
        pipeline.execute(SLOW)


def copy_in(db: Database) -> None:
    with db.session() as session:
        session.execute("create temporary table t (n int check (pg_sleep(600) is not null))")
        session.copy_in("copy t from stdin", b"1\n2\n")


#: Two groups of an atomic batch, which are both under way.
MANY = [(0,)] * 1500

WAYS: dict[str, Callable[[Database], object]] = {
    "fetch": lambda db: db.fetch(SLOW),
    "executemany": lambda db: db.executemany("select pg_sleep($1::int)", [(600,), (600,)]),
    "stream": lambda db: list(db.stream(SLOW)),
    "stream of a session": of_session(lambda session: list(session.stream(SLOW))),
    "stream of a transaction": of_transaction(lambda tx: list(tx.stream(SLOW))),
    "copy_out": lambda db: list(db.copy_out(f"copy ({SLOW}) to stdout")),
    "copy_in": copy_in,
    "batch": lambda db: db.batch("select pg_sleep($1::int)", [(600,)]).atomic(),
    "long batch": lambda db: db.batch(
        "select pg_sleep($1::int)", [(600,), *MANY, (600,)]
    ).atomic(),
    "isolated batch": lambda db: db.batch("select pg_sleep($1::int)", [(600,)] * 3).isolated(),
    "pipeline": pipeline,
    "transaction": of_transaction(lambda tx: tx.fetch(SLOW)),
    "run": lambda db: db.run(lambda tx: tx.fetch(SLOW)),
}


@pytest.mark.parametrize("how", ["limit", "signal"])
@pytest.mark.parametrize("way", WAYS)
def test_the_server_is_asked_to_stop_what_is_given_up(db: Database, way: str, how: str) -> None:
    limit = Timeout(None)

    def when_active() -> None:
        with connect(URL) as other:
            end = time.monotonic() + PATIENCE
            while other.fetchval(ACTIVE, NAME) == 0 and time.monotonic() < end:
                pass
        if how == "limit":
            limit.cancel()
        else:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=when_active)
    thread.start()
    with pytest.raises(KeyboardInterrupt if how == "signal" else onetrip.errors.CancelledError), limit:
        WAYS[way](db)
    thread.join()
    # Nobody calls the client meanwhile.
    with connect(URL) as other:
        end = time.monotonic() + PATIENCE
        while other.fetchval(ACTIVE, NAME) > 0:
            assert time.monotonic() < end
    assert db.fetchval("select 1") == 1


@pytest.mark.parametrize("end", ["commit", "rollback"])
async def test_a_server_that_answers_nothing_any_more_keeps_no_connection(end: str) -> None:
    """P76. Its process is stopped, so that the kernel goes on to take bytes for it."""
    async with onetrip.connect(URL, connections_max=1) as db:
        pid = 0

        async def work() -> None:
            nonlocal pid
            async with db.begin() as tx:
                pid = await tx.fetchval("select pg_backend_pid()")
                os.kill(pid, signal.SIGSTOP)
                if end == "rollback":
                    await tx.fetchval("select 1")

        task = asyncio.ensure_future(work())
        try:
            while pid == 0:
                await asyncio.sleep(0)
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, PATIENCE)
            assert await asyncio.wait_for(db.fetchval("select 1"), PATIENCE) == 1
        finally:
            os.kill(pid, signal.SIGCONT)


async def test_a_statement_behind_a_released_savepoint_is_stopped() -> None:
    async with onetrip.connect(URL, application_name=NAME) as db:

        async def work() -> None:
            async with db.begin() as tx:
                async with tx.begin() as inner:
                    await inner.execute("select 1")
                await tx.execute(SLOW)

        async with onetrip.connect(URL) as other:
            task = asyncio.ensure_future(work())
            while await other.fetchval(ACTIVE, NAME) == 0:
                assert not task.done() or task.result()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, PATIENCE)
            end = time.monotonic() + PATIENCE
            while await other.fetchval(ACTIVE, NAME) > 0:
                assert time.monotonic() < end
