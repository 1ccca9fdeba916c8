"""Pools. What is called on the pool itself shares connections and trips; `acquire` gives one's own.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from .. import _native
from ..errors import Error
from . import connect_utils, connection, exceptions, protocol
from ._errors import translated

Connection = connection.Connection

#: What is called is looked at: where somebody has put his own in its place, that is called.
_OWN = {
    name: getattr(Connection, name)
    for name in ("execute", "executemany", "fetch", "fetchval", "fetchrow", "fetchmany",
                 "_execute", "_executemany")
}


class PoolConnectionProxy(connection._ConnectionProxy):
    """A connection as long as it is its caller's."""

    __slots__ = ("__weakref__", "_con", "_holder", "_timeout")

    def __init__(self, pool: Pool, con: Any, timeout: float | None) -> None:
        self._con, self._timeout = con, timeout
        self._holder = _Holder(pool)
        con._set_proxy(self)

    def __getattr__(self, name: str) -> Any:
        con = self._con
        if con is None:
            raise exceptions.InterfaceError(
                f"cannot call Connection.{name}(): connection has been released back to the pool"
            )
        return getattr(con, name)

    def _detach(self) -> Any:
        con, self._con = self._con, None
        if con is not None:
            con._set_proxy(None)
        return con

    def __repr__(self) -> str:
        told = "[released]" if self._con is None else repr(self._con)
        return f"<{type(self).__name__} {told} {id(self):#x}>"


class _Holder:
    """Whose a connection is."""

    __slots__ = ("_pool",)

    def __init__(self, pool: Pool) -> None:
        self._pool = pool


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
            if given is not of and not issubclass(given, of):
                raise TypeError(f"{given!r} is expected to be a subclass of {of!r}")
        connection.unsupported(connect=connect)
        self._loop, self._minsize, self._maxsize = loop, min_size, max_size
        self._initsize = min_size if init_size is None else init_size
        self._max_inactive = max_inactive_connection_lifetime
        self._setup, self._init, self._reset = setup, init, reset
        self._connection_class = connection_class
        self._record_class = None if record_class is protocol.Record else record_class
        self._connect_kwargs = dict(connect_kwargs, **dict(zip(("dsn",), connect_args)))
        self._command_timeout = connect_kwargs.get("command_timeout")
        self._host: Any = None
        self._shared: Any = None
        self._acquired: dict[int, PoolConnectionProxy] = {}
        self._expired: set[int] = set()
        self._initializing = self._closing = self._closed = False
        self._resets_itself = (
            reset is not None
            or connection_class.reset is not Connection.reset
            or connection_class.get_reset_query is not Connection.get_reset_query
        )

    # --- its beginning ---

    async def _async__init__(self) -> Pool:
        if self._host is not None and not self._initializing:
            return self
        if self._initializing:
            raise exceptions.InterfaceError("pool is being initialized in another task")
        if self._closed:
            raise exceptions.InterfaceError("pool is closed")
        self._initializing = True
        try:
            await self._initialize()
        finally:
            self._initializing = False
        return self

    def _open(self) -> None:
        self._loop = self._loop or asyncio.get_running_loop()
        inactive = int(self._max_inactive * 1000) or 2**40
        sizes = {"connections_max": self._maxsize, "connections_min": self._minsize}
        sizes.update(connect_utils.LONG, idle_timeout_ms=inactive, waiting_max=2**31 - 1)
        arguments = self._connect_kwargs
        config = connect_utils.DropInConfig(arguments, sizes)
        host = connect_utils.DropInHost(self._loop, config)
        client = connect_utils.client_configuration(arguments)
        host.make = connect_utils.connection_maker(
            host, config.params, client, self._connection_class, self._record_class
        )
        if self._init is not None:
            host.init = _initializer(weakref.ref(self), self._init)
        self._host, self._shared = host, _native.Scope(host.core)
        host.close_with(self)

    async def _initialize(self) -> None:
        self._open()
        self._host.core.begin_pool()
        if not self._initsize:
            return
        timeout = self._connect_kwargs.get("timeout", 60)
        calls = [self._host.core.checkout() for _ in range(self._initsize)]
        try:
            for number in await asyncio.wait_for(asyncio.gather(*calls), timeout):
                self._host.core.release(number)
        except BaseException as error:
            self._closed = True
            await self._host.close(0)
            if isinstance(error, Error):
                raise translated(error) from error.__cause__
            raise

    def _check_init(self) -> None:
        if self._closed:
            raise exceptions.InterfaceError("pool is closed")
        if self._host is None:
            raise exceptions.InterfaceError("pool is not initialized")
        if self._initializing:
            raise exceptions.InterfaceError("pool is being initialized, but not yet ready")
        if self._closing:
            raise exceptions.InterfaceError("pool is closing")

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
            and not self._host.core.needs_own(query)
        )

    async def _await(self, call: Any, query: str, args: Any, timeout: float | None) -> Any:
        if timeout is None:
            timeout = self._command_timeout
        try:
            return await (call if timeout is None else asyncio.wait_for(call, timeout))
        except Error as error:
            raise translated(error, query, args)

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        self._check_init()
        if self._is_shared("execute", query):
            call = self._shared._run("tag", query, args)
            return await self._await(call, query, args, timeout)
        async with self.acquire() as con:
            return await con.execute(query, *args, timeout=timeout)

    async def executemany(self, command: str, args: Any, *, timeout: float | None = None) -> None:
        self._check_init()
        sets = connection.arguments_of(args)
        if len(sets) <= connection._MANY_MAX and self._is_shared("executemany", command):
            await self._await(self._shared._run_many(command, sets), command, (), timeout)
            return
        async with self.acquire() as con:
            await con.executemany(command, sets, timeout=timeout)

    async def fetch(
        self, query: str, *args: Any, timeout: float | None = None, record_class: Any = None
    ) -> list[Any]:
        self._check_init()
        if self._is_shared("fetch", query):
            call = self._shared._run("rows", query, args, record_class or self._record_class)
            return await self._await(call, query, args, timeout)
        async with self.acquire() as con:
            return await con.fetch(query, *args, timeout=timeout, record_class=record_class)

    async def fetchval(
        self, query: str, *args: Any, column: int = 0, timeout: float | None = None
    ) -> Any:
        self._check_init()
        if self._is_shared("fetchval", query):
            row = await self._await(self._shared._run("row", query, args), query, args, timeout)
            return None if row is None else row[column]
        async with self.acquire() as con:
            return await con.fetchval(query, *args, column=column, timeout=timeout)

    async def fetchrow(
        self, query: str, *args: Any, timeout: float | None = None, record_class: Any = None
    ) -> Any:
        self._check_init()
        if self._is_shared("fetchrow", query):
            call = self._shared._run("row", query, args, record_class or self._record_class)
            return await self._await(call, query, args, timeout)
        async with self.acquire() as con:
            return await con.fetchrow(query, *args, timeout=timeout, record_class=record_class)

    async def fetchmany(
        self, query: str, args: Any, *, timeout: float | None = None, record_class: Any = None
    ) -> list[Any]:
        self._check_init()
        sets = connection.arguments_of(args)
        if len(sets) <= connection._MANY_MAX and self._is_shared("fetchmany", query):
            record = record_class or self._record_class or protocol.Record
            call = self._shared._run_many(query, sets, record)
            return await self._await(call, query, (), timeout)
        async with self.acquire() as con:
            return await con.fetchmany(query, sets, timeout=timeout, record_class=record_class)

    # --- connections of one's own ---

    def acquire(self, *, timeout: float | None = None) -> PoolAcquireContext:
        return PoolAcquireContext(self, timeout)

    async def _acquire(self, timeout: float | None) -> PoolConnectionProxy:
        self._check_init()
        core = self._host.core
        try:
            call = core.checkout()
            number = await (call if timeout is None else asyncio.wait_for(call, timeout))
        except Error as error:
            raise translated(error) from error.__cause__
        proxy = PoolConnectionProxy(self, self._host.of(number), timeout)
        if self._setup is not None:
            try:
                await self._setup(proxy)
            except BaseException:
                con = proxy._detach()
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
        if proxy._con is None:
            return
        proxy._con._on_release()
        timeout = proxy._timeout if timeout is None else timeout
        await asyncio.shield(self._give_back(proxy, timeout))

    async def _give_back(self, proxy: PoolConnectionProxy, timeout: float | None) -> None:
        con = proxy._con
        number = con._protocol.number
        try:
            if con.is_closed():
                return
            if self._resets_itself:
                if self._reset is not None:
                    await self._reset(proxy)
                await con.reset(timeout=timeout)
            elif con.is_in_transaction():
                await con.execute("ROLLBACK;", timeout=timeout)
        except BaseException:
            con.terminate()
            raise
        finally:
            con._forget()
            proxy._detach()
            self._acquired.pop(number, None)
            if number in self._expired:
                self._expired.discard(number)
                self._host.core.retire(number)
            self._host.core.release(number)

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
        """Has all that are open now replaced."""
        self._check_init()
        for number in list(self._host._transports):
            if number in self._acquired:
                self._expired.add(number)
            else:
                self._host.core.retire(number)

    # --- its end ---

    async def close(self) -> None:
        """Waits until all was given back and answered."""
        if self._closed:
            return
        self._check_init()
        self._closing = True
        try:
            await self._host.close(None)
        except BaseException:
            self.terminate()
            raise
        finally:
            self._closed, self._closing = True, False

    def terminate(self) -> None:
        """Ends all at once."""
        if self._closed:
            return
        self._check_init()
        self._closed = True
        self._host.core.close_pool()
        self._host.core.cut_pool()
        for number in list(self._host._transports):
            self._host.terminate(number)

    def __await__(self) -> Generator[Any, Any, Pool]:
        return self._async__init__().__await__()

    async def __aenter__(self) -> Pool:
        return await self._async__init__()

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _initializer(
    pool: weakref.ref[Pool], init: Callable[[Any], Awaitable[None]]
) -> Callable[[Any], Awaitable[None]]:
    """Runs `init` on a connection, as long as there is its pool."""

    async def run(con: Any) -> None:
        if (of := pool()) is not None:
            proxy = PoolConnectionProxy(of, con, None)
            try:
                await init(proxy)
            finally:
                proxy._detach()

    return run


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
