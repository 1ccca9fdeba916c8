"""Prepared statements."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import connresource, cursor, exceptions, types
from .utils import _mogrify

if TYPE_CHECKING:
    from .connection import Connection


class PreparedStatementState:
    """What the server said of a text."""

    __slots__ = ("attributes", "closed", "name", "parameters", "query", "record_class")

    def __init__(self, name: str, query: str, record_class: type | None, told: Any) -> None:
        self.name, self.query, self.record_class = name, query, record_class
        parameters, columns = told
        self.parameters = tuple(types.Type(*it) for it in parameters)
        self.attributes = tuple(types.Attribute(it, types.Type(*of)) for it, of in columns)
        self.closed = False


class PreparedStatement(connresource.ConnectionResource):
    """A text that the server has described."""

    __slots__ = ("_last_status", "_query", "_state", "__weakref__")

    def __init__(self, connection: Connection, query: str, state: PreparedStatementState) -> None:
        super().__init__(connection)
        self._state, self._query = state, query
        self._last_status: str | None = None

    @connresource.guarded
    def get_name(self) -> str:
        return self._state.name

    @connresource.guarded
    def get_query(self) -> str:
        return self._query

    @connresource.guarded
    def get_statusmsg(self) -> str | None:
        return self._last_status

    @connresource.guarded
    def get_parameters(self) -> tuple[types.Type, ...]:
        return self._state.parameters

    @connresource.guarded
    def get_attributes(self) -> tuple[types.Attribute, ...]:
        return self._state.attributes

    @connresource.guarded
    def cursor(
        self, *args: Any, prefetch: int | None = None, timeout: float | None = None
    ) -> cursor.CursorFactory:
        return cursor.CursorFactory(
            self._connection, self._query, self._state, args, prefetch, timeout,
            self._state.record_class,
        )

    @connresource.guarded
    async def explain(self, *args: Any, analyze: bool = False) -> Any:
        query = "EXPLAIN (FORMAT JSON, VERBOSE"
        query += ", ANALYZE) " if analyze else ") "
        con = self._connection
        query += await _mogrify(con, self._query, args)
        if not analyze:
            return json.loads(await con.fetchval(query))
        # What it does is undone.
        transaction = con.transaction()
        await transaction.start()
        try:
            return json.loads(await con.fetchval(query))
        finally:
            await transaction.rollback()

    @connresource.guarded
    async def fetch(self, *args: Any, timeout: float | None = None) -> list[Any]:
        return await self._bind_execute(args, 0, timeout)

    @connresource.guarded
    async def fetchval(self, *args: Any, column: int = 0, timeout: float | None = None) -> Any:
        rows = await self._bind_execute(args, 1, timeout)
        return rows[0][column] if rows else None

    @connresource.guarded
    async def fetchrow(self, *args: Any, timeout: float | None = None) -> Any:
        rows = await self._bind_execute(args, 1, timeout)
        return rows[0] if rows else None

    @connresource.guarded
    async def fetchmany(self, args: Any, *, timeout: float | None = None) -> list[Any]:
        con, of = self._connection, self._state
        return await con._many(self._query, args, timeout, of.record_class, returns=True)

    @connresource.guarded
    async def executemany(self, args: Any, *, timeout: float | None = None) -> None:
        await self._connection._many(self._query, args, timeout, None, returns=False)

    async def _bind_execute(self, args: Any, limit: int, timeout: float | None) -> list[Any]:
        if self._state.closed:
            raise exceptions.InterfaceError("the prepared statement is closed")
        con, of = self._connection, self._state
        rows, tag = await con._do("both", self._query, args, timeout, of.record_class)
        # asyncpg leaves a statement at its first row, and then knows no tag.
        self._last_status = None if limit == 1 and rows else tag
        return rows[:1] if limit == 1 else rows
