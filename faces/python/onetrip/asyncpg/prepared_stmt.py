"""Prepared statements."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import connresource, cursor, exceptions, types
from .protocol import PreparedStatementState
from .utils import _mogrify

if TYPE_CHECKING:
    from .connection import Connection


class PreparedStatement(connresource.ConnectionResource):
    """A text that the server has described."""

    __slots__ = ("_last_status", "_query", "_state", "__weakref__")

    def __init__(self, connection: Connection, query: str, state: PreparedStatementState) -> None:
        super().__init__(connection)
        self._state, self._query = state, query
        self._last_status: bytes | None = None

    @connresource.guarded
    def get_name(self) -> str:
        return self._state.name

    @connresource.guarded
    def get_query(self) -> str:
        return self._query

    @connresource.guarded
    def get_statusmsg(self) -> str | None:
        return None if self._last_status is None else self._last_status.decode()

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
        many = self._connection._protocol.bind_execute_many
        return await many(self._state, args, "", timeout, return_rows=True) or []

    @connresource.guarded
    async def executemany(self, args: Any, *, timeout: float | None = None) -> None:
        many = self._connection._protocol.bind_execute_many
        await many(self._state, args, "", timeout, return_rows=False)

    async def _bind_execute(self, args: Any, limit: int, timeout: float | None) -> list[Any]:
        rows, self._last_status, _ = await self._connection._protocol.bind_execute(
            self._state, args, "", limit, True, timeout
        )
        return rows

    def _check_conn_validity(self, meth_name: str) -> None:
        if self._state.closed:
            raise exceptions.InterfaceError(
                f"cannot call PreparedStmt.{meth_name}(): the prepared statement is closed"
            )
        super()._check_conn_validity(meth_name)
