"""What a `Connection` is to the engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ... import _native
from ..._native import Record

__all__ = ("NO_TIMEOUT", "Protocol", "Record")

NO_TIMEOUT = object()


class Protocol:
    """One connection of a client: its number, and where its statements go."""

    def __init__(self, host: Any, number: int) -> None:
        self.host, self.number = host, number
        self.core: _native.Core = host.core
        self.scope = _native.Scope(host.core, number)
        #: Statements that are not answered.
        self.busy = 0
        self.is_over = False

    def is_connected(self) -> bool:
        return not self.is_over

    def is_in_transaction(self) -> bool:
        return self.core.status(self.number) in ("T", "E")

    def get_server_pid(self) -> int:
        return self.core.process_id(self.number)

    def get_settings(self) -> Any:
        return SimpleNamespace(**self.host.parameters)

    def abort(self) -> None:
        if not self.is_over:
            self.is_over = True
            self.host.terminate(self.number)
