# mypy: disable-error-code="misc, no-redef, no-untyped-call, no-any-return"
"""In place of ``redis.asyncio``: the same classes, whose commands pipeline by themselves.

It is derived from redis-py, which has to be installed: methods, conversions and exceptions are its
own. Commands and pipelines without WATCH go over the client of this package. What needs a
connection of its own (WATCH, subscriptions, MONITOR, SELECT) goes over one of redis-py's pool.
"""

from __future__ import annotations

import asyncio as _asyncio
import sys
from typing import Any
from weakref import WeakKeyDictionary

try:
    import redis as _redis
    import redis.asyncio as _original
    from redis._parsers.base import BaseParser
    from redis.asyncio import *  # noqa: F403
    from redis.client import EMPTY_RESPONSE, NEVER_DECODE
except ImportError as error:
    raise ImportError("onetrip.redis.asyncio is derived from redis-py: install redis") from error

from .. import errors as _errors
from ._client import Client as _Client
from ._client import Listing, _Parts, _spec_of
from ._config import Config as _Config

__all__ = list(_original.__all__)

#: What ``socket_timeout`` does not limit, since it may wait for long.
_WAITING = frozenset(
    "BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP XREAD XREADGROUP".split()
)

#: Settings of connections that only redis-py carries out.
_FOREIGN = ("redis_connect_func", "ssl_ca_data", "ssl_ca_path", "ssl_ciphers", "ssl_password")

_clients: WeakKeyDictionary[Any, tuple[_asyncio.AbstractEventLoop, _Client[bytes]]] = (
    WeakKeyDictionary()
)


def _client_of(pool: Any) -> _Client[bytes]:
    """The client of a pool, on the loop that runs."""
    loop = _asyncio.get_running_loop()
    known = _clients.get(pool)
    if known is not None and known[0] is loop:
        return known[1]
    config = _config_of(pool.connection_kwargs)
    client = _Client[bytes](_Parts(config), config.how(raw=True))
    _clients[pool] = loop, client
    return client


def _config_of(given: dict[str, Any]) -> _Config:
    for name in _FOREIGN:
        if given.get(name) is not None:
            raise ValueError(f"onetrip.redis.asyncio does not take {name}: use redis.asyncio")
    user, password = given.get("username"), given.get("password")
    provider = given.get("credential_provider")
    if provider is not None:
        found = provider.get_credentials()
        user, password = found if len(found) == 2 else (None, *found)
    # As the callbacks of this version expect it.
    protocol = given.get("protocol") or (3 if int(_redis.__version__.split(".")[0]) >= 8 else 2)
    settings: dict[str, Any] = {
        "user": user or None,
        "password": password or None,
        "db": given.get("db") or 0,
        "client_name": given.get("client_name"),
        "protocol": protocol,
    }
    if given.get("path") is not None:
        settings["path"] = given["path"]
    else:
        settings |= {"host": given.get("host", "localhost"), "port": given.get("port", 6379)}
    seconds = given.get("socket_connect_timeout")
    if seconds:
        settings["connect_timeout_ms"] = settings["wait_timeout_ms"] = max(1, int(seconds * 1000))
    if any(name.startswith("ssl_") for name in given):
        verifies = given.get("ssl_cert_reqs") not in ("none", None)
        checks = "verify-full" if given.get("ssl_check_hostname", True) else "verify-ca"
        settings["sslmode"] = checks if verifies else "require"
        settings["sslrootcert"] = given.get("ssl_ca_certs")
        settings["sslcert"] = given.get("ssl_certfile")
        settings["sslkey"] = given.get("ssl_keyfile")
    return _Config(None, settings)


def _translated(error: _errors.Error) -> Exception:
    """The same as redis-py raises it."""
    if isinstance(error, _errors.RedisError):
        text = str(error).removeprefix(f"{error.command}: ")
        made = BaseParser.parse_error(text)
    elif isinstance(error, _errors.ParameterError):
        made = _redis.DataError(str(error))
    elif error.code == "watched_key_changed":
        made = _redis.WatchError(str(error))
    elif isinstance(error, (_errors.ConnectionLostError, _errors.TimeoutError)):
        made = _redis.ConnectionError(str(error))
    else:
        made = _redis.RedisError(str(error))
    made.__cause__ = error
    return made


class Redis(_original.Redis):
    """redis-py's client, whose commands share one connection."""

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        if self.single_connection_client or self.connection:
            return await super().execute_command(*args, **options)
        call = _client_of(self.connection_pool)._send(*_encoded(self.get_encoder(), args))
        try:
            reply = await _in_time(call, self.connection_pool, args[0])
        except _errors.MisuseError as error:
            if error.code == "wrong_place":
                # It changes its connection: it has one of redis-py's.
                return await super().execute_command(*args, **options)
            raise _translated(error) from error
        except _errors.Error as error:
            if EMPTY_RESPONSE in options and isinstance(error, _errors.RedisError):
                return options[EMPTY_RESPONSE]
            raise _translated(error) from error
        return await _converted(self, reply, args[0], options)

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


async def _in_time(call: Any, pool: Any, name: Any) -> Any:
    seconds = pool.connection_kwargs.get("socket_timeout")
    if seconds is None or str(name).upper() in _WAITING:
        return await call
    try:
        if sys.version_info >= (3, 11):
            async with _asyncio.timeout(seconds):
                return await call
        return await _asyncio.wait_for(call, seconds)
    except (_asyncio.TimeoutError, TimeoutError) as error:
        raise _redis.TimeoutError(f"{name} was not answered within {seconds} s") from error


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
    loop, client = _clients.pop(pool, (None, None))
    if client is not None and loop is _asyncio.get_running_loop():
        await client.close()


class Pipeline(_original.client.Pipeline):
    """redis-py's pipeline. With WATCH it has a connection of redis-py's."""

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        stack = self.command_stack
        if not stack or self.watching or self.connection or self.scripts:
            return await super().execute(raise_on_error)
        try:
            ends = await self._run(stack)
        finally:
            await self.reset()
        made = []
        for number, ((args, options), end) in enumerate(zip(stack, ends)):
            if isinstance(end, _errors.Error):
                end = _translated(end)
                if raise_on_error:
                    self.annotate_exception(end, number + 1, args)
                    raise end
            elif isinstance(end, BaseException):
                raise end
            else:
                end = await _converted(self, end, args[0], dict(options))
            made.append(end)
        return made

    async def _run(self, stack: list[Any]) -> list[Any]:
        """What each command is answered by, or its error."""
        client, encoder = _client_of(self.connection_pool), self.get_encoder()
        encoded = [_encoded(encoder, args) for args, _ in stack]
        if not (self.is_transaction or self.explicit_transaction):
            calls = [client._send(*args) for args in encoded]
            return await _asyncio.gather(*calls, return_exceptions=True)
        listing: Listing[bytes] = client.atomic()
        whole = None
        try:
            async with listing as tx:
                calls = [tx._send(*args) for args in encoded]
        except _errors.Error as error:
            whole = error
        ends = await _asyncio.gather(*calls, return_exceptions=True)
        if whole is not None:
            raise _translated(whole) from whole
        return ends


class ConnectionPool(_original.ConnectionPool):
    """redis-py's pool, which has a client of this package beside its own connections."""

    async def disconnect(self, *args: Any, **options: Any) -> None:
        await _close(self)
        await super().disconnect(*args, **options)


class BlockingConnectionPool(_original.BlockingConnectionPool):
    """The same that waits for a connection."""

    async def disconnect(self, *args: Any, **options: Any) -> None:
        await _close(self)
        await super().disconnect(*args, **options)


def from_url(url: str, **kwargs: Any) -> Redis:
    return Redis.from_url(url, **kwargs)
