"""What is raised: asyncpg's own classes where asyncpg is installed, so that programs that name those
go on, and the same classes by name and SQLSTATE where it is not.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType


def _installed() -> ModuleType | None:
    """The module of asyncpg itself, if it is there and this one has not taken its name."""
    found = sys.modules.get("asyncpg.exceptions")
    if found is not None:
        return None if found.__name__.startswith("onetrip.") else found
    if "asyncpg" in sys.modules or find_spec("asyncpg") is None:
        return None
    import asyncpg.exceptions

    return asyncpg.exceptions


def _made() -> dict[str, object]:
    """The classes, made here."""
    from . import _base
    from ._table import TABLE

    made: dict[str, object] = {name: getattr(_base, name) for name in _base.__all__}
    words = iter(TABLE.split())
    for base, row in zip(words, words):
        name, code = row.split("=")
        body = {"__module__": __name__} if code == "-" else {"__module__": __name__, "sqlstate": code}
        made[name] = type(made[base])(name, (made[base],), body)  # type: ignore[operator]
    stale = made["InvalidCachedStatementError"]
    _base.PostgresMessage._by_code["RevalidateCachedQuery"] = stale  # type: ignore[assignment]
    return made


_module = _installed()
_classes = _made() if _module is None else {name: getattr(_module, name) for name in _module.__all__}
globals().update(_classes)
__all__ = tuple(_classes)
