"""Configuration: a connection string, keyword arguments, libpq's environment.

The keywords are the same in all languages.
"""

from __future__ import annotations

import os
import re
import ssl
import stat
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from . import _native

_KEYWORDS = {name: (variable, default) for name, variable, default in _native.keywords()}

#: What the engine is told of a connection, under the same names.
_OF_ENGINE = (
    "scram_iterations_max",
    "in_flight_max",
    "in_flight_bytes_max",
    "queue_max",
    "queue_bytes_max",
    "stall_timeout_ms",
    "prepare_threshold",
)

#: What the policy of the pool is told, under the same names.
_OF_POOL = (
    "connections_max",
    "connections_min",
    "waiting_max",
    "wait_timeout_ms",
    "idle_timeout_ms",
    "lifetime_ms",
    "slow_head_ms",
)

_URL = re.compile(
    r"postgres(?:ql)?://(?:([^:@/?#]*)(?::([^@/?#]*))?@)?([^@/?#]*)(?:/([^?#]*))?(?:\?([^#]*))?\Z"
)
#: A field of the password file, and what stands in it behind a backslash.
_FIELD = re.compile(r"((?:\\.|[^:\\])*)(?::|$)")
_ESCAPED = re.compile(r"\\(.)")
_HOST = re.compile(r"(?:\[([^\]]*)\]|([^:]*))(?::([0-9]*))?\Z")

Password = Callable[[], "str | Awaitable[str]"]


@dataclass(frozen=True)
class Endpoint:
    host: str
    port: int

    @property
    def letter(self) -> str:
        """What it is, for the plan: a socket, an address, a name."""
        if self.host.startswith("/"):
            return "s"
        return "n" if _address(self.host) is None else "a"

    @property
    def path(self) -> str:
        return f"{self.host}/.s.PGSQL.{self.port}"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Config:
    """What a client was told."""

    def __init__(
        self,
        dsn: str | None,
        settings: dict[str, Any],
        ssl: ssl.SSLContext | None = None,
        password: Password | None = None,
    ) -> None:
        texts = _read_url(dsn) if dsn is not None else {}
        texts.update({name: str(value) for name, value in settings.items() if value is not None})
        for name, (variable, _) in _KEYWORDS.items():
            if variable and os.environ.get(variable):
                texts.setdefault(name, os.environ[variable])
        self._texts = {name: _native.setting(name, text) for name, text in texts.items() if text}
        self.context = ssl
        self.password = password
        self.user = self._texts.get("user") or _of_the_system()
        self.dbname = self._texts.get("dbname") or self.user
        self.endpoints = _endpoints(self._texts.get("host") or "localhost", self.said("port"))

    def text(self, name: str) -> str | None:
        return self._texts.get(name)

    def said(self, name: str) -> str:
        """What was set, or what holds otherwise."""
        return self._texts.get(name) or _KEYWORDS[name][1]

    def is_on(self, name: str) -> bool:
        return self.said(name) == "1"

    @property
    def sslmode(self) -> str:
        """Who gives a context wants TLS, and so does who has it begin at once."""
        is_strict = self.context is not None or self.text("sslrootcert") == "system"
        mode = self.text("sslmode") or ("verify-full" if is_strict else self.said("sslmode"))
        is_sure = self.context is not None or self.said("sslnegotiation") == "direct"
        return "require" if is_sure and mode in ("allow", "prefer") else mode

    def password_of_file(self, endpoint: Endpoint) -> str | None:
        """What the password file has for a server. One that others can read is not used."""
        try:
            file = self.text("passfile") or os.path.expanduser("~/.pgpass")
            mode = os.stat(file).st_mode
            if not stat.S_ISREG(mode):
                return None
            if os.name == "posix" and mode & 0o077:
                message = f"{file} is not used, since others can access it: chmod 600 the file"
                warnings.warn(message, stacklevel=2)
                return None
            with open(file, encoding="utf-8", errors="replace") as opened:
                lines = opened.read().splitlines()
        except OSError:
            return None
        host = "localhost" if endpoint.letter == "s" else endpoint.host
        wanted = (host, str(endpoint.port), self.dbname, self.user)
        for line in lines:
            fields = [] if line.startswith("#") else _FIELD.findall(line)
            read = [_ESCAPED.sub(r"\1", field) for field in fields]
            fits = all(f == "*" or r == w for f, r, w in zip(fields, read, wanted))
            if len(read) >= 5 and fits:
                return read[4]
        return None

    def plan(self, seed: int) -> _native.Plan:
        words = (
            self.sslmode,
            self.said("sslnegotiation"),
            self.said("target_session_attrs"),
            self.said("load_balance_hosts"),
        )
        hosts = "".join(endpoint.letter for endpoint in self.endpoints)
        return _native.Plan(hosts, words, int(self.said("connect_timeout")), seed)

    def of_pool(self) -> list[tuple[str, str]]:
        settings = [(name, self._texts[name]) for name in _OF_POOL if name in self._texts]
        if self.said("idle_order") in ("fifo", "oldest"):
            settings.append(("oldest_first", "1"))
        return settings

    def of_engine(
        self, password: str | None, address: str, secure: bool, binding: bytes | None
    ) -> list[tuple[str, str]]:
        """What the engine is told of one connection. ``secure``: the server was verified."""
        settings = [
            ("user", self.user),
            ("database", self.dbname),
            ("secure_channel", "1" if secure or _is_local(address) else "0"),
            ("allow_cleartext", self.said("allow_plain_password")),
            ("statements_max", self.said("prepared_max")),
        ]
        if password is not None:
            settings.append(("password", password))
        if binding is not None and self.said("channel_binding") != "disable":
            settings.append(("channel_binding", binding.hex()))
        settings += [(name, self._texts[name]) for name in _OF_ENGINE if name in self._texts]
        application = self.text("application_name") or self.text("fallback_application_name")
        if application:
            settings.append(("parameter.application_name", application))
        options = self.text("options")
        if options:
            settings.append(("parameter.options", options))
        return settings


# What few programs need, and what is slow to import, is imported where it is used.


def _of_the_system() -> str:
    import getpass

    return getpass.getuser()


def _address(text: str) -> Any:
    """None where it is none."""
    import ipaddress

    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_local(address: str) -> bool:
    if address.startswith("/"):
        return True
    found = _address(address)
    return found is not None and bool(found.is_loopback)


def _read_url(dsn: str) -> dict[str, str]:
    from urllib.parse import unquote

    parts = _URL.match(dsn)
    if parts is None:
        raise ValueError("onetrip: a connection string begins with postgres:// or postgresql://")
    user, password, hosts, dbname, query = parts.groups()
    texts = {"user": user, "password": password, "dbname": dbname}
    texts = {name: unquote(text) for name, text in texts.items() if text}
    if hosts:
        found = [_HOST.match(one) for one in hosts.split(",")]
        if None in found:
            raise ValueError("onetrip: a host of the connection string can't be read")
        of = [match.groups() for match in found if match is not None]
        texts["host"] = ",".join(unquote(inside or plain or "") for inside, plain, _ in of)
        if any(port for _, _, port in of):
            texts["port"] = ",".join(port or "" for _, _, port in of)
    for pair in filter(None, (query or "").split("&")):
        name, equals, text = pair.partition("=")
        if not equals:
            raise ValueError(f"onetrip: the parameter {unquote(name)} has no value")
        texts[unquote(name)] = unquote(text)
    return texts


def _endpoints(hosts: str, ports: str) -> list[Endpoint]:
    names, numbers = hosts.split(","), ports.split(",")
    if len(numbers) not in (1, len(names)):
        raise ValueError("onetrip: there is one port for all hosts, or one for each")
    if len(numbers) == 1:
        numbers *= len(names)
    try:
        found = [Endpoint(n or "localhost", int(p or 5432)) for n, p in zip(names, numbers)]
    except ValueError:
        found = []
    if not all(1 <= endpoint.port <= 65535 for endpoint in found) or not found:
        raise ValueError("onetrip: a port is a number from 1 to 65535")
    return found
