"""Client-side caching of onetrip.redis on a real server, with another client that writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from conftest import REDIS

import onetrip
from onetrip.redis import Client, RedisError, connect


@pytest.fixture
async def cached(redis: Client[str]) -> AsyncIterator[Client[str]]:
    async with connect(REDIS, cache="1MiB") as cached:
        yield cached


def of(client: Client[str]) -> onetrip.CacheMetrics:
    cache = client.metrics().cache
    assert cache is not None
    return cache


async def until(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    async def wait() -> None:
        while not await holds():
            await asyncio.sleep(0)

    try:
        await asyncio.wait_for(wait(), 600)
    except asyncio.TimeoutError:
        pytest.fail(f"it never came: {what}")


async def gets(redis: Client[str]) -> int:
    """How often the server has run GET since CONFIG RESETSTAT."""
    lines = (await redis.command("INFO", "commandstats")).split()
    calls = [line for line in lines if line.startswith("cmdstat_get:calls=")]
    return int(calls[0].split("=")[1].split(",")[0]) if calls else 0


async def test_what_is_in_the_cache_costs_no_trip(
    redis: Client[str], cached: Client[str]
) -> None:
    await redis.set("a", "ä")
    await redis.hset("h", {"f": 1})
    for _ in range(100):
        assert await cached.get("a") == "ä" and await cached.bytes.get("a") == "ä".encode()
        assert await cached.hgetall("h") == {"f": "1"} and await cached.get("none") is None
    assert (of(cached).misses, of(cached).hits) == (3, 397)
    sent = cached.metrics().bytes_sent
    await cached.get("a")
    assert cached.metrics().bytes_sent == sent
    assert redis.metrics().cache is None


async def test_what_another_client_writes_is_seen_once_the_server_says_so(
    redis: Client[str], cached: Client[str]
) -> None:
    await redis.set("a", 0)
    for n in range(1, 50):
        assert await cached.get("a") == str(n - 1)
        await redis.set("a", n)

        async def is_new(n: int = n) -> bool:
            return await cached.get("a") == str(n)

        await until("the new value", is_new)
        assert await cached.get("a") == str(n)
    await redis.flushall()

    async def is_gone() -> bool:
        return await cached.get("a") is None

    await until("the flush", is_gone)


async def _session(db: Client[str], n: int) -> None:
    async with db.session() as session:
        await session.set("a", n)


async def _watched(db: Client[str], n: int) -> None:
    async with db.session() as session:
        await session.watch("a")
        async with session.atomic() as tx:
            done = tx.set("a", n)
        await done


async def _atomic(db: Client[str], n: int) -> None:
    async with db.atomic() as tx:
        done = tx.set("a", n)
    await done


async def _by_hand(db: Client[str], n: int) -> None:
    async with db.session() as session:
        await session.command("MULTI")
        await session.command("SET", "a", n)
        await session.command("EXEC")


async def _stream(db: Client[str], n: int) -> None:
    replies = db.stream([("SET", "a", n)] * 3)
    async for _ in replies:
        break
    await replies.aclose()


async def _list(db: Client[str], n: int) -> None:
    await db.set("from", n)
    await db.command("RENAME", "from", "a")


WAYS: dict[str, Callable[[Client[str], int], Awaitable[object]]] = {
    "shared": lambda db, n: db.set("a", n),
    "alone": lambda db, n: db.alone().set("a", n),
    "uncached": lambda db, n: db.uncached().set("a", n),
    "repeatable": lambda db, n: db.repeatable().set("a", n),
    "bytes": lambda db, n: db.bytes.set("a", n),
    "script": lambda db, n: db.call("return redis.call('set', ARGV[1], ARGV[2])", [], ["a", n]),
    "session": _session,
    "watched": _watched,
    "atomic": _atomic,
    "by hand": _by_hand,
    "stream": _stream,
    "rename": _list,
}


async def test_a_client_sees_what_it_wrote_whichever_way(cached: Client[str]) -> None:
    await cached.set("a", 0)

    async def read() -> None:
        while True:
            await cached.get("a")
            await asyncio.sleep(0)

    readers = [asyncio.ensure_future(read()) for _ in range(3)]
    for n in range(1, 20 * len(WAYS)):
        way = list(WAYS)[n % len(WAYS)]
        await WAYS[way](cached, n)
        assert await cached.get("a") == str(n), way
    for reader in readers:
        reader.cancel()
    assert of(cached).hits > 0


async def test_a_read_behind_an_unanswered_write_sees_it(cached: Client[str]) -> None:
    for n in range(50):
        before = cached.get("a")
        written, read = cached.set("a", n), cached.get("a")
        again = cached.get("a")
        assert (await read, await again) == (str(n), str(n))
        await written
        assert await before != str(n)


async def test_what_many_ask_for_at_once_is_asked_for_once(
    redis: Client[str], cached: Client[str]
) -> None:
    await redis.set("a", "x")
    await redis.command("CONFIG RESETSTAT")
    assert await asyncio.gather(*(cached.get("a") for _ in range(100))) == ["x"] * 100
    assert await gets(redis) == 1
    assert (of(cached).misses, of(cached).joined) == (1, 99)


async def test_callers_that_joined_are_served_although_the_first_is_gone(
    redis: Client[str], cached: Client[str]
) -> None:
    await redis.set("a", "x")

    async def get() -> str | None:
        return await cached.get("a")

    for turn in range(20):
        first, second, third = (asyncio.ensure_future(get()) for _ in range(3))
        for _ in range(turn % 3):
            await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        assert await third == "x"
        await redis.set("a", "x")

        async def is_empty() -> bool:
            await redis.ping()
            return of(cached).entries == 0

        await until("the push", is_empty)


@pytest.mark.parametrize("first_is_hurried", [True, False])
async def test_each_caller_of_one_fetch_has_its_own_deadline(
    redis: Client[str], cached: Client[str], first_is_hurried: bool
) -> None:
    await redis.set("a", "x")
    await redis.command("CLIENT PAUSE", 200)
    hurried = cached.timeout(0.02)
    if first_is_hurried:
        late, patient = hurried.get("a"), cached.get("a")
    else:
        patient, late = cached.get("a"), hurried.get("a")
    with pytest.raises(onetrip.Error) as raised:
        await late
    assert raised.value.code == "timeout"
    assert await patient == "x"


async def test_an_error_is_for_its_caller_and_never_kept(
    redis: Client[str], cached: Client[str]
) -> None:
    await redis.rpush("l", "x")
    for reply in [cached.get("l") for _ in range(3)]:
        with pytest.raises(RedisError, match="WRONGTYPE"):
            await reply
    assert of(cached).entries == 0


async def test_a_lost_connection_empties_the_cache(
    redis: Client[str], cached: Client[str]
) -> None:
    for n in range(5):
        await cached.set("a", n)
        assert await cached.get("a") == str(n)
        lost = cached.metrics().lost
        number = await cached.command("CLIENT ID")
        await redis.command("CLIENT KILL", "ID", number)
        await redis.set("a", n + 100)

        async def is_lost(lost: int = lost) -> bool:
            return cached.metrics().lost > lost

        await until("the loss", is_lost)
        assert of(cached).entries == 0
        assert await cached.get("a") == str(n + 100)


async def test_without_tracking_nothing_is_kept_and_metrics_say_so(redis: Client[str]) -> None:
    rights = ("on", ">secret", "~*", "+@all", "-client|tracking")
    await redis.command("ACL SETUSER", "till", *rights)
    async with connect(REDIS, cache=1 << 20, user="till", password="secret") as db:
        for n in range(3):
            await redis.set("a", n)
            assert await db.get("a") == str(n)
        assert not of(db).is_on and of(db).entries == of(db).hits == 0
    await redis.command("ACL DELUSER", "till")


async def test_uncached_asks_the_server(redis: Client[str], cached: Client[str]) -> None:
    await cached.set("a", "x")
    await redis.command("CONFIG RESETSTAT")
    for _ in range(3):
        assert await cached.uncached().get("a") == await cached.alone().get("a") == "x"
    assert await gets(redis) == 6 and of(cached).entries == 0


async def test_a_cache_is_bounded_and_refused_where_it_can_not_be(redis: Client[str]) -> None:
    async with connect(f"{REDIS}?cache=64KiB") as db:
        for n in range(500):
            await db.set(f"k{n}", "x" * n)
            assert await db.get(f"k{n}") == "x" * n
            assert of(db).bytes <= 64 << 10
        assert of(db).evicted > 0
    with pytest.raises(ValueError, match="cache is not for clusters"):
        connect("redis://localhost/?cluster=1&cache=64MiB")
    for size in ("64MB", "-1", "MiB", 1.5):
        with pytest.raises(ValueError, match="64MiB"):
            connect("redis://localhost", cache=size)


async def test_a_closed_client_answers_nothing_from_its_cache(redis: Client[str]) -> None:
    db = await connect(REDIS, cache="1MiB")
    raw = db.bytes
    await db.set("a", "x")
    assert await db.get("a") == "x" and await raw.get("a") == b"x"
    await db.close()
    for client in (db, raw):
        with pytest.raises(onetrip.Error):
            await client.get("a")
