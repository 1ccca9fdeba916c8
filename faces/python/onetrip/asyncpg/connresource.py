"""What belongs to a connection, and is of no use once that was given back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from . import exceptions

if TYPE_CHECKING:
    from .connection import Connection

F = TypeVar("F", bound=Callable[..., Any])


def guarded(meth: F) -> F:
    """Looks first whether the connection is still there."""

    @functools.wraps(meth)
    def check(self: ConnectionResource, *args: Any, **kwargs: Any) -> Any:
        self._check_conn_validity(meth.__name__)
        return meth(self, *args, **kwargs)

    return check  # type: ignore[return-value]


class ConnectionResource:
    __slots__ = ("_con_release_ctr", "_connection")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._con_release_ctr = connection._pool_release_ctr

    def _check_conn_validity(self, meth_name: str) -> None:
        what = f"cannot call {type(self).__name__}.{meth_name}(): the underlying connection "
        if self._connection._pool_release_ctr != self._con_release_ctr:
            raise exceptions.InterfaceError(what + "has been released back to the pool")
        if self._connection.is_closed():
            raise exceptions.InterfaceError(what + "is closed")
