"""COPY: to and from files, paths, functions and rows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any

from .._native import is_type
from .utils import _mogrify, _quote_ident, _quote_literal

#: Bytes that are read of a file at a time.
_PART = 512 << 10


class Copies:
    """The methods of a `Connection` that copy."""

    __slots__ = ()
    _protocol: Any

    async def copy_from_table(
        self,
        table_name: str,
        *,
        output: Any,
        columns: Iterable[str] | None = None,
        schema_name: str | None = None,
        timeout: float | None = None,
        format: str | None = None,
        oids: bool | None = None,
        delimiter: str | None = None,
        null: str | None = None,
        header: bool | None = None,
        quote: str | None = None,
        escape: str | None = None,
        force_quote: bool | Iterable[str] | None = None,
        encoding: str | None = None,
    ) -> str:
        """Copies a table to a file, a path, or an async function of bytes; returns the status."""
        options = _options(
            format=format, oids=oids, delimiter=delimiter, null=null, header=header, quote=quote,
            escape=escape, force_quote=force_quote, encoding=encoding,
        )
        table = _table(table_name, schema_name, columns)
        return await self._copy_out(f"COPY {table} TO STDOUT {options}", output, timeout)

    async def copy_from_query(
        self,
        query: str,
        *args: Any,
        output: Any,
        timeout: float | None = None,
        format: str | None = None,
        oids: bool | None = None,
        delimiter: str | None = None,
        null: str | None = None,
        header: bool | None = None,
        quote: str | None = None,
        escape: str | None = None,
        force_quote: bool | Iterable[str] | None = None,
        encoding: str | None = None,
    ) -> str:
        """Copies the rows of a statement to a file, a path, or an async function of bytes."""
        options = _options(
            format=format, oids=oids, delimiter=delimiter, null=null, header=header, quote=quote,
            escape=escape, force_quote=force_quote, encoding=encoding,
        )
        if args:
            query = await _mogrify(self, query, args)
        return await self._copy_out(f"COPY ({query}) TO STDOUT {options}", output, timeout)

    async def copy_to_table(
        self,
        table_name: str,
        *,
        source: Any,
        columns: Iterable[str] | None = None,
        schema_name: str | None = None,
        timeout: float | None = None,
        format: str | None = None,
        oids: bool | None = None,
        freeze: bool | None = None,
        delimiter: str | None = None,
        null: str | None = None,
        header: bool | None = None,
        quote: str | None = None,
        escape: str | None = None,
        force_quote: bool | Iterable[str] | None = None,
        force_not_null: bool | Iterable[str] | None = None,
        force_null: bool | Iterable[str] | None = None,
        encoding: str | None = None,
        where: str | None = None,
    ) -> str:
        """Copies a file, a path, bytes, or what an async iterable gives, to a table."""
        options = _options(
            format=format, oids=oids, freeze=freeze, delimiter=delimiter, null=null, header=header,
            quote=quote, escape=escape, force_not_null=force_not_null, force_null=force_null,
            encoding=encoding,
        )
        table = _table(table_name, schema_name, columns)
        text = f"COPY {table} FROM STDIN {options}{_where(where)}"
        return await self._copy_in(text, source, timeout)

    async def copy_records_to_table(
        self,
        table_name: str,
        *,
        records: Iterable[Any] | AsyncIterable[Any],
        columns: Iterable[str] | None = None,
        schema_name: str | None = None,
        timeout: float | None = None,
        where: str | None = None,
    ) -> str:
        """Copies rows to a table, in the binary format."""
        columns = None if columns is None else list(columns)
        listed = ", ".join(map(_quote_ident, columns)) if columns else "*"
        of = _table(table_name, schema_name, None)
        protocol = self._protocol
        described = await protocol.prepare("", f"SELECT {listed} FROM {of} LIMIT 1", timeout)
        described.table = (of, bool(schema_name) or not is_type(table_name))
        table = _table(table_name, schema_name, columns)
        text = f"COPY {table} FROM STDIN (FORMAT binary){_where(where)}"
        tag: str = await protocol.copy_in(text, None, None, records, described, timeout)
        return tag

    async def _copy_out(self, copy_stmt: str, output: Any, timeout: float | None) -> str:
        path, run = _path(output), asyncio.get_running_loop().run_in_executor
        if path is None and not hasattr(output, "write"):
            if not callable(output):
                raise TypeError(
                    "output is expected to be a file-like object, a path-like object or a "
                    f"coroutine function, not {type(output).__name__}"
                )
            return await self._copied(copy_stmt, output, timeout)
        file = output if path is None else await run(None, open, path, "wb")
        try:
            return await self._copied(
                copy_stmt, lambda data: run(None, file.write, data), timeout
            )
        finally:
            if path is not None:
                file.close()

    async def _copied(self, copy_stmt: str, sink: Callable[[bytes], Any], timeout: Any) -> str:
        tag: str = await self._protocol.copy_out(copy_stmt, sink, timeout)
        return tag

    async def _copy_in(self, copy_stmt: str, source: Any, timeout: float | None) -> str:
        path, run = _path(source), asyncio.get_running_loop().run_in_executor
        file = await run(None, open, path, "rb") if path is not None else source
        reader: AsyncIterable[Any] | None = None
        data = None
        if hasattr(file, "read"):
            reader = _parts_of(file)
        elif isinstance(source, AsyncIterable):
            reader = source
        else:
            data = source
        try:
            tag: str = await self._protocol.copy_in(copy_stmt, reader, data, None, None, timeout)
            return tag
        finally:
            if path is not None:
                file.close()


async def _parts_of(file: Any) -> AsyncIterator[bytes]:
    run = asyncio.get_running_loop().run_in_executor
    while data := await run(None, file.read, _PART):
        yield data


def _path(of: Any) -> str | bytes | None:
    try:
        return os.fspath(of)
    except TypeError:
        return None


def _table(name: str, schema: str | None, columns: Iterable[str] | None) -> str:
    text = _quote_ident(name)
    if schema:
        text = f"{_quote_ident(schema)}.{text}"
    return f"{text}({', '.join(map(_quote_ident, columns))})" if columns else text


def _where(where: str | None) -> str:
    return f" WHERE {where}" if where else ""


def _options(**given: Any) -> str:
    """The options of a COPY."""
    options = []
    for name, value in given.items():
        if value is None or value is False and name == "force_quote":
            continue
        if name.startswith("force_"):
            value = "*" if value is True else f"({', '.join(map(_quote_ident, value))})"
        elif name not in ("oids", "freeze", "header"):
            value = _quote_literal(value)
        options.append(f"{name.upper()} {value}")
    return f"({', '.join(options)})" if options else ""
