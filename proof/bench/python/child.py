"""One client in a process of its own.

It is told over standard input what to run, a line of JSON for each round, and says on standard
output what that cost.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import uvloop

import drivers
import works
from works.round import Round

#: What was run for so long, in seconds, is warm: statements are prepared, and buffers have grown.
WARM = 0.5


async def main() -> None:
    task = json.loads(sys.argv[1])
    driver = drivers.driver(task["driver"])
    client = await driver.open(os.environ["ONETRIP_BENCH_URL"], task)
    work = works.of(task["work"])
    if work.prepare is not None:
        await work.prepare(client)
    first = await warm(work, client, task)
    say({"version": driver.VERSION})
    commands = await lines()
    while line := await commands.readline():
        operations = json.loads(line)["operations"]
        sample = await measured(work, client, Round(task["inFlight"], operations, first))
        first += operations
        # What a work checks is read outside of the time.
        checksum = await work.validate(client) if work.validate is not None else 0
        say({**sample, "checksum": checksum})
    await client.close()


async def warm(work: Any, client: Any, task: dict[str, Any]) -> int:
    first, end = 0, time.monotonic() + WARM
    while task["warmth"]:
        await work.run(client, Round(task["inFlight"], task["warmth"], first))
        first += task["warmth"]
        if time.monotonic() >= end:
            break
    return first


async def measured(work: Any, client: Any, round: Round) -> dict[str, Any]:
    """Wall time in ns and the whole process's CPU time in µs; and what the work found by itself."""
    cpu_before, before = time.process_time_ns(), time.perf_counter_ns()
    figures = await work.run(client, round)
    wall = time.perf_counter_ns() - before
    return {"wall": wall, "cpu": (time.process_time_ns() - cpu_before) // 1000, "figures": figures}


async def lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
