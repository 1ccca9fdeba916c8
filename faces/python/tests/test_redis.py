"""onetrip.redis on a real server: replies, trips, cancels, lists, sessions, messages."""

from __future__ import annotations

import asyncio
import gc
import random
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import REDIS, Line

import onetrip
from onetrip.redis import Client, RedisError, Script, Subscription, connect

ROOT = Path(__file__).resolve().parents[3]


async def test_the_methods_are_those_of_the_table() -> None:
    script = ROOT / "scripts/python-commands"
    written = subprocess.run([sys.executable, script], capture_output=True, check=True).stdout
    assert (ROOT / "faces/python/onetrip/redis/_commands.py").read_bytes() == written


@pytest.mark.parametrize("protocol", [2, 3])
async def test_replies_are_the_same_with_both_protocols(
    redis: Client[str], protocol: int
) -> None:
    async with connect(REDIS, protocol=protocol) as db:
        assert await db.set("a", 1) == "OK"
        assert await db.set("a", "x", nx=True) is None
        assert await db.set_and_get("a", "ä", ex=100) == "1"
        assert await db.get("a") == "ä" and await db.bytes.get("a") == "ä".encode()
        assert await db.get("none") is None
        assert await db.mget("a", ["none", b"a"]) == ["ä", None, "ä"]
        assert await db.expire("a", 10) is True
        assert await db.hset("h", {"f": 1, "g": 2.5}) == 2
        assert await db.hgetall("h") == {"f": "1", "g": "2.5"}
        assert await db.bytes.hgetall("h") == {b"f": b"1", b"g": b"2.5"}
        assert await db.hgetall("none") == {}
        assert await db.sadd("s", "x", "y") == 2
        assert await db.smembers("s") == {"x", "y"}
        assert await db.smismember("s", "x", "z") == [True, False]
        assert await db.zadd("z", {"m": 1.5, "n": 2}) == 2
        assert await db.zscore("z", "m") == 1.5
        assert await db.zmscore("z", "m", "none") == [1.5, None]
        assert await db.zrange_withscores("z", 0, -1) == [("m", 1.5), ("n", 2.0)]
        assert await db.zrange("z", "-inf", "+inf", byscore=True, limit=(1, 1)) == ["n"]
        assert await db.zpopmin("z") == [("m", 1.5)]
        assert await db.rpush("l", 1, [2, 3]) == 3
        assert await db.lrange("l", 0, -1) == ["1", "2", "3"]
        assert await db.blpop("l", timeout=1) == ("l", "1")
        assert await db.bzpopmax("z", timeout=1) == ("z", "n", 2.0)
        cursor, keys = await db.scan(0, match="?", count=100)
        assert cursor == 0 and sorted(keys) == ["a", "h", "l", "s"]
        assert await db.hscan("h", 0) == (0, {"f": "1", "g": "2.5"})
        id = await db.xadd("stream", {"k": "v"}, id="1-1")
        assert id == "1-1"
        assert await db.xrange("stream") == [("1-1", {"k": "v"})]
        assert await db.xread({"stream": "0"}) == {"stream": [("1-1", {"k": "v"})]}
        assert await db.xread({"stream": "$"}, block=1) is None
        assert await db.config_get("maxmemory") == {"maxmemory": "0"}
        assert (await db.info("server")).startswith("# Server")
        assert await db.command("client  info") is not None
        assert await db.incrbyfloat("n", 0.5) == 0.5


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_user_without_a_password_is_that_user_or_nobody(
    redis: Client[str], protocol: int
) -> None:
    everything = ["+@all", "~*", "&*"]
    await redis.command("ACL SETUSER", "limited", "on", "nopass", *everything)
    await redis.command("ACL SETUSER", "guarded", "on", ">secret", *everything)

    async def whoami(login: str = "", **settings: Any) -> str:
        url = f"redis://{login}{REDIS.rpartition('@')[2]}"
        async with connect(url, protocol=protocol, **settings) as db:
            async with db.session() as own:
                assert await own.acl_whoami() == await db.acl_whoami()
            return await db.acl_whoami()

    assert await whoami("limited@") == await whoami("limited:@") == "limited"
    assert await whoami(user="limited") == "limited"
    assert await whoami(user="limited", password="") == "limited"
    assert await whoami("guarded:secret@") == "guarded"
    # Of the user default, which has a password here, nothing was said.
    for settings in ({}, {"user": "", "password": ""}):
        with pytest.raises(RedisError, match="NOAUTH"):
            await whoami(**settings)
    for user in ("guarded", "nobody", "default"):
        with pytest.raises(RedisError, match="given without a password") as caught:
            await whoami(user=user)
        assert (caught.value.code, caught.value.outcome) == ("WRONGPASS", "NotSent")
    await redis.command("ACL DELUSER", "limited", "guarded")


async def test_what_is_called_in_a_turn_takes_one_trip(
    far_redis: Client[str], redis_line: Line
) -> None:
    await far_redis.ping()
    assert redis_line.trips > 0
    calls = [far_redis.set(f"k{i}", i) for i in range(50)]
    value = far_redis.get("k49")
    assert await value == "49"
    assert await asyncio.gather(*calls) == ["OK"] * 50
    assert redis_line.trips == 1

    async def one(i: int) -> str | None:
        return await far_redis.get(f"k{i}")

    assert await asyncio.gather(*(one(i) for i in range(50))) == [str(i) for i in range(50)]
    assert redis_line.trips == 1


async def test_new_tasks_share_a_write(redis: Client[str]) -> None:
    async def reads() -> int:
        """What the server has read so far, in reads."""
        stats = str(await other.info("stats"))
        return int(stats.split("total_reads_processed:")[1].split()[0])

    async def one(i: int) -> None:
        for _ in range(3):
            await redis.get(f"k{i}")

    async with connect(REDIS) as other:
        before = await reads()
        await asyncio.gather(*(one(i) for i in range(100)))
        # Three of theirs, and the question.
        assert await reads() - before <= 4


async def test_a_call_is_what_asyncio_takes(redis: Client[str]) -> None:
    assert await asyncio.create_task(redis.incr("n")) == 1
    assert await asyncio.wait_for(redis.incr("n"), 600) == 2
    assert "INCR" in repr(redis.incr("n"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        redis.incr("n")
        # It is held until it is answered.
        assert await redis.get("n") == "4"
        gc.collect()
    assert any("never awaited" in str(it.message) for it in caught)


async def test_replies_go_to_their_callers_among_cancels(redis: Client[str]) -> None:
    seeded = random.Random(1)
    await asyncio.gather(*(redis.set(f"v{i}", f"value {i}") for i in range(100)))
    script = Script("return KEYS[1] .. ARGV[1]")
    clients = set(await ids(redis))

    async def one(number: int) -> None:
        match number % 5:
            case 0:
                assert await redis.get(f"v{number % 100}") == f"value {number % 100}"
            case 1:
                assert await redis.echo(f"e{number}") == f"e{number}"
            case 2:
                with pytest.raises(RedisError, match="not an integer"):
                    await redis.incr(f"v{number % 100}")
            case 3:
                assert await redis.call(script, ["k"], [number]) == f"k{number}"
            case _:
                async with redis.atomic() as tx:
                    first, second = tx.echo(f"{number}"), tx.get("v7")
                assert (await first, await second) == (str(number), "value 7")

    tasks = []
    for number in range(3000):
        tasks.append(asyncio.create_task(one(number)))
        if seeded.random() < 0.1:
            await asyncio.sleep(0)
            tasks[seeded.randrange(len(tasks))].cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    wrong = [end for end in ends if end and not isinstance(end, asyncio.CancelledError)]
    assert wrong == []
    assert clients <= set(await ids(redis))


async def ids(redis: Client[str]) -> list[str]:
    listed = await redis.client_list()
    return [line.split()[0] for line in str(listed).splitlines()]


async def test_an_error_says_what_became_of_the_command(redis: Client[str]) -> None:
    await redis.set("text", "x")
    with pytest.raises(RedisError) as caught:
        await redis.lpush("text", 1)
    error = caught.value
    assert (error.code, error.command, error.outcome) == ("WRONGTYPE", "LPUSH", "Rejected")
    assert error.is_retry_safe
    script = Script("redis.call('set', 'a', 1); return redis.call('incr', 'text')")
    with pytest.raises(RedisError) as caught:
        await redis.call(script)
    assert caught.value.outcome == "Unknown" and not caught.value.is_retry_safe


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("k", None), "argument 2 of SET is a NoneType"),
        (("k", True), "argument 2 of SET is a bool"),
        (("k", object()), "argument 2 of SET is a object"),
        (("\ud800", 1), "argument 1 of SET has a surrogate"),
    ],
)
async def test_what_is_no_argument_is_named(
    redis: Client[str], args: tuple[object, object], message: str
) -> None:
    with pytest.raises(onetrip.ParameterError, match=message) as caught:
        await redis.command("SET", *args)  # type: ignore[arg-type]
    assert caught.value.outcome == "NotSent"
    cyclic: list[object] = []
    cyclic.append(cyclic)
    with pytest.raises(onetrip.ParameterError, match="nested deeper"):
        await redis.command("DEL", cyclic)  # type: ignore[arg-type]


async def test_bytes_that_are_no_text_are_said_to_be(redis: Client[str]) -> None:
    await redis.set("k", b"\xff")
    with pytest.raises(onetrip.Error, match=r"not text in UTF-8: ask for bytes") as caught:
        await redis.get("k")
    assert caught.value.outcome == "Applied"
    assert await redis.bytes.get("k") == b"\xff"


async def test_a_list_runs_as_one(far_redis: Client[str], redis_line: Line) -> None:
    await far_redis.ping()
    assert redis_line.trips > 0
    async with far_redis.atomic() as tx:
        first, second, third = tx.set("k", "x"), tx.incr("k"), tx.hgetall("none")
    assert redis_line.trips == 1
    assert (await first, await third) == ("OK", {})
    with pytest.raises(RedisError, match="INCR: ERR value is not an integer"):
        await second
    with pytest.raises(RedisError, match="EXEC|wrong number"):
        async with far_redis.atomic() as tx:
            kept, wrong = tx.set("k", "y"), tx.command("GET")
    for call in (kept, wrong):
        with pytest.raises(RedisError) as caught:
            await call
        assert caught.value.outcome == "Rejected"
    with pytest.raises(ZeroDivisionError):
        async with far_redis.atomic() as tx:
            left = tx.set("k", "z")
            raise ZeroDivisionError
    with pytest.raises(onetrip.MisuseError, match="left by an error"):
        await left
    assert await far_redis.get("k") == "x"


async def test_a_session_watches(redis: Client[str]) -> None:
    await redis.set("n", 1)
    async with redis.session() as session:
        await session.watch("n")
        assert await session.get("n") == "1"
        await redis.set("n", 5)
        with pytest.raises(onetrip.Error, match="a watched key was changed") as caught:
            async with session.atomic() as tx:
                lost = tx.set("n", 2)
        assert caught.value.is_retry_safe
        with pytest.raises(onetrip.Error, match="a watched key was changed"):
            await lost
        await session.watch("n")
        async with session.atomic() as tx:
            value = tx.incr("n")
        assert await value == 6
        mine = await session.client_id()
    async with redis.session() as session:
        assert await session.client_id() == mine
        await session.command("SELECT", 1)
    async with redis.session() as session:
        # What was changed is nobody's after its caller.
        assert await session.client_id() != mine
        assert await session.get("n") == "6"


async def test_what_changes_a_connection_is_refused_on_the_shared_one(redis: Client[str]) -> None:
    for name, args, message in [
        ("WATCH", ("k",), r"it can't|can't go over the shared connection: take a session"),
        ("SELECT", (1,), "can't go over the shared connection: name the database"),
        ("SUBSCRIBE", ("c",), "can't be sent as a command: use subscribe"),
    ]:
        with pytest.raises(onetrip.MisuseError, match=message):
            await redis.command(name, *args)


async def test_a_script_goes_as_text_once(redis: Client[str]) -> None:
    await redis.script_flush()
    script = Script("return {KEYS[1], ARGV[1]}")
    assert await redis.call(script, ["k"], [1]) == ["k", "1"]
    await redis.config_resetstat()
    assert await redis.call(script, ["k"], [2]) == ["k", "2"]
    counted = await redis.info("commandstats")
    assert "cmdstat_evalsha" in counted and "cmdstat_eval:" not in counted
    # A server that has lost it gets the text again.
    async with connect(REDIS) as other:
        await other.script_flush()
    assert await redis.call(script, ["k"], [3]) == ["k", "3"]


async def test_what_blocks_holds_nobody_up(redis: Client[str]) -> None:
    waiting = asyncio.create_task(redis.blpop("queue", timeout=0))
    await asyncio.wait_for(redis.ping(), 600)
    await blocked(redis, 1)
    await redis.rpush("queue", "x")
    assert await waiting == ("queue", "x")
    # Given up, it takes nothing from the queue.
    waiting = asyncio.create_task(redis.blpop("queue", timeout=0))
    await blocked(redis, 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await blocked(redis, 0)
    await redis.rpush("queue", "y")
    assert await redis.lrange("queue", 0, -1) == ["y"]


async def blocked(redis: Client[str], count: int) -> None:
    """Until the server says that so many clients are blocked."""
    async with asyncio.timeout(600):
        while f"blocked_clients:{count}" not in await redis.info("clients"):
            pass


@pytest.mark.parametrize("protocol", [2, 3])
async def test_messages_come_and_go_on_after_a_loss(
    redis: Client[str], redis_line: Line, protocol: int
) -> None:
    async with connect(redis_line.url, protocol=protocol) as far:
        async with far.subscribe("news") as news, far.psubscribe("n*") as all_of:
            assert await redis.publish("news", "hello") == 2
            message = await anext(news)
            assert (message.channel, message.pattern, message.data) == ("news", None, "hello")
            assert (await anext(all_of)).pattern == "n*"
            redis_line.say("cut")
            async with asyncio.timeout(600):
                while await redis.publish("news", "again") < 2:
                    pass
                await after_loss(news)
        async with asyncio.timeout(600):
            while await redis.pubsub_numpat() != 0:
                pass


async def after_loss(news: Subscription[str]) -> None:
    assert (await anext(news)).data == "again"
    assert news.reconnects == 1


async def test_a_lost_connection_is_opened_again(redis_line: Line) -> None:
    async with connect(redis_line.url) as far:
        await far.set("k", 1)
        redis_line.say("rtt 10000")
        sent = far.incr("k")
        task = asyncio.create_task(sent)
        await asyncio.sleep(0)
        redis_line.say("cut")
        with pytest.raises(onetrip.ConnectionLostError) as caught:
            await task
        assert caught.value.outcome == "Unknown"
        redis_line.say("rtt 0")
        assert await far.ping() == "PONG"


async def test_who_can_not_log_in_is_told_at_once(redis: Client[str]) -> None:
    async with connect(REDIS) as db:
        await db.acl_setuser("guest", "on", ">secret", "~*", "+@all")
    host = REDIS.split("@")[-1].removeprefix("redis://")
    async with connect(f"redis://guest:secret@{host}") as guest:
        assert await guest.acl_whoami() == "guest"
    with pytest.raises(RedisError, match="WRONGPASS"):
        await connect(f"redis://guest:wrong@{host}")
    await redis.acl_deluser("guest")


async def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(onetrip.Error, match="127.0.0.1:1 can't be reached"):
        await connect("redis://127.0.0.1:1", wait_timeout_ms=3000)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://x", "a URL begins with redis://"),
        ("redis://x:99999", "a port is a number"),
        ("redis://x?colour=blue", "colour is not a setting"),
        ("redis://x/first", "db takes a whole number"),
    ],
)
def test_a_wrong_setting_is_named(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        connect(url)


async def test_a_closed_client_takes_nothing(redis: Client[str]) -> None:
    db = await connect(REDIS)
    last = db.incr("n")
    await db.close()
    assert await last == 1
    with pytest.raises(onetrip.MisuseError, match="the client was closed"):
        await db.ping()


async def test_a_stream_of_commands_needs_a_window(redis: Client[str]) -> None:
    taken = 0

    def commands() -> Iterator[tuple[object, ...]]:
        nonlocal taken
        for number in range(3_000):
            taken += 1
            yield ("LPUSH", "text", 1) if number == 1 else ("SET", f"k{number}", number)

    await redis.set("text", "x")
    replies = redis.stream(commands(), window=100)
    assert await anext(replies) == "OK" and taken == 100
    error = await anext(replies)
    assert isinstance(error, RedisError) and error.code == "WRONGTYPE"
    assert [reply async for reply in replies] == ["OK"] * 2_998
    assert await redis.get("k2999") == "2999"

    async def slowly() -> AsyncIterator[tuple[str, str]]:
        for number in (1, 2):
            await asyncio.sleep(0)
            yield "GET", f"k{number + 1}"

    raw = redis.bytes.stream(slowly(), window_bytes=1)
    assert [reply async for reply in raw] == [b"2", b"3"]


async def test_a_stream_that_is_left_takes_its_connection_with_it(redis: Client[str]) -> None:
    assert [reply async for reply in redis.stream([("PING",)])] == ["PONG"]
    before = set(await ids(redis))
    replies = redis.stream([("ECHO", n) for n in range(100)])
    assert await anext(replies) == "0"
    assert before == set(await ids(redis))
    await replies.aclose()
    async with asyncio.timeout(600):
        while before <= set(await ids(redis)):
            pass
    assert await redis.echo("mine") == "mine"


async def test_a_command_ends_at_its_deadline(redis: Client[str]) -> None:
    hurried = redis.timeout(0.05)
    # A connection that waits for it: then it leaves before its deadline can pass.
    await redis.blpop("none", timeout=0.01)
    with pytest.raises(onetrip.TimeoutError) as caught:
        await hurried.blpop("none", timeout=0)
    assert caught.value.outcome == "Unknown"
    await blocked(redis, 0)
    before = set(await ids(redis))
    await redis.client_pause(300, "ALL")
    late = hurried.set("k", "late")
    with pytest.raises(onetrip.TimeoutError):
        await late
    # It keeps its place, and its reply goes to nobody.
    assert await redis.get("k") == "late"
    assert before == set(await ids(redis))
    with pytest.raises(ValueError, match="a timeout is a number of seconds"):
        redis.timeout(-1)


async def test_a_deadline_covers_the_wait_for_a_connection(redis_line: Line) -> None:
    async with connect(redis_line.url, connections_max=1) as db:
        async with db.session():
            with pytest.raises(onetrip.TimeoutError) as caught:
                await db.timeout(0.05).blpop("none", timeout=0)
            assert caught.value.outcome == "NotSent"


async def test_what_may_run_twice_is_sent_again(redis: Client[str], redis_line: Line) -> None:
    async with connect(redis_line.url, repeat_reads=True) as far:
        await far.set("n", 1)
        calls: list[tuple[Callable[[], Any], Any]] = [
            (lambda: far.get("n"), "1"),
            (lambda: far.repeatable().setrange("n", 0, "7"), 1),
            (lambda: far.incr("n"), None),
        ]
        for call, ends in calls:
            redis_line.say("rtt 10000")
            task = asyncio.create_task(call())
            await asyncio.sleep(0)
            redis_line.say("cut")
            redis_line.say("rtt 0")
            if ends is None:
                with pytest.raises(onetrip.ConnectionLostError) as caught:
                    await task
                assert caught.value.outcome == "Unknown"
            else:
                assert await task == ends
        assert far.metrics().sent_again == 2
    async with connect(redis_line.url, attempts_max=1) as far:
        redis_line.say("rtt 10000")
        sent = asyncio.create_task(far.repeatable().incr("n"))
        await asyncio.sleep(0)
        redis_line.say("cut")
        with pytest.raises(onetrip.ConnectionLostError) as caught:
            await sent
        assert caught.value.outcome == "Unknown"
        redis_line.say("rtt 0")


async def test_what_is_sent_alone_holds_nobody_up(redis: Client[str]) -> None:
    await redis.set("k", "x" * 1000)
    shared = await redis.client_list()
    assert await redis.alone().get("k") == "x" * 1000
    assert str(await redis.client_list()).count("\n") == str(shared).count("\n") + 1


async def test_more_than_the_connection_takes_waits(redis: Client[str]) -> None:
    # Its window and its queue take 26,384. The time is for slow machines.
    async with connect(REDIS, wait_timeout_ms=60_000) as db:
        calls = [db.incr("n") for _ in range(30_000)]
        assert await asyncio.gather(*calls) == list(range(1, 30_001))


async def test_a_script_that_may_run_twice_is_sent_again(
    redis: Client[str], redis_line: Line
) -> None:
    async with connect(redis_line.url) as far:
        script = Script("return ARGV[1]")
        assert await far.call(script, [], ["x"]) == "x"
        redis_line.say("rtt 10000")
        task = asyncio.create_task(far.repeatable().call(script, [], ["y"]))
        await asyncio.sleep(0)
        redis_line.say("cut")
        redis_line.say("rtt 0")
        assert await task == "y"


async def test_metrics_count_all_connections(redis: Client[str]) -> None:
    before = redis.metrics()
    await redis.blpop("none", timeout=0.01)
    await redis.set("k", 1)
    now = redis.metrics()
    assert now.statements == before.statements + 2
    assert now.opened == before.opened + 1 and now.in_flight == 0


async def test_close_waits_for_so_long(redis: Client[str]) -> None:
    db = await connect(REDIS)
    waiting = asyncio.create_task(db.blpop("none", timeout=0))
    await blocked(redis, 1)
    await db.close(timeout=0.05)
    with pytest.raises(onetrip.ConnectionLostError, match="the client was closed"):
        await waiting
    await blocked(redis, 0)


async def test_sharded_channels_of_one_server_come_as_others(redis: Client[str]) -> None:
    async with redis.ssubscribe("news", "other") as messages:
        assert await redis.spublish("news", "hello") == 1
        message = await anext(messages)
        assert (message.channel, message.pattern, message.data) == ("news", None, "hello")
        await redis.command("CLIENT KILL", "TYPE", "pubsub")
        async with asyncio.timeout(600):
            while messages.reconnects == 0 or await redis.spublish("other", "again") == 0:
                await asyncio.sleep(0)
        assert (await anext(messages)).data == "again"
