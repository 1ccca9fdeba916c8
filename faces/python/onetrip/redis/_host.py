"""Sockets of a client of Redis. What the native part calls is in :class:`onetrip._host.Host`."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import _native
from .._host import Host
from .._opening import Opening, Refused
from .._wire import Wire
from .._within import within
from ..errors import Error, _answered, _make
from ._config import Config, Server

if TYPE_CHECKING:
    from ._cluster import Nodes
    from ._sentinel import Seat, Sentinels


class RedisHost(Host):
    """Connections of one kind: the shared one, those of single callers, that of subscriptions."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: Config,
        *,
        is_shared: bool,
        is_subscriber: bool = False,
        cache: _native.RedisCache | None = None,
        sentinels: Sentinels | None = None,
        is_replica: bool = False,
    ) -> None:
        self.redis, self.is_subscriber = config, is_subscriber
        #: Who knows its server, if Sentinels do; in which role; and its connections there.
        self.sentinels, self.is_replica = sentinels, is_replica
        self.seats: dict[int, int] = {}
        if sentinels is not None:
            sentinels.use(self)
        #: Whether the server is to tell which keys that were read are changed.
        self.tracks = cache is not None
        self.attempts = 0
        self.on_push: Callable[[bytes], object] | None = None
        self.on_given_up: Callable[[int], object] | None = None
        self.on_gone: Callable[[], object] | None = None
        #: A connection is open, before anything is sent on it, or it was lost.
        self.on_open: Callable[[bool], object] | None = None
        #: Those of its cluster, which end with it.
        self.nodes: Nodes | None = None
        # Reads wait for no replica where the master answers them meanwhile.
        connects = is_shared and not is_subscriber and sentinels is None
        self._begin(loop, config.of_pool(is_shared, is_kept=is_replica, connects=connects), 0)
        if cache is not None:
            self.core.begin_cache(cache)
        self.core.begin_pool()

    def opening(self, number: int) -> Opening:
        made = RedisOpening if self.sentinels is None else SeatedOpening
        return made(self, number)

    @property
    def server(self) -> Server:
        """The one of the next attempt, or of the last that went well."""
        return self.redis.servers[self.attempts % len(self.redis.servers)]

    async def close(self, timeout: float | None) -> None:
        if self.nodes is not None:
            await self.nodes.close(timeout)
        try:
            await super().close(timeout)
        finally:
            if self.sentinels is not None:
                self.sentinels.left_by(self)

    def given_up(self, token: int) -> None:
        if self.on_given_up is not None:
            self.on_given_up(token)

    def pushed(self, number: int, block: bytes) -> None:
        if self.on_push is not None:
            self.on_push(block)

    def lost(self, number: int, why: bytes) -> None:
        if self.on_open is not None:
            self.on_open(False)
        if self.sentinels is not None and number in self.seats:
            self.sentinels.native.lost(self.seats[number], why.decode("utf-8", "replace"))

    def useless(self, number: int, why: bytes) -> None:
        """The server says that it has lost its role."""
        if self.sentinels is not None and number in self.seats:
            text = why.decode("utf-8", "replace").strip("-\r\n")
            self.sentinels.native.useless(self.seats[number], text)

    def unfit(self, number: int, why: bytes) -> None:
        opening = self._openings.get(number)
        if isinstance(opening, RedisOpening):
            opening.unfit(why.decode("utf-8", "replace"))

    def gone(self, number: int) -> None:
        was_open = number in self._transports
        super().gone(number)
        if self.sentinels is not None and number in self.seats and number not in self._openings:
            self.sentinels.left(self.seats.pop(number))
        if was_open and self.on_gone is not None:
            self.on_gone()


class RedisOpening(Opening):
    """One connection on its way: each attempt goes to the next of the servers."""

    host: RedisHost

    def __init__(self, host: RedisHost, number: int) -> None:
        self.host, self.number, self.loop = host, number, host.loop
        self.server = host.server
        self.wire: Wire | None = None
        self.transport: asyncio.Transport | None = None
        self.login: asyncio.Future[dict[str, str]] | None = None

    async def run(self) -> None:
        error = await self._attempt(self.host.server)
        if error is not None:
            self.host.attempts += 1
            self.fail(error)

    async def _attempt(self, server: Server) -> Refused | None:
        """Why it came to nothing."""
        config = self.host.redis
        seconds = config.numbers["connect_timeout_ms"] / 1000
        try:
            await within(self._open(server), seconds or None)
        except (asyncio.TimeoutError, TimeoutError):
            message = f"{server} did not answer within {seconds:g} s (connect_timeout_ms)"
            return Refused("unreachable", _make("connect_failed", "NotSent", message, None))
        except Refused as refused:
            return refused
        except (OSError, ssl.SSLError) as error:
            message = f"{server} can't be reached: {error}"
            made = _make("connect_failed", "NotSent", message, None, error)
            return Refused("handshake", made, isinstance(error, ssl.SSLCertVerificationError))
        if not self.opened(server):
            # It was lost meanwhile: the pool has to hear of it.
            message = f"{server} closed the connection"
            return Refused("server", _make("connect_failed", "NotSent", message, None))
        return None

    def opened(self, server: Server) -> bool:
        """Whether the pool has it."""
        if self.host.on_open is not None:
            self.host.on_open(True)
        is_there = self.host.core.opened(self.number)
        if not is_there and self.host.on_open is not None:
            self.host.on_open(False)
        return is_there

    async def _open(self, server: Server) -> None:
        self.server = server
        config = self.host.redis
        wire = self.wire = Wire(self.host.core, self.number)
        context = config.context
        if server.path is not None:
            name = "localhost" if context is not None else None
            self.transport, _ = await self.loop.create_unix_connection(
                lambda: wire, server.path, ssl=context, server_hostname=name
            )
        else:
            self.transport, _ = await self.loop.create_connection(
                lambda: wire, server.host, server.port, ssl=context
            )
            for option in config.socket_options:
                self.transport.get_extra_info("socket").setsockopt(*option)
        self.login = self.loop.create_future()
        settings = await config.of_engine(self.host.is_subscriber, self.host.tracks)
        if self.host.sentinels is not None:
            settings.append(("role", "replica" if self.host.is_replica else "master"))
        wire.log_in(settings)
        await self.login

    def refused(
        self, text: str, fields: dict[str, str] | None = None, is_final: bool = False
    ) -> None:
        if self.login is None or self.login.done():
            return
        code = text.split(" ", 1)[0]
        error: Error
        if code.isupper():
            error = _answered("HELLO", "NotSent", text)
        else:
            error = _make("connect_failed", "NotSent", f"the login failed: {text}", None)
        self.login.set_exception(Refused("login", error, is_final))

    def unfit(self, why: str) -> None:
        """The server has not the role that it should have."""
        if self.login is not None and not self.login.done():
            error = _make("other_role", "NotSent", f"{self.server} {why}", None)
            self.login.set_exception(Refused("login", error))

    def given_up(self) -> None:
        """Each goes to one server: there is nothing else to try."""

    def fail(self, refused: Refused) -> None:
        self.leave()
        # Others of the list may be there.
        are_left = self.host.attempts < len(self.host.redis.servers)
        may_pass = refused.fault in ("server", "login") or are_left
        self.host.open_failed(self.number, refused.error, refused.permanent, may_pass)


class SeatedOpening(RedisOpening):
    """The same to a server that Sentinels name: it goes where they say by then."""

    async def run(self) -> None:
        sentinels = self.host.sentinels
        assert sentinels is not None
        seat = self.host.seats[self.number] = sentinels.seat(self.host, self.number)
        try:
            refused = await self._until_open(sentinels.of(seat))
        except Error as error:
            refused = Refused("unreachable", error)
        except BaseException:
            sentinels.left(self.host.seats.pop(self.number))
            raise
        if refused is not None:
            del self.host.seats[self.number]
            sentinels.native.lost(seat, str(refused.error))
            sentinels.left(seat)
            self.fail(refused)

    async def _until_open(self, seat: Seat) -> Refused | None:
        while True:
            attempt = self.loop.create_task(self._attempt(await seat.server()))
            if await seat.until_moved(attempt):
                self.leave()
            else:
                return attempt.result()

    def opened(self, server: Server) -> bool:
        sentinels, seat = self.host.sentinels, self.host.seats[self.number]
        assert sentinels is not None
        # One that is to go elsewhere by now is not used.
        if sentinels.of(seat).is_moved or not super().opened(server):
            return False
        sentinels.native.opened(seat)
        return True


def read_push(block: bytes) -> list[bytes | int | None]:
    """A push; none where it can't be read."""
    made = _native.push(block)
    return made if isinstance(made, list) else []
