"""Transactions and savepoints."""

from __future__ import annotations

import asyncio
import enum
import itertools
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from . import connresource, exceptions

if TYPE_CHECKING:
    from .connection import Connection


class TransactionState(enum.Enum):
    NEW = 0
    STARTED = 1
    COMMITTED = 2
    ROLLEDBACK = 3
    FAILED = 4


ISOLATION_LEVELS = {"read_committed", "read_uncommitted", "serializable", "repeatable_read"}
ISOLATION_LEVELS_BY_VALUE = {name.replace("_", " "): name for name in ISOLATION_LEVELS}

_SAID = {
    TransactionState.COMMITTED: "the transaction is already committed",
    TransactionState.ROLLEDBACK: "the transaction is already rolled back",
    TransactionState.FAILED: "the transaction is in error state",
}


_marks = itertools.count(1)

#: The marks of what is open that a task has opened, or that was open where the task was made.
_mine: ContextVar[tuple[int, ...]] = ContextVar("onetrip_asyncpg_transactions", default=())


class Transaction(connresource.ConnectionResource):
    """A transaction, or a savepoint in one. BEGIN leaves with the first statement."""

    __slots__ = (
        "_deferrable", "_id", "_isolation", "_managed", "_mark", "_nested", "_outer", "_readonly",
        "_state", "_task",
    )

    def __init__(
        self, connection: Connection, isolation: str | None, readonly: bool, deferrable: bool
    ) -> None:
        super().__init__(connection)
        if isolation and isolation not in ISOLATION_LEVELS:
            raise ValueError(
                f"isolation is expected to be either of {ISOLATION_LEVELS}, got {isolation!r}"
            )
        self._isolation, self._readonly, self._deferrable = isolation, readonly, deferrable
        self._state = TransactionState.NEW
        self._nested = self._managed = False
        self._id: str | None = None
        #: What it was opened in, and by whom.
        self._outer: Transaction | None = None
        self._task: asyncio.Task[Any] | None = None
        self._mark = next(_marks)

    async def __aenter__(self) -> None:
        if self._managed:
            raise exceptions.InterfaceError(
                "cannot enter context: already in an `async with` block"
            )
        self._managed = True
        await self.start()

    async def __aexit__(
        self, extype: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        try:
            self._check_conn_validity("__aexit__")
        except exceptions.InterfaceError:
            # Who leaves a generator in the middle may have given the connection back already, and
            # that rolls back.
            if extype is GeneratorExit:
                return
            raise
        has_left = self._connection._protocol.has_left()
        try:
            await (self._rollback() if extype is not None else self._commit())
            self._connection._protocol.left_by(error, has_left)
        finally:
            self._managed = False

    @connresource.guarded
    async def start(self) -> None:
        self._check_over("start")
        if self._state is TransactionState.STARTED:
            raise exceptions.InterfaceError(
                "cannot start; the transaction is already started"
            )
        con = self._connection
        if con._top_xact is None:
            if con.is_in_transaction():
                raise exceptions.InterfaceError(
                    "cannot use Connection.transaction() in a manually started transaction"
                )
            con._top_xact, outer = self, None
        else:
            outer = con._inner_xact
            self._check_task(outer)
            self._nested = True
            self._id = con._get_unique_id("savepoint")
        self._opens(outer)
        try:
            if self._nested:
                await self._check_isolation(con._top_xact)
            await self._run(f"SAVEPOINT {self._id};" if self._nested else self._begin())
        except BaseException:
            self._closes()
            raise
        self._state = TransactionState.STARTED

    def _opens(self, outer: Transaction | None) -> None:
        self._outer, self._task = outer, asyncio.current_task()
        self._connection._inner_xact = self
        _mine.set((*_mine.get(), self._mark))

    @staticmethod
    def _check_task(inner: Transaction | None) -> None:
        """Opened beside that of another task, its end would undo what the other one has done."""
        if inner is None or inner._mark in _mine.get():
            return
        if inner._task is not None and not inner._task.done():
            raise exceptions.InterfaceError(
                "cannot start; another task has opened a transaction on this connection, which has "
                "not ended: use a connection for each task"
            )

    def _closes(self) -> None:
        con = self._connection
        _mine.set(tuple(mark for mark in _mine.get() if mark != self._mark))
        if con._inner_xact is self:
            con._inner_xact = self._outer
        self._outer = self._task = None

    async def _check_isolation(self, top: Transaction | None) -> None:
        if not self._isolation or top is None:
            return
        outer = top._isolation
        if outer is None:
            shown = await self._connection.fetchval("SHOW transaction_isolation;")
            outer = ISOLATION_LEVELS_BY_VALUE[shown]
        if self._isolation != outer:
            raise exceptions.InterfaceError(
                "nested transaction has a different isolation level: "
                f"current {self._isolation!r} != outer {outer!r}"
            )

    def _begin(self) -> str:
        text = "BEGIN"
        if self._isolation:
            text += " ISOLATION LEVEL " + self._isolation.replace("_", " ").upper()
        if self._readonly:
            text += " READ ONLY"
        if self._deferrable:
            text += " DEFERRABLE"
        return text + ";"

    async def _run(self, text: str) -> None:
        try:
            await self._connection.execute(text)
        except BaseException:
            self._state = TransactionState.FAILED
            raise

    def _check_over(self, name: str) -> None:
        if self._state in _SAID:
            raise exceptions.InterfaceError(f"cannot {name}; {_SAID[self._state]}")

    async def _end(self, name: str, text: str, nested: str, state: TransactionState) -> None:
        if self._state is TransactionState.NEW:
            raise exceptions.InterfaceError(
                f"cannot {name}; the transaction is not yet started"
            )
        self._check_over(name)
        self._closes()
        if self._connection._top_xact is self:
            self._connection._top_xact = self._connection._inner_xact = None
        await self._run(nested if self._nested else text)
        self._state = state

    async def _commit(self) -> None:
        nested = f"RELEASE SAVEPOINT {self._id};"
        await self._end("commit", "COMMIT;", nested, TransactionState.COMMITTED)

    async def _rollback(self) -> None:
        nested = f"ROLLBACK TO {self._id};"
        await self._end("rollback", "ROLLBACK;", nested, TransactionState.ROLLEDBACK)

    def _check_managed(self, name: str) -> None:
        if self._managed:
            raise exceptions.InterfaceError(
                f"cannot manually {name} from within an `async with` block"
            )

    @connresource.guarded
    async def commit(self) -> None:
        self._check_managed("commit")
        await self._commit()

    @connresource.guarded
    async def rollback(self) -> None:
        self._check_managed("rollback")
        await self._rollback()

    def __repr__(self) -> str:
        told: list[Any] = [f"state:{self._state.name.lower()}"]
        told += [self._isolation] * (self._isolation is not None)
        told += ["readonly"] * bool(self._readonly) + ["deferrable"] * bool(self._deferrable)
        return f"<asyncpg.{type(self).__name__} {' '.join(told)} {id(self):#x}>"
