"""Tasks that keep books for the row redis_sentinel.

What that asks for and reads stands in proof/bench/src/rows/redis_sentinel/books.rs.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop

import onetrip
import onetrip.redis

CLAIMS = {"NotSent": "refused", "Rejected": "refused", "Applied": "unknown", "Unknown": "unknown"}


async def keep(client: Any, key: str, over: asyncio.Event) -> None:
    """Writes numbers to a list, each with WAIT 2 in the same flight.

    After a failure it takes another session.
    """
    number = 0
    while not over.is_set():
        try:
            async with client.session() as session:
                while not over.is_set():
                    number += 1
                    calls = (session.rpush(key, number), session.wait(2, 1000))
                    write, copies = await asyncio.gather(*calls, return_exceptions=True)
                    is_copied = isinstance(copies, int) and copies >= 2
                    if isinstance(write, onetrip.Error):
                        say(CLAIMS[write.outcome], key, number)
                    else:
                        say("copied" if is_copied else "unknown", key, number)
                    if not is_copied:
                        break
        except onetrip.Error as error:
            number += 1
            say(CLAIMS[error.outcome], key, number)


def say(*words: object) -> None:
    print(*words, flush=True)


async def main(url: str, name: str, tasks: int) -> None:
    over, loop = asyncio.Event(), asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(sys.stdin.fileno())
        over.set()

    loop.add_reader(sys.stdin.fileno(), end)
    settings = {"connections_max": tasks, "wait_timeout_ms": 60_000}
    async with onetrip.redis.connect(url, **settings) as client:
        await asyncio.gather(*(keep(client, f"{name}:{task}", over) for task in range(tasks)))
    say("done")


if __name__ == "__main__":
    url, name, tasks = sys.argv[1:]
    uvloop.run(main(url, name, int(tasks)))
