"""Notifications, on a connection of their own."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

from . import _native
from ._opening import Refused
from .errors import ConnectionLostError, Error, MisuseError, _closed

if TYPE_CHECKING:
    from ._host import Host


@dataclass(frozen=True)
class Notification:
    """What somebody has notified."""

    channel: str
    payload: str
    process_id: int


@dataclass(frozen=True)
class Gap:
    """Notifications may be missing: the connection was lost, or they were not read in time."""

    #: How many were dropped since they were not read.
    dropped: int


Event = Union[Notification, Gap]


class Listener(AsyncIterator[Event]):
    """The notifications of channels: ``async with db.listen("a") as events: async for …``.

    Where the connection is lost, another is opened, and a :class:`Gap` says that notifications may
    be missing, behind those that came before. If the server refuses for good, the next event raises that, and the listener goes on
    trying.
    """

    def __init__(self, host: Host, channels: tuple[str, ...]) -> None:
        if not channels:
            raise MisuseError("listen: a channel is missing")
        self._host = host
        seed = int.from_bytes(os.urandom(8), "little")
        try:
            self._decides = _native.Listening(list(channels), seed)
        except UnicodeEncodeError as error:
            raise MisuseError(f"listen: the name of a channel is not Unicode: {error}") from error
        self._kept: deque[Event] = deque()
        # What is missing in front of them.
        self._missing: Gap | None = None
        self._is_over = False
        self._error: Error | None = None
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] = host.loop.create_future()

    async def __aenter__(self) -> Listener:
        if self._task is not None or self._is_over:
            raise MisuseError("this listener was used already: call listen anew")
        self._host.core.check()
        if self._host.is_ending:
            raise _closed()
        self._host.listeners.add(self)
        self._task = self._host.spawn(self._run())
        try:
            await self._ready
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it. Events that were not read are of no use any more."""
        self._is_over, self._missing = True, None
        self._kept.clear()
        self._host.listeners.discard(self)
        if self._task is not None:
            self._task.cancel()
        if not self._ready.done():
            self._ready.set_exception(_closed())
        self._news.set()

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> Event:
        if self._task is None:
            raise MisuseError("a listener is entered first: async with db.listen(…) as events")
        while not (found := self._found()):
            await self._arrival()
        return found[0]

    def _found(self) -> list[Event]:
        """The next, if it has come."""
        missing, self._missing = self._missing, None
        if missing is not None:
            return [missing]
        if self._kept:
            return [self._kept.popleft()]
        error, self._error = self._error, None
        if error is not None:
            raise error
        if self._is_over:
            raise StopAsyncIteration
        self._news.clear()
        return []

    async def _arrival(self) -> None:
        """Until there may be one."""
        await self._news.wait()

    # --- its connection ---

    async def _run(self) -> None:
        # A cancel that comes while it is opened may be lost: by `wait_for`, before Python 3.12.
        while not self._is_over:
            try:
                number, gone = await self._host.open_apart(self)
            except Refused as refused:
                pause, says = self._decides.open_failed(refused.permanent)
                if says:
                    self._fail(refused.error)
            else:
                try:
                    if not self._is_over:
                        await self._serve(number)
                        await gone
                finally:
                    self._host.core.dismiss(number)
                pause = self._decides.lost()
            await asyncio.sleep(pause)

    async def _serve(self, number: int) -> None:
        scope, decides = _native.Scope(self._host.core, number), self._decides
        decides.opened()
        while (text := decides.next_text()) is not None:
            try:
                await scope._flow("script", text)
            except ConnectionLostError:
                return
            except Error as error:
                if decides.answered(False) == "says":
                    self._fail(error)
                return self._host.core.destroy(number, "it can't listen")
            if decides.answered(True) == "gap":
                self._keep(Gap(0))
        if not self._ready.done():
            self._ready.set_result(None)

    def _fail(self, error: Error) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
        else:
            self._error = error
            self._news.set()

    def notified(self, channel: str, payload: str, process_id: int) -> None:
        if self._decides.take_gap():
            self._keep(Gap(0))
        self._keep(Notification(channel, payload, process_id))

    def _keep(self, event: Event) -> None:
        self._kept.append(event)
        if len(self._kept) > _native.Listening.KEPT_MAX:
            oldest = self._kept.popleft()
            before = 0 if self._missing is None else self._missing.dropped
            self._missing = Gap(before + isinstance(oldest, Notification))
        self._news.set()
