"""Servers and lines: `make python` starts a private PostgreSQL, and says where it is."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from urllib.parse import urlsplit

import pytest

import onetrip
import onetrip.redis

URL = os.environ.get("ONETRIP_TEST_POSTGRES", "")
REDIS = os.environ.get("ONETRIP_TEST_REDIS", "")
# Each test runs on both; on one of them with ONETRIP_LOOPS=one.
LOOPS = ["asyncio", "uvloop"]

#: A bound in seconds that only what hangs reaches, however busy the machine is.
PATIENCE = 600


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not URL:
        pytest.exit("ONETRIP_TEST_POSTGRES is not set: run `make python`", 2)
    if os.environ.get("ONETRIP_LOOPS") == "one":
        keep(config, items, is_on_its_loop)
    if half := os.environ.get("ONETRIP_HALF"):
        keep(config, items, lambda item: zlib.crc32(item.path.name.encode()) % 2 == int(half))


def keep(
    config: pytest.Config, items: list[pytest.Item], are_kept: Callable[[pytest.Item], bool]
) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not are_kept(item)])
    items[:] = [item for item in items if are_kept(item)]


def pytest_collection_finish() -> None:
    # What was imported stays. A full collection that looked at all of it took a fifth of the time
    # of these tests.
    gc.collect()
    gc.freeze()


def is_on_its_loop(item: pytest.Item) -> bool:
    """Whether a test that runs on one loop runs on this one; half of them run on either."""
    callspec = getattr(item, "callspec", None)
    loop = callspec and callspec.params.get("event_loop_policy")
    if loop not in LOOPS:
        return True
    return LOOPS[zlib.crc32(item.nodeid.replace(loop, "").encode()) % 2] == loop


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Asks until it is so."""

    async def asked() -> None:
        while not await holds():
            await asyncio.sleep(0)

    await asyncio.wait_for(asked(), PATIENCE)


async def until_active(text: str, count: int = 1) -> None:
    """Until the server runs so many statements that have this in their text."""
    active = "select count(*) = $2 from pg_stat_activity where state = 'active' and query like $1"
    async with onetrip.connect(URL) as db:
        await until(lambda: db.fetchval(active, f"%{text}%", count))


@pytest.fixture(params=LOOPS)
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    """Each test runs on both loops."""
    if request.param == "uvloop":
        return pytest.importorskip("uvloop").EventLoopPolicy()
    return asyncio.DefaultEventLoopPolicy()


@pytest.fixture
async def db() -> AsyncIterator[onetrip.Database]:
    async with onetrip.connect(URL) as db:
        yield db


class Commanded:
    """A program of the lab's that obeys lines of text."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def say(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Line(Commanded):
    """The lab's proxy in front of the server: it counts trips, delays, and cuts."""

    def __init__(self, url: str = URL) -> None:
        super().__init__(os.environ["ONETRIP_TEST_LINE"], str(urlsplit(url).port))
        port = self._answer()
        self.url = url.replace(f":{urlsplit(url).port}", f":{port}")

    @property
    def trips(self) -> int:
        """Those since this was asked last."""
        return int(self.say("trips"))


class Sentinels(Commanded):
    """A master, two replicas and three Sentinels: `onetrip-private --sentinels --help`."""

    def __init__(self, *options: str) -> None:
        super().__init__(os.environ["ONETRIP_PRIVATE"], "--sentinels", *options)
        self.url = self._answer()
        self.servers, self.sentinels = (self._answer().split() for _ in range(2))

    def say(self, command: str) -> str:
        answer = super().say(command)
        assert answer and not answer.startswith("error"), (command, answer)
        return answer

    def master(self) -> str:
        """Its port."""
        return self.say("master")


class Cluster(Commanded):
    """Three masters and so many replicas: `onetrip-private --cluster --help`."""

    def __init__(self, replicas: int) -> None:
        super().__init__(os.environ["ONETRIP_PRIVATE"], "--cluster", str(replicas))
        self.url = self._answer()

    def say(self, command: str) -> str:
        answer = super().say(command)
        assert answer == "ok", (command, answer)
        return answer


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


@pytest.fixture
async def redis() -> AsyncIterator[onetrip.redis.Client[str]]:
    """A client of an empty Redis."""
    if not REDIS:
        pytest.skip("no Redis was found")
    async with onetrip.redis.connect(REDIS) as redis:
        await redis.flushall()
        yield redis


@pytest.fixture
def redis_line(redis: object) -> Iterator[Line]:
    """A line to that Redis."""
    line = Line(REDIS)
    yield line
    line.close()


@pytest.fixture
async def far_redis(redis_line: Line) -> AsyncIterator[onetrip.redis.Client[str]]:
    """A client by way of the line."""
    async with onetrip.redis.connect(redis_line.url) as redis:
        yield redis
