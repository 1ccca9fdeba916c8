"""What onetrip does in every language: the cases of proof/conformance, natively and by the drop-in.

A face runs what Rust's asynchronous client runs, which is the measure.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

import onetrip
import onetrip.asyncpg

from conformance import (
    FILES,
    Came,
    Case,
    Open,
    Place,
    Run,
    came_of,
    cases_of,
    new_table,
    on_table,
    steps_of,
)
from conftest import URL


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """The cases say nothing of loops: one is enough."""
    return asyncio.DefaultEventLoopPolicy()


class Native(Place):
    def __init__(self, scope: Any) -> None:
        self._scope = scope

    def ask(self, asked: Case) -> Awaitable[Came]:
        scope, args = self._scope, asked.get("parameters", ())
        call: Any
        if asked.get("repeatable"):
            call = scope.fetch(asked["text"], *args, repeatable=True)
        elif "count" in asked:
            call = scope.execute(asked["text"], *args)
        else:
            call = scope.fetch(asked["text"], *args)
        return _came(call, asked)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Place]:
        async with self._scope.session() as session:
            yield Native(session)

    @asynccontextmanager
    async def begin(self, **options: Any) -> AsyncIterator[Place]:
        async with self._scope.begin(**options) as tx:
            yield Native(tx)

    savepoint = begin

    @asynccontextmanager
    async def pipeline(self) -> AsyncIterator[Place]:
        async with self._scope.pipeline() as pipeline:
            yield Native(pipeline)

    async def batch(
        self, text: str, sets: list[list[Any]], how: str
    ) -> tuple[int | None, list[tuple[int | None, Exception]]]:
        batch = self._scope.batch(text, sets)
        if how == "isolated":
            report = await batch.isolated()
            return report.affected, list(report.errors.items())
        try:
            return await batch.atomic(), []
        except onetrip.Error as error:
            return None, [(error.index, error)]

    async def copy(self, table: str, rows: list[list[Any]]) -> int:
        copied: int = await self._scope.copy_rows(table, rows)
        return copied

    async def run(
        self, texts: list[str], attempts_max: int, attempt: Callable[[], None]
    ) -> None:
        async def work(tx: onetrip.Transaction) -> None:
            attempt()
            for text in texts:
                await tx.execute(text)

        await self._scope.run(work, attempts=attempts_max)


async def _came(call: Any, asked: Case) -> Came:
    if "timeout_ms" in asked:
        call = asyncio.wait_for(call, asked["timeout_ms"] / 1000)
    return came_of(await call)


@asynccontextmanager
async def native(url: str, settings: dict[str, Any]) -> AsyncIterator[Place]:
    async with onetrip.connect(url, **settings) as db:
        yield Native(db)


class DropIn(Place):
    def __init__(self, scope: Any) -> None:
        self._scope = scope

    def ask(self, asked: Case) -> Awaitable[Came]:
        how = self._scope.execute if "count" in asked else self._scope.fetch
        timeout = asked["timeout_ms"] / 1000 if "timeout_ms" in asked else None
        return _came(how(asked["text"], *asked.get("parameters", ()), timeout=timeout), {})

    async def copy(self, table: str, rows: list[list[Any]]) -> int:
        records = [tuple(row) for row in rows]
        tag: str = await self._scope.copy_records_to_table(table, records=records)
        return int(tag.rpartition(" ")[2])

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Place]:
        async with self._scope.acquire() as con:
            yield DropIn(con)

    @asynccontextmanager
    async def begin(self, **options: Any) -> AsyncIterator[Place]:
        if isinstance(self._scope, onetrip.asyncpg.Pool):
            async with self.session() as session, session.begin(**options) as tx:
                yield tx
        else:
            read_only = options.pop("read_only", False)
            async with self._scope.transaction(readonly=read_only, **options):
                yield self

    savepoint = begin


@asynccontextmanager
async def drop_in(url: str, settings: dict[str, Any]) -> AsyncIterator[Place]:
    of = dict(settings)
    size = of.pop("connections_max", 4)
    told = "&".join(f"{name}={value}" for name, value in of.items())
    async with onetrip.asyncpg.create_pool(f"{url}?{told}", min_size=0, max_size=size) as pool:
        yield DropIn(pool)


FACES: dict[str, tuple[Open, set[str]]] = {
    "native": (native, {"rust", "python"}),
    "asyncpg": (drop_in, {"rust", "pg pipelined", "python"}),
}

#: Files that are nothing to a face.
WITHOUT = {"asyncpg": {"postgres_pipelines.json", "postgres_policies/pipelines.json"}}

#: Cases that a face can't pass, by the reason. They have to fail.
LACKS: dict[str, dict[str, list[str]]] = {
    "native": {
        "it is sent again, on the connection that takes the place": [
            "a connection whose triggers go on by an older plan is replaced",
        ],
        "no call is the last of a block: one that was refused says that it was not sent": [
            "a refused last statement speaks of what was sent of its transaction",
        ],
        "a pipeline has one sync point, at its end": [
            "sync points divide a pipeline into transactions",
            "a sync point says what was found at its COMMIT",
            "a reply that is read before its sync point may still be undone",
            "what stands alone runs between sync points",
        ],
        "a pipeline is the client's; statements of a transaction need none to share a trip": [
            "a pipeline of a transaction is a part of it",
            "a pipeline that fails in a transaction fails it",
            "a pipeline of a session is on its connection",
        ],
        "the server is asked about a new text first, which costs a trip": [
            "a pipeline is one trip",
            "an atomic batch is one trip, and all of its rows stand",
        ],
    },
    "asyncpg": {
        "it is sent again, on the connection that takes the place": [
            "a connection whose triggers go on by an older plan is replaced",
        ],
        "as with asyncpg, COMMIT of a failed transaction is answered by the tag ROLLBACK": [
            "COMMIT of a failed transaction is an error",
            "COMMIT of a failed transaction says what failed",
        ],
        "as with asyncpg, a call is refused while another runs in its transaction": [
            "a last statement that fails takes its transaction along",
            "statements of a transaction need not be waited for",
            "a refused last statement speaks of what was sent of its transaction",
            "what was sent with a failed statement of a transaction fails with it",
        ],
        "as with asyncpg, a savepoint is awaited": ["savepoints cost no trip"],
        "as with asyncpg, COMMIT as a text is sent to the server": [
            "a transaction is not committed without a statement that was refused",
            "a savepoint is not kept without a statement that was refused",
        ],
        "as with asyncpg, the end of a block on a closed connection is no call of the server's": [
            "a savepoint whose server process was ended was sent, and so was its transaction",
        ],
        "as with asyncpg, RELEASE of a failed savepoint is the server's to refuse": [
            "a failed savepoint can't be released, and its transaction goes on",
        ],
        "as with asyncpg, transaction() refuses where somebody has begun by hand": [
            "where BEGIN is refused nothing runs behind it",
            "where BEGIN is refused nothing runs that was sent with it",
        ],
        "as with asyncpg, the end of the block of a lost transaction is refused": [
            "a transaction whose server process was ended does not stand",
        ],
        "as with asyncpg, what needs a session finds one, and its text is the server's to refuse": [
            "a transaction refuses control behind its back",
            "a shared connection refuses transaction control",
            "a shared connection refuses what needs a session",
            "a shared connection refuses what lasts as long as its transaction",
            "a shared connection refuses COPY as a statement",
            "a shared connection refuses several statements in one text",
            "a refused statement costs no trip and nobody else anything",
        ],
        "a connection that is given back loses its temporary tables and names as well": [
            "a lent client comes back as its user left it",
            "what needs a session finds one by itself",
        ],
        "asyncpg has no word for it": [
            "a serialization failure is run again until it is committed",
            "a deadlock is run again until it is committed",
            "a serialization failure of COMMIT is run again",
            "a transaction is run again so often and no more",
            "a transaction is run again whose text names a type that was made anew",
            "a transaction is run again whose statement the server has lost",
            "a transaction that fails for another reason is not run again",
            "a refused statement that leaves its transaction speaks of what was sent of it",
            "a repeatable statement whose connection is lost is run again",
            "what leaves a transaction whose server process was ended says that nothing of it "
            "stands",
            "of a repeatable statement that may have run, nothing is known when the next attempt "
            "fails",
        ],
    },
}


def all_cases() -> list[Any]:
    found = []
    for face, (_, runs) in FACES.items():
        reasons = {name: why for why, names in LACKS[face].items() for name in names}
        for file in FILES:
            for case in cases_of(file):
                if "faces" in case and not runs & set(case["faces"]):
                    continue
                if file in WITHOUT.get(face, ()):
                    continue
                why = reasons.get(case["name"])
                marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
                for way, _ in steps_of(file, case):
                    name = f"{case['name']}{way}, {face}"
                    found.append(pytest.param(face, file, case, way, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("face", "file", "case", "way"), all_cases())
async def test_case(face: str, file: str, case: Case, way: str) -> None:
    case = on_table(case, new_table())
    steps = dict(steps_of(file, case))[way]
    await asyncio.wait_for(Run(FACES[face][0]).all(case, steps), 600)


#: As with asyncpg, the first and the last day that Python has stand for infinity.
ENDS = {
    "0001-01-01": "-infinity",
    "0001-01-01 00:00:00": "-infinity",
    "9999-12-31": "infinity",
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case["name"]) for case in cases_of("postgres_values.json")]
)
async def test_value(face: str, case: Case) -> None:
    case = on_table(case, new_table())
    kind = case["type"]
    is_json = kind.startswith("json")
    async with onetrip.connect(URL) as db, onetrip.asyncpg.create_pool(URL, min_size=0) as pool:
        for text in case.get("setup", ()):
            await db.execute(text)
        at: Any = db if face == "native" else pool
        for number, text in enumerate(case["texts"]):
            quoted = text.replace("'", "''")
            literal = f"'{quoted}'::{kind}"
            value, expected = await at.fetchrow(f"select {literal}, {literal}::text")
            back = await at.fetchval(f"select $1::{kind}{'::jsonb' * is_json}::text", value)
            if face == "asyncpg":
                expected = ENDS.get(expected, expected)
            if kind == "json":
                expected = await at.fetchval(f"select {literal}::jsonb::text")
            assert back == expected, text
            if number < len(case.get("reads", ())):
                read = json.loads(value) if is_json and isinstance(value, str) else value
                assert read == case["reads"][number], text
        if "drop" in case:
            await db.execute(case["drop"])
