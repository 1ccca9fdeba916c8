"""SQLAlchemy on the dialect of onetrip."""

from typing import Any

from . import named, shape_of_sqlalchemy

VERSION = named("sqlalchemy", "onetrip")


async def open(url: str, task: dict[str, Any]) -> shape_of_sqlalchemy.Client:
    return shape_of_sqlalchemy.open("onetrip", url, task)
