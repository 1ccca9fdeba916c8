"""asyncpg's shape: its modules, classes, keywords and exceptions, with the trips left out that
asyncpg makes. `install()` has `import asyncpg` mean this package.
"""

from __future__ import annotations

import importlib
import sys

from . import exceptions
from .connection import Connection, connect
from .exceptions import *  # noqa: F403
from .pool import Pool, create_pool
from .protocol.protocol import Record
from .types import *  # noqa: F403

#: The release of asyncpg whose interface this is.
__version__ = "0.32.0"

__all__: tuple[str, ...] = ("Connection", "Pool", "Record", "connect", "create_pool", "install")
__all__ += exceptions.__all__

_MODULES = (
    "connect_utils",
    "connection",
    "connresource",
    "cursor",
    "exceptions",
    "pgproto",
    "pgproto.pgproto",
    "pgproto.types",
    "pool",
    "prepared_stmt",
    "protocol",
    "protocol.protocol",
    "serverversion",
    "transaction",
    "types",
    "utils",
)


def install() -> None:
    """From now on `import asyncpg` means this package. To be called before a program imports it."""
    for name in [it for it in sys.modules if it == "asyncpg" or it.startswith("asyncpg.")]:
        del sys.modules[name]
    sys.modules["asyncpg"] = sys.modules[__name__]
    for name in _MODULES:
        sys.modules[f"asyncpg.{name}"] = importlib.import_module(f"{__name__}.{name}")
