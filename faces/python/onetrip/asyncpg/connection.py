"""Connections."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from .. import _native
from . import _codecs, connect_utils, cursor, exceptions, prepared_stmt, protocol, serverversion
from . import transaction as transaction_
from ._arguments import _ClientConfiguration, _ConnectionParameters
from ._copying import Copies
from .protocol import PreparedStatementState, Protocol
from .utils import _quote_ident, _quote_literal

_ids = itertools.count(1)

#: As it is: where somebody has put his own in its place, that is called.
_BIND_EXECUTE = Protocol.bind_execute

#: Whatever a user has set codecs for: what stands in a row of no declared type is read by none.
_TYPE_BY_NAME = """\
select row(t.oid, t.typtype::text, t.typcategory::text) as it
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
where t.typname = {} and n.nspname = {}"""


#: What SQL calls types that have other names in the catalog.
_SQL_NAMES = {
    "smallint": "int2",
    "int": "int4",
    "integer": "int4",
    "bigint": "int8",
    "decimal": "numeric",
    "real": "float4",
    "double precision": "float8",
    "boolean": "bool",
    "timestamp with timezone": "timestamptz",
    "timestamp without timezone": "timestamp",
    "time with timezone": "timetz",
    "time without timezone": "time",
    "character": "bpchar",
    "character varying": "varchar",
    "bit varying": "varbit",
}


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


class Connection(Copies, metaclass=ConnectionMeta):
    """A session with the server."""

    __slots__ = (
        "__weakref__",
        "_addr",
        "_config",
        "_idle_names",
        "_inner_xact",
        "_listeners",
        "_log_listeners",
        "_loop",
        "_params",
        "_pool_release_ctr",
        "_protocol",
        "_proxy",
        "_query_loggers",
        "_reset_query",
        "_server_version",
        "_termination_listeners",
        "_why_lost",
        "_top_xact",
        "_transport",
    )

    def __init__(
        self,
        protocol: protocol.Protocol,
        transport: Any,
        loop: asyncio.AbstractEventLoop,
        addr: Any,
        config: _ClientConfiguration,
        params: _ConnectionParameters,
    ) -> None:
        self._protocol, self._transport, self._loop = protocol, transport, loop
        self._addr, self._config, self._params = addr, config, params
        #: The transaction that is open, and the innermost of what was opened in it.
        self._top_xact: transaction_.Transaction | None = None
        self._inner_xact: transaction_.Transaction | None = None
        #: Those of statements that the server keeps and nobody has any more.
        self._idle_names: list[str] = []
        self._pool_release_ctr = 0
        self._proxy: Any = None
        self._reset_query: str | None = None
        self._server_version: Any = None
        self._listeners: dict[str, set[Callable[..., Any]]] = {}
        self._log_listeners: set[Callable[..., Any]] = set()
        self._termination_listeners: set[Callable[..., Any]] = set()
        self._why_lost: str | None = None
        self._query_loggers: set[Callable[..., Any]] = set()

    # --- statements ---

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """Execute an SQL command, or several without arguments; returns the last one's status."""
        if self._protocol.is_over:
            self._check_open()
        if args:
            _, status, _ = await self._execute(query, args, 0, timeout, return_status=True)
            return status.decode()
        if self._query_loggers:
            with self._time_and_log(query, args, timeout):
                return await self._protocol.query(query, timeout)
        return await self._protocol.query(query, timeout)

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
        it = self._protocol
        if record_class is None:
            record_class = it.record_class
        else:
            _check_record_class(record_class)
        if type(self)._get_statement is not _GET_STATEMENT:
            call = self._execute_prepared
            return self._logged(query, args, timeout, call, query, args, limit, return_status,
                                record_class=record_class)
        if self._query_loggers or Protocol.bind_execute is not _BIND_EXECUTE:
            state = PreparedStatementState("", query, record_class)
            return self._logged(
                query, args, timeout, it.bind_execute, state, args, "", limit, return_status
            )
        want = "both" if return_status else "head" if limit == 1 else "rows"
        call = it.run(timeout, query, args, it.scope._run, want, query, args, record_class)
        return _with_status(call) if return_status else call

    async def _execute_prepared(
        self,
        query: str,
        args: Any,
        limit: int,
        return_status: bool,
        timeout: float | None,
        record_class: Any,
    ) -> Any:
        """By a statement that a class of the caller's has a say in, in the time that is left."""
        begin = time.monotonic()
        state = await self._get_statement(query, timeout, record_class=record_class)
        if timeout is not None:
            timeout -= time.monotonic() - begin
            if timeout <= 0:
                raise asyncio.TimeoutError
        return await self._protocol.bind_execute(state, args, "", limit, return_status, timeout)

    async def _logged(
        self, query: str, args: Any, timeout: float | None, call: Any, *of: Any, **more: Any
    ) -> Any:
        if timeout is None:
            timeout = self._config.command_timeout
        with self._time_and_log(query, args, timeout):
            return await call(*of, timeout=timeout, **more)

    def _executemany(
        self,
        query: str,
        args: Any,
        timeout: float | None,
        return_rows: bool = False,
        record_class: Any = None,
    ) -> Awaitable[Any]:
        if record_class is not None:
            _check_record_class(record_class)
        state = PreparedStatementState("", query, record_class)
        call = self._protocol.bind_execute_many
        return self._logged(query, args, timeout, call, state, args, "", return_rows=return_rows)

    # --- prepared statements, cursors, transactions ---

    async def prepare(
        self,
        query: str,
        *,
        name: str | None = None,
        timeout: float | None = None,
        record_class: Any = None,
    ) -> prepared_stmt.PreparedStatement:
        return await self._prepare(query, name=name, timeout=timeout, record_class=record_class)

    async def _prepare(
        self,
        query: str,
        *,
        name: str | bool | None = None,
        timeout: float | None = None,
        use_cache: bool = False,
        record_class: Any = None,
    ) -> prepared_stmt.PreparedStatement:
        self._check_open()
        state = await self._get_statement(query, timeout, named=name, record_class=record_class)
        return prepared_stmt.PreparedStatement(self, query, state)

    async def _get_statement(
        self,
        query: str,
        timeout: float | None,
        *,
        named: str | bool | None = False,
        use_cache: bool = True,
        ignore_custom_codec: bool = False,
        record_class: Any = None,
    ) -> PreparedStatementState:
        if record_class is not None:
            _check_record_class(record_class)
        it = self._protocol
        if named and isinstance(named, str):
            state = await it.prepare(named, query, timeout, record_class=record_class)
            await self._keep_by_name(state, timeout)
            return state
        has_name = named or self._config.statement_cache_size > 0
        name = self._get_unique_id("stmt") if has_name else ""
        return await it.prepare(name, query, timeout, record_class=record_class)

    async def _keep_by_name(self, state: PreparedStatementState, timeout: float | None) -> None:
        """For EXECUTE, as far as PREPARE takes it, until nobody has it any more."""
        # One that is gone already is an error, which no transaction of the caller's may meet.
        while self._idle_names and not self.is_in_transaction():
            with contextlib.suppress(exceptions.InvalidSQLStatementNameError):
                await self._protocol.query(f"DEALLOCATE {self._idle_names.pop()}", timeout)
        if _native.can_be_prepared_by_sql(state.query):
            name = _quote_ident(state.name)
            await self._protocol.query(f"PREPARE {name} AS {state.query}", timeout)
            weakref.finalize(state, self._idle_names.append, name).atexit = False

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
        if schema == "pg_catalog":
            typename = _SQL_NAMES.get(typename.lower(), typename)
        text = _TYPE_BY_NAME.format(_quote_literal(typename), _quote_literal(schema))
        it = self._protocol
        found = await it.run(None, text, (), it.scope._run, "row", text, (), None)
        if found is None:
            raise ValueError(f"unknown type: {schema}.{typename}")
        oid, kind, category = found[0]
        return oid, kind, category

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
        oid, kind, category = await self._introspect_type(typename, schema)
        if kind == "d":
            raise exceptions.UnsupportedClientFeatureError(
                "custom codecs on domain types are not supported",
                hint="Set the codec on the base type.",
            )
        is_scalar = kind in ("b", "e") and category != "A"
        if not is_scalar and kind != "c":
            raise exceptions.InterfaceError(
                f"cannot use custom codec on type {schema}.{typename}: "
                "it is neither a scalar type nor a composite type"
            )
        if kind == "c" and format != "tuple":
            raise exceptions.UnsupportedClientFeatureError(
                "only tuple-format codecs can be used on composite types",
                hint="Use `set_type_codec(..., format='tuple')`.",
            )
        if format not in ("text", "binary", "tuple"):
            raise ValueError(f"invalid format: {format!r}: expected text, binary or tuple")
        if schema != "pg_catalog":
            # So that what it is made of is known.
            whole = f"select null::{_quote_ident(schema)}.{_quote_ident(typename)}"
            await self._protocol.prepare("", whole, None)
        self._protocol.core.set_codec(oid, format, encoder, decoder)

    async def reset_type_codec(self, typename: str, *, schema: str = "public") -> None:
        self._check_open()
        oid, _, _ = await self._introspect_type(typename, schema)
        _codecs.restore(self._protocol.core, oid)

    async def set_builtin_type_codec(
        self, typename: str, *, schema: str = "public", codec_name: str, format: str | None = None
    ) -> None:
        self._check_open()
        oid, kind, category = await self._introspect_type(typename, schema)
        if kind not in ("b", "d", "e") or category == "A":
            raise exceptions.InterfaceError(f"cannot alias non-scalar type {schema}.{typename}")
        it = self._protocol
        if codec_name == "pg_contrib.hstore":
            it.core.set_codec(oid, "binary", _codecs.write_hstore, _codecs.read_hstore)
            return
        of, _, _ = await self._introspect_type(codec_name, "pg_catalog")
        it.core.alias_codec(oid, of)

    async def reload_schema_state(self) -> None:
        self._protocol.core.forget_types()

    # --- listeners ---

    async def add_listener(self, channel: str, callback: Callable[..., Any]) -> None:
        self._check_open()
        if channel not in self._listeners:
            await self.fetch(f"LISTEN {_quote_ident(channel)}")
            self._listeners[channel] = set()
        self._listeners[channel].add(_callback(callback))

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
        self._log_listeners.add(_callback(callback))

    def remove_log_listener(self, callback: Callable[..., Any]) -> None:
        self._log_listeners.discard(callback)

    def add_termination_listener(self, callback: Callable[..., Any]) -> None:
        self._termination_listeners.add(_callback(callback))

    def remove_termination_listener(self, callback: Callable[..., Any]) -> None:
        self._termination_listeners.discard(callback)

    def add_query_logger(self, callback: Callable[..., Any]) -> None:
        self._query_loggers.add(_callback(callback))

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
            raise exceptions.InterfaceError("connection is closed", hint=self._why_lost)

    # --- its end ---

    async def close(self, *, timeout: float | None = None) -> None:
        """Ends it. A statement that runs is cancelled, or the connection cut if there are more."""
        if self.is_closed():
            return
        host, number = self._protocol.host, self._protocol.number
        if host.is_pool:
            # The pool opens another in its place.
            return self.terminate()
        if self._protocol.busy > 1:
            return self.terminate()
        if self._protocol.busy:
            host.core.stop(number)
        timeout = self._protocol.timeout if timeout is None else timeout
        # Whoever bounds it learns whether the server is there. Others need not wait for that.
        host.waits_for_goodbye = timeout is not None
        host.core.close_pool()
        host.core.release(number)
        try:
            await protocol.within(host.close(None), timeout)
        except BaseException:
            self.terminate()
            host.cut("the connection was closed")
            raise
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
            # At once, as asyncpg does: who asks whether it is closed has been told.
            if inspect.iscoroutinefunction(callback):
                self._loop.create_task(callback(self._unwrap()))
                continue
            try:
                callback(self._unwrap())
            except Exception as error:
                self._loop.call_exception_handler({
                    "message": "Unhandled exception in asyncpg connection termination listener "
                    f"callback {callback!r}",
                    "exception": error,
                })

    # --- its reset ---

    def get_reset_query(self) -> str:
        if self._reset_query is None:
            self._reset_query = (
                "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;"
            )
        return self._reset_query

    async def _reset(self) -> None:
        self._check_open()
        self._listeners.clear()
        self._log_listeners.clear()
        if self.is_in_transaction() or self._top_xact is not None:
            if self._top_xact is None or not self._top_xact._managed:
                self._loop.call_exception_handler({
                    "message": f"Resetting connection with an active transaction {self!r}"
                })
            self._top_xact = self._inner_xact = None
            await self.execute("ROLLBACK")

    async def reset(self, *, timeout: float | None = None) -> None:
        await protocol.within(self._reset_all(), timeout)

    async def _reset_all(self) -> None:
        await self._reset()
        query = self.get_reset_query()
        if query:
            await self.execute(query)

    def _forget(self) -> None:
        # Whoever has the connection next has none of these statements.
        self._idle_names = []
        self._listeners.clear()
        self._log_listeners.clear()
        self._top_xact = self._inner_xact = None

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
        self._proxy = proxy


_GET_STATEMENT = Connection._get_statement


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
    if not issubclass(connection_class, Connection):
        raise exceptions.InterfaceError(
            "connection_class is expected to be a subclass of asyncpg.Connection, "
            f"got {connection_class!r}"
        )
    if record_class is not protocol.Record:
        _check_record_class(record_class)
    return await connect_utils._connect(
        loop=loop or asyncio.get_running_loop(),
        timeout=timeout,
        connection_class=connection_class,
        record_class=record_class,
        dsn=dsn,
        host=host,
        port=port,
        user=user,
        password=password,
        passfile=passfile,
        service=service,
        servicefile=servicefile,
        database=database,
        ssl=ssl,
        direct_tls=direct_tls,
        statement_cache_size=statement_cache_size,
        max_cached_statement_lifetime=max_cached_statement_lifetime,
        max_cacheable_statement_size=max_cacheable_statement_size,
        command_timeout=command_timeout,
        server_settings=server_settings,
        target_session_attrs=target_session_attrs,
        krbsrvname=krbsrvname,
        gsslib=gsslib,
    )


def _callback(callback: Callable[..., Any]) -> Callable[..., Any]:
    if not callable(callback):
        raise exceptions.InterfaceError(
            f"expected a callable or an `async def` function, got {callback!r}"
        )
    return callback


async def _with_status(call: Awaitable[Any]) -> Any:
    rows, tag = await call
    return rows, tag.encode(), True


def _check_record_class(record_class: Any) -> None:
    if record_class is protocol.Record:
        return
    if not isinstance(record_class, type) or not issubclass(record_class, protocol.Record):
        raise exceptions.InterfaceError(
            f"record_class is expected to be a subclass of asyncpg.Record, got {record_class!r}"
        )
    base = protocol.Record
    if record_class.__new__ is not base.__new__ or record_class.__init__ is not base.__init__:
        raise exceptions.InterfaceError("record_class must not redefine __new__ or __init__")
