"""onetrip's own calls, for reads on the replicas of a primary. The URL names the primary first."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

import onetrip

from . import named

VERSION = named("onetrip")

#: ``alone`` is the primary alone.
Way = Literal["guarded", "stale", "alone"]


def opening(way: Way) -> Callable[[str, dict[str, Any]], Awaitable[Client]]:
    async def open(url: str, task: dict[str, Any]) -> Client:
        match = re.match(r"(.*@)([^/]*)(/[^?]*)", url)
        assert match is not None
        login, hosts, database = match.groups()
        each = [f"{login}{host}{database}" for host in hosts.split(",")]
        target = each[0] if way == "alone" else url
        db = await onetrip.connect(target, connections_max=task["connections"])
        standbys = [await onetrip.connect(it, connections_max=1) for it in each[1:]]
        primary = int(hosts.split(",")[0].split(":")[1])
        return Client(db, standbys, way, primary)

    return open


class Client:
    def __init__(
        self, db: onetrip.Database, standbys: list[onetrip.Database], way: Way, primary: int
    ) -> None:
        self.db, self.standbys, self.way, self.primary = db, standbys, way, primary
        self.reads: Any = db if way == "alone" else db.reads()

    async def served(self) -> None:
        """Waits until all servers serve reads."""
        ports = [await it.fetchval("select inet_server_port()") for it in self.standbys]
        missing = set() if self.way == "alone" else set(ports)
        query = "select inet_server_port() where to_regclass('hot') is not null"
        while missing:
            missing.discard(await self.db.reads().stale().fetchval(query))

    def slow(self) -> Awaitable[Any]:
        return self.reads.fetchval("select 1 from pg_sleep(0.005)")

    async def behind(self, number: int, ids: Sequence[int]) -> list[Any]:
        """Point reads at once behind a write that both standbys have replayed."""
        await self.db.execute("update hot set n = id where id = $1", number)
        lsn = await self.db.fetchval("select pg_current_wal_lsn()::text")
        replayed = "select pg_last_wal_replay_lsn() >= $1::text::pg_lsn"
        for standby in self.standbys:
            while not await standby.fetchval(replayed, lsn):
                pass
        position = await self.db.position()
        reads = self.db.reads()
        place = reads.stale() if self.way == "stale" else reads.after(position)
        query = "select n from hot where id = $1"
        return await asyncio.gather(*(place.fetchval(query, id) for id in ids))

    async def write(self, task: int, n: int) -> None:
        await self.db.execute("update own set n = $2 where task = $1", task, n)

    async def position(self) -> onetrip.Position:
        return await self.db.position()

    async def own(self, task: int) -> tuple[int, bool]:
        return await self._newest(self.reads, task)

    async def after(self, position: onetrip.Position, task: int) -> tuple[int, bool]:
        return await self._newest(self.db.reads().after(position), task)

    async def _newest(self, reads: Any, task: int) -> tuple[int, bool]:
        """What a task wrote last, and whether a replica showed it."""
        row = await reads.fetchrow(
            "select n, inet_server_port() from own where task = $1", task
        )
        return row[0], row[1] != self.primary

    async def close(self) -> None:
        for it in (self.db, *self.standbys):
            await it.close()
