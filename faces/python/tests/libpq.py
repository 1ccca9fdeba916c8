"""libpq itself, by its library, and servers that only note who comes to them."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[3] / "target"
SSL_REQUEST, GSS_REQUEST = 80877103, 80877104
#: "cannot connect now": libpq goes on to the next host.
LATER = b"SFATAL\0C57P03\0Mlater\0\0"
_TRIED = re.compile(
    r'connection to server (?:on socket "(.*)/\.s\.PGSQL\.(\d+)"|at "(.*?)", port (\d+)) failed'
)


class _Option(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_char_p) for name in ("keyword", "envvar", "compiled", "val")],
        *[(name, ctypes.c_char_p) for name in ("label", "dispchar")],
        ("dispsize", ctypes.c_int),
    ]


class Libpq:
    def __init__(self, path: str) -> None:
        self._lib = ctypes.CDLL(path)
        self.version = self._lib.PQlibVersion() // 10000
        self._lib.PQconnectdb.restype = ctypes.c_void_p
        self._lib.PQconninfo.restype = ctypes.POINTER(_Option)
        for name in ("PQerrorMessage", "PQdb", "PQuser"):
            getattr(self._lib, name).restype = ctypes.c_char_p

    def tried(self, text: str) -> tuple[str, dict[str, str | None]]:
        """Connects, in vain. What it says, and its settings."""
        conn = ctypes.c_void_p(self._lib.PQconnectdb(text.encode()))
        try:
            says = self._lib.PQerrorMessage(conn).decode()
            options, settings = self._lib.PQconninfo(conn), {}
            for option in options:
                if option.keyword is None:
                    break
                value = option.val
                settings[option.keyword.decode()] = None if value is None else value.decode()
            self._lib.PQconninfoFree(options)
            for name, of in (("dbname", self._lib.PQdb), ("user", self._lib.PQuser)):
                value = of(conn)
                settings[name] = None if value is None else value.decode()
            return says, settings
        finally:
            self._lib.PQfinish(conn)


def libraries() -> list[Libpq]:
    """That of this machine, and those that came with the servers of `scripts/setup`; from 15 on,
    which is the first that looks for its files in HOME.
    """
    paths = [str(path) for path in sorted(TARGET.glob("postgres/*/lib/libpq.so.5"))]
    found = [Libpq(path) for path in [ctypes.util.find_library("pq"), *paths] if path]
    return [one for one in found if one.version >= 15]


def servers_of(says: str) -> list[tuple[str, str]]:
    """Address (or else the host) and port of each server that was tried, in that order."""
    found = _TRIED.findall(says)
    return [(path or host, port or number) for path, port, host, number in found]


class Noted:
    """Sockets that ask everybody for a password, and then have no time."""

    def __init__(self) -> None:
        self.passwords: list[str | None] = []
        self.startups: list[dict[str, str]] = []
        self._sockets: list[socket.socket] = []

    def tcp(self) -> str:
        of = socket.create_server(("127.0.0.1", 0))
        self._serve(of)
        return str(of.getsockname()[1])

    def unix(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        of = socket.socket(socket.AF_UNIX)
        of.bind(str(path))
        of.listen()
        self._serve(of)

    def _serve(self, of: socket.socket) -> None:
        self._sockets.append(of)
        threading.Thread(target=self._accept, args=(of,), daemon=True).start()

    def _accept(self, of: socket.socket) -> None:
        while True:
            try:
                with of.accept()[0] as client:
                    client.settimeout(10)
                    self._answer(client)
            except ConnectionError:
                pass
            except OSError:
                return

    def _answer(self, client: socket.socket) -> None:
        length, code = struct.unpack("!II", _exactly(client, 8))
        while code in (SSL_REQUEST, GSS_REQUEST):
            client.sendall(b"N")
            length, code = struct.unpack("!II", _exactly(client, 8))
        words = _exactly(client, length - 8).decode().split("\0")
        self.startups.append(dict(zip(words[::2], words[1::2])))
        self.passwords.append(None)
        client.sendall(b"R" + struct.pack("!II", 8, 3))
        kind, length = struct.unpack("!cI", _exactly(client, 5))
        if kind == b"p":
            self.passwords[-1] = _exactly(client, length - 4)[:-1].decode()
        client.sendall(b"E" + struct.pack("!I", len(LATER) + 4) + LATER)

    def close(self) -> None:
        for of in self._sockets:
            of.shutdown(socket.SHUT_RDWR)
            of.close()


def _exactly(client: socket.socket, count: int) -> bytes:
    read = b""
    while len(read) < count:
        more = client.recv(count - len(read))
        if not more:
            raise ConnectionResetError
        read += more
    return read


@contextmanager
def noted() -> Iterator[Noted]:
    servers = Noted()
    try:
        yield servers
    finally:
        servers.close()


def filled(of: Any, places: dict[str, str]) -> Any:
    """The case with what stands for ``{home}`` and the ports."""
    if isinstance(of, str):
        for name, text in places.items():
            of = of.replace("{" + name + "}", text)
        return of
    if isinstance(of, list):
        return [filled(one, places) for one in of]
    if isinstance(of, dict):
        return {filled(name, places): filled(one, places) for name, one in of.items()}
    return of
