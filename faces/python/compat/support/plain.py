"""Turns values that a program saw into JSON, to be compared in another process. Types, classes and
the order of keys are kept.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import math
import re
import uuid
from typing import Any

#: The modules of this driver, and those in whose place they are.
OURS = (("onetrip.asyncpg", "asyncpg"), ("onetrip.redis.asyncio", "redis.asyncio.client"))


def plain(value: Any) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if type(value) is list:
        return [plain(it) for it in value]
    if type(value) is dict:
        return {"$dict": [[plain(key), plain(it)] for key, it in value.items()]}
    if isinstance(value, BaseException):
        return _error(value)
    return {f"${class_of(value)}": _parts(value)}


def _parts(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return [value.isoformat(), str(value.tzinfo)]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, type):
        return value.__qualname__
    if type(value).__name__ == "Record":
        return [[key, plain(it)] for key, it in value.items()]
    if isinstance(value, dict):
        return plain(dict(value))
    if isinstance(value, (set, frozenset)):
        return sorted((plain(it) for it in value), key=repr)
    if isinstance(value, tuple):
        return [plain(it) for it in value]
    if dataclasses.is_dataclass(value):
        return [[it.name, plain(getattr(value, it.name))] for it in dataclasses.fields(value)]
    # Where it lies is of no interest.
    return re.sub(r" (at )?0x[0-9a-f]+", "", str(value))


def _error(error: BaseException) -> Any:
    fields = {
        name: plain(getattr(error, name))
        for name in ("sqlstate", "severity", "detail", "hint", "constraint_name", "table_name",
                     "column_name", "schema_name", "position")
        if isinstance(getattr(error, name, None), (str, int))
    }
    # Why an argument does not fit, each driver says in words of its own.
    told = {"$error": class_of(error), "text": _WHY.sub(r"\1", str(error)), **fields}
    if error.__cause__ is not None and class_of(error).startswith(_WRAP):
        told["cause"] = plain(error.__cause__)
    return told


_WHY = re.compile(r"(invalid input for query argument \$\d+: .*?) \(.*?\)$", re.MULTILINE)

#: The errors of programs, whose cause is the driver's. A driver's own causes are its own affair.
_WRAP = ("sqlalchemy", "tortoise", "piccolo")


def class_of(value: Any) -> str:
    module, name = type(value).__module__, type(value).__qualname__
    if name == "Record" or isinstance(value, uuid.UUID):
        # asyncpg's own, or what stands for it here.
        return name
    for ours, theirs in OURS:
        if module == ours or module.startswith(ours + "."):
            module = theirs + module[len(ours) :]
    return name if module == "builtins" else f"{module}.{name}"
