"""A client of Redis and Valkey on asyncio that hides the round trip.

Commands are sent when they are called, not when they are awaited::

    async with onetrip.redis.connect("redis://localhost") as db:
        name, visits = db.get("name"), db.incr("visits")
        print(await name, await visits)
"""

from ..errors import RedisError
from ._client import Atomic, Client, Script, Session, connect
from ._subscription import Message, Subscription

__all__ = [
    "Atomic",
    "Client",
    "Message",
    "RedisError",
    "Script",
    "Session",
    "Subscription",
    "connect",
]
