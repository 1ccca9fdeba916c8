"""What `connect` was asked for: by its arguments, a connection string, a service, the environment,
the file of passwords, in this order.
"""

from __future__ import annotations

import configparser
import enum
import getpass
import os
import pathlib
import platform
import re
import ssl as ssl_module
import stat
import warnings
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from . import exceptions

_Given = dict[str, Any]


class SSLMode(enum.IntEnum):
    disable = 0
    allow = 1
    prefer = 2
    require = 3
    verify_ca = 4
    verify_full = 5

    @classmethod
    def parse(cls, sslmode: Any) -> SSLMode:
        if isinstance(sslmode, cls):
            return sslmode
        found = getattr(cls, sslmode.replace("-", "_"))
        assert isinstance(found, cls)
        return found


class SSLNegotiation(str, enum.Enum):
    postgres = "postgres"
    direct = "direct"


class SessionAttribute(str, enum.Enum):
    any = "any"
    primary = "primary"
    standby = "standby"
    prefer_standby = "prefer-standby"
    read_write = "read-write"
    read_only = "read-only"


class _ConnectionParameters(NamedTuple):
    """What instrumentation reads of a connection."""

    user: str
    password: Any
    database: str
    ssl: Any
    sslmode: SSLMode
    ssl_negotiation: SSLNegotiation
    server_settings: dict[str, str] | None
    target_session_attrs: SessionAttribute
    krbsrvname: str | None
    gsslib: str


class _ClientConfiguration(NamedTuple):
    command_timeout: float | None
    statement_cache_size: int
    max_cached_statement_lifetime: float
    max_cacheable_statement_size: int


#: What a connection string and a service may say besides hosts and ports, and for what argument.
_WORDS = {
    "dbname": "database",
    "database": "database",
    "user": "user",
    "password": "password",
    "passfile": "passfile",
    "sslmode": "ssl",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslrootcert": "sslrootcert",
    "sslnegotiation": "sslnegotiation",
    "sslcrl": "sslcrl",
    "sslpassword": "sslpassword",
    "ssl_min_protocol_version": "ssl_min_protocol_version",
    "ssl_max_protocol_version": "ssl_max_protocol_version",
    "target_session_attrs": "target_session_attrs",
    "krbsrvname": "krbsrvname",
    "gsslib": "gsslib",
}

_VARIABLES = {
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "database": "PGDATABASE",
    "passfile": "PGPASSFILE",
    "ssl": "PGSSLMODE",
    "sslnegotiation": "PGSSLNEGOTIATION",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcrl": "PGSSLCRL",
    "ssl_min_protocol_version": "PGSSLMINPROTOCOLVERSION",
    "ssl_max_protocol_version": "PGSSLMAXPROTOCOLVERSION",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
    "krbsrvname": "PGKRBSRVNAME",
    "gsslib": "PGGSSLIB",
}

#: Of a file of passwords: host, port, database, user and password.
_LINE = re.compile(r"((?:[^:\\]|\\.)*):" * 4 + r"(.*)")

_SOCKETS = ["/run/postgresql", "/var/run/postgresql", "/tmp", "/private/tmp", "localhost"]


def _parse_connect_arguments(
    *,
    command_timeout: Any,
    statement_cache_size: Any,
    max_cached_statement_lifetime: Any,
    max_cacheable_statement_size: Any,
    **given: Any,
) -> tuple[list[Any], _ConnectionParameters, _ClientConfiguration]:
    sizes = {
        "statement_cache_size": statement_cache_size,
        "max_cached_statement_lifetime": max_cached_statement_lifetime,
        "max_cacheable_statement_size": max_cacheable_statement_size,
    }
    for name, value in sizes.items():
        if value is None or isinstance(value, bool) or value < 0:
            raise ValueError(f"{name} is expected to be greater or equal to 0, got {value!r}")
    try:
        timeout = None if command_timeout is None else float(command_timeout)
        if isinstance(command_timeout, bool) or timeout is not None and timeout <= 0:
            raise ValueError
    except ValueError:
        raise ValueError(
            f"invalid command_timeout value: expected greater than 0 float (got "
            f"{command_timeout!r})"
        ) from None
    addrs, params = _parse_connect_dsn_and_args(**given)
    return addrs, params, _ClientConfiguration(timeout, **sizes)


def _parse_connect_dsn_and_args(
    *,
    dsn: str | None,
    host: Any,
    port: Any,
    service: str | None,
    servicefile: Any,
    direct_tls: bool | None,
    server_settings: Any,
    **arguments: Any,
) -> tuple[list[Any], _ConnectionParameters]:
    given: _Given = {name: None for name in _WORDS.values()}
    given.update(arguments, host=host, port=port)
    said = _read_dsn(dsn, given) if dsn else {}
    service = said.pop("service", None) if not service else service
    service = service or os.environ.get("PGSERVICE")
    _take(given, said)
    if service:
        _take(given, _service(service, servicefile))
    if said:
        server_settings = {**said, **(server_settings or {})}
    if not given["host"] and os.environ.get("PGHOSTADDR"):
        raise exceptions.ClientConfigurationError(
            "PGHOSTADDR has no effect here: unset it, or say the address by host or PGHOST",
        )
    if not given["host"] and (hosts := os.environ.get("PGHOST")):
        given["host"], given["port"] = _parse_hostlist(hosts, given["port"])
    asked, hosts_of_password = _hosts(given["host"])
    ports = _validate_port_spec(asked, _ports(given["port"]))
    for name, variable in _VARIABLES.items():
        if given[name] is None:
            given[name] = os.environ.get(variable)
    user = given["user"] or getpass.getuser()
    database = user if given["database"] is None else given["database"]
    password = given["password"]
    if password is None:
        path = given["passfile"] or _of_home(".pgpass")
        if path is not None:
            password = _password_of(
                pathlib.Path(path), hosts_of_password or asked, ports, database, user
            )
    addrs = [
        (name, number) if not name.startswith("/")
        else name if ".s.PGSQL." in name
        else os.path.join(name, f".s.PGSQL.{number}")
        for name, number in zip(asked, ports)
    ]
    if given["ssl"] is None and any(isinstance(addr, tuple) for addr in addrs):
        given["ssl"] = "prefer"
    negotiation = _negotiation(direct_tls, given["sslnegotiation"])
    ssl, sslmode = _tls(given)
    if negotiation is SSLNegotiation.direct and sslmode < SSLMode.require:
        raise exceptions.ClientConfigurationError(
            "direct TLS requires sslmode=require, verify-ca, or verify-full"
        )
    _check_settings(server_settings)
    return addrs, _ConnectionParameters(
        user, password, database, ssl, sslmode, negotiation, server_settings,
        _target(given["target_session_attrs"]), given["krbsrvname"], _gsslib(given["gsslib"]),
    )


def _read_dsn(dsn: str, given: _Given) -> dict[str, str]:
    """Takes what a connection string says, and returns what stands behind its question mark."""
    parts = urlsplit(dsn)
    if parts.scheme not in ("postgresql", "postgres"):
        raise exceptions.ClientConfigurationError(
            'invalid DSN: scheme is expected to be either "postgresql" or "postgres", '
            f"got {parts.scheme!r}"
        )
    auth, at, hosts = parts.netloc.partition("@")
    if not at:
        auth, hosts = "", parts.netloc
    if not given["host"] and hosts:
        given["host"], given["port"] = _parse_hostlist(hosts, given["port"], unquote=True)
    user, _, password = auth.partition(":")
    said = (
        ("user", user or None),
        ("password", password or None),
        ("database", parts.path.removeprefix("/") if parts.path else None),
    )
    for name, text in said:
        if given[name] is None and text is not None:
            given[name] = unquote(text)
    return dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}


def _take(given: _Given, said: dict[str, str]) -> None:
    """What is said, where nothing was given."""
    port, host = said.pop("port", None), said.pop("host", None)
    if port and not given["port"]:
        given["port"] = [int(one) for one in port.split(",")]
    if host and not given["host"]:
        given["host"], given["port"] = _parse_hostlist(host, given["port"])
    for word, name in _WORDS.items():
        text = said.pop(word, None)
        if given[name] is None and text is not None:
            given[name] = text


def _service(name: str, path: Any) -> dict[str, str]:
    path = path or os.environ.get("PGSERVICEFILE") or _of_home(".pg_service.conf")
    file = configparser.ConfigParser()
    if path is not None:
        file.read(path)
    return dict(file[name]) if name in file.sections() else {}


def _of_home(name: str) -> pathlib.Path | None:
    try:
        return pathlib.Path.home() / name
    except (RuntimeError, KeyError):
        return None


# --- hosts and ports ---


def _hosts(host: Any) -> tuple[list[str], list[str] | None]:
    """The hosts, and under what names the file of passwords has them where that differs."""
    if not host:
        return (["localhost"] if platform.system() == "Windows" else _SOCKETS), ["localhost"]
    return (list(host) if isinstance(host, (list, tuple)) else [host]), None


def _ports(port: Any) -> Any:
    port = port or os.environ.get("PGPORT") or 5432
    if isinstance(port, str) and "," in port:
        port = port.split(",")
    return [int(one) for one in port] if isinstance(port, (list, tuple)) else int(port)


def _validate_port_spec(hosts: list[str], port: Any) -> list[Any]:
    if not isinstance(port, list) or len(port) == 1:
        return (port if isinstance(port, list) else [port]) * len(hosts)
    if len(port) != len(hosts):
        raise exceptions.ClientConfigurationError(
            f"could not match {len(port)} port numbers to {len(hosts)} hosts"
        )
    return port


def _parse_hostlist(
    hostlist: str, port: Any, *, unquote: bool = False
) -> tuple[list[str], list[Any]]:
    plain = _unquoted if unquote else str
    specs = hostlist.split(",")
    given = _validate_port_spec(specs, port or _ports(None))
    hosts, ports = [], []
    for spec, default in zip(specs, given):
        match = re.match(r"(/.*)()$|\[([^\]]+)\](?::([0-9]+))?|([^\[:]*):?(.*)$", spec)
        if match is None:
            raise exceptions.ClientConfigurationError(
                f"invalid IPv6 address in the connection URI: {spec!r}"
            )
        hosts.append(plain(match[1] or match[3] or match[5] or ""))
        own = match[4] or match[6]
        ports.append(int(plain(own)) if own and not port else default)
    return hosts, ports


def _unquoted(text: str) -> str:
    return unquote(text)


# --- the file of passwords ---


def _password_of(
    path: pathlib.Path, hosts: list[str], ports: list[int], database: str, user: str
) -> str | None:
    """The first password that fits, of a file as libpq has it."""
    lines = _lines_of(path)
    for host, port in zip(hosts, ports):
        host = "localhost" if host.startswith("/") else host
        wanted = (host, str(port), database, user)
        for line in lines:
            if all(has in ("*", it) for has, it in zip(line, wanted)):
                return line[4]
    return None


def _lines_of(path: pathlib.Path) -> list[list[str]]:
    try:
        if not path.exists():
            return []
        if not path.is_file():
            warnings.warn(f"password file {path!r} is not a plain file")
            return []
        if platform.system() != "Windows" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            warnings.warn(
                f"password file {path!r} has group or world access; permissions should be u=rw "
                "(0600) or less"
            )
            return []
        lines = [line.strip() for line in path.read_text().splitlines()]
    except OSError:
        return []
    # A backslash before a colon, or another one, stays where it is, as with asyncpg.
    fields = [_LINE.match(line) for line in lines if not line.startswith("#")]
    return [list(of.groups()) for of in fields if of is not None]


# --- TLS ---


def _negotiation(direct_tls: bool | None, said: str | None) -> SSLNegotiation:
    if direct_tls is not None:
        return SSLNegotiation.direct if direct_tls else SSLNegotiation.postgres
    try:
        return SSLNegotiation(said or "postgres")
    except ValueError:
        raise exceptions.ClientConfigurationError(
            "`sslnegotiation` parameter must be one of: postgres, direct"
        ) from None


def _tls(given: _Given) -> tuple[Any, SSLMode]:
    ssl = given["ssl"]
    if isinstance(ssl, (str, SSLMode)):
        try:
            sslmode = SSLMode.parse(ssl)
        except AttributeError:
            modes = ", ".join(mode.name.replace("_", "-") for mode in SSLMode)
            raise exceptions.ClientConfigurationError(
                f"`sslmode` parameter must be one of: {modes}"
            ) from None
        return (False if sslmode is SSLMode.disable else _context(sslmode, given)), sslmode
    if ssl is True:
        context = ssl_module.create_default_context()
        context.set_alpn_protocols(["postgresql"])
        return context, SSLMode.verify_full
    is_context = isinstance(ssl, ssl_module.SSLContext)
    return ssl, SSLMode.require if is_context else SSLMode.disable


def _context(sslmode: SSLMode, given: _Given) -> ssl_module.SSLContext:
    context = ssl_module.SSLContext(ssl_module.PROTOCOL_TLS_CLIENT)
    context.check_hostname = sslmode is SSLMode.verify_full
    if sslmode is not SSLMode.verify_full:
        context.verify_mode = ssl_module.CERT_NONE
    if sslmode >= SSLMode.require:
        _verify(context, sslmode, given)
    key = given["sslkey"] or _if_there("postgresql.key")
    certificate = given["sslcert"] or _if_there("postgresql.crt")
    if certificate:
        context.load_cert_chain(certificate, key, password=lambda: given["sslpassword"] or "")
    if log := os.environ.get("SSLKEYLOGFILE"):
        context.keylog_filename = log
    context.minimum_version = _parse_tls_version(given["ssl_min_protocol_version"] or "TLSv1.2")
    if latest := given["ssl_max_protocol_version"]:
        context.maximum_version = _parse_tls_version(latest)
    context.set_alpn_protocols(["postgresql"])
    return context


def _verify(context: ssl_module.SSLContext, sslmode: SSLMode, given: _Given) -> None:
    root = given["sslrootcert"] or _if_there("root.crt")
    if root:
        context.load_verify_locations(cafile=root)
        context.verify_mode = ssl_module.CERT_REQUIRED
    elif sslmode > SSLMode.require:
        path = _dot_postgresql_path("root.crt")
        name = path or "~/.postgresql/root.crt"
        raise exceptions.ClientConfigurationError(
            f'root certificate file "{name}" does not exist or cannot be accessed',
            hint=f'Provide the certificate file directly or make sure "{name}" exists and is '
            "readable.",
            detail=None if path else "Could not determine location of user home directory (HOME "
            "is either unset, inaccessible, or does not point to a valid directory)",
        )
    revoked = given["sslcrl"] or _if_there("root.crl")
    if revoked:
        context.load_verify_locations(cafile=revoked)
        context.verify_flags |= ssl_module.VERIFY_CRL_CHECK_CHAIN


def _dot_postgresql_path(filename: str) -> pathlib.Path | None:
    found = _of_home(".postgresql")
    return None if found is None else (found / filename).resolve()


def _if_there(name: str) -> pathlib.Path | None:
    path = _dot_postgresql_path(name)
    return path if path is not None and path.exists() else None


def _parse_tls_version(tls_version: str) -> ssl_module.TLSVersion:
    if tls_version.startswith("SSL"):
        raise exceptions.ClientConfigurationError(f"Unsupported TLS version: {tls_version}")
    try:
        return ssl_module.TLSVersion[tls_version.replace(".", "_")]
    except KeyError:
        raise exceptions.ClientConfigurationError(
            f"No such TLS version: {tls_version}"
        ) from None


# --- the rest ---


def _check_settings(settings: Any) -> None:
    if settings is not None and not (
        isinstance(settings, dict)
        and all(isinstance(text, str) for pair in settings.items() for text in pair)
    ):
        raise exceptions.ClientConfigurationError(
            "server_settings is expected to be None or a Dict[str, str]"
        )


def _target(said: Any) -> SessionAttribute:
    try:
        return SessionAttribute(said or "any")
    except ValueError:
        names = [it.value for it in SessionAttribute]
        raise exceptions.ClientConfigurationError(
            f"target_session_attrs is expected to be one of {names!r}, got {said!r}"
        ) from None


def _gsslib(said: str | None) -> str:
    gsslib = said or ("sspi" if platform.system() == "Windows" else "gssapi")
    if gsslib not in ("gssapi", "sspi"):
        raise exceptions.ClientConfigurationError(
            f"gsslib parameter must be either 'gssapi' or 'sspi', got {gsslib!r}"
        )
    return gsslib
