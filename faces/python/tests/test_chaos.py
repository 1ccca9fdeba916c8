"""Chaos: tasks write numbered rows in every way while connections are cut and ended.

A ledger has what the client said of each write, and in the end it is held against the table, as
docs/architecture/proof.md says. ``ONETRIP_SEED`` repeats the choices, ``ONETRIP_SECONDS`` sets for
how long faults come.
"""

from __future__ import annotations

import asyncio
import io
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

import onetrip
import onetrip.asyncpg
import onetrip.redis

from conftest import REDIS, URL, Line

SEED = int(os.environ.get("ONETRIP_SEED", time.time_ns() % 2**31))
SECONDS = float(os.environ.get("ONETRIP_SECONDS", 5))
TASKS = 100
PATIENCE = 60

#: What is claimed of rows by the outcome of an error, or by its caller.
CLAIMS = {"NotSent": "absent", "Rejected": "absent", "Applied": "there", "Unknown": "unknown"}


class GivenUp(Exception):
    """The caller gave it up: it may be there or not."""


class Undone(Exception):
    """The caller undid it."""


@dataclass
class Unit:
    """Rows that stand or fall together."""

    what: str
    numbers: range
    began: float = field(default_factory=time.monotonic)
    ended: float = 0
    claim: str = ""
    said: str = ""
    #: All was said but the end of its transaction: what fails before that is undone for sure.
    is_ending: bool = True

    def wrong_with(self, table: Counter[int], windows: list[tuple[float, float]]) -> str | None:
        times = [table[number] for number in self.numbers]
        there = len([count for count in times if count])
        if not self.claim:
            return "it never ended"
        if max(times) > 1:
            return "a row is there more than once"
        if 0 < there < len(times):
            return "a part is there"
        if self.claim == "absent" and there:
            return "it is there, and should not be"
        if self.claim == "there" and not there:
            return "it is lost"
        in_flight = any(self.began <= to and self.ended >= since for since, to in windows)
        if self.claim == "unknown" and not in_flight:
            return "it is unknown, and no fault was at work"
        return None


class Stage:
    """What is written to, how, and what breaks it."""

    def __init__(self, line: Line) -> None:
        print(f"ONETRIP_SEED={SEED}")
        self.line, self.chance = line, random.Random(SEED)
        self.units: list[Unit] = []
        self.windows: list[tuple[float, float]] = []
        self.wrong: list[str] = []
        self.next = self.broken = 0
        self.ways: dict[str, tuple[int, Callable[[Unit], Awaitable[Any]]]] = {}

    def hosts(self) -> Iterable[Any]:
        raise NotImplementedError

    def present(self) -> set[tuple[int, int]]:
        """The connections that the client has: a host of it, and a number."""
        hosts = enumerate(self.hosts())
        return {(of, number) for of, host in hosts for number in host._transports}

    async def end_some(self) -> set[tuple[int, int]]:
        """The server ends connections: those that it ended."""
        raise NotImplementedError

    async def table(self) -> Counter[int]:
        raise NotImplementedError

    # --- the writers ---

    async def writer(self, until: float) -> None:
        while time.monotonic() < until:
            await self.write(self.chance.choice(list(self.ways)))

    async def write(self, what: str) -> Unit:
        rows, way = self.ways[what]
        unit = Unit(what, range(self.next, self.next + rows))
        self.next += rows
        self.units.append(unit)
        try:
            await asyncio.wait_for(self.given_up(way(unit), what), PATIENCE)
            unit.claim = "there"
        except GivenUp:
            unit.claim = "given up"
        except Undone:
            unit.claim = "absent"
        except Exception as error:
            unit.said = repr(error)
            # The drop-in's own refusals stand in front of anything that is sent.
            early = "NotSent" if isinstance(error, onetrip.asyncpg.InterfaceError) else ""
            outcome = getattr(error, "outcome", early)
            if outcome not in CLAIMS:
                self.wrong.append(f"{what} failed without an outcome: {error!r}")
            unit.claim = CLAIMS.get(outcome, "") if unit.is_ending else "absent"
            unit.said += f" {outcome}"
        unit.ended = time.monotonic()
        return unit

    async def given_up(self, call: Awaitable[Any], what: str) -> None:
        if "given up" not in what:
            await call
            return
        task = asyncio.ensure_future(call)
        await asyncio.wait([task], timeout=self.chance.random() * 0.01)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            raise GivenUp from None

    def mine(self, unit: Unit, answer: Any) -> None:
        if answer != unit.numbers[0]:
            self.wrong.append(f"{unit.what} {unit.numbers} got {answer!r}")

    # --- the faults ---

    async def strike(self, until: float) -> None:
        """A fault lasts until the client has let go of each connection that it broke."""
        while time.monotonic() < until:
            await asyncio.sleep(0.05 + self.chance.random() * 0.3)
            since = time.monotonic()
            if self.chance.randrange(2):
                victims = self.present()
                self.line.say("cut")
            else:
                victims = await self.end_some()
            # Those that were about to be there, or came meanwhile, may have been hit as well.
            may_be_hit = victims | self.present()
            self.broken += len(may_be_hit) + sum(len(host._openings) for host in self.hosts())
            for _ in range(int(PATIENCE / 0.005)):
                if not victims & self.present():
                    break
                await asyncio.sleep(0.005)
            else:
                self.wrong.append("connections that were ended are still there")
            self.windows.append((since, time.monotonic()))

    async def at_rest(self) -> list[dict[str, int]]:
        """What was counted, once nothing waits. Replies to what was given up may be to come."""
        for _ in range(int(PATIENCE / 0.005)):
            metrics: list[dict[str, int]] = [host.core.metrics() for host in self.hosts()]
            if not any(it["in_flight"] + it["waiting"] + it["queued"] for it in metrics):
                return metrics
            await asyncio.sleep(0.005)
        raise AssertionError(f"it does not come to rest: {metrics}")

    async def last(self) -> Unit:
        """A write behind all faults."""
        return await self.write(next(iter(self.ways)))

    async def run(self) -> None:
        until = time.monotonic() + SECONDS
        writers = [self.writer(until) for _ in range(TASKS)]
        await asyncio.wait_for(asyncio.gather(self.strike(until), *writers), SECONDS + 2 * PATIENCE)
        last = await self.last()
        assert last.claim == "there", f"it does not serve any more: {last}"
        metrics = await self.at_rest()
        table = await self.table()
        for unit in self.units:
            if why := unit.wrong_with(table, self.windows):
                self.wrong.append(f"{why}: {unit}")
        strangers = [number for number in table if not 0 <= number < self.next]
        tally = Counter(unit.claim for unit in self.units)
        print(f"{dict(tally)}, {len(self.windows)} faults, {self.broken} connections broken")
        assert self.wrong == [] and strangers == []
        assert min(tally[claim] for claim in ("there", "absent", "unknown", "given up")) > 0
        outcomes = Counter(unit.said.rpartition(" ")[2] for unit in self.units)
        assert outcomes["NotSent"] and outcomes["Rejected"] and outcomes["Unknown"], outcomes
        assert sum(it["lost"] for it in metrics) <= self.broken


class Postgres(Stage):
    observer: onetrip.Database

    async def end_some(self) -> set[tuple[int, int]]:
        (host,) = self.hosts()
        found = {host.core.process_id(at): at for at in host._transports}
        found.pop(0, None)
        if not found:
            return set()
        pid = self.chance.choice(list(found))
        await self.observer.fetchval("select pg_terminate_backend($1)", pid)
        return {(0, found[pid])}

    async def table(self) -> Counter[int]:
        busy = "select count(*) from pg_locks where relation = 'written'::regclass and pid <> $1"
        own = await self.observer.fetchval("select pg_backend_pid()")
        while await self.observer.fetchval(busy, own):
            await asyncio.sleep(0.01)
        return Counter(row[0] for row in await self.observer.fetch("select n from written"))

    async def run(self) -> None:
        async with onetrip.connect(URL, connections_max=1) as self.observer:
            # No index: a unique one would hide a doubled row.
            await self.observer.execute("create table written (n int8, fine bool check (fine))")
            try:
                await super().run()
            finally:
                await self.observer.execute("drop table written")


INSERT = "insert into written values ($1, true) returning n"
REFUSED = "insert into written values ($1, false) returning n"
SLOW = "insert into written select $1, true from pg_sleep(0.002) returning n"


class Native(Postgres):
    def __init__(self, line: Line, db: onetrip.Database) -> None:
        super().__init__(line)
        self.db = db
        self.ways = {
            "a statement": (1, self.single),
            "a statement that is given up": (1, self.single),
            "a slow one that is given up": (1, lambda it: db.execute(SLOW, it.numbers[0])),
            "one that is refused": (1, lambda it: db.execute(REFUSED, it.numbers[0])),
            "many": (3, lambda it: db.executemany(INSERT, [(n,) for n in it.numbers])),
            "many, with a bad one": (3, self.bad_many),
            "a pipeline": (3, self.pipeline),
            "a transaction": (2, self.transaction),
            "a transaction that is given up": (2, self.transaction),
            "a transaction that is undone": (2, self.undone),
            "a session": (1, self.session),
            "a COPY": (3, self.copy),
            "a stream": (1, self.stream),
        }

    def hosts(self) -> Iterable[Any]:
        return [self.db._host]

    async def single(self, unit: Unit) -> None:
        self.mine(unit, await self.db.fetchval(INSERT, unit.numbers[0]))

    async def bad_many(self, unit: Unit) -> None:
        text = "insert into written values ($1, $2)"
        await self.db.executemany(text, [(n, n != unit.numbers[1]) for n in unit.numbers])

    async def pipeline(self, unit: Unit) -> None:
        async with self.db.pipeline() as pipeline:
            calls = [pipeline.fetchval(INSERT, n) for n in unit.numbers]
        self.mine(unit, (await asyncio.gather(*calls))[0])

    async def transaction(self, unit: Unit) -> None:
        unit.is_ending = False
        async with self.db.begin() as tx:
            self.mine(unit, await tx.fetchval(INSERT, unit.numbers[0]))
            async with tx.begin() as inner:
                await inner.execute(INSERT, unit.numbers[1])
            unit.is_ending = True

    async def undone(self, unit: Unit) -> None:
        unit.is_ending = False
        async with self.db.begin() as tx:
            await tx.executemany(INSERT, [(n,) for n in unit.numbers])
            raise Undone

    async def session(self, unit: Unit) -> None:
        async with self.db.session() as session:
            self.mine(unit, await session.fetchval(INSERT, unit.numbers[0]))

    async def copy(self, unit: Unit) -> None:
        data = "".join(f"{n}\tt\n" for n in unit.numbers).encode()
        await self.db.copy_in("copy written from stdin", io.BytesIO(data))

    async def stream(self, unit: Unit) -> None:
        async for row in self.db.stream(INSERT, unit.numbers[0]):
            self.mine(unit, row[0])


class DropIn(Postgres):
    def __init__(self, line: Line, pool: onetrip.asyncpg.Pool) -> None:
        super().__init__(line)
        self.pool = pool
        self.ways = {
            "a statement": (1, self.single),
            "a statement that is given up": (1, self.single),
            "one that is refused": (1, lambda it: pool.execute(REFUSED, it.numbers[0])),
            "many": (3, lambda it: pool.executemany(INSERT, [(n,) for n in it.numbers])),
            "a transaction": (2, self.transaction),
            "a transaction that is given up": (2, self.transaction),
            "a connection": (1, self.connection),
        }

    def hosts(self) -> Iterable[Any]:
        return [self.pool._host]

    async def last(self) -> Unit:
        """Callers hear of an attempt to connect that fails, as with asyncpg, and the last fault may
        have hit one.
        """
        until = time.monotonic() + PATIENCE
        last = await super().last()
        while last.said.endswith(" NotSent") and time.monotonic() < until:
            await asyncio.sleep(0.005)
            last = await super().last()
        return last

    async def single(self, unit: Unit) -> None:
        self.mine(unit, await self.pool.fetchval(INSERT, unit.numbers[0]))

    async def connection(self, unit: Unit) -> None:
        async with self.pool.acquire() as con:
            self.mine(unit, await con.fetchval(INSERT, unit.numbers[0]))

    async def transaction(self, unit: Unit) -> None:
        unit.is_ending = False
        async with self.pool.acquire() as con, con.transaction():
            self.mine(unit, await con.fetchval(INSERT, unit.numbers[0]))
            await con.execute(INSERT, unit.numbers[1])
            unit.is_ending = True


class OfRedis(Stage):
    """A number is a field that is counted up from nothing, so that it shows what ran twice."""

    def __init__(
        self, line: Line, db: onetrip.redis.Client[str], observer: onetrip.redis.Client[str]
    ) -> None:
        super().__init__(line)
        self.db, self.observer = db, observer
        count = onetrip.redis.Script("return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)")
        self.ways = {
            "a command": (1, self.command),
            "one that is given up": (1, lambda it: db.hincrby("written", str(it.numbers[0]), 1)),
            "one that is refused": (1, lambda it: db.lpush("no list", it.numbers[0])),
            "a script": (1, lambda it: self.once(it, db.call(count, ["written"], it.numbers))),
            "a list": (3, self.listed),
            "a session": (1, self.session),
        }

    def hosts(self) -> Iterable[Any]:
        return [self.db._parts.shared, self.db._parts.own]

    async def command(self, unit: Unit) -> None:
        await self.once(unit, self.db.hincrby("written", str(unit.numbers[0]), 1))

    async def once(self, unit: Unit, call: Awaitable[Any]) -> None:
        if (answer := await call) != 1:
            self.wrong.append(f"{unit.what} {unit.numbers} got {answer!r}")

    async def listed(self, unit: Unit) -> None:
        async with self.db.atomic() as tx:
            calls = [tx.hincrby("written", str(n), 1) for n in unit.numbers]
        for answer in await asyncio.gather(*calls):
            if answer != 1:
                self.wrong.append(f"{unit.what} {unit.numbers} got {answer!r}")

    async def session(self, unit: Unit) -> None:
        async with self.db.session() as session:
            await self.once(unit, session.hincrby("written", str(unit.numbers[0]), 1))

    async def end_some(self) -> set[tuple[int, int]]:
        victims = self.present()
        await self.observer.command("CLIENT KILL", "TYPE", "normal", "SKIPME", "yes")
        return victims

    async def table(self) -> Counter[int]:
        found: dict[str, str] = await self.observer.hgetall("written")
        return Counter({int(number): int(count) for number, count in found.items()})


async def test_postgres(line: Line) -> None:
    async with onetrip.connect(line.url, connections_max=4, in_flight_max=8) as db:
        await Native(line, db).run()


async def test_asyncpg(line: Line) -> None:
    url = f"{line.url}?in_flight_max=8"
    async with onetrip.asyncpg.create_pool(url, min_size=1, max_size=4) as pool:
        await DropIn(line, pool).run()


async def test_redis(redis_line: Line, redis: onetrip.redis.Client[str]) -> None:
    await redis.set("no list", "a text")
    async with onetrip.redis.connect(redis_line.url) as db:
        await OfRedis(redis_line, db, redis).run()


def test_a_forged_ledger_is_found_out() -> None:
    windows = [(10.0, 12.0)]
    for claim, ended, rows, why in (
        ("there", 5, [], "lost"),
        ("there", 5, [0, 0, 1], "more than once"),
        ("unknown", 11, [0], "a part"),
        ("absent", 5, [0, 1], "should not be"),
        ("unknown", 5, [], "no fault"),
        ("", 0, [], "never ended"),
    ):
        unit = Unit("forged", range(2), 1, ended, claim)
        assert why in str(unit.wrong_with(Counter(rows), windows))
    assert Unit("true", range(2), 1, 11, "unknown").wrong_with(Counter([0, 1]), windows) is None
