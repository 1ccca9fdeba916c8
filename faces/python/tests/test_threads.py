"""Clients on several threads, each with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading

import onetrip
from onetrip._wire import Wire

from conftest import URL


async def test_each_thread_reads_to_a_place_of_its_own(db: onetrip.Database) -> None:
    wire = Wire(db._host.core, 1 << 31)
    here = wire.get_buffer(-1)
    there = await asyncio.to_thread(wire.get_buffer, -1)
    assert here.obj is wire.get_buffer(-1).obj and here.obj is not there.obj


def test_loops_of_several_threads_get_their_own_replies() -> None:
    failed: list[str] = []

    async def work(letter: str) -> None:
        async with onetrip.connect(URL, connections_max=1) as db:
            for _ in range(40):
                text = await db.fetchval("select repeat($1, 1000000)", letter)
                if text != letter * 1_000_000:
                    failed.append(letter)

    threads = [threading.Thread(target=lambda it=it: asyncio.run(work(it))) for it in "abc"]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed
