"""What the native part asks of its host: sockets, tasks, callbacks.

Each name here is called from there.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from . import _native
from ._config import Config, Endpoint
from ._listen import Listener
from ._loan import Loan, caller
from ._opening import Opening, Refused, Scout
from ._within import within
from .errors import Error, Notice

#: Seconds for a connection that cancels a statement.
CANCEL_TIMEOUT = 5

#: Seconds that a probe of a replica may take, the opening of a connection included.
PROBE_TIMEOUT = 5

#: Connections from this number on are none of the pool's.
APART = 1 << 31


class Host:
    """The sockets and tasks of one client."""

    #: Whether values are taken and given as by asyncpg.
    strict = False

    #: That of the primary, where this one is of a replica; and those of the replicas.
    primary: Host | None = None
    replicas: tuple[Host, ...] = ()
    known_replicas: _native.Replicas | None = None

    def __init__(self, loop: asyncio.AbstractEventLoop, config: Config) -> None:
        self.config = config
        self._begin(loop, config.of_pool(), int(config.said("result_bytes_max")))
        if config.has_replicas:
            self._add_replicas()

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: list[tuple[str, str]],
        result_bytes_max: int,
    ) -> None:
        self.loop = loop
        self.parameters: dict[str, str] = {}
        self.on_notice: Callable[[Notice], object] | None = None
        self.listeners: set[Listener] = set()
        #: Connections that callers have for themselves, by number.
        self.loans: dict[int, weakref.ref[Loan]] = {}
        self._listening: dict[int, tuple[Listener, asyncio.Future[None]]] = {}
        self._failed: dict[int, tuple[BaseException, bool]] = {}
        self._apart = itertools.count(APART)
        self.is_closed = loop.create_future()
        self._openings: dict[int, Opening] = {}
        self._transports: dict[int, tuple[asyncio.Transport, Opening]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        #: Those of them that open a connection of the pool.
        self._dials: set[asyncio.Task[None]] = set()
        #: Those that ask a replica how it is.
        self._probes: set[asyncio.Task[None]] = set()
        #: Those that ask the server to stop something.
        self.cancels: set[asyncio.Task[None]] = set()
        #: What was seen of servers, and which of them each connection leads to.
        self.lineage = _native.Lineage()
        self._identities: dict[int, tuple[str, str, str]] = {}
        self._over = self.is_ending = False
        #: Whether there ever was a connection, and whether the last attempt to open one has failed.
        self._was_open = self._is_away = False
        self.process = os.getpid()
        seed = int.from_bytes(os.urandom(8), "little")
        self.core = _native.Core(loop, self, pool, seed, result_bytes_max, self.strict)
        #: Those of `onetrip.blocking` know their hosts.
        self._blocking: Any = loop if hasattr(loop, "hosts") else None
        if self._blocking is not None:
            self._blocking.hosts.add(self)

    @property
    def is_blocking(self) -> bool:
        return self._blocking is not None

    # --- replicas ---

    def _add_replicas(self) -> None:
        said = self.config.said
        self.replicas = tuple(Host(self.loop, one) for one in self.config.of_replicas())
        for replica in self.replicas:
            replica.primary, replica.lineage = self, self.lineage
        self.known_replicas = _native.Replicas(
            self.core,
            [replica.core for replica in self.replicas],
            said("reads"),
            int(said("max_lag_ms")),
            int(said("wait_timeout_ms")),
        )

    def begin(self) -> None:
        """Opens what the settings ask for, and probes the replicas."""
        for host in (self, *self.replicas):
            host.core.begin_pool()
        if self.known_replicas is not None:
            while (at := self.known_replicas.poll_probe()) is not None:
                self.probe(at)

    def probe(self, at: int) -> None:
        task = self.spawn(self._probe(at))
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _probe(self, at: int) -> None:
        row: list[str | None] | None = None
        try:
            call = _native.Scope(self.replicas[at].core)._texts(_native.Replicas.PROBE)
            row = await within(call, PROBE_TIMEOUT)
        except (Error, OSError, asyncio.TimeoutError, TimeoutError):
            # It is out until a probe succeeds.
            pass
        finally:
            if self.known_replicas is not None:
                random = int.from_bytes(os.urandom(8), "little")
                self.known_replicas.probed(at, row, random)

    def spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- connections ---

    def open(self, number: int) -> None:
        opening = self._openings[number] = self.opening(number)
        self.dial(self._open(number, opening))

    def dial(self, work: Any) -> None:
        task = self.spawn(work)
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)

    def opening(self, number: int) -> Opening:
        return Opening(self, number)

    async def _open(self, number: int, opening: Opening) -> None:
        try:
            await opening.run()
        except asyncio.CancelledError as error:
            opening.leave()
            self.open_failed(number, error, True)
            raise
        except Exception as error:
            # A fault of ours is the caller's to hear, and must not leave the pool waiting.
            opening.leave()
            if self._blocking is not None:
                self._blocking.struck(error)
            self.open_failed(number, error, True)
        finally:
            self._openings.pop(number, None)
            if opening.transport is not None:
                self._transports[number] = (opening.transport, opening)
                self._was_open, self._is_away = True, False

    def open_failed(
        self, number: int, error: BaseException, permanent: bool, may_pass: bool = True
    ) -> None:
        """``may_pass``: another attempt may fare better soon."""
        if number < APART:
            if not permanent and (may_pass or self._was_open):
                self._tell_that_it_goes_on(error)
            self.core.open_failed(number, error, permanent, may_pass)
        else:
            self._failed[number] = (error, permanent)

    def _tell_that_it_goes_on(self, error: BaseException) -> None:
        """Once, until there is a connection again: whoever waits would see nothing for long."""
        if self._is_away:
            return
        self._is_away = True
        # It is slow to import.
        import logging

        message = "no connection: %s; it is tried again as long as somebody waits for one"
        logging.getLogger("onetrip").warning(message, error)

    async def open_apart(self, listener: Listener) -> tuple[int, asyncio.Future[None]]:
        """A connection that is none of the pool's, and when it is gone."""
        number = next(self._apart)
        opening = self._openings[number] = Opening(self, number)
        try:
            await self._open(number, opening)
        except BaseException:
            opening.leave()
            raise
        if number in self._failed:
            error, permanent = self._failed.pop(number)
            if not isinstance(error, Error):
                raise error
            raise Refused("server", error, permanent)
        gone: asyncio.Future[None] = self.loop.create_future()
        self._listening[number] = (listener, gone)
        if number not in self._transports:
            gone.set_result(None)
        return number, gone

    def scout(self, _: int) -> None:
        self.dial(self._scout(next(self._apart)))

    async def _scout(self, number: int) -> None:
        """Looks for another primary, beside the pool. What is open to a former one ends with it."""
        opening = self._openings[number] = Scout(self, number)
        try:
            await self._open(number, opening)
        finally:
            self._failed.pop(number, None)
            self._identities.pop(number, None)
            self.core.scouted()

    def ready(self, number: int, block: bytes) -> None:
        login = self._openings[number].login if number in self._openings else None
        if login is not None and not login.done():
            texts = block.decode("utf-8", "replace").split("\0")
            login.set_result(dict(zip(texts[::2], texts[1::2])))

    def refused(self, number: int, text: str, message: bytes | None, is_final: bool) -> None:
        opening = self._openings.get(number)
        if opening is not None:
            opening.refused(text, None if message is None else _native.fields(message), is_final)

    def lost(self, number: int, why: bytes) -> None:
        """A connection that was in use has ended, though it should not."""

    def leave(self, number: int, is_broken: bool | None = None) -> None:
        """It is of no use any more: what was written to it goes out, unless it is broken.

        ``is_broken`` is None where the pool does not want it any more.
        """
        of = self._transports.get(number)
        opening = self._openings.get(number) if of is None else of[1]
        if opening is not None and of is None and is_broken is None:
            opening.given_up()
        if opening is not None and opening.transport is not None:
            # A peer that takes no bytes would be waited for.
            opening.transport.abort() if is_broken else opening.transport.close()

    def identified(self, number: int, row: tuple[str, str, str]) -> None:
        """A connection leads to this server."""
        self._identities[number] = row

    def close_former(self) -> None:
        """Closes the connections that lead to a former primary, as far as that was learned."""
        if self.primary is not None:
            self.primary.close_former()
        for other, seen in list(self._identities.items()):
            why = self.lineage.refuses(seen)
            if why is not None:
                self.core.destroy(other, f"the server{why}")

    def gone(self, number: int) -> None:
        self._transports.pop(number, None)
        self._identities.pop(number, None)
        _, gone = self._listening.pop(number, (None, None))
        if gone is not None and not gone.done():
            gone.set_result(None)
        opening = self._openings.get(number)
        if opening is not None:
            opening.refused("the server closed the connection", None)
        self._finish()

    def read(self, number: int, goes_on: bool) -> None:
        if number in self._transports:
            transport = self._transports[number][0]
            transport.resume_reading() if goes_on else transport.pause_reading()

    async def prepare(self, number: int) -> None:
        """A connection is logged in, and about to be used."""

    async def password(self, endpoint: Endpoint) -> str | None:
        given = self.config.password
        if given is None:
            return self.config.text("password") or self.config.password_of_file(endpoint)
        password = given()
        return await password if inspect.isawaitable(password) else password

    # --- what belongs to no statement ---

    def notice(self, number: int, block: bytes) -> None:
        if self.on_notice is not None:
            self.on_notice(Notice(_native.fields(block)))

    def notified(self, number: int, block: bytes) -> None:
        said = _native.notification(block)
        if number in self._listening and said is not None:
            self._listening[number][0].notified(*said)

    # --- cancels ---

    def cancel(self, number: int) -> None:
        task = self.spawn(self._cancel(number))
        self.cancels.add(task)
        task.add_done_callback(self.cancels.discard)

    async def _cancel(self, number: int) -> None:
        end: str | None = "not_sent"
        try:
            _, of = self._transports[number]
            if of.endpoint.letter == "s":
                dial = asyncio.open_unix_connection(of.endpoint.path)
            else:
                dial = asyncio.open_connection(of.address, of.endpoint.port)
            reader, writer = await asyncio.wait_for(dial, CANCEL_TIMEOUT)
            message = self.core.begin_cancel(number)
            try:
                if message is None:
                    end = None
                    return
                end = "lost"
                writer.write(message)
                await asyncio.wait_for(reader.read(), CANCEL_TIMEOUT)
                end = "closed"
            finally:
                writer.close()
        except (OSError, KeyError, RuntimeError, asyncio.TimeoutError):
            # uvloop has a RuntimeError for a socket that was closed meanwhile.
            pass
        finally:
            # Whatever became of this task: until the engine knows, the connection takes nothing.
            if end is not None:
                self.core.cancel_ended(number, end)

    # --- its end ---

    def closed(self, _: int) -> None:
        """The pool has let go of all connections, which say goodbye."""
        self._over = True
        self._finish()

    def _finish(self) -> None:
        if self._over and not self._transports and not self.is_closed.done():
            self.is_closed.set_result(None)

    def close_with(
        self, owner: object, warns: bool = True, timeout: float | None = None
    ) -> None:
        """Once its owner is deleted, it is closed behind it."""
        weakref.finalize(owner, self._left, warns, timeout).atexit = False

    def _left(self, warns: bool, timeout: float | None) -> None:
        # A collector may run anywhere: on another thread, behind a fork.
        if os.getpid() != self.process:
            return
        if self.loop.is_closed():
            return self._left_by_loop()
        if warns and not self.is_ending and not self._over:
            warnings.warn(self._left_text(), ResourceWarning, stacklevel=2)
        if self._blocking is None:
            self.loop.call_soon_threadsafe(self._close_at_last, timeout)
        elif warns:
            self._blocking.close_behind(timeout)

    def _left_text(self) -> str:
        return "onetrip: a client was deleted that was not closed: call close on it"

    def _left_by_loop(self) -> None:
        """Nothing tells of its connections any more. Their sockets end with what has them."""
        try:
            self.core.let_go()
            for transport, _ in self._transports.values():
                protocol: Any = transport.get_protocol()
                if protocol is not None:
                    protocol.connection_lost(None)
        except RuntimeError:
            # This is not the loop's thread, or somebody waits who can't be told any more.
            pass

    def _close_at_last(self, timeout: float | None) -> None:
        if self.is_ending:
            self._let_go()
        else:
            self.spawn(self.close(timeout))

    async def close(self, timeout: float | None) -> None:
        """Takes nothing new, and ends when all is answered, or after this time."""
        self.core.check()
        for probe in list(self._probes):
            probe.cancel()
        replicas = [self.spawn(replica.close(timeout)) for replica in self.replicas]
        self.is_ending = True
        self.end_loans()
        for listener in list(self.listeners):
            listener.close()
        self.core.close_pool()
        done, _ = await asyncio.wait([self.is_closed], timeout=timeout)
        if not done:
            self.cut("the client was closed before the answer came")
            await asyncio.wait([self.is_closed], timeout=1)
        if replicas:
            await asyncio.wait(replicas)
        dials = self._let_go()
        if dials:
            await asyncio.wait(dials, timeout=1)

    def end_loans(self) -> None:
        """Takes back what nobody would give back while its caller waits for that."""
        me = caller()
        for seen in list(self.loans.values()):
            loan = seen()
            if loan is not None and loan.waits_for(me):
                loan.cut("the client was closed")

    async def abandon(self) -> None:
        """Closes what nobody was given, also if its caller is cancelled meanwhile."""
        await asyncio.shield(self.spawn(self.close(0)))

    def _let_go(self) -> set[asyncio.Task[None]]:
        # Who logs in would not hear of the answer any more.
        dials = set(self._dials)
        for task in dials:
            task.cancel()
        if self.known_replicas is not None:
            self.known_replicas.let_go()
        self.core.let_go()
        return dials

    def cut(self, why: str) -> None:
        """Ends what is not answered."""
        for replica in self.replicas:
            replica.cut(why)
        self.core.cut_pool()
        for number in list(self._transports):
            self.core.destroy(number, why)
        for transport, _ in list(self._transports.values()):
            transport.abort()
