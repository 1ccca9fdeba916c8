"""How a connection is asked for, and how it is opened."""

from __future__ import annotations

import asyncio
import enum
import ssl as ssl_module
import weakref
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from .. import _native
from .._config import _KEYWORDS, Config
from .._host import Host
from ..errors import Error
from . import _codecs, exceptions
from ._errors import translated


class SSLMode(enum.IntEnum):
    disable = 0
    allow = 1
    prefer = 2
    require = 3
    verify_ca = 4
    verify_full = 5

    @classmethod
    def parse(cls, sslmode: Any) -> SSLMode:
        return sslmode if isinstance(sslmode, cls) else cls[str(sslmode).replace("-", "_")]


class _ConnectionParameters(NamedTuple):
    """What instrumentation reads of a connection."""

    user: str
    password: Any
    database: str
    ssl: Any
    server_settings: dict[str, str]


class _ClientConfiguration(NamedTuple):
    command_timeout: float | None
    statement_cache_size: int
    max_cached_statement_lifetime: float
    max_cacheable_statement_size: int


class DropInConfig(Config):
    """The configuration, from the arguments that asyncpg takes."""

    def __init__(self, arguments: dict[str, Any], pool: dict[str, Any]) -> None:
        get = arguments.get
        self.server_settings = dict(get("server_settings") or {})
        settings = _of_dsn(get("dsn"), self.server_settings)
        host, port = get("host"), get("port")
        for name, value in (
            ("host", ",".join(map(str, host)) if isinstance(host, (list, tuple)) else host),
            ("port", ",".join(map(str, port)) if isinstance(port, (list, tuple)) else port),
            ("user", get("user")),
            ("dbname", get("database")),
            ("target_session_attrs", get("target_session_attrs")),
            ("sslnegotiation", "direct" if get("direct_tls") else None),
        ):
            if value is not None:
                settings[name] = str(getattr(value, "value", value))
        password = get("password")
        if isinstance(password, str):
            settings["password"] = password
        ssl = get("ssl")
        if isinstance(ssl, (str, SSLMode)):
            settings["sslmode"] = SSLMode.parse(ssl).name.replace("_", "-")
        elif ssl is False:
            settings["sslmode"] = "disable"
        elif ssl is True:
            ssl = ssl_module.create_default_context()
        context = ssl if isinstance(ssl, ssl_module.SSLContext) else None
        asked = None if password is None or isinstance(password, str) else password
        try:
            super().__init__(None, {**settings, **pool}, context, asked)
        except ValueError as error:
            raise exceptions.ClientConfigurationError(str(error)) from None
        self.params = _ConnectionParameters(
            self.user, self.text("password"), self.dbname, ssl, self.server_settings
        )

    def of_engine(self, *args: Any) -> list[tuple[str, str]]:
        settings = super().of_engine(*args)
        settings.append(("hold_begin", "1"))
        for name, value in self.server_settings.items():
            settings.append((f"parameter.{name}", str(value)))
        return settings


def _of_dsn(dsn: str | None, server_settings: dict[str, str]) -> dict[str, Any]:
    """The settings of a connection string. What is no keyword is a setting of the server."""
    from .._config import _read_url

    if not dsn:
        return {}
    parts = urlsplit(dsn)
    if parts.scheme not in ("postgres", "postgresql"):
        raise exceptions.ClientConfigurationError(
            f"invalid DSN: scheme is expected to be either \"postgresql\" or \"postgres\", "
            f"got {parts.scheme!r}"
        )
    known = []
    for name, value in parse_qsl(parts.query):
        name = {"database": "dbname"}.get(name, name)
        if name in _KEYWORDS:
            known.append(f"{quote(name)}={quote(value)}")
        else:
            server_settings.setdefault(name, value)
    return dict(_read_url(urlunsplit(parts._replace(query="&".join(known)))))


class DropInHost(Host):
    """The sockets of a connection, or of a pool, and the `Connection` of each."""

    strict = True

    def __init__(self, loop: asyncio.AbstractEventLoop, config: DropInConfig) -> None:
        super().__init__(loop, config)
        self.connections: MutableMapping[int, Any] = {}
        self.make: Callable[[int], Any] = lambda number: None
        self.init: Callable[[Any], Awaitable[None]] | None = None
        _codecs.register(self.core)

    async def prepare(self, number: int) -> None:
        if self.init is not None:
            self.core.lend(number)
            await self.init(self.of(number))

    def open_failed(self, number: int, error: Exception, permanent: bool) -> None:
        # As with asyncpg, whoever waits hears of the first attempt that fails.
        super().open_failed(number, error, True)

    def of(self, number: int) -> Any:
        """The `Connection` with this number."""
        made = self.connections.get(number)
        if made is None:
            made = self.connections[number] = self.make(number)
        return made

    def address(self, number: int) -> Any:
        found = self._transports.get(number)
        of = found[1] if found is not None else self._openings.get(number)
        endpoint = of.endpoint if of is not None else self.config.endpoints[0]
        return endpoint.path if endpoint.letter == "s" else (endpoint.host, endpoint.port)

    def transport(self, number: int) -> Any:
        found = self._transports.get(number)
        return found[0] if found is not None else None

    def terminate(self, number: int) -> None:
        self.core.destroy(number, "the connection was terminated")

    def leave(self, number: int) -> None:
        super().leave(number)
        self._over_now(number)

    def gone(self, number: int) -> None:
        super().gone(number)
        self._over_now(number)

    def _over_now(self, number: int) -> None:
        connection = self.connections.pop(number, None)
        if connection is not None:
            connection._ended()

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


async def _connect_addr(
    *,
    addr: Any,
    loop: asyncio.AbstractEventLoop,
    params: _ConnectionParameters,
    config: _ClientConfiguration,
    connection_class: Any,
    record_class: Any,
    host: DropInHost,
    timeout: float | None,
) -> Any:
    """Opens a connection that its caller has to himself."""
    host.core.begin_pool()
    try:
        host.make = connection_maker(host, params, config, connection_class, record_class)
        # Its caller has it, and nobody else: one that is dropped is closed.
        host.connections = weakref.WeakValueDictionary()
        made = host.of(await asyncio.wait_for(host.core.checkout(), timeout))
        host.close_with(made, timeout=0)
        return made
    except BaseException as error:
        await host.close(0)
        if isinstance(error, Error):
            raise translated(error) from error.__cause__
        raise


def connection_maker(
    host: DropInHost,
    params: _ConnectionParameters,
    config: _ClientConfiguration,
    connection_class: Any,
    record_class: Any,
) -> Callable[[int], Any]:
    from .protocol import Protocol

    def make(number: int) -> Any:
        protocol = Protocol(host, number)
        transport, address = host.transport(number), host.address(number)
        made = connection_class(protocol, transport, host.loop, address, config, params)
        made._record_class = record_class
        return made

    return make


async def _connect(
    *, loop: Any, connection_class: Any, record_class: Any, timeout: float | None, **arguments: Any
) -> Any:
    loop = loop or asyncio.get_running_loop()
    config = DropInConfig(arguments, {"connections_max": 1, **LONG})
    host = DropInHost(loop, config)
    endpoint = config.endpoints[0]
    address = endpoint.path if endpoint.letter == "s" else (endpoint.host, endpoint.port)
    return await _connect_addr(
        addr=address,
        loop=loop,
        params=config.params,
        config=client_configuration(arguments),
        connection_class=connection_class,
        record_class=record_class,
        host=host,
        timeout=timeout,
    )


def client_configuration(arguments: dict[str, Any]) -> _ClientConfiguration:
    timeout = arguments.get("command_timeout")
    if timeout is not None and (isinstance(timeout, bool) or not timeout > 0):
        message = "invalid command_timeout value: expected greater than 0 float, got "
        raise ValueError(f"{message}{timeout!r}")
    return _ClientConfiguration(
        timeout,
        arguments.get("statement_cache_size", 100),
        arguments.get("max_cached_statement_lifetime", 300),
        arguments.get("max_cacheable_statement_size", 1024 * 15),
    )


#: asyncpg bounds neither how long one waits for a connection nor how long one lives.
LONG = {"wait_timeout_ms": 2**40, "lifetime_ms": 2**40, "idle_timeout_ms": 2**40}
