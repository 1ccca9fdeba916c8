"""The clients: one that all share, a session, a list that runs as one."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Generator, Sequence
from functools import lru_cache
from ssl import SSLContext
from typing import Any, Generic, TypeVar

from .. import _native
from ..errors import Error, MisuseError, _make
from ._cluster import Nodes
from ._commands import Arg, Commands, Key, SessionCommands
from ._config import Config
from ._host import RedisHost
from ._subscription import Hub, Subscription

T = TypeVar("T", str, bytes)

#: What clients have a property of this name for.
Bytes = bytes

_spec_of = lru_cache(maxsize=1024)(_native.Spec)


class Script:
    """A Lua script: its text goes once to a connection, its hash after that."""

    __slots__ = ("sha", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class _Scope(_native.RedisScope):
    """What is common to all that commands go to."""

    def command(self, name: str, *args: Arg) -> _native.Call[Any]:
        """Sends any command by its name, as ``command("CLIENT INFO")``."""
        return self._send(_spec_of(name), *args)

    def call(
        self, script: Script | str, keys: Sequence[Key] = (), args: Sequence[Arg] = ()
    ) -> _native.Call[Any]:
        """Calls a script."""
        if isinstance(script, str):
            script = Script(script)
        return self._script(script.text, script.sha, (len(keys), *keys, *args))


class Client(_Scope, Commands[T], Generic[T]):
    """A client: its commands share one connection, and those of a turn leave in one write.

    Commands that may block have connections of their own.
    """

    _parts: _Parts
    _is_bytes: bool

    def __new__(cls, parts: _Parts, is_bytes: bool) -> Client[T]:
        shared, own = parts.shared.core, parts.own.core
        self = super().__new__(cls, shared, own, 0, is_bytes, False, parts.router)
        self._parts, self._is_bytes = parts, is_bytes
        return self

    @property
    def bytes(self) -> Client[Bytes]:
        """The same client, with ``bytes`` in place of ``str`` in replies."""
        return Client[Bytes](self._parts, True)

    def atomic(self) -> Listing[T]:
        """Commands that run as one: ``async with db.atomic() as tx``.

        They leave at the end of the block, between MULTI and EXEC. Await them behind it.
        """
        parts = self._parts
        shared, own = parts.shared.core, parts.own.core
        return Listing(Atomic(shared, own, 0, self._is_bytes, parts.router), None)

    def session(self, key: Key | None = None) -> Lease[T]:
        """A connection of one's own, for WATCH and what changes a connection.

        In a cluster it is to the node that has this key.
        """
        return Lease(self._parts, key, self._is_bytes)

    def subscribe(self, *channels: Key) -> Subscription[T]:
        """Messages of channels: ``async with db.subscribe("news") as messages``."""
        return self._subscription(b"message", channels)

    def psubscribe(self, *patterns: Key) -> Subscription[T]:
        """Messages of the channels that match patterns, such as ``news.*``."""
        return self._subscription(b"pmessage", patterns)

    def ssubscribe(self, *channels: Key) -> Subscription[T]:
        """Messages of sharded channels (Redis 7). Not in a cluster, since its hash slots move."""
        if self._parts.nodes is not None:
            message = "a client of a cluster does not follow sharded channels: connect to their node"
            raise MisuseError(message)
        return self._subscription(b"smessage", channels)

    def _subscription(self, kind: Bytes, names: tuple[Key, ...]) -> Subscription[T]:
        as_bytes = [name.encode() if isinstance(name, str) else Bytes(name) for name in names]
        return Subscription(self._parts.hub, self._is_bytes, {kind: as_bytes})

    async def close(self, timeout: float | None = None) -> None:
        """Takes nothing new, and ends when all is answered, or after this many seconds."""
        self._end("the client was closed")
        await self._parts.close(timeout)

    async def __aenter__(self) -> Client[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Session(_Scope, SessionCommands[T], Generic[T]):
    """A connection that its caller has to himself."""

    _core: _native.Core
    _number: int
    _is_bytes: bool

    def __new__(cls, core: _native.Core, number: int, is_bytes: bool) -> Session[T]:
        self = super().__new__(cls, core, core, number, is_bytes)
        self._core, self._number, self._is_bytes = core, number, is_bytes
        return self

    def atomic(self) -> Listing[T]:
        """The same as that of a client; it runs only if no watched key was changed."""
        return Listing(Atomic(self._core, self._core, self._number, self._is_bytes, None), self)


class Atomic(_Scope, Commands[T], Generic[T]):
    """Commands that run as one."""

    def __new__(
        cls,
        shared: _native.Core,
        own: _native.Core,
        number: int,
        is_bytes: bool,
        router: _native.Router | None,
    ) -> Atomic[T]:
        return super().__new__(cls, shared, own, number, is_bytes, True, router)


class Lease(Generic[T]):
    """Borrows a connection for a block."""

    def __init__(self, parts: _Parts, key: Key | None, is_bytes: bool) -> None:
        self._parts, self._key, self._is_bytes = parts, key, is_bytes
        self._session: Session[T] | None = None

    async def __aenter__(self) -> Session[T]:
        core = self._parts.own_of(self._key)
        self._session = Session(core, await core.checkout(), self._is_bytes)
        return self._session

    async def __aexit__(self, *_: object) -> None:
        session, self._session = self._session, None
        assert session is not None
        session._end("the session was released")
        session._release()


#: Errors of EXEC behind which nothing is watched any more.
_UNWATCHED = ("watched_key_changed", "EXECABORT")


class Listing(Generic[T]):
    """A list for a block."""

    _atomic: Atomic[T]
    _session: Session[T] | None

    def __init__(self, atomic: Atomic[T], session: Session[T] | None) -> None:
        self._atomic, self._session = atomic, session

    async def __aenter__(self) -> Atomic[T]:
        return self._atomic

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        atomic = self._atomic
        if kind is not None:
            return atomic._drop()
        sent = atomic._exec()
        atomic._end("the list was sent: its block has ended")
        try:
            await sent
        except Error as error:
            if error.code not in _UNWATCHED:
                raise
            self._unwatched()
            raise
        self._unwatched()

    def _unwatched(self) -> None:
        if self._session is not None:
            self._session._unwatched()


class _Parts:
    """What the scopes of a client share."""

    def __init__(self, config: Config) -> None:
        loop = asyncio.get_running_loop()
        self.shared = RedisHost(loop, config, is_shared=True)
        self.own = RedisHost(loop, config, is_shared=False)
        self.hub = Hub(lambda: RedisHost(loop, config, is_shared=True, is_subscriber=True))

        self.nodes = Nodes(loop, config, self.shared) if config.cluster else None

    @property
    def router(self) -> _native.Router | None:
        return None if self.nodes is None else self.nodes.router

    def own_of(self, key: Key | None) -> _native.Core:
        """Connections of one's own, in a cluster those of the node that has this key."""
        if self.router is None:
            return self.own.core
        name = key.encode() if isinstance(key, str) else bytes(key or b"")
        core = self.router.node_of(name)
        if core is None:
            message = "no node of the cluster has the hash slot of the key"
            raise _make("unserved_slot", "NotSent", message, None)
        return core

    async def close(self, timeout: float | None) -> None:
        if self.nodes is not None:
            await self.nodes.close(timeout)
        await asyncio.gather(
            self.hub.close(timeout), self.shared.close(timeout), self.own.close(timeout)
        )


class Connecting:
    """A client that is being opened: awaited, or entered."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._client: Client[str] | None = None

    def __await__(self) -> Generator[Any, Any, Client[str]]:
        return self._open().__await__()

    async def _open(self) -> Client[str]:
        client = Client[str](_Parts(self._config), False)
        try:
            # A server that can't be reached is told of here, and not by the first command.
            await client.ping()
        except BaseException:
            await client.close(0)
            raise
        self._client = client
        return client

    async def __aenter__(self) -> Client[str]:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        assert self._client is not None
        await self._client.close()


def connect(
    url: str | None = None, *, ssl: SSLContext | None = None, **settings: Any
) -> Connecting:
    """Opens a client: ``async with onetrip.redis.connect("redis://localhost") as db``.

    ``settings`` are those of URLs, as ``wait_timeout_ms=1000``, and host, port, user, password.
    """
    return Connecting(Config(url, settings, ssl))


