"""A writer on redis-py for the row redis_sentinel.pause.

It runs a script that writes and returns the server's port, and prints the time and the port when
the port is another one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import redis
import uvloop
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff
from redis.asyncio.retry import Retry

PAUSE = 0.005


async def main(told: str, script: str) -> None:
    given = json.loads(told)
    # No pauses but those of this loop, which tries all the time.
    now = {"retry": Retry(NoBackoff(), 0)}
    sentinel = Sentinel(
        given["sentinels"],
        sentinel_kwargs={"password": given["sentinel_password"], **now},
        password=given["password"],
        **now,
    )
    master = sentinel.master_for(given["name"])
    last = 0
    while True:
        try:
            port = await master.eval(script, 1, "redis-py")
        except redis.RedisError:
            port = last
        if port != last:
            print(time.time_ns() // 1000, port, flush=True)
            last = port
        await asyncio.sleep(PAUSE)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
