"""Connections."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ..errors import Error
from . import _codecs, connect_utils, cursor, exceptions, prepared_stmt, protocol, serverversion
from . import transaction as transaction_
from ._errors import translated
from .utils import _quote_ident

#: Statements of one pipeline.
_MANY_MAX = 16_000

_ids = itertools.count(1)

_TYPE_BY_NAME = """\
select t.oid, t.typtype::text as kind, t.typelem as element, t.typcategory::text as category
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
where t.typname = $1 and n.nspname = $2"""


class ConnectionMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        mro = type(instance).__mro__
        return Connection in mro or _ConnectionProxy in mro


class _ConnectionProxy:
    """What a pool gives out stands for a `Connection`."""

    __slots__ = ()


class LoggedQuery(NamedTuple):
    """What loggers of queries are told."""

    query: str
    args: Any
    timeout: float | None
    elapsed: float
    exception: BaseException | None
    conn_addr: Any
    conn_params: Any


class Connection(metaclass=ConnectionMeta):
    """A session with the server."""

    __slots__ = (
        "__weakref__",
        "_addr",
        "_config",
        "_listeners",
        "_log_listeners",
        "_loop",
        "_params",
        "_pool_release_ctr",
        "_protocol",
        "_proxy",
        "_query_loggers",
        "_record_class",
        "_reset_query",
        "_scope",
        "_server_version",
        "_termination_listeners",
        "_top_xact",
        "_transport",
    )

    def __init__(
        self,
        protocol: protocol.Protocol,
        transport: Any,
        loop: asyncio.AbstractEventLoop,
        addr: Any,
        config: connect_utils._ClientConfiguration,
        params: connect_utils._ConnectionParameters,
    ) -> None:
        self._protocol, self._transport, self._loop = protocol, transport, loop
        self._addr, self._config, self._params = addr, config, params
        self._scope = protocol.scope
        self._record_class: Any = None
        self._top_xact: transaction_.Transaction | None = None
        self._pool_release_ctr = 0
        self._proxy: Any = None
        self._reset_query: str | None = None
        self._server_version: Any = None
        self._listeners: dict[str, set[Callable[..., Any]]] = {}
        self._log_listeners: set[Callable[..., Any]] = set()
        self._termination_listeners: set[Callable[..., Any]] = set()
        self._query_loggers: set[Callable[..., Any]] = set()

    # --- statements ---

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        if self._protocol.is_over:
            self._check_open()
        if not args:
            return await self._do("script", query, (), timeout)
        _, status, _ = await self._execute(query, args, 0, timeout, return_status=True)
        return status

    async def executemany(
        self, command: str, args: Any, *, timeout: float | None = None
    ) -> None:
        self._check_open()
        await self._executemany(command, args, timeout)

    async def fetch(
        self, query: str, *args: Any, timeout: float | None = None, record_class: Any = None
    ) -> list[Any]:
        if self._protocol.is_over:
            self._check_open()
        return await self._execute(query, args, 0, timeout, record_class=record_class)

    async def fetchval(
        self, query: str, *args: Any, column: int = 0, timeout: float | None = None
    ) -> Any:
        if self._protocol.is_over:
            self._check_open()
        rows = await self._execute(query, args, 1, timeout)
        return rows[0][column] if rows else None

    async def fetchrow(
        self, query: str, *args: Any, timeout: float | None = None, record_class: Any = None
    ) -> Any:
        if self._protocol.is_over:
            self._check_open()
        rows = await self._execute(query, args, 1, timeout, record_class=record_class)
        return rows[0] if rows else None

    async def fetchmany(
        self, query: str, args: Any, *, timeout: float | None = None, record_class: Any = None
    ) -> list[Any]:
        self._check_open()
        return await self._executemany(
            query, args, timeout, return_rows=True, record_class=record_class
        )

    def _execute(
        self,
        query: str,
        args: Any,
        limit: int,
        timeout: float | None,
        *,
        return_status: bool = False,
        ignore_custom_codec: bool = False,
        record_class: Any = None,
    ) -> Awaitable[Any]:
        # No coroutine of its own: each costs as much as the call below.
        if return_status:
            return self._with_status(query, args, timeout, record_class)
        want = "head" if limit == 1 else "rows"
        return self._do(want, query, args, timeout, record_class)

    async def _with_status(
        self, query: str, args: Any, timeout: float | None, record_class: Any
    ) -> Any:
        rows, status = await self._do("both", query, args, timeout, record_class)
        return rows, status, True

    async def _executemany(
        self,
        query: str,
        args: Any,
        timeout: float | None,
        return_rows: bool = False,
        record_class: Any = None,
    ) -> Any:
        return await self._many(query, args, timeout, record_class, returns=return_rows)

    async def _many(
        self, query: str, args: Any, timeout: float | None, record_class: Any, returns: bool
    ) -> Any:
        sets = arguments_of(args)
        record = (self._record_of(record_class) or protocol.Record) if returns else None
        if len(sets) <= _MANY_MAX:
            return await self._await(
                lambda: self._scope._run_many(query, sets, record), query, (), timeout
            )
        # More than a pipeline holds: all of them take effect, or none, in a transaction.
        rows: list[Any] = []
        outer = contextlib.nullcontext() if self.is_in_transaction() else self.transaction()
        async with outer:
            for at in range(0, len(sets), _MANY_MAX):
                part = sets[at : at + _MANY_MAX]
                some = await self._await(
                    lambda: self._scope._run_many(query, part, record), query, (), timeout
                )
                if returns:
                    rows.extend(some)
        return rows if returns else None

    async def _do(
        self, want: str, query: str, args: Any, timeout: float | None, record_class: Any = None
    ) -> Any:
        protocol = self._protocol
        if protocol.busy and protocol.is_in_transaction():
            raise exceptions.InterfaceError(_BUSY)
        if timeout is None:
            timeout = self._config.command_timeout
        record = record_class if record_class is not None else self._record_class
        if self._query_loggers:
            return await self._await(
                lambda: self._scope._run(want, query, args, record), query, args, timeout
            )
        protocol.busy += 1
        try:
            call = self._scope._run(want, query, args, record)
            return await (call if timeout is None else asyncio.wait_for(call, timeout))
        except Error as error:
            raise translated(error, query, args)
        finally:
            protocol.busy -= 1

    async def _await(
        self, start: Callable[[], Any], query: str, args: Any, timeout: float | None
    ) -> Any:
        """The same for any call, and loggers are told."""
        protocol = self._protocol
        if protocol.busy and protocol.is_in_transaction():
            raise exceptions.InterfaceError(_BUSY)
        if timeout is None:
            timeout = self._config.command_timeout
        protocol.busy += 1
        try:
            with self._time_and_log(query, args, timeout):
                try:
                    call = start()
                    return await (call if timeout is None else asyncio.wait_for(call, timeout))
                except Error as error:
                    raise translated(error, query, args)
        finally:
            protocol.busy -= 1

    def _record_of(self, record_class: Any) -> Any:
        return record_class if record_class is not None else self._record_class

    # --- prepared statements, cursors, transactions ---

    async def prepare(
        self,
        query: str,
        *,
        name: str | None = None,
        timeout: float | None = None,
        record_class: Any = None,
    ) -> prepared_stmt.PreparedStatement:
        self._check_open()
        state = await self._get_statement(query, timeout, name=name, record_class=record_class)
        return prepared_stmt.PreparedStatement(self, query, state)

    async def _get_statement(
        self,
        query: str,
        timeout: float | None,
        *,
        name: str | None = None,
        record_class: Any = None,
        **_: Any,
    ) -> prepared_stmt.PreparedStatementState:
        told = await self._do("attributes", query, (), timeout)
        name = name or self._get_unique_id("stmt")
        record = self._record_of(record_class)
        return prepared_stmt.PreparedStatementState(name, query, record, told)

    def cursor(
        self,
        query: str,
        *args: Any,
        prefetch: int | None = None,
        timeout: float | None = None,
        record_class: Any = None,
    ) -> cursor.CursorFactory:
        self._check_open()
        return cursor.CursorFactory(self, query, None, args, prefetch, timeout, record_class)

    def transaction(
        self, *, isolation: str | None = None, readonly: bool = False, deferrable: bool = False
    ) -> transaction_.Transaction:
        self._check_open()
        return transaction_.Transaction(self, isolation, readonly, deferrable)

    def is_in_transaction(self) -> bool:
        return self._protocol.is_in_transaction()

    def _get_unique_id(self, prefix: str) -> str:
        return f"__onetrip_{prefix}_{next(_ids):x}__"

    # --- types ---

    async def _introspect_type(self, typename: str, schema: str) -> Any:
        found = await self._do("row", _TYPE_BY_NAME, (typename, schema), None, protocol.Record)
        if found is None:
            raise ValueError(f"unknown type: {schema}.{typename}")
        return found

    async def set_type_codec(
        self,
        typename: str,
        *,
        schema: str = "public",
        encoder: Callable[[Any], Any],
        decoder: Callable[[Any], Any],
        format: str = "text",
    ) -> None:
        """For this connection; of a pool's connection: for all of its connections."""
        self._check_open()
        found = await self._introspect_type(typename, schema)
        if found["kind"] == "d":
            raise exceptions.UnsupportedClientFeatureError(
                "custom codecs on domain types are not supported",
                hint="Set the codec on the base type.",
            )
        is_scalar = found["kind"] in ("b", "e") and found["category"] != "A"
        if not is_scalar and found["kind"] != "c":
            raise exceptions.InterfaceError(
                f"cannot use custom codec on type {schema}.{typename}: "
                "it is neither a scalar type nor a composite type"
            )
        if found["kind"] == "c" and format != "tuple":
            raise exceptions.UnsupportedClientFeatureError(
                "only tuple-format codecs can be used on composite types",
                hint="Use `set_type_codec(..., format='tuple')`.",
            )
        if format not in ("text", "binary", "tuple"):
            raise ValueError(f"invalid format: {format!r}: expected text, binary or tuple")
        if schema != "pg_catalog":
            # So that what it is made of is known.
            whole = f"select null::{_quote_ident(schema)}.{_quote_ident(typename)}"
            await self._do("attributes", whole, (), None)
        self._protocol.core.set_codec(found["oid"], format, encoder, decoder)

    async def reset_type_codec(self, typename: str, *, schema: str = "public") -> None:
        self._check_open()
        found = await self._introspect_type(typename, schema)
        self._protocol.core.reset_codec(found["oid"])

    async def set_builtin_type_codec(
        self, typename: str, *, schema: str = "public", codec_name: str, format: str | None = None
    ) -> None:
        if codec_name != "pg_contrib.hstore":
            raise exceptions.UnsupportedClientFeatureError(
                f"{codec_name} is no codec of onetrip: only pg_contrib.hstore is"
            )
        write, read = _codecs.write_hstore, _codecs.read_hstore
        await self.set_type_codec(
            typename, schema=schema, encoder=write, decoder=read, format="binary"
        )

    async def reload_schema_state(self) -> None:
        self._protocol.core.forget_types()
        _codecs.register(self._protocol.core)

    # --- listeners ---

    async def add_listener(self, channel: str, callback: Callable[..., Any]) -> None:
        self._check_open()
        if channel not in self._listeners:
            await self.fetch(f"LISTEN {_quote_ident(channel)}")
            self._listeners[channel] = set()
        self._listeners[channel].add(callback)

    async def remove_listener(self, channel: str, callback: Callable[..., Any]) -> None:
        if self.is_closed() or callback not in self._listeners.get(channel, ()):
            return
        self._listeners[channel].remove(callback)
        if not self._listeners[channel]:
            del self._listeners[channel]
            await self.fetch(f"UNLISTEN {_quote_ident(channel)}")

    def add_log_listener(self, callback: Callable[..., Any]) -> None:
        if self.is_closed():
            raise exceptions.InterfaceError("connection is closed")
        self._log_listeners.add(callback)

    def remove_log_listener(self, callback: Callable[..., Any]) -> None:
        self._log_listeners.discard(callback)

    def add_termination_listener(self, callback: Callable[..., Any]) -> None:
        self._termination_listeners.add(callback)

    def remove_termination_listener(self, callback: Callable[..., Any]) -> None:
        self._termination_listeners.discard(callback)

    def add_query_logger(self, callback: Callable[..., Any]) -> None:
        self._query_loggers.add(callback)

    def remove_query_logger(self, callback: Callable[..., Any]) -> None:
        self._query_loggers.discard(callback)

    @contextlib.contextmanager
    def query_logger(self, callback: Callable[..., Any]) -> Iterator[None]:
        self.add_query_logger(callback)
        try:
            yield
        finally:
            self.remove_query_logger(callback)

    @contextlib.contextmanager
    def _time_and_log(self, query: str, args: Any, timeout: float | None) -> Iterator[None]:
        start, exception = time.monotonic(), None
        try:
            yield
        except BaseException as error:
            exception = error
            raise
        finally:
            told = (query, args, timeout, time.monotonic() - start, exception)
            if self._query_loggers:
                record = LoggedQuery(*told, self._addr, self._params)
                for callback in self._query_loggers:
                    self._call(callback, record)

    def _call(self, callback: Callable[..., Any], *args: Any) -> None:
        if inspect.iscoroutinefunction(callback):
            self._loop.create_task(callback(*args))
        else:
            self._loop.call_soon(callback, *args)

    def _unwrap(self) -> Any:
        return self if self._proxy is None else self._proxy

    def _process_log_message(self, fields: dict[str, str], last_query: str | None) -> None:
        if self._log_listeners:
            message = exceptions.PostgresLogMessage.new(fields, query=last_query)
            for callback in self._log_listeners:
                self._call(callback, self._unwrap(), message)

    def _process_notification(self, pid: int, channel: str, payload: str) -> None:
        for callback in self._listeners.get(channel, ()):
            self._call(callback, self._unwrap(), pid, channel, payload)

    # --- what it is ---

    def get_server_pid(self) -> int:
        return self._protocol.get_server_pid()

    def get_server_version(self) -> Any:
        if self._server_version is None:
            told = self._protocol.get_settings().server_version
            self._server_version = serverversion.split_server_version_string(told)
        return self._server_version

    def get_settings(self) -> Any:
        return self._protocol.get_settings()

    def is_closed(self) -> bool:
        return self._protocol.is_over

    def _check_open(self) -> None:
        if self.is_closed():
            raise exceptions.InterfaceError("connection is closed")

    # --- its end ---

    async def close(self, *, timeout: float | None = None) -> None:
        """Ends it once what was sent is answered."""
        if self.is_closed():
            return
        host, number = self._protocol.host, self._protocol.number
        host.core.close_pool()
        host.core.release(number)
        await host.close(timeout)
        self._ended()

    def terminate(self) -> None:
        """Ends it now."""
        if not self.is_closed():
            self._protocol.host.terminate(self._protocol.number)
            self._ended()

    def _ended(self) -> None:
        self._protocol.is_over = True
        listeners, self._termination_listeners = self._termination_listeners, set()
        self._listeners.clear()
        self._log_listeners.clear()
        for callback in listeners:
            self._call(callback, self._unwrap())

    # --- its reset ---

    def get_reset_query(self) -> str:
        if self._reset_query is None:
            self._reset_query = (
                "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;"
            )
        return self._reset_query

    async def reset(self, *, timeout: float | None = None) -> None:
        self._check_open()
        self._forget()
        if self.is_in_transaction():
            if self._top_xact is None and self._loop.get_debug():
                self._loop.call_exception_handler({
                    "message": "Resetting connection with an active transaction.",
                    "protocol": self._protocol,
                })
            self._top_xact = None
            await self.execute("ROLLBACK;", timeout=timeout)
        query = self.get_reset_query()
        if query:
            await self.execute(query, timeout=timeout)

    def _forget(self) -> None:
        self._listeners.clear()
        self._log_listeners.clear()
        self._top_xact = None

    def _on_release(self, stacklevel: int = 1) -> None:
        self._pool_release_ctr += 1
        both = ((sum(map(len, self._listeners.values())), "notification"),
                (len(self._log_listeners), "log"))
        for count, kind in both:
            if count:
                warnings.warn(exceptions.InterfaceWarning(
                    f"{self!r} is being released to the pool but has {count} active {kind} "
                    f"listener{'s' if count > 1 else ''}"
                ), stacklevel=stacklevel + 1)

    def _set_proxy(self, proxy: Any) -> None:
        self._proxy = None if proxy is None else weakref.proxy(proxy)


_BUSY = "cannot perform operation: another operation is in progress"


def arguments_of(args: Iterable[Any]) -> list[tuple[Any, ...]]:
    """The arguments of each of many statements."""
    sets = []
    for place, one in enumerate(args):
        if not isinstance(one, (list, tuple)):
            raise exceptions.DataError(
                f"invalid input in executemany() argument sequence element #{place}: expected a "
                f"sequence, got {type(one).__name__}"
            )
        sets.append(tuple(one))
    return sets


async def connect(
    dsn: str | None = None,
    *,
    host: Any = None,
    port: Any = None,
    user: str | None = None,
    password: Any = None,
    passfile: Any = None,
    service: str | None = None,
    servicefile: Any = None,
    database: str | None = None,
    loop: Any = None,
    timeout: float | None = 60,
    statement_cache_size: int = 100,
    max_cached_statement_lifetime: float = 300,
    max_cacheable_statement_size: int = 1024 * 15,
    command_timeout: float | None = None,
    ssl: Any = None,
    direct_tls: bool | None = None,
    connection_class: Any = Connection,
    record_class: Any = protocol.Record,
    server_settings: dict[str, str] | None = None,
    target_session_attrs: Any = None,
    krbsrvname: str | None = None,
    gsslib: str | None = None,
) -> Any:
    """Opens a connection."""
    check_classes(connection_class, record_class)
    unsupported(passfile=passfile, service=service, servicefile=servicefile,
                krbsrvname=krbsrvname, gsslib=gsslib)
    return await connect_utils._connect(
        loop=loop,
        timeout=timeout,
        connection_class=connection_class,
        record_class=None if record_class is protocol.Record else record_class,
        dsn=dsn,
        host=host,
        port=port,
        user=user,
        password=password,
        database=database,
        ssl=ssl,
        direct_tls=direct_tls,
        statement_cache_size=statement_cache_size,
        max_cached_statement_lifetime=max_cached_statement_lifetime,
        max_cacheable_statement_size=max_cacheable_statement_size,
        command_timeout=command_timeout,
        server_settings=server_settings,
        target_session_attrs=target_session_attrs,
    )


def check_classes(connection_class: Any, record_class: Any) -> None:
    if not issubclass(connection_class, Connection):
        raise exceptions.InterfaceError(
            "connection_class is expected to be a subclass of asyncpg.Connection, "
            f"got {connection_class!r}"
        )
    if record_class is not protocol.Record and not issubclass(record_class, protocol.Record):
        raise exceptions.InterfaceError(
            f"record_class is expected to be a subclass of asyncpg.Record, got {record_class!r}"
        )


def unsupported(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise exceptions.UnsupportedClientFeatureError(
                f"{name} is not supported: give the connection's parameters themselves"
            )
