# mypy: disable-error-code="misc, no-redef, no-untyped-call, no-any-return"
"""In place of ``redis.asyncio``: the same classes, whose commands pipeline by themselves.

It is derived from redis-py, which has to be installed: methods, conversions and exceptions are its
own. Commands and pipelines without WATCH go over the client of this package. What needs a
connection of its own (WATCH, subscriptions, MONITOR, SELECT) goes over one of redis-py's pool.
"""

from __future__ import annotations

import asyncio as _asyncio
import socket as _socket
from collections import deque as _deque
from copy import copy as _copy
from typing import Any
from urllib.parse import quote as _quote
from weakref import WeakKeyDictionary

try:
    import redis as _redis
    import redis.asyncio as _original
    from redis._parsers.base import BaseParser
    import redis.asyncio.sentinel as _sentinel
    from redis.asyncio import *  # noqa: F403
    from redis.client import EMPTY_RESPONSE, NEVER_DECODE
except ImportError as error:
    raise ImportError("onetrip.redis.asyncio is derived from redis-py: install redis") from error

from .. import errors as _errors
from ._client import Client as _Client
from ._client import Listing, _Parts, _spec_of
from ._config import Config as _Config
from ._config import milliseconds

__all__ = list(_original.__all__)

#: What ``socket_timeout`` does not limit, since it may wait for long.
_WAITING = frozenset(
    "BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP XREAD XREADGROUP".split()
)

#: Settings of connections that only redis-py carries out: then all goes over its own.
_FOREIGN = (
    "redis_connect_func ssl_ca_data ssl_ca_path ssl_ciphers ssl_password "
    "ssl_validate_ocsp ssl_validate_ocsp_stapled"
).split()

#: What only makes sense on the connection that it changes or asks about.
_OF_CONNECTION = frozenset(
    "AUTH DISCARD EXEC HELLO MULTI READONLY READWRITE RESET SELECT UNWATCH WAIT WATCH".split()
    + ["CLIENT GETNAME", "CLIENT SETNAME", "CLIENT TRACKING"]
)

#: By pool: the loop, the client, and the Sentinels that it asks.
_clients: WeakKeyDictionary[Any, tuple[_asyncio.AbstractEventLoop, _Client[bytes], Any]] = (
    WeakKeyDictionary()
)


def _client_of(pool: Any) -> _Client[bytes] | None:
    """The client of a pool, on the loop that runs; none where only redis-py can connect."""
    loop = _asyncio.get_running_loop()
    known = _clients.get(pool)
    if known is not None and known[0] is loop:
        if known[2] is None or known[2] == _watchers(pool):
            return known[1]
        # It asks others by now.
        loop.create_task(_clients.pop(pool)[1].close())
    given = pool.connection_kwargs
    if not _is_known(pool) or any(given.get(name) for name in _FOREIGN):
        return None
    # redis-py refuses what it does not know, or can't be, when it makes a connection.
    made = pool.connection_class(**given)
    config = _config_of(given, *_sentinels_of(pool))
    _say_as(made, config)
    client = _opened(config)
    _clients[pool] = loop, client, _watchers(pool)
    return client


def _watchers(pool: Any) -> list[Any] | None:
    """The Sentinels that a pool asks."""
    is_watched = isinstance(pool, SentinelConnectionPool)
    return list(pool.sentinel_manager.sentinels) if is_watched else None


def _say_as(made: Any, config: _Config) -> None:
    """What redis-py's connection, as it was made, says of its library and asks of its socket."""
    told = getattr(made, "driver_info", None)
    named = {
        "lib_name": getattr(told, "formatted_name", None) or getattr(made, "lib_name", None),
        "lib_version": getattr(told, "lib_version", None) or getattr(made, "lib_version", None),
    }
    config.library = {name: text for name, text in named.items() if text}
    if getattr(made, "socket_keepalive", False):
        config.socket_options.append((_socket.SOL_SOCKET, _socket.SO_KEEPALIVE, 1))
        options = made.socket_keepalive_options or {}
        config.socket_options += [(_socket.SOL_TCP, name, it) for name, it in options.items()]


def _is_known(pool: Any) -> bool:
    """Whether its connections are made as by redis-py."""
    if isinstance(pool, SentinelConnectionPool):
        return _is_known_sentinel(pool)
    kinds = (_original.Connection, _original.SSLConnection, _original.UnixDomainSocketConnection)
    get = getattr(type(pool), "get_connection", None)
    plain = (_original.ConnectionPool.get_connection, _original.BlockingConnectionPool.get_connection)
    return pool.connection_class in kinds and get in plain


#: What is said of Sentinels' connections that this package carries out.
_OF_SENTINELS = frozenset(["username", "password", "decode_responses", "encoding", "protocol"])


def _is_known_sentinel(pool: SentinelConnectionPool) -> bool:
    manager, given = pool.sentinel_manager, pool.connection_kwargs
    if any(type(it) not in (Redis, _original.Redis) for it in manager.sentinels):
        # They answer in a way of their own.
        return False
    of = manager.sentinel_kwargs
    rest = {name for name in of if not name.startswith(("ssl", "socket_"))} - _OF_SENTINELS
    is_tls = pool.connection_class is _sentinel.SentinelManagedSSLConnection
    # Servers and Sentinels are reached with the same settings of TLS.
    ssl = {name: value for name, value in of.items() if name.startswith("ssl_")}
    same = {name: value for name, value in given.items() if name.startswith("ssl_")} == ssl
    plain = pool.connection_class is _sentinel.SentinelManagedConnection
    if rest or manager.min_other_sentinels or getattr(manager, "_force_master_ip", None):
        return False
    return (is_tls and same and bool(of.get("ssl"))) or (plain and not of.get("ssl"))


def _sentinels_of(pool: Any) -> tuple[str | None, dict[str, Any]]:
    """The URL of a pool's Sentinels, and the settings for them."""
    if not isinstance(pool, SentinelConnectionPool):
        return None, {}
    manager = pool.sentinel_manager
    places = [it.connection_pool.connection_kwargs for it in manager.sentinels]
    hosts = ",".join(f"[{it['host']}]:{it['port']}" for it in places)
    tls = "s" if pool.connection_class is _sentinel.SentinelManagedSSLConnection else ""
    return f"redis{tls}+sentinel://{hosts}/{_quote(pool.service_name, safe='')}", {
        "sentinel_username": manager.sentinel_kwargs.get("username"),
        "sentinel_password": manager.sentinel_kwargs.get("password"),
        "reads": "master" if pool.is_master else "prefer_replica",
    }


def _opened(config: _Config) -> _Client[bytes]:
    parts = _Parts(config)
    return _Client[bytes](parts, parts.how(raw=True))


async def _log_in(pool: Any, client: _Client[bytes], *names: str) -> bytes:
    """AUTH, for all that the pool's commands go over from now on."""
    config = _copy(client._parts.config)
    config.provider, config.password = None, names[-1]
    # An empty password alone would be none, and this command logs in.
    config.user = names[0] if len(names) > 1 else None if names[-1] else "default"
    fresh = _opened(config)
    try:
        await fresh.ping()
    except BaseException:
        await fresh.close(0)
        raise
    _clients[pool] = _asyncio.get_running_loop(), fresh, _watchers(pool)
    await client.close()
    return b"OK"


def _config_of(
    given: dict[str, Any], url: str | None = None, more: dict[str, Any] | None = None
) -> _Config:
    # As the callbacks of this version expect it.
    protocol = given.get("protocol") or (3 if int(_redis.__version__.split(".")[0]) >= 8 else 2)
    settings: dict[str, Any] = {
        "user": given.get("username") or None,
        "password": given.get("password") or None,
        "db": given.get("db") or 0,
        "client_name": given.get("client_name"),
        "protocol": protocol,
        **(more or {}),
    }
    if url is not None:
        pass
    elif given.get("path") is not None:
        settings["path"] = given["path"]
    else:
        settings |= {"host": given.get("host", "localhost"), "port": given.get("port", 6379)}
    if seconds := given.get("socket_connect_timeout"):
        settings["connect_timeout_ms"] = settings["wait_timeout_ms"] = milliseconds(seconds)
    settings["request_timeout_ms"] = milliseconds(given.get("socket_timeout") or 0)
    if any(name.startswith("ssl_") for name in given):
        verifies = given.get("ssl_cert_reqs") not in ("none", None, 0)
        checks = "verify-full" if given.get("ssl_check_hostname", True) else "verify-ca"
        settings["sslmode"] = checks if verifies else "require"
        # As redis-py, which looks at no authority then; and a certificate's file may have its key.
        settings["sslrootcert"] = given.get("ssl_ca_certs") if verifies else None
        settings["sslcert"] = given.get("ssl_certfile")
        settings["sslkey"] = given.get("ssl_keyfile") or given.get("ssl_certfile")
    config = _Config(url, settings)
    if (provider := given.get("credential_provider")) is not None:
        config.provider = provider.get_credentials_async
    return config


def _translated(error: _errors.Error) -> Exception:
    """The same as redis-py raises it."""
    if isinstance(error, _errors.RedisError):
        text = str(error).removeprefix(f"{error.command}: ")
        made = BaseParser.parse_error(text)
    elif isinstance(error, _errors.ParameterError):
        made = _redis.DataError(str(error))
    elif error.code == "watched_key_changed":
        made = _redis.WatchError(str(error))
    elif error.code == "timeout":
        made = _redis.TimeoutError(str(error))
    elif (not_found := _not_found(error)) is not None:
        made = not_found
    elif isinstance(error, (_errors.ConnectionLostError, _errors.TimeoutError)):
        made = _redis.ConnectionError(_why(error))
    else:
        made = _redis.RedisError(str(error))
    made.__cause__ = error
    return made


def _not_found(error: BaseException | None) -> Exception | None:
    """What Sentinels did not find."""
    while error is not None and getattr(error, "code", "") != "sentinel":
        error = error.__cause__
    if error is None:
        return None
    is_master = str(error).startswith("the master")
    kind = _sentinel.MasterNotFoundError if is_master else _sentinel.SlaveNotFoundError
    made: Exception = kind(str(error))
    return made


def _why(error: _errors.Error) -> str:
    """As redis-py words it, where no connection could be made."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    if cause is None or cause.errno is None:
        return str(error)
    place = str(error).rpartition(" can't be reached")[0].rpartition(" ")[2]
    return f"Error {cause.errno} connecting to {place}. {cause.strerror or cause}."


class Redis(_original.Redis):
    """redis-py's client, whose commands share one connection."""

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        pool = self.connection_pool
        client = None if self.single_connection_client or self.connection else _client_of(pool)
        name = args[0]
        if client is None or (name in _OF_CONNECTION and name != "AUTH"):
            return await super().execute_command(*args, **options)
        if name in _WAITING:
            client = client.timeout(0)
        try:
            if name == "AUTH":
                reply = await _log_in(pool, client, *args[1:])
            else:
                reply = await client._send(*_encoded(self.get_encoder(), args))
        except _errors.MisuseError as error:
            if error.code == "wrong_place":
                # It changes its connection: it has one of redis-py's.
                return await super().execute_command(*args, **options)
            raise _translated(error) from error
        except _errors.Error as error:
            if EMPTY_RESPONSE in options and isinstance(error, _errors.RedisError):
                return options[EMPTY_RESPONSE]
            raise _translated(error) from error
        return await _converted(self, reply, name, options)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        if close_connection_pool or (
            close_connection_pool is None and self.auto_close_connection_pool
        ):
            await _close(self.connection_pool)
        await super().aclose(close_connection_pool)


StrictRedis: type[Redis] = Redis


def _encoded(encoder: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    name, *rest = args
    if isinstance(name, bytes):
        name = name.decode()
    return _spec_of(name, "wire"), *(encoder.encode(arg) for arg in rest)


async def _converted(client: Any, reply: Any, name: Any, options: dict[str, Any]) -> Any:
    never = options.pop(NEVER_DECODE, None) is not None
    for option in (EMPTY_RESPONSE, "keys"):
        options.pop(option, None)
    encoder = client.get_encoder()
    if encoder.decode_responses and not never:
        reply = _decoded(encoder, reply)
    callback = client.response_callbacks.get(name)
    if callback is not None:
        reply = callback(reply, **options)
    return await reply if _asyncio.iscoroutine(reply) else reply


def _decoded(encoder: Any, reply: Any) -> Any:
    if isinstance(reply, bytes):
        return encoder.decode(reply)
    if isinstance(reply, (list, set)):
        return type(reply)(_decoded(encoder, item) for item in reply)
    if isinstance(reply, dict):
        return {_decoded(encoder, key): _decoded(encoder, item) for key, item in reply.items()}
    return _translated(reply) if isinstance(reply, _errors.Error) else reply


async def _close(pool: Any) -> None:
    loop, client, _ = _clients.pop(pool, (None, None, None))
    if client is not None and loop is _asyncio.get_running_loop():
        await client.close()


class Pipeline(_original.client.Pipeline):
    """redis-py's pipeline. With WATCH it has a connection of redis-py's."""

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        stack = self.command_stack
        has_own = bool(self.watching or self.connection or self.scripts)
        has_own = has_own or any(args[0] in _OF_CONNECTION for args, _ in stack)
        client = None if has_own or not stack else _client_of(self.connection_pool)
        if client is None:
            return await super().execute(raise_on_error)
        # What is known to be an error, as MGET of nothing, is not sent.
        sent = [number for number, (_, options) in enumerate(stack) if EMPTY_RESPONSE not in options]
        try:
            found = await self._run(client, [stack[number] for number in sent])
        finally:
            await self.reset()
        ends = [options.get(EMPTY_RESPONSE) for _, options in stack]
        for number, end in zip(sent, found):
            ends[number] = end
        made = []
        for number, ((args, options), end) in enumerate(zip(stack, ends)):
            if isinstance(end, _errors.Error):
                end = _translated(end)
                if raise_on_error:
                    self.annotate_exception(end, number + 1, args)
                    raise end
            elif isinstance(end, BaseException):
                raise end
            elif EMPTY_RESPONSE not in options:
                end = await _converted(self, end, args[0], dict(options))
            made.append(end)
        return made

    async def _run(self, client: _Client[bytes], stack: list[Any]) -> list[Any]:
        """What each command is answered by, or its error."""
        encoder = self.get_encoder()
        client, encoded = client.timeout(0), [_encoded(encoder, args) for args, _ in stack]
        if not (self.is_transaction or self.explicit_transaction):
            return await _in_turns(client, encoded)
        listing: Listing[bytes] = client.atomic()
        whole = None
        calls: list[Any] = []
        try:
            async with listing as tx:
                calls.extend(tx._send(*args) for args in encoded)
        except _errors.Error as error:
            whole = error
        except BaseException:
            # It was cancelled: nobody awaits them.
            for call in calls:
                call.close()
            raise
        ends = [await _end_of(call) for call in calls]
        if whole is None:
            return ends
        error = _translated(whole)
        for number, end in enumerate(ends):
            # The others say that they did not run.
            if isinstance(end, _errors.RedisError) and end.code != "EXECABORT":
                self.annotate_exception(error, number + 1, stack[number][0])
                break
        raise error


#: Commands of a pipeline that are under way at most, and their bytes: as many as a connection takes.
_WINDOW, _WINDOW_BYTES = 10_000, 4 << 20


async def _in_turns(client: _Client[bytes], encoded: list[tuple[Any, ...]]) -> list[Any]:
    """What each command is answered by, or its error. All that are under way share a connection, so
    a pipeline of any length waits in no line, where its rest would be late."""
    ends: list[Any] = []
    calls: _deque[Any] = _deque()
    size = 0
    try:
        for args in encoded:
            while calls and (len(calls) >= _WINDOW or size >= _WINDOW_BYTES):
                size -= calls[0].size
                ends.append(await _end_of(calls[0]))
                calls.popleft()
            if ends and _is_over(ends[-1]):
                break
            calls.append(client._send(*args))
            size += calls[-1].size
        while calls:
            ends.append(await _end_of(calls[0]))
            calls.popleft()
    finally:
        # It was cancelled: nobody awaits them.
        for call in calls:
            call.close()
    unsent = len(encoded) - len(ends)
    why = "it was not sent: a command of its pipeline lost the connection"
    return ends + [_errors._make("connection_lost", "NotSent", why, None)] * unsent


async def _end_of(call: Any) -> Any:
    try:
        return await call
    except _errors.Error as error:
        return error


def _is_over(end: Any) -> bool:
    """Whether the connection is lost, or none came: what follows must not go over another one."""
    return isinstance(end, (_errors.ConnectionLostError, _errors.TimeoutError))


class _Pool:
    async def disconnect(self, *args: Any, **options: Any) -> None:
        await _close(self)
        await super().disconnect(*args, **options)


class ConnectionPool(_Pool, _original.ConnectionPool):
    """redis-py's pool, which has a client of this package beside its own connections."""


class BlockingConnectionPool(_Pool, _original.BlockingConnectionPool):
    """The same that waits for a connection."""


class SentinelConnectionPool(_Pool, _sentinel.SentinelConnectionPool):
    """redis-py's pool that asks Sentinels, which has a client of this package beside it."""


class Sentinel(_sentinel.Sentinel):
    """redis-py's Sentinels, whose clients follow the master as those of this package do.

    A client of ``slave_for`` reads from a replica while a connection to one stands, and from the
    master otherwise; what writes goes to the master.
    """

    def master_for(
        self,
        service_name: str,
        redis_class: type[Any] = Redis,
        connection_pool_class: type[Any] = SentinelConnectionPool,
        **kwargs: Any,
    ) -> Any:
        return super().master_for(service_name, redis_class, connection_pool_class, **kwargs)

    def slave_for(
        self,
        service_name: str,
        redis_class: type[Any] = Redis,
        connection_pool_class: type[Any] = SentinelConnectionPool,
        **kwargs: Any,
    ) -> Any:
        return super().slave_for(service_name, redis_class, connection_pool_class, **kwargs)

    def replica_for(
        self,
        service_name: str,
        redis_class: type[Any] = Redis,
        connection_pool_class: type[Any] = SentinelConnectionPool,
        **kwargs: Any,
    ) -> Any:
        return self.slave_for(service_name, redis_class, connection_pool_class, **kwargs)


def from_url(url: str, **kwargs: Any) -> Redis:
    return Redis.from_url(url, **kwargs)
