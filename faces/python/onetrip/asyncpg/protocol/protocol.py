"""Where asyncpg keeps its protocol."""

from . import NO_TIMEOUT, Protocol, Record

__all__ = ("NO_TIMEOUT", "Protocol", "Record")
