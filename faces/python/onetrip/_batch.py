"""One statement for many rows of arguments, which are taken as they are sent."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from . import _native
from ._loan import told
from .errors import ConnectionLostError, Error, MisuseError

#: Rows of an atomic batch that leave together; two such groups are under way.
GROUP = 1024
#: Rows of an isolated batch that are under way.
WINDOW = 256

#: Gives a place whose statements go over one connection, for as long as a batch runs.
Place = Callable[[], AbstractAsyncContextManager[_native.Scope]]


@dataclass
class BatchReport:
    """How the rows of an isolated batch ended."""

    #: Rows of arguments that were taken. The batch takes no more once its connection is lost.
    taken: int = 0
    #: Rows that the statements inserted, updated, deleted or returned.
    affected: int = 0
    #: Why a row failed, by its place, from 0.
    errors: dict[int, Error] = field(default_factory=dict)


class Batch:
    """A statement and its rows. Nothing is sent before :meth:`atomic` or :meth:`isolated`."""

    def __init__(
        self,
        shared: _native.Scope,
        transaction: Place,
        session: Place | None,
        query: str,
        rows: Iterable[Sequence[Any]],
    ) -> None:
        self._shared, self._transaction, self._session = shared, transaction, session
        self._query, self._rows = query, rows

    async def atomic(self) -> int:
        """Runs it for all rows, or for none, and returns how many rows were affected.

        Up to 1,024 rows are one trip. More are a transaction, of which two groups of 1,024 rows
        are under way. The ``index`` of the error is the place of the row, from 0.
        """
        groups = _groups(self._rows)
        first, second = next(groups, []), next(groups, None)
        if not first:
            return 0
        try:
            if second is None:
                return await self._shared.executemany(self._query, first)
            async with self._transaction() as tx:
                return await self._all(tx, groups, first, second)
        except Error as error:
            if error.index is not None:
                _name(error, error.index)
            raise

    async def _all(self, tx: _native.Scope, groups: Iterator[Any], *front: Any) -> int:
        affected, begin = 0, 0
        waiting = deque((group, tx.executemany(self._query, group)) for group in front)
        try:
            while waiting:
                group, call = waiting.popleft()
                affected += await call
                begin += len(group)
                for more in islice(groups, 1):
                    waiting.append((more, tx.executemany(self._query, more)))
        except Error as error:
            if error.index is not None:
                error.index += begin
            raise
        except asyncio.CancelledError as error:
            told(error, "Unknown")
            raise
        finally:
            for _, call in waiting:
                call.close()
        return affected

    async def isolated(self) -> BatchReport:
        """Runs it for each row by itself, in their order on one connection.

        A row that fails does not stop the others. 256 rows are under way. Where the caller is
        cancelled, no more rows are taken; those that were sent may have taken effect.
        """
        if self._session is None:
            raise MisuseError(
                "an isolated batch is not for a transaction, where one row that fails would fail "
                "the others: use atomic(), or run it on the client"
            )
        report = BatchReport()
        waiting: deque[tuple[int, _native.Call[int]]] = deque()

        async def settle() -> bool:
            index, call = waiting.popleft()
            try:
                report.affected += await call
            except Error as error:
                _name(error, index)
                report.errors[index] = error
                return not isinstance(error, ConnectionLostError)
            return True

        async with self._session() as session:
            try:
                for row in self._rows:
                    waiting.append((report.taken, session.executemany(self._query, (row,))))
                    report.taken += 1
                    if len(waiting) >= WINDOW and not await settle():
                        break
                while waiting:
                    await settle()
            except asyncio.CancelledError as error:
                told(error, "Unknown")
                raise
            finally:
                for _, call in waiting:
                    call.close()
        return report


def _name(error: Error, index: int) -> None:
    """Says which row it was, in words as in its number."""
    error.index = index
    text = re.sub(r"^set \d+ of arguments: ", "", str(error))
    error.args = (f"row {index + 1} of the batch: {text}",)


def _groups(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    each = iter(rows)
    while group := list(islice(each, GROUP)):
        yield group


@asynccontextmanager
async def same(scope: _native.Scope) -> AsyncIterator[_native.Scope]:
    """A place that is there already."""
    yield scope
