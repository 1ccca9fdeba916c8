"""onetrip.redis on a cluster whose masters die."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

import pytest
from conftest import Cluster

import onetrip
from onetrip.redis import Client, connect

#: How long calls may wait: longer than anything takes here.
PATIENCE = 60

#: How soon all go on once a replica has taken over. It takes about a second.
GOES_ON = 20

#: Keys in hash slots all over the cluster.
KEYS = [f"key:{number}" for number in range(60)]


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """Each test runs once."""
    return asyncio.DefaultEventLoopPolicy()


@pytest.fixture
def cluster(replicas: int) -> Iterator[Cluster]:
    if not os.environ.get("ONETRIP_REDIS_SERVER"):
        pytest.skip("no Redis was found")
    started = Cluster(replicas)
    yield started
    started.close()


async def kill_first(cluster: Cluster, db: Client[str]) -> None:
    """Kills the master of the first key."""
    slot = await db.cluster_keyslot(KEYS[0])
    await asyncio.to_thread(cluster.say, f"kill {slot}")


@pytest.mark.parametrize("replicas", [3])
async def test_calls_that_were_not_sent_outlast_the_crash_of_their_master(cluster: Cluster) -> None:
    async with connect(cluster.url, wait_timeout_ms=PATIENCE * 1000) as db:
        await asyncio.gather(*(db.set(key, 0) for key in KEYS))
        is_over = False

        async def write(key: str) -> int:
            unknown = 0
            while True:
                was_over = is_over
                try:
                    await db.incr(key)
                except onetrip.Error as error:
                    assert error.outcome == "Unknown", error
                    unknown += 1
                else:
                    if was_over:
                        return unknown

        writers = [asyncio.create_task(write(key)) for key in KEYS]
        await kill_first(cluster, db)
        await asyncio.to_thread(cluster.say, "well")
        is_over, since = True, time.monotonic()
        unknown = await asyncio.wait_for(asyncio.gather(*writers), GOES_ON)
        print(f"all go on {time.monotonic() - since:.3f} s after the cluster was well")
        assert sum(unknown) <= len(KEYS), "each had one call in flight"


@pytest.mark.parametrize("replicas", [0])
async def test_a_call_that_no_node_serves_waits_once(cluster: Cluster) -> None:
    wait = 2.0
    async with connect(cluster.url, wait_timeout_ms=int(wait * 1000)) as db:
        await db.set(KEYS[0], 0)
        await kill_first(cluster, db)
        # The first may be in flight when the connection is lost.
        await asyncio.gather(db.get(KEYS[0]), return_exceptions=True)
        for _ in range(2):
            since = time.monotonic()
            calls = (db.incr(KEYS[0]) for _ in range(20))
            ends = await asyncio.gather(*calls, return_exceptions=True)
            assert {getattr(end, "outcome", end) for end in ends} == {"NotSent"}, ends[0]
            waited = time.monotonic() - since
            print(f"{waited:.3f} s", ends[0])
            assert waited < 2 * wait, "more than one wait"
    async with connect(cluster.url, wait_timeout_ms=int(wait * 1000)) as other:
        assert await other.cluster_keyslot(KEYS[0]) >= 0
