"""The other side of a transport."""

from __future__ import annotations

import asyncio

from . import _native


class Wire(_native.Wire, asyncio.BufferedProtocol):
    """Native but for its type, by which an event loop knows how to read."""

    __slots__ = ()


class Answer:
    """One answer that comes in front of the engine."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: asyncio.Future[bytes | None] = loop.create_future()

    def set(self, answer: bytes | None) -> None:
        if not self.future.done():
            self.future.set_result(answer)
