"""The Sentinels of a client. What follows from their answers is decided below; here are the
connections: to the Sentinels, and to the servers that these name.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import ssl
from typing import TYPE_CHECKING, Any

from .. import _native
from .._opening import CLOSED
from ..errors import Error, _make
from ._config import Config, Server

if TYPE_CHECKING:
    from ._host import RedisHost


class Seat:
    """A connection to the server with a role, or an attempt at one."""

    def __init__(self, host: RedisHost, number: int) -> None:
        self.host, self.number = host, number
        self._news: asyncio.Future[Server | Error] = host.loop.create_future()

    def tell(self, news: Server | Error) -> None:
        """The server that it goes to from now on, or why there is none."""
        if self._news.done():
            self._news = self.host.loop.create_future()
        self._news.set_result(news)

    async def server(self) -> Server:
        news = await asyncio.shield(self._news)
        self._news = self.host.loop.create_future()
        if isinstance(news, Error):
            raise news
        return news

    @property
    def is_moved(self) -> bool:
        """Whether there is news that nobody has taken."""
        return self._news.done()

    async def until_moved(self, attempt: asyncio.Task[Any]) -> bool:
        """Until the attempt has ended, or it is to go elsewhere: then it is given up."""
        try:
            await asyncio.wait([attempt, self._news], return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_moved = self.is_moved
            if is_moved or not attempt.done():
                attempt.cancel()
        if is_moved:
            await asyncio.wait([attempt])
            if not attempt.cancelled():
                # Whatever it has raised is of no interest any more.
                attempt.exception()
        return is_moved


class Sentinels:
    """What the native part asks of its host. Each of its methods is called from there, or by the
    hosts of connections, which end it with their own ends.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, config: Config) -> None:
        self._loop, self._config = loop, config
        self._numbers = itertools.count(1)
        self._seats: dict[int, Seat] = {}
        self._lines: dict[int, asyncio.Task[None]] = {}
        self._users: set[RedisHost] = set()
        self._timer: asyncio.TimerHandle | None = None
        seed = int.from_bytes(os.urandom(8), "little")
        self.native = _native.Sentinel(self, config.of_sentinels(), seed)
        self.native.tick()

    # --- connections to servers ---

    def use(self, host: RedisHost) -> None:
        self._users.add(host)

    def left_by(self, host: RedisHost) -> None:
        """The last that leaves closes."""
        self._users.discard(host)
        if self._users:
            return
        self.native.close()
        for task in self._lines.values():
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()

    def seat(self, host: RedisHost, number: int) -> int:
        """A connection of this host, by its number, is wanted."""
        seat = next(self._numbers)
        self._seats[seat] = Seat(host, number)
        self.native.connect(seat, host.is_replica)
        return seat

    def of(self, seat: int) -> Seat:
        return self._seats[seat]

    def left(self, seat: int) -> None:
        """Its connection is gone."""
        if self._seats.pop(seat, None) is not None:
            self.native.left(seat)

    def dial(self, seat: int, host: str, port: int) -> None:
        if seat in self._seats:
            self._seats[seat].tell(Server(host, port))

    def not_found(self, seat: int, why: str) -> None:
        if seat in self._seats:
            self._seats[seat].tell(_make("sentinel", "NotSent", why, None))

    def leave(self, seat: int, why: str) -> None:
        of = self._seats.get(seat)
        if of is not None:
            of.host.core.destroy(of.number, why)

    # --- connections to Sentinels ---

    def open_line(self, number: int, host: str, port: int, send: bytes) -> None:
        task = self._lines[number] = self._loop.create_task(self._run(number, host, port, send))
        task.add_done_callback(lambda _: self._lines.pop(number, None))

    def close_line(self, number: int) -> None:
        if number in self._lines:
            self._lines[number].cancel()

    async def _run(self, number: int, host: str, port: int, send: bytes) -> None:
        line = Line(self.native, number, self._loop)
        try:
            transport, _ = await self._loop.create_connection(
                lambda: line, host, port, ssl=self._config.context
            )
        except (OSError, ssl.SSLError) as error:
            return self.native.closed(number, f"can't be reached: {error}")
        try:
            transport.write(send)
            end = await line.end
        finally:
            transport.abort()
        self.native.closed(number, f"its connection was lost ({end or CLOSED})")

    # --- time ---

    def arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.native.tick)


class Line(asyncio.Protocol):
    """The other side of a Sentinel's transport."""

    def __init__(
        self, native: _native.Sentinel, number: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._native, self._number = native, number
        self.end: asyncio.Future[Exception | None] = loop.create_future()

    def data_received(self, data: bytes) -> None:
        self._native.input(self._number, data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.end.done():
            self.end.set_result(exc)
