"""Connections that callers have for themselves: whose they are, what is open there, and how they go
back. Each goes back once, whoever sees to that: the end of its block, the end of the client, or the
collector where nobody can reach it any more.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Union

from . import _native
from .errors import Outcome

if TYPE_CHECKING:
    from ._flow import Stream
    from ._host import Host

Owner = Union[threading.Thread, "asyncio.Task[Any]"]

#: The thread that a task of `onetrip.blocking` works for.
works_for: ContextVar[threading.Thread | None] = ContextVar("onetrip_works_for", default=None)


def caller() -> Owner | None:
    """Who calls: a thread where the client is one without async, and else a task."""
    return works_for.get() or asyncio.current_task()


def told(error: asyncio.CancelledError, outcome: Outcome) -> None:
    """Says what is known of what was cancelled, as a whole. (A call says it of itself where nothing
    of it was sent.)
    """
    error._outcome = outcome  # type: ignore[attr-defined]


class Loan:
    """A connection that one caller has."""

    __slots__ = (
        "__weakref__", "_host", "_owner", "_scopes", "copies", "core", "depth", "is_begun",
        "is_over", "number", "stream", "what",
    )

    def __init__(self, host: Host, number: int, what: str) -> None:
        self.core, self.number, self.what = host.core, number, what
        self._host = host
        owner = caller()
        self._owner = None if owner is None else weakref.ref(owner)
        #: What its caller submits by.
        self._scopes: list[weakref.ref[Any]] = []
        #: The stream that is open on it.
        self.stream: weakref.ref[Stream[Any]] | None = None
        #: How many savepoints are open on it, and whether a transaction is; whether a COPY takes
        #: data there, or what else ends by nobody but its caller.
        self.depth = 0
        self.is_begun = self.copies = self.is_over = False
        host.loans[number] = weakref.ref(self)

    def add(self, scope: object) -> None:
        """Its caller submits by this, until it goes back."""
        self._scopes.append(weakref.ref(scope))

    def leave_out(self) -> None:
        """A call of its caller's was given up before it was made. A transaction is not committed
        without it.
        """
        if self.is_begun and not self.is_over:
            self.core.act_on(self.number, "leave_out").close()

    def end_stream(self, why: str) -> None:
        """What reads the stream further hears why it can't."""
        stream = None if self.stream is None else self.stream()
        if stream is not None:
            stream._end(why)

    def end(self, why: str) -> None:
        """Nothing goes there any more. It goes back once it has answered what was sent."""
        if self.is_over:
            return
        self.end_stream(why)
        for seen in self._scopes:
            scope = seen()
            if scope is not None:
                scope._end(why)
        if self.is_begun:
            self.core.act_on(self.number, "rollback").close()
        self.go_back()

    def cut(self, why: str) -> None:
        """The same, where nobody is left who would give a COPY the rest of its data."""
        if self.copies and not self.is_over:
            self.core.destroy(self.number, why)
        self.end(why)

    def go_back(self) -> None:
        if not self.is_over:
            # Elsewhere than in its event loop that can't be done, and so it is not over either.
            self._release()
            self.is_over = True
            self._host.loans.pop(self.number, None)

    def _release(self) -> None:
        self.core.release(self.number)

    # --- who ends it ---

    def waits_for(self, it: Owner | None) -> bool:
        """Whether nobody else would end it while this caller waits for that."""
        owner = None if self._owner is None else self._owner()
        if owner is None or owner is it:
            return True
        is_alive = owner.is_alive() if isinstance(owner, threading.Thread) else not owner.done()
        return not is_alive

    def leave_soon(self, leave: Callable[[], object]) -> None:
        """A stream was collected where it can't be left. Those without async never can be."""
        if not self._host.is_blocking and not self._host.loop.is_closed():
            self._warn("stream was deleted that was not closed")
        self._soon(leave)

    def _warn(self, what: str) -> None:
        if not self._host.is_ending:
            warnings.warn(f"onetrip: a {what}", ResourceWarning, stacklevel=3)

    def _soon(self, act: Callable[[], object]) -> None:
        """Does something in the event loop, from wherever that is seen to be needed."""
        loop = self._host.loop
        if sys.is_finalizing() or loop.is_closed() or os.getpid() != self._host.process:
            return
        try:
            loop.call_soon_threadsafe(act)
        except RuntimeError:
            # It was closed meanwhile, and its sockets with it.
            pass

    def __del__(self) -> None:
        # A collector may run anywhere: on another thread, or amid the client's own work.
        # A signal's handler may have raised before all of it was there.
        if getattr(self, "is_over", True) or sys.is_finalizing():
            return
        if self.what != "stream" and not self._host.loop.is_closed():
            self._warn(f"{self.what} was deleted whose block had not ended")
        self._soon(self._lost)

    def _lost(self) -> None:
        self.cut("nobody has it any more")
