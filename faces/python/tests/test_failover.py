"""What a client does, and what it says, when the server that takes writes changes. The standby of
`make python` can be promoted once."""

from __future__ import annotations

import asyncio
import os
from urllib.parse import urlsplit

import pytest

import onetrip

from conftest import URL, Line

STANDBY = os.environ.get("ONETRIP_TEST_STANDBY", "")
TABLE = "failover_rows"


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """One loop for all, since the standby can be promoted once."""
    return asyncio.DefaultEventLoopPolicy()


@pytest.mark.skipif(not STANDBY, reason="a standby asks for PostgreSQL 12")
def test_a_former_primary_gets_nothing_more() -> None:
    asyncio.run(asyncio.wait_for(failover(), 600))


async def failover() -> None:
    primary, standby = urlsplit(URL), urlsplit(STANDBY)
    both = URL.replace(
        f"127.0.0.1:{primary.port}", f"127.0.0.1:{standby.port},127.0.0.1:{primary.port}"
    )
    port = "select inet_server_port()"
    async with onetrip.connect(URL) as old, onetrip.connect(STANDBY) as new:
        await old.execute(f"create table {TABLE} (id int unique)")
        while not await new.fetchval(f"select to_regclass('{TABLE}') is not null"):
            pass
        async with onetrip.connect(f"{both}?target_session_attrs=read-write") as db:
            assert await db.fetchval(port) == primary.port
            hung = Hung(standby.port)
            await hung.hang(primary.port)
            async with db.session() as lent:
                assert await lent.fetchval(port) == primary.port
                assert await new.fetchval("select pg_promote()")
                # The next connection meets the new primary, and the client leaves the old one.
                async with db.session() as other:
                    assert await other.fetchval(port) == standby.port
                with pytest.raises(onetrip.Error) as lost:
                    await lent.execute(f"insert into {TABLE} values (1)")
                assert lost.value.code == "connection_lost"
                assert lost.value.outcome == "NotSent"
            for number in range(10):
                await db.execute(f"insert into {TABLE} values ($1)", 10 + number)
                assert await db.fetchval(port) == standby.port
            await hung.goes_on()
        assert await old.fetchval(f"select count(*) from {TABLE}") == 0
        assert await new.fetchval(f"select count(*) from {TABLE}") == 11


class Hung:
    """A client whose only connection leads to a network that swallows, and which has no deadline:
    only a look elsewhere meets the next primary."""

    def __init__(self, standby: int) -> None:
        self.line, self.standby = Line(), standby
        port = urlsplit(self.line.url).port
        both = self.line.url.replace(f":{port}", f":{port},127.0.0.1:{standby}")
        self.url = f"{both}?target_session_attrs=read-write&connect_timeout=2&connections_max=1"
        self.port = "select inet_server_port()"

    async def hang(self, primary: int) -> None:
        self.db = await onetrip.connect(self.url)
        assert await self.db.fetchval(self.port) == primary
        assert self.line.say("stall") == "ok"
        self.sent = asyncio.ensure_future(self.db.execute(f"insert into {TABLE} values (100)"))
        self.waits = asyncio.ensure_future(self.in_session())

    async def in_session(self) -> None:
        async with self.db.session() as session:
            await session.execute(f"insert into {TABLE} values (101)")

    async def goes_on(self) -> None:
        with pytest.raises(onetrip.Error) as lost:
            await self.sent
        assert (lost.value.code, lost.value.outcome) == ("connection_lost", "Unknown")
        await self.waits
        assert await self.db.fetchval(self.port) == self.standby
        await self.db.close()
        self.line.close()


def test_a_commit_that_did_not_wait_for_its_standby_is_unknown() -> None:
    asyncio.run(asyncio.wait_for(cancelled_wait(), 600))


async def cancelled_wait() -> None:
    local = f"{URL}?options=-csynchronous_commit%3Dlocal"
    async with onetrip.connect(URL) as db, onetrip.connect(local) as operator:
        await operator.execute("create table unconfirmed (id int)")
        await operator.execute("alter system set synchronous_standby_names = 'nobody'")
        await operator.execute("select pg_reload_conf()")
        try:
            acknowledged = 0
            while not (doubted := await doubt(db, operator)):
                # The checkpointer has not read the setting yet, and it says who waits.
                acknowledged += 1
            assert doubted.outcome == "Unknown"
            assert doubted.code == "sync_replication_canceled"
            stand = await operator.fetchval("select count(*) from unconfirmed")
            assert stand == acknowledged + 1
        finally:
            await operator.execute("alter system reset synchronous_standby_names")
            await operator.execute("select pg_reload_conf()")
        await operator.execute("drop table unconfirmed")


async def doubt(db: onetrip.Database, operator: onetrip.Database) -> onetrip.Error | None:
    """Writes, and cancels the wait for a standby. `None` if the write did not wait."""
    written = asyncio.ensure_future(db.execute("insert into unconfirmed values (1)"))
    cancel = (
        "select pg_cancel_backend(pid) from pg_stat_activity "
        "where wait_event = 'SyncRep' and backend_type = 'client backend'"
    )
    while not written.done() and not await operator.fetch(cancel):
        pass
    try:
        await written
    except onetrip.Error as error:
        return error
    return None


def test_a_connection_whose_server_turned_read_only_leaves() -> None:
    asyncio.run(asyncio.wait_for(turned_read_only(), 600))


async def write(db: onetrip.Database, first: int) -> None:
    # A server says what changed with its answer to the next statement.
    while await db.fetchval("select pg_backend_pid()") == first:
        pass
    await db.execute("insert into turned_read_only values (1)")


async def turned_read_only() -> None:
    writes = f"{URL}?target_session_attrs=read-write&connections_max=1"
    free = f"{URL}?options=-cdefault_transaction_read_only%3Doff"
    async with onetrip.connect(free) as operator, onetrip.connect(writes) as db:
        await operator.execute("create table turned_read_only (id int)")
        first: int = await db.fetchval("select pg_backend_pid()")
        await operator.execute("alter system set default_transaction_read_only = on")
        try:
            await operator.execute("select pg_reload_conf()")
            written = asyncio.ensure_future(write(db, first))
            there = "select count(*) from pg_stat_activity where pid = $1"
            while await operator.fetchval(there, first):
                pass
            assert not written.done()
        finally:
            await operator.execute("alter system reset default_transaction_read_only")
            await operator.execute("select pg_reload_conf()")
        await written
        assert await operator.fetchval("select count(*) from turned_read_only") == 1
        await operator.execute("drop table turned_read_only")
