"""Redis Sentinel: who is the master, and what becomes of commands when that changes."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trustme
from conftest import Sentinels
from redis.asyncio.sentinel import MasterNotFoundError

import onetrip
import onetrip.blocking.redis
import onetrip.redis.asyncio as ours
from onetrip.redis import Client, RedisError, connect

PATIENCE = 60

#: Tasks that write.
TASKS = 40


@pytest.fixture(scope="module")
def sentinels() -> Iterator[Sentinels]:
    if not os.environ.get("ONETRIP_REDIS_SERVER"):
        pytest.skip("no Redis was found")
    started = Sentinels()
    yield started
    started.close()


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """Each test runs once; one of them is for uvloop."""
    return asyncio.DefaultEventLoopPolicy()


def settings(**more: Any) -> dict[str, Any]:
    return {"wait_timeout_ms": PATIENCE * 1000, **more}


@pytest.fixture
async def db(sentinels: Sentinels) -> AsyncIterator[Client[str]]:
    async with connect(sentinels.url, **settings()) as db:
        yield db


async def port(db: Client[str]) -> str:
    """The port that a command is answered by, as the server itself says."""
    return str((await db.config_get("port"))["port"])


async def test_commands_go_to_the_master(sentinels: Sentinels, db: Client[str]) -> None:
    assert await port(db) == sentinels.master()
    await db.set("name", "Ann")
    async with db.session() as session:
        assert await session.get("name") == "Ann"
    async with db.atomic() as tx:
        name = tx.get("name")
    assert await name == "Ann"
    assert await db.blpop("empty", timeout=0.01) is None


async def test_reads_go_to_a_replica_if_the_option_says_so_and_writes_to_the_master(
    sentinels: Sentinels,
) -> None:
    async def hits(port: str) -> int:
        async with connect(f"redis://127.0.0.1:{port}", password=password) as server:
            info = await server.info("stats")
            return int(info.partition("keyspace_hits:")[2].split()[0])

    password = urlsplit(sentinels.url).password
    master = sentinels.master()
    replicas = [port for port in sentinels.servers if port != master]
    for reads in ("replica", "prefer_replica"):
        async with connect(sentinels.url, **settings(reads=reads)) as db, asyncio.timeout(PATIENCE):
            await db.set("read", reads)
            before = sum([await hits(port) for port in replicas])
            while sum([await hits(port) for port in replicas]) == before:
                await db.get("read")
            of_master = await hits(master)
            while await db.get("read") != reads:
                pass  # The replica is behind.
            assert await hits(master) == of_master
            # In a list it is the master that answers.
            async with db.atomic() as tx:
                found = tx.get("read")
            assert await found == reads
            assert await hits(master) == of_master + 1


class Book:
    """Numbers that one task wrote, with what is known of each."""

    def __init__(self) -> None:
        #: Acknowledged, and on both replicas by WAIT.
        self.copied: list[int] = []
        self.failed: list[onetrip.Error] = []


async def keep_book(db: Client[str], task: int, book: Book, stop: asyncio.Event) -> None:
    """Writes numbers, each followed by WAIT 2 in the same trip. After a failure it goes on with the
    next number on another session.
    """
    number = 0
    while not stop.is_set():
        try:
            async with db.session() as session:
                while not stop.is_set():
                    number += 1
                    write, copies = session.rpush(f"list:{task}", number), session.wait(2, 1000)
                    ends = await asyncio.gather(write, copies, return_exceptions=True)
                    for end in ends:
                        if isinstance(end, BaseException):
                            raise end
                    if ends[1] < 2:
                        break
                    book.copied.append(number)
        except onetrip.Error as error:
            assert error.outcome in ("NotSent", "Unknown", "Rejected"), error
            book.failed.append(error)


async def keep_writing(db: Client[str], failed: list[onetrip.Error], stop: asyncio.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        try:
            await db.set("number", number)
        except onetrip.Error as error:
            failed.append(error)


def test_what_both_replicas_had_is_there_after_the_master_was_killed_under_load(
    sentinels: Sentinels,
) -> None:
    async def run() -> None:
        books, failed, stop = [Book() for _ in range(TASKS)], [], asyncio.Event()
        async with connect(sentinels.url, **settings(connections_max=TASKS)) as db:
            await db.flushall()
            writers = [
                asyncio.create_task(keep_book(db, task, book, stop))
                for task, book in enumerate(books)
            ]
            writers.append(asyncio.create_task(keep_writing(db, failed, stop)))
            before = await port(db)
            async with asyncio.timeout(PATIENCE):
                while not all(book.copied for book in books):
                    await asyncio.sleep(0)
            await asyncio.to_thread(sentinels.say, "kill-master")
            after = await asyncio.to_thread(sentinels.say, "switched")
            assert after != before
            async with asyncio.timeout(600):
                await db.set("after", 1)
            assert await port(db) == after
            # The former master comes back as a master, and is not written to.
            await asyncio.to_thread(sentinels.say, "restart")
            assert await port(db) == after
            stop.set()
            await asyncio.gather(*writers)
            assert await port(db) == after
            assert sum(len(book.copied) for book in books) > 0
            for task, book in enumerate(books):
                there = [int(number) for number in await db.lrange(f"list:{task}", 0, -1)]
                assert len(there) == len(set(there)), "a number is there twice"
                assert not set(book.copied) - set(there), "what WAIT said is lost"
            # What was not sent went on by itself.
            assert {error.outcome for error in failed} <= {"Unknown", "Rejected"}, failed

    asyncio.run(run())


async def test_a_server_that_says_that_it_has_lost_its_role_is_left(db: Client[str]) -> None:
    opened = db.metrics().opened
    with pytest.raises(RedisError, match="READONLY"):
        await db.call("return redis.error_reply('READONLY as a replica says it')")
    async with asyncio.timeout(PATIENCE):
        while db.metrics().opened == opened:
            await db.set("on", "another connection")


def test_a_client_that_is_not_closed_takes_its_connections_along(sentinels: Sentinels) -> None:
    async def run() -> None:
        db = await connect(sentinels.url, **settings(reads="prefer_replica"))
        of_sentinels = db._parts.sentinels
        assert of_sentinels is not None and of_sentinels._lines
        with pytest.warns(ResourceWarning, match="not closed"):
            del db
            gc.collect()
        async with asyncio.timeout(PATIENCE):
            while of_sentinels._lines or of_sentinels._users:
                await asyncio.sleep(0)

    asyncio.run(run())


async def test_who_is_not_found_is_explained_by_what_each_sentinel_said(
    sentinels: Sentinels,
) -> None:
    url = sentinels.url.replace("/mymaster", "/other")
    with pytest.raises(onetrip.Error) as caught:
        await connect(url, wait_timeout_ms=2000)
    text = str(caught.value)
    assert "the master was not found" in text and "knows no master of this name" in text
    assert caught.value.outcome == "NotSent" and "\n" not in text


async def test_a_server_that_is_no_sentinel_is_named(sentinels: Sentinels) -> None:
    url = f"redis+sentinel://127.0.0.1:{sentinels.servers[0]}/mymaster"
    password = urlsplit(sentinels.url).password
    with pytest.raises(onetrip.Error, match="0 of 1 Sentinels answered.*it is no Sentinel"):
        await connect(url, wait_timeout_ms=2000, sentinel_password=password)


@pytest.mark.parametrize(
    "url, more, why",
    [
        ("redis+sentinel://", {}, "names them and the master"),
        ("redis+sentinel://host", {}, "names them and the master"),
        ("redis+sentinel:///mymaster", {}, "names them and the master"),
        ("redis://host", {"reads": "replica"}, "go with redis\\+sentinel://"),
        ("redis://host", {"sentinel_password": "secret"}, "go with redis\\+sentinel://"),
        ("redis+sentinel://host/mymaster", {"reads": "secret"}, "prefer_replica"),
        ("redis+sentinel://host/mymaster", {"cluster": True}, "know no clusters"),
        ("redis+sentinel://host/mymaster", {"path": "/secret"}, "by TCP"),
        ("redis+secret://host", {}, "redis\\+sentinel://"),
    ],
)
def test_what_can_not_be_is_refused(url: str, more: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        connect(url, **more)
    assert "secret" not in str(caught.value)


def test_users_and_passwords_of_servers_and_sentinels_are_two_things_and_both_speak_tls(
    sentinels: Sentinels, tmp_path: Path
) -> None:
    authority, other = trustme.CA(), trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    files = [str(tmp_path / name) for name in ("server.pem", "server.key", "ca.pem", "other.pem")]
    made.cert_chain_pems[0].write_to_path(files[0])
    made.private_key_pem.write_to_path(files[1])
    authority.cert_pem.write_to_path(files[2])
    other.cert_pem.write_to_path(files[3])
    started = Sentinels("--users", "--tls", *files[:3])
    hosts = started.url.partition("://")[2].rpartition("@")[2].partition("?")[0]
    url = f"rediss+sentinel://app:of-app@{hosts}"
    login = {"sentinel_username": "watcher", "sentinel_password": "of-watcher"}

    async def run() -> None:
        async with connect(url, sslrootcert=files[2], **settings(**login)) as db:
            assert await db.command("ACL WHOAMI") == "app"
        guests = f"rediss+sentinel://guest@{hosts}"
        more = settings(sentinel_username="guest")
        async with connect(guests, sslrootcert=files[2], **more) as db:
            assert await db.command("ACL WHOAMI") == "guest"
        wrong = {**login, "sentinel_password": "wrong-secret"}
        with pytest.raises(onetrip.Error) as caught:
            await connect(url, sslrootcert=files[2], wait_timeout_ms=4000, **wrong)
        assert "refused the login (WRONGPASS)" in str(caught.value)
        assert "wrong-secret" not in str(caught.value)
        with pytest.raises(onetrip.Error, match="certificate"):
            await connect(url, sslrootcert=files[3], wait_timeout_ms=4000, **login)

    asyncio.run(run())
    started.close()


async def test_subscriptions_follow_the_master(sentinels: Sentinels, db: Client[str]) -> None:
    await follows(sentinels, db)


def test_they_follow_it_on_uvloop(sentinels: Sentinels) -> None:
    async def run() -> None:
        async with connect(sentinels.url, **settings()) as db:
            await follows(sentinels, db)

    uvloop = pytest.importorskip("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def follows(sentinels: Sentinels, db: Client[str]) -> None:
    async with db.subscribe("news") as news, asyncio.timeout(PATIENCE):
        before = await port(db)
        sentinels.say("fail-over")
        again = db.repeatable()  # What is under way at the switch is Unknown.
        while news.reconnects == 0 or await port(again) == before:
            await asyncio.sleep(0)
        message = asyncio.ensure_future(anext(news))
        while not message.done():
            await again.publish("news", "it goes on")
        assert (await message).data == "it goes on"


def test_threads_follow_the_master(sentinels: Sentinels) -> None:
    with onetrip.blocking.redis.connect(sentinels.url, **settings(reads="prefer_replica")) as db:
        before = db.config_get("port")["port"]
        db.set("written by", "threads")
        new = sentinels.say("fail-over")
        assert new != before
        with onetrip.blocking.Timeout(PATIENCE):
            # Until it has heard of that, the former master still answers. What is under way then is
            # Unknown.
            is_there = False
            while not is_there:
                try:
                    db.set("again by", "threads")
                    is_there = db.config_get("port")["port"] == new
                except onetrip.Error as error:
                    assert error.outcome in ("Unknown", "Rejected"), error
        with db.pipeline() as batch:
            batch.set("in one", "trip")
            found = batch.get("in one")
        assert found.result() == "trip"


async def test_the_drop_in_finds_master_and_replicas(sentinels: Sentinels) -> None:
    parts = urlsplit(sentinels.url)
    servers = {"password": parts.password, "decode_responses": True}
    password = parse_qs(parts.query).get("sentinel_password", [None])[0]
    named = [("127.0.0.1", int(port)) for port in sentinels.sentinels]
    sentinel = ours.Sentinel(named, sentinel_kwargs={"password": password}, **servers)
    master = int(sentinels.master())
    async with asyncio.timeout(PATIENCE):
        # The one that it asks may hear later of a switch.
        while await sentinel.discover_master("mymaster") != ("127.0.0.1", master):
            pass
        while ("127.0.0.1", master) in await sentinel.discover_slaves("mymaster"):
            pass
    first, second = sentinel.master_for("mymaster"), sentinel.slave_for("mymaster")
    assert isinstance(first, ours.Redis)
    assert await first.set("by", "the drop-in") is True
    assert (await first.config_get("port"))["port"] == str(master)
    assert ours._client_of(first.connection_pool) is not None
    assert ours._client_of(second.connection_pool) is not None
    async with asyncio.timeout(PATIENCE):
        while await second.get("by") != "the drop-in":
            pass
    async with first.pipeline() as pipe:
        assert await pipe.set("a", 1).get("a").execute() == [True, "1"]
    await first.aclose()
    await second.aclose()

    # As redis-py has it, but that it is looked for as long as a connection may take.
    other = sentinel.master_for("other", socket_connect_timeout=2)
    with pytest.raises(MasterNotFoundError, match="knows no master of this name"):
        await other.get("a")
    with pytest.raises(MasterNotFoundError):
        await sentinel.discover_master("other")
    await other.aclose()

    # Sentinels that a program puts in the place of others are asked from then on.
    moved = ours.Sentinel([("127.0.0.1", 1)], sentinel_kwargs={"password": password}, **servers)
    third = moved.master_for("mymaster", socket_connect_timeout=2)
    with pytest.raises(MasterNotFoundError):
        await third.get("by")
    moved.sentinels = sentinel.sentinels
    assert await third.get("by") == "the drop-in"
    await third.aclose()
    await sentinel.aclose()
