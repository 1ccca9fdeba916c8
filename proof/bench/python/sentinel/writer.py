"""A writer on onetrip for the row redis_sentinel.pause, as redis_py.py is one.

It finds the next master by itself.
"""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop

import onetrip
import onetrip.redis

PAUSE = 0.005


async def main(url: str, script: str) -> None:
    async with onetrip.redis.connect(url, wait_timeout_ms=60_000) as client:
        last = 0
        while True:
            try:
                port = await client.command("EVAL", script, 1, "onetrip-python")
            except onetrip.Error:
                port = last
            if port != last:
                print(time.time_ns() // 1000, port, flush=True)
                last = port
            await asyncio.sleep(PAUSE)


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        # Without Sentinels in the client, this raises.
        onetrip.redis.connect("redis+sentinel://127.0.0.1:26379/mymaster")
    else:
        uvloop.run(main(*sys.argv[1:]))
