"""A writer on onetrip for the row failover.pause.

It writes a row every few milliseconds, and prints the time and the server's port when the port is
another one. The client connects anew by itself.
"""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop

import onetrip

PAUSE = 0.005


async def main(url: str, text: str) -> None:
    db = await onetrip.connect(url, connections_max=1)
    last = 0
    while True:
        try:
            port = await db.fetchval(text)
        except onetrip.Error:
            port = last
        if port != last:
            print(time.time_ns() // 1000, port, flush=True)
            last = port
        await asyncio.sleep(PAUSE)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
