"""Configuration: a URL and keyword arguments, under the same names in all languages."""

from __future__ import annotations

import copy
import math
import re
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from .._config import refuse_broken, said_of_tls

_MIB = 1 << 20

#: Settings that are numbers, with their defaults. Times are in milliseconds.
_NUMBERS = {
    "db": 0,
    "protocol": 3,
    "connect_timeout_ms": 10_000,
    "wait_timeout_ms": 5_000,
    "idle_timeout_ms": 60_000,
    "stall_timeout_ms": 30_000,
    "connections_max": 64,
    "in_flight_bytes_max": 16 * _MIB,
    "queue_bytes_max": 16 * _MIB,
    "reply_bytes_max": 513 * _MIB,
    "redirects_max": 5,
    "request_timeout_ms": 0,
    "attempts_max": 3,
}
#: Of which 0 means something.
_FROM_ZERO = ("db", "request_timeout_ms")
_FLAGS = ("cluster", "replica_reads", "repeat_reads")
_TEXTS = ("host", "user", "password", "client_name", "path")
_OF_SENTINELS = ("sentinel_username", "sentinel_password", "reads")
_TLS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
_MODES = ("disable", "require", "verify-ca", "verify-full")

#: Commands that wait for a connection at most.
_WAITING_MAX = 1_000_000

_URL = re.compile(r"([a-z+]+):(//)?([^?]*)(?:\?(.*))?\Z", re.IGNORECASE | re.DOTALL)
_HOST = re.compile(r"(?:\[([^\]]*)\]|([^:]*))(?::([0-9]*))?\Z")
_PORT = 6379
_SENTINEL_PORT = 26379


@dataclass(frozen=True)
class Server:
    host: str
    port: int
    path: str | None = None

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


class Config:
    """What a client was told."""

    def __init__(
        self, url: str | None, settings: dict[str, Any], context: ssl.SSLContext | None = None
    ) -> None:
        read = _read_url(url) if url is not None else ({}, [], False, None)
        texts, servers, is_tls_url, self.master = read
        texts.update({name: value for name, value in settings.items() if value is not None})
        known = (*_NUMBERS, *_FLAGS, *_TEXTS, *_TLS, *_OF_SENTINELS, "port", "cache")
        for name, text in texts.items():
            if name not in known:
                raise ValueError(f"onetrip: {name} is not a setting")
            if "\0" in str(text):
                raise ValueError(f"onetrip: {name} has a zero byte in it")
        self.numbers = {name: _number(name, texts.get(name, of)) for name, of in _NUMBERS.items()}
        for name, number in self.numbers.items():
            if number == 0 and name not in _FROM_ZERO:
                raise ValueError(f"onetrip: {name} takes a number from 1")
        if self.numbers["protocol"] not in (2, 3):
            raise ValueError("onetrip: protocol is 2 or 3")
        self.cluster, self.replica_reads, self.repeat_reads = (_flag(name, texts.get(name)) for name in _FLAGS)
        self.user, self.password, self.client_name = (
            None if texts.get(name) is None else str(texts[name])
            for name in ("user", "password", "client_name")
        )
        #: Gives each new connection its user and password, or its password alone.
        self.provider: Callable[[], Awaitable[tuple[str, ...]]] | None = None
        #: The name and the version of the library, for CLIENT LIST.
        self.library: dict[str, str] = {}
        #: Options of TCP sockets: level, name and value.
        self.socket_options: list[tuple[int, int, Any]] = []
        #: Bytes of replies that are kept.
        self.cache = _size("cache", texts.get("cache", 0))
        self.servers = _servers(texts, servers)
        #: The login at the Sentinels, and who answers reads; ``master`` is the name there.
        self.sentinels = {name: str(texts[name]) for name in _OF_SENTINELS if name in texts}
        if self.sentinels.get("reads", "master") not in ("master", "replica", "prefer_replica"):
            raise ValueError("onetrip: reads takes master, replica or prefer_replica")
        self.is_node = False
        is_tls = is_tls_url or context is not None
        mode = str(texts.get("sslmode", "verify-full" if is_tls else "disable"))
        is_rediss = is_tls_url and context is None and settings.get("sslmode") is None
        self._check_rules(mode, texts, said_of_tls(context), is_rediss)
        self.context = _context(mode, texts) if context is None else context
        self.checks_name = self.context is not None and self.context.check_hostname

    def _check_rules(
        self, mode: str, texts: dict[str, Any], of_tls: dict[str, str], is_rediss: bool
    ) -> None:
        """Refuses settings that contradict each other, or that say nothing where they stand."""
        said = {name: str(texts[name]) for name in (*_TLS, "host", "path") if name in texts}
        in_force = {
            **said,
            **of_tls,
            **self.sentinels,
            "rediss": "1" if is_rediss else "",
            "sslmode": mode,
            "sslcertmode": "allow",
            "master": self.master or "",
            "protocol": str(self.numbers["protocol"]),
            "db": "1" if self.numbers["db"] else "",
            "cluster": "1" if self.cluster else "",
            "cache": "1" if self.cache else "",
            "replica_reads": "1" if self.replica_reads else "",
        }
        refuse_broken("redis", in_force)
        refuse_broken("tls", {**said, **of_tls})

    def how(self, raw: bool = False) -> dict[str, Any]:
        """How commands are sent."""
        return {
            "raw": raw,
            "cache": None,
            "sentinel": None,
            "replica": None,
            "caches": True,
            "repeatable": False,
            "alone": False,
            "repeat_reads": self.repeat_reads,
            "attempts_max": self.numbers["attempts_max"],
            "timeout_ms": self.numbers["request_timeout_ms"],
        }

    def of_node(self, server: Server) -> Config:
        """The same for a node of a cluster."""
        of = copy.copy(self)
        of.servers, of.is_node = [server], True
        return of

    def of_pool(
        self, is_shared: bool, is_kept: bool = False, connects: bool = False
    ) -> list[tuple[str, str]]:
        """One connection that all share, or those that one caller has. ``is_kept``: there is always
        one, whether or not somebody waits for it. ``connects``: a client is opened by its first one.
        """
        settings = {
            "connections_min": 1 if is_kept else 0,
            "connections_max": 1 if is_shared else self.numbers["connections_max"],
            "wait_timeout_ms": self.numbers["wait_timeout_ms"],
            "idle_timeout_ms": 0 if is_shared else self.numbers["idle_timeout_ms"],
            "lifetime_ms": 0,
            "waiting_max": _WAITING_MAX,
            "backoff_min_ms": 50,
            "backoff_max_ms": 5_000,
            # Behind those that it is to change.
            "seated": 0 if self.master is None else 1,
            "connects": 1 if connects else 0,
            # What has a connection to itself also waits for one that is lent.
            "node": 1 if self.is_node and is_shared else 0,
        }
        return [(name, str(value)) for name, value in settings.items()]

    def of_sentinels(self) -> list[tuple[str, str]]:
        names = {"sentinel_username": "user", "sentinel_password": "password", "reads": "reads"}
        settings = [("sentinel", f"{server.host}:{server.port}") for server in self.servers]
        settings += [(names[name], text) for name, text in self.sentinels.items()]
        settings.append(("wait_timeout_ms", str(self.numbers["wait_timeout_ms"])))
        return [("master", self.master or ""), *settings]

    async def of_engine(self, is_subscriber: bool, tracks: bool) -> list[tuple[str, str]]:
        names = ("protocol", "reply_bytes_max", "in_flight_bytes_max", "queue_bytes_max")
        settings = [(name, str(self.numbers[name])) for name in (*names, "stall_timeout_ms")]
        settings.append(("database", str(self.numbers["db"])))
        settings.append(("readonly", "1" if self.is_node and self.replica_reads else "0"))
        settings.append(("subscriber", "1" if is_subscriber else "0"))
        settings.append(("tracking", "1" if tracks else "0"))
        login = {"user": self.user, "password": self.password, "client_name": self.client_name}
        login |= self.library
        if self.provider is not None:
            *user, password = await self.provider()
            login |= {"user": user[0] if user else None, "password": password}
        return settings + [(name, value) for name, value in login.items() if value is not None]


def milliseconds(seconds: float) -> int:
    if not 0 <= seconds < 1e9:
        raise ValueError("onetrip: a timeout is a number of seconds, or 0 for none")
    return math.ceil(seconds * 1000)


def _number(name: str, value: Any) -> int:
    text = str(value)
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"onetrip: {name} takes a whole number of at least 0")
    return int(text)


_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _size(name: str, value: Any) -> int:
    match = re.fullmatch(r"([0-9]{1,15})(|KiB|MiB|GiB)", str(value))
    if match is None:
        raise ValueError(f"onetrip: {name} takes a number of bytes, or of KiB, MiB or GiB: 64MiB")
    digits, unit = match.groups()
    return int(digits) * _UNITS[unit]


def _flag(name: str, value: Any) -> bool:
    if value in (None, False, "0", "false"):
        return False
    if value in (True, "1", "true"):
        return True
    raise ValueError(f"onetrip: {name} takes 0 or 1")


def _servers(texts: dict[str, Any], named: list[Server]) -> list[Server]:
    if texts.get("path") is not None:
        return [Server("", 0, str(texts["path"]))]
    if named and "host" not in texts and "port" not in texts:
        return named
    first = named[0] if named else Server("127.0.0.1", _PORT)
    host = str(texts.get("host", first.host))
    return [Server(host, _port(texts.get("port", first.port)))]


def _port(port: Any) -> int:
    number = _number("port", port)
    if not 1 <= number <= 65535:
        raise ValueError("onetrip: a port is a number from 1 to 65535")
    return number


def _read_url(url: str) -> tuple[dict[str, Any], list[Server], bool, str | None]:
    """Settings, servers, whether TLS is spoken, and the name of the master at Sentinels."""
    parts = _URL.match(url)
    scheme = parts.group(1).lower() if parts is not None else ""
    plain, plus, kind = scheme.partition("+")
    is_tls, is_unix = plain in ("rediss", "valkeys"), scheme.split("+")[-1] == "unix"
    is_known = (is_tls or plain in ("redis", "valkey")) and (not plus or kind == "sentinel")
    if "#" in url:
        raise ValueError("onetrip: a # in a URL is written as %23")
    if parts is None or not (is_unix or is_known):
        schemes = "redis://, rediss://, redis+sentinel://, rediss+sentinel:// or unix:"
        raise ValueError(f"onetrip: a URL begins with {schemes}")
    _, slashes, rest, query = parts.groups()
    if not is_unix and slashes is None:
        raise ValueError(f"onetrip: a URL begins with {scheme}://")
    login, _, place = rest.rpartition("@")
    user, _, password = login.partition(":")
    texts: dict[str, Any] = {"user": unquote(user) or None, "password": unquote(password) or None}
    texts = {name: text for name, text in texts.items() if text}
    servers: list[Server] = []
    master = None
    if is_unix:
        if not place.startswith("/"):
            raise ValueError("onetrip: unix: takes the absolute path of a socket")
        texts["path"] = unquote(place)
    else:
        hosts, _, database = place.partition("/")
        default = _PORT
        if kind == "sentinel":
            named, _, database = database.partition("/")
            master, default = unquote(named), _SENTINEL_PORT
            if not (hosts and master):
                raise ValueError(
                    "onetrip: a URL of Sentinels names them and the master: "
                    "redis+sentinel://host,host/mymaster"
                )
        servers = [_read_server(host, default) for host in hosts.split(",")]
        if database:
            texts["db"] = unquote(database)
    for pair in filter(None, (query or "").split("&")):
        name, _, text = pair.partition("=")
        texts[unquote(name)] = unquote(text)
    return texts, servers, is_tls, master


def _read_server(text: str, default: int) -> Server:
    match = _HOST.match(text)
    if match is None:
        raise ValueError("onetrip: a host of the URL can't be read")
    inside, plain, port = match.groups()
    return Server(unquote(inside or plain or "") or "127.0.0.1", _port(port or default))


def _context(mode: str, texts: dict[str, Any]) -> ssl.SSLContext | None:
    if mode not in _MODES:
        raise ValueError(f"onetrip: sslmode is one of {', '.join(_MODES)}")
    if mode == "disable":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = mode == "verify-full"
    root = texts.get("sslrootcert")
    # Who names an authority wants it looked at, as in libpq.
    verifies = mode != "require" or root is not None
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    try:
        if root is not None and root != "system":
            context.load_verify_locations(str(root))
        elif verifies:
            context.load_default_certs()
        if texts.get("sslcert") is not None:
            context.load_cert_chain(str(texts["sslcert"]), str(texts["sslkey"]), "")
    except (OSError, ValueError) as error:
        raise ValueError(
            "onetrip: sslrootcert, sslcert and sslkey have to be files that can be read, and a key "
            f"that fits: {error}"
        ) from None
    return context
