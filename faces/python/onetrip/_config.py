"""Configuration: a connection string, keyword arguments, libpq's environment.

The keywords are the same in all languages.
"""

from __future__ import annotations

import copy
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
    "target_session_attrs",
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
    "yield_after_ms",
)

_URL = re.compile(
    r"postgres(?:ql)?://(?:([^:@/?#]*)(?::([^@/?#]*))?@)?([^@/?#]*)(?:/([^?#]*))?(?:\?([^#]*))?\Z"
)
_HOST = re.compile(r"(?:\[([^\]]*)\]|([^:]*))(?::([0-9]*))?\Z")

Password = Callable[[], "str | Awaitable[str]"]


@dataclass(frozen=True)
class Endpoint:
    host: str
    port: int
    #: The one of ``hostaddr``, which saves the lookup.
    address: str | None = None

    @property
    def letter(self) -> str:
        """What it is, for the plan: a socket, an address, a name."""
        if self.address is not None:
            return "a"
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
        in_program = {**texts, **said_of_tls(ssl)}
        _add_service(texts)
        _add_environment(texts)
        self._texts = {name: _native.setting(name, text) for name, text in texts.items() if text}
        self.context = ssl
        self.password = password
        self.user = self._texts.get("user") or _of_the_system()
        self.dbname = self._texts.get("dbname") or self.user
        hosts, addresses = self._texts.get("host", ""), self._texts.get("hostaddr", "")
        self.endpoints = _endpoints(hosts, addresses, self.said("port"))
        #: Whether its connections lead to a replica, and serve reads alone.
        self.is_replica = False
        if self.has_replicas:
            self._texts.setdefault("target_session_attrs", "primary")
        self._check_rules(in_program)
        self._check_tls()

    def text(self, name: str) -> str | None:
        return self._texts.get(name)

    def said(self, name: str) -> str:
        """What was set, or what holds otherwise."""
        return self._texts.get(name) or _KEYWORDS[name][1]

    def is_on(self, name: str) -> bool:
        return self.said(name) == "1"

    @property
    def has_replicas(self) -> bool:
        return self.said("reads") != "primary" and not self.is_replica

    def of_replicas(self) -> list[Config]:
        """Every server of the list by itself. One that is no standby is refused."""
        found = []
        for endpoint in self.endpoints:
            one = copy.copy(self)
            one._texts = {**self._texts, "target_session_attrs": "standby"}
            one.endpoints, one.is_replica = [endpoint], True
            found.append(one)
        return found

    @property
    def sslmode(self) -> str:
        """Who gives a context wants TLS."""
        is_strict = self.context is not None or self.text("sslrootcert") == "system"
        mode = self.text("sslmode") or ("verify-full" if is_strict else self.said("sslmode"))
        return "require" if self.context is not None and mode in ("allow", "prefer") else mode

    def password_of_file(self, endpoint: Endpoint) -> str | None:
        """What the password file has for a server. One that others can read is not used."""
        try:
            file = self.text("passfile") or os.path.expanduser("~/.pgpass")
            mode = os.stat(file).st_mode
            if not stat.S_ISREG(mode):
                warnings.warn(f"{file} is not used, since it is not a plain file", stacklevel=2)
                return None
            if os.name == "posix" and mode & 0o077:
                message = f"{file} is not used, since others can access it: chmod 600 the file"
                warnings.warn(message, stacklevel=2)
                return None
            with open(file, encoding="utf-8", errors="replace") as opened:
                text = opened.read()
        except OSError:
            return None
        wanted = (endpoint.host, str(endpoint.port), self.dbname, self.user)
        return _native.password_of(text, wanted)

    def _check_rules(self, in_program: dict[str, str]) -> None:
        """Refuses settings that contradict each other, or that say nothing where they stand."""
        in_force = {
            **self._texts,
            **said_of_tls(self.context),
            "sslmode": self.sslmode,
            "sslnegotiation": self.said("sslnegotiation"),
            "sslcertmode": self.said("sslcertmode"),
        }
        refuse_broken("postgres", in_force)
        refuse_broken("tls", in_program)

    def _check_tls(self) -> None:
        """Refuses what this language's TLS can't do."""
        oldest = _version("ssl_min_protocol_version", self.said("ssl_min_protocol_version"))
        newest = _version("ssl_max_protocol_version", self.text("ssl_max_protocol_version"))
        if newest is not None and oldest is not None and newest < oldest:
            raise ValueError(
                "onetrip: ssl_min_protocol_version is newer than ssl_max_protocol_version: raise "
                "the latter"
            )
        named = [one for one in self.endpoints if one.letter != "s" and not _address(one.host)]
        is_checked = self.sslmode == "verify-full"
        if self.context is not None:
            is_checked = self.context.check_hostname
        if named and is_checked and not self.is_on("sslsni"):
            raise ValueError(
                "onetrip: sslsni=0 does not go with sslmode=verify-full in Python, whose ssl "
                "module sends the name that it checks: leave out one of them"
            )

    def versions(self) -> tuple[int, int | None]:
        """The oldest TLS 1.x to speak, and the newest."""
        oldest = _version("ssl_min_protocol_version", self.said("ssl_min_protocol_version"))
        newest = _version("ssl_max_protocol_version", self.text("ssl_max_protocol_version"))
        return oldest or 2, newest

    def plan(self, lineage: _native.Lineage, scouts: bool) -> _native.Plan:
        words = (
            self.sslmode,
            self.said("sslnegotiation"),
            self.said("target_session_attrs"),
            self.said("load_balance_hosts"),
        )
        timeout = int(self.said("connect_timeout"))
        seed = int.from_bytes(os.urandom(8), "little")
        return _native.Plan(self._letters, words, timeout, seed, lineage, scouts)

    @property
    def _letters(self) -> str:
        return "".join(endpoint.letter for endpoint in self.endpoints)

    def of_pool(self) -> list[tuple[str, str]]:
        settings = [(name, self._texts[name]) for name in _OF_POOL if name in self._texts]
        if self.said("idle_order") in ("fifo", "oldest"):
            settings.append(("oldest_first", "1"))
        target = "target_session_attrs"
        settings += [("hosts", self._letters), (target, self.said(target))]
        # Who opens a client waits for its first connection. Those to replicas nobody waits for.
        settings.append(("connects", "0" if self.is_replica else "1"))
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
            ("replica", "1" if self.is_replica else "0"),
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


def refuse_broken(which: str, said: dict[str, str]) -> None:
    """Refuses settings that contradict each other, or that say nothing where they stand."""
    why = _native.broken(which, said)
    if why is not None:
        raise ValueError(f"onetrip: {why}")


def said_of_tls(context: ssl.SSLContext | None) -> dict[str, str]:
    """What a context says, as the rules of settings know it: all that there is to say."""
    if context is None:
        return {}
    if not isinstance(context, ssl.SSLContext):
        raise ValueError(
            "onetrip: ssl takes an ssl.SSLContext; without one TLS is asked for by sslmode, or in "
            "Redis by rediss://"
        )
    names = ("tls", "ca", "cert", "key", "passphrase", "crl", "min", "max")
    said = {name if name == "tls" else f"tls.{name}": "1" for name in names}
    said["tls.verifies"] = "0" if context.verify_mode == ssl.CERT_NONE else "1"
    said["tls.checks_name"] = "1" if context.check_hostname else "0"
    return said


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
    parts = _URL.match(dsn)
    if parts is None and dsn.startswith(("postgres://", "postgresql://")):
        raise ValueError(
            "onetrip: the connection string can't be read: of the characters @ : / ? # write those "
            "that stand in a name or a password as %40 %3A %2F %3F %23"
        )
    if parts is None:
        raise ValueError("onetrip: a connection string begins with postgres:// or postgresql://")
    user, password, hosts, dbname, query = parts.groups()
    texts = {"user": user, "password": password, "dbname": dbname}
    texts = {name: _decoded(text) for name, text in texts.items() if text}
    if hosts:
        found = [_HOST.match(one) for one in hosts.split(",")]
        if None in found:
            raise ValueError("onetrip: a host of the connection string can't be read")
        of = [match.groups() for match in found if match is not None]
        texts["host"] = ",".join(_decoded(inside or plain or "") for inside, plain, _ in of)
        if any(port for _, _, port in of):
            texts["port"] = ",".join(port or "" for _, _, port in of)
    for pair in filter(None, (query or "").split("&")):
        # JDBC's way to require TLS, as in libpq.
        name, equals, text = ("sslmode=require" if pair == "ssl=true" else pair).partition("=")
        if not equals:
            raise ValueError(f"onetrip: the parameter {_decoded(name)} has no value")
        texts[_decoded(name)] = _decoded(text)
    return texts


def _decoded(text: str) -> str:
    from urllib.parse import unquote

    if re.search("%(?![0-9A-Fa-f]{2})|%00", text):
        raise ValueError(
            "onetrip: a percent sign in the connection string stands before two hexadecimal digits,"
            " other than 00; the sign itself is %25"
        )
    return unquote(text)


def _hostaddr(text: str) -> str | None:
    if text and _address(text) is None:
        raise ValueError("onetrip: hostaddr takes IPv4 or IPv6 addresses, not names")
    return text or None


def _add_service(texts: dict[str, str]) -> None:
    """The settings of the service, where nothing else is said."""
    said = {"service": "PGSERVICE", "servicefile": "PGSERVICEFILE"}
    service, named = (texts.get(name) or os.environ.get(of) for name, of in said.items())
    if not service:
        return
    own = os.path.join(os.environ.get("APPDATA", ""), "postgresql") if os.name == "nt" else "~"
    first = named or os.path.join(os.path.expanduser(own), ".pg_service.conf")
    common = os.environ.get("PGSYSCONFDIR") or "/etc/postgresql-common"
    files = [first, os.path.join(common, "pg_service.conf")]
    for file in files:
        try:
            with open(file, encoding="utf-8", errors="replace", newline="") as opened:
                lines = _native.service(opened.read(), service)
        except OSError as error:
            if file == named:
                raise ValueError(f"onetrip: this service file can't be read: {file}") from error
            continue
        except ValueError as error:
            raise ValueError(f"onetrip: in the service file {file}, {error}") from None
        if lines is None:
            continue
        for number, name, text in lines:
            try:
                _native.setting(name, text or _KEYWORDS.get(name, ("", ""))[1])
            except ValueError as error:
                why = str(error).removeprefix("onetrip: ")
                raise ValueError(
                    f"onetrip: in the service file {file}, line {number}: {why}"
                ) from None
            # The first line of a keyword counts, as in libpq.
            texts.setdefault(name, text)
        return
    raise ValueError(f"onetrip: the service has no section in {', '.join(files)}")


def _add_environment(texts: dict[str, str]) -> None:
    """What the environment has, where nothing else is said."""
    for variable, harmless, what in _native.lacking():
        if os.environ.get(variable, harmless) not in ("", harmless):
            raise ValueError(
                f"onetrip: the environment variable {variable} asks for {what}, which isn't in "
                "this version: unset it"
            )
    for name, (variable, _) in _KEYWORDS.items():
        if variable and os.environ.get(variable):
            texts.setdefault(name, os.environ[variable])
    # libpq's old name for it, which libpq still reads.
    if os.environ.get("PGREQUIRESSL", "").startswith("1"):
        texts.setdefault("sslmode", "require")


def _version(name: str, text: str | None) -> int | None:
    """Of TLS 1.x. What is older than TLS 1.2 counts as that, but not as the newest."""
    if text is None:
        return None
    known = {"tlsv1.2": 2, "tlsv1.3": 3}
    if name == "ssl_min_protocol_version":
        known |= {"tlsv1": 2, "tlsv1.1": 2}
    if text.lower() not in known:
        raise ValueError(f"onetrip: {name} takes one of TLSv1.2, TLSv1.3")
    return known[text.lower()]


def _endpoints(hosts: str, addresses: str, ports: str) -> list[Endpoint]:
    names = hosts.split(",") if hosts else []
    given = [_hostaddr(one) for one in addresses.split(",")] if addresses else []
    if names and given and len(names) != len(given):
        raise ValueError(
            f"onetrip: {len(names)} hosts and {len(given)} hostaddr values don't match"
        )
    names = names or [""] * max(len(given), 1)
    given = given or [None] * len(names)
    names = [name or address or "localhost" for name, address in zip(names, given)]
    numbers = ports.split(",")
    if len(numbers) not in (1, len(names)):
        raise ValueError("onetrip: there is one port for all hosts, or one for each")
    if len(numbers) == 1:
        numbers *= len(names)
    try:
        found = [Endpoint(n, int(p or 5432), a) for n, p, a in zip(names, numbers, given)]
    except ValueError:
        found = []
    if not all(1 <= endpoint.port <= 65535 for endpoint in found) or not found:
        raise ValueError("onetrip: a port is a number from 1 to 65535")
    return found
