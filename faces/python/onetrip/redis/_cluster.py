"""The nodes of a cluster. The router decides what goes where; here are the connections."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from .. import _native
from ._config import Config, Server
from ._host import RedisHost


class Nodes:
    """What the router asks of its host. Each name here is called from there."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, config: Config, home: RedisHost
    ) -> None:
        self._loop, self._config, self._home = loop, config, home
        self._nodes: dict[int, tuple[RedisHost, RedisHost]] = {}
        self._tasks: set[asyncio.Future[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        #: Who has the readers of sharded channels: what a node pushed, and which channel is
        #: subscribed again.
        self.on_push: Callable[[bytes], object] | None = None
        self.on_again: Callable[[bytes], object] | None = None
        self.router = _native.Router(
            home.core,
            self,
            config.numbers["redirects_max"],
            config.numbers["wait_timeout_ms"],
            config.replica_reads,
            int.from_bytes(os.urandom(8), "little"),
        )
        home.on_given_up = self.router.give_up

    def open(self, number: int, host: str, port: int) -> tuple[_native.Core, _native.Core]:
        of = self._config.of_node(Server(host, port))
        shared = RedisHost(self._loop, of, is_shared=True)
        own = RedisHost(self._loop, of, is_shared=False)
        shared.on_open = lambda is_open: self.router.connected(number, is_open)
        shared.on_push = lambda block: self._pushed(number, block)
        self._nodes[number] = shared, own
        return shared.core, own.core

    def _pushed(self, number: int, block: bytes) -> None:
        if not self.router.pushed(number, block) and self.on_push is not None:
            self.on_push(block)

    def resubscribed(self, channel: bytes) -> None:
        if self.on_again is not None:
            self.on_again(channel)

    def shut(self, number: int) -> None:
        """It is no longer part of the cluster, and nothing is unanswered there."""
        for host in self._nodes.pop(number):
            task = self._loop.create_task(host.close(None))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def named(self) -> tuple[str, int]:
        """The server that was asked, whose host the topology may leave out."""
        server = self._home.server
        return server.host or "127.0.0.1", server.port

    def arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self.router.tick)

    def hosts(self) -> list[RedisHost]:
        return [host for pair in self._nodes.values() for host in pair]

    async def close(self, timeout: float | None) -> None:
        # What was sent is answered first; what waits for a node waits no longer.
        await asyncio.gather(*(host.close(timeout) for host in self.hosts()), *self._tasks)
        self.router.close()
        if self._timer is not None:
            self._timer.cancel()
