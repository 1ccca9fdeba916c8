"""Where asyncpg keeps its protocol."""

from . import NO_TIMEOUT, PreparedStatementState, Protocol, Record

__all__ = ("NO_TIMEOUT", "PreparedStatementState", "Protocol", "Record")
