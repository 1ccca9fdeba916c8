"""onetrip.redis on a cluster of two masters."""

from __future__ import annotations

import asyncio
import os
import random
import re
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator

import pytest

import onetrip
from onetrip.redis import Client, RedisError, Script, connect

SERVER = os.environ.get("ONETRIP_REDIS_SERVER", "")
SLOTS = 16384


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def ports() -> Iterator[list[int]]:
    """Two servers, each with half of the slots."""
    if not SERVER:
        pytest.skip("no Redis was found")
    with tempfile.TemporaryDirectory() as place:
        ports = [free_port(), free_port()]
        started = []
        for port in ports:
            options = {
                "port": port,
                "bind": "127.0.0.1",
                "dir": place,
                "save": "",
                "cluster-enabled": "yes",
                "cluster-config-file": f"nodes-{port}.conf",
                "cluster-port": free_port(),
            }
            words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
            process = subprocess.Popen([SERVER, *words], stdout=subprocess.DEVNULL)
            started.append((process, options["cluster-port"]))
        asyncio.run(joined(ports, int(str(started[1][1]))))
        yield ports
        for process, _ in started:
            process.terminate()
            process.wait()


async def there(port: int) -> Client[str]:
    """A client of a server that starts: who opens one is told where none is yet."""
    while True:
        try:
            return await connect(f"redis://127.0.0.1:{port}")
        except onetrip.ConnectionLostError:
            pass


async def joined(ports: list[int], bus: int) -> None:
    first, second = [await asyncio.wait_for(there(port), 600) for port in ports]
    await first.cluster_addslotsrange(0, SLOTS // 2 - 1)
    await second.cluster_addslotsrange(SLOTS // 2, SLOTS - 1)
    await first.cluster_meet("127.0.0.1", ports[1], bus)
    async with asyncio.timeout(600):
        for node in (first, second):
            while "cluster_state:ok" not in str(await node.cluster_info()):
                pass
            while len(await node.cluster_slots()) < 2:
                pass
    await first.close()
    await second.close()


@pytest.fixture
async def cluster(ports: list[int]) -> AsyncIterator[Client[str]]:
    async with connect(f"redis://127.0.0.1:{ports[0]}?cluster=1") as cluster:
        await cluster.flushall()
        yield cluster


async def test_commands_go_to_the_nodes_of_their_keys(cluster: Client[str]) -> None:
    await asyncio.gather(*(cluster.set(f"k{i}", i) for i in range(200)))
    values = await asyncio.gather(*(cluster.get(f"k{i}") for i in range(200)))
    assert values == [str(i) for i in range(200)]
    # Over several nodes: parts that become one reply.
    assert await cluster.mget(*(f"k{i}" for i in range(200))) == values
    assert await cluster.dbsize() == 200
    assert await cluster.exists("k1", "k2", "none") == 2
    assert await cluster.delete([f"k{i}" for i in range(100)]) == 100
    with pytest.raises(onetrip.Error, match="hash slot"):
        await cluster.sinter("a", "b")
    with pytest.raises(RedisError) as caught:
        await cluster.lpush("k150", 1)
    assert (caught.value.code, caught.value.outcome) == ("WRONGTYPE", "Rejected")


async def test_a_user_without_a_password_is_that_user_at_each_node(
    cluster: Client[str], ports: list[int]
) -> None:
    for port in ports:
        async with connect(f"redis://127.0.0.1:{port}") as node:
            await node.command("ACL SETUSER", "limited", "on", "nopass", "+@all", "~*")
    async with connect(f"redis://limited@127.0.0.1:{ports[0]}?cluster=1") as limited:
        for number in range(10):
            async with limited.session(f"k{number}") as own:
                assert await own.acl_whoami() == "limited"
                await limited.set(f"k{number}", 1)
                lines = str(await own.command("CLIENT LIST")).splitlines()
                assert any("cmd=set " in it and "user=limited " in it for it in lines)


async def test_lists_scripts_and_sessions(cluster: Client[str]) -> None:
    async with cluster.atomic() as tx:
        first, second = tx.incr("{x}a"), tx.incr("{x}b")
    assert (await first, await second) == (1, 1)
    with pytest.raises(onetrip.Error, match="slot"):
        async with cluster.atomic() as tx:
            calls = tx.incr("a"), tx.incr("b")
    for call in calls:
        with pytest.raises(onetrip.Error, match="slot"):
            await call
    script = Script("return KEYS[1]")
    keys = [f"s{i}" for i in range(20)]
    assert await asyncio.gather(*(cluster.call(script, [key]) for key in keys)) == keys
    async with cluster.session("{x}a") as session:
        await session.watch("{x}a")
        async with session.atomic() as tx:
            third = tx.incr("{x}a")
        assert await third == 2


async def test_what_blocks_holds_nobody_up_and_can_be_given_up(cluster: Client[str]) -> None:
    waiting = asyncio.create_task(cluster.blpop("queue", timeout=0))
    await asyncio.wait_for(cluster.get("queue2"), 600)
    await cluster.rpush("queue", "x")
    assert await waiting == ("queue", "x")
    waiting = asyncio.create_task(cluster.blpop("queue", timeout=0))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await cluster.ping() == "PONG"


async def test_messages_come_from_any_node(cluster: Client[str]) -> None:
    async with cluster.subscribe("news") as news:
        await cluster.publish("news", "hello")
        assert (await anext(news)).data == "hello"


async def test_messages_of_sharded_channels_come_from_the_nodes_of_their_slots(
    cluster: Client[str], ports: list[int]
) -> None:
    names = [f"channel-{number}" for number in range(20)]
    nodes = [await connect(f"redis://127.0.0.1:{port}") for port in ports]

    async def subscribed() -> list[int]:
        return [len(await node.command("PUBSUB SHARDCHANNELS")) for node in nodes]

    async with cluster.ssubscribe(*names) as first, cluster.ssubscribe(names[0]) as second:
        counts = await subscribed()
        assert sum(counts) == len(names) and all(counts)
        for name in names:
            await cluster.spublish(name, f"for {name}")
        got = {(message := await anext(first)).channel: message.data for _ in names}
        assert got == {name: f"for {name}" for name in names}
        message = await anext(second)
        assert (message.channel, message.pattern, message.data) == (names[0], None, got[names[0]])
        # Who leaves takes nobody else's channel along.
        second.close()
        await cluster.spublish(names[0], "again")
        assert (await anext(first)).data == "again"
    async with asyncio.timeout(600):
        while any(await subscribed()):
            pass
    for node in nodes:
        await node.close()


async def agreed(nodes: list[Client[str]]) -> None:
    """Waits until the nodes know the last epoch. One that does not would take a slot with an older
    one, and the claim of the node that had it would win."""
    async with asyncio.timeout(600):
        while True:
            infos = [str(await node.command("CLUSTER INFO")) for node in nodes]
            epochs = {tuple(re.findall(r"current_epoch:(\d+)", info)) for info in infos}
            if len(epochs) == 1:
                return


async def test_a_sharded_channel_follows_its_slot_and_no_message_comes_twice(
    cluster: Client[str], ports: list[int]
) -> None:
    slot = int(str(await cluster.cluster_keyslot("moving")))
    nodes = [await connect(f"redis://127.0.0.1:{port}") for port in ports]
    ids = [str(await node.cluster_myid()) for node in nodes]
    at = slot >= SLOTS // 2

    async def give_to(place: int) -> None:
        old, new = nodes[1 - place], nodes[place]
        await agreed(nodes)
        await new.command("CLUSTER SETSLOT", slot, "IMPORTING", ids[1 - place])
        await old.command("CLUSTER SETSLOT", slot, "MIGRATING", ids[place])
        for node in (new, old):
            await node.command("CLUSTER SETSLOT", slot, "NODE", ids[place])

    async with cluster.ssubscribe("moving") as messages, asyncio.timeout(600):
        for turn, place in enumerate([1 - at, int(at)], start=1):
            await give_to(place)
            while messages.reconnects < turn:
                await asyncio.sleep(0)
            for number in range(10):
                await nodes[place].spublish("moving", f"{turn}.{number}")
            found = [(await anext(messages)).data for _ in range(10)]
            assert found == [f"{turn}.{number}" for number in range(10)]
        # A lost connection is the same to it.
        await nodes[at].command("CLIENT KILL", "TYPE", "pubsub")
        while messages.reconnects < 3:
            await asyncio.sleep(0)
        await nodes[at].spublish("moving", "at last")
        assert (await anext(messages)).data == "at last"
    for node in nodes:
        await node.close()


async def test_sharded_channels_of_a_cluster_need_resp3(ports: list[int]) -> None:
    async with connect(f"redis://127.0.0.1:{ports[0]}?cluster=1&protocol=2") as db:
        with pytest.raises(onetrip.MisuseError) as caught:
            db.ssubscribe("news")
        assert (caught.value.code, caught.value.outcome) == ("sharded_needs_resp3", "NotSent")


async def test_a_slot_that_moves_is_followed(cluster: Client[str], ports: list[int]) -> None:
    await cluster.set("moving", 1)
    slot = int(str(await cluster.cluster_keyslot("moving")))
    nodes = [await connect(f"redis://127.0.0.1:{port}") for port in ports]
    names = [str(await node.cluster_myid()) for node in nodes]
    at = slot >= SLOTS // 2
    old, new = nodes[at], nodes[not at]
    await agreed(nodes)
    await new.command("CLUSTER SETSLOT", slot, "IMPORTING", names[at])
    await old.command("CLUSTER SETSLOT", slot, "MIGRATING", names[not at])
    await old.migrate("127.0.0.1", ports[not at], "moving", 0, 5000)
    # ASK, for a command, a list and a script.
    assert await cluster.incr("moving") == 2
    async with cluster.atomic() as tx:
        count = tx.incr("moving")
    assert await count == 3
    script = Script("return redis.call('incr', KEYS[1])")
    assert await cluster.call(script, ["moving"]) == 4
    for node in (new, old):
        await node.command("CLUSTER SETSLOT", slot, "NODE", names[not at])
    # MOVED.
    assert await cluster.incr("moving") == 5
    # And back, for the other tests. A node takes a new epoch for a slot that it imports, so that no
    # message under way from the node that had it is believed.
    await cluster.delete("moving")
    await agreed(nodes)
    await old.command("CLUSTER SETSLOT", slot, "IMPORTING", names[not at])
    await new.command("CLUSTER SETSLOT", slot, "MIGRATING", names[at])
    for node in (old, new):
        await node.command("CLUSTER SETSLOT", slot, "NODE", names[at])
    for node in nodes:
        await node.close()


async def test_replies_go_to_their_callers_among_cancels(cluster: Client[str]) -> None:
    seeded = random.Random(2)
    await asyncio.gather(*(cluster.set(f"v{i}", f"value {i}") for i in range(50)))

    async def one(number: int) -> None:
        assert await cluster.get(f"v{number % 50}") == f"value {number % 50}"

    tasks = []
    for number in range(2000):
        tasks.append(asyncio.create_task(one(number)))
        if seeded.random() < 0.1:
            await asyncio.sleep(0)
            tasks[seeded.randrange(len(tasks))].cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert [end for end in ends if end and not isinstance(end, asyncio.CancelledError)] == []
