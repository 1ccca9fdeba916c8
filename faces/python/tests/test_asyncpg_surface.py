"""What programs see of the drop-in is what they see of asyncpg, as it is installed here."""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

import onetrip.asyncpg

#: Modules for asyncpg itself: its helpers for older Pythons, its SQL about types, servers for its
#: tests.
INTERNAL = {"compat", "introspection", "cluster"}

#: Classes that are not written in Python, and internal: what instrumentation uses of them is below.
NATIVE = {"protocol", "protocol.codecs", "protocol.protocol", "protocol.record", "pgproto.pgproto"}

#: Helpers of asyncpg's modules that have no underscore, and no documentation.
INTERNAL_NAMES = {
    "connect_utils": {"PGPASSFILE", "PG_SERVICEFILE", "TLSUpgradeProto", "target_attrs_check"},
    "connection": {"ServerCapabilities"},
    "pool": {"PoolConnectionHolder", "PoolConnectionProxyMeta"},
    "serverversion": {"version_regex"},
    "transaction": {"ISOLATION_LEVELS", "ISOLATION_LEVELS_BY_VALUE"},
    "exceptions": set(),
}


def modules() -> list[str]:
    found = pkgutil.walk_packages(asyncpg.__path__, "asyncpg.")
    names = [it.name.removeprefix("asyncpg.") for it in found]
    return [name for name in names if not any(part[0] == "_" for part in name.split("."))
            and name not in INTERNAL | NATIVE]


def public(module: Any, short: str) -> Iterator[tuple[str, Any]]:
    """What a module defines itself."""
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value):
            continue
        if name in INTERNAL_NAMES.get(short, set()):
            continue
        home = getattr(value, "__module__", "") or ""
        if name in getattr(module, "__all__", ()) or home == module.__name__:
            yield name, value


def fits(theirs: Any, ours: Any) -> bool:
    """Whether each call that theirs takes is taken here, and means the same."""
    wanted = inspect.signature(theirs).parameters
    given = inspect.signature(ours).parameters
    more = [it for name, it in given.items() if name not in wanted]
    shared = [name for name in given if name in wanted]
    return list(wanted) == shared and all(it.default is not inspect._empty for it in more) and all(
        it.kind in (given[name].kind, inspect.Parameter.KEYWORD_ONLY)
        and (told(it.default) == told(given[name].default) or it.default is inspect._empty)
        for name, it in wanted.items()
    )


def told(default: Any) -> Any:
    return getattr(default, "__name__", default)


def kind_of(value: Any) -> str:
    if isinstance(value, property):
        return "property"
    if inspect.iscoroutinefunction(value):
        return "coroutine"
    return "callable" if callable(value) else "value"


def differences(where: str, theirs: Any, ours: Any) -> Iterator[str]:
    if kind_of(theirs) != kind_of(ours):
        yield f"{where}: {kind_of(theirs)} there, {kind_of(ours)} here"
    elif inspect.isclass(theirs) and issubclass(theirs, enum.Enum):
        if [it.value for it in theirs] != [it.value for it in ours]:
            yield f"{where}: {list(theirs)} there, {list(ours)} here"
    elif inspect.isclass(theirs):
        for name, value in inspect.getmembers(theirs):
            if name.startswith("_") and name not in ("__init__", "__aiter__", "__await__"):
                continue
            if name == "__init__" and not inspect.isfunction(value):
                continue
            if not hasattr(ours, name):
                yield f"{where}.{name}: missing"
            else:
                yield from differences(f"{where}.{name}", value, getattr(ours, name))
    elif inspect.isfunction(theirs) and not fits(theirs, ours):
        yield f"{where}{inspect.signature(theirs)} there, {inspect.signature(ours)} here"


@pytest.mark.parametrize("name", modules())
def test_each_public_name_is_there_with_its_parameters_and_defaults(name: str) -> None:
    theirs = importlib.import_module(f"asyncpg.{name}")
    ours = importlib.import_module(f"onetrip.asyncpg.{name}")
    found: list[str] = []
    for attribute, value in public(theirs, name):
        where = f"{name}.{attribute}"
        if not hasattr(ours, attribute):
            found.append(f"{where}: missing")
        elif name != "exceptions":
            found += differences(where, value, getattr(ours, attribute))
    assert not found, "\n".join(found)


def test_the_package_itself() -> None:
    missing = set(asyncpg.__all__) - set(onetrip.asyncpg.__all__)
    assert not missing and set(dir(asyncpg.types)) & set(asyncpg.types.__all__) <= set(
        dir(onetrip.asyncpg)
    )


#: What OpenTelemetry, Sentry and Datadog patch, by module and class.
PATCHED = {
    "connection.Connection": ["execute", "executemany", "fetch", "fetchval", "fetchrow", "prepare",
                              "cursor", "_execute", "_executemany"],
    "cursor.BaseCursor": ["_bind_exec", "_exec"],
    "cursor.Cursor": ["fetch", "forward", "fetchrow"],
    "cursor.CursorIterator": ["__anext__"],
    "prepared_stmt.PreparedStatement": ["fetch", "fetchval", "fetchrow", "executemany"],
    "protocol.Protocol": ["execute", "bind_execute", "query", "bind_execute_many"],
    "connect_utils": ["_connect_addr"],
}


@pytest.mark.parametrize("where", PATCHED)
def test_what_instrumentation_patches_has_the_same_parameters(where: str) -> None:
    module, _, cls = where.partition(".")
    theirs = importlib.import_module(f"asyncpg.{module}")
    ours = importlib.import_module(f"onetrip.asyncpg.{module}")
    for name in PATCHED[where]:
        this = getattr(getattr(theirs, cls) if cls else theirs, name)
        that = getattr(getattr(ours, cls) if cls else ours, name)
        wanted = [it.name for it in inspect.signature(this).parameters.values()]
        given = [it.name for it in inspect.signature(that).parameters.values()]
        assert given[: len(wanted)] == wanted, name


EXCEPTIONS = """
import json, sys
sys.path.append({tests!r})
if {own}:
    sys.modules["asyncpg"] = None
    from onetrip.asyncpg import exceptions
else:
    from asyncpg import exceptions
made = [getattr(exceptions, name) for name in exceptions.__all__]
print(json.dumps({{it.__name__: [getattr(it, "sqlstate", None),
                  [base.__name__ for base in it.__mro__]] for it in made}}))
"""


def test_exceptions_are_the_same_where_asyncpg_is_not_installed() -> None:
    def run(own: bool) -> dict[str, Any]:
        code = EXCEPTIONS.format(own=own, tests=".")
        told: dict[str, Any] = json.loads(subprocess.check_output([sys.executable, "-c", code]))
        return told

    theirs, ours = run(False), run(True)
    wrong = {name: (it, ours.get(name)) for name, it in theirs.items() if ours.get(name) != it}
    assert not wrong
