"""Where asyncpg keeps its protocol."""

from . import NO_TIMEOUT, PreparedStatementState, Protocol, Record, _create_record

__all__ = ("NO_TIMEOUT", "PreparedStatementState", "Protocol", "Record", "_create_record")
