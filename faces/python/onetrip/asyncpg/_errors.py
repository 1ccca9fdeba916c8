"""What asyncpg raises, for what onetrip raises."""

from __future__ import annotations

import asyncio
import re
from typing import Any, SupportsIndex

from .. import errors
from . import exceptions

_DIMENSIONS_MAX = 6

_PARAMETER = re.compile(
    r"(?:set (\d+) of arguments: )?parameter \$(\d+) (?:of type (\S+) )?.*?: (.*)", re.DOTALL
)


#: asyncpg's words for ours.
_REASONS = (
    ("it takes bytes", "a bytes-like object is required, not '{kind}'"),
    ("it takes a bool", "a boolean is required (got type {kind})"),
    ("it takes an int", "'{kind}' object cannot be interpreted as an integer"),
    ("it takes a str", "expected str, got {kind}"),
    (
        "it takes a datetime.date",
        "expected a datetime.date or datetime.datetime instance, got '{kind}'",
    ),
    ("it takes a list of onetrip.Range", "expected a sequence, got '{kind}'"),
    ("it takes a Range, or its bounds", "expected 0, 1 or 2 elements in range"),
    ("its inner lists are not all", "non-homogeneous array"),
    ("it takes a list", "a sized iterable container expected (got type '{kind}')"),
    ("it takes an onetrip.Range", "list, tuple or Range object expected (got type '{kind}')"),
    ("it is not from -32768 to", "value out of int16 range"),
    ("it is not from -2147483648 to", "value out of int32 range"),
    ("it is not from -9223372036854775808 to", "value out of int64 range"),
    ("it is not from 0 to 4294967295", "value out of uint32 range"),
    ("it is out of range", "value out of float32 range"),
)


def translated(error: errors.Error, query: str | None = None, args: Any = ()) -> BaseException:
    """The error of asyncpg for this one. What became of the statement is in its `outcome`."""
    made = _translated(error, query, args)
    made.outcome = error.outcome  # type: ignore[attr-defined]
    made._part_of = getattr(error, "_part_of", None)  # type: ignore[attr-defined]
    if made.__cause__ is None and error.fields is None:
        made.__cause__ = error
    made.__suppress_context__ = True
    return made


def _translated(error: errors.Error, query: str | None, args: Any) -> BaseException:
    text = str(error)
    if error.fields is not None:
        return exceptions.PostgresError.new(error.fields, query)
    if isinstance(error, errors.ParameterError):
        return _of_parameter(text, args)
    if error.code == "conversion" and isinstance(error.__cause__, UnicodeDecodeError):
        return exceptions.InterfaceError(
            f"a text of the server is not in UTF-8: {error.__cause__}",
            hint="Leave client_encoding as it is: this package reads and writes UTF-8 alone.",
        )
    if error.code == "conversion" and error.__cause__ is not None:
        return error.__cause__
    if isinstance(error, errors.TimeoutError):
        return asyncio.TimeoutError(text)
    if isinstance(error, errors.ConnectError):
        return _of_connect(error, text)
    if isinstance(error, errors.ConnectionLostError):
        message, cause = "connection was closed in the middle of operation", error.__cause__
        if not isinstance(cause, errors.Error) or cause.fields is None:
            return exceptions.ConnectionDoesNotExistError(message)
        made = exceptions.ConnectionDoesNotExistError(f"{message}: {cause}")
        made.__cause__ = exceptions.PostgresError.new(cause.fields)
        return made
    if error.code == "closed":
        return exceptions.InterfaceError("pool is closed")
    return exceptions.InterfaceError(text)


def _of_connect(error: errors.Error, text: str) -> BaseException:
    cause = error.__cause__
    if isinstance(cause, errors.Error):
        return _translated(cause, None, ())
    if isinstance(cause, OSError):
        return type(cause)(*cause.args)
    if "no password" in text or "none was given" in text:
        return exceptions.InvalidPasswordError(text)
    if "target_session_attrs" in text:
        return exceptions.TargetServerAttributeNotMatched(
            f"None of the hosts match the target attribute requirement: {text}"
        )
    where, is_it, _ = text.partition(": the server answered the question for TLS with an error")
    if is_it:
        return ConnectionError(
            f'PostgreSQL server at "{where}": server sent an error response during SSL exchange; '
            "check the server logs for details"
        )
    where, _, why = text.partition(" has no TLS")
    if why:
        text = f'PostgreSQL server at "{where}" rejected SSL upgrade: it has no TLS{why}'
    return ConnectionError(text)


def _of_parameter(text: str, args: Any) -> BaseException:
    found = _PARAMETER.match(text)
    if found is None:
        count = re.search(r"has (\d+) parameters?, and (\d+)", text)
        if "no binary form" in text:
            return exceptions.InternalClientError(f"no binary format encoder: {text}")
        if count is None:
            return exceptions.DataError(text)
        wanted, given = int(count[1]), int(count[2])
        hint = "Check the query against the passed list of arguments."
        if wanted == 0:
            hint += (
                "  Note that parameters are supported only in SELECT, INSERT, UPDATE, DELETE, MERGE "
                "and VALUES statements, and will *not* work in statements like CREATE VIEW or "
                "DECLARE CURSOR."
            )
        return exceptions.InterfaceError(
            f"the server expects {wanted} argument{'s' if wanted != 1 else ''} for this query, "
            f"{given} {'was' if given == 1 else 'were'} passed",
            hint=hint,
        )
    row, number, why = found[1], int(found[2]), found[4]
    where = ""
    if row is not None:
        where = f" in element #{int(row) - 1} of executemany() sequence"
        args = args[int(row) - 1]
    if why.startswith("record is a type of results"):
        return exceptions.UnsupportedClientFeatureError(
            f"query argument ${number}: input of anonymous composite types is not supported",
            hint="Consider declaring an explicit composite type and using it to cast the argument.",
            detail="PostgreSQL does not implement anonymous composite type input.",
        )
    given = args[number - 1]
    value, kind = repr(given), type(given)
    value = value if len(value) <= 40 else value[:40] + "..."
    told = next((text for begin, text in _REASONS if why.startswith(begin)), why + "; got {kind}")
    if why.startswith("the type has no field "):
        field = why.removeprefix("the type has no field ")
        told = f"{field!r} is not a valid element of composite type {found[3]}"
    elif (found[3] or "").endswith("[]") and isinstance(given, (list, tuple)):
        told = _of_array(given, told)
    told = told.replace("{kind}", _name_of(kind))
    return exceptions.DataError(
        f"invalid input for query argument ${number}{where}: {value} ({told})"
    )


def _of_array(given: Any, told: str) -> str:
    """Why no array is made of these lists."""
    if "array" in told or "dimensions" in told:
        return told
    level = [given]
    for _ in range(_DIMENSIONS_MAX):
        level = [one for part in level for one in part]
        lists = [one for one in level if isinstance(one, (list, tuple))]
        if not lists:
            break
        if len(lists) < len(level):
            return "non-homogeneous array"
        level = lists
    if "out of" in told:
        return told
    fits: Any = str if "expected str" in told else SupportsIndex if "integer" in told else ()
    wrong = next((one for one in level if one is not None and not isinstance(one, fits)), None)
    where = next((f" at index {at}" for at, one in enumerate(given) if one is wrong), "")
    return f"invalid array element{where}: " + told.replace("{kind}", _name_of(type(wrong)))


def _name_of(kind: type) -> str:
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
