"""The table of settings: what libpq makes of it, and what this package does."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import conftest
import libpq
import onetrip
from onetrip._config import Config, Endpoint

from test_closes import NO_ENTRY

TABLE = Path(__file__).parents[3] / "proof/conformance/postgres_settings.json"
CASES: list[dict[str, Any]] = json.loads(TABLE.read_text())["cases"]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that is empty, and whose path is short enough for sockets."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    with tempfile.TemporaryDirectory(prefix="onetrip-") as home:
        monkeypatch.setenv("HOME", home)
        yield Path(home)


def prepared(case: dict[str, Any], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files and the environment of a case."""
    for name, text in case.get("files", {}).items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        path.chmod(0o600)
    for name, mode in case.get("modes", {}).items():
        (home / name).chmod(int(mode, 8))
    for name, text in case.get("environment", {}).items():
        monkeypatch.setenv(name, text)


def test_libpq_makes_of_settings_what_the_table_says(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = libpq.libraries()
    assert found, "there is no libpq from 15 on: run scripts/setup server"
    for of in found:
        wrong = []
        for case in CASES:
            if case.get("since", 0) > of.version:
                continue
            with tempfile.TemporaryDirectory(dir=home) as own, monkeypatch.context() as patch:
                patch.setenv("HOME", own)
                wrong += [f"{case['name']}: {why}" for why in _against(of, case, Path(own), patch)]
        assert not wrong, f"libpq {of.version}:\n" + "\n".join(wrong)


def _against(
    of: libpq.Libpq, case: dict[str, Any], home: Path, patch: pytest.MonkeyPatch
) -> Iterator[str]:
    with libpq.noted() as noted:
        case = libpq.filled(case, {"home": str(home), "p1": noted.tcp(), "p2": noted.tcp()})
        prepared(case, home, patch)
        servers = case.get("servers", [])
        places = [(one["host"], one["port"]) for one in servers if "hostaddr" not in one]
        for host, port in {*places, (str(home / "a"), "5432")}:
            noted.unix(Path(host) / f".s.PGSQL.{port}")
        says, settings = of.tried(case["text"])
        if "error" in case:
            if case["error"]["libpq"] not in says:
                yield says
            return
        if servers:
            tried = [(one.get("hostaddr", one["host"]), one["port"]) for one in servers]
            if libpq.servers_of(says) != tried:
                yield says
            passwords = [one["password"] for one in servers]
            if noted.passwords != passwords:
                yield f"the passwords are {noted.passwords}"
        for name, text in case.get("settings", {}).items():
            if settings.get(name) != text:
                yield f"{name} is {settings.get(name)}: {says}"


@pytest.mark.filterwarnings("ignore:.* is not used")
def test_the_package_makes_the_same_of_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = []
    for case in CASES:
        with tempfile.TemporaryDirectory(dir=home) as own, monkeypatch.context() as patch:
            patch.setenv("HOME", own)
            case = libpq.filled(case, {"home": own, "p1": "6001", "p2": "6002"})
            prepared(case, Path(own), patch)
            wrong += [f"{case['name']}: {why}" for why in _of_package(case)]
    assert not wrong, "\n".join(wrong)


def _of_package(case: dict[str, Any]) -> Iterator[str]:
    refused = case.get("refused", {})
    says = case.get("error", {}).get("ours")
    if "python" in refused.get("faces", ["python"]):
        says = refused.get("says", says)
    if not case["text"].startswith("postgres://"):
        says = "a connection string begins with postgres://"
    try:
        config = Config(case["text"], {})
    except ValueError as error:
        if says is None or says not in str(error) or "\n" in str(error):
            yield str(error)
        return
    if says is not None:
        yield "it was taken"
    if "servers" in case:
        of = case["servers"]
        expected = [Endpoint(one["host"], int(one["port"]), one.get("hostaddr")) for one in of]
        if config.endpoints != expected:
            yield f"the servers are {config.endpoints}"
        given = [config.text("password") or config.password_of_file(it) for it in config.endpoints]
        if given != [one["password"] for one in of]:
            yield f"the passwords are {given}"
    for name, text in case.get("settings", {}).items():
        found = {"user": config.user, "dbname": config.dbname, "sslmode": config.sslmode}
        if found.get(name, config.said(name)) != text:
            yield f"{name} is {found.get(name, config.said(name))}"


def test_a_password_file_that_is_not_used_is_warned_of(home: Path) -> None:
    file = home / ".pgpass"
    file.write_text("*:*:*:*:secret\n")
    file.chmod(0o640)
    config = Config("postgres://me@h", {})
    with pytest.warns(UserWarning, match="others can access it: chmod 600") as warned:
        assert config.password_of_file(config.endpoints[0]) is None
    assert len(warned) == 1 and "secret" not in str(warned[0].message)


@pytest.mark.parametrize(
    ("variable", "text", "harmless"),
    [
        ("PGREQUIREAUTH", "scram-sha-256", ""),
        ("PGMINPROTOCOLVERSION", "3.2", "3.0"),
        ("PGSSLCRLDIR", "/crls", ""),
        ("PGREQUIREPEER", "postgres", ""),
    ],
)
def test_a_variable_that_is_not_carried_out_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, text: str, harmless: str
) -> None:
    monkeypatch.setenv(variable, harmless)
    Config("postgres://h", {})
    monkeypatch.setenv(variable, text)
    with pytest.raises(ValueError, match=f"the environment variable {variable} asks for"):
        Config("postgres://h", {})


def test_a_name_that_is_checked_is_sent(home: Path) -> None:
    told = {"sslmode": "verify-full", "sslsni": "0"}
    with pytest.raises(ValueError, match="sslsni=0 does not go with sslmode=verify-full"):
        Config("postgres://db1", told)
    Config("postgres://127.0.0.1", told)


#: The key of a certificate for ``localhost`` that signs itself, encrypted, and the certificate.
LOCKED = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAji24FK7jbfvAICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEELaPNrfZOFy4riQuuBwR2jsEgZB7
+n94rutDvgEz0rc+vGZuBG3X4XwG/nPqCgcMf213/w9GlkdUWJhnwIqNXdFnKPc5
TlF7DfY+NG/g5N4UaCwuWV4xYyXGMpSg3Gmi8Sa9+aBB+Xs6As5L3St6HAOmxc2I
dCfpF5a+rJh2qrQC6BGWogkEnEW6zjVQBVyQvwLr8BerO0rLyZviD6YObbIlgno=
-----END ENCRYPTED PRIVATE KEY-----
"""
SIGNED = """\
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUG0xNFH5AAJ4mA1EImcXa5JhwLhcwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMjAzNDgxNFoYDzIxMjYxMDI5
MDM0ODE0WjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQqyONORjdBfXuaT+4CHDUfIkbbYdUeP7km3KWJlemqFdIPVcPSCAsn
nxS99x/geiKqv6W/j1htADZI+G/TYUgqo28wbTAdBgNVHQ4EFgQU/mJ8Z1FyXqqy
pl1txDMDRrZCYI8wHwYDVR0jBBgwFoAU/mJ8Z1FyXqqypl1txDMDRrZCYI8wDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEwCgYIKoZI
zj0EAwIDSAAwRQIhAKznInLIEOfzPoZcj6TokWejb1WyDX0ljaThQrph+DFMAiAo
VdvqFMOJlkknFGbVcGqP/m/QOvv0o2SpGRAO1lNC+w==
-----END CERTIFICATE-----
"""
PASSWORD = "open sesame"


async def test_the_key_is_opened_and_certificate_and_name_are_shown_or_kept_back(
    home: Path,
) -> None:
    certificate, key = home / "c.pem", home / "k.pem"
    certificate.write_text(SIGNED)
    key.write_text(LOCKED)
    offered = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    offered.load_cert_chain(certificate, key, PASSWORD)
    offered.load_verify_locations(certificate)
    offered.verify_mode = ssl.CERT_OPTIONAL
    offered.set_alpn_protocols(["postgresql"])
    names: list[str | None] = []
    offered.sni_callback = lambda _, name, __: names.append(name)
    seen: list[bool] = []

    async def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(bool(writer.get_extra_info("peercert")))
        await reader.readuntil(b"\0\0")
        # Nobody tries again after this.
        writer.write(NO_ENTRY)
        writer.close()

    server = await asyncio.start_server(came, "127.0.0.1", 0, ssl=offered)
    port = server.sockets[0].getsockname()[1]
    url = f"postgres://me@localhost:{port}/?hostaddr=127.0.0.1&sslnegotiation=direct"
    own: dict[str, Any] = {"sslrootcert": certificate, "sslcert": certificate, "sslkey": key}
    own |= {"sslpassword": PASSWORD, "wait_timeout_ms": 600_000, "sslmode": "verify-full"}
    for told, shown in [
        ({}, (True, "localhost")),
        ({"sslcertmode": "disable"}, (False, "localhost")),
        ({"sslmode": "verify-ca", "sslsni": 0}, (True, None)),
    ]:
        seen.clear()
        names.clear()
        with pytest.raises(onetrip.Error, match="no entry"):
            async with onetrip.connect(url, **{**own, **told}):
                pass
        assert set(zip(seen, names)) == {shown}, told
    server.close()


@pytest.mark.parametrize("told", [{}, {"sslpassword": "no such word"}])
async def test_a_key_that_is_not_opened_is_said(
    home: Path, told: dict[str, str]
) -> None:
    certificate, key = home / "c.pem", home / "k.pem"
    certificate.write_text(SIGNED)
    key.write_text(LOCKED)
    with pytest.raises(onetrip.Error, match="an encrypted key needs sslpassword") as caught:
        url = f"{conftest.URL}?sslcert={certificate}&sslkey={key}&sslmode=require"
        async with onetrip.connect(url, sslnegotiation="direct", **told):
            pass
    assert "no such word" not in str(caught.value) and "\n" not in str(caught.value)
