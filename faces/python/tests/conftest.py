"""Servers and lines: `make python` starts a private PostgreSQL, and says where it is."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import pytest

import onetrip

URL = os.environ.get("ONETRIP_TEST_POSTGRES", "")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not URL:
        pytest.exit("ONETRIP_TEST_POSTGRES is not set: run `make python`", 2)


@pytest.fixture(params=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    """Each test runs on both loops."""
    if request.param == "uvloop":
        return pytest.importorskip("uvloop").EventLoopPolicy()
    return asyncio.DefaultEventLoopPolicy()


@pytest.fixture
async def db() -> AsyncIterator[onetrip.Database]:
    async with onetrip.connect(URL) as db:
        yield db


class Line:
    """The lab's proxy in front of the server: it counts trips, delays, and cuts."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [os.environ["ONETRIP_TEST_LINE"], str(urlsplit(URL).port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        port = self._answer()
        self.url = URL.replace(f":{urlsplit(URL).port}", f":{port}")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def say(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer()

    @property
    def trips(self) -> int:
        """Those since this was asked last."""
        return int(self.say("trips"))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.close()


@pytest.fixture
async def far(line: Line) -> AsyncIterator[onetrip.Database]:
    """One connection, by way of the line."""
    async with onetrip.connect(line.url, connections_max=1) as db:
        yield db
