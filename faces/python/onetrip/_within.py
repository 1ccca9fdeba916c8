"""A time for an await."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")

# Not by asyncio.wait_for, which before 3.12 loses a cancel that comes in the turn of the result.
if sys.version_info >= (3, 11):

    async def within(call: Awaitable[T], timeout: float | None) -> T:
        async with asyncio.timeout(timeout):
            return await call

else:

    async def within(call: Awaitable[T], timeout: float | None) -> T:
        task = asyncio.ensure_future(call)
        try:
            done, _ = await asyncio.wait([task], timeout=timeout)
        finally:
            task.cancel()
        if not done:
            await asyncio.wait([task])
            raise asyncio.TimeoutError
        return task.result()
