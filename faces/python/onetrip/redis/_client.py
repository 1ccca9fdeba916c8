"""The clients: one that all share, a session, a list that runs as one."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from ssl import SSLContext
from typing import Any, Generic, TypeVar

from .. import _native
from .._client import CacheMetrics, Metrics
from .._loan import Loan
from ..errors import Error, _make
from ._cluster import Nodes
from ._commands import Arg, Commands, Key, SessionCommands
from ._config import Config, milliseconds
from ._host import RedisHost
from ._sentinel import Sentinels
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

    #: How its commands are sent, and what their replies are made into.
    _how: dict[str, Any]

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

    def __new__(cls, parts: _Parts, how: dict[str, Any]) -> Client[T]:
        shared, own = parts.shared.core, parts.own.core
        self = super().__new__(cls, shared, own, how, 0, False, parts.router)
        self._parts, self._how = parts, how
        return self

    @property
    def bytes(self) -> Client[Bytes]:
        """The same client, with ``bytes`` in place of ``str`` in replies."""
        return Client[Bytes](self._parts, {**self._how, "raw": True})

    def repeatable(self) -> Client[T]:
        """The same client for commands that may run twice.

        They are sent again after a lost connection, ``attempts_max`` times in all.
        """
        return Client[T](self._parts, {**self._how, "repeatable": True})

    def alone(self) -> Client[T]:
        """The same client, whose commands have connections of their own.

        So nobody waits behind a large reply.
        """
        return Client[T](self._parts, {**self._how, "alone": True})

    def uncached(self) -> Client[T]:
        """The same client for commands whose replies are to come from the server.

        Their replies are not kept either; see ``cache``.
        """
        return Client[T](self._parts, {**self._how, "caches": False})

    def timeout(self, seconds: float) -> Client[T]:
        """The same client with this limit for each command, from its call to its reply; 0 for none.

        A command that is under way then runs on at the server, and its reply goes to nobody.
        """
        return Client[T](self._parts, {**self._how, "timeout_ms": milliseconds(seconds)})

    def metrics(self) -> Metrics:
        """What was counted so far, and how things stand, of all connections."""
        all_of = [host.core.metrics() for host in self._parts.hosts()]
        cache = self._parts.cache
        kept = None if cache is None else CacheMetrics(**cache.metrics())
        return Metrics(**{name: sum(of[name] for of in all_of) for name in all_of[0]}, cache=kept)

    async def stream(
        self,
        commands: Iterable[Sequence[Any]] | AsyncIterable[Sequence[Any]],
        *,
        window: int = 10_000,
        window_bytes: int = 4 << 20,
    ) -> AsyncGenerator[Any, None]:
        """Sends any number of commands, such as ``("SET", "k", 1)``, and gives their replies in order.

        An error stands in the place of its reply. At most ``window`` commands with ``window_bytes``
        bytes are under way; more are taken as replies are taken. They have a connection of their
        own, except in a cluster. Leave it by ``aclose()`` where it is not read to its end.
        """
        calls: deque[_native.Call[Any]] = deque()
        size, waiting = 0, _source(commands)
        async with self._parts.lent(self, calls) as scope:
            while True:
                while len(calls) < window and (size < window_bytes or not calls):
                    command = await anext(waiting, None)
                    if command is None:
                        break
                    name, *args = command
                    calls.append(scope.command(name, *args))
                    size += calls[-1].size
                if not calls:
                    return
                size -= calls[0].size
                try:
                    reply = await calls[0]
                except Error as error:
                    reply = error
                calls.popleft()
                yield reply

    def atomic(self) -> Listing[T]:
        """Commands that run as one: ``async with db.atomic() as tx``.

        They leave at the end of the block, between MULTI and EXEC. Await them behind it.
        """
        parts = self._parts
        shared, own = parts.shared.core, parts.own.core
        return Listing(Atomic(shared, own, 0, parts.router, self._how), None)

    def session(self, key: Key | None = None) -> Lease[T]:
        """A connection of one's own, for WATCH and what changes a connection.

        In a cluster it is to the node that has this key.
        """
        return Lease(self._parts, key, self._how)

    def subscribe(self, *channels: Key) -> Subscription[T]:
        """Messages of channels: ``async with db.subscribe("news") as messages``."""
        return self._subscription(b"message", channels)

    def psubscribe(self, *patterns: Key) -> Subscription[T]:
        """Messages of the channels that match patterns, such as ``news.*``."""
        return self._subscription(b"pmessage", patterns)

    def ssubscribe(self, *channels: Key) -> Subscription[T]:
        """Messages of sharded channels (Redis 7), which stay with the node of their hash slot.

        A client of a cluster subscribes at that node. If the hash slot moves or the node is lost,
        it subscribes again at the node that has the slot then, and ``reconnects`` counts that.
        """
        if self._parts.nodes is not None and self._parts.config.numbers["protocol"] == 2:
            message = "sharded channels of a cluster come by RESP3, which the configuration "
            message += "forbids (protocol): subscribe to usual ones"
            raise _make("sharded_needs_resp3", "NotSent", message, None)
        return self._subscription(b"smessage", channels)

    def _subscription(self, kind: Bytes, names: tuple[Key, ...]) -> Subscription[T]:
        as_bytes = [name.encode() if isinstance(name, str) else Bytes(name) for name in names]
        return Subscription(self._parts.hub, self._how["raw"], {kind: as_bytes})

    async def close(self, timeout: float | None = None) -> None:
        """Takes nothing new, and ends when all is answered, or after this many seconds.

        Commands that block end with it, and so do the sessions and the streams of the task that
        closes it, and of tasks that have ended. Others it waits for.
        """
        self._closes()
        await self._parts.close(timeout)

    async def __aenter__(self) -> Client[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Session(_Scope, SessionCommands[T], Generic[T]):
    """A connection that its caller has to himself."""

    _core: _native.Core
    _number: int
    _loan: RedisLoan

    def __new__(cls, loan: RedisLoan, how: dict[str, Any]) -> Session[T]:
        core, number = loan.core, loan.number
        self = super().__new__(cls, core, core, how, number)
        self._core, self._number, self._how = core, number, how
        self._loan = loan
        loan.add(self)
        return self

    def atomic(self) -> Listing[T]:
        """The same as that of a client; it runs only if no watched key was changed."""
        return Listing(Atomic(self._core, self._core, self._number, None, self._how), self)


class Atomic(_Scope, Commands[T], Generic[T]):
    """Commands that run as one."""

    def __new__(
        cls,
        shared: _native.Core,
        own: _native.Core,
        number: int,
        router: _native.Router | None,
        how: dict[str, Any],
    ) -> Atomic[T]:
        return super().__new__(cls, shared, own, how, number, True, router)


class RedisLoan(Loan):
    """A connection that one caller has. It ends where it was changed, or nobody knows."""

    __slots__ = ()

    def _release(self) -> None:
        session = self._scopes[0]() if self._scopes else None
        if session is not None:
            return session._release()  # type: ignore[no-any-return]
        self.core.destroy(self.number, "nobody has it any more")
        super()._release()


class Lease(Generic[T]):
    """Borrows a connection for a block."""

    #: Its end does nothing that a caller would have to hear of.
    ends_nothing = True

    def __init__(self, parts: _Parts, key: Key | None, how: dict[str, Any]) -> None:
        self._parts, self._key, self._how = parts, key, how
        self._session: Session[T] | None = None

    async def __aenter__(self) -> Session[T]:
        host = self._parts.own_of(self._key)
        loan = RedisLoan(host, await host.core.checkout(), "session")
        self._session = Session(loan, self._how)
        return self._session

    async def __aexit__(self, *_: object) -> None:
        session, self._session = self._session, None
        assert session is not None
        session._loan.end("the session was released")


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
        self.config = config
        self.cache = _native.RedisCache(config.cache) if config.cache else None
        sentinels = None if config.master is None else Sentinels(loop, config)
        self.sentinels = sentinels
        self.shared = RedisHost(
            loop, config, is_shared=True, cache=self.cache, sentinels=sentinels
        )
        self.own = RedisHost(loop, config, is_shared=False, sentinels=sentinels)
        self.nodes = Nodes(loop, config, self.shared) if config.cluster else None
        self.hub = Hub(
            lambda: RedisHost(
                loop, config, is_shared=True, is_subscriber=True, sentinels=sentinels
            ),
            config.how(),
            self.nodes,
        )
        #: The connection to a replica, with Sentinels.
        self.replica: RedisHost | None = None
        if sentinels is not None and sentinels.native.reads_replicas():
            self.replica = RedisHost(
                loop, config, is_shared=True, is_replica=True, sentinels=sentinels
            )
            self.replica.close_with(self, warns=False)
        self.shared.nodes = self.nodes
        self.shared.close_with(self)
        self.own.close_with(self, warns=False)

    def how(self, raw: bool = False) -> dict[str, Any]:
        """How commands of its clients are sent."""
        seated = {
            "sentinel": None if self.sentinels is None else self.sentinels.native,
            "replica": None if self.replica is None else self.replica.core,
        }
        return {**self.config.how(raw), "cache": self.cache, **seated}

    @property
    def router(self) -> _native.Router | None:
        return None if self.nodes is None else self.nodes.router

    def own_of(self, key: Key | None) -> RedisHost:
        """Who has connections of one's own, in a cluster those to the node that has this key."""
        if self.router is None or self.nodes is None:
            return self.own
        name = key.encode() if isinstance(key, str) else bytes(key or b"")
        core = self.router.node_of(name)
        if core is None:
            message = "no node of the cluster has the hash slot of the key"
            raise _make("unserved_slot", "NotSent", message, None)
        return next(host for host in self.nodes.hosts() if host.core is core)

    @asynccontextmanager
    async def lent(
        self, client: Client[T], calls: deque[_native.Call[Any]]
    ) -> AsyncGenerator[Client[T] | Session[T], None]:
        """Where a stream of commands goes. What is left of its calls is given up."""
        number = 0 if self.nodes is not None else await self.own.core.checkout()
        session: Session[T] | None = None
        if number:
            loan = RedisLoan(self.own, number, "stream")
            session = Session(loan, client._how)
            # Only its reader ends it.
            loan.copies = True
        try:
            yield client if session is None else session
        finally:
            if session is not None and calls and not session._loan.is_over:
                self.own.core.destroy(number, "its stream was left")
            for call in calls:
                call.close()
            if session is not None:
                session._loan.go_back()

    def hosts(self) -> list[RedisHost]:
        nodes = self.nodes.hosts() if self.nodes is not None else []
        replica = [] if self.replica is None else [self.replica]
        return [self.shared, self.own, *replica, *self.hub.hosts(), *nodes]

    async def close(self, timeout: float | None) -> None:
        # Here, where it is known who waits for that.
        for host in self.hosts():
            host.end_loans()
        hosts = [self.shared, self.own, *([] if self.replica is None else [self.replica])]
        await asyncio.gather(self.hub.close(timeout), *(host.close(timeout) for host in hosts))


async def _source(commands: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
    if isinstance(commands, AsyncIterable):
        async for command in commands:
            yield command
    else:
        for command in commands:
            yield command


class Connecting:
    """A client that is being opened: awaited, or entered."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._client: Client[str] | None = None

    def __await__(self) -> Generator[Any, Any, Client[str]]:
        return self._open().__await__()

    def _made(self) -> Client[str]:
        parts = _Parts(self._config)
        return Client[str](parts, parts.how())

    async def _open(self) -> Client[str]:
        client = self._made()
        try:
            # A server that can't be reached is told of here, and not by the first command. In a
            # cluster PING goes to all masters, of which one may be away.
            await (client.echo("") if self._config.cluster else client.ping())
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


