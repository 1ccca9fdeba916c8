"""The dialect `postgresql+onetrip` of SQLAlchemy: its dialect for asyncpg, on the drop-in."""

from __future__ import annotations

from typing import Any

from sqlalchemy import util
from sqlalchemy.dialects.postgresql import asyncpg as of_asyncpg

from . import asyncpg as driver

#: What is called otherwise there.
_NAMES = {
    "IntegrityConstraintViolationError": "IntegrityError",
    "PostgresError": "Error",
    "SyntaxOrAccessError": "ProgrammingError",
}

_ERRORS = (
    *_NAMES,
    "CheckViolationError",
    "ExclusionViolationError",
    "ForeignKeyViolationError",
    "InterfaceError",
    "InternalClientError",
    "InternalServerError",
    "InvalidCachedStatementError",
    "NotNullViolationError",
    "RestrictViolationError",
    "UniqueViolationError",
)


class AsyncAdapt_onetrip_dbapi(of_asyncpg.AsyncAdapt_asyncpg_dbapi):
    """The errors are found without importing asyncpg."""

    @util.memoized_property
    def _asyncpg_error_translate(self) -> dict[Any, Any]:
        known = [it for it in _ERRORS if hasattr(self, _NAMES.get(it, it))]
        found = driver.exceptions
        return {getattr(found, it): getattr(self, _NAMES.get(it, it)) for it in known}


class PGDialect_onetrip(of_asyncpg.PGDialect_asyncpg):
    driver = "onetrip"
    supports_statement_cache = True

    @classmethod
    def import_dbapi(cls) -> Any:
        return AsyncAdapt_onetrip_dbapi(driver)  # type: ignore[no-untyped-call]
