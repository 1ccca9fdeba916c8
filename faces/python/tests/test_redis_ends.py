"""onetrip.redis where it is misused, and where it ends badly."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest
from conftest import REDIS

import onetrip
import onetrip.redis.asyncio
from onetrip.redis import Client, Script, connect


async def native(cancels: int) -> None:
    async with connect(REDIS) as db:
        await storm(db, db.echo, cancels)


async def drop_in(cancels: int) -> None:
    db = onetrip.redis.asyncio.Redis.from_url(REDIS, decode_responses=True)
    await storm(db, db.echo, cancels)
    await db.aclose()


async def storm(db: Any, echo: Any, cancels: int) -> None:
    """So many calls are cancelled at random moments; what the others get is theirs."""
    seeded, done, cancelled = random.Random(7), 0, 0
    before = await db.client_id()

    async def one(number: int) -> None:
        nonlocal done
        text = f"{number}-" + "x" * (number % 300)
        assert await echo(text) == text
        done += 1

    tasks: set[asyncio.Task[None]] = set()
    number = 0
    while cancelled < cancels:
        for _ in range(seeded.randrange(1, 60)):
            number += 1
            tasks.add(asyncio.create_task(one(number)))
        for _ in range(seeded.randrange(3)):
            await asyncio.sleep(0)
        for task in seeded.sample(sorted(tasks, key=id), min(len(tasks), seeded.randrange(1, 60))):
            cancelled += task.cancel()
        if len(tasks) > 500:
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert [end for end in ends if isinstance(end, Exception)] == []
            tasks.clear()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [end for end in ends if isinstance(end, Exception)] == []
    assert done > 0 and await db.client_id() == before


@pytest.mark.parametrize("kind", [native, drop_in])
@pytest.mark.filterwarnings("ignore:an onetrip call was never awaited")
async def test_ten_thousand_cancels_harm_nobody(redis: object, kind: Any) -> None:
    await kind(10_000)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("k", None), "argument 2 of SET is a NoneType"),
        (("k", 1j), "argument 2 of SET is a complex"),
        (("k", float("nan")), None),
        (("a\0b", "c\0d"), None),
        (("k", 10**4000), None),
        (("k", 10**5000), "argument 2 of SET is an int with too many digits"),
        (("k", bytearray(b"x"), "EX", memoryview(b"10")), None),
    ],
)
async def test_arguments_of_all_kinds(
    redis: Client[str], args: tuple[Any, ...], message: str | None
) -> None:
    if message is None:
        assert await redis.command("SET", *args) == "OK"
        assert await redis.get(args[0]) == str(args[1] if len(args) == 2 else "x")
    else:
        with pytest.raises(onetrip.ParameterError, match=message):
            await redis.command("SET", *args)


async def test_what_is_too_large_is_refused_before_it_is_sent(redis: Client[str]) -> None:
    with pytest.raises(onetrip.ParameterError, match="an argument of more than 512 MiB"):
        await redis.set("k", bytes((512 << 20) + 1))
    with pytest.raises(onetrip.ParameterError, match="more than 1,048,576 arguments"):
        await redis.delete(["k"] * (1 << 20))
    assert await redis.ping() == "PONG"


async def test_a_dict_that_changes_while_it_is_read(redis: Client[str]) -> None:
    fields: dict[Any, Any] = {}

    class Grows(str):
        def __str__(self) -> str:
            fields[len(fields)] = 1
            return "x"

    fields.update({Grows("a"): 1, Grows("b"): 2})
    assert await redis.hset("h", fields) == 2


async def test_a_thread_is_told_so(redis: Client[str]) -> None:
    told: list[str] = []

    def use() -> None:
        for work in (lambda: redis.get("k"), lambda: redis.bytes.get("k"), redis.atomic):
            try:
                work()
            except RuntimeError as error:
                told.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert told and all("by the thread and event loop that opened it" in it for it in told)
    assert await redis.ping() == "PONG"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_another_loop_is_told_so() -> None:
    if not REDIS:
        pytest.skip("no Redis was found")

    async def opened() -> Client[str]:
        return await connect(REDIS)

    loop = asyncio.new_event_loop()
    db = loop.run_until_complete(opened())
    loop.close()

    async def used() -> None:
        await asyncio.wait_for(db.get("k"), 600)

    with pytest.raises(RuntimeError, match="loop"):
        asyncio.run(used())


async def test_a_closed_client_is_left_by_all(redis: Client[str]) -> None:
    db = await connect(REDIS)
    views = [db.bytes, db.repeatable(), db.alone()]
    await db.close()
    await db.close()
    for view in [db, *views]:
        with pytest.raises(onetrip.MisuseError, match="closed"):
            await view.get("k")
        with pytest.raises(onetrip.MisuseError, match="closed"):
            await view.blpop("k", timeout=0)
        with pytest.raises(onetrip.MisuseError, match="closed"):
            await view.call(Script("return 1"))
        with pytest.raises(onetrip.MisuseError, match="closed"):
            async with view.session():
                pass
        with pytest.raises(onetrip.MisuseError, match="closed"):
            async with view.subscribe("c"):
                pass


async def test_a_client_is_freed(redis: Client[str]) -> None:
    class Mine:
        pass

    held = Mine()
    seen = weakref.ref(held)
    db = await connect(REDIS)
    db._parts.marker = held  # type: ignore[attr-defined]
    await db.blpop("none", timeout=0.01)
    async with db.subscribe("freed"):
        pass
    await anext(db.stream([("PING",)] * 10))
    await db.close()
    del db, held
    for _ in range(1000):
        await asyncio.sleep(0.01)
        gc.collect()
        if seen() is None:
            return
    raise AssertionError("it is still held")


#: Ends while commands, messages and a stream are on their way.
ABRUPT = """
import asyncio, onetrip.redis, sys

async def main():
    db = await onetrip.redis.connect(sys.argv[1])
    messages = db.subscribe("abrupt")
    await messages.__aenter__()
    work = [
        asyncio.ensure_future(db.blpop("none", timeout=0)),
        asyncio.ensure_future(db.stream([("BLPOP", "none", 0)]).__anext__()),
        asyncio.ensure_future(messages.__anext__()),
    ]
    await asyncio.sleep(0.1)
    work.append(db.get("k"))
    if sys.argv[2] == "raise":
        raise ValueError("enough")
    if sys.argv[2] == "exit":
        sys.exit(7)

asyncio.run(main())
print("ended")
"""


@pytest.mark.parametrize(("how", "code"), [("return", 0), ("exit", 7), ("raise", 1)])
def test_an_interpreter_that_ends_with_work_in_flight(how: str, code: int) -> None:
    if not REDIS:
        pytest.skip("no Redis was found")
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", ABRUPT, REDIS, how],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    assert "panicked" not in done.stderr and "Fatal" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_with_a_client_open() -> None:
    if not REDIS:
        pytest.skip("no Redis was found")
    script = """
import asyncio, os, onetrip.redis, sys

async def main():
    async with onetrip.redis.connect(sys.argv[1]) as db:
        assert await db.ping() == "PONG"
        child = os.fork()
        if child == 0:
            try:
                await asyncio.wait_for(db.ping(), 600)
            except RuntimeError as error:
                os._exit(5 if "fork" in str(error) else 6)
            os._exit(7)
        _, status = os.waitpid(child, 0)
        assert await db.ping() == "PONG"
        return os.waitstatus_to_exitcode(status)

print(asyncio.run(main()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, REDIS], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "5", done.stderr
