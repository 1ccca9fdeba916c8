"""Where asyncpg keeps its UUID, which is the standard library's here."""

from uuid import UUID

__all__ = ("UUID",)
