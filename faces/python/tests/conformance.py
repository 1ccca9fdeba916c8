"""Runs the cases of proof/conformance, whose form its README describes, for one face."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onetrip
import onetrip.asyncpg

from conftest import URL, Line

CASES = Path(__file__).resolve().parents[3] / "proof" / "conformance"

Json = Any
Case = dict[str, Any]


@dataclass(frozen=True)
class Came:
    """The result of a statement."""

    columns: list[str] | None
    rows: list[list[Any]]
    count: int | None


class Place:
    """A place where statements run: a client, a session, a transaction."""

    def ask(self, asked: Case) -> Awaitable[Came]:
        """Sends a statement at once."""
        raise NotImplementedError

    def session(self) -> AbstractAsyncContextManager[Place]:
        raise NotImplementedError

    def begin(self, **options: Any) -> AbstractAsyncContextManager[Place]:
        raise NotImplementedError

    def savepoint(self) -> AbstractAsyncContextManager[Place]:
        raise NotImplementedError

    def pipeline(self) -> AbstractAsyncContextManager[Place]:
        raise NotImplementedError

    async def batch(
        self, text: str, sets: list[list[Json]], how: str
    ) -> tuple[int | None, list[tuple[int | None, Exception]]]:
        """The rows that were changed, and the errors of sets by their indexes."""
        raise NotImplementedError

    async def copy(self, table: str, rows: list[list[Json]]) -> int:
        """Stores rows by a binary COPY, and returns how many."""
        raise NotImplementedError

    async def run(
        self, texts: list[str], attempts_max: int, attempt: Callable[[], None]
    ) -> None:
        raise NotImplementedError


#: Opens the client under test: by a URL, with settings.
Open = Callable[[str, dict[str, Any]], AbstractAsyncContextManager[Place]]


def cases_of(file: str) -> list[Case]:
    cases: list[Case] = json.loads((CASES / file).read_text())["cases"]
    assert cases, f"{file} has no cases"
    return cases


def steps_of(file: str, case: Case) -> Iterator[tuple[str, list[Case]]]:
    """How a case becomes steps: in one way, or in several, each with a name."""
    statements = case.get("statements", [])
    if file == "postgres_statements.json":
        yield "", statements
        yield ", together", [{"session": [{"together": statements}]}]
    elif file == "postgres_pipelines.json":
        yield "", [{"pipeline": statements, "error": case.get("error")}]
    elif file == "postgres_transactions.json":
        end = case.get("end", "commit")
        yield "", [{"transaction": case["begin"], "steps": statements, "end": end}]
    else:
        yield "", case["steps"]


FILES = (
    "postgres_statements.json",
    "postgres_pipelines.json",
    "postgres_transactions.json",
    "postgres_policies/prepared.json",
    "postgres_policies/transactions.json",
    "postgres_policies/pipelines.json",
    "postgres_policies/sessions.json",
    "postgres_policies/outcomes.json",
    "postgres_policies/migrations.json",
)

_numbers = itertools.count()


def new_table() -> str:
    return f"conformance_py_{os.getpid()}_{next(_numbers)}"


def on_table(given: Any, table: str) -> Any:
    """The same with the name of this table put in."""
    if isinstance(given, str):
        return given.replace("{t}", table).replace("{spaces}", " " * 20_000)
    if isinstance(given, list):
        return [on_table(one, table) for one in given]
    if isinstance(given, dict):
        return {name: on_table(one, table) for name, one in given.items()}
    return given


class Undone(Exception):
    """Undoes a transaction or a savepoint."""


class Run:
    """One run of a case."""

    client: Place
    other: NativeOther
    line: Line

    def __init__(self, open_client: Open) -> None:
        self._open = open_client

    async def all(self, case: Case, steps: list[Case]) -> None:
        line = Line()
        line.say("rtt 4")
        try:
            async with (
                self._open(line.url, case.get("settings", {})) as self.client,
                onetrip.connect(URL, connections_max=1) as db,
                db.session() as session,
            ):
                self.line, self.other = line, NativeOther(session)
                for text in case.get("setup", ()):
                    await session.execute(text)
                await self.steps(self.client, steps)
                for asked in case.get("then", ()):
                    await check(asked, self.other.ask(asked))
        finally:
            line.close()

    async def steps(self, here: Place, steps: list[Case]) -> None:
        for step in steps:
            await self.step(here, step)

    async def step(self, here: Place, step: Case) -> None:
        if "text" in step:
            to: dict[str, Any] = {"other": self.other, "client": self.client}
            await check(step, to.get(step.get("on", ""), here).ask(step))
        elif "session" in step:
            async with self.client.session() as session:
                await self.steps(session, step["session"])
        elif "transaction" in step:
            await self.transaction(here, step)
        elif "savepoint" in step:
            await self.savepoint(here, step)
        elif "together" in step:
            await self.together(here, step["together"])
        elif "pipeline" in step:
            await self.pipeline(here, step)
        elif "batch" in step:
            await self.batch(here, step)
        elif "copy" in step:
            copied = here.copy(step["copy"], step["rows"])
            if "error" in step:
                await rejects(copied, step["error"], f"copy {step['copy']}")
            else:
                assert await copied == step["count"], step
        elif "run" in step:
            await self.run(here, step)
        elif "trips" in step:
            assert self.line.trips >= 0
            await self.steps(here, step["steps"])
            assert self.line.trips == step["trips"], "trips"
        elif "times" in step:
            for _ in range(step["times"]):
                await self.steps(here, step["steps"])
        else:
            raise AssertionError(f"unknown step {step}")

    async def transaction(self, here: Place, step: Case) -> None:
        end = step.get("end", "commit")
        last = end.get("with") if isinstance(end, dict) else None
        sent: list[asyncio.Future[Came]] = []

        async def block() -> Any:
            async with here.begin(**step["transaction"]) as tx:
                await self.steps(tx, step.get("steps", []))
                if end in ("rollback", "drop"):
                    raise Undone
                if last is not None:
                    sent.append(asyncio.ensure_future(tx.ask(last)))
            return await sent[0] if sent else None

        if last is not None:
            await check(last, block())
            await asyncio.gather(*sent, return_exceptions=True)
        else:
            await ends(block(), end)

    async def savepoint(self, here: Place, step: Case) -> None:
        end = step.get("end", "release")

        async def block() -> None:
            async with here.savepoint() as inner:
                await self.steps(inner, step["savepoint"])
                if end in ("rollback", "drop"):
                    raise Undone

        await ends(block(), end)

    async def together(self, here: Place, statements: list[Case]) -> None:
        sent = [asyncio.ensure_future(here.ask(asked)) for asked in statements]
        for asked, one in zip(statements, sent):
            if asked.get("killed"):
                await self.once_it_runs(asked, "select pg_terminate_backend(pid)")
            if asked.get("cancelled"):
                await self.once_it_runs(asked, "select true")
                one.cancel()
        await asyncio.wait(sent)
        for asked, one in zip(statements, sent):
            await check(asked, one)

    async def once_it_runs(self, asked: Case, what: str) -> None:
        """Runs a query about the server process that runs a statement, once it runs."""
        sql = f"{what} from pg_stat_activity where wait_event = 'PgSleep' and query = $1"
        parameters = [asked["text"]]
        while not (await self.other.ask({"text": sql, "parameters": parameters})).rows:
            pass

    async def pipeline(self, here: Place, step: Case) -> None:
        sent: list[asyncio.Future[Came]] = []

        async def block() -> None:
            async with here.pipeline() as pipeline:
                for asked in step["pipeline"]:
                    sent.append(asyncio.ensure_future(pipeline.ask(asked)))

        error = step.get("error")
        await (block() if error is None else rejects(block(), error))
        for asked, one in zip(step["pipeline"], sent):
            await check(asked, one)
        assert len(sent) == len(step["pipeline"])

    async def batch(self, here: Place, step: Case) -> None:
        total, failed = await here.batch(step["batch"], step["sets"], step["how"])
        assert total == step.get("total", total), "total"
        expected = step.get("failed", [])
        assert [index for index, _ in failed] == [one.get("index") for one in expected], failed
        for (_, error), one in zip(failed, expected):
            check_error(error, one["error"])

    async def run(self, here: Place, step: Case) -> None:
        attempts = itertools.count()
        done = here.run(step["run"], step.get("attempts_max", 10), lambda: void(next(attempts)))
        error = step.get("error")
        await (done if error is None else rejects(done, error))
        assert next(attempts) == step["attempts"], "attempts"


def void(_: object) -> None:
    return None


class NativeOther:
    """The connection that is not under test."""

    def __init__(self, scope: Any) -> None:
        self._scope = scope

    async def ask(self, asked: Case) -> Came:
        if "count" in asked:
            return came_of(await self._scope.execute(asked["text"], *asked.get("parameters", ())))
        return came_of(await self._scope.fetch(asked["text"], *asked.get("parameters", ())))


def came_of(result: Any) -> Came:
    """Of a command tag, or of rows."""
    if isinstance(result, str):
        number = result.rpartition(" ")[2]
        return Came(None, [], int(number) if number.isdigit() else 0)
    columns = list(result[0].keys()) if result else None
    return Came(columns, [list(row) for row in result], None)


async def ends(done: Awaitable[Any], end: Any) -> None:
    """How a block ends."""
    if end in ("rollback", "drop"):
        try:
            await done
        except Undone:
            return
        raise AssertionError("it was not undone")
    if isinstance(end, dict):
        await rejects(done, end["commit"] if "commit" in end else end["release"])
    else:
        await done


async def check(asked: Case, sent: Awaitable[Came]) -> None:
    """The result or the error of a statement."""
    if "error" in asked:
        return await rejects(sent, asked["error"], asked["text"])
    assert "rows" in asked or "count" in asked, f"the case expects nothing of {asked['text']}"
    came = await sent
    if came.columns is not None and "columns" in asked:
        assert came.columns == asked["columns"], asked["text"]
    if "rows" in asked:
        assert came.rows == asked["rows"], asked["text"]
    if came.count is not None and "count" in asked:
        assert came.count == asked["count"], asked["text"]


async def rejects(done: Awaitable[Any], expected: Case, text: str = "") -> None:
    try:
        came = await done
    except (AssertionError, NotImplementedError):
        raise
    except (asyncio.CancelledError, asyncio.TimeoutError) as error:
        # The word of asyncio's own errors is theirs: they say nothing of the outcome.
        if isinstance(error, onetrip.Error):
            check_error(error, expected)
        assert "sqlstate" not in expected, text
    except Exception as error:
        check_error(error, expected)
    else:
        raise AssertionError(f"expected {expected} of {text}, and it was {came}")


def states_of(error: BaseException | None) -> list[str]:
    """The SQLSTATEs of an error and its causes."""
    states = []
    while error is not None:
        states.append(getattr(error, "sqlstate", ""))
        error = error.__cause__
    return states


def check_error(error: Any, expected: Case) -> None:
    told = f"{type(error).__name__}: {error}"
    # What the drop-in refuses by asyncpg's own words was not sent.
    early = "NotSent" if isinstance(error, onetrip.asyncpg.InterfaceError) else None
    outcome = getattr(error, "outcome", early)
    if expected["outcome"] == "any":
        assert outcome in ("NotSent", "Rejected", "Applied", "Unknown"), told
    else:
        assert outcome == expected["outcome"], f"{told} is {outcome}"
    if "code" in expected and hasattr(error, "code"):
        assert error.code == expected["code"], told
    if "sqlstate" in expected:
        assert expected["sqlstate"] in states_of(error), told
    assert expected.get("message", "") in str(error), told
    assert str(error).startswith(expected.get("says", "")), told
