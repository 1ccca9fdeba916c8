"""What a `Connection` is to the engine. Statements go by the methods that asyncpg has, so that those
who patch them are heard; `Connection` leaves them out while nobody has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ... import _native
from ..._flow import Lent, RowCopy, Stream, _copy_in
from ..._native import Record, record_of
from ..._within import within as within
from ...errors import ConnectionLostError, Error
from .. import exceptions, types
from .._errors import translated

__all__ = ("NO_TIMEOUT", "PreparedStatementState", "Protocol", "Record")

NO_TIMEOUT = object()

_BUSY = "cannot perform operation: another operation is in progress"


class PreparedStatementState:
    """A text, and what the server said of it."""

    __slots__ = (
        "__weakref__", "attributes", "closed", "name", "parameters", "query", "record_class",
        "table",
    )

    def __init__(
        self, name: str, query: str, record_class: Any = None, told: Any = ((), ())
    ) -> None:
        self.name, self.query, self.record_class = name, query, record_class
        parameters, columns = told
        self.parameters = tuple(map(_type, parameters))
        self.attributes = tuple(types.Attribute(name, _type(of)) for name, of in columns)
        self.closed = False
        #: That whose columns it returns, for a COPY, and whether its name can mean its rows' type.
        self.table: tuple[str, bool] = ("", True)

    def mark_closed(self) -> None:
        self.closed = True


def _type(told: Any) -> types.Type:
    oid, name, kind, schema = told
    return types.Type(oid, name.replace('"', ""), kind, schema)


def _create_record(mapping: Mapping[str, int] | None, elems: tuple[Any, ...]) -> Record:
    """A record for tests of programs: the places of its names, and its values."""
    return record_of(dict(mapping or {}), elems)


class Protocol:
    """One connection of a client: its number, and where its statements go."""

    def __init__(self, host: Any, number: int, config: Any, record_class: Any) -> None:
        self.host, self.number = host, number
        self.core: _native.Core = host.core
        self.scope = _native.Scope(host.core, number)
        self.timeout: float | None = config.command_timeout
        self.record_class = None if record_class is Record else record_class
        #: Calls that are not answered.
        self.busy = 0
        #: A COPY runs, beside which nothing does.
        self.copies = False
        self.queries_count = 0
        self.is_over = False

    # --- statements ---

    async def run(
        self, timeout: Any, query: str, args: Any, start: Callable[..., Awaitable[Any]], *of: Any
    ) -> Any:
        """Awaits what `start` returns; its errors are those of asyncpg."""
        if self.busy and (self.copies or self.is_in_transaction()):
            raise exceptions.InterfaceError(_BUSY)
        if timeout is None:
            timeout = self.timeout
        elif timeout is NO_TIMEOUT:
            timeout = None
        else:
            timeout = _seconds(timeout)
        self.busy += 1
        # What is prepared is no query yet.
        self.queries_count += of[:1] != ("attributes",)
        try:
            call = start(*of)
            return await (call if timeout is None else within(call, timeout))
        except Error as error:
            if isinstance(error, ConnectionLostError):
                # Who listens for the end hears of it first.
                await asyncio.sleep(0)
            raise translated(error, query, args)
        finally:
            self.busy -= 1

    def has_left(self) -> bool:
        """Whether something of the transaction on it was sent."""
        return self.core.has_left(self.number)

    def left_by(self, error: Any, has_left: bool) -> None:
        """An error of this connection's leaves a transaction that was rolled back. ``has_left``:
        something of it was sent.
        """
        if getattr(error, "_part_of", None) == (id(self.host.core), self.number):
            error.outcome = _native.outcome_left(error.outcome, "own", has_left)
        elif isinstance(error, Error) or hasattr(error, "_part_of"):
            error.outcome = _native.outcome_left(error.outcome, "other", has_left)

    def record_of(self, record_class: Any) -> Any:
        return self.record_class if record_class is None else record_class

    async def prepare(
        self,
        stmt_name: str,
        query: str,
        timeout: Any,
        *,
        state: Any = None,
        ignore_custom_codec: bool = False,
        record_class: Any = None,
    ) -> PreparedStatementState:
        told = await self.run(timeout, query, (), self.scope._run, "attributes", query, (), None)
        return PreparedStatementState(stmt_name, query, self.record_of(record_class), told)

    async def bind_execute(
        self, state: Any, args: Any, portal_name: str, limit: int, return_extra: bool, timeout: Any
    ) -> Any:
        if portal_name:
            return await self._portal(state, args, portal_name, limit, return_extra, timeout)
        query, record = state.query, self.record_of(state.record_class)
        want = "both" if return_extra else "head" if limit == 1 else "rows"
        got = await self.run(timeout, query, args, self.scope._run, want, query, args, record)
        if not return_extra:
            return got
        rows, tag = got
        # asyncpg leaves a statement at its first row, and then knows no tag.
        return (rows[:1], None, False) if limit == 1 and rows else (rows, tag.encode(), True)

    async def bind_execute_many(
        self, state: Any, args: Any, portal_name: str, timeout: Any, return_rows: bool = False
    ) -> list[Any] | None:
        query, sets = state.query, arguments_of(args)
        record = self.record_of(state.record_class) or Record if return_rows else None
        many = self.scope._run_many
        rows: list[Any] | None = await self.run(timeout, query, sets, many, query, sets, record)
        return rows if return_rows else None

    async def query(self, query: str, timeout: Any) -> str:
        tag: str = await self.run(timeout, query, (), self.scope._run, "script", query, (), None)
        return tag

    # --- portals ---

    async def bind(self, state: Any, args: Any, portal_name: str, timeout: Any) -> Any:
        return await self._portal(state, args, portal_name, 0, False, timeout)

    async def execute(
        self, state: Any, portal_name: str, limit: int, return_extra: bool, timeout: Any
    ) -> Any:
        return await self._portal(state, None, portal_name, limit, return_extra, timeout)

    async def _portal(
        self, state: Any, args: Any, name: str, limit: int, return_extra: bool, timeout: Any
    ) -> Any:
        query, record = state.query, self.record_of(state.record_class)
        rows = await self.run(
            timeout, query, args or (), self.scope._portal, name, limit, query, args, record
        )
        return (rows, None, len(rows) < limit) if return_extra else rows

    async def close_portal(self, portal_name: str, timeout: Any) -> None:
        await self.query(f'CLOSE "{portal_name}"', timeout)

    # --- COPY ---

    async def _lend(self, _: object) -> Lent:
        if not self.is_in_transaction():
            return Lent(self.scope, "cancel", "cancel", lambda: None)
        # A BEGIN that is held leaves first: the server would not skip a COPY where it failed.
        await self.scope._run("script", "select 1", ())
        return Lent(self.scope, "read", "cancel", lambda: None)

    async def copy_out(
        self, copy_stmt: str, sink: Callable[[bytes], Awaitable[Any]], timeout: Any
    ) -> str:
        async def work() -> str | None:
            async with Stream[bytes](self._lend, "copy_out", copy_stmt, (), None) as stream:
                async for data in stream:
                    await sink(data)
            return stream.tag

        tag: str = await self.run(timeout, copy_stmt, (), self._copied, work)
        return tag

    async def _copied(self, copy: Callable[..., Awaitable[Any]], *of: Any) -> Any:
        self.copies = True
        try:
            return await copy(*of)
        finally:
            self.copies = False

    async def copy_in(
        self,
        copy_stmt: str,
        reader: AsyncIterable[Any] | None,
        data: Any,
        records: Any,
        record_stmt: Any,
        timeout: Any,
    ) -> str:
        of: tuple[Any, ...]
        if record_stmt is not None:
            copy = RowCopy(self.core, record_stmt.query, record_stmt.table, records)
            of = (copy.run, self._lend, copy_stmt)
        else:
            of = (_copy_in, self._lend, copy_stmt, lambda _: _read(reader, data))
        count = await self.run(timeout, copy_stmt, (), self._copied, *of)
        return f"COPY {count}"

    # --- what it is, and its end ---

    def is_connected(self) -> bool:
        return not self.is_over

    def is_closed(self) -> bool:
        return self.is_over

    def is_in_transaction(self) -> bool:
        return self.core.status(self.number) in ("T", "E")

    def get_server_pid(self) -> int:
        return self.core.process_id(self.number)

    def get_settings(self) -> Any:
        return SimpleNamespace(**self.host.parameters)

    def get_record_class(self) -> Any:
        return self.record_class or Record

    def abort(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.host.terminate(self.number)


def _seconds(timeout: Any) -> float:
    try:
        if isinstance(timeout, bool):
            raise ValueError
        return float(timeout)
    except ValueError:
        raise ValueError(
            f"invalid timeout value: expected non-negative float (got {timeout!r})"
        ) from None


async def _read(reader: AsyncIterable[Any] | None, data: Any) -> Any:
    if reader is None:
        yield memoryview(data).cast("B")
        return
    async for chunk in reader:
        yield chunk


def arguments_of(args: Iterable[Any]) -> list[tuple[Any, ...]]:
    """The arguments of each of many statements."""
    sets = []
    for place, one in enumerate(args):
        is_text = isinstance(one, (str, bytes, bytearray, memoryview))
        if is_text or not isinstance(one, (list, tuple, Record, Sequence)):
            raise exceptions.DataError(
                f"invalid input in executemany() argument sequence element #{place}: expected a "
                f"sequence, got {type(one).__name__}"
            )
        sets.append(tuple(one))
    return sets
