"""Settings that are unknown, contradict each other, or say nothing where they stand: each is an error
that names it."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from conftest import REDIS, URL

import onetrip
import onetrip.asyncpg
import onetrip.redis

UNVERIFIED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
UNVERIFIED.check_hostname = False
UNVERIFIED.verify_mode = ssl.CERT_NONE
VERIFIED = ssl.create_default_context()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"sslmode": "require", "sslcert": "/c"}, "sslcert is nothing without its key"),
        ({"sslmode": "require", "sslkey": "/k"}, "sslkey is nothing without its certificate"),
        ({"sslmode": "disable", "sslnegotiation": "direct"}, "sslnegotiation=direct can't go on"),
        ({"sslnegotiation": "direct"}, "sslnegotiation=direct can't go on without TLS"),
        ({"sslmode": "require", "sslrootcert": "system"}, "set sslmode=verify-full"),
        ({"sslmode": "disable", "ssl": VERIFIED}, "sslmode=disable contradicts"),
        ({"sslrootcert": "/r", "ssl": VERIFIED}, "both name authorities"),
        ({"sslcert": "/c", "sslkey": "/k", "ssl": VERIFIED}, "both have a certificate"),
        ({"sslmode": "verify-full", "ssl": UNVERIFIED}, "turn that off"),
        ({"ssl": True}, "ssl takes an ssl.SSLContext"),
        ({"tcp_user_timeout": 99999999999}, "tcp_user_timeout must be at most 2147483647"),
        ({"connect_timeout": -1}, "connect_timeout takes a whole number"),
        ({"keepalives": 2}, "keepalives takes one of"),
        ({"password": "a\0b"}, "password has a zero byte"),
        ({"colour": "blue"}, "there is no keyword colour"),
    ],
)
def test_settings_of_postgres_are_refused_by_name(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        onetrip.connect("postgres://h/d", **settings)


def test_a_fragment_is_told_as_what_it_is() -> None:
    with pytest.raises(ValueError, match="%23"):
        onetrip.connect("postgres://h/d#frag")
    with pytest.raises(ValueError, match="%23"):
        onetrip.redis.connect("redis://h/1#frag")


@pytest.mark.parametrize(
    ("url", "settings", "why"),
    [
        ("redis://h?sslrootcert=/no/such", {}, "rediss://"),
        ("redis://h", {"sslcert": "/c", "sslkey": "/k"}, "rediss://"),
        ("rediss://h?sslcert=/c", {}, "sslcert is nothing without its key"),
        ("rediss://h?sslkey=/k", {}, "sslkey is nothing without its certificate"),
        ("rediss://h?sslmode=require&sslrootcert=system", {}, "set sslmode=verify-full"),
        ("rediss://h?sslrootcert=/no/such", {}, "have to be files that can be read"),
        ("rediss://h?sslmode=disable", {}, "rediss:// asks for TLS"),
        ("redis://h?connections_max=0", {}, "connections_max takes a number from 1"),
        ("redis://h", {"connect_timeout_ms": 0}, "connect_timeout_ms takes a number from 1"),
        ("redis://h?cache=1MiB&protocol=2", {}, "cache needs RESP3"),
        ("redis://h?cache=1MiB&cluster=1", {}, "cache is not for clusters"),
        ("redis://h/3?cluster=1", {}, "a cluster has the database 0 alone"),
        ("redis://h?replica_reads=1", {}, "replica_reads is for clusters"),
        ("redis://h?reads=replica", {}, "settings of Sentinels go with"),
        ("unix:/s?sslmode=require", {}, "a Unix socket has no TLS"),
        ("unix:/s", {"host": "h"}, "two servers"),
        ("redis://h?sslmode=disable", {"ssl": VERIFIED}, "sslmode=disable contradicts"),
        ("rediss://h?sslrootcert=/r", {"ssl": VERIFIED}, "both name authorities"),
        ("rediss://h?sslmode=verify-full", {"ssl": UNVERIFIED}, "turn that off"),
        ("redis://h", {"ssl": True}, "ssl takes an ssl.SSLContext"),
        ("redis://h", {"username": "bob"}, "username is not a setting"),
        ("redis://h", {"password": "a\0b"}, "password has a zero byte"),
    ],
)
def test_settings_of_redis_are_refused_by_name(
    url: str, settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        onetrip.redis.connect(url, **settings)


async def test_of_several_servers_the_next_one_is_tried(
    redis: onetrip.redis.Client[str], unused_tcp_port: int
) -> None:
    login, _, host = REDIS.removeprefix("redis://").rpartition("@")
    url = f"redis://{login}@127.0.0.1:{unused_tcp_port},{host}"
    async with onetrip.redis.connect(url) as db:
        assert await db.ping() == "PONG"


def test_require_with_an_authority_verifies_the_server(tmp_path: Path) -> None:
    root = str(tmp_path / "root.pem")
    trustme.CA().cert_pem.write_to_path(root)
    config = onetrip.redis._config.Config("rediss://h?sslmode=require", {"sslrootcert": root})
    assert config.context is not None
    assert config.context.verify_mode == ssl.CERT_REQUIRED and not config.context.check_hostname


@pytest.mark.parametrize(
    "more",
    ["hostaddr=127.0.0.9", "sslcertmode=disable", "sslsni=0", "reads=replica", "connections_max=0",
     "connections_max=1e3", "wait_timeout_ms=1", "in_flight_max=0"],
)
async def test_the_dropin_for_asyncpg_drops_no_setting(more: str) -> None:
    """asyncpg's server refuses them, since it takes them for settings of the server."""
    with pytest.raises(onetrip.asyncpg.ClientConfigurationError, match=more.partition("=")[0]):
        await onetrip.asyncpg.connect(f"{URL}?{more}")
