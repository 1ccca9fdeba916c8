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
    ) -> None:
        self.redis, self.is_subscriber = config, is_subscriber
        #: Whether the server is to tell which keys that were read are changed.
        self.tracks = cache is not None
        self.attempts = 0
        self.on_push: Callable[[bytes], object] | None = None
        self.on_given_up: Callable[[int], object] | None = None
        self.on_gone: Callable[[], object] | None = None
        #: Those of its cluster, which end with it.
        self.nodes: Nodes | None = None
        self._begin(loop, config.of_pool(is_shared), 0)
        if cache is not None:
            self.core.begin_cache(cache)
        self.core.begin_pool()

    def opening(self, number: int) -> Opening:
        return RedisOpening(self, number)

    @property
    def server(self) -> Server:
        """The one of the next attempt, or of the last that went well."""
        return self.redis.servers[self.attempts % len(self.redis.servers)]

    async def close(self, timeout: float | None) -> None:
        if self.nodes is not None:
            await self.nodes.close(timeout)
        await super().close(timeout)

    def given_up(self, token: int) -> None:
        if self.on_given_up is not None:
            self.on_given_up(token)

    def pushed(self, number: int, block: bytes) -> None:
        if self.on_push is not None:
            self.on_push(block)

    def gone(self, number: int) -> None:
        was_open = number in self._transports
        super().gone(number)
        if was_open and self.on_gone is not None:
            self.on_gone()


class RedisOpening(Opening):
    """One connection on its way: each attempt goes to the next of the servers."""

    host: RedisHost

    def __init__(self, host: RedisHost, number: int) -> None:
        self.host, self.number, self.loop = host, number, host.loop
        self.wire: Wire | None = None
        self.transport: asyncio.Transport | None = None
        self.login: asyncio.Future[dict[str, str]] | None = None

    async def run(self) -> None:
        config = self.host.redis
        server = self.host.server
        seconds = config.numbers["connect_timeout_ms"] / 1000
        try:
            await within(self._open(server), seconds or None)
        except (asyncio.TimeoutError, TimeoutError):
            message = f"{server} did not answer within {seconds:g} s (connect_timeout_ms)"
            return self._fail(_make("connect_failed", "NotSent", message, None), False)
        except Refused as refused:
            return self._fail(refused.error, refused.permanent)
        except (OSError, ssl.SSLError) as error:
            message = f"{server} can't be reached: {error}"
            made = _make("connect_failed", "NotSent", message, None, error)
            return self._fail(made, isinstance(error, ssl.SSLCertVerificationError))
        if not self.host.core.opened(self.number):
            # It was lost meanwhile: the pool has to hear of it.
            message = f"{server} closed the connection"
            self._fail(_make("connect_failed", "NotSent", message, None), False)

    async def _open(self, server: Server) -> None:
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
        self.login = self.loop.create_future()
        wire.log_in(await config.of_engine(self.host.is_subscriber, self.host.tracks))
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

    def _fail(self, error: Error, permanent: bool) -> None:
        self.host.attempts += 1
        self.leave()
        self.host.open_failed(self.number, error, permanent)


def read_push(block: bytes) -> list[bytes | int | None]:
    """A push; none where it can't be read."""
    made = _native.push(block)
    return made if isinstance(made, list) else []
