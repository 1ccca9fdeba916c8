"""PostgreSQL: a database, a session, a transaction. Each method is documented where it is written
for asyncio: ``onetrip._client``, ``onetrip._flow``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from ssl import SSLContext
from typing import Any, TypeVar, overload

from .. import _batch, _client, _native
from .._batch import BatchReport
from .._client import Attempts, Isolation, Metrics, Pipeline
from .._flow import PART, Data, Flows
from .._listen import Event
from .._loan import Loan
from .._native import Arrow, Position, Record
from ..errors import Error, Notice
from ._loop import Loop, is_main_threads, marked, whole
from ._parts import Block, Events, Owner, Stream, grouped

T = TypeVar("T")

#: Rows that are handed over to a COPY at a time.
ROWS = 128


class Calls:
    """What a database, a session and a transaction have in common."""

    _loop: Loop
    _it: Flows

    def _at(self) -> tuple[Loop, Any]:
        return self._loop, self._it

    def _part_of(self) -> Loan | None:
        """The connection of the transaction that a call here is a part of."""
        return None

    @overload
    def fetch(
        self, query: str, /, *args: Any, repeatable: bool = False, into: None = None
    ) -> list[Record]: ...
    @overload
    def fetch(
        self, query: str, /, *args: Any, repeatable: bool = False, into: type[dict[str, Any]]
    ) -> list[dict[str, Any]]: ...
    @overload
    def fetch(
        self, query: str, /, *args: Any, repeatable: bool = False, into: Callable[..., T]
    ) -> list[T]: ...
    def fetch(self, query: str, /, *args: Any, repeatable: bool = False, into: Any = None) -> Any:
        """The rows of a statement; ``into``: tuple, dict, or a class that is called with the
        columns by name, as a dataclass.
        """
        loop, it = self._at()
        return loop.call(it.fetch, query, *args, repeatable=repeatable, into=into)

    @overload
    def fetchrow(
        self, query: str, /, *args: Any, repeatable: bool = False, into: None = None
    ) -> Record | None: ...
    @overload
    def fetchrow(
        self, query: str, /, *args: Any, repeatable: bool = False, into: type[dict[str, Any]]
    ) -> dict[str, Any] | None: ...
    @overload
    def fetchrow(
        self, query: str, /, *args: Any, repeatable: bool = False, into: Callable[..., T]
    ) -> T | None: ...
    def fetchrow(
        self, query: str, /, *args: Any, repeatable: bool = False, into: Any = None
    ) -> Any:
        """The first row, or None."""
        loop, it = self._at()
        return loop.call(it.fetchrow, query, *args, repeatable=repeatable, into=into)

    def fetchval(
        self, query: str, /, *args: Any, column: int = 0, repeatable: bool = False
    ) -> Any:
        """A value of the first row, or None."""
        loop, it = self._at()
        return loop.call(it.fetchval, query, *args, column=column, repeatable=repeatable)

    def fetch_arrow(self, query: str, /, *args: Any, repeatable: bool = False) -> Arrow:
        """The rows of a statement as columns of Arrow."""
        loop, it = self._at()
        result: Arrow = loop.call(it.fetch_arrow, query, *args, repeatable=repeatable)
        return result

    def execute(self, query: str, /, *args: Any) -> str:
        """The command tag, as ``INSERT 0 1``."""
        loop, it = self._at()
        result: str = loop.call(it.execute, query, *args)
        return result

    def executemany(self, query: str, args: Iterable[Iterable[Any]], /) -> int:
        """Runs a statement with each of these sets of arguments: all of them take effect, or none.

        It returns how many rows were affected.
        """
        loop, it = self._at()
        result: int = loop.call(it.executemany, query, list(args))
        return result

    @overload
    def fetchmany(
        self, query: str, args: Iterable[Iterable[Any]], /, *, into: None = None
    ) -> list[Record]: ...
    @overload
    def fetchmany(
        self, query: str, args: Iterable[Iterable[Any]], /, *, into: type[dict[str, Any]]
    ) -> list[dict[str, Any]]: ...
    @overload
    def fetchmany(
        self, query: str, args: Iterable[Iterable[Any]], /, *, into: Callable[..., T]
    ) -> list[T]: ...
    def fetchmany(
        self, query: str, args: Iterable[Iterable[Any]], /, *, into: Any = None
    ) -> Any:
        """The same, and the rows of all of them."""
        loop, it = self._at()
        return loop.call(it.fetchmany, query, list(args), into=into)

    def batch(self, query: str, rows: Iterable[Sequence[Any]], /) -> Batch:
        """A statement for many rows of arguments: ``db.batch(query, rows).atomic()``."""
        loop, of = self._at()
        return Batch(loop, of.batch(query, _told(rows)), self._part_of())

    @overload
    def stream(self, query: str, /, *args: Any) -> Stream[Record]: ...
    @overload
    def stream(
        self, query: str, /, *args: Any, into: type[dict[str, Any]]
    ) -> Stream[dict[str, Any]]: ...
    @overload
    def stream(self, query: str, /, *args: Any, into: Callable[..., T]) -> Stream[T]: ...
    def stream(self, query: str, /, *args: Any, into: Any = None) -> Stream[Any]:
        """The rows as they arrive: ``for row in db.stream(…)``."""
        loop, it = self._at()
        return Stream(loop, lambda: it.stream(query, *args, into=into), self._part_of())

    def copy_out(self, query: str, /) -> Stream[bytes]:
        """The data of a COPY … TO STDOUT as it arrives."""
        loop, it = self._at()
        return Stream(loop, lambda: it.copy_out(query), self._part_of())

    def copy_in(self, query: str, source: Data | Iterable[Data] | Any, /) -> int:
        """Gives data to a COPY … FROM STDIN, and returns how many rows it made.

        The source is bytes, a file, or what can be iterated over for bytes. Nothing is stored
        where it raises.
        """
        groups = grouped(_chunks(source), _size, PART)
        return self._copy(lambda of, it: of.copy_in(query, it), groups)

    def copy_rows(
        self,
        table: str,
        rows: Iterable[Sequence[Any]],
        /,
        *,
        columns: Iterable[str] | None = None,
        schema: str | None = None,
    ) -> int:
        """Stores rows by a binary COPY, and returns how many.

        ``columns`` are needed where the table has generated ones.
        """
        if isinstance(rows, (list, tuple)):
            # They can be gone through again.
            loop, of = self._at()
            result: int = loop.run(
                lambda: of.copy_rows(table, rows, columns=columns, schema=schema),
                part_of=self._part_of(),
            )
            return result
        return self._copy(
            lambda of, it: of.copy_rows(table, it, columns=columns, schema=schema),
            grouped(iter(rows), lambda _: 1, ROWS),
        )

    def _copy(self, copy: Callable[[Any, Any], Any], groups: Iterator[list[Any]]) -> int:
        """The source is read outside of the loop, so it may use the client."""
        handed: asyncio.Queue[list[Any] | None] = asyncio.Queue(1)

        async def source() -> Any:
            while (group := await handed.get()) is not None:
                for one in group:
                    yield one

        # Known before the call that begins it returns, which a signal's handler may prevent.
        begun: list[asyncio.Task[int]] = []

        async def begin() -> asyncio.Task[int]:
            begun.append(asyncio.get_running_loop().create_task(whole(copy(of, source()))))
            return begun[0]

        async def hand(task: asyncio.Task[int], group: list[Any] | None) -> bool:
            put = asyncio.ensure_future(handed.put(group))
            await asyncio.wait([put, task], return_when=asyncio.FIRST_COMPLETED)
            return put.cancel()

        async def end(task: asyncio.Task[int]) -> int:
            return await task

        async def leave(task: asyncio.Task[int]) -> None:
            task.cancel()
            await asyncio.wait([task])

        loop, of = self._at()
        part_of = self._part_of()
        try:
            task = loop.run(begin, part_of=part_of)
            for group in groups:
                if loop.run(hand, task, group, part_of=part_of):
                    break
            loop.run(hand, task, None, part_of=part_of)
            return loop.run(end, task, part_of=part_of)
        except Error as error:
            if not begun:
                raise
            # It speaks of one step, as one that was not taken any more.
            task = begun[0]
            if not task.done() and not loop.is_closed():
                with suppress(Error):
                    loop.leave(leave, task)
            if task.done() and not task.cancelled() and task.exception() is None:
                return task.result()
            raise marked(_of_whole(error, task), part_of)
        except BaseException:
            # Where a signal's handler has raised nothing is left to end, and that goes on.
            if begun and loop.failure is None:
                loop.leave(leave, begun[0])
            raise


def _of_whole(error: Error, task: asyncio.Task[Any]) -> Error:
    """The error with what is known of the whole COPY, which a task sends."""
    own = task.exception() if task.done() and not task.cancelled() else None
    error.outcome = own.outcome if isinstance(own, Error) else "Unknown"
    return error


class Reads:
    """Reads that replicas may serve, and that show what this client wrote."""

    def __init__(self, loop: Loop, it: _native.Reads) -> None:
        self._loop, self._it = loop, it

    def after(self, position: Position, /) -> Reads:
        """The same, but they show all writes up to this position, instead of this client's."""
        return Reads(self._loop, self._it.after(position))

    def stale(self) -> Reads:
        """The same, but they show whatever the replica has."""
        return Reads(self._loop, self._it.stale())

    def or_wait(self, seconds: float, /) -> Reads:
        """The same, but a read that no replica can serve yet waits for that for up to so long."""
        return Reads(self._loop, self._it.or_wait(seconds))

    @overload
    def fetch(self, query: str, /, *args: Any, into: None = None) -> list[Record]: ...
    @overload
    def fetch(
        self, query: str, /, *args: Any, into: type[dict[str, Any]]
    ) -> list[dict[str, Any]]: ...
    @overload
    def fetch(self, query: str, /, *args: Any, into: Callable[..., T]) -> list[T]: ...
    def fetch(self, query: str, /, *args: Any, into: Any = None) -> Any:
        """The rows of a read."""
        return self._loop.call(self._it.fetch, query, *args, into=into)

    @overload
    def fetchrow(self, query: str, /, *args: Any, into: None = None) -> Record | None: ...
    @overload
    def fetchrow(
        self, query: str, /, *args: Any, into: type[dict[str, Any]]
    ) -> dict[str, Any] | None: ...
    @overload
    def fetchrow(self, query: str, /, *args: Any, into: Callable[..., T]) -> T | None: ...
    def fetchrow(self, query: str, /, *args: Any, into: Any = None) -> Any:
        """The first row, or None."""
        return self._loop.call(self._it.fetchrow, query, *args, into=into)

    def fetchval(self, query: str, /, *args: Any, column: int = 0) -> Any:
        """A value of the first row, or None."""
        return self._loop.call(self._it.fetchval, query, *args, column=column)

    def fetch_arrow(self, query: str, /, *args: Any) -> Arrow:
        """The rows of a read as columns of Arrow."""
        return self._loop.call(self._it.fetch_arrow, query, *args)


class Batch:
    """A statement and its rows, which are taken while the thread looks after the connections: what
    makes them can't use the client.
    """

    def __init__(self, loop: Loop, it: _batch.Batch, part_of: Loan | None) -> None:
        self._loop, self._it, self._part_of = loop, it, part_of

    def atomic(self) -> int:
        """Runs it for all rows, or for none, and returns how many rows were affected."""
        return self._run(self._it.atomic)

    def isolated(self) -> BatchReport:
        """Runs it for each row by itself, in their order on one connection."""
        return self._run(self._it.isolated)

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return self._loop.run(work, part_of=self._part_of)
        except _Raised as raised:
            raise raised.error from None


class Transaction(Calls):
    """A transaction, or what stands behind one of its savepoints."""

    def __init__(self, loop: Loop, it: _client.Transaction) -> None:
        self._loop, self._it = loop, it

    def _part_of(self) -> Loan | None:
        of: Any = self._it
        loan: Loan = of._loan
        return loan

    def begin(self) -> Block[Transaction]:
        """A savepoint, which is rolled back where its block raises."""
        of: Any = self._it
        loop = self._loop
        return Block(loop, of.begin, lambda tx: Transaction(loop, tx), self._part_of())


class Session(Calls):
    """A connection that its caller has to himself, in the order of its calls."""

    def __init__(self, loop: Loop, it: Flows) -> None:
        self._loop, self._it = loop, it

    def begin(
        self,
        isolation: Isolation | None = None,
        read_only: bool | None = None,
        deferrable: bool | None = None,
    ) -> Block[Transaction]:
        """A transaction: ``with db.begin() as tx``. BEGIN leaves with its first statement."""
        loop, of = self._at()
        assert isinstance(of, (_client.Session, _client.Database))
        return Block(
            loop,
            lambda: of.begin(isolation, read_only, deferrable),
            lambda tx: Transaction(loop, tx),
        )


class Database(Owner, Session):  # type: ignore[override]
    """A pool of connections, which its statements share. Made by :func:`connect`."""

    _it: _client.Database

    def session(self) -> Block[Session]:
        """A connection of one's own: ``with db.session() as session``."""
        loop, it = self._at()
        return Block(loop, it.session, lambda session: Session(loop, session))

    def pipeline(self) -> Block[Pipeline]:
        """Statements that share one sync point: all of them take effect, or none.

        They leave at the end of the block. Behind it their calls have a ``result()``.
        """
        loop, it = self._at()
        return Block(loop, it.pipeline, lambda pipeline: pipeline)

    def listen(self, *channels: str) -> Block[Events[Event]]:
        """Notifications, on a connection of their own: ``with db.listen("a") as events``."""
        loop, of = self._at()
        return Block(loop, lambda: of.listen(*channels), lambda it: Events(loop, it))

    def run(
        self,
        work: Callable[[Transaction], T],
        *,
        isolation: Isolation | None = "serializable",
        read_only: bool | None = None,
        attempts: int = 0,
    ) -> T:
        """Runs ``work(tx)`` in a transaction, and again where it met others (40001, 40P01) or a
        migration.
        """
        tries = Attempts(attempts)
        while True:
            begin = self.begin(isolation, read_only)
            try:
                with begin as tx:
                    return work(tx)
            except Error:
                pause = tries.pause(begin.runs_again)
                if pause is None:
                    raise
            time.sleep(pause)

    def reads(self) -> Reads:
        """Reads that replicas may serve, and that show what this client wrote."""
        loop, it = self._at()
        return Reads(loop, it.reads())

    def position(self) -> Position:
        """The position in the log behind all writes that this client had acknowledged."""
        loop, it = self._at()
        result: Position = loop.run(it.position)
        return result

    def metrics(self) -> Metrics:
        """What was counted so far, and how things stand."""
        loop, it = self._at()
        result: Metrics = loop.act(it.metrics)
        return result

    @property
    def server_parameters(self) -> dict[str, str]:
        """What the server reported of itself when a connection was opened last."""
        return self._it.server_parameters

    def reload_types(self) -> None:
        """Forgets what was learned of texts and types, for after they were altered."""
        loop, it = self._at()
        loop.run(it.reload_types)


class _Raised(RuntimeError):
    """What makes rows has raised, and no signal's handler."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _told(rows: Iterable[T]) -> Iterator[T]:
    try:
        yield from rows
    except Exception as error:
        if is_main_threads(error):
            raise
        raise _Raised(error) from None


def _size(chunk: Any) -> int:
    if not isinstance(chunk, (bytes, bytearray, memoryview)):
        raise TypeError(f"the data of a COPY is bytes, and not a {type(chunk).__name__}")
    return len(chunk)


def _chunks(source: Any) -> Iterator[Any]:
    if isinstance(source, memoryview):
        source = source.cast("B")
    if isinstance(source, (bytes, bytearray, memoryview)):
        return iter((source,))
    if hasattr(source, "read"):
        return iter(lambda: source.read(PART), b"")
    return iter(source)


def connect(
    dsn: str | None = None,
    *,
    ssl: SSLContext | None = None,
    password: str | Callable[[], str] | None = None,
    on_notice: Callable[[Notice], object] | None = None,
    **settings: Any,
) -> Database:
    """Opens a database: ``with onetrip.blocking.connect(dsn) as db``.

    What it takes is what :func:`onetrip.connect` takes. ``on_notice`` is called by whichever thread
    looks after the connections, and can't use the client.
    """

    def heard(notice: Notice) -> None:
        try:
            if on_notice is not None:
                on_notice(notice)
        except Exception:
            logging.getLogger("onetrip").exception("on_notice has raised")

    opens = _client.connect(dsn, ssl=ssl, password=password, on_notice=heard, **settings)
    db = Database(opens._made)

    async def check() -> None:
        core = db._at()[1]._core_of()
        core.release(await core.checkout())

    return db._checked(check)
