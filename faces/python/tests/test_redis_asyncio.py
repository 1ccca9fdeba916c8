"""onetrip.redis.asyncio beside redis-py: the same program on both, with the same results."""

from __future__ import annotations

import asyncio
import inspect
import socket
import warnings
from types import ModuleType
from typing import Any

import pytest
import redis
import redis.asyncio
from conftest import REDIS, Line, until
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

import onetrip.redis
import onetrip.redis.asyncio as ours

BOTH = [redis.asyncio, ours]


async def told(work: Any) -> Any:
    """What it returns, or how it fails."""
    try:
        return await work
    except Exception as error:
        return type(error), str(error)


async def strings(db: Any) -> list[Any]:
    return [
        await db.set("a", "1", ex=10),
        await db.set("a", "2", nx=True),
        await db.get("a"),
        await db.mget("a", "none"),
        await db.incrbyfloat("f", 1.5),
        await db.expire("a", 10),
        await db.type("a"),
        await db.exists("a", "f"),
        await told(db.lpush("a", 1)),
        await told(db.set("a", True)),
        await told(db.execute_command("NOSUCH", "x")),
    ]


async def shapes(db: Any) -> list[Any]:
    return [
        await db.hset("h", mapping={"f": 1, "g": b"\xc3\xa4"}),
        await db.hgetall("h"),
        await db.sadd("s", "x", "y"),
        await db.smembers("s"),
        await db.zadd("z", {"m": 1.5, "n": 2}),
        await db.zrange("z", 0, -1, withscores=True),
        await db.zscore("z", "m"),
        await db.zpopmin("z"),
        await db.rpush("l", 1, 2),
        await db.blpop("l", timeout=1),
        await db.xadd("x", {"k": "v"}, id="1-1"),
        await db.xrange("x"),
        await db.xread({"x": "0"}),
        await db.scan(0, match="h"),
        [key async for key in db.scan_iter(match="l")],
        (await db.info("server"))["redis_mode"],
        await db.config_get("maxmemory"),
        await db.echo("hello"),
        await db.ping(),
        await db.client_setname("me"),
    ]


async def pipelines(db: Any) -> list[Any]:
    made: list[Any] = []
    for transaction in (True, False):
        async with db.pipeline(transaction=transaction) as pipe:
            made.append(await pipe.set("p", 1).incr("p").hgetall("none").execute())
            pipe.set("p", "x").incr("p").get("p")
            made.append([str(end) for end in await pipe.execute(raise_on_error=False)])
            made.append(len(pipe))
            pipe.incr("p")
            made.append(await told(pipe.execute()))
    async with db.pipeline() as pipe:
        await pipe.watch("w")
        made.append(await pipe.get("w"))
        pipe.multi()
        pipe.set("w", 1)
        made.append(await pipe.execute())
        await pipe.watch("w")
        await db.set("w", 2)
        pipe.multi()
        pipe.set("w", 3)
        made.append(await told(pipe.execute()))
    made.append(await db.transaction(lambda pipe: pipe.multi() or pipe.incr("w"), "w"))
    return made


async def scripts(db: Any) -> list[Any]:
    script = db.register_script("return {KEYS[1], ARGV[1]}")
    made = [await script(keys=["k"], args=[1]), await script(keys=["k"], args=[2])]
    made.append(await db.eval("return 7", 0))
    async with db.lock("lock", timeout=5) as lock:
        made.append(await lock.owned())
    return made


async def messages(db: Any) -> list[Any]:
    async with db.pubsub() as of:
        await of.subscribe("c")
        made = [await of.get_message(timeout=5)]
        made.append(await db.publish("c", "hello"))
        made.append(await of.get_message(timeout=5))
    return made


@pytest.mark.parametrize("decodes", [False, True])
@pytest.mark.parametrize("protocol", [None, 2, 3])
@pytest.mark.parametrize("scenario", [strings, shapes, pipelines, scripts, messages])
async def test_a_program_sees_the_same(
    redis: onetrip.redis.Client[str], scenario: Any, protocol: int | None, decodes: bool
) -> None:
    seen = []
    for module in BOTH:
        await redis.flushall()
        await redis.script_flush()
        options: dict[str, Any] = {} if protocol is None else {"protocol": protocol}
        db = module.from_url(REDIS, decode_responses=decodes, **options)
        seen.append(await scenario(db))
        await db.aclose()
    assert seen[1] == seen[0]


@pytest.mark.parametrize("module", BOTH[1:])
async def test_tasks_share_trips(redis_line: Line, module: ModuleType) -> None:
    db = module.Redis.from_url(redis_line.url)
    await db.ping()
    assert redis_line.trips > 0
    await asyncio.gather(*(db.set(f"k{i}", i) for i in range(100)))
    assert redis_line.trips == 1
    await db.aclose()


async def test_pools_and_exceptions_are_those_of_redis(redis: onetrip.redis.Client[str]) -> None:
    pool = ours.BlockingConnectionPool.from_url(REDIS, decode_responses=True)
    first, second = ours.Redis(connection_pool=pool), ours.Redis(connection_pool=pool)
    assert isinstance(first, redis_module().asyncio.Redis)
    assert await first.set("k", "x") is True and await second.get("k") == "x"
    with pytest.raises(redis_module().exceptions.ResponseError):
        await first.incr("k")
    await pool.disconnect()
    assert await second.get("k") == "x"
    await pool.disconnect()
    lost = ours.Redis(port=1, socket_connect_timeout=0.05)
    with pytest.raises(redis_module().exceptions.ConnectionError):
        await lost.ping()
    await lost.aclose()


def test_the_public_surface_is_that_of_redis() -> None:
    original = redis_module().asyncio
    assert ours.__all__ == original.__all__
    replaced = {"Redis", "StrictRedis", "ConnectionPool", "BlockingConnectionPool", "from_url"}
    replaced |= {"Sentinel", "SentinelConnectionPool"}
    for name in original.__all__:
        theirs, mine = getattr(original, name), getattr(ours, name)
        if name not in replaced:
            assert mine is theirs, name
        elif inspect.isclass(theirs):
            assert issubclass(mine, theirs), name
            for part in filter(lambda part: not part.startswith("_"), dir(theirs)):
                same_call(getattr(theirs, part), getattr(mine, part))
        else:
            same_call(theirs, mine)
    same_call(original.client.Pipeline.execute, ours.Pipeline.execute)


def same_call(theirs: Any, mine: Any) -> None:
    """Whether whoever calls the one can call the other."""
    assert callable(theirs) == callable(mine)
    if theirs is mine or not inspect.isfunction(theirs):
        return
    wanted, given = (inspect.signature(of).parameters for of in (theirs, mine))
    any_of = {it.kind for it in given.values()}
    if inspect.Parameter.VAR_KEYWORD not in any_of:
        assert list(wanted) == list(given), theirs
    assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(mine), theirs


async def test_a_pool_that_redis_connects_itself_is_left_to_it(
    redis: onetrip.redis.Client[str],
) -> None:
    class Mine(redis_module().asyncio.Connection):  # type: ignore[misc, name-defined]
        pass

    pool = ours.ConnectionPool.from_url(REDIS, connection_class=Mine)
    db = ours.Redis(connection_pool=pool)
    assert await db.set("k", "x") is True
    assert await db.pipeline().get("k").execute() == [b"x"]
    assert len(pool._available_connections) == 1
    await db.aclose()


async def test_who_logs_in_later_is_that_user_from_then_on(
    redis: onetrip.redis.Client[str],
) -> None:
    await redis.acl_setuser("clerk", "on", ">first", ">second", "~*", "+@all")
    given: list[str] = []

    class Provider(redis_module().CredentialProvider):  # type: ignore[misc, name-defined]
        def get_credentials(self) -> tuple[str, str]:
            given.append("second")
            return "clerk", given[-1]

    url = f"redis://{REDIS.split('@')[-1].removeprefix('redis://')}"
    db = ours.from_url(url, credential_provider=Provider())
    assert await db.acl_whoami() == "clerk" and given == ["second"]
    assert await db.auth("first", "clerk") is True
    with pytest.raises(redis_module().AuthenticationError):
        await db.auth("wrong", "clerk")
    assert await asyncio.gather(db.acl_whoami(), db.ping()) == ["clerk", True]
    await db.aclose()
    await redis.acl_deluser("clerk")


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_user_without_a_password_is_who_it_is_with_redis_py(
    redis: onetrip.redis.Client[str], protocol: int
) -> None:
    everything = ["+@all", "~*", "&*"]
    await redis.command("ACL SETUSER", "limited", "on", "nopass", *everything)
    await redis.command("ACL SETUSER", "guarded", "on", ">secret", *everything)
    url = f"redis://{REDIS.rpartition('@')[2]}"

    async def whoami(db: Any) -> Any:
        try:
            return await db.acl_whoami()
        except Exception as error:
            return type(error).__name__
        finally:
            await db.aclose()

    logins: list[dict[str, Any]] = [
        {"username": "limited"},
        {"username": "limited", "password": ""},
        {"username": "guarded", "password": "secret"},
        {"username": "guarded"},
        {"username": "guarded", "password": ""},
        {"username": "nobody"},
        {"username": "", "password": ""},
        {"password": ""},
    ]
    seen = []
    for module in BOTH:
        once = {"retry": Retry(NoBackoff(), 0), "protocol": protocol, "decode_responses": True}
        names = [await whoami(module.from_url(url, **of, **once)) for of in logins]
        by_url = url.replace("//", "//limited@")
        seen.append([*names, await whoami(module.from_url(by_url, **once))])
    assert seen[1] == seen[0]
    # Nothing is said of the last two, so the server asks for the password of its user default.
    refused = ["AuthenticationError"] * 5
    assert seen[1] == ["limited", "limited", "guarded", *refused, "limited"]
    await redis.acl_deluser("limited", "guarded")


@pytest.mark.parametrize(
    "more", ["ssl=true", "bogus=1", "ssl_cert_reqs=bogus", "socket_timout=1", "sslmode=require"]
)
@pytest.mark.parametrize("scheme", ["redis", "rediss"])
async def test_what_redis_py_does_not_know_is_refused_as_by_it(
    redis: onetrip.redis.Client[str], scheme: str, more: str
) -> None:
    url = f"{scheme}{REDIS.removeprefix('redis')}?{more}"
    refused: list[Any] = []
    for module in BOTH:
        db = module.from_url(url)
        with pytest.raises(Exception) as caught:
            await db.execute_command("CLIENT INFO")
        refused.append((caught.type, str(caught.value)))
        await db.aclose()
    assert refused[1] == refused[0] and refused[0][0] in (TypeError, redis_module().RedisError)


async def is_connected(db: Any) -> bool:
    """On a busy machine the first attempts may take longer than they may."""
    try:
        return bool(await db.ping())
    except redis_module().RedisError:
        return False


async def test_a_command_that_is_not_answered_in_time(redis: onetrip.redis.Client[str]) -> None:
    db = ours.from_url(REDIS, socket_timeout=0.1)
    await until(lambda: is_connected(db))
    await redis.client_pause(400, "ALL")
    with pytest.raises(redis_module().TimeoutError):
        await db.get("k")
    # What may wait is not limited.
    assert await db.blpop("none", timeout=0.3) is None
    await db.aclose()


def redis_module() -> ModuleType:
    """The name stands for a fixture here."""
    import redis as module

    return module


async def test_a_pipeline_that_is_cancelled_leaves_no_warning(redis_line: Line) -> None:
    async with ours.from_url(redis_line.url) as db:
        await db.ping()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for is_transaction in (True, False):
                pipeline = db.pipeline(transaction=is_transaction).set("a", 1).get("a")
                task = asyncio.create_task(pipeline.execute())
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                del pipeline, task
        assert not warned
        assert await db.get("a") == b"1"


async def test_sharded_channels_are_those_of_redis_py(redis: Any) -> None:
    db = ours.from_url(REDIS)
    pubsub = db.pubsub()
    await pubsub.ssubscribe("news")
    assert await pubsub.get_message(timeout=5) is not None
    assert await db.spublish("news", "hello") == 1
    message = await pubsub.get_message(timeout=5)
    assert message is not None and (message["type"], message["data"]) == ("smessage", b"hello")
    await pubsub.sunsubscribe("news")
    await pubsub.aclose()
    await db.aclose()


@pytest.mark.parametrize("is_transaction", [False, True])
async def test_a_pipeline_of_any_length_waits_in_no_line(is_transaction: bool) -> None:
    """More commands than a connection takes at once, and hardly any time for a line."""
    async with ours.Redis.from_url(REDIS, socket_connect_timeout=0.5) as db:
        await until(lambda: is_connected(db))
        pipeline = db.pipeline(transaction=is_transaction)
        for number in range(100_000):
            pipeline.echo(number)
        found = await pipeline.execute()
        assert found == [str(number).encode() for number in range(100_000)]


async def test_nothing_of_a_pipeline_follows_a_lost_connection(
    redis_line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was under way may have run, and the rest does not, over a new connection."""
    monkeypatch.setattr(ours, "_WINDOW", 2)
    async with ours.Redis.from_url(redis_line.url) as db:
        await db.delete("cut")
        pipeline = db.pipeline(transaction=False).rpush("cut", 1)
        # The one who cuts, and what is under way with it.
        pipeline.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
        for number in range(20):
            pipeline.rpush("cut", number)
        found = await pipeline.execute(raise_on_error=False)
        assert isinstance(found[-1], redis.ConnectionError)
        assert found[-1].__cause__.outcome == "NotSent"
        assert await db.llen("cut") <= 4
        with pytest.raises(redis.ConnectionError):
            await pipeline.rpush("cut", 1).execute_command(
                "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"
            ).rpush("cut", 2).rpush("cut", 3).execute()
        await db.delete("cut")


async def test_the_library_is_named_and_the_socket_set_as_asked() -> None:
    """By a server that has no CLIENT SETINFO, as those before 7.2, and is used all the same."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            words = []
            for _ in range(int(line[1:])):
                size = int((await reader.readline())[1:])
                words.append((await reader.readexactly(size + 2))[:-2])
            heard.append(b" ".join(words))
            refused = words[:2] == [b"CLIENT", b"SETINFO"]
            writer.write(b"-ERR unknown subcommand\r\n" if refused else b"+PONG\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        for protocol in (2, 3):
            heard.clear()
            db = ours.Redis(
                port=port, lib_name="mine", lib_version="9", protocol=protocol, client_name="me",
                db=1, socket_keepalive=True, socket_keepalive_options={socket.TCP_KEEPIDLE: 77},
            )
            assert await db.ping()
            told = [text for text in heard if text.startswith(b"CLIENT SETINFO")]
            assert told == [b"CLIENT SETINFO LIB-NAME mine", b"CLIENT SETINFO LIB-VER 9"]
            host = ours._clients[db.connection_pool][1]._parts.shared
            (transport, _), = host._transports.values()
            line = transport.get_extra_info("socket")
            assert line.getsockopt(socket.SOL_TCP, socket.TCP_KEEPIDLE) == 77
            assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            await db.aclose()
