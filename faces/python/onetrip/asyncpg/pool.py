"""Pools. What is called on the pool itself shares connections and trips; `acquire` gives one's own.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import warnings
import weakref
from collections.abc import Generator
from typing import Any

from .. import _native
from ..errors import Error
from . import connect_utils, connection, exceptions, protocol

Connection = connection.Connection

#: What is called is looked at: where somebody has put his own in its place, that is called.
_OWN = {
    name: getattr(Connection, name)
    for name in ("execute", "executemany", "fetch", "fetchval", "fetchrow", "fetchmany",
                 "_execute", "_executemany", "_get_statement")
}
_BIND_EXECUTE = protocol.Protocol.bind_execute
_BIND_EXECUTE_MANY = protocol.Protocol.bind_execute_many

logger = connect_utils.pool_logger


def _of_connection(name: str) -> Any:
    """A method of the connection's, as long as that is its caller's."""

    @functools.wraps(getattr(Connection, name))
    def call(self: PoolConnectionProxy, *args: Any, **kwargs: Any) -> Any:
        con = self._con
        if con is None:
            raise exceptions.InterfaceError(
                f"cannot call Connection.{name}(): connection has been released back to the pool"
            )
        return getattr(type(con), name)(con, *args, **kwargs)

    return call


class PoolConnectionProxy(connection._ConnectionProxy):
    """A connection as long as it is its caller's."""

    __slots__ = ("__weakref__", "_con", "_holder", "_is_leaving", "_timeout")

    def __init__(self, holder: PoolConnectionHolder, con: Any) -> None:
        self._con, self._holder, self._is_leaving = con, holder, False
        holder._con = con
        con._set_proxy(self)

    for _name in dir(Connection):
        if not _name.startswith("_") and inspect.isfunction(getattr(Connection, _name)):
            locals()[_name] = _of_connection(_name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._con, name)

    def _detach(self) -> Any:
        con, self._con = self._con, None
        self._holder._con = None
        if con is not None:
            con._set_proxy(None)
        return con

    def __repr__(self) -> str:
        told = "[released]" if self._con is None else repr(self._con)
        return f"<{type(self).__name__} {told} {id(self):#x}>"


class PoolConnectionHolder:
    """Whose a connection is, and until when."""

    __slots__ = ("_con", "_pool", "_timeout")

    def __init__(self, pool: Pool, timeout: float | None) -> None:
        self._pool, self._timeout = pool, timeout
        self._con: Any = None

    @property
    def _in_use(self) -> bool | None:
        return None if self._con is None else True


def _on_a_connection(name: str) -> Any:
    """A method of the connection's, on one of the pool's."""

    @functools.wraps(getattr(Connection, name))
    async def call(self: Pool, *args: Any, **kwargs: Any) -> Any:
        async with self.acquire() as con:
            return await getattr(con, name)(*args, **kwargs)

    return call


class Pool:
    """A pool of connections."""

    def __init__(
        self,
        *connect_args: Any,
        init_size: int | None = None,
        min_size: int,
        max_size: int,
        max_queries: int,
        max_inactive_connection_lifetime: float,
        connect: Any = None,
        setup: Any = None,
        init: Any = None,
        reset: Any = None,
        loop: Any = None,
        connection_class: Any,
        record_class: Any,
        **connect_kwargs: Any,
    ) -> None:
        _check_sizes(init_size, min_size, max_size, max_queries, max_inactive_connection_lifetime)
        for given, of in ((connection_class, Connection), (record_class, protocol.Record)):
            if not issubclass(given, of):
                raise TypeError(
                    f"{'connection' if of is Connection else 'record'}_class is expected to be a "
                    f"subclass of asyncpg.{of.__name__}, got {given!r}"
                )
        if len(connect_args) > 1:
            warnings.warn(
                "Passing multiple positional arguments to asyncpg.Pool constructor is deprecated. "
                "The non-deprecated form is asyncpg.Pool(<dsn>, **kwargs)",
                DeprecationWarning, stacklevel=2,
            )
        self._loop, self._minsize, self._maxsize = loop, min_size, max_size
        self._initsize = min_size if init_size is None else init_size
        self._max_queries, self._max_inactive = max_queries, max_inactive_connection_lifetime
        self._connect, self._setup, self._init, self._reset = connect, setup, init, reset
        self._connection_class, self._record_class = connection_class, record_class
        self._connect_args, self._connect_kwargs = connect_args, connect_kwargs
        self._host: connect_utils.DropInHost | None = None
        self._shared: Any = None
        self._acquired: dict[int, PoolConnectionProxy] = {}
        self._expired: set[int] = set()
        self._initialized = self._initializing = self._closing = self._closed = False
        self._resets_itself = (
            reset is not None
            or connection_class.reset is not Connection.reset
            or connection_class.get_reset_query is not Connection.get_reset_query
        )

    # --- its beginning ---

    async def _async__init__(self) -> Pool:
        if self._initialized:
            return self
        if self._initializing:
            raise exceptions.InterfaceError("pool is being initialized in another task")
        if self._closed:
            raise exceptions.InterfaceError("pool is closed")
        self._initializing = True
        try:
            await self._initialize()
            self._initialized = True
        finally:
            self._initializing = False
        return self

    def set_connect_args(self, dsn: str | None = None, **connect_kwargs: Any) -> None:
        """How connections are opened from now on."""
        self._connect_args, self._connect_kwargs = (dsn,), connect_kwargs
        if self._host is not None:
            self._host.config = self._config()

    def _config(self) -> connect_utils.DropInConfig:
        bound = inspect.signature(connection.connect).bind(
            *self._connect_args[:1], **self._connect_kwargs
        )
        bound.apply_defaults()
        arguments = bound.arguments
        for name in ("loop", "connection_class", "record_class"):
            arguments.pop(name)
        self._timeout: float | None = arguments.pop("timeout")
        inactive = int(self._max_inactive * 1000) or 2**40
        sizes = {"connections_max": self._maxsize, "connections_min": self._minsize}
        sizes.update(connect_utils.LONG, idle_timeout_ms=inactive, waiting_max=2**31 - 1)
        return connect_utils.DropInConfig(arguments, self._timeout, sizes)

    def _call_connect(self) -> Any:
        return self._connect(
            *(self._connect_args or (None,)),
            loop=self._loop,
            connection_class=self._connection_class,
            record_class=self._record_class,
            **self._connect_kwargs,
        )

    async def _initialize(self) -> None:
        self._loop = self._loop or asyncio.get_running_loop()
        # What the caller's own way to connect is given may be no argument of ours.
        kwargs = self._connect_kwargs
        if self._connect is not None:
            self._connect_kwargs = {}
        config = self._config()
        self._connect_kwargs = kwargs
        self._host = host = connect_utils.DropInHost(
            self._loop, config, self._connection_class, self._record_class
        )
        host.is_pool, host.init = True, self._init
        if self._connect is not None:
            # The host is no reason to keep a pool that its program has dropped.
            pool = weakref.proxy(self)
            host.connect = lambda: pool._call_connect()
        host.close_with(self)
        self._shared = _native.Scope(host.core)
        host.core.begin_pool()
        if not self._initsize:
            return
        calls = [host.core.checkout() for _ in range(self._initsize)]
        try:
            for number in await protocol.within(asyncio.gather(*calls), self._timeout):
                host.core.release(number)
        except BaseException as error:
            self._host = None
            await host.abandon()
            if isinstance(error, Error):
                raise host.not_connected(error)
            raise

    def _core(self) -> _native.Core:
        """The native part of a pool that is open."""
        if self._host is None or not self._initialized:
            if self._initializing:
                raise exceptions.InterfaceError(
                    "pool is being initialized, but not yet ready: likely there is a race between "
                    "creating a pool and using it"
                )
            raise exceptions.InterfaceError("pool is not initialized")
        if self._closed:
            raise exceptions.InterfaceError("pool is closed")
        return self._host.core

    def _check_init(self) -> _native.Core:
        if self._closing:
            raise exceptions.InterfaceError("pool is closing")
        return self._core()

    # --- what shares connections ---

    def _is_shared(self, name: str, query: str) -> bool:
        """Whether a call goes on a connection that others use as well, which asks that nobody has a
        say in how it is done.
        """
        cls = self._connection_class
        inner = "_executemany" if name in ("executemany", "fetchmany") else "_execute"
        return (
            self._setup is None
            and getattr(cls, name) is _OWN[name]
            and getattr(cls, inner) is _OWN[inner]
            and cls._get_statement is _OWN["_get_statement"]
            and protocol.Protocol.bind_execute is _BIND_EXECUTE
            and protocol.Protocol.bind_execute_many is _BIND_EXECUTE_MANY
            and not self._check_init().needs_own(query)
        )

    async def _run(self, timeout: Any, query: str, args: Any, call: Any) -> Any:
        assert self._host is not None
        if timeout is None:
            timeout = self._host.config.client.command_timeout
        try:
            return await (call if timeout is None else protocol.within(call, timeout))
        except Error as error:
            raise self._host.refused_as(error, query, args)

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        self._check_init()
        if self._is_shared("execute", query):
            call = self._shared._run("tag", query, args)
            return await self._run(timeout, query, args, call)
        async with self.acquire() as con:
            return await con.execute(query, *args, timeout=timeout)

    async def executemany(self, command: str, args: Any, *, timeout: float | None = None) -> None:
        self._check_init()
        sets = protocol.arguments_of(args)
        if self._is_shared("executemany", command):
            call = self._shared._run_many(command, sets)
            await self._run(timeout, command, sets, call)
            return
        async with self.acquire() as con:
            await con.executemany(command, sets, timeout=timeout)

    async def fetch(
        self, query: str, *args: Any, timeout: float | None = None, record_class: Any = None
    ) -> list[Any]:
        self._check_init()
        if self._is_shared("fetch", query):
            call = self._shared._run("rows", query, args, record_class or self._record_class)
            return await self._run(timeout, query, args, call)
        async with self.acquire() as con:
            return await con.fetch(query, *args, timeout=timeout, record_class=record_class)

    async def fetchval(
        self, query: str, *args: Any, column: int = 0, timeout: float | None = None
    ) -> Any:
        self._check_init()
        if self._is_shared("fetchval", query):
            call = self._shared._run("row", query, args)
            row = await self._run(timeout, query, args, call)
            return None if row is None else row[column]
        async with self.acquire() as con:
            return await con.fetchval(query, *args, column=column, timeout=timeout)

    async def fetchrow(
        self, query: str, *args: Any, timeout: float | None = None, record_class: Any = None
    ) -> Any:
        self._check_init()
        if self._is_shared("fetchrow", query):
            call = self._shared._run("row", query, args, record_class or self._record_class)
            return await self._run(timeout, query, args, call)
        async with self.acquire() as con:
            return await con.fetchrow(query, *args, timeout=timeout, record_class=record_class)

    async def fetchmany(
        self, query: str, args: Any, *, timeout: float | None = None, record_class: Any = None
    ) -> list[Any]:
        self._check_init()
        sets = protocol.arguments_of(args)
        if self._is_shared("fetchmany", query):
            call = self._shared._run_many(query, sets, record_class or self._record_class)
            return await self._run(timeout, query, sets, call)
        async with self.acquire() as con:
            return await con.fetchmany(query, sets, timeout=timeout, record_class=record_class)

    for _name in ("copy_from_table", "copy_from_query", "copy_to_table", "copy_records_to_table"):
        locals()[_name] = _on_a_connection(_name)

    # --- connections of one's own ---

    def acquire(self, *, timeout: float | None = None) -> PoolAcquireContext:
        return PoolAcquireContext(self, timeout)

    async def _acquire(self, timeout: float | None) -> PoolConnectionProxy:
        core = self._check_init()
        assert self._host is not None
        try:
            while True:
                call = core.checkout()
                number = await (call if timeout is None else protocol.within(call, timeout))
                if self._host.has(number):
                    break
                core.release(number)
        except Error as error:
            raise self._host.not_connected(error)
        con = self._host.of(number)
        proxy = PoolConnectionProxy(PoolConnectionHolder(self, timeout), con)
        if self._setup is not None:
            try:
                await self._setup(proxy)
            except BaseException:
                con.terminate()
                core.release(number)
                raise
        self._acquired[number] = proxy
        return proxy

    async def release(self, connection: Any, *, timeout: float | None = None) -> None:
        """Gives a connection back. Its reset goes with what comes next on it."""
        proxy = connection
        if type(proxy) is not PoolConnectionProxy or proxy._holder._pool is not self:
            raise exceptions.InterfaceError(
                f"Pool.release() received invalid connection: {connection!r} is not a member of "
                "this pool"
            )
        if proxy._con is None or self._closed:
            proxy._detach()
            return
        # The next caller may have it before this one has heard that it was given back.
        if proxy._is_leaving:
            return
        core = self._core()
        proxy._is_leaving = True
        proxy._con._on_release()
        timeout = proxy._holder._timeout if timeout is None else timeout
        await asyncio.shield(self._give_back(core, proxy, timeout))

    async def _give_back(
        self, core: _native.Core, proxy: PoolConnectionProxy, timeout: float | None
    ) -> None:
        con = proxy._con
        number, is_worn = con._protocol.number, con._protocol.queries_count >= self._max_queries
        try:
            if con.is_closed():
                return
            if number in self._expired or is_worn:
                core.retire(number)
            elif self._reset is not None:
                await protocol.within(self._reset_by_caller(con), timeout)
            elif self._resets_itself:
                await con.reset(timeout=timeout)
            elif con.is_in_transaction():
                await con._reset()
        except exceptions.ConnectionDoesNotExistError:
            # It is lost, so there is nothing to give back. What its caller did with it has an
            # outcome of its own, which that of a reset must not cover.
            con.terminate()
        except BaseException:
            con.terminate()
            raise
        finally:
            con._forget()
            proxy._detach()
            self._acquired.pop(number, None)
            self._expired.discard(number)
            if self._resets_itself and not con.is_closed():
                core.vouch(number)
            core.release(number)

    async def _reset_by_caller(self, con: Any) -> None:
        await con._reset()
        await self._reset(con)

    # --- what it is ---

    def is_closing(self) -> bool:
        return self._closed or self._closing

    def get_size(self) -> int:
        return 0 if self._host is None else self._host.core.counts()[0]

    def get_idle_size(self) -> int:
        return 0 if self._host is None else self._host.core.counts()[1]

    def get_init_size(self) -> int:
        return self._initsize

    def get_min_size(self) -> int:
        return self._minsize

    def get_max_size(self) -> int:
        return self._maxsize

    async def expire_connections(self) -> None:
        """Has all replaced that are open now, or about to be."""
        core = self._core()
        assert self._host is not None
        for number in [*self._host._transports, *self._host._openings]:
            if number in self._acquired:
                self._expired.add(number)
            else:
                core.retire(number)

    # --- its end ---

    async def close(self) -> None:
        """Waits until all was given back and answered."""
        if self._closed:
            return
        self._check_init()
        assert self._host is not None
        self._closing = True
        warning = self._loop.call_later(60, self._warn_on_long_close)
        try:
            await self._host.close(None)
        except BaseException:
            self.terminate()
            raise
        finally:
            warning.cancel()
            self._closed, self._closing = True, False

    def _warn_on_long_close(self) -> None:
        logger.warning(
            "Pool.close() is taking over 60 seconds to complete. Check if you have any unreleased "
            "connections left. Use asyncio.wait_for() to set a timeout for Pool.close()."
        )

    def terminate(self) -> None:
        """Ends all at once."""
        if self._closed:
            return
        core = self._core()
        assert self._host is not None
        self._closed = True
        core.close_pool()
        core.cut_pool()
        for number in list(self._host._transports):
            self._host.terminate(number)
        # A function that opens a connection, as that of `connect=`, is not waited for.
        for dial in list(self._host._dials):
            dial.cancel()

    def __await__(self) -> Generator[Any, Any, Pool]:
        return self._async__init__().__await__()

    async def __aenter__(self) -> Pool:
        return await self._async__init__()

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class PoolAcquireContext:
    """A connection for a block, or to be awaited."""

    __slots__ = ("connection", "done", "pool", "timeout")

    def __init__(self, pool: Pool, timeout: float | None) -> None:
        self.pool, self.timeout = pool, timeout
        self.connection: PoolConnectionProxy | None = None
        self.done = False

    async def __aenter__(self) -> Any:
        if self.connection is not None or self.done:
            raise exceptions.InterfaceError("a connection is already acquired")
        self.connection = await self.pool._acquire(self.timeout)
        return self.connection

    async def __aexit__(self, *_: object) -> None:
        self.done = True
        con, self.connection = self.connection, None
        await self.pool.release(con)

    def __await__(self) -> Generator[Any, Any, Any]:
        self.done = True
        return self.pool._acquire(self.timeout).__await__()


def _check_sizes(
    init_size: int | None, min_size: int, max_size: int, max_queries: int, inactive: float
) -> None:
    wrong = (
        (max_size <= 0, "max_size is expected to be greater than zero"),
        (min_size < 0, "min_size is expected to be greater or equal to zero"),
        (min_size > max_size, "min_size is greater than max_size"),
        (init_size is not None and init_size < 0,
         "init_size is expected to be greater or equal to zero"),
        (init_size is not None and init_size > max_size, "init_size is greater than max_size"),
        (init_size is not None and init_size < min_size, "init_size is smaller than min_size"),
        (max_queries <= 0, "max_queries is expected to be greater than zero"),
        (inactive < 0,
         "max_inactive_connection_lifetime is expected to be greater or equal to zero"),
    )
    for is_wrong, message in wrong:
        if is_wrong:
            raise ValueError(message)


def create_pool(
    dsn: str | None = None,
    *,
    init_size: int | None = None,
    min_size: int = 10,
    max_size: int = 10,
    max_queries: int = 50000,
    max_inactive_connection_lifetime: float = 300.0,
    connect: Any = None,
    setup: Any = None,
    init: Any = None,
    reset: Any = None,
    loop: Any = None,
    connection_class: Any = Connection,
    record_class: Any = protocol.Record,
    **connect_kwargs: Any,
) -> Pool:
    """A pool, to be awaited or entered."""
    return Pool(
        dsn,
        init_size=init_size,
        min_size=min_size,
        max_size=max_size,
        max_queries=max_queries,
        max_inactive_connection_lifetime=max_inactive_connection_lifetime,
        connect=connect,
        setup=setup,
        init=init,
        reset=reset,
        loop=loop,
        connection_class=connection_class,
        record_class=record_class,
        **connect_kwargs,
    )
