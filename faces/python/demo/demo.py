"""Times the same small programs with asyncpg and with onetrip, on a server some milliseconds away;
and psycopg as it is, with and without `onetrip sidecar`.

Run by `make demo`, which starts the server and says where the proxy is that delays and counts.
"""

import asyncio
import os
import platform
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psycopg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

import onetrip
import onetrip.asyncpg

RTT_MS = 10
STATEMENTS = 1000

#: Milliseconds, and trips.
Measured = tuple[float, int]
Work = Callable[[], Awaitable[object]]


class Line:
    """The proxy: it delays by a round trip, and counts trips."""

    def __init__(self, url: str) -> None:
        port = urlsplit(url).port
        command = [os.environ["ONETRIP_DEMO_LINE"], str(port)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.url = url.replace(f":{port}", f":{self._answer()}")
        self._say(f"rtt {RTT_MS}")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _say(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return self._answer()

    async def measure(self, work: Work) -> Measured:
        """The shortest of three runs, since other programs use the machine as well. Before them
        comes one in which texts become known."""
        await work()
        best, trips = float("inf"), 0
        for _ in range(3):
            self._say("trips")
            start = time.perf_counter()
            await work()
            best = min(best, (time.perf_counter() - start) * 1000)
            trips = int(self._say("trips"))
        return best, trips

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Sidecar:
    """`onetrip sidecar` in front of the proxy."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        to = f"{place.hostname}:{place.port}"
        command = [os.environ["ONETRIP_DEMO_COMMAND"], "sidecar", "--listen", "127.0.0.1:0"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([*command, "--to", to], stdout=pipe, text=True)
        assert self._process.stdout is not None
        # Where it listens, and what it stands in front of.
        listens = self._process.stdout.readline().split()[0]
        self.url = url.replace(to, listens)

    def close(self) -> None:
        assert self._process.stdout is not None
        self._process.terminate()
        self._process.stdout.close()
        self._process.wait()


DEBIT = "update demo_account set balance = balance - $1 where id = 1"
CREDIT = "update demo_account set balance = balance + $1 where id = 2"
READ = "select balance from demo_account where id = $1"


async def transfer(pool: Any) -> None:
    """As programs for asyncpg have it: each statement waits for the answer to the one before."""
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(DEBIT, 1)
        await connection.execute(CREDIT, 1)


async def many(pool: Any) -> None:
    await asyncio.gather(*(pool.fetchval(READ, 1 + n % 2) for n in range(STATEMENTS)))


async def by_sqlalchemy(engine: Any) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("select 1"))


async def measured(line: Line) -> list[tuple[str, Measured | None, Measured]]:
    """Each program: what it is, by asyncpg, and by onetrip."""
    sizes = {"min_size": 10, "max_size": 10}
    found: list[tuple[str, Measured | None, Measured]] = []
    async with (
        asyncpg.create_pool(line.url, **sizes) as theirs,
        onetrip.asyncpg.create_pool(line.url, **sizes) as ours,
        onetrip.connect(line.url) as db,
    ):
        await db.execute("drop table if exists demo_account")
        await db.execute("create table demo_account (id int primary key, balance int not null)")
        await db.execute("insert into demo_account values (1, 1000), (2, 1000)")

        async def pipelined() -> None:
            async with db.pipeline() as pipeline:
                pipeline.execute(DEBIT, 1)
                pipeline.execute(CREDIT, 1)

        async def both(what: str, work: Callable[[Any], Awaitable[None]], *on: Any) -> None:
            them, us = [await line.measure(lambda: work(it)) for it in on]
            found.append((what, them, us))

        await both("a transfer: acquire, BEGIN, 2 updates, COMMIT", transfer, theirs, ours)
        found.append(("the same transfer as a pipeline", None, await line.measure(pipelined)))
        await both(f"{STATEMENTS:,} statements at once over a pool of 10", many, theirs, ours)
        place = line.url.split("://", 1)[1]
        drivers = ("asyncpg", "onetrip")
        engines = [create_async_engine(f"postgresql+{driver}://{place}") for driver in drivers]
        await both("SQLAlchemy: BEGIN, SELECT, COMMIT", by_sqlalchemy, *engines)
        for engine in engines:
            await engine.dispose()
    return found


def by_psycopg(connection: psycopg.Connection[Any]) -> None:
    """A transaction with another one in it, as frameworks open them."""
    debit, credit = DEBIT.replace("$1", "1"), CREDIT.replace("$1", "1")
    with connection.transaction():
        connection.execute(debit)
        with connection.transaction():
            connection.execute(credit)


async def measured_beside(line: Line) -> tuple[Measured, Measured]:
    """psycopg as it is, and through `onetrip sidecar`."""
    sidecar = Sidecar(line.url)
    try:
        found = []
        for url in (line.url, sidecar.url):
            with psycopg.connect(url, autocommit=True) as connection:

                async def work(on: psycopg.Connection[Any] = connection) -> None:
                    by_psycopg(on)

                found.append(await line.measure(work))
        return found[0], found[1]
    finally:
        sidecar.close()


def show_beside(before: Measured, behind: Measured) -> None:
    print(
        f"\npsycopg {psycopg.__version__}, a transaction in a transaction, 2 updates: "
        f"{before[0]:.0f} ms in {before[1]} trips; through `onetrip sidecar`, nothing else changed, "
        f"{behind[0]:.0f} ms in {behind[1]}."
    )


def show(found: list[tuple[str, Measured | None, Measured]]) -> None:
    of = f"CPython {platform.python_version()}, asyncpg {asyncpg.__version__}"
    print(f"\n{of}, a server {RTT_MS} ms away. Milliseconds, the best of three, and trips:\n")
    print(f"{'what':48}{'asyncpg':>10}{'trips':>7}{'onetrip':>10}{'trips':>7}")
    for what, them, (ms, trips) in found:
        theirs = f"{'–':>10}{'–':>7}" if them is None else f"{them[0]:>10.0f}{them[1]:>7,}"
        print(f"{what:48}{theirs}{ms:>10.0f}{trips:>7,}")
    before, (pipelined, _), (slow, quick) = found[0][1], found[1][2], (found[2][1], found[2][2])
    assert before is not None and slow is not None
    print(
        f"\nA transfer takes {before[0]:.0f} ms, and {pipelined:.0f} ms as a pipeline; "
        f"{STATEMENTS:,} statements take {slow[0]:,.0f} ms, and {quick[0]:.0f} ms where they share "
        "trips."
    )


def main() -> int:
    url = os.environ.get("ONETRIP_TEST_POSTGRES")
    if url is None or "ONETRIP_DEMO_LINE" not in os.environ:
        print("demo: ONETRIP_TEST_POSTGRES is not set: run `make demo`", file=sys.stderr)
        return 2
    line = Line(url)
    try:
        show(asyncio.run(measured(line)))
        show_beside(*asyncio.run(measured_beside(line)))
    finally:
        line.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
