"""TLS and ACL users, on a redis-server that takes nothing else."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

import onetrip
from onetrip.redis import RedisError, connect

SERVER = os.environ.get("ONETRIP_REDIS_SERVER", "")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of a server that wants certificates of its clients, and where the files are."""
    if not SERVER:
        pytest.skip("no Redis was found")
    at = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(at / "ca.pem"))
    for name, who in [("server", "localhost"), ("client", "shop@example.org")]:
        made = authority.issue_cert(who)
        made.cert_chain_pems[0].write_to_path(str(at / f"{name}.pem"))
        made.private_key_pem.write_to_path(str(at / f"{name}.key"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "port": "0",
        "tls-port": str(port),
        "bind": "127.0.0.1",
        "dir": str(at),
        "save": "",
        "tls-cert-file": str(at / "server.pem"),
        "tls-key-file": str(at / "server.key"),
        "tls-ca-cert-file": str(at / "ca.pem"),
    }
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    users = "--user shop on >s3cret/@ ~shop:* &* +@all --user default off".split()
    server = subprocess.Popen([SERVER, *words, *users], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    for line in server.stdout:
        if "Ready to accept connections" in line:
            break
    yield port, at
    server.terminate()
    server.communicate()


def url(place: tuple[int, Path], *, host: str = "localhost", of: str = "client") -> str:
    port, at = place
    files = f"sslrootcert={at}/ca.pem&sslcert={at}/{of}.pem&sslkey={at}/{of}.key"
    return f"rediss://shop:s3cret%2F%40@{host}:{port}/0?{files}"


async def test_commands_and_messages_go_over_tls(place: tuple[int, Path]) -> None:
    async with connect(url(place)) as db:
        assert await db.acl_whoami() == "shop"
        values = [db.set(f"shop:{i}", "x" * 10_000) for i in range(100)]
        assert set(await asyncio.gather(*values)) == {"OK"}
        assert len(await db.get("shop:99") or "") == 10_000
        async with db.subscribe("shop:news") as news:
            await db.publish("shop:news", "hello")
            assert (await anext(news)).data == "hello"
        with pytest.raises(RedisError) as caught:
            await db.get("other")
        assert (caught.value.code, caught.value.outcome) == ("NOPERM", "Rejected")


async def test_whom_it_does_not_know_it_does_not_trust(place: tuple[int, Path]) -> None:
    port, at = place
    trustme.CA().cert_pem.write_to_path(str(at / "other.pem"))
    other = url(place).replace("ca.pem", "other.pem")
    for wrong, message in [
        (f"{other}&sslmode=require", "certificate"),
        (url(place, host="127.0.0.1"), "127.0.0.1"),
        (url(place).replace(f"sslrootcert={at}/ca.pem", "sslrootcert=system"), "certificate"),
        (f"rediss://shop:s3cret@localhost:{port}?sslrootcert={at}/ca.pem", "connect|closed|lost"),
        (f"redis://localhost:{port}", "connect|closed|lost"),
    ]:
        with pytest.raises(onetrip.Error, match=message) as caught:
            await connect(wrong, wait_timeout_ms=3000)
        assert caught.value.outcome == "NotSent" and "s3cret" not in str(caught.value)
    # Whose name is not asked for is taken.
    async with connect(url(place, host="127.0.0.1") + "&sslmode=verify-ca") as db:
        assert await db.ping() == "PONG"


async def test_redis_pys_settings_go_over_tls(place: tuple[int, Path]) -> None:
    import onetrip.redis.asyncio

    port, at = place
    db = onetrip.redis.asyncio.Redis(
        port=port,
        username="shop",
        password="s3cret/@",
        ssl=True,
        ssl_ca_certs=str(at / "ca.pem"),
        ssl_certfile=str(at / "client.pem"),
        ssl_keyfile=str(at / "client.key"),
        decode_responses=True,
    )
    assert await asyncio.gather(db.set("shop:a", 1), db.get("shop:a")) == [True, "1"]
    await db.aclose()
