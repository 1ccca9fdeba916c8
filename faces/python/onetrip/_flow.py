"""What takes or gives more than one answer at a time: streams and COPY."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar, Union, overload

from . import _native
from ._loan import Loan, told
from .errors import ConversionError, Error, MisuseError, Outcome, ParameterError, PostgresError

T = TypeVar("T")
Data = Union[bytes, bytearray, memoryview]

#: Bytes of one part of a COPY, and the most that are handed over at a time.
PART = 64 << 10
PART_MAX = 256 << 10
#: How often rows are written, where their columns are others by then.
COPIES_MAX = 4
HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"


@dataclass(frozen=True)
class Lent:
    """A connection for as long as a stream or a COPY runs."""

    scope: _native.Scope
    #: What becomes of a reply that is left, and of one that is left since its caller was stopped.
    rest: Literal["read", "cancel", "close"]
    stop: Literal["undo", "cancel", "stop"]
    release: Callable[[], None]
    loan: Loan | None = None


def alone(loan: Loan, stream: Stream[Any] | None) -> Lent:
    """A connection that a stream or a COPY has to itself."""
    scope = _native.Scope(loan.core, loan.number)
    _has(loan, stream)
    return Lent(scope, "close", "stop", loan.go_back, loan)


def _has(loan: Loan, stream: Stream[Any] | None) -> None:
    loan.copies = stream is None
    loan.stream = None if stream is None else weakref.ref(stream)


async def beside_nothing(
    loan: Loan, of: _native.Scope, stream: Stream[Any] | None, in_transaction: bool
) -> Lent:
    """That of a session or a transaction, on which nothing else runs meanwhile."""
    scope = of._claim("copy" if stream is None else "stream")

    def release() -> None:
        loan.stream, loan.copies = None, False
        if not loan.is_over:
            scope._leave()

    try:
        # The server does not skip a COPY where BEGIN has failed.
        if in_transaction and not loan.core.is_begun(loan.number):
            await scope.execute("select 1")
    except BaseException:
        release()
        raise
    _has(loan, stream)
    if in_transaction:
        return Lent(scope, "read", "undo", release, loan)
    return Lent(scope, "cancel", "cancel", release, loan)


class Flows(_native.Scope):
    """A place whose statements have a connection for themselves as long as they need it."""

    async def _lend(self, stream: Stream[Any] | None) -> Lent:
        """For this stream, or for a COPY that takes data."""
        raise NotImplementedError

    def _core_of(self) -> _native.Core:
        raise NotImplementedError

    @overload
    def stream(self, query: str, /, *args: Any) -> Stream[_native.Record]: ...
    @overload
    def stream(
        self, query: str, /, *args: Any, into: type[dict[str, Any]]
    ) -> Stream[dict[str, Any]]: ...
    @overload
    def stream(self, query: str, /, *args: Any, into: Callable[..., T]) -> Stream[T]: ...
    def stream(self, query: str, /, *args: Any, into: Any = None) -> Stream[Any]:
        """The rows as they arrive: ``async for row in db.stream(…)``.

        While they are not taken, the server is not read. Statements leave when the first row is
        asked for. ``async with`` gives the connection back at a certain moment.
        """
        return Stream(self._lend, "stream", query, args, into)

    def copy_out(self, query: str, /) -> Stream[bytes]:
        """The data of a COPY … TO STDOUT as it arrives."""
        return Stream(self._lend, "copy_out", query, (), None)

    async def copy_in(
        self, query: str, source: Data | Iterable[Data] | AsyncIterable[Data] | Any, /
    ) -> int:
        """Gives data to a COPY … FROM STDIN, and returns how many rows it made.

        The source is bytes, a file, or what can be iterated over for bytes, by ``async for`` too.
        Nothing is stored where it raises.
        """
        return await _copy_in(self._lend, query, lambda _: _chunks(source))

    async def copy_rows(
        self,
        table: str,
        rows: Iterable[Sequence[Any]] | AsyncIterable[Sequence[Any]],
        /,
        *,
        columns: Iterable[str] | None = None,
        schema: str | None = None,
    ) -> int:
        """Stores rows by a binary COPY, and returns how many.

        ``columns`` are needed where the table has generated ones.
        """
        name = ".".join(_quoted(part) for part in (schema, table) if part is not None)
        listed = None if columns is None else ", ".join(_quoted(column) for column in columns)
        described = f"select {listed or '*'} from {name} limit 0"
        into = f"copy {name} {f'({listed})' if listed else ''} from stdin (format binary)"
        by_row = schema is not None or not _native.is_type(table)
        copy = RowCopy(self._core_of(), described, (name, by_row), rows)
        return await copy.run(self._lend, into)


class RowCopy:
    """A binary COPY of rows into the columns that the text ``described`` returns.

    No message of it says which types the columns have. They are remembered, and a guard behind the
    COPY fails if they are others by then; so nothing is stored that was written for other columns.
    The rows are written anew then, if they can be gone through again, and no transaction has failed.
    """

    def __init__(
        self, core: _native.Core, described: str, table: tuple[str, bool], rows: Any
    ) -> None:
        self._core, self._described, self._rows = core, described, rows
        self._table, self._by_row = table
        self._writer: _native.RowWriter | None = None
        #: Why it failed, if the columns are what they were.
        self._error: Error | None = None
        #: It was sent on a connection whose transaction fails with it.
        self._in_transaction = self._is_sent = False

    async def run(self, lend: Callable[[None], Any], query: str) -> int:
        for _ in range(COPIES_MAX - 1):
            self._is_sent = False
            try:
                return await _copy_in(lend, query, self._data, self._guard)
            except Error as error:
                if error is self._error or not self._may_be_outdated(error):
                    raise
                self._core.doubt(self._described, self._shows_change(error))
                is_kept = isinstance(self._rows, Collection)
                if not is_kept or self._in_transaction and self._is_sent:
                    raise
                self._error = error
        return await _copy_in(lend, query, self._data, self._guard)

    def _may_be_outdated(self, error: Error) -> bool:
        if isinstance(error, PostgresError):
            is_undone = error.outcome == "Rejected"
            return is_undone and _native.copy_may_be_outdated(error.sqlstate)
        return isinstance(error, ParameterError)

    def _shows_change(self, error: Error) -> bool:
        if not isinstance(error, PostgresError):
            return False
        return _native.copy_types_changed(error.sqlstate, str(error))

    def _guard(self) -> str:
        assert self._writer is not None
        self._is_sent = True
        return self._writer.guard(self._table, self._by_row)

    async def _data(self, lent: Lent) -> AsyncGenerator[bytes, None]:
        self._in_transaction = lent.rest == "read"
        while (writer := self._core.row_writer(self._described)) is None:
            await lent.scope._run("attributes", self._described, ())
        if self._error is not None and self._writer is not None and writer.is_same(self._writer):
            if not self._by_row or isinstance(self._error, ParameterError):
                raise self._error
            # Its name may be that of another type.
            self._by_row = False
        self._writer = writer
        front = HEADER
        async with aclosing(_batches(self._rows)) as batches:
            async for batch in batches:
                while data := writer.write(batch, PART):
                    yield front + data
                    front = b""
        yield front + TRAILER


class Stream(AsyncIterator[T], Generic[T]):
    """Rows, or the data of a COPY, for one task at a time."""

    def __init__(
        self,
        lend: Callable[[Stream[Any] | None], Any],
        kind: Literal["stream", "copy_out"],
        query: str,
        args: tuple[Any, ...],
        into: Any,
    ) -> None:
        self._lend, self._kind = lend, kind
        self._query, self._args, self._into = query, args, into
        self._lent: Lent | None = None
        self._call: _native.Call[Any] | None = None
        self._come: Iterator[T] = iter(())
        self._is_read = self._is_over = self._has_come = False
        #: Why there is no more, where neither its end nor its reader is the reason.
        self._why: str | None = None
        #: What is known of its statement then.
        self._known: Outcome = "NotSent"
        #: The command tag, once all was read.
        self.tag: str | None = None

    def __aiter__(self) -> Stream[T]:
        return self

    async def __anext__(self) -> T:
        for one in self._come:
            return one
        if self._is_read:
            raise MisuseError("a stream is read by one task at a time")
        if self._why is not None:
            raise self._refusal(self._why)
        if self._is_over:
            raise StopAsyncIteration
        self._is_read = True
        try:
            come = await self._more()
        except BaseException as error:
            if isinstance(error, Error) and error.outcome == "Applied" and self._call is not None:
                # A row can't be read. Its statement goes on, and is stopped with that.
                error.outcome = _known_of(self._call)
            self._stop(error)
            raise
        finally:
            self._is_read = False
        if come is None:
            self._leave()
            raise StopAsyncIteration
        self._come = come
        return next(come)

    async def _more(self) -> Iterator[T] | None:
        """What has come, and None at the end."""
        if self._call is None:
            self._lent = lent = await self._lend(self)
            if self._is_over:
                return None
            self._call = lent.scope._flow(self._kind, self._query, *self._args, into=self._into)
        call = self._call
        while True:
            if self._is_over:
                raise MisuseError(self._why or "the stream was closed while it was read")
            try:
                come: Any = _native.take(call)
            except ConversionError:
                if self._has_come or not _native.may_go_again(call):
                    raise
                # Its columns are others by now. Its text was forgotten, and is described anew.
                self._has_come = True
                self._give_back("rest")
                return await self._more()
            self._has_come = self._has_come or bool(come)
            if come:
                return iter(come if self._kind == "stream" else (come,))
            if call.done():
                self.tag = await call
                return None
            await _arrived(call)

    def _stop(self, error: BaseException) -> None:
        self._misses(error)
        self._leave(was_stopped=True)

    def _misses(self, error: BaseException) -> None:
        """Rows are missing from here on, which must not look like its end to who reads on."""
        if self._why is None:
            self._why = f"the stream has ended before its rows did: {type(error).__name__}"
            self._known = error.outcome if isinstance(error, Error) else "Unknown"
        self._come = iter(())

    def _refusal(self, why: str) -> Error:
        error = MisuseError(why)
        error.outcome = self._known
        return error

    def _leave(self, was_stopped: bool = False) -> None:
        self._is_over, self._come = True, iter(())
        self._give_back("stop" if was_stopped else "rest")

    def _give_back(self, how: Literal["stop", "rest"]) -> None:
        lent = self._lent
        if lent is None:
            return
        if self._call is not None:
            _native.leave(self._call, lent.stop if how == "stop" else lent.rest)
        # Where that could not be done here, it is not done yet.
        self._lent = self._call = None
        lent.release()

    def _end(self, why: str) -> None:
        """The same, for who is not its reader, who hears why."""
        self._why = why
        self._leave()

    async def aclose(self) -> None:
        """Takes no more. The rest of a long reply costs its connection, and no neighbour's."""
        self._leave()

    async def __aenter__(self) -> Stream[T]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None
    ) -> None:
        self._leave(was_stopped=kind is not None)

    def __del__(self) -> None:
        lent = self._lent
        if lent is None:
            return
        try:
            self._leave()
        except RuntimeError:
            # The interpreter collects it on a thread that is not the loop's, or amid the client's
            # own work.
            if lent.loan is not None:
                lent.loan.leave_soon(self._leave)


async def _arrived(call: _native.Call[Any]) -> None:
    future = _native.arrived(call)
    if future is not None:
        await future


async def _copy_in(
    lend: Callable[[None], Any],
    query: str,
    source: Callable[[Lent], AsyncGenerator[Data, None]],
    behind: Callable[[], str] = str,
) -> int:
    lent: Lent = await lend(None)
    call: _native.Call[str] | None = None
    try:
        async with aclosing(source(lent)) as chunks:
            async for chunk in chunks:
                if not isinstance(chunk, (bytes, bytearray, memoryview)):
                    kind = type(chunk).__name__
                    raise TypeError(f"the data of a COPY is bytes, and not a {kind}")
                if call is None:
                    call = lent.scope._copy_in(query, behind())
                for at in range(0, len(chunk), PART_MAX):
                    await _feed(call, bytes(chunk[at : at + PART_MAX]))
        if call is None:
            call = lent.scope._copy_in(query, behind())
        await _feed(call, None)
        tag = await call
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError):
            told(error, "NotSent" if call is None else _known_of(call))
        if call is not None and not call.done():
            is_told = _native.feed(call, f"the client gave it up: {type(error).__name__}")
            if not isinstance(error, Exception):
                # It is cancelled: the server is to stop what it does of it.
                call.close()
            elif not is_told:
                _native.leave(call, "read")
        raise
    finally:
        lent.release()
    return int(tag.rpartition(" ")[2])


def _known_of(call: _native.Call[Any]) -> Outcome:
    """What is known of a stream that nobody reads on, or a COPY that nobody gives more data."""
    return call._known() or "Unknown"


async def _feed(call: _native.Call[str], part: bytes | None) -> None:
    while not _native.feed(call, part):
        if call.done():
            await call
            raise MisuseError("the COPY ended before all of its data was sent")
        await _arrived(call)


async def _chunks(source: Any) -> AsyncGenerator[Data, None]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        yield source if not isinstance(source, memoryview) else source.cast("B")
    elif hasattr(source, "read"):
        while data := source.read(PART):
            data = await data if inspect.isawaitable(data) else data
            if not data:
                return
            yield data
    elif hasattr(source, "__aiter__"):
        async for data in source:
            yield data
    else:
        for data in source:
            yield data


async def _batches(rows: Any) -> AsyncGenerator[Iterator[Any], None]:
    """Rows as iterators that need not wait."""
    if not hasattr(rows, "__aiter__"):
        yield iter(rows)
        return
    batch = []
    async for row in rows:
        batch.append(row)
        if len(batch) == 128:
            yield iter(batch)
            batch = []
    yield iter(batch)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
