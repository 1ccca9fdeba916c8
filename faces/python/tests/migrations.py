"""Migrations under running clients: kinds of DDL happen between the statements of a client, and
every value that is stored or read is compared with what a client does that was started behind the
same migration, and with asyncpg. proof/chaos/MIGRATIONS.md says what is checked.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from migrations_cases import Case, Statement, Use, cases
from migrations_clients import NAME, Subject, connect

#: The number before those of the rows whose uses are compared one by one.
FIRST = 10_000
#: The first number of the rows that are written while a migration happens.
TRAFFIC = 1_000_000
#: Tasks that run statements while a migration happens.
TASKS = 3
#: How often a text is used on each connection before it.
USES = 7
PATIENCE = 60

#: A value that means the same under the new type is taken under the old one, where a new client
#: refuses what it is in Python, as an int for a text. That is left; ``ONETRIP_LEFT`` shows it.
TAKES = "ONETRIP_LEFT" not in os.environ

#: What is stored: for each number the other columns as text, once for each row that has it.
Stored = dict[int, list[str]]


@dataclass(frozen=True)
class Failure:
    code: str
    said: str
    outcome: str | None


    @property
    def is_refusal(self) -> bool:
        """Whether the client refused it, and not the server: asyncpg's own errors have no outcome."""
        return self.outcome in ("", "NotSent")

    @property
    def is_unread(self) -> bool:
        """Whether all took effect, and what came is of types that were not asked for: so it says."""
        return self.outcome == "Applied" and "columns of the statement have changed" in self.said

    def stands_as(self, others: Iterable[End]) -> bool:
        """Whether it says that all took effect, and is an error that a new client has as well: what
        it returns can't be a value of Python, say."""
        codes = {other.code for other in others if isinstance(other, Failure)}
        return self.outcome == "Applied" and self.code in codes


#: What became of uses that stand or fall together: their rows, or the error.
End = list[str] | Failure


async def ended(work: Any) -> End:
    try:
        return await asyncio.wait_for(work, PATIENCE)
    except Exception as error:
        code = getattr(error, "sqlstate", None) or getattr(error, "code", None)
        code = str(code or type(error).__name__)
        outcome = getattr(error, "outcome", None)
        return Failure(code, f"{type(error).__name__} {code} {error}", str(outcome or ""))


def is_taken(ends: Iterable[End | None]) -> bool:
    """Whether what was taken may be what a new client refuses."""
    return TAKES and any(isinstance(end, Failure) and end.is_refusal for end in ends)


def said(end: End | None) -> str:
    if isinstance(end, Failure):
        return end.said
    return "nothing" if end is None else "[" + "] [".join(end) + "]"


@dataclass
class Book:
    """What was found."""

    place: str = ""
    uses: int = 0
    migrations: int = 0
    skipped: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    #: What new clients store otherwise than asyncpg.
    unlike: list[str] = field(default_factory=list)
    #: The errors that migrations cost, by their texts.
    errors: Counter[str] = field(default_factory=Counter)

    def note(self, what: str) -> None:
        self.wrong.append(f"{self.place}: {what}")

    def cost(self, failure: Failure) -> None:
        """An error that a migration cost. Its outcome has to be known."""
        text = re.sub(r"\d{3,}", "N", re.sub(r"\bm\d+", "m", failure.said))
        self.errors[text] += 1
        if not (failure.is_refusal or failure.is_unread or failure.outcome == "Rejected"):
            self.note(f"an error is {failure.outcome}: {failure.said}")


class Databases:
    """One for the client under test, and twins for those that it is held against."""

    KINDS = ("ours", "fresh", "real")

    def __init__(self, url: str) -> None:
        self._url = url
        self._name = f"migrations_{os.getpid()}_{time.monotonic_ns()}"
        self._connections: dict[str, asyncpg.Connection] = {}

    def url(self, kind: str) -> str:
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{self._name}_{kind}"))

    async def __aenter__(self) -> Databases:
        server = await asyncpg.connect(self._url)
        for kind in self.KINDS:
            await server.execute(f"create database {self._name}_{kind} template template0")
            own = await asyncpg.connect(self.url(kind), statement_cache_size=0)
            self._connections[kind] = own
        await server.close()
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections.values():
            await connection.close()
        server = await asyncpg.connect(self._url)
        for kind in self.KINDS:
            await server.execute(f"drop database {self._name}_{kind} with (force)")
        await server.close()

    async def extension(self, name: str) -> bool:
        """Installs an extension everywhere. Returns whether the server has it."""
        sql = f"select 1 from pg_available_extensions where name = '{name}'"
        if await self._connections["ours"].fetchval(sql) is None:
            return False
        await self.script([f"create extension if not exists {name}"])
        return True

    async def script(self, texts: list[str]) -> None:
        for connection in self._connections.values():
            for text in texts:
                await connection.execute(text)

    async def migrate(self, kind: str, texts: list[str]) -> None:
        await migrate(self._connections[kind].execute, texts)

    async def stored(self, kind: str, tables: list[str]) -> Stored:
        """The rows that clients wrote."""
        stored: Stored = {}
        for table in tables:
            sql = f"select id::int8, t::text from {table} t where id > 0"
            for id, row in await self._connections[kind].fetch(sql):
                stored.setdefault(id, []).append(f"{table} {row[row.index(','):]}")
        return stored

    async def connections(self) -> set[int]:
        """The process numbers of the connections of the client under test."""
        sql = f"""select pid from pg_stat_activity
            where datname = current_database() and application_name = '{NAME}'"""
        return {pid for (pid,) in await self._connections["ours"].fetch(sql)}


async def migrate(execute: Any, texts: list[str]) -> None:
    """Makes a migration, in one transaction."""
    for tries in range(20):
        try:
            await execute("begin")
            for text in texts:
                await execute(text)
            await execute("commit")
            return
        except Exception as error:
            await execute("rollback")
            # A statement that has a weaker lock and wants another one may be in its way.
            if getattr(error, "sqlstate", None) != "40P01" or tries == 19:
                raise


@dataclass
class Stage:
    found: Case
    face: str
    connections: int
    client: Subject
    databases: Databases
    chance: random.Random
    book: Book

    async def fresh(self) -> dict[str, Subject]:
        """Clients that know nothing from before: one of the same face, and asyncpg."""
        own = "real" if self.face == "renewed" else self.face
        return {
            "fresh": await connect(own, self.databases.url("fresh"), 1),
            "real": await connect("real", self.databases.url("real"), 1),
        }

    def way(self) -> str:
        return self.chance.choice(self.client.single + self.client.several)

    async def none_lost(self, before: set[int]) -> None:
        lost = before - await self.databases.connections()
        if lost and self.face != "renewed":
            self.book.note(f"{len(lost)} connections were lost")


@dataclass(frozen=True)
class Passed:
    """Uses at a time of which it is only known in which phases it may have been."""

    uses: list[Use]
    way: str
    phases: range
    began: int
    ended: int
    end: End


@dataclass(frozen=True)
class Cost:
    """An error, what it is of, and when its uses began and ended."""

    error: Failure
    what: str
    began: int
    ended: int


class Migration:
    """One case whose DDL another session runs."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        #: By phase, what each use came to at a new client and at asyncpg: one before the first
        #: migration, one behind each.
        self.expected: list[dict[str, dict[str, End]]] = []
        self.phase = 0
        #: Whether a migration has begun of which it is not known whether it has ended.
        self.underway = False
        self.next_id = TRAFFIC
        self.passed: list[Passed] = []
        #: What a migration cost so far.
        self.errors: list[Cost] = []
        #: Counts what begins and ends.
        self.moments = itertools.count()

    async def run(self) -> None:
        stage, found = self.stage, self.stage.found
        await self.compare()
        await self.warm()
        before = await stage.databases.connections()
        phases = stage.chance.randint(1, 3) if found.back else 1
        while self.phase < phases:
            await self.migrate(found.back if self.phase % 2 else found.migrate)
            await self.compare()
        await stage.none_lost(before)

    def may_run(self, statement: Statement, given: Any, phase: int) -> bool:
        """Whether a new client can do so in this phase, as far as that is known."""
        end = self.end(phase, Use(statement, given, 0))
        return phase >= len(self.expected) or not isinstance(end, Failure)

    async def warm(self) -> None:
        """Uses every text on every connection, so often that it is prepared there."""
        uses = 1 if self.stage.face == "renewed" else USES
        for way in ("transaction", "plain"):
            for _ in range(uses):
                await asyncio.gather(*(self.each(way) for _ in range(self.stage.connections)))

    async def each(self, way: str) -> None:
        """One use of each text, of values from before."""
        found, uses = self.stage.found, []
        for statement in found.statements:
            fitting = [it for it in found.before if self.may_run(statement, it, 0)]
            if fitting:
                uses.append(Use(statement, self.stage.chance.choice(fitting), self.new_id()))
        if way == "plain":
            for use in uses:
                await self.run_beside(way, [use])
        else:
            await self.run_beside(way, uses)

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id

    async def run_beside(self, way: str, uses: list[Use]) -> None:
        begin, began = self.phase, next(self.moments)
        end = await ended(self.stage.client.run(way, uses))
        phases = range(begin, self.phase + int(self.underway) + 1)
        self.passed.append(Passed(uses, way, phases, began, next(self.moments), end))

    async def migrate(self, texts: list[str]) -> None:
        """Makes a migration while statements run."""
        stage, behind = self.stage, self.phase + 1
        going, done = True, 0

        async def task() -> None:
            nonlocal done
            while going:
                way = stage.way()
                count = 1 if way in stage.client.single else stage.chance.randint(1, 3)
                await self.run_beside(way, [self.any(behind) for _ in range(count)])
                done += 1
                await asyncio.sleep(0)

        async def more(count: int) -> None:
            goal = done + count
            while done < goal:
                await asyncio.sleep(0.001)

        tasks = [asyncio.ensure_future(task()) for _ in range(TASKS)]
        try:
            await more(stage.chance.randrange(4 * TASKS))
            self.underway = True
            if stage.chance.randrange(4) == 0:
                async with stage.client.session() as (_, execute):
                    await migrate(execute, texts)
            else:
                await stage.databases.migrate("ours", texts)
            self.phase, self.underway = behind, False
            stage.book.migrations += 1
            await more(TASKS + stage.chance.randrange(12))
        finally:
            going = False
            await asyncio.gather(*tasks)
        await stage.databases.migrate("fresh", texts)
        await stage.databases.migrate("real", texts)

    def any(self, behind: int) -> Use:
        """Any use. Until the migration is made, only values come that it can take along."""
        found, chance = self.stage.found, self.stage.chance
        is_new = self.phase == behind and behind % 2 == 1
        statement = chance.choice(found.statements)
        givens = found.before + (found.after if is_new else [])
        return Use(statement, chance.choice(givens), self.new_id())

    def uses(self) -> list[Use]:
        """Every statement with every value that may come in this phase."""
        found, uses = self.stage.found, {}
        for statement in found.statements:
            for given in found.before + (found.after if self.phase % 2 else []):
                id = FIRST + 1000 * self.phase + len(uses) + 1
                use = Use(statement, given, id)
                uses.setdefault(use.key, use)
        return list(uses.values())

    def end(self, phase: int, use: Use, kind: str = "fresh") -> End | None:
        if phase >= len(self.expected):
            return None
        return self.expected[phase].get(use.key, {}).get(kind)

    async def compare(self) -> None:
        """Runs every use here and at the others, and compares all that was done since."""
        stage, found = self.stage, self.stage.found
        uses, others = self.uses(), await stage.fresh()
        expected: dict[str, dict[str, End]] = {}
        for use in uses:
            ends = {kind: await ended(it.run("plain", [use])) for kind, it in others.items()}
            expected[use.key] = ends
        self.expected.append(expected)
        for other in others.values():
            await other.close()
        missing = await self.same(uses)
        stored = {kind: await stage.databases.stored(kind, found.tables) for kind in Databases.KINDS}
        for use in uses:
            for kind in ("fresh", "real"):
                ours, theirs = stored["ours"].get(use.id), stored[kind].get(use.id)
                failed = isinstance(self.end(self.phase, use, kind), Failure)
                if use.id in missing or failed or ours == theirs:
                    continue
                what = f"phase {self.phase}, {use.key}: {ours} and not {theirs} ({kind})"
                if kind == "real" and ours == stored["fresh"].get(use.id):
                    # It is no matter of the migration.
                    stage.book.unlike.append(f"{stage.book.place}: {what}")
                else:
                    stage.book.note(f"stored: {what}")
        self.judge_passed(stored["ours"], stored["fresh"])
        self.judge_errors()

    async def same(self, uses: list[Use]) -> set[int]:
        """Runs every use, and compares. Returns the numbers of those that were given up."""
        missing: set[int] = set()
        at = 0
        while at < len(uses):
            way = self.stage.way()
            count = 1 if way in self.stage.client.single else self.stage.chance.randint(1, 3)
            unit = uses[at : at + count]
            # One that fails would undo its neighbours.
            if any(isinstance(self.end(self.phase, use), Failure) for use in unit):
                unit = unit[:1]
            at += len(unit)
            if not await self.same_unit(way, unit):
                missing |= {use.id for use in unit}
        return missing

    async def same_unit(self, way: str, unit: list[Use]) -> bool:
        stage = self.stage
        wanted = [self.end(self.phase, use) for use in unit]
        for tries in range(stage.connections + 2):
            stage.book.uses += len(unit)
            began = next(self.moments)
            end = await ended(stage.client.run(way, unit))
            if not isinstance(end, Failure):
                for use, rows, other in zip(unit, end, wanted):
                    if other != [rows]:
                        what = f"phase {self.phase}, {way}, {use.key}"
                        if not is_taken([other]):
                            kind = "taken" if isinstance(other, Failure) else "differs"
                            stage.book.note(f"{kind}: {what}: [{rows}] and not {said(other)}")
                return True
            [first, *_] = wanted
            if isinstance(first, Failure) and first.code == end.code:
                return False
            if tries > stage.connections:
                kind = "otherwise" if isinstance(first, Failure) else "again and again"
                what = f"phase {self.phase}, {way}, {unit[0].key}"
                theirs = " ".join(said(it) for it in wanted)
                stage.book.note(f"fails {kind}: {what}: {end.said} and not {theirs}")
                return False
            what = f"{way}, {', '.join(use.key for use in unit)}"
            self.errors.append(Cost(end, what, began, next(self.moments)))
            if end.is_unread:
                # What it stored is compared, and it is not made twice.
                return True
        raise AssertionError("the last of the tries returns")

    def judge_passed(self, ours: Stored, theirs: Stored) -> None:
        """What ran beside a migration has to be as on one of its two sides."""
        book, by_key = self.stage.book, self.stored_by(theirs)
        for passed in self.passed:
            book.uses += len(passed.uses)
            ends = [[self.end(phase, use) for phase in passed.phases] for use in passed.uses]
            if isinstance(passed.end, Failure):
                may_fail = any(isinstance(end, Failure) for all in ends for end in all)
                if not may_fail and passed.end.code != "40P01":
                    whole = f"{passed.way}, {', '.join(use.key for use in passed.uses)}"
                    self.errors.append(Cost(passed.end, whole, passed.began, passed.ended))
            for at, use in enumerate(passed.uses):
                what = f"phases {list(passed.phases)}, {passed.way}, {use.key}"
                row = ours.get(use.id)
                if isinstance(passed.end, Failure):
                    stands = passed.end.is_unread or passed.end.stands_as(
                        end for all in ends for end in all
                    )
                    if row is not None and not stands:
                        book.note(f"stored: {what}: {row} in spite of {passed.end.said}")
                    if not stands:
                        continue
                elif is_taken(ends[at]):
                    continue
                elif [rows := passed.end[at]] not in ends[at]:
                    wanted = " or ".join(map(said, ends[at]))
                    taken = all(isinstance(end, Failure) for end in ends[at])
                    kind = "taken" if taken else "differs"
                    book.note(f"{kind}: {what}: [{rows}] and not {wanted}")
                may_be = [by_key.get((phase, use.key)) for phase in passed.phases]
                if row not in may_be and not (row is None and self.stage.found.forgets):
                    book.note(f"stored: {what}: {row} and not one of {may_be}")
        self.passed = []

    def stored_by(self, stored: Stored) -> dict[tuple[int, str], list[str]]:
        """What the uses of a new client have stored, by phase and key."""
        return {
            (phase, key): stored[id]
            for phase, uses in enumerate(self.expected)
            for id, key in enumerate(uses, FIRST + 1000 * phase + 1)
            if id in stored
        }

    def judge_errors(self) -> None:
        """One error at most for each connection and migration."""
        stage = self.stage
        budget = 0 if self.phase == 0 or stage.found.calm else stage.connections
        for cost in self.errors:
            stage.book.cost(cost.error)
        # Those that were in flight with the first one can't have known.
        first = min((cost.ended for cost in self.errors), default=0)
        behind = sum(cost.began > first for cost in self.errors)
        if min(len(self.errors), 1 + behind) > budget:
            all = "; ".join(f"{cost.what}: {cost.error.said}" for cost in self.errors)
            count = f"{len(self.errors)} for {stage.connections} connections"
            text = f"phase {self.phase}: {count}, {behind} sent behind the first: {all}"
            stage.book.note(f"errors: {text}")
        self.errors = []


@dataclass(frozen=True)
class Done:
    """A use in a session, and what it came to."""

    step: int
    use: Use
    end: End


class Sessions:
    """One case in which sessions of the client itself change what its texts mean."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    async def run(self) -> None:
        stage, found = self.stage, self.stage.found
        steps = list(range(len(found.sessions))) + ([] if found.chained else [0])
        theirs = await self.expected(steps, 10_000)
        await asyncio.gather(*(self.warm() for _ in range(stage.connections)))
        before = await stage.databases.connections()
        # In one session, one setting after the other, and then the first again.
        ours: list[Done] = []
        async with stage.client.session() as (run, execute):
            for at, step in enumerate(steps):
                for text in found.sessions[step]:
                    await execute(text)
                ours += await self.all(run, step, 10_000 + 1000 * at)
        await self.same(theirs, ours)
        if not found.chained:
            await self.apart()
        await stage.none_lost(before)

    async def warm(self) -> None:
        """Uses every text under the first setting."""
        found = self.stage.found
        async with self.stage.client.session() as (run, execute):
            for text in found.sessions[0]:
                await execute(text)
            for _ in range(USES):
                for statement in found.statements:
                    use = Use(statement, self.stage.chance.choice(found.before), 1)
                    await ended(run(use))

    async def all(self, run: Any, step: int, first: int) -> list[Done]:
        found, done = self.stage.found, []
        for statement in found.statements:
            for given in found.before + found.after:
                use = Use(statement, given, first + len(done) + 1)
                end = await ended(run(use))
                done.append(Done(step, use, [end] if isinstance(end, str) else end))
        return done

    async def expected(self, steps: list[int], first: int) -> list[Done]:
        """What the steps come to where a new client makes each of them."""
        found, all = self.stage.found, []
        for at, step in enumerate(steps):
            others = await self.stage.fresh()
            async with others["fresh"].session() as (run, execute):
                for earlier in steps[:at]:
                    for text in found.sessions[earlier]:
                        # What they have altered is altered.
                        if not text.startswith("alter"):
                            await execute(text)
                for text in found.sessions[step]:
                    await execute(text)
                all += await self.all(run, step, first + 1000 * at)
            for other in others.values():
                await other.close()
        return all

    async def apart(self) -> None:
        """Each setting in a session of its own, at the same time if there are connections for it."""
        found, stage = self.stage.found, self.stage
        steps = list(range(len(found.sessions)))
        theirs = await self.expected(steps, 50_000)

        async def one(step: int) -> list[Done]:
            async with stage.client.session() as (run, execute):
                for text in found.sessions[step]:
                    await execute(text)
                return await self.all(run, step, 50_000 + 1000 * step)

        if stage.connections > 1:
            ours = [done for all in await asyncio.gather(*map(one, steps)) for done in all]
        else:
            ours = [done for step in steps for done in await one(step)]
        await self.same(theirs, ours)

    async def same(self, theirs: list[Done], ours: list[Done]) -> None:
        stage, book, gone = self.stage, self.stage.book, set()
        book.migrations += 1
        book.uses += len(ours)
        for here, there in zip(ours, theirs):
            what = f"step {here.step}, {here.use.key}: {said(here.end)} and not {said(there.end)}"
            if isinstance(here.end, Failure):
                if not (isinstance(there.end, Failure) and there.end.code == here.end.code):
                    gone.add(here.use.id)
                    book.cost(here.end)
                    book.note(f"errors: {what}")
            elif here.end != there.end and not is_taken([there.end]):
                kind = "taken" if isinstance(there.end, Failure) else "differs"
                book.note(f"{kind}: {what}")
        mine = await stage.databases.stored("ours", stage.found.tables)
        other = await stage.databases.stored("fresh", stage.found.tables)
        for there in theirs:
            id = there.use.id
            if id not in gone and not isinstance(there.end, Failure) and mine.get(id) != other.get(id):
                what = f"step {there.step}, {there.use.key}"
                book.note(f"stored: {what}: {mine.get(id)} and not {other.get(id)}")


async def migrations(
    face: str, url: str, seed: int, rounds: int | None, seconds: float, only: str
) -> Book:
    """Runs so many cases, or, where ``rounds`` is None, as many as fit into the time."""
    book, chance, until = Book(), random.Random(seed), time.monotonic() + seconds
    order: list[int] = []
    number = 0
    async with Databases(url) as databases:
        while (number < rounds) if rounds is not None else (time.monotonic() < until):
            if not order:
                order = [at for at, it in enumerate(cases("")) if only in it.name]
                chance.shuffle(order)
            number += 1
            found = cases(f"m{number}")[order.pop()]
            await _one(face, found, f"m{number}", databases, book, chance)
    return book


async def _one(
    face: str, found: Case, schema: str, databases: Databases, book: Book, chance: random.Random
) -> None:
    connections = chance.choice([1, 3])
    book.place = f"{found.name}, {connections} connections"
    if found.extension and not await databases.extension(found.extension):
        book.skipped.add(f"{found.name}: the server has no {found.extension}")
        return
    await databases.script([f"create schema {schema}", *found.setup])
    client = await connect(face, databases.url("ours"), connections)
    stage = Stage(found, face, connections, client, databases, chance, book)
    try:
        await (Sessions(stage).run() if found.sessions else Migration(stage).run())
    except Exception as error:
        book.note(f"the run itself failed: {error!r}")
        if os.environ.get("ONETRIP_CASE"):
            raise
    await client.close()
