"""The table of settings: what libpq makes of it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import libpq

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
