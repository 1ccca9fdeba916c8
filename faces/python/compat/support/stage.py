"""What a scenario is given."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from typing import Any

from .plain import plain

#: What a driver calls savepoints and statements.
_OWN_NAME = re.compile(r"__(asyncpg|onetrip)_[a-z]+_[0-9a-f]+__")


class Stage:
    """Records what the scenario saw, which is the same with both drivers."""

    def __init__(self, url: str, redis: str, name: str, dialect: str) -> None:
        #: A database of its own for all scenarios of a file, and an empty database of Redis.
        self.url, self.redis = url, redis
        #: A name that nobody else uses. In what is recorded it is NAME.
        self.name = name
        #: The driver's name in URLs of SQLAlchemy.
        self.dialect = dialect
        self.seen: list[tuple[str, Any]] = []

    @property
    def database_url(self) -> str:
        """The URL for SQLAlchemy."""
        return f"postgresql+{self.dialect}://" + self.url.split("://", 1)[1]

    def see(self, label: str, value: Any) -> None:
        self.seen.append((label, self._named(plain(value))))

    async def settles(self, label: str, call: Awaitable[Any], seconds: float = 20) -> Any:
        """Records what is returned or raised."""
        try:
            value = await asyncio.wait_for(call, seconds)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self.see(label, ["raised", error])
            return None
        self.see(label, ["returned", value])
        return value

    def _named(self, value: Any) -> Any:
        if isinstance(value, str):
            return _OWN_NAME.sub("ID", value.replace(self.name, "NAME"))
        if isinstance(value, list):
            return [self._named(it) for it in value]
        if isinstance(value, dict):
            return {self._named(key): self._named(it) for key, it in value.items()}
        return value
