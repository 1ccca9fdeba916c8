"""What asyncpg raises, for what onetrip raises."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from .. import errors
from . import exceptions

_PARAMETER = re.compile(r"(?:set (\d+) of arguments: )?parameter \$(\d+) .*?: (.*)", re.DOTALL)


def translated(error: errors.Error, query: str | None = None, args: Any = ()) -> BaseException:
    """The error of asyncpg for this one. What became of the statement is in its `outcome`."""
    made = _translated(error, query, args)
    made.outcome = error.outcome  # type: ignore[attr-defined]
    made.__cause__ = error if error.fields is None else None
    made.__suppress_context__ = True
    return made


def _translated(error: errors.Error, query: str | None, args: Any) -> BaseException:
    text = str(error)
    if error.fields is not None:
        return exceptions.PostgresError.new(error.fields, query)
    if isinstance(error, errors.ParameterError):
        return _of_parameter(text, args)
    if error.code == "conversion" and error.__cause__ is not None:
        return error.__cause__
    if isinstance(error, errors.TimeoutError):
        return asyncio.TimeoutError(text)
    if isinstance(error, errors.ConnectError):
        cause = error.__cause__
        return type(cause)(*cause.args) if isinstance(cause, OSError) else ConnectionError(text)
    if isinstance(error, errors.ConnectionLostError):
        message = "connection was closed in the middle of operation"
        if error.__cause__ is not None:
            message += f": {error.__cause__}"
        return exceptions.ConnectionDoesNotExistError(message)
    if error.code == "closed":
        return exceptions.InterfaceError("pool is closed")
    return exceptions.InterfaceError(text)


def _of_parameter(text: str, args: Any) -> BaseException:
    found = _PARAMETER.match(text)
    if found is None:
        count = re.search(r"has (\d+) parameters?, and (\d+)", text)
        if count is None:
            return exceptions.DataError(text)
        wanted, given = int(count[1]), int(count[2])
        return exceptions.InterfaceError(
            f"the server expects {wanted} argument{'s' if wanted != 1 else ''} for this query, "
            f"{given} {'was' if given == 1 else 'were'} passed",
            hint="Check the query against the passed list of arguments.",
        )
    row, number, why = found[1], int(found[2]), found[3]
    if row is not None:
        where = f" in element #{int(row) - 1} of executemany() sequence"
        return exceptions.DataError(f"invalid input for query argument ${number}{where}: {why}")
    value = repr(args[number - 1]) if number <= len(args) else "?"
    value = value if len(value) <= 40 else value[:40] + "..."
    kind = type(args[number - 1]).__name__ if number <= len(args) else "?"
    return exceptions.DataError(
        f"invalid input for query argument ${number}: {value} ({why}; got {kind})"
    )
