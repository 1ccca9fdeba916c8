"""Bits and shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Union

__all__ = (
    "BitString",
    "Box",
    "Circle",
    "Line",
    "LineSegment",
    "Path",
    "Point",
    "Polygon",
)

_Order = Literal["big", "little"]


class BitString:
    """A value of `bit` or `varbit`. Immutable."""

    __slots__ = ("_bitlength", "_bytes")

    def __init__(self, bitstring: Union[str, bytes, None] = None) -> None:
        text = bitstring.decode() if isinstance(bitstring, bytes) else bitstring or ""
        for place, bit in enumerate(text):
            if bit not in " 01":
                raise ValueError(f"invalid bit value at position {place}")
        bits = text.replace(" ", "")
        self._bitlength = len(bits)
        padded = bits.ljust((len(bits) + 7) // 8 * 8, "0")
        self._bytes = int(padded or "0", 2).to_bytes(len(padded) // 8, "big")

    @classmethod
    def frombytes(
        cls, bytes_: Union[bytes, None] = None, bitlength: Union[int, None] = None
    ) -> BitString:
        data = bytes(bytes_ or b"")
        length = len(data) * 8 if bitlength is None else bitlength
        if not 0 <= length <= len(data) * 8 or len(data) != (length + 7) // 8:
            raise ValueError("bytes and bitlength do not fit")
        made = cls()
        made._bytes, made._bitlength = data, length
        return made

    @property
    def bytes(self) -> bytes:
        return self._bytes

    def as_string(self) -> str:
        bits = "".join(f"{byte:08b}" for byte in self._bytes)[: self._bitlength]
        return " ".join(bits[at : at + 4] for at in range(0, len(bits), 4))

    def to_int(self, bitorder: _Order = "big", *, signed: bool = False) -> int:
        bits = self.as_string().replace(" ", "")
        if bitorder not in ("big", "little"):
            raise ValueError(f"invalid bit order: {bitorder!r}")
        bits = bits if bitorder == "big" else bits[::-1]
        number = int(bits or "0", 2)
        return number - (1 << len(bits)) if signed and bits[:1] == "1" else number

    @classmethod
    def from_int(
        cls, x: int, length: int, bitorder: _Order = "big", *, signed: bool = False
    ) -> BitString:
        if bitorder not in ("big", "little"):
            raise ValueError(f"invalid bit order: {bitorder!r}")
        if length < 0:
            raise ValueError("the number of bits is negative")
        if x < 0 and not signed:
            raise OverflowError("can't convert negative integer to a BitString")
        if length < x.bit_length():
            raise OverflowError("int too big to convert")
        bits = f"{x & ((1 << length) - 1):0{length}b}" if length else ""
        return cls(bits if bitorder == "big" else bits[::-1])

    def __repr__(self) -> str:
        return f"<BitString {self.as_string()}>"

    def __len__(self) -> int:
        return self._bitlength

    def _key(self) -> tuple[Any, ...]:
        return self._bytes, self._bitlength

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, BitString) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


class Point(tuple[float, float]):
    __slots__ = ()

    def __new__(cls, x: Any, y: Any) -> Point:
        return super().__new__(cls, (float(x), float(y)))

    x = property(lambda self: self[0])
    y = property(lambda self: self[1])

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}({tuple.__repr__(self)})"


def _point(point: Any) -> Point:
    return point if isinstance(point, Point) else Point(*point)


class Box(tuple[Point, Point]):
    __slots__ = ()

    def __new__(cls, high: Any, low: Any) -> Box:
        return super().__new__(cls, (_point(high), _point(low)))

    high = property(lambda self: self[0])
    low = property(lambda self: self[1])

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}({tuple.__repr__(self)})"


class Line(tuple[float, float, float]):
    __slots__ = ()

    def __new__(cls, A: Any, B: Any, C: Any) -> Line:
        return super().__new__(cls, (A, B, C))

    A = property(lambda self: self[0])
    B = property(lambda self: self[1])
    C = property(lambda self: self[2])


class LineSegment(tuple[Point, Point]):
    __slots__ = ()

    def __new__(cls, p1: Any, p2: Any) -> LineSegment:
        return super().__new__(cls, (_point(p1), _point(p2)))

    p1 = property(lambda self: self[0])
    p2 = property(lambda self: self[1])

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}({tuple.__repr__(self)})"


class Path:
    """Points in a row; closed unless it is said otherwise, or the points are a list."""

    __slots__ = ("_is_closed", "points")

    def __init__(self, *points: Any, is_closed: bool = False) -> None:
        self.points = tuple(_point(point) for point in points)
        self._is_closed = is_closed

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Path):
            return NotImplemented
        return self.points == other.points and self.is_closed == other.is_closed

    def __hash__(self) -> int:
        return hash((self.points, self.is_closed))

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, place: int) -> Point:
        return self.points[place]

    def __contains__(self, point: object) -> bool:
        return point in self.points


class Polygon(Path):
    __slots__ = ()

    def __init__(self, *points: Any) -> None:
        super().__init__(*points, is_closed=True)


class Circle(tuple[Point, float]):
    __slots__ = ()

    def __new__(cls, center: Any, radius: Any) -> Circle:
        return super().__new__(cls, (_point(center), radius))

    center = property(lambda self: self[0])
    radius = property(lambda self: self[1])

    def __repr__(self) -> str:
        return f"{type(self).__module__}.{type(self).__name__}({tuple.__repr__(self)})"
