"""The clients: a database, a session, a transaction, a pipeline.

What they have in common is native: ``Scope``.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from ssl import SSLContext
from types import TracebackType
from typing import Any, Literal

from . import _native
from ._batch import Batch, same
from ._config import Config, Password
from ._flow import Flows, Lent, Stream, alone, beside_nothing
from ._host import Host
from ._listen import Listener
from ._loan import Loan, told
from ._native import Position, Reads
from .errors import Error, MisuseError, Notice, _make

Isolation = Literal["read_uncommitted", "read_committed", "repeatable_read", "serializable"]


class Database(Flows):
    """A pool of connections, which its statements share. Made by :func:`connect`."""

    _host: Host

    def __new__(cls, host: Host) -> Database:
        self = super().__new__(cls, host.core)
        self._host = host
        host.close_with(self)
        return self

    def _core_of(self) -> _native.Core:
        return self._host.core

    async def _lend(self, stream: Stream[Any] | None) -> Lent:
        number = await self._host.core.checkout()
        return alone(Loan(self._host, number, "COPY" if stream is None else "stream"), stream)

    def batch(self, query: str, rows: Iterable[Sequence[Any]], /) -> Batch:
        """A statement for many rows of arguments: ``await db.batch(query, rows).atomic()``."""
        return Batch(self, self.begin, self.session, query, rows)

    def listen(self, *channels: str) -> Listener:
        """Notifications, on a connection of their own: ``async with db.listen("a") as events``."""
        return Listener(self._host, channels)

    def reads(self) -> Reads:
        """Reads that replicas may serve, and that show what this client wrote.

        Where they go, the setting ``reads`` says; by default that is the primary.
        """
        return Reads(self._host.core)

    async def position(self) -> Position:
        """The position in the log behind all writes that this client had acknowledged.

        Its ``str`` can be handed to another process, or put into a cookie, for ``reads().after``.
        """
        replicas = self._host.known_replicas
        known = replicas.newest() if replicas is not None else None
        if known is not None:
            return known
        return Position._read(await self._texts(Position._QUESTION))

    def metrics(self) -> Metrics:
        """What was counted so far, and how things stand."""
        host, known = self._host, self._host.known_replicas
        if known is None:
            return Metrics(**host.core.metrics())
        replicas = tuple(
            ReplicaMetrics(str(one.config.endpoints[0]), *known.status(at), Metrics(**one.core.metrics()))
            for at, one in enumerate(host.replicas)
        )
        reads = ReadMetrics(*known.counts())
        return Metrics(**host.core.metrics(), reads=reads, replicas=replicas)

    @property
    def server_parameters(self) -> dict[str, str]:
        """What the server reported of itself when a connection was opened last."""
        return dict(self._host.parameters)

    def begin(
        self,
        isolation: Isolation | None = None,
        read_only: bool | None = None,
        deferrable: bool | None = None,
    ) -> Begin:
        """A transaction: ``async with db.begin() as tx``. BEGIN leaves with its first statement."""
        return Begin(self._host, None, (isolation, read_only, deferrable))

    def session(self) -> Lease:
        """A connection of one's own: ``async with db.session() as session``.

        It is reset before anybody else uses it.
        """
        return Lease(self._host)

    def pipeline(self) -> Pipelining:
        """Statements that share one sync point: all of them take effect, or none.

        They leave at the end of the block.
        """
        return Pipelining(self._host.core)

    async def run(
        self,
        work: Callable[[Transaction], Any],
        *,
        isolation: Isolation | None = "serializable",
        read_only: bool | None = None,
        attempts: int = 0,
    ) -> Any:
        """Runs ``await work(tx)`` in a transaction, and again where it met others (40001, 40P01) or
        a migration.
        """
        tries = Attempts(attempts)
        while True:
            begin = self.begin(isolation, read_only)
            try:
                async with begin as tx:
                    return await work(tx)
            except Error:
                pause = tries.pause(begin.runs_again)
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    async def reload_types(self) -> None:
        """Forgets what was learned of texts and types, for after they were altered."""
        self._host.core.forget_types()

    async def close(self, timeout: float | None = None) -> None:
        """Takes nothing new, and ends when all is answered, or after this many seconds.

        The streams, sessions and transactions of the task that closes it end with it, since nobody
        else would end them, and so do those of tasks that have ended. Others it waits for.
        """
        self._closes()
        await self._host.close(timeout)

    async def __aenter__(self) -> Database:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Attempts:
    """The attempts at one transaction."""

    def __init__(self, most: int) -> None:
        self._most, self._failures = most, 0

    def pause(self, runs_again: bool) -> float | None:
        """Seconds until it is run again after a failure, and None where it is not."""
        self._failures += 1
        return _native.retry_pause(self._failures, self._most, id(self)) if runs_again else None


class Session(Flows):
    """A connection that its caller has to himself, in the order of its calls."""

    _loan: Loan

    def __new__(cls, loan: Loan) -> Session:
        self = super().__new__(cls, loan.core, loan.number)
        self._loan = loan
        loan.add(self)
        return self

    def _core_of(self) -> _native.Core:
        return self._loan.core

    async def _lend(self, stream: Stream[Any] | None) -> Lent:
        return await beside_nothing(self._loan, self, stream, False)

    def begin(
        self,
        isolation: Isolation | None = None,
        read_only: bool | None = None,
        deferrable: bool | None = None,
    ) -> Begin:
        """A transaction on this connection. The session takes nothing else until it has ended."""
        return Begin(self._loan._host, self, (isolation, read_only, deferrable))

    def script(self, text: str, /) -> _native.Call[str]:
        """Several statements in one text; the command tag of the last one that ran."""
        return self._run("script", text, ())

    def batch(self, query: str, rows: Iterable[Sequence[Any]], /) -> Batch:
        """A statement for many rows of arguments, on this connection."""
        return Batch(self, self.begin, lambda: same(self), query, rows)


class Transaction(Flows):
    """A transaction, or what stands behind one of its savepoints."""

    _loan: Loan
    #: How many savepoints it stands behind.
    _depth: int
    #: The savepoint in it that is open.
    _inner: weakref.ref[Transaction] | None

    def __new__(cls, loan: Loan) -> Transaction:
        self = super().__new__(cls, loan.core, loan.number, True)
        self._loan, self._depth, self._inner = loan, loan.depth, None
        loan.add(self)
        return self

    def _core_of(self) -> _native.Core:
        return self._loan.core

    async def _lend(self, stream: Stream[Any] | None) -> Lent:
        return await beside_nothing(self._loan, self, stream, True)

    def _over(self, why: str) -> bool:
        """Its block has ended. Whether that of a savepoint in it has not, whose block now hears
        that it was rolled back.
        """
        self._end(why)
        inner, self._inner = self._inner, None
        if inner is None:
            return False
        it = inner()
        if it is not None:
            it._over("the savepoint was rolled back: what it was in has ended before it")
        return True

    def begin(self) -> Savepoint:
        """A savepoint: ``async with tx.begin() as inner``.

        It is rolled back where its block raises. One is open at a time, and until its end its
        transaction takes nothing but by it.
        """
        return Savepoint(self)

    def batch(self, query: str, rows: Iterable[Sequence[Any]], /) -> Batch:
        """A statement for many rows of arguments, as a part of this transaction."""
        return Batch(self, lambda: same(self), None, query, rows)


@dataclass(frozen=True)
class CacheMetrics:
    """The numbers of a cache."""

    #: Commands that were answered from it, that were sent as it did not have their replies, and
    #: that got the reply of another caller who had sent the same.
    hits: int
    misses: int
    joined: int
    #: Keys that the server said were changed, and replies that were dropped as it was full.
    invalidations: int
    evicted: int
    #: The replies in it, and their bytes with all that belongs to them.
    bytes: int
    entries: int
    #: Whether replies are kept: the server speaks RESP3, and tells which keys were changed.
    is_on: bool


@dataclass(frozen=True)
class ReadMetrics:
    """Where reads have gone that replicas may serve (``db.reads()``).

    A read that went to several servers, one after the other, counts at each.
    """

    #: Reads that went to the primary, since no replica would do or all were busy.
    on_primary: int = 0
    #: Reads that went to replicas, and those of them that one could not serve, since it had not
    #: replayed what they must show.
    on_replicas: int = 0
    behind: int = 0


@dataclass(frozen=True)
class ReplicaMetrics:
    """The numbers of one replica."""

    #: The server, as the settings name it. The primary is one of them, too, and serves no reads as
    #: long as it is none.
    server: str
    #: Whether reads go there: it is a standby that can be reached, and not further behind than
    #: ``max_lag_ms``.
    serves: bool
    #: How many seconds it was behind when it was last asked; None if it has not said.
    lag: float | None
    #: Reads that went there, and those of them that it could not serve, since it had not replayed
    #: what they must show.
    reads: int
    behind: int
    #: The numbers of the pool of connections to it.
    pool: Metrics


@dataclass(frozen=True)
class Metrics:
    """The numbers of a client. Those that count up never go down."""

    #: Connections of the pool, those on which nothing is unanswered, callers that wait for one.
    connections: int
    idle: int
    waiting: int
    #: Statements that were sent and not answered, and those that wait for room.
    in_flight: int
    queued: int
    opened: int
    open_failed: int
    lost: int
    #: Statements that were handed over, those that failed, and those that were sent again.
    statements: int
    failed: int
    sent_again: int
    bytes_sent: int
    bytes_received: int
    #: What came from the cache of a client of Redis.
    cache: CacheMetrics | None = None
    #: Where reads have gone that replicas may serve; all 0 where ``reads`` is ``primary``.
    reads: ReadMetrics = ReadMetrics()
    #: The replicas, in the order of the list of hosts. Their connections are in no number above.
    replicas: tuple[ReplicaMetrics, ...] = ()


class Pipeline(_native.Scope):
    """Statements that leave together. Await them behind the block."""

    def __new__(cls, core: _native.Core) -> Pipeline:
        return super().__new__(cls, core, 0, False, True)


class Lease:
    """Borrows a connection for a block."""

    #: Its end does nothing that a caller would have to hear of.
    ends_nothing = True

    def __init__(self, host: Host) -> None:
        self._host = host
        self._session: Session | None = None

    async def __aenter__(self) -> Session:
        self._session = Session(Loan(self._host, await self._host.core.checkout(), "session"))
        return self._session

    async def __aexit__(self, *_: object) -> None:
        session, self._session = self._session, None
        assert session is not None
        session._loan.end("the session was released")


def _left_open(what: str) -> Error:
    message = f"the {what} was rolled back: a savepoint in it was still open when its block ended"
    return _make("rolled_back", "Rejected", message, None)


class Begin:
    """A transaction for a block: it is committed at the end, or rolled back where the block raises.
    """

    runs_again = False

    def __init__(
        self,
        host: Host,
        session: Session | None,
        modes: tuple[Isolation | None, bool | None, bool | None],
    ) -> None:
        self._host, self._session, self._modes = host, session, modes
        self._tx: Transaction | None = None

    async def __aenter__(self) -> Transaction:
        if self._tx is not None:
            raise MisuseError("this transaction was begun already: call begin anew")
        session = self._session
        if session is None:
            loan = Loan(self._host, await self._host.core.checkout(), "transaction")
        else:
            session._give_way("block")
            loan = session._loan
        try:
            loan.core.open_block(loan.number, *self._modes)
        except BaseException:
            self._done(loan)
            raise
        loan.is_begun, loan.depth = True, 0
        self._tx = Transaction(loan)
        return self._tx

    def _done(self, loan: Loan) -> None:
        """The connection is its owner's again."""
        if self._session is None:
            loan.go_back()
        else:
            self._session._open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        tx = self._tx
        assert tx is not None
        loan = tx._loan
        if loan.is_over:
            if kind is None:
                message = "the transaction was rolled back: its connection was given back before"
                raise _make("rolled_back", "Rejected", message, None)
            return _leaves(error, loan, True)
        why = "the transaction is over: its block has ended"
        is_left = tx._over(why)
        if loan.stream is not None:
            loan.end_stream(why)
        if kind is not None:
            self.runs_again = loan.core.runs_again(loan.number)
        commits = kind is None and not is_left
        loan.is_begun = False
        end = loan.core.act_on(loan.number, "commit" if commits else "rollback")
        self._done(loan)
        try:
            await end
            _leaves(error, loan, end.has_left)
        except asyncio.CancelledError as cancelled:
            _leaves(error, loan, True)
            told(cancelled, "Unknown")
            raise
        except Error as why_not:
            # Where ROLLBACK could not be said, the connection has ended, and the transaction with
            # it.
            if commits:
                self.runs_again = end.runs_again
                why_not.outcome = _native.outcome_left(why_not.outcome, "commit", end.has_left)
                raise
            _leaves(error, loan, end.has_left)
        if is_left and kind is None:
            raise _left_open("transaction")


def _leaves(error: BaseException | None, loan: Loan, has_left: bool) -> None:
    """What leaves a block speaks of the whole. ``has_left``: something of it was sent."""
    if getattr(error, "_part_of", None) == (id(loan.core), loan.number):
        assert isinstance(error, Error)
        error.outcome = _native.outcome_left(error.outcome, "own", has_left)
    elif isinstance(error, Error):
        error.outcome = _native.outcome_left(error.outcome, "other", has_left)
    elif isinstance(error, asyncio.CancelledError):
        told(error, _native.outcome_left("Unknown", "own", has_left))


class Savepoint:
    """A savepoint for a block."""

    def __init__(self, outer: Transaction) -> None:
        self._outer = outer
        self._inner: Transaction | None = None

    async def __aenter__(self) -> Transaction:
        outer = self._outer
        outer._give_way("savepoint")
        loan = outer._loan
        loan.depth += 1
        inner = self._inner = Transaction(loan)
        outer._inner = weakref.ref(inner)
        try:
            await loan.core.act_on(loan.number, "savepoint")
        except BaseException:
            self._over(inner)
            loan.core.act_on(loan.number, "undo").close()
            raise
        return inner

    def _over(self, inner: Transaction) -> bool:
        """Its transaction goes on without it. Whether a savepoint in it was still open."""
        outer, loan = self._outer, inner._loan
        why = "the savepoint is over: its block has ended"
        is_left = inner._over(why)
        if loan.stream is not None:
            loan.end_stream(why)
        # Those in it are undone first.
        for _ in range(loan.depth - inner._depth):
            loan.core.act_on(loan.number, "undo").close()
        loan.depth = outer._depth
        outer._inner = None
        outer._open()
        return is_left

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        inner, outer = self._inner, self._outer
        assert inner is not None
        loan = inner._loan
        if loan.is_over or outer._inner is None or outer._inner() is not inner:
            if kind is None:
                message = "the savepoint was rolled back: what it was in has ended before it"
                raise _make("rolled_back", "Rejected", message, None)
            return _leaves(error, loan, True)
        is_left = self._over(inner)
        releases = kind is None and not is_left
        end = loan.core.act_on(loan.number, "release" if releases else "undo")
        try:
            await end
        except Error as why_not:
            # The connection has ended, and the savepoint with it.
            if kind is None:
                why_not.outcome = _native.outcome_left(why_not.outcome, "commit", end.has_left)
                raise
            return _leaves(error, loan, end.has_left)
        _leaves(error, loan, end.has_left)
        if is_left and kind is None:
            raise _left_open("savepoint")


class Pipelining:
    """A pipeline for a block."""

    def __init__(self, core: _native.Core) -> None:
        self._pipeline = Pipeline(core)

    async def __aenter__(self) -> Pipeline:
        return self._pipeline

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        pipeline = self._pipeline
        if kind is not None:
            if isinstance(error, Error):
                error.outcome = _native.outcome_left(error.outcome, "other", False)
            pipeline._drop()
            return
        sent = pipeline._send()
        pipeline._end("the pipeline was sent: its block has ended")
        await sent


class Connecting:
    """A database that is being opened: awaited, or entered."""

    def __init__(
        self, config: Config, on_notice: Callable[[Notice], object] | None
    ) -> None:
        self._config, self._on_notice = config, on_notice
        self._database: Database | None = None

    def __await__(self) -> Generator[Any, Any, Database]:
        return self._open().__await__()

    def _made(self) -> Database:
        host = Host(asyncio.get_running_loop(), self._config)
        host.on_notice = self._on_notice
        host.begin()
        return Database(host)

    async def _open(self) -> Database:
        database = self._made()
        host = database._host
        try:
            # A server that can't be reached is told of here, and not by the first statement.
            host.core.release(await host.core.checkout())
        except BaseException:
            await host.abandon()
            raise
        self._database = database
        return database

    async def __aenter__(self) -> Database:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        assert self._database is not None
        await self._database.close()


def connect(
    dsn: str | None = None,
    *,
    ssl: SSLContext | None = None,
    password: str | Password | None = None,
    on_notice: Callable[[Notice], object] | None = None,
    **settings: Any,
) -> Connecting:
    """Opens a database: ``async with onetrip.connect(dsn) as db``, or ``db = await
    onetrip.connect(dsn)``.

    ``settings`` are the keywords of connection strings, as ``connections_max=20``. ``ssl`` is a
    context, which then decides what is verified. ``password`` may be a function, which is asked for
    each connection.
    """
    asked: Password | None = None
    if isinstance(password, str):
        settings["password"] = password
    else:
        asked = password
    config = Config(dsn, settings, ssl, asked)
    return Connecting(config, on_notice)
