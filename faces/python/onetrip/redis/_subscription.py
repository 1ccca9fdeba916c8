"""Messages that are published on channels."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .. import _native
from ..errors import Error, MisuseError, _closed
from ._host import RedisHost, read_push

if TYPE_CHECKING:
    from ._cluster import Nodes

T = TypeVar("T", str, bytes)

#: Messages that wait for their reader at most.
MESSAGES_MAX = 1024

_VERBS = {
    b"message": (_native.Spec("SUBSCRIBE"), _native.Spec("UNSUBSCRIBE")),
    b"pmessage": (_native.Spec("PSUBSCRIBE"), _native.Spec("PUNSUBSCRIBE")),
    b"smessage": (_native.Spec("SSUBSCRIBE"), _native.Spec("SUNSUBSCRIBE")),
}

Topic = tuple[bytes, bytes]


@dataclass(frozen=True)
class Message(Generic[T]):
    """A message."""

    channel: str
    #: The pattern that matched the channel, where the subscription is by pattern.
    pattern: str | None
    data: T


class Hub:
    """The subscriptions of a client, on a connection of their own; those to sharded channels of a
    cluster on those of its nodes, which the router sees to.
    """

    def __init__(
        self, make: Callable[[], RedisHost], how: dict[str, Any], nodes: Nodes | None
    ) -> None:
        self._make, self._how = make, how
        self._router = None if nodes is None else nodes.router
        if nodes is not None:
            pushed, again = weakref.WeakMethod(self._pushed), weakref.WeakMethod(self._moved)
            nodes.on_push = lambda block: (told := pushed()) and told(block)
            nodes.on_again = lambda channel: (told := again()) and told(channel)
        self._host: RedisHost | None = None
        self._scope: _native.RedisScope | None = None
        self._readers: dict[Topic, set[Subscription[Any]]] = {}
        #: Whether they are confirmed, as long as that is not known.
        self._asked: dict[Topic, asyncio.Future[bool]] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def _send(self, verb: int, kind: bytes, names: list[bytes]) -> _native.Call[None]:
        if self._host is None or self._scope is None:
            host = self._host = self._make()
            pushed, gone = weakref.WeakMethod(self._pushed), weakref.WeakMethod(self._gone)
            host.on_push = lambda block: (told := pushed()) and told(block)
            host.on_gone = lambda: (told := gone()) and told()
            host.close_with(self, warns=False)
            self._scope = _native.RedisScope(host.core, host.core, self._how)
        return self._scope._confirm(_VERBS[kind][verb], *names)

    async def add(self, reader: Subscription[Any], kind: bytes, names: list[bytes]) -> None:
        if self._is_closed:
            raise _closed()
        router = self._router_of(kind)
        if router is not None:
            return await self._add_sharded(router, reader, names)
        fresh = [name for name in names if not self._readers.get((kind, name))]
        asked = {name: self._asked[kind, name] for name in names if (kind, name) in self._asked}
        for name in names:
            self._readers.setdefault((kind, name), set()).add(reader)
        try:
            if fresh:
                await self._ask(kind, fresh)
            for name, is_confirmed in asked.items():
                # Another reader has asked for it, and may have been refused or cancelled.
                if not await asyncio.shield(is_confirmed):
                    await self._ask(kind, [name])
        except BaseException:
            self.remove(reader, kind, names)
            raise

    def _router_of(self, kind: bytes) -> _native.Router | None:
        return self._router if kind == b"smessage" else None

    async def _add_sharded(
        self, router: _native.Router, reader: Subscription[Any], names: list[bytes]
    ) -> None:
        for name in names:
            self._readers.setdefault((b"smessage", name), set()).add(reader)
        # Whoever is cancelled: a subscription that is under way ends by itself.
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(_end_of(router.subscribe(name))) for name in names]
        for task in tasks:
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            for task in tasks:
                await asyncio.shield(task)
        except BaseException:
            self.remove(reader, b"smessage", names)
            raise

    async def _ask(self, kind: bytes, names: list[bytes]) -> None:
        is_confirmed = asyncio.get_running_loop().create_future()
        self._asked.update({(kind, name): is_confirmed for name in names})
        try:
            await self._send(0, kind, names)
            is_confirmed.set_result(True)
        finally:
            for name in names:
                if self._asked.get((kind, name)) is is_confirmed:
                    del self._asked[kind, name]
            if not is_confirmed.done():
                is_confirmed.set_result(False)

    def remove(self, reader: Subscription[Any], kind: bytes, names: list[bytes]) -> None:
        gone = []
        for name in names:
            readers = self._readers.get((kind, name), set())
            readers.discard(reader)
            if not readers and self._readers.pop((kind, name), None) is not None:
                gone.append(name)
        router = self._router_of(kind)
        if router is not None:
            for name in gone if not self._is_closed else []:
                router.unsubscribe(name)
        elif gone and not self._is_closed:
            # Nobody waits for that; close() keeps it from being called unawaited.
            self._send(1, kind, gone).close()

    def _pushed(self, block: bytes) -> None:
        kind, *rest = read_push(block) or [None]
        if not isinstance(kind, bytes) or kind not in _VERBS or len(rest) < 2:
            return
        parts = [part for part in rest if isinstance(part, bytes)]
        pattern = parts[0] if kind == b"pmessage" else None
        for reader in tuple(self._readers.get((kind, parts[0]), ())):
            reader._take(parts[-2], pattern, parts[-1])

    def _moved(self, channel: bytes) -> None:
        """A sharded channel is subscribed again: messages may have been missed."""
        for reader in tuple(self._readers.get((b"smessage", channel), ())):
            reader.reconnects += 1

    def _here(self) -> dict[Topic, set[Subscription[Any]]]:
        """What is subscribed on the connection of their own."""
        return {of: found for of, found in self._readers.items() if not self._router_of(of[0])}

    def _gone(self) -> None:
        """The connection was lost: all is subscribed again."""
        here = self._here()
        for reader in {reader for found in here.values() for reader in found}:
            reader.reconnects += 1
        if here and not self._is_closed and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._again())

    async def _again(self) -> None:
        # Each by itself: a server may refuse one. How long to wait between attempts is the pool's.
        for kind, name in self._here():
            while (kind, name) in self._readers and not self._is_closed:
                try:
                    await self._send(0, kind, [name])
                    break
                except Error as error:
                    if error.outcome == "Rejected" or error.code == "closed":
                        for reader in tuple(self._readers.pop((kind, name), ())):
                            reader._end(error)

    def hosts(self) -> list[RedisHost]:
        return [] if self._host is None else [self._host]

    async def close(self, timeout: float | None) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        for reader in {reader for found in self._readers.values() for reader in found}:
            reader._end(None)
        self._readers.clear()
        if self._host is not None:
            await self._host.close(timeout)


async def _end_of(call: _native.Call[None]) -> None:
    await call


class Subscription(Generic[T]):
    """``async for message in subscription``; it ends with its client, or by ``close``.

    Redis keeps no messages: those that were published while the connection was lost are missed.
    It is subscribed again by itself, and ``reconnects`` counts how often messages may have been
    missed. Up to 1,024 messages wait for the reader; the oldest go, and ``dropped`` counts them.
    """

    def __init__(self, hub: Hub, is_bytes: bool, topics: dict[bytes, list[bytes]]) -> None:
        self._hub, self._is_bytes, self._topics = hub, is_bytes, topics
        self._messages: deque[Message[T]] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._is_over = False
        self.dropped = 0
        self.reconnects = 0

    async def __aenter__(self) -> Subscription[T]:
        """Until the server has confirmed."""
        for kind, names in self._topics.items():
            await self._hub.add(self, kind, names)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for kind, names in self._topics.items():
            self._hub.remove(self, kind, names)
        self._messages.clear()
        self._end(None)

    def __aiter__(self) -> Subscription[T]:
        return self

    async def __anext__(self) -> Message[T]:
        while not (found := self._found()):
            await self._arrival()
        return found[0]

    def _found(self) -> list[Message[T]]:
        """The next, if it has come."""
        if self._messages:
            return [self._messages.popleft()]
        if self._error is not None:
            raise self._error
        if self._is_over:
            raise StopAsyncIteration
        return []

    async def _arrival(self) -> None:
        """Until there may be one."""
        if self._messages or self._is_over:
            return
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._waiting)

    def _take(self, channel: bytes, pattern: bytes | None, data: bytes) -> None:
        text = None if pattern is None else pattern.decode("utf-8", "replace")
        made: Any = data if self._is_bytes else data.decode("utf-8", "replace")
        self._messages.append(Message(channel.decode("utf-8", "replace"), text, made))
        if len(self._messages) > MESSAGES_MAX:
            self._messages.popleft()
            self.dropped += 1
        self._wake()

    def _end(self, error: BaseException | None) -> None:
        self._is_over, self._error = True, self._error or error
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
