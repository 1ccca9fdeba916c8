"""Redis and Valkey for programs without async: each command returns its reply.

::

    with onetrip.blocking.redis.connect("redis://localhost") as db:
        db.set("name", "Ann")
        with db.pipeline() as batch:  # One trip.
            name, visits = batch.get("name"), batch.incr("visits")
        print(name.result(), visits.result())
"""

from __future__ import annotations

from collections.abc import Sequence
from ssl import SSLContext
from typing import Any, Generic, TypeVar

from .. import redis
from .._native import Call, Spec
from ..errors import Error
from ..redis import Message, Script, _client
from ..redis._commands import Commands as Calls
from ._commands import Arg, Commands, Key, SessionCommands
from ._loop import Loop
from ._parts import Block, Events, Owner

__all__ = ["Client", "Pipeline", "Session", "connect"]

T = TypeVar("T", str, bytes)

#: What clients have a property of this name for.
Bytes = bytes

#: Commands of a pipeline that are under way.
WINDOW = 8192


class _Place:
    """What a client and a session have in common."""

    _loop: Loop
    _it: Any

    def _at(self) -> tuple[Loop, Any]:
        return self._loop, self._it

    def _send(self, spec: Spec, /, *args: Any) -> Any:
        loop, it = self._at()
        return loop.call(it._send, spec, *args)

    def command(self, name: str, *args: Arg) -> Any:
        """Sends any command by its name, as ``command("CLIENT INFO")``."""
        loop, it = self._at()
        return loop.call(it.command, name, *args)

    def call(self, script: Script | str, keys: Sequence[Key] = (), args: Sequence[Arg] = ()) -> Any:
        """Calls a script."""
        loop, it = self._at()
        return loop.call(it.call, script, keys, args)

    def atomic(self) -> Block[redis.Atomic[Any]]:
        """Commands that run as one: ``with db.atomic() as tx``.

        They leave at the end of the block, between MULTI and EXEC. Behind it their calls have a
        ``result()``.
        """
        loop, it = self._at()
        return Block(loop, it.atomic, lambda atomic: atomic)


class Client(Owner, _Place, Commands[T], Generic[T]):  # type: ignore[override]
    """A client: its commands share one connection.

    Commands that may block have connections of their own.
    """

    _it: redis.Client[T]

    @property
    def bytes(self) -> Client[Bytes]:
        """The same client, with ``bytes`` in place of ``str`` in replies."""
        it: _Raw = object.__new__(_Raw)
        it._of = self
        return it

    def pipeline(self) -> Pipeline[T]:
        """Commands that leave together: ``with db.pipeline() as batch``.

        Behind the block their calls have a ``result()``, which raises where its command failed.
        """
        loop, it = self._at()
        return Pipeline(it._parts, it._how, loop)

    def session(self, key: Key | None = None) -> Block[Session[T]]:
        """A connection of one's own, for WATCH and what changes a connection."""
        loop, of = self._at()
        return Block(loop, lambda: of.session(key), lambda it: Session[T](loop, it))

    def subscribe(self, *channels: Key) -> Block[Events[Message[T]]]:
        """Messages of channels: ``with db.subscribe("news") as messages``."""
        return self._subscription("subscribe", channels)

    def psubscribe(self, *patterns: Key) -> Block[Events[Message[T]]]:
        """Messages of the channels that match patterns, such as ``news.*``."""
        return self._subscription("psubscribe", patterns)

    def ssubscribe(self, *channels: Key) -> Block[Events[Message[T]]]:
        """Messages of sharded channels (Redis 7), in a cluster from the node of their hash slot."""
        return self._subscription("ssubscribe", channels)

    def _subscription(self, method: str, names: tuple[Key, ...]) -> Block[Events[Message[T]]]:
        loop, of = self._at()
        return Block(loop, lambda: getattr(of, method)(*names), lambda it: Events(loop, it))


class _Raw(Client[Bytes]):
    """One that another one opens and closes, also where its connections end with a signal."""

    _of: Client[Any]

    def _at(self) -> tuple[Loop, Any]:
        loop, it = self._of._at()
        return loop, it.bytes


class Session(_Place, SessionCommands[T], Generic[T]):
    """A connection that its caller has to himself."""

    def __init__(self, loop: Loop, it: redis.Session[T]) -> None:
        self._loop, self._it = loop, it


class Pipeline(_client._Scope, Calls[T], Generic[T]):
    """Commands that leave together, of which 8,192 are under way."""

    _loop: Loop
    _calls: list[Call[Any]]

    def __new__(cls, parts: _client._Parts, how: dict[str, Any], loop: Loop) -> Pipeline[T]:
        shared, own = parts.shared.core, parts.own.core
        # A read may follow a write there, which a replica gets later.
        how = {**how, "replica": None}
        self = super().__new__(cls, shared, own, how, router=parts.router)
        self._loop, self._calls = loop, []
        return self

    def _send(self, spec: Spec, /, *args: Any) -> Call[Any]:
        call = self._loop.act(super()._send, spec, *args)
        self._calls.append(call)
        if len(self._calls) % WINDOW == 0:
            self._loop.wait(self._calls[-WINDOW:])
        return call

    def __enter__(self) -> Pipeline[T]:
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            self._loop.act(self._end, "the pipeline is over: its block has ended")
            self._loop.wait(self._calls, leaves=True)
        except Error:
            # What the block has raised is of more use.
            if error is None:
                raise


def connect(
    url: str | None = None, *, ssl: SSLContext | None = None, **settings: Any
) -> Client[str]:
    """Opens a client: ``with onetrip.blocking.redis.connect("redis://localhost") as db``.

    What it takes is what :func:`onetrip.redis.connect` takes.
    """
    client: Client[str] = Client(redis.connect(url, ssl=ssl, **settings)._made)

    async def check() -> None:
        await client._at()[1].ping()

    return client._checked(check)
