"""Cursors: the rows of a statement, some at a time, in a transaction."""

from __future__ import annotations

import collections
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from . import connresource, exceptions
from .protocol import PreparedStatementState

if TYPE_CHECKING:
    from .connection import Connection


class CursorFactory(connresource.ConnectionResource):
    """What `Connection.cursor` returns: awaited, or iterated."""

    __slots__ = ("_args", "_prefetch", "_query", "_record_class", "_state", "_timeout")

    def __init__(
        self,
        connection: Connection,
        query: str,
        state: Any,
        args: Any,
        prefetch: int | None,
        timeout: float | None,
        record_class: type | None,
    ) -> None:
        super().__init__(connection)
        self._query, self._state, self._args = query, state, args
        self._prefetch, self._timeout, self._record_class = prefetch, timeout, record_class

    @connresource.guarded
    def __aiter__(self) -> CursorIterator:
        prefetch = 50 if self._prefetch is None else self._prefetch
        return CursorIterator(
            self._connection, self._query, self._state, self._args, self._record_class,
            prefetch, self._timeout,
        )

    @connresource.guarded
    def __await__(self) -> Generator[Any, Any, Cursor]:
        if self._prefetch is not None:
            raise exceptions.InterfaceError(
                "prefetch argument can only be specified for iterable cursor"
            )
        cursor = Cursor(
            self._connection, self._query, self._state, self._args, self._record_class
        )
        return cursor._init(self._timeout).__await__()


class BaseCursor(connresource.ConnectionResource):
    __slots__ = ("_args", "_exhausted", "_portal_name", "_query", "_record_class", "_state")

    def __init__(
        self, connection: Connection, query: str, state: Any, args: Any, record_class: type | None
    ) -> None:
        super().__init__(connection)
        #: The server describes the text when the portal is opened.
        self._state = state or PreparedStatementState("", query, record_class)
        self._query, self._args = query, args
        self._record_class = record_class
        self._portal_name: str | None = None
        self._exhausted = False

    def _check_ready(self) -> None:
        if self._state.closed:
            raise exceptions.InterfaceError("cursor: the prepared statement is closed")
        if not self._connection.is_in_transaction():
            raise exceptions.NoActiveSQLTransactionError(
                "cursor cannot be created outside of a transaction"
            )

    async def _bind_exec(self, n: int, timeout: float | None) -> list[Any]:
        self._open_portal()
        rows, _, self._exhausted = await self._connection._protocol.bind_execute(
            self._state, self._args, self._portal_name, n, True, timeout
        )
        return rows

    async def _bind(self, timeout: float | None) -> Any:
        self._open_portal()
        protocol = self._connection._protocol
        return await protocol.bind(self._state, self._args, self._portal_name, timeout)

    def _open_portal(self) -> None:
        self._check_ready()
        if self._portal_name:
            raise exceptions.InterfaceError("cursor already has an open portal")
        self._portal_name = self._connection._get_unique_id("portal")

    async def _exec(self, n: int, timeout: float | None) -> list[Any]:
        self._check_ready()
        if not self._portal_name:
            raise exceptions.InterfaceError("cursor does not have an open portal")
        rows, _, self._exhausted = await self._connection._protocol.execute(
            self._state, self._portal_name, n, True, timeout
        )
        return rows

    async def _close_portal(self, timeout: float | None) -> None:
        self._check_ready()
        if not self._portal_name:
            raise exceptions.InterfaceError("cursor does not have an open portal")
        await self._connection._protocol.close_portal(self._portal_name, timeout)
        self._portal_name = None

    def __repr__(self) -> str:
        state = "exhausted " if self._exhausted else ""
        query = str(self._query)[:30]
        return f'<asyncpg.{type(self).__name__} "{query}" {state}{id(self):#x}>'


class CursorIterator(BaseCursor):
    __slots__ = ("_buffer", "_prefetch", "_timeout")

    def __init__(
        self,
        connection: Connection,
        query: str,
        state: Any,
        args: Any,
        record_class: type | None,
        prefetch: int,
        timeout: float | None,
    ) -> None:
        super().__init__(connection, query, state, args, record_class)
        if prefetch <= 0:
            raise exceptions.InterfaceError("prefetch argument must be greater than zero")
        self._buffer: collections.deque[Any] = collections.deque()
        self._prefetch, self._timeout = prefetch, timeout

    @connresource.guarded
    def __aiter__(self) -> CursorIterator:
        return self

    @connresource.guarded
    async def __anext__(self) -> Any:
        if not self._portal_name and not self._exhausted:
            self._buffer.extend(await self._bind_exec(self._prefetch, self._timeout))
        elif not self._buffer and not self._exhausted:
            self._buffer.extend(await self._exec(self._prefetch, self._timeout))
        if self._portal_name and self._exhausted:
            await self._close_portal(self._timeout)
        if self._buffer:
            return self._buffer.popleft()
        raise StopAsyncIteration


class Cursor(BaseCursor):
    """An open cursor."""

    __slots__ = ()

    async def _init(self, timeout: float | None) -> Cursor:
        await self._bind(timeout)
        return self

    @staticmethod
    def _check_count(n: int) -> None:
        if n <= 0:
            raise exceptions.InterfaceError("n must be greater than zero")

    @connresource.guarded
    async def fetch(self, n: int, *, timeout: float | None = None) -> list[Any]:
        self._check_ready()
        self._check_count(n)
        return [] if self._exhausted else await self._exec(n, timeout)

    @connresource.guarded
    async def fetchrow(self, *, timeout: float | None = None) -> Any:
        self._check_ready()
        rows = [] if self._exhausted else await self._exec(1, timeout)
        return rows[0] if rows else None

    @connresource.guarded
    async def forward(self, n: int, *, timeout: float | None = None) -> int:
        self._check_ready()
        self._check_count(n)
        text = f'MOVE FORWARD {n:d} "{self._portal_name}"'
        tag = await self._connection._protocol.query(text, timeout)
        advanced = int(tag.split()[1])
        self._exhausted = advanced < n
        return advanced
