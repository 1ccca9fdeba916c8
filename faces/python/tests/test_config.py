"""Settings: what is taken, and what the page of settings says of it."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import onetrip
from conftest import URL
from onetrip import _native
from onetrip._config import Config, Endpoint
from onetrip._tls import context_of
from onetrip.redis._config import Config as RedisConfig

PAGE = Path(__file__).parents[3] / "docs/reference/configuration.md"


def rows(header: str) -> list[list[str]]:
    """The cells of a table of the page, without its head."""
    table = PAGE.read_text().split(f"\n{header}", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.split("|")] for line in table.splitlines()[2:]]


def code(cell: str) -> str | None:
    return cell.split("`")[1] if "`" in cell else None


def test_the_page_has_what_connect_takes() -> None:
    named = {code(cells[6]) for cells in rows("| keyword |")} - {None}
    assert named == {name for name, _, _ in _native.keywords()} | {"dsn", "ssl", "on_notice"}


def test_the_page_has_what_redis_takes_with_its_default() -> None:
    config = RedisConfig(None, {})
    for cells in rows("| key in a URL |"):
        name, default = code(cells[4]), code(cells[6])
        if name in config.numbers:
            if "default" not in cells[4]:
                assert str(config.numbers[name]) == default, name
        elif name is not None and name not in ("ssl", "url"):
            # What is known is not refused by its name.
            try:
                RedisConfig(None, {name: "0"})
            except (ValueError, OSError, ssl.SSLError) as error:
                assert "is not a setting" not in str(error)
    assert set(config.numbers) <= {code(cells[4]) for cells in rows("| key in a URL |")}


@pytest.mark.parametrize("name", ["require_auth", "request_timeout_ms", "when_full", "nonsense"])
def test_what_is_not_carried_out_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"there is no keyword {name}"):
        onetrip.connect(**{name: "1"})
    with pytest.raises(ValueError, match="disable, prefer"):
        onetrip.connect(channel_binding="require")


def test_the_password_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pass"
    file.write_text("# h:1:d:u:no\nother:*:*:*:no\nh:1:d\\:e:u:a\\:b\\\\c\n*:*:*:u:all\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    monkeypatch.delenv("PGPASSWORD", raising=False)
    config = Config(None, {"user": "u", "dbname": "d:e"})
    assert config.password_of_file(Endpoint("h", 1)) == "a:b\\c"
    assert config.password_of_file(Endpoint("h", 2)) == "all"
    assert Config(None, {"user": "v"}).password_of_file(Endpoint("h", 1)) is None
    file.chmod(0o640)
    with pytest.warns(UserWarning, match="others can access it: chmod 600"):
        assert config.password_of_file(Endpoint("h", 1)) is None


async def test_a_password_of_the_file_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = urlsplit(URL)
    file = tmp_path / "pass"
    file.write_text(f"{of.hostname}:{of.port}:*:{of.username}:{of.password}\n")
    file.chmod(0o600)
    url = f"postgres://{of.username}@{of.hostname}:{of.port}{of.path}"
    async with onetrip.connect(url, passfile=str(file)) as db:
        assert await db.fetchval("select 1") == 1


def test_tls_between_two_versions() -> None:
    told = {"ssl_min_protocol_version": "TLSv1.3", "ssl_max_protocol_version": "tlsv1.3"}
    context = context_of(Config(None, told))
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_3
    assert context_of(Config(None, {})).minimum_version == ssl.TLSVersion.TLSv1_2
    with pytest.raises(ValueError, match="takes one of TLSv1.2, TLSv1.3"):
        context_of(Config(None, {"ssl_max_protocol_version": "SSLv3"}))
