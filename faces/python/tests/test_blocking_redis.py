"""``onetrip.blocking.redis``: Redis for programs without async."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import onetrip
from onetrip.blocking import Timeout, redis
from onetrip.blocking.redis import Client

from conftest import PATIENCE, REDIS, Line
from test_blocking import until

pytestmark = pytest.mark.skipif(not REDIS, reason="no Redis was found")


@pytest.fixture
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    return asyncio.DefaultEventLoopPolicy()


@pytest.fixture
def db() -> Iterator[Client[str]]:
    with redis.connect(REDIS) as db:
        db.flushall()
        yield db


def test_a_command_returns_its_reply(db: Client[str]) -> None:
    assert db.set("name", "Ann") == "OK"
    assert db.get("name") == "Ann" and db.bytes.get("name") == b"Ann"
    assert db.hset("h", {"a": 1, "b": "x"}) == 2
    assert db.hgetall("h") == {"a": "1", "b": "x"}
    assert db.command("echo", "hi") == "hi"
    assert db.call("return ARGV[1]", [], ["x"]) == "x"
    with pytest.raises(onetrip.redis.RedisError) as error:
        db.incr("name")
    assert error.value.command == "INCR" and error.value.outcome == "Rejected"
    with pytest.raises(onetrip.Error, match="session"):
        db.command("watch", "name")


def test_a_pipeline_of_a_thousand_commands_is_one_trip(db: Client[str]) -> None:
    line = Line(REDIS)
    try:
        with redis.connect(line.url) as far:
            far.ping()
            line.trips
            with far.pipeline() as pipeline:
                calls = [pipeline.incr("n") for _ in range(1000)]
                wrong = pipeline.hget("n", "x")
            assert line.trips == 1
            assert [call.result() for call in calls] == list(range(1, 1001))
            with pytest.raises(onetrip.redis.RedisError, match="WRONGTYPE"):
                wrong.result()
            with far.pipeline() as pipeline:
                calls = [pipeline.incr("m") for _ in range(30_000)]
            assert calls[-1].result() == 30_000
            with pytest.raises(onetrip.Error, match="over"):
                pipeline.get("n").result()
    finally:
        line.close()


def test_lists_that_run_as_one(db: Client[str]) -> None:
    with db.atomic() as tx:
        paid, sold = tx.decrby("stock", 1), tx.rpush("sales", "1")
    assert (paid.result(), sold.result()) == (-1, 1)
    with db.session() as session:
        session.watch("stock")
        db.set("stock", 5)
        with pytest.raises(onetrip.Error) as error:
            with session.atomic() as tx:
                tx.set("stock", 9)
        assert error.value.code == "watched_key_changed"
    assert db.get("stock") == "5"


def test_threads_and_commands_that_block(db: Client[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        waiting = pool.submit(db.blpop, "queue", timeout=10)
        assert sorted(pool.map(lambda _: db.incr("n"), range(400))) == list(range(1, 401))
        db.rpush("queue", "job")
        assert waiting.result(10) == ("queue", "job")


def test_a_command_whose_time_is_over(db: Client[str]) -> None:
    with pytest.raises(onetrip.TimeoutError):
        with Timeout(0.05):
            db.blpop("queue", timeout=0)
    until(lambda: "cmd=blpop" not in db.command("client list"))
    # It goes to nobody.
    assert db.rpush("queue", "job") == db.llen("queue") == 1


@pytest.fixture
def far(db: Client[str]) -> Iterator[tuple[Client[str], Line]]:
    """By way of a line."""
    line = Line(REDIS)
    with redis.connect(line.url) as far:
        far.ping()
        yield far, line
        # What hangs ends with this.
        far.close(0)
    line.close()


def test_a_timeout_bounds_a_list(far: tuple[Client[str], Line]) -> None:
    client, line = far

    def work() -> None:
        with Timeout(1), client.atomic() as tx:
            calls.append(tx.incr("n"))
            line.say("stall")

    calls: list[Any] = []
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(work)
        try:
            with pytest.raises(onetrip.TimeoutError) as error:
                waiting.result(PATIENCE)
            assert error.value.outcome == "Unknown"
            with pytest.raises(onetrip.Error) as error:
                calls[0].result()
            assert error.value.outcome == "Unknown"
        finally:
            client.close(0)


def test_each_command_of_a_pipeline_whose_time_is_over_says_what_became_of_it(
    far: tuple[Client[str], Line],
) -> None:
    client, line = far
    with pytest.raises(onetrip.TimeoutError) as error:
        with Timeout(1), client.pipeline() as pipeline:
            calls = [pipeline.incr("n") for _ in range(3)]
            line.say("stall")
    assert error.value.outcome == "Unknown"
    for call in calls:
        with pytest.raises(onetrip.Error) as error:
            call.result()
        assert error.value.outcome == "Unknown"


def test_no_reply_of_a_pipeline_is_lost_that_came_as_its_time_was_over(db: Client[str]) -> None:
    for n in range(300):
        calls = []
        try:
            with Timeout(1e-4 + n % 50 * 1e-4), db.pipeline() as pipeline:
                calls += [pipeline.rpush("l", 1) for _ in range(30 + n % 7 * 100)]
        except onetrip.Error as error:
            assert error.outcome == "Unknown"
        db.ping()
        for call in calls:
            try:
                assert call.result() > 0
            except onetrip.Error as error:
                assert error.outcome in ("Unknown", "NotSent")


def test_what_the_block_of_a_pipeline_raises_stays_what_it_is(
    far: tuple[Client[str], Line],
) -> None:
    client, line = far
    with pytest.raises(KeyboardInterrupt):
        with Timeout(0.01), client.pipeline() as pipeline:
            pipeline.get("n")
            line.say("stall")
            raise KeyboardInterrupt


def test_ctrl_c_while_a_command_waits(db: Client[str]) -> None:
    def press() -> None:
        with redis.connect(REDIS) as other:
            until(lambda: "cmd=blpop" in other.command("client list"))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        db.blpop("queue", timeout=0)
    thread.join()
    until(lambda: "cmd=blpop" not in db.command("client list"))
    assert db.rpush("queue", "job") == 1 and db.lpop("queue") == "job"


def test_messages_and_a_time_to_wait_for_them(db: Client[str]) -> None:
    with db.subscribe("news") as messages:
        assert messages.take(0.01) is None
        db.publish("news", "a")
        message = messages.take(5)
        assert message is not None and (message.channel, message.data) == ("news", "a")
    with db.psubscribe("n*") as messages:
        db.publish("news", "b")
        assert next(messages).pattern == "n*"


def test_a_connection_that_was_lost(db: Client[str]) -> None:
    line = Line(REDIS)
    try:
        with redis.connect(line.url) as far:
            far.set("k", "v")
            line.say("cut")
            until(lambda: _get(far) == "v")
    finally:
        line.close()
    with pytest.raises(onetrip.Error, match="can't be reached"):
        redis.connect("redis://127.0.0.1:1", wait_timeout_ms=3000)


def _get(far: Client[str]) -> str | None:
    try:
        return far.get("k")
    except onetrip.ConnectionLostError:
        return None


def test_a_client_that_was_closed(db: Client[str]) -> None:
    other = redis.connect(REDIS)
    other.close()
    other.close()
    with pytest.raises(onetrip.Error, match="closed"):
        other.get("k")


def test_a_client_that_is_closed_amid_a_pipeline_with_a_timeout() -> None:
    db = redis.connect(REDIS)
    with Timeout(30), db.pipeline() as pipeline:
        call = pipeline.get("k")
        db.close(0)
    try:
        call.result()
    except onetrip.Error as error:
        assert error.outcome in ("NotSent", "Unknown")


def test_a_client_that_is_deleted_is_closed_in_the_background(db: Client[str]) -> None:
    before = db.command("client list").count("\n")
    gone = redis.connect(REDIS)
    with pytest.warns(ResourceWarning, match="not closed"):
        del gone
        gc.collect()
    until(lambda: db.command("client list").count("\n") <= before)
