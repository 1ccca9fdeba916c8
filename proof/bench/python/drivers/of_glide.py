"""Valkey GLIDE."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from glide import GlideClient, GlideClientConfiguration, NodeAddress, ServerCredentials

from . import named

VERSION = named("valkey-glide")


async def open(url: str, task: dict[str, Any]) -> Client:
    at = urlsplit(url)
    address = NodeAddress(at.hostname or "localhost", at.port or 6379)
    login = ServerCredentials(at.password, at.username or None) if at.password else None
    config = GlideClientConfiguration([address], credentials=login)
    return Client(await GlideClient.create(config))


class Client:
    def __init__(self, db: GlideClient) -> None:
        self.db = db
        self.get = db.get

    async def close(self) -> None:
        await self.db.close()
