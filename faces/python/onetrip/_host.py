"""What the native part asks of its host: sockets, tasks, callbacks.

Each name here is called from there.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from . import _native
from ._config import Config, Endpoint
from ._opening import Opening
from .errors import Error

#: Seconds for a connection that cancels a statement.
CANCEL_TIMEOUT = 5


class Host:
    """The sockets and tasks of one client."""

    #: Whether values are taken and given as by asyncpg.
    strict = False

    def __init__(self, loop: asyncio.AbstractEventLoop, config: Config) -> None:
        self.loop, self.config = loop, config
        self.parameters: dict[str, str] = {}
        self.on_notice: Callable[[dict[str, str]], object] | None = None
        self.is_closed = loop.create_future()
        self._openings: dict[int, Opening] = {}
        self._transports: dict[int, tuple[asyncio.Transport, Opening]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = False
        seed = int.from_bytes(os.urandom(8), "little")
        bytes_max = int(config.said("result_bytes_max"))
        self.core = _native.Core(loop, self, config.of_pool(), seed, bytes_max, self.strict)

    def _spawn(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- connections ---

    def open(self, number: int) -> None:
        opening = self._openings[number] = Opening(self, number)
        self._spawn(self._open(number, opening))

    async def _open(self, number: int, opening: Opening) -> None:
        try:
            await opening.run()
        except Exception as error:
            # A fault of ours is the caller's to hear, and must not leave the pool waiting.
            self.core.open_failed(number, error, True)
        finally:
            self._openings.pop(number, None)
            if opening.transport is not None:
                self._transports[number] = (opening.transport, opening)

    def ready(self, number: int, block: bytes) -> None:
        login = self._openings[number].login if number in self._openings else None
        if login is not None and not login.done():
            texts = block.decode("utf-8", "replace").split("\0")
            login.set_result(dict(zip(texts[::2], texts[1::2])))

    def refused(self, number: int, text: str, message: bytes | None) -> None:
        opening = self._openings.get(number)
        if opening is not None:
            opening.refused(text, None if message is None else _native.fields(message))

    def leave(self, number: int) -> None:
        """It is of no use any more: what was written to it goes out."""
        if number in self._transports:
            self._transports[number][0].close()
        elif number in self._openings and (transport := self._openings[number].transport):
            transport.close()

    def gone(self, number: int) -> None:
        self._transports.pop(number, None)
        opening = self._openings.get(number)
        if opening is not None:
            opening.refused("the server closed the connection", None)
        self._finish()

    def read(self, number: int, goes_on: bool) -> None:
        if number in self._transports:
            transport = self._transports[number][0]
            transport.resume_reading() if goes_on else transport.pause_reading()

    def open_failed(self, number: int, error: Error, permanent: bool) -> None:
        self.core.open_failed(number, error, permanent)

    async def prepare(self, number: int) -> None:
        """A connection is logged in, and about to be used."""

    async def password(self, endpoint: Endpoint) -> str | None:
        given = self.config.password
        if given is None:
            return self.config.text("password")
        password = given()
        return await password if inspect.isawaitable(password) else password

    # --- what belongs to no statement ---

    def notice(self, number: int, block: bytes) -> None:
        if self.on_notice is not None:
            self.on_notice(_native.fields(block))

    def notified(self, number: int, block: bytes) -> None:
        """Listeners have connections of their own."""

    # --- cancels ---

    def cancel(self, number: int) -> None:
        self._spawn(self._cancel(number))

    async def _cancel(self, number: int) -> None:
        end = "not_sent"
        try:
            _, of = self._transports[number]
            if of.endpoint.letter == "s":
                dial = asyncio.open_unix_connection(of.endpoint.path)
            else:
                dial = asyncio.open_connection(of.address, of.endpoint.port)
            reader, writer = await asyncio.wait_for(dial, CANCEL_TIMEOUT)
            message = self.core.begin_cancel(number)
            if message is None:
                writer.close()
                return
            end = "lost"
            writer.write(message)
            await asyncio.wait_for(reader.read(), CANCEL_TIMEOUT)
            end = "closed"
            writer.close()
        except (OSError, KeyError, asyncio.TimeoutError):
            pass
        self.core.cancel_ended(number, end)

    # --- its end ---

    def closed(self, _: int) -> None:
        """The pool has let go of all connections, which say goodbye."""
        self._over = True
        self._finish()

    def _finish(self) -> None:
        if self._over and not self._transports and not self.is_closed.done():
            self.is_closed.set_result(None)

    async def close(self, timeout: float | None) -> None:
        """Takes nothing new, and ends when all is answered, or after this time."""
        self.core.close_pool()
        done, _ = await asyncio.wait([self.is_closed], timeout=timeout)
        if not done:
            self.core.cut_pool()
            for number in list(self._transports):
                self.core.destroy(number, "the client was closed before the answer came")
            for transport, _ in list(self._transports.values()):
                transport.abort()
            await asyncio.wait([self.is_closed], timeout=1)
