"""Types that asyncpg gives a form of their own: networks, bits, shapes, places of rows."""

from __future__ import annotations

import ipaddress
import re
import struct
from typing import Any

from .. import _native
from .types import BitString, Box, Circle, Line, LineSegment, Path, Point, Polygon


_PLAIN = re.compile(r"[0-9A-Fa-f:.]+(/[0-9]+)?", re.ASCII)


def _net(value: Any, is_cidr: bool) -> bytes:
    family = 2 if value.version == 4 else 3
    network = getattr(value, "network", value)
    bits = network.prefixlen if hasattr(network, "prefixlen") else value.max_prefixlen
    packed = value.network_address.packed if is_cidr else value.packed
    return bytes((family, bits, is_cidr, len(packed))) + packed


def _write_cidr(value: Any) -> bytes:
    return _net(ipaddress.ip_network(value), True)


def _write_inet(value: Any) -> bytes:
    try:
        return _net(ipaddress.ip_address(value), False)
    except ValueError:
        return _net(ipaddress.ip_interface(value), False)


def _is_inet(text: str) -> bool:
    """Whether the server reads a text as Python does: it knows no netmasks and no zones. The text
    leaves as it is then, since the column may be one of texts by now."""
    return _is_plain(text) and _is_one(ipaddress.ip_interface, text)


def _is_cidr(text: str) -> bool:
    return _is_plain(text) and _is_one(ipaddress.ip_network, text)


def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None


def _is_one(read: Any, text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _read_net(data: bytes) -> Any:
    _, bits, is_cidr, length = data[:4]
    address = data[4:]
    if is_cidr:
        return ipaddress.ip_network((address, bits))
    if bits == length * 8:
        return ipaddress.ip_address(address)
    return ipaddress.ip_interface((address, bits))


def _write_bits(value: Any) -> bytes:
    if isinstance(value, str):
        value = BitString(value)
    elif not isinstance(value, BitString):
        value = BitString.frombytes(bytes(value))
    return struct.pack("!i", len(value)) + value.bytes


def _read_bits(data: bytes) -> BitString:
    return BitString.frombytes(data[4:], struct.unpack_from("!i", data)[0])


def _points(data: bytes, at: int = 0) -> list[Point]:
    return [Point(x, y) for x, y in struct.iter_unpack("!dd", data[at:])]


def _flat(*points: Any) -> bytes:
    return b"".join(struct.pack("!dd", *point) for point in points)


def _write_path(value: Any) -> bytes:
    is_closed = value.is_closed if isinstance(value, Path) else not isinstance(value, list)
    points = list(value)
    return struct.pack("!?i", is_closed, len(points)) + _flat(*points)


def _read_path(data: bytes) -> Path:
    return Path(*_points(data, 5), is_closed=bool(data[0]))


def _write_polygon(value: Any) -> bytes:
    points = list(value)
    return struct.pack("!i", len(points)) + _flat(*points)


def _write_circle(value: Any) -> bytes:
    return struct.pack("!ddd", *value[0], value[1])


def _read_circle(data: bytes) -> Circle:
    x, y, radius = struct.unpack("!ddd", data)
    return Circle((x, y), radius)


def _write_snapshot(value: Any) -> bytes:
    least, next_, running = value
    return struct.pack(f"!iqq{len(running)}q", len(running), least, next_, *running)


def _read_snapshot(data: bytes) -> tuple[int, int, tuple[int, ...]]:
    _, least, next_, *running = struct.unpack(f"!iqq{(len(data) - 20) // 8}q", data)
    return least, next_, tuple(running)


def _write_tid(value: Any) -> bytes:
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"list or tuple expected, got {type(value).__name__}")
    if len(value) != 2:
        raise ValueError(f"invalid number of elements in tid tuple, expecting 2, got {len(value)}")
    block, offset = value
    if not 0 <= block < 1 << 32:
        raise OverflowError("tuple id block value out of uint32 range")
    if not 0 <= offset < 1 << 16:
        raise OverflowError("tuple id offset value out of uint16 range")
    return struct.pack("!IH", block, offset)


#: By the numbers of types (src/include/catalog/pg_type.dat).
_CODECS: dict[int, tuple[Any, Any]] = {
    27: (_write_tid, lambda data: struct.unpack("!IH", data)),
    600: (_flat, lambda data: _points(data)[0]),
    601: (lambda it: _flat(*it), lambda data: LineSegment(*_points(data))),
    602: (_write_path, _read_path),
    603: (lambda it: _flat(*it), lambda data: Box(*_points(data))),
    604: (_write_polygon, lambda data: Polygon(*_points(data, 4))),
    628: (lambda it: struct.pack("!ddd", *it), lambda data: Line(*struct.unpack("!ddd", data))),
    718: (_write_circle, _read_circle),
    650: (_write_cidr, _read_net),
    869: (_write_inet, _read_net),
    1560: (_write_bits, _read_bits),
    1562: (_write_bits, _read_bits),
    2970: (_write_snapshot, _read_snapshot),
    5038: (_write_snapshot, _read_snapshot),
    3220: (lambda it: struct.pack("!Q", it), lambda data: struct.unpack("!Q", data)[0]),
    5069: (lambda it: struct.pack("!Q", it), lambda data: struct.unpack("!Q", data)[0]),
}


#: Which texts leave as they are.
_TEXTS: dict[int, Any] = {650: _is_cidr, 869: _is_inet}


def register(core: _native.Core) -> None:
    for oid in _CODECS:
        _set(core, oid)


def _set(core: _native.Core, oid: int) -> None:
    core.set_codec(oid, "binary", *_CODECS[oid], _TEXTS.get(oid))


def restore(core: _native.Core, oid: int) -> None:
    """As it was before a user has set a codec of his own."""
    core.reset_codec(oid)
    if oid in _CODECS:
        _set(core, oid)


def write_hstore(value: Any) -> bytes:
    pairs = list(value.items() if hasattr(value, "items") else value)
    if any(key is None for key, _ in pairs):
        raise ValueError("null value not allowed in hstore key")
    parts = [struct.pack("!i", len(pairs))]
    for text in (it for pair in pairs for it in pair):
        data = None if text is None else text.encode()
        parts.append(b"\xff\xff\xff\xff" if data is None else struct.pack("!i", len(data)) + data)
    return b"".join(parts)


def read_hstore(data: bytes) -> dict[str, str | None]:
    texts: list[str | None] = []
    at = 4
    while at < len(data):
        (length,) = struct.unpack_from("!i", data, at)
        at += 4
        texts.append(None if length < 0 else data[at : at + length].decode())
        at += max(length, 0)
    return {key: value for key, value in zip(texts[::2], texts[1::2]) if key is not None}
