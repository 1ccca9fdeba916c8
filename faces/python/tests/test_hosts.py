"""Several servers: the order in which they are tried, and what was wrong with each."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

import onetrip
from conftest import URL
from onetrip._opening import Opening

OF = urlsplit(URL)
HOST, PORT = OF.hostname or "", OF.port or 0
OWN: dict[str, Any] = {"user": OF.username, "password": OF.password, "dbname": OF.path[1:]}


def closed() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as of:
        return int(of.getsockname()[1])


async def test_hosts_are_tried_in_their_order_each_with_its_port() -> None:
    hosts = f"127.0.0.1:{closed()},{HOST}:{PORT}"
    async with onetrip.connect(f"postgres://{hosts}/", **OWN) as db:
        assert await db.fetchval("select 1") == 1


async def test_the_error_says_what_was_wrong_with_each_host() -> None:
    one, two = closed(), closed()
    with pytest.raises(onetrip.Error) as caught:
        hosts = f"127.0.0.1:{one},127.0.0.1:{two}"
        async with onetrip.connect(f"postgres://{hosts}/", wait_timeout_ms=3000):
            pass
    said = str(caught.value)
    assert caught.value.outcome == "NotSent"
    assert 0 <= said.index(f"127.0.0.1:{one}") < said.index(f"127.0.0.1:{two}"), said
    assert "\n" not in said, said


async def test_each_address_has_the_connect_timeout_for_itself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        # The kernel takes the connection, and nobody answers.
        silent = mute.getsockname()[1]
        hosts = f"127.0.0.1:{silent},{HOST}:{PORT}"
        async with onetrip.connect(f"postgres://{hosts}/", connect_timeout=3, **OWN) as db:
            assert await asyncio.wait_for(db.fetchval("select 1"), 600) == 1


class Looked:
    """A loop that finds other addresses, and notes whose."""

    def __init__(self, loop: asyncio.AbstractEventLoop, found: list[str], asked: list[str]) -> None:
        self._loop, self._found, self._asked = loop, found, asked

    async def getaddrinfo(self, host: str, port: int, **_: Any) -> list[Any]:
        self._asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in self._found]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


async def test_all_addresses_of_a_name_are_tried_and_it_is_looked_up_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    found = ["127.0.0.9", "127.0.0.1"]
    begin = Opening.__init__

    def init(self: Opening, host: Any, number: int) -> None:
        begin(self, host, number)
        self.loop = Looked(self.loop, found, asked)  # type: ignore[assignment]

    monkeypatch.setattr(Opening, "__init__", init)
    async with onetrip.connect(None, host="db.example", port=PORT, **OWN) as db:
        with pytest.raises(onetrip.Error):
            await db.fetchval("select pg_terminate_backend(pg_backend_pid())")
        # The server is away, and then it has moved: it is found once the name is looked up again.
        found[:] = ["127.0.0.9", "127.0.0.8"]
        waiting = asyncio.ensure_future(db.fetchval("select 1"))
        # Ends with an error, if no attempt follows the first.
        while len(asked) < 3 and not waiting.done():
            await asyncio.sleep(0.001)
        found.append("127.0.0.1")
        assert await asyncio.wait_for(waiting, 600) == 1
    assert len(asked) > 3 and set(asked) == {"db.example"}


async def test_an_address_saves_the_lookup() -> None:
    async with onetrip.connect(
        None, host="db.invalid", hostaddr="127.0.0.1", port=PORT, **OWN
    ) as db:
        assert await db.fetchval("select 1") == 1
