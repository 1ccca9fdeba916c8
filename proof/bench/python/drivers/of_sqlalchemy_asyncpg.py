"""SQLAlchemy on its dialect for asyncpg."""

from typing import Any

from . import named, shape_of_sqlalchemy

VERSION = named("sqlalchemy", "asyncpg")


async def open(url: str, task: dict[str, Any]) -> shape_of_sqlalchemy.Client:
    return shape_of_sqlalchemy.open("asyncpg", url, task)
