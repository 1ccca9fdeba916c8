"""Tasks that write numbered rows over onetrip, in every way that it has, for the row failover.

What it is told and what it prints stands in proof/chaos/src/failover/guests.rs.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

import onetrip


class Undone(Exception):
    """Why a transaction is rolled back."""


class Unit:
    """Rows that stand or fall together."""

    numbers = 0

    def __init__(self, way: str, task: int, count: int = 1) -> None:
        self.way, self.task = way, task
        self.rows = range(Unit.numbers, Unit.numbers + count)
        Unit.numbers += count
        self.began = time.time_ns()

    async def settle(self, result: Awaitable[Any]) -> None:
        """Ends with what the result says of it."""
        try:
            await result
        except (onetrip.Error, Undone) as error:
            self.failed(error)
        else:
            self.end("Acknowledged")

    def failed(self, error: BaseException) -> None:
        if isinstance(error, onetrip.Error):
            self.end(error.outcome, f"{error.code} {error}")
        else:
            self.end("RolledBack")

    def end(self, claim: str, said: str = "") -> None:
        began, ended = self.began // 1000, time.time_ns() // 1000
        said = " ".join(said.split())
        fields = (self.way, self.task, self.rows[0], len(self.rows), began, ended, claim, said)
        print(*fields, sep="\t", flush=True)

    def expect(self, got: object, wanted: object) -> None:
        """A reply must be that of its own request."""
        if got != wanted:
            print(f"{self.way} got {got!r} for {wanted!r}", flush=True)

    async def insert(self, place: Any, at: int = 0, fine: bool = True) -> None:
        n = self.rows[at]
        self.expect(await place.fetchval(f"{INSERT} returning n", n, fine), n)

    def sets(self, fine: bool) -> list[tuple[int, bool]]:
        """All rows; the last one is refused, and with it the others, if it is not fine."""
        return [(n, fine or n != self.rows[-1]) for n in self.rows]


class Writer:
    """The ways to write. Now and then the last row is refused."""

    def __init__(self, db: onetrip.Database, task: int) -> None:
        self.db, self.task = db, task

    def unit(self, way: str, most: int, least: int = 1) -> Unit:
        return Unit(way, self.task, chance.randint(least, most))

    def units(self, way: str, most: int) -> list[Unit]:
        return [Unit(way, self.task) for _ in range(chance.randint(1, most))]

    async def singles(self) -> None:
        units = self.units("single", 5)
        await asyncio.gather(*(it.settle(it.insert(self.db, 0, is_fine())) for it in units))

    async def session(self) -> None:
        units = self.units("statement of a session", 4)
        try:
            async with self.db.session() as session:
                ends = [it.settle(it.insert(session, 0, is_fine())) for it in units]
                units = []
                await asyncio.gather(*ends)
        except onetrip.Error as error:
            for unit in units:
                unit.failed(error)

    async def pipeline(self) -> None:
        unit, replies = self.unit("pipeline", 8, 2), []

        async def run() -> None:
            async with self.db.pipeline() as pipeline:
                for n, fine in unit.sets(is_fine()):
                    replies.append(pipeline.fetchval(f"{INSERT} returning n", n, fine))

        await unit.settle(run())
        got = await asyncio.gather(*replies, return_exceptions=True)
        for n, reply in zip(unit.rows, got, strict=True):
            if not isinstance(reply, BaseException):
                unit.expect(reply, n)

    async def transaction(self) -> None:
        unit, is_undone = self.unit("transaction", 4), chance.random() < 1 / 6

        async def run() -> None:
            async with self.db.begin() as tx:
                for n, fine in unit.sets(is_fine()):
                    unit.expect(await tx.fetchval(f"{INSERT} returning n", n, fine), n)
                if is_undone:
                    raise Undone

        await unit.settle(run())

    async def transaction_at_once(self) -> None:
        unit, replies = self.unit("transaction of one trip", 4), []

        async def run() -> None:
            async with self.db.begin() as tx:
                replies.extend(tx.execute(INSERT, *row) for row in unit.sets(is_fine()))

        await unit.settle(run())
        await asyncio.gather(*replies, return_exceptions=True)

    async def run(self) -> None:
        unit = self.unit("transaction that is run", 4)
        rows = unit.sets(is_fine())

        async def work(tx: onetrip.Transaction) -> None:
            for row in rows:
                await tx.execute(INSERT, *row)

        await unit.settle(self.db.run(work))

    async def many(self) -> None:
        unit = self.unit("executemany", 8, 2)
        await unit.settle(self.db.executemany(INSERT, unit.sets(is_fine())))

    async def atomic_batch(self) -> None:
        unit = self.unit("atomic batch", 30, 2)
        await unit.settle(self.db.batch(INSERT, unit.sets(is_fine())).atomic())

    async def isolated_batch(self) -> None:
        units = self.units("row of an isolated batch", 12)
        rows = [(unit.rows[0], is_fine()) for unit in units]
        try:
            report = await self.db.batch(INSERT, rows).isolated()
        except onetrip.Error as error:
            for unit in units:
                unit.failed(error)
            return
        for index, unit in enumerate(units):
            if index in report.errors:
                unit.failed(report.errors[index])
            else:
                unit.end("Acknowledged" if index < report.taken else "NotSent")

    async def copy(self) -> None:
        unit = self.unit("COPY", 30, 2)
        lines = (f"{n}\t{fine}\n".encode() for n, fine in unit.sets(is_fine()))
        await unit.settle(self.db.copy_in(f"copy {table} (n, fine) from stdin", lines))

    async def copy_rows(self) -> None:
        unit = self.unit("COPY of rows", 30, 2)
        await unit.settle(self.db.copy_rows(table, unit.sets(is_fine())))

    def ways(self) -> list[Callable[[], Awaitable[None]]]:
        alone = [self.singles, self.session, self.pipeline, self.many]
        together = [self.transaction, self.transaction_at_once, self.run]
        return alone + together + [self.atomic_batch, self.isolated_batch, self.copy, self.copy_rows]

    async def write(self, pause: float, over: asyncio.Event) -> None:
        ways = self.ways()
        while not over.is_set():
            await chance.choice(ways)()
            await asyncio.sleep(chance.random() * pause)


def is_fine() -> bool:
    return chance.randrange(8) > 0


async def main(url: str, tasks: int, pause: float) -> None:
    over, loop = asyncio.Event(), asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(sys.stdin.fileno())
        over.set()

    loop.add_reader(sys.stdin.fileno(), end)
    async with onetrip.connect(url, connections_max=8) as db:
        await asyncio.gather(*(Writer(db, task).write(pause, over) for task in range(tasks)))
    print("done", flush=True)


if __name__ == "__main__":
    url, table, tasks, pause_ms, seed = sys.argv[1:]
    INSERT = f"insert into {table} (n, fine) values ($1, $2)"
    chance = random.Random(int(seed))
    uvloop.run(main(url, int(tasks), int(pause_ms) / 1000))
