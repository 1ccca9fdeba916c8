"""The clients whose statements run while something changes: ours, and asyncpg itself."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

import onetrip
import onetrip.asyncpg
from migrations_cases import Use

NAME = "migrations"

Run = Callable[[Use], Awaitable[str]]
Set = Callable[[str], Awaitable[Any]]


class Subject:
    """A client with a pool of connections."""

    #: How it can run one use, and how several, of which all take effect or none.
    single: list[str]
    several: list[str]

    async def run(self, way: str, uses: Sequence[Use]) -> list[str]:
        raise NotImplementedError

    def session(self) -> Any:
        """Lends a session: a function that runs a use, and one that runs a text."""
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class Native(Subject):
    single = ["plain", "streamed", "many", "batch"]
    several = ["pipeline", "transaction", "together"]

    def __init__(self, db: onetrip.Database) -> None:
        self.db = db

    @classmethod
    async def connect(cls, url: str, connections: int) -> Native:
        return cls(await onetrip.connect(url, connections_max=connections, application_name=NAME))

    async def run(self, way: str, uses: Sequence[Use]) -> list[str]:
        one = uses[0]
        if way in ("streamed", "many", "batch"):
            return [await self._single(way, one)]
        if way == "plain":
            return [await asked(self.db, one)]
        if way == "pipeline":
            if any(not use.statement.text for use in uses):
                return await self.run("transaction", uses)
            calls: list[Awaitable[Any]] = []
            try:
                async with self.db.pipeline() as pipeline:
                    for use in uses:
                        calls.append(pipeline.fetch(use.statement.text, *values(use)))
            finally:
                rows = await asyncio.gather(*calls, return_exceptions=True)
            return all_shown(rows, uses)
        async with self.db.begin() as tx:
            if way == "together" and all(use.statement.text for use in uses):
                calls = [tx.fetch(use.statement.text, *values(use)) for use in uses]
                return all_shown(await asyncio.gather(*calls, return_exceptions=True), uses)
            return [await asked(tx, use) for use in uses]

    async def _single(self, way: str, use: Use) -> str:
        text = use.statement.text
        if not text:
            return await asked(self.db, use)
        if way == "streamed":
            return shown([row async for row in self.db.stream(text, *values(use))], use.id)
        if way == "many":
            return shown(await self.db.fetchmany(text, [values(use)]), use.id)
        if use.statement.name != "insert":
            return await asked(self.db, use)
        await self.db.batch(text, [values(use)]).atomic()
        return shown([], use.id)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[tuple[Run, Set]]:
        async with self.db.session() as session:
            yield (lambda use: asked(session, use)), session.execute

    async def close(self) -> None:
        await self.db.close()


class AsyncpgShaped(Subject):
    single = ["plain", "lent", "prepared", "many"]
    several = ["transaction", "cursors"]

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    @classmethod
    async def connect(cls, driver: Any, url: str, connections: int) -> AsyncpgShaped:
        settings = {"application_name": NAME}
        size = {"min_size": connections, "max_size": connections}
        idle = {"max_inactive_connection_lifetime": 0}
        return cls(await driver.create_pool(url, server_settings=settings, **size, **idle))

    async def run(self, way: str, uses: Sequence[Use]) -> list[str]:
        one = uses[0]
        if way == "plain":
            return [await asked(self.pool, one)]
        async with self.pool.acquire() as connection:
            if way in self.single:
                return [await self._single(connection, way, one)]
            async with connection.transaction():
                if way == "transaction":
                    return [await asked(connection, use) for use in uses]
                return [await self._cursor(connection, use) for use in uses]

    async def _single(self, connection: Any, way: str, use: Use) -> str:
        text = use.statement.text
        if way == "prepared" and text:
            statement = await connection.prepare(text)
            return shown(await statement.fetch(*values(use)), use.id)
        if way == "many" and use.statement.name == "insert":
            await connection.executemany(text, [values(use)])
            return shown([], use.id)
        return await asked(connection, use)

    async def _cursor(self, connection: Any, use: Use) -> str:
        text = use.statement.text
        if not text.startswith("select"):
            return await asked(connection, use)
        return shown([row async for row in connection.cursor(text, *values(use))], use.id)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[tuple[Run, Set]]:
        async with self.pool.acquire() as connection:
            yield (lambda use: asked(connection, use)), connection.execute

    async def close(self) -> None:
        await self.pool.close()


class Renewed(AsyncpgShaped):
    """asyncpg with new connections for each use, which shows that what is expected is right."""

    def __init__(self, url: str, connections: int) -> None:
        self.url, self.connections = url, connections

    async def run(self, way: str, uses: Sequence[Use]) -> list[str]:
        new = await AsyncpgShaped.connect(asyncpg, self.url, 1)
        try:
            return await new.run(way, uses)
        finally:
            await new.close()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[tuple[Run, Set]]:
        # It keeps the types of a text for as long as a connection lasts, whatever its path is, unless
        # it keeps no statements.
        con = await asyncpg.connect(
            self.url, server_settings={"application_name": NAME}, statement_cache_size=0
        )
        try:
            yield (lambda use: asked(con, use)), con.execute
        finally:
            await con.close()

    async def close(self) -> None:
        pass


async def connect(face: str, url: str, connections: int) -> Subject:
    if face == "native":
        return await Native.connect(url, connections)
    if face == "renewed":
        return Renewed(url, connections)
    driver = onetrip.asyncpg if face == "asyncpg" else asyncpg
    return await AsyncpgShaped.connect(driver, url, connections)


async def asked(on: Any, use: Use) -> str:
    """Runs one use."""
    statement = use.statement
    if statement.text:
        return shown(await on.fetch(statement.text, *values(use)), use.id)
    where = {"columns": statement.columns}
    if hasattr(on, "copy_rows"):
        rows = [values(use)]
        await on.copy_rows(statement.table, rows, schema=statement.schema, **where)
    else:
        records = [tuple(values(use))]
        schema = statement.schema
        await on.copy_records_to_table(
            statement.table, records=records, schema_name=schema, **where
        )
    return shown([], use.id)


def values(use: Use) -> list[Any]:
    return [use.id if it == "id" else value_of(use.given) for it in use.statement.parameters]


def value_of(given: Any) -> Any:
    """What a program in Python sends for a value."""
    if given is None:
        return None
    [(kind, value)] = given.items()
    if kind in ("timestamp", "timestamptz"):
        # Python 3.10 reads neither a Z nor one digit of a second.
        text, _, part = value.replace("Z", "+00:00").partition(".")
        moment = datetime.datetime.fromisoformat(text)
        return moment.replace(microsecond=int(part.ljust(6, "0"))) if part else moment
    if kind == "time":
        text, _, part = value.partition(".")
        clock = datetime.time.fromisoformat(text)
        return clock.replace(microsecond=int(part.ljust(6, "0"))) if part else clock
    convert: dict[str, Callable[[Any], Any]] = {
        "int": int,
        "float": float,
        "bytes": bytes.fromhex,
        "decimal": decimal.Decimal,
        "date": datetime.date.fromisoformat,
        "interval": lambda it: datetime.timedelta(seconds=it),
        "uuid": uuid.UUID,
        "json": json.dumps,
        "array": lambda it: [value_of(one) for one in it],
        "composite": lambda it: tuple(value_of(one) for one in it),
    }
    return convert.get(kind, lambda it: it)(value)


def all_shown(results: Sequence[Any], uses: Sequence[Use]) -> list[str]:
    """The rows of several uses; raises the first error, once all have ended."""
    for it in results:
        if isinstance(it, BaseException):
            raise it
    return [shown(it, use.id) for it, use in zip(results, uses)]


def shown(rows: Any, id: int) -> str:
    """Rows as text, with the types of their values. The use's own number is left out."""
    return "; ".join(", ".join(f"{name}={text(it, id)}" for name, it in row.items()) for row in rows)


def text(value: Any, id: int) -> str:
    kind = type(value).__name__
    if value is None or isinstance(value, bool):
        return repr(value)
    if isinstance(value, int) and value == id:
        return "own"
    if kind == "Record":
        return "{" + ", ".join(f"{name}={text(it, id)}" for name, it in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"{kind}[" + ", ".join(text(it, id) for it in value) + "]"
    return f"{kind} {repr(value).rsplit('asyncpg.', 1)[-1]}"
