"""How a connection is opened, and what it is to its host."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import ssl as ssl_module
import traceback
import weakref
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from .. import _native
from .._config import _KEYWORDS, Config, Endpoint
from .._host import Host
from .._opening import Opening
from ..errors import Error
from . import _codecs, exceptions, protocol
from ._arguments import (
    SessionAttribute,
    SSLMode,
    SSLNegotiation,
    _ClientConfiguration,
    _ConnectionParameters,
    _parse_connect_arguments,
    _parse_connect_dsn_and_args,
)
from ._errors import translated

__all__ = ("SSLMode", "SSLNegotiation", "SessionAttribute", "_parse_connect_dsn_and_args")

#: By this name programs know what a pool has to tell.
pool_logger = logging.getLogger("asyncpg.pool")

#: asyncpg bounds neither how long one waits for a connection nor how long one lives.
LONG = {"wait_timeout_ms": 2**40, "lifetime_ms": 2**40, "idle_timeout_ms": 2**40}

#: Nor how large a result is. A URL may do so.
_UNBOUNDED = {"result_bytes_max": "0"}


#: Keywords of `onetrip.connect` that are not carried out here. asyncpg does not know them.
_OF_ONETRIP_ALONE = frozenset(
    ["hostaddr", "service", "servicefile", "sslcertmode", "sslsni", "reads", "max_lag_ms"]
)


class DropInConfig(Config):
    """The configuration, from the arguments that asyncpg takes."""

    def __init__(
        self, arguments: dict[str, Any], timeout: float | None, pool: dict[str, Any]
    ) -> None:
        addrs, params, client = _parse_connect_arguments(**arguments)
        self.params, self.client = params, client
        context = params.ssl if isinstance(params.ssl, ssl_module.SSLContext) else None
        password = params.password
        settings = {
            **_UNBOUNDED,
            "user": params.user,
            "dbname": params.database,
            "password": password if isinstance(password, str) else None,
            "host": "localhost",
            "sslnegotiation": params.ssl_negotiation.value,
            "target_session_attrs": params.target_session_attrs.value,
            "connect_timeout": 0 if timeout is None else max(1, math.ceil(timeout)),
            "prepared_max": client.statement_cache_size or None,
            "prepare_threshold": None if client.statement_cache_size else 0,
        }
        # What asyncpg does not know and onetrip does, as prepare_threshold in a URL, is no setting of
        # the server.
        self.server_settings = dict(params.server_settings or {})
        for name in [name for name in self.server_settings if name in _KEYWORDS]:
            if name in pool or name in _OF_ONETRIP_ALONE:
                raise exceptions.ClientConfigurationError(
                    f"{name} has no effect here: leave it out, or say it by an argument of connect "
                    "or create_pool if there is one"
                )
            settings[name] = self.server_settings.pop(name)
        try:
            asked = None if password is None or isinstance(password, str) else password
            super().__init__(None, {**settings, **pool}, context, asked)
            self.endpoints = [_endpoint(addr) for addr in addrs]
        except ValueError as error:
            raise exceptions.ClientConfigurationError(str(error)) from None

    def _check_rules(self, in_program: dict[str, str]) -> None:
        """What is said of TLS was read and checked as by asyncpg."""

    @property
    def sslmode(self) -> str:
        return self.params.sslmode.name.replace("_", "-")

    def of_engine(self, *args: Any) -> list[tuple[str, str]]:
        settings = super().of_engine(*args)
        settings.append(("hold_begin", "1"))
        for name, value in self.server_settings.items():
            settings.append((f"parameter.{name}", value))
        return settings


def _endpoint(addr: Any) -> Endpoint:
    if isinstance(addr, tuple):
        return Endpoint(*addr)
    folder, _, port = addr.rpartition("/.s.PGSQL.")
    return Endpoint(folder, int(port))


def _addr(endpoint: Endpoint) -> Any:
    return endpoint.path if endpoint.letter == "s" else (endpoint.host, endpoint.port)


class DropInHost(Host):
    """The sockets of a connection, or of a pool, and the `Connection` of each."""

    strict = True
    config: DropInConfig

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: DropInConfig,
        connection_class: Any,
        record_class: Any,
    ) -> None:
        super().__init__(loop, config)
        self.connection_class, self.record_class = connection_class, record_class
        self.connections: MutableMapping[int, Any] = {}
        self.is_pool = False
        self.init: Callable[[Any], Awaitable[None]] | None = None
        #: Whether the server's goodbye is waited for.
        self.waits_for_goodbye = False
        #: Where the connection was opened, for who forgets to close it.
        self.origin = ""
        #: Connections at which a function of the caller's has failed.
        self._of_caller: set[int] = set()
        #: The caller's own way to connect, if he has one.
        self.connect: Callable[[], Awaitable[Any]] | None = None
        _codecs.register(self.core)

    # --- connections ---

    async def _open(self, number: int, opening: Opening) -> None:
        if self.connect is not None:
            return await self._open_by(self.connect, number)
        # By its name in the module, where instrumentation puts its own.
        await _connect_addr(
            addr=_addr(self.config.endpoints[0]),
            loop=self.loop,
            params=self.config.params,
            config=self.config.client,
            connection_class=self.connection_class,
            record_class=self.record_class,
            _open=lambda: super(DropInHost, self)._open(number, opening),
        )

    async def _open_by(self, connect: Callable[[], Awaitable[Any]], number: int) -> None:
        """The caller's function calls `connect` of this package, which opens this connection."""
        guest = Guest(self, number)
        token = _guest.set(guest)
        try:
            made = await connect()
            if not isinstance(made, self.connection_class):
                raise exceptions.InterfaceError(
                    "expected pool connect callback to return an instance of "
                    f"'{_name(self.connection_class)}', got '{_name(type(made))}'"
                )
            if made is not guest.made:
                raise exceptions.InterfaceError(
                    "the pool connect callback returned a connection that it has not opened by "
                    "connect() of this package"
                )
            guest.is_left.set_result(None)
        except BaseException as error:
            if guest.made is None:
                self._of_caller.add(number)
                self.open_failed(number, error, True)
            else:
                guest.is_left.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            _guest.reset(token)

    async def prepare(self, number: int) -> None:
        self.core.lend(number)
        opening = self._openings[number]
        try:
            if isinstance(opening, GuestOpening):
                await opening.guest.handed_over(self.of(number))
            if self.init is not None:
                await self.init(self.of(number))
        except Exception:
            self._of_caller.add(number)
            raise
        # What that has set is there for the first who has the connection, as with asyncpg.
        self.core.vouch(number)

    def open_failed(
        self, number: int, error: BaseException, permanent: bool, may_pass: bool = True
    ) -> None:
        opening = self._openings.get(number)
        if isinstance(opening, GuestOpening) and not opening.guest.is_there.done():
            opening.guest.is_there.set_exception(error)
            return
        if self.is_pool and isinstance(error, Exception) and not self.core.counts()[2]:
            self._tell_that_it_goes_on(error)
        # As with asyncpg, whoever waits hears of the first attempt that fails.
        super().open_failed(number, error, True)
        if number in self._of_caller:
            self._of_caller.discard(number)
            self.core.forget_failure()

    def _tell_that_it_goes_on(self, error: BaseException) -> None:
        """Nobody waits, who would be told: once, until there is a connection again."""
        if self._was_open and not self._is_away and not self.is_ending:
            self._is_away = True
            told = self.refused_as(error) if isinstance(error, Error) else error
            text = "Failed to restore the pool connection floor; retrying"
            pool_logger.warning(text, exc_info=told)

    def has(self, number: int) -> bool:
        """Whether it is there. It may be lost while its caller is on the way."""
        return number in self._transports or number in self._openings

    def of(self, number: int) -> Any:
        """The `Connection` with this number."""
        made = self.connections.get(number)
        if made is None:
            found = self._transports.get(number)
            opening = found[1] if found is not None else self._openings[number]
            config = opening.config
            assert isinstance(config, DropInConfig)
            made = self.connections[number] = self.connection_class(
                protocol.Protocol(self, number, config.client, self.record_class),
                opening.transport,
                self.loop,
                _addr(opening.endpoint),
                config.client,
                config.params,
            )
        return made

    def refused_as(self, error: Error, query: str | None = None, args: Any = ()) -> BaseException:
        """The error of asyncpg for one that may be about connecting."""
        tried = getattr(error, "_tried", None)
        if tried is not None:
            return _of_both(*map(translated, tried))
        made: Any = translated(error, query, args)
        if isinstance(made, exceptions.TargetServerAttributeNotMatched):
            asked = self.config.params.target_session_attrs
            text = f"None of the hosts match the target attribute requirement {asked!r}"
            fresh: Any = exceptions.TargetServerAttributeNotMatched(text)
            fresh.outcome = error.outcome
            return fresh
        return made

    def not_connected(self, error: Error) -> BaseException:
        """The error of asyncpg for one that is."""
        made = self.refused_as(error)
        if getattr(error, "_tried", None) is None:
            made.__cause__ = error.__cause__
        return made

    def terminate(self, number: int) -> None:
        self.core.destroy(number, "the connection was terminated")

    def leave(self, number: int, is_broken: bool | None = None) -> None:
        if not self._says_goodbye(number, is_broken):
            super().leave(number, is_broken)
        self._over_now(number)

    def _says_goodbye(self, number: int, is_broken: bool | None) -> bool:
        """The server has been told that it may go, and closes the line, if it is there."""
        return self.waits_for_goodbye and not is_broken and number in self._transports

    def _left_text(self) -> str:
        where = self.origin or "; run in asyncio debug mode to show the traceback of its origin"
        return f"unclosed connection of onetrip.asyncpg{where}"

    def lost(self, number: int, why: bytes) -> None:
        super().lost(number, why)
        connection = self.connections.get(number)
        if connection is not None:
            connection._why_lost = why.decode("utf-8", "replace")

    def gone(self, number: int) -> None:
        super().gone(number)
        self._over_now(number)

    def _over_now(self, number: int) -> None:
        connection = self.connections.pop(number, None)
        if connection is not None:
            connection._ended()

    # --- what belongs to no statement ---

    def notice(self, number: int, block: bytes) -> None:
        connection = self.connections.get(number)
        if connection is not None:
            connection._process_log_message(_native.fields(block), None)

    def notified(self, number: int, block: bytes) -> None:
        connection = self.connections.get(number)
        if connection is not None:
            channel, payload = block[9:].split(b"\0")[:2]
            pid = int.from_bytes(block[5:9], "big")
            connection._process_notification(pid, channel.decode(), payload.decode())


def _name(of: type) -> str:
    return of.__name__ if of.__module__ == "builtins" else f"{of.__module__}.{of.__name__}"


def _of_both(first: BaseException, second: BaseException) -> BaseException:
    """The error for who was refused with TLS and without. That of a wrong password is not hidden
    behind one that says less.
    """
    password, access = (
        exceptions.InvalidPasswordError, exceptions.InvalidAuthorizationSpecificationError
    )
    says_less = isinstance(second, (access, ConnectionError)) and not isinstance(second, password)
    if isinstance(first, password) and says_less:
        first.__cause__ = None
        return first
    second.__cause__ = first
    return second


class Guest:
    """A connection of a pool that a function of the caller's opens."""

    def __init__(self, host: DropInHost, number: int) -> None:
        self.host, self.number = host, number
        self.made: Any = None
        self.is_there = host.loop.create_future()
        self.is_left = host.loop.create_future()

    async def open(self, config: DropInConfig) -> Any:
        host = self.host
        opening = host._openings[self.number] = GuestOpening(self, config)
        host.dial(super(DropInHost, host)._open(self.number, opening))
        try:
            self.made = await self.is_there
        except Error as error:
            raise host.not_connected(error)
        return self.made

    async def handed_over(self, made: Any) -> None:
        self.is_there.set_result(made)
        await self.is_left


class GuestOpening(Opening):
    def __init__(self, guest: Guest, config: DropInConfig) -> None:
        super().__init__(guest.host, guest.number)
        self.guest, self.config = guest, config


_guest: contextvars.ContextVar[Guest | None] = contextvars.ContextVar("_guest", default=None)


async def _connect_addr(
    *,
    addr: Any,
    loop: asyncio.AbstractEventLoop,
    params: _ConnectionParameters,
    config: _ClientConfiguration,
    connection_class: Any,
    record_class: Any,
    _open: Callable[[], Awaitable[Any]],
) -> Any:
    """Opens a connection. Of several hosts, `addr` is the first that is tried."""
    return await _open()


async def _connect(
    *, loop: Any, connection_class: Any, record_class: Any, timeout: float | None, **arguments: Any
) -> Any:
    guest = _guest.get()
    config = DropInConfig(arguments, timeout, {"connections_max": 1, **LONG})
    if guest is not None and guest.made is None:
        return await protocol.within(guest.open(config), timeout)
    host = DropInHost(loop, config, connection_class, record_class)
    host.core.begin_pool()
    try:
        # Its caller has it, and nobody else: one that is dropped is closed.
        host.connections = weakref.WeakValueDictionary()
        number = await protocol.within(host.core.checkout(), timeout)
        if not host.has(number):
            message = "connection was closed in the middle of operation"
            raise exceptions.ConnectionDoesNotExistError(message)
        made = host.of(number)
        host.close_with(made, timeout=0)
        if loop.get_debug():
            host.origin = " created at:\n" + "".join(traceback.format_stack())
        weakref.finalize(made, setattr, made._protocol, "is_over", True).atexit = False
        return made
    except BaseException as error:
        await host.abandon()
        if isinstance(error, Error):
            raise host.not_connected(error)
        raise
