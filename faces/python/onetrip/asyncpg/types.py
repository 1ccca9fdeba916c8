"""Types of values and of descriptions."""

from __future__ import annotations

from typing import NamedTuple

from .._range import Range as _Range
from .pgproto.types import BitString, Box, Circle, Line, LineSegment, Path, Point, Polygon

__all__ = (
    "Attribute",
    "BitString",
    "Box",
    "Circle",
    "Line",
    "LineSegment",
    "Path",
    "Point",
    "Polygon",
    "Range",
    "ServerVersion",
    "Type",
)

Range = _Range


class Type(NamedTuple):
    """A type of the database; its kind is scalar, array, composite or range."""

    oid: int
    name: str
    kind: str
    schema: str


class Attribute(NamedTuple):
    """A column of a result."""

    name: str
    type: Type


class ServerVersion(NamedTuple):
    """The version of a server."""

    major: int
    minor: int
    micro: int
    releaselevel: str
    serial: int
