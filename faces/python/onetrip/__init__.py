"""A client for PostgreSQL that hides the round trip.

Statements leave when they are made; those of one turn of the event loop share a trip::

    async with onetrip.connect("postgres://localhost/shop") as db:
        user = db.fetchrow("select * from users where id = $1", 7)
        orders = db.fetch("select * from orders where user_id = $1", 7)
        print(await user, await orders)
"""

import os

from . import _native
from ._batch import Batch, BatchReport
from ._client import (
    CacheMetrics,
    Database,
    Metrics,
    Pipeline,
    ReadMetrics,
    ReplicaMetrics,
    Session,
    Transaction,
    connect,
)
from ._flow import Stream
from ._listen import Gap, Listener, Notification
from ._native import Arrow, Call, Position, Reads, Record
from ._range import Range
from .errors import (
    ConnectionLostError,
    Error,
    MisuseError,
    Notice,
    ParameterError,
    PostgresError,
    TimeoutError,
)

__all__ = [
    "Arrow",
    "Batch",
    "BatchReport",
    "CacheMetrics",
    "Call",
    "ConnectionLostError",
    "Database",
    "Error",
    "Gap",
    "Listener",
    "Metrics",
    "MisuseError",
    "Notice",
    "Notification",
    "ParameterError",
    "Pipeline",
    "Position",
    "PostgresError",
    "Range",
    "ReadMetrics",
    "Reads",
    "Record",
    "ReplicaMetrics",
    "Session",
    "Stream",
    "TimeoutError",
    "Transaction",
    "connect",
]

__version__ = "0.1.0"

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.forked)
